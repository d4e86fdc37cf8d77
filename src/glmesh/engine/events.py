"""What changes a problem in mid-run."""

from dataclasses import dataclass


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
