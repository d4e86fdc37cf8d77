"""Sums over weighted sparse rows, and triangles of symmetric matrices."""

import numpy as np

from glmesh.kernels.jit import ONE, THREE, TWO, ZERO, inlined, kernel


@kernel
def add_gram(matrix, h, position, ones, out, scratch):
    """Add sum_i h_i x_i x_i^T to the upper triangle of `out`, shape (n, n), for the m rows x_i of a CSR matrix.

    `matrix` is (indptr, indices, data), h has shape (m,). position[j] in 0..n - 1 is the place in `out` of column j
    of the matrix, and negative if the column is left out; places and the indices of a row ascend. Rows are added one
    after the other, so the bits depend on nothing else. If `ones`, each row has a 1 in the last column of `out`.
    `scratch` is two arrays with an entry more than places, unsigned and float, which are overwritten.
    """
    indptr, indices, data = matrix
    found, values = scratch
    last = np.uint64(out.shape[0] - 1)
    for i in range(np.uint64(h.size)):
        weight = h[i]
        if weight == 0.0:
            continue
        n = ZERO
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + ONE])):
            at = position[np.uint64(indices[e])]
            if at >= 0:
                found[n] = np.uint64(at)
                values[n] = data[e]
                n += ONE
        if ones:
            found[n] = last
            values[n] = 1.0
            n += ONE
        for a in range(n):
            factor = weight * values[a]
            row = out[found[a]]
            for b in range(a, n):
                row[found[b]] += factor * values[b]


CHUNK = np.uint64(256)  # rows that are added by themselves first, so that rounding does not grow with all rows


@kernel
def add_dense_gram(X, h, scaled, out):
    """Add the upper triangle of diag(f) Z' diag(h) Z diag(f) to `out`, shape (n (n + 1) / 2,), row by row of it.

    Z is X, shape (m, p), and a column of ones after it if n = p + 1; `scaled` is (f (n,), scratch like `out`). Rows
    with h = 0 are skipped, and four others are added at a time, which reads and writes the scratch a fourth as often;
    entries that are zero in all four are skipped.
    """
    factors, part = scaled
    n, end = np.uint64(factors.size), np.uint64(h.size)
    first, second, third = ZERO, ZERO, ZERO
    for begin in range(ZERO, end, CHUNK):
        part[:] = 0.0
        waiting = ZERO
        for i in range(begin, min(begin + CHUNK, end)):
            if h[i] == 0.0:
                continue
            if waiting == ZERO:
                first = np.uint64(i)
            elif waiting == ONE:
                second = np.uint64(i)
            elif waiting == TWO:
                third = np.uint64(i)
            else:
                _add_four(X, h, (first, second, third, i), part, n)
                waiting = ZERO
                continue
            waiting += ONE
        if waiting > ZERO:
            _add_one(X, h, first, part, n)
        if waiting > ONE:
            _add_one(X, h, second, part, n)
        if waiting > TWO:
            _add_one(X, h, third, part, n)
        t = ZERO
        for a in range(n):
            for b in range(a, n):
                out[t] += part[t] * factors[a] * factors[b]
                t += ONE


@inlined
def _add_one(X, h, i, part, n):
    """Add h_i z_i z_i^T to the upper triangle `part`, in place; z_i is row i of X, with a 1 after it if n = p + 1."""
    p, row, t = np.uint64(X.shape[1]), X[i], ZERO
    for a in range(p):
        factor = h[i] * row[a]
        if factor != 0.0:
            for b in range(a, p):
                part[t + b - a] += factor * row[b]
            if n > p:
                part[t + p - a] += factor
        t += n - a
    if n > p:
        part[t] += h[i]


@inlined
def _add_four(X, h, four, part, n):
    """Add h_i z_i z_i^T of the four rows i of X in `four` to the upper triangle `part`, in place.

    z_i is row i of X, with a 1 after it if n = p + 1.
    """
    i, j, k, o = four
    p, t = np.uint64(X.shape[1]), ZERO
    x, y, z, u = X[i], X[j], X[k], X[o]
    for a in range(p):
        c, d, e, f = h[i] * x[a], h[j] * y[a], h[k] * z[a], h[o] * u[a]
        if c != 0.0 or d != 0.0 or e != 0.0 or f != 0.0:
            for b in range(a, p):
                part[t + b - a] += (c * x[b] + d * y[b]) + (e * z[b] + f * u[b])
            if n > p:
                part[t + p - a] += (c + d) + (e + f)
        t += n - a
    if n > p:
        part[t] += (h[i] + h[j]) + (h[k] + h[o])


