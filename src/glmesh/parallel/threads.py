"""Threads that share out the nodes of a block. What a node computes does not depend on who computes it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from glmesh.types import AnyArray


class ThreadPool:
    """n_jobs threads, the caller's among them; for compiled kernels, which run side by side."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs
        self._pool = ThreadPoolExecutor(n_jobs - 1) if n_jobs > 1 else None

    def spans(self, work: AnyArray) -> list[slice]:
        """Contiguous shares of the nodes, with about as much of the work each."""
        done = np.cumsum(np.asarray(work, dtype=np.float64))
        if self._pool is None or not len(done) or done[-1] <= 0:
            return [slice(0, len(done))]
        cuts = np.searchsorted(done, done[-1] * np.arange(1, self.n_jobs) / self.n_jobs, side="left") + 1
        bounds = np.unique(np.concatenate([[0], np.minimum(cuts, len(done)), [len(done)]]))
        return [slice(int(a), int(b)) for a, b in pairwise(bounds)]

    def each(self, function: Callable[[slice], None], spans: list[slice]) -> None:
        """Calls function(span) for every span, side by side."""
        others = [] if self._pool is None else [self._pool.submit(function, span) for span in spans[1:]]
        for span in spans if self._pool is None else spans[:1]:
            function(span)
        for other in others:
            other.result()

    def close(self) -> None:
        """Ends the threads."""
        if self._pool is not None:
            self._pool.shutdown()


SERIAL = ThreadPool()
