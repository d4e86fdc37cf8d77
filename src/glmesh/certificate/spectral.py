"""Spectral gaps of the mixing among the members of a view, which certificates under faults rest on."""

from glmesh.gossip import MembershipView
from glmesh.network import Mixing, Plan
from glmesh.network.mixing import among
from glmesh.network.topology import links_of


class SpectralGaps:
    """Callable (membership view, round) -> proven lower bound of 1 - lambda_2 of the mixing among the members.

    lambda_2 is the second largest eigenvalue of the mixing matrix. The newest bound is kept for the next call. A
    membership view says who takes part, as one node sees it.
    """

    def __init__(self, mixing: Mixing, plan: Plan) -> None:
        self._mixing, self._plan = mixing, plan
        self._links = links_of(mixing.matrix)
        self._newest: tuple[tuple[bytes, set[tuple[int, int]]] | None, float] = (None, 0.0)

    def __call__(self, view: MembershipView, round: int) -> float:
        """Return a lower bound of 1 - lambda_2 of the mixing matrix among the members in `view`; 0 if not connected.

        lambda_2 is the second largest eigenvalue. Links that failed for good by `round` do not count.
        """
        members, gone = view.flags, self._plan.gone(round, self._links)
        newest = self._newest  # threads share this object
        if newest[0] != (members.tobytes(), gone):
            mixing = among(self._mixing, members, gone)
            newest = self._newest = (members.tobytes(), gone), mixing.consensus_gap
        return newest[1]
