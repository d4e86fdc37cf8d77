"""The flow of one link: what an exchange adds to it, and a fingerprint of it that both ends compute alike."""

import numpy as np
from numba import njit

from glmesh.kernels.columns import FOUR, ONE, THREE, TWO

_START = np.uint64(0x9E3779B97F4A7C15)
_PRIME = np.uint64(0xFF51AFD7ED558CCD)
_SHIFT = np.uint64(32)
_SIGN = np.uint64(63)
_ZERO = np.uint64(0)


@njit(nogil=True, cache=True)
def add_flow(flow, drift, mine, theirs, weight, coast, push):
    """flow += coast drift; drift = push drift + weight (theirs - mine); flow += drift.

    The other end, with `mine` and `theirs` swapped, gets exactly the negative. `drift` is empty without momentum.
    """
    if drift.size == _ZERO:
        for j in range(np.uint64(flow.size)):
            flow[j] += weight * (theirs[j] - mine[j])
    else:
        for j in range(np.uint64(flow.size)):
            flow[j] += coast * drift[j]
            drift[j] = push * drift[j] + weight * (theirs[j] - mine[j])
            flow[j] += drift[j]


@njit(nogil=True, cache=True)
def _stir(digest, word, flip):
    word = _ZERO if word << ONE == _ZERO else word ^ flip
    digest = (digest ^ word) * _PRIME
    return digest ^ (digest >> _SHIFT)


@njit(nogil=True, cache=True)
def fingerprint(bits, negate):
    """A 64-bit digest of the numbers with these bits or, with `negate` = 1, of their negatives; 0 and -0 are one.

    Four lanes, because a multiplication must wait for the one before it.
    """
    flip = negate << _SIGN
    a, b, c, d = _START, _START + ONE, _START + TWO, _START + THREE
    n = np.uint64(bits.size)
    j = _ZERO
    while j + THREE < n:
        a = _stir(a, bits[j], flip)
        b = _stir(b, bits[j + ONE], flip)
        c = _stir(c, bits[j + TWO], flip)
        d = _stir(d, bits[j + THREE], flip)
        j += FOUR
    while j < n:
        a = _stir(a, bits[j], flip)
        j += ONE
    return _stir(_stir(_stir(a, b, _ZERO), c, _ZERO), d, _ZERO)
