"""A member whose part of the model is its own: it votes for no model that its own program has not come to.

Where members hold columns, what they vote for is what all know of the model, and each has coefficients of its own. They
follow from all totals of the fit and from the member's data, so they are on no other disk, and need not be on any: a
member that comes back repeats its program on the totals, takes those that it lacks from others, and has them again.
"""

from __future__ import annotations

from glmesh.federation.totals.bundles import Bundle
from glmesh.federation.totals.machine import Machine
from glmesh.federation.totals.memory import FederationInfo, MemberMemory
from glmesh.federation.totals.statements import Keys
from glmesh.federation.totals.views import View


class PrivateMachine(Machine):
    """State machine of a member that takes models from nobody: it repeats the program of the fit that made them."""

    def __init__(
        self, info: FederationInfo, keys: Keys, secret: bytes, start: int, memory: MemberMemory, now: float
    ) -> None:
        super().__init__(info, keys, secret, start, memory, now)
        self._models = {}  # the model of an earlier process too: this one has not come to its own part yet

    @property
    def program_view(self) -> View | None:
        """Return the members of the fit that the program is to be run on now, as a View; None: it must wait.

        Those that take over a model run their programs again, on totals that are all there. A view is a list of the
        members that make totals together.
        """
        view, held = self.agreement.view, self.memory.held
        if view is None or held is None or held.fit != view.held.fit or held.count < view.held.count:
            return None
        return view

    @property
    def lacks_totals(self) -> bool:
        """Return whether the members take over a model that was made of totals which this member cannot get."""
        view, held = self.agreement.view, self.memory.held
        if view is None or view.vote is None:
            return False
        return held is None or held.fit != view.held.fit

    def _take_content(self, bundle: Bundle) -> None:
        """Store the totals and requests of a bundle that were asked for and match their digests, and no models."""
        self._wanted.clear()
        super()._take_content(bundle)

    def _request(self, bundle: Bundle, peer: int, now: float) -> None:
        """Add to the bundle for neighbour `peer` requests for what this member lacks, models excepted, at `now` [s]."""
        self._wanted.clear()
        super()._request(bundle, peer, now)
