"""Statistical inference for fits by maximum likelihood: standard errors, tests and intervals, from totals alone.

Everything here is computed from `FitStatistics`, sums over all rows of all nodes, so it is the same at every node and
needs no further round; only profile intervals ask for more totals, through a function that is given. Rows, nodes,
methods and scikit-learn's names stay out.
"""

from glmesh.inference.accuracy import Accuracy
from glmesh.inference.hypotheses import Test, heterogeneity_test, lr_test
from glmesh.inference.inference import Inference
from glmesh.inference.profile import Curves
from glmesh.inference.summary import Summary

__all__ = ["Accuracy", "Curves", "Inference", "Summary", "Test", "heterogeneity_test", "lr_test"]
