"""Flow of one link of push-flow gossip: its update, and a fingerprint that both ends compute alike."""

import numpy as np

from glmesh.kernels.jit import FOUR, ONE, THREE, TWO, ZERO, kernel

_START = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio, as in splitmix64
_FACTOR = np.uint64(0xFF51AFD7ED558CCD)  # odd multiplier of the finaliser of MurmurHash3
_SHIFT = np.uint64(32)
_SIGN = np.uint64(63)


@kernel
def add_flow(flow, drift, mine, theirs, weight, coast, push):
    """Update what has flowed over a link between two nodes, `flow`, and its momentum `drift`, in place.

    flow += coast drift; drift = push drift + weight (theirs - mine); flow += drift. `mine` and `theirs` are the
    estimates at this and at the other end of the link, shape (d,); the other end, which has them swapped, computes
    exactly the negative. `weight`, `coast` and `push` are floats. `drift` has shape (0,) where there is no momentum.
    """
    if drift.size == ZERO:
        for j in range(np.uint64(flow.size)):
            flow[j] += weight * (theirs[j] - mine[j])
    else:
        for j in range(np.uint64(flow.size)):
            flow[j] += coast * drift[j]
            drift[j] = push * drift[j] + weight * (theirs[j] - mine[j])
            flow[j] += drift[j]


@kernel
def _stir(digest, word, flip):
    """Return the uint64 digest after one more float, whose 64 bits are `word`.

    `digest` is the uint64 before; `flip` is xored into the sign bit of the float, and -0 counts as 0.
    """
    word = ZERO if word << ONE == ZERO else word ^ flip
    digest = (digest ^ word) * _FACTOR
    return digest ^ (digest >> _SHIFT)


@kernel
def fingerprint(bits, negate):
    """Return a uint64 digest of a vector of floats, given as their uint64 bits, or of its negative where `negate` is 1.

    Vectors of equal numbers have equal digests, -0 counting as 0.
    """
    flip = negate << _SIGN
    a, b, c, d = _START, _START + ONE, _START + TWO, _START + THREE
    n = np.uint64(bits.size)
    j = ZERO
    while j + THREE < n:
        a = _stir(a, bits[j], flip)
        b = _stir(b, bits[j + ONE], flip)
        c = _stir(c, bits[j + TWO], flip)
        d = _stir(d, bits[j + THREE], flip)
        j += FOUR
    while j < n:
        a = _stir(a, bits[j], flip)
        j += ONE
    return _stir(_stir(_stir(a, b, ZERO), c, ZERO), d, ZERO)
