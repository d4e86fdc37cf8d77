"""Orders in which a pass visits its units; randomness is a hash, so that a resumed run makes the same passes."""

import numpy as np

from glmesh.kernels.jit import ONE, kernel

CYCLIC = np.int64(0)
SHUFFLED = np.int64(1)  # a fresh permutation for every pass
SYMMETRIC = np.int64(2)  # forward, backward, forward, ...


@kernel
def hash64(a, b):
    """Return a well-mixed uint64 hash of two uint64 numbers a and b (the finaliser of splitmix64)."""
    z = a + (b + ONE) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def shuffle(order, key):
    """Permute the array `order` in place (Fisher-Yates) by hashes of the uint64 `key`: equal keys permute alike."""
    for i in range(ONE, np.uint64(order.size)):
        key = hash64(key, i)
        j = key % (i + ONE)
        order[i], order[j] = order[j], order[i]
