"""Records that nodes and observers hand to each other: measures, certificates, events, traffic."""

from dataclasses import dataclass

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.types import Indices, Matrix, Vector

_NEGLIGIBLE = 1e-10  # part of a node's share of the tolerance; nodes that can gain less are screened, more costs rounds


@dataclass(frozen=True, eq=False)
class PathSolutions:
    """Solutions of one problem for n weights of its penalty, solved together: an entry per weight in each field.

    `coefs` has shape (n, p) for p coefficients; `gap` is a proven upper bound of `objective` minus the optimum;
    `rounds` counts the totals that were made for each weight. A total is a sum over all nodes.
    """

    coefs: Matrix  # (n, p)
    intercepts: Vector  # (n,)
    objective: Vector  # (n,)
    gap: Vector  # (n,) proven upper bound of objective - optimum
    rounds: Indices  # (n,) totals that were made for each


@dataclass(frozen=True)
class Measures:
    """Objective, duality gap and consensus violation of the variables x and estimates v_k of Ax of one moment.

    All absolute. A is the data matrix and K the number of nodes. objective: the user's primal objective, f(Ax) + g(x)
    split by features, that of the mean of all models w_k split by samples. value: f(Ax) + g(x). h: (1/K) sum f(v_k) +
    g(x). gap: duality gap of h, an upper bound of the suboptimality. consensus: sum of the squared norms of v_k - Ax.
    With a free intercept split by samples, objective and gap are those of the problem without an anchor; inner is the
    gap with it, and pull what the anchor costs. Without such an intercept, inner and pull mean nothing.
    """

    objective: float
    value: float
    h: float
    gap: float
    consensus: float
    inner: float = 0.0
    pull: float = 0.0


@dataclass
class Traffic:
    """Counters of a run so far: exchanges, and bytes sent over all directed links."""

    communications: int = 0  # exchanges that a node waited for
    bytes: int = 0  # over all directed links


@dataclass(frozen=True)
class Event:
    """A change of the members or of the data in mid-run, and how far it moved the node from its optimum.

    kind: "join", "leave" (the node's share is gone), "freeze" (it left, and its share stays as a constant),
    "add_columns" or "remove_columns". gap_before, gap_after: upper bounds of what the node could gain in its own
    subproblem, before and after (absolute). share: the norm of the part of A_k x_k that came, went or was frozen.
    """

    round: int
    kind: str
    node: int
    gap_before: float
    gap_after: float
    share: float


@dataclass(frozen=True)
class Certificate:
    """A proven bound of the suboptimality of the state of one round.

    Parameters
    ----------
    round : int
        Round of the state that the bound is about.
    bound : float
        Upper bound of the suboptimality of the user-level objective; infinite: nothing is proven.
    objective_low : float
        Lower bound of the objective.
    objective_high : float
        Upper bound of the objective.
    members : tuple of int, default ()
        Nodes that took part; empty where records are summed on the way: in totals, and beyond 256 nodes.
    local_gaps : tuple of float, default ()
        Upper bound of what each member can gain in its own subproblem; empty like `members`.

    Examples
    --------
    >>> from glmesh.core.records import Certificate
    >>> certificate = Certificate(40, 1e-3, 9.999, 10.0, (0, 1), (4e-4, 0.0))
    >>> round(certificate.relative, 6)
    0.0001
    >>> certificate.work_left(tol=1e-4)
    (0,)
    """

    round: int
    bound: float
    objective_low: float
    objective_high: float
    members: tuple[int, ...] = ()
    local_gaps: tuple[float, ...] = ()

    def work_left(self, tol: float) -> tuple[int, ...]:
        """Return the nodes whose local gap is more than their share of a relative gap of `tol`.

        Parameters
        ----------
        tol : float
            Relative gap of the whole problem; a node's share is tol * smallest / (2 K).

        Returns
        -------
        tuple of int
            The nodes, ascending.

        Raises
        ------
        InvalidInput
            The certificate does not tell nodes apart, because their records were summed on the way.
        """
        if not self.members:
            raise InvalidInput("this certificate does not tell nodes apart: their records were summed on the way")
        share = tol * self.smallest / (2 * len(self.members))
        return tuple(node for node, gap in zip(self.members, self.local_gaps, strict=True) if not gap <= share)

    @property
    def smallest(self) -> float:
        """Smallest absolute value of the objective that is possible between `objective_low` and `objective_high`."""
        return max(self.objective_low, -self.objective_high, 0.0)

    @property
    def relative(self) -> float:
        """`bound` divided by `smallest`, an upper bound of the relative gap.

        0 if both are 0, infinite if only `smallest` is.
        """
        smallest = self.smallest
        return self.bound / smallest if smallest > 0 else (0.0 if self.bound == 0 else np.inf)

    def screening_radius2(self, gap: float, q: float, tol: float, n_nodes: int) -> float:
        """Return q (negligible gain - 2 gap): the largest squared move of a gradient that leaves nothing to gain.

        The local problem of a node has curvature q and can gain at most `gap`; after a move d of the node's gradient it
        can gain at most 2 gap + norm(d)^2/q, because <d, A D> + q/4 norm(A D)^2 >= -norm(d)^2/q, and half the curvature
        at most doubles the gain. Negligible is a gain that all n_nodes nodes may forgo within the relative gap `tol`.
        Negative: the local problem may have something to gain already.
        """
        return q * (_NEGLIGIBLE * tol * self.smallest / (2 * n_nodes) - 2 * gap)
