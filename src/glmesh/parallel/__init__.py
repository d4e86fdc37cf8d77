"""Threads and processes that share the nodes of one run: `ThreadPool` and `ProcessGroup`.

Results do not depend on who computes them: both divide work by nodes and combine in the order of nodes. Algorithms and
transports may not enter; MPI implements `ProcessGroup` in `glmesh.transports.mpi`.
"""

from glmesh.parallel.blas import one_blas_thread
from glmesh.parallel.processes import SINGLE_PROCESS, ProcessGroup
from glmesh.parallel.threads import SERIAL, ThreadPool

__all__ = ["SERIAL", "SINGLE_PROCESS", "ProcessGroup", "ThreadPool", "one_blas_thread"]
