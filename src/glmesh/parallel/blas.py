"""Threads of the linear algebra library, which nodes that are computed side by side do not need."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    """Return threadpoolctl's controller of the BLAS libraries that this process has loaded.

    Finding them takes milliseconds.
    """
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS has one thread.

    Products of one node are small, and nodes are divided among threads of our own: threads of BLAS wait for each other
    for longer than they compute, five times as long where another process is busy.
    """
    limit: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limit
