"""Threads of the linear algebra library, which nodes that are computed side by side do not need."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")


@cache
def _controller() -> Any:
    """Return threadpoolctl's controller of the BLAS libraries that this process has loaded, made once per process."""
    return ThreadpoolController()


def with_one_blas_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with BLAS limited to one thread while it runs.

    Products of one node are small, and nodes are divided among threads of our own: threads of BLAS wait for each other
    for longer than they compute, five times as long where another process is busy.
    """

    @wraps(function)
    def limited(*args: P.args, **options: P.kwargs) -> R:
        with _controller().limit(limits=1, user_api="blas"):
            return function(*args, **options)

    return limited
