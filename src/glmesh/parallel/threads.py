"""Threads that divide the nodes of a block; the bits a node computes do not depend on the thread."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any

import numpy as np

from glmesh.types import Indices, Vector


class ThreadPool:
    """A pool of `n_jobs` threads for compiled kernels that release the GIL; a single thread is the calling one.

    `list(threads.map(function, *iterables))` calls the function with the entries of the iterables, as the builtin `map`
    does, in parallel where there are several threads; it returns when all calls have, and raises the first error.
    """

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs
        self._pool = ThreadPoolExecutor(n_jobs) if n_jobs > 1 else None
        self.map: Callable[..., Iterator[Any]] = map if self._pool is None else self._shared

    def _shared(self, function: Callable[..., Any], *iterables: Iterable[Any]) -> Iterator[Any]:
        """Do what `map` says; where there are no more calls than threads, this thread makes the first one itself."""
        assert self._pool is not None
        calls = list(zip(*iterables, strict=False))
        if len(calls) > self.n_jobs:
            return self._pool.map(function, *zip(*calls, strict=True))
        others = [self._pool.submit(function, *one) for one in calls[1:]]
        try:
            first = [function(*one) for one in calls[:1]]
        finally:
            wait(others)
        return iter([*first, *(one.result() for one in others)])

    def spans(self, work: Sequence[float] | Indices | Vector) -> list[slice]:
        """Return at most `n_jobs` slices of consecutive nodes that divide the sum of `work` as evenly as possible.

        `work` has an estimate of the work of each node, in any unit of measure. Where it sums to zero, one slice holds
        all nodes.
        """
        if self._pool is None:
            return [slice(0, len(work))]
        done = np.cumsum(np.asarray(work, dtype=np.float64))
        if not len(done) or done[-1] <= 0:
            return [slice(0, len(done))]
        cuts = np.searchsorted(done, done[-1] * np.arange(1, self.n_jobs) / self.n_jobs, side="left") + 1
        bounds = np.unique(np.concatenate([[0], np.minimum(cuts, len(done)), [len(done)]]))
        return [slice(int(a), int(b)) for a, b in pairwise(bounds)]

    def close(self) -> None:
        """Wait for the threads to end; the pool cannot be used afterwards."""
        if self._pool is not None:
            self._pool.shutdown()


SERIAL = ThreadPool()  # runs everything in the calling thread
