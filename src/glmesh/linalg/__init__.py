"""Linear algebra of the data: columns of A, dense or sparse, and norms.

Arrays come in and go out; functions, nodes and messages may not enter.
"""

from glmesh.linalg.columns import Columns
from glmesh.linalg.norms import spectral_norm

__all__ = ["Columns", "spectral_norm"]
