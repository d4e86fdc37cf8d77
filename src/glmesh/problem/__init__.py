"""The problem min_x f(Ax) + g(x): its specification, the data of the nodes, and who holds which columns.

Data enters as users have it (X, y, sample weights) and leaves as columns of A with the functions f and g; solutions x
leave as coefficients and intercept. Nothing here knows of rounds, messages or methods.
"""

from glmesh.problem.problem import Problem

__all__ = ["Problem"]
