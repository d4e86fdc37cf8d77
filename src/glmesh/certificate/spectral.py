"""Lower bounds of the spectral gap among the members that certificates are about."""

from __future__ import annotations

from typing import Any

from glmesh.gossip.membership import MembershipView
from glmesh.network import mixing as mixing_module
from glmesh.network import topology as topology_module
from glmesh.network.faults import Plan
from glmesh.network.mixing import Mixing


class Gaps:
    """Lower bounds of 1 - lambda_2 of the mixing among the members of a view; 0 if they are not connected."""

    def __init__(self, mixing: Mixing, plan: Plan) -> None:
        self._mixing, self._plan = mixing, plan
        self._links = topology_module.links_of(mixing.matrix)
        self._newest: tuple[Any, float] = (None, 0.0)

    def __call__(self, view: MembershipView, round: int) -> float:
        """Return the bound for the members of a view and the links that had not failed for good by this round."""
        members, gone = view.flags, self._plan.gone(round, self._links)
        newest = self._newest  # threads share this object
        if newest[0] != (members.tobytes(), gone):
            mixing = mixing_module.among(self._mixing, members, gone)
            newest = self._newest = (members.tobytes(), gone), mixing.consensus_gap
        return newest[1]
