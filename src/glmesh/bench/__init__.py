"""Fair comparisons: problems, data and methods by name, one place that counts, and reports.

The shape is benchopt's (objectives, datasets, solvers). Benchopt itself measures seconds of one process; here
communications, vectors and bytes over the links of a network matter as much, and all come from one simulator. Any
object with `prepare` and `round` can compete. Nothing of the library depends on this package but `paper` and `cli`.
"""

from glmesh.bench.reference import Reference, reference
from glmesh.bench.trace import Trace, Watch, follow

__all__ = ["Reference", "Trace", "Watch", "follow", "reference"]
