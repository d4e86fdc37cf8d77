"""Records that nodes and observers hand to each other: measures, certificates, events, traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.errors import InvalidInput

# part of a node's share of the tolerance that its subproblem may gain while it is skipped; more would cost rounds
SKIPPED_GAIN = 1e-10


@dataclass(frozen=True)
class Measures:
    """One look at (x, {v_k}).

    objective: the user-level primal objective: O_A(x) split by features, O_B(mean of w_k) split by samples.
    value: O_A(x). h: (1/K) sum f(v_k) + g(x). gap: G_H. consensus: sum |v_k - Ax|^2.
    With a free intercept split by samples, objective and gap are those of the problem without an anchor; inner is the
    gap with it, and pull what the anchor costs. Without one they mean nothing.
    """

    objective: float
    value: float
    h: float
    gap: float
    consensus: float
    inner: float = 0.0
    pull: float = 0.0


@dataclass(frozen=True)
class Certificate:
    """A proven bound on the suboptimality of the state of one round."""

    round: int
    bound: float  # suboptimality of the user-level objective is at most this
    objective_low: float  # and the objective itself is between these two
    objective_high: float
    members: tuple[int, ...] = ()  # who took part; beyond 256 nodes records are summed on the way, and it is empty
    local_gaps: tuple[float, ...] = ()  # what each of them could still gain in its own subproblem at most

    def work_left(self, tol: float) -> tuple[int, ...]:
        """The nodes whose own subproblem still has more to gain than their share of a relative gap of `tol`."""
        if not self.members:
            raise InvalidInput("this certificate does not tell nodes apart: there were too many for that")
        share = tol * self.smallest / (2 * len(self.members))
        return tuple(node for node, gap in zip(self.members, self.local_gaps, strict=True) if not gap <= share)

    @property
    def smallest(self) -> float:
        """The smallest absolute objective that the bound leaves possible."""
        return max(self.objective_low, -self.objective_high, 0.0)

    def room(self, gap: float, q: float, tol: float, n_nodes: int) -> float:
        """How far a node's w may move, squared, before its subproblem can gain anything that matters for `tol`.

        The subproblem has the curvature q and at most `gap` to gain; after a move d of w at most 2 gap + |d|^2/q,
        because <d, A D> + q/4 |A D|^2 >= -|d|^2/q, and half the curvature at most doubles the gain. Negative: no room.
        """
        return q * (SKIPPED_GAIN * tol * self.smallest / (2 * n_nodes) - 2 * gap)

    @property
    def relative(self) -> float:
        """The bound divided by the smallest absolute objective that it leaves possible."""
        smallest = self.smallest
        return self.bound / smallest if smallest > 0 else (0.0 if self.bound == 0 else np.inf)


@dataclass
class Traffic:
    """What was sent so far: exchanges that a node waited for, and bytes over all directed edges."""

    communications: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Event:
    """Something that changed the problem, and how much work it made.

    kind: "join", "leave" (its share is gone), "freeze" (it left, and its share stays as a constant), "add_columns" or
    "remove_columns". gap_before, gap_after: what the node could gain in its own subproblem at most, before and after.
    share: the size |A_k x_k| of what came, went or was frozen.
    """

    round: int
    kind: str
    node: int
    gap_before: float
    gap_after: float
    share: float