@kernel
def standardised_products(X, mean, inverse, ways, Z, out):
    """Write (X - mean) inverse, and ones after it if d = p + 1, to Z, shape (m, d), and Z ways to `out`, shape (m, 4).

    X has shape (m, p), mean and inverse (p,), and ways (d, 4), four so that their sums stay in registers.
    """
    p, d = np.uint64(X.shape[1]), np.uint64(Z.shape[1])
    for i in range(np.uint64(X.shape[0])):
        row, z, found = X[i], Z[i], out[i]
        for j in range(p):
            z[j] = (row[j] - mean[j]) * inverse[j]
        if d > p:
            z[p] = 1.0
        first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
        for j in range(d):
            if z[j] != 0.0:
                way = ways[j]
                first += z[j] * way[ZERO]
                second += z[j] * way[ONE]
                third += z[j] * way[TWO]
                fourth += z[j] * way[THREE]
        found[ZERO], found[ONE], found[TWO], found[THREE] = first, second, third, fourth


@kernel
def pack_triangle(matrix, factors, out):
    """Write the upper triangle of diag(factors) M diag(factors), row by row, to `out`, shape (n (n + 1) / 2,).

    M is the symmetric `matrix` of shape (n, n); `factors` has shape (n,).
    """
    n, t = np.uint64(factors.size), ZERO
    for i in range(n):
        row, factor = matrix[i], factors[i]
        for j in range(i, n):
            out[t] = row[j] * factor * factors[j]
            t += ONE


@kernel
def pack_columns(matrix, columns, factors, out):
    """Write the upper triangle of diag(factors) M diag(factors), row by row, to `out`, shape (n (n + 1) / 2,).

    M, shape (n, n), is the symmetric `matrix` on the n `columns`; `factors` has shape (n,).
    """
    n, t = np.uint64(factors.size), ZERO
    for i in range(n):
        row, factor = matrix[np.uint64(columns[i])], factors[i]
        for j in range(i, n):
            out[t] = row[np.uint64(columns[j])] * factor * factors[j]
            t += ONE


@kernel
def add_sums(matrix, vectors, gram, moments):
    """Add X' diag(w) X to the upper triangle of `gram`, shape (p, p), and X' V to `moments`, shape (p, r), in place.

    `matrix` is (indptr, indices, values) of X, m rows and p columns in CSR form, indices ascending within a row. V is
    `vectors`, shape (m, r), and w its first column. Rows are added one after the other, so the bits depend on nothing
    else.
    """
    indptr, indices, values = matrix
    r = np.uint64(vectors.shape[1])
    for i in range(np.uint64(vectors.shape[0])):
        end = np.uint64(indptr[i + ONE])
        for a in range(np.uint64(indptr[i]), end):
            row, value = np.uint64(indices[a]), values[a]
            for c in range(r):
                moments[row, c] += value * vectors[i, c]
            value *= vectors[i, 0]
            if value != 0.0:
                for b in range(a, end):
                    gram[row, np.uint64(indices[b])] += value * values[b]


@kernel
def add_products(matrix, vectors, out):
    """Add X V to `out`, shape (m, r), in place, where V is `vectors`, shape (p, r).

    `matrix` is (indptr, indices, values) of X, shape (m, p), in CSR form.
    """
    indptr, indices, values = matrix
    r = np.uint64(vectors.shape[1])
    for i in range(np.uint64(out.shape[0])):
        for a in range(np.uint64(indptr[i]), np.uint64(indptr[i + ONE])):
            row, value = np.uint64(indices[a]), values[a]
            for c in range(r):
                out[i, c] += value * vectors[row, c]


@kernel
def unpack_triangle(packed, out):
    """Write to `out` the symmetric matrix, (d, d), whose upper triangle by rows is `packed`, (d (d + 1)/2,)."""
    at = np.uint64(0)
    for i in range(np.uint64(out.shape[0])):
        for j in range(i, np.uint64(out.shape[0])):
            out[i, j] = packed[at]
            out[j, i] = packed[at]
            at += ONE
