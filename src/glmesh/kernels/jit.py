"""How kernels are compiled: `@kernel`, and `@inlined` for the small parts of their innermost loops.

Kernels release the GIL, divide like numpy and are cached on disk. They neither allocate nor own arrays, so reference
counting is off (`_nrt=False`): an array or a tuple of arrays is then an argument as cheap as a number. With counting,
the five arrays of an inner product cost as much as twenty nonzeros. A kernel that would allocate does not compile.

Loop indices are unsigned, and so are the constants beside them: numba tests signed indices for wrap-around, which makes
loops twice as slow, and the sum of a signed and an unsigned index is a float.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import njit
from numba.core import event

_OPTIONS: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy", "_nrt": False}

kernel = njit(**_OPTIONS)
inlined = njit(**_OPTIONS, forceinline=True)

ZERO, ONE, TWO, THREE, FOUR = (np.uint64(number) for number in range(5))


class _Once(event.Listener):
    """Listener of numba's that calls a function when the first compilation begins, and not again."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell: Callable[[], None] | None = tell

    def on_start(self, event: Any) -> None:
        """Call the function, if it was not called before."""
        tell, self._tell = self._tell, None
        if tell is not None:
            tell()

    def on_end(self, event: Any) -> None:
        """Do nothing when a compilation is over."""


@contextmanager
def told_of_compiling(tell: Callable[[], None]) -> Iterator[None]:
    """Call `tell` once in the context, when a kernel is not in numba's cache and its compilation begins."""
    with event.install_listener("numba:compile", _Once(tell)):
        yield
