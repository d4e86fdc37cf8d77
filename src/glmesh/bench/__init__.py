"""Fair comparisons: problems, data and methods as data; one place that counts; reports.

The shape is benchopt's (objectives, datasets, solvers). Benchopt itself measures seconds of one process; here
communications, vectors and bytes over the links of a network matter as much, and all come from one simulator.
"""

from glmesh.bench.reference import Reference, reference
from glmesh.bench.trace import Trace, follow

__all__ = ["Reference", "Trace", "follow", "reference"]
