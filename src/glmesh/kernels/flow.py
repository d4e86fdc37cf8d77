"""The flow of one link: what an exchange adds to it, and a fingerprint of it that both ends compute alike."""

import numpy as np
from numba import njit

_START = np.uint64(0x9E3779B97F4A7C15)
_PRIME = np.uint64(0xFF51AFD7ED558CCD)
_SHIFT = np.uint64(32)
_SIGN = np.uint64(63)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@njit(nogil=True, cache=True)
def add_flow(flow, mine, theirs, weight):
    """flow += weight (theirs - mine): the other end, with the two swapped, gets exactly the negative."""
    for j in range(np.uint64(flow.size)):
        flow[j] += weight * (theirs[j] - mine[j])


@njit(nogil=True, cache=True)
def fingerprint(bits, negate):
    """A 64-bit digest of the numbers with these bits or, with `negate` = 1, of their negatives; 0 and -0 are one."""
    flip = negate << _SIGN
    digest = _START
    for j in range(np.uint64(bits.size)):
        word = bits[j]
        word = _ZERO if word << _ONE == _ZERO else word ^ flip
        digest = (digest ^ word) * _PRIME
        digest ^= digest >> _SHIFT
    return digest
