"""How kernels are compiled: `@kernel`, and `@inlined` for the small parts of their innermost loops.

Kernels release the GIL, divide like numpy and are cached on disk. They neither allocate nor own arrays, so reference
counting is off (`_nrt=False`): an array or a tuple of arrays is then an argument as cheap as a number. With counting,
the five arrays of an inner product cost as much as twenty nonzeros. A kernel that would allocate does not compile.

Loop indices are unsigned, and so are the constants beside them: numba tests signed indices for wrap-around, which makes
loops twice as slow, and the sum of a signed and an unsigned index is a float.
"""

from typing import Any

import numpy as np
from numba import njit

_OPTIONS: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "_nrt": False}

kernel = njit(**_OPTIONS)
inlined = njit(**_OPTIONS, forceinline=True)

ZERO, ONE, TWO, THREE, FOUR = (np.uint64(number) for number in range(5))
