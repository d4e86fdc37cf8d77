"""One member of a federation that makes totals: a state machine without I/O.

    machine.receive(peer, bundle, now)      # what a neighbour sent
    machine.ask(question)                   # what the fit asks for next; the machine contributes when it may
    machine.finish(model)                   # the fit is done
    for peer, bundle in machine.poll(now):  # what to send, after `machine.memory` is on disk

Times are seconds on any monotonic clock. The fit itself is a program (`fit.py`) that asks for totals one after another.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from glmesh.core import Violation
from glmesh.federation.totals.agreement import Agreement
from glmesh.federation.totals.bundles import Bundle, Conflict, GiveTotals, Question, WantTotals
from glmesh.federation.totals.flood import MOST_ATTEMPTS, Ask, Contribution, ContributionFlood, signed_contribution
from glmesh.federation.totals.memory import FederationInfo, KeptTotal, MemberMemory, model_digest
from glmesh.federation.totals.names import TotalName, request_digest
from glmesh.federation.totals.statements import Asking, Keys, Record, Signed, Vote
from glmesh.federation.totals.views import View


class Machine:
    """State machine of one member that makes totals: contributions, views and votes; `receive` and `poll` drive it."""

    agrees_by: ClassVar[type[Agreement]] = Agreement

    def __init__(
        self, info: FederationInfo, keys: Keys, secret: bytes, start: int, memory: MemberMemory, now: float
    ) -> None:
        self.info, self.memory, self._keys = info, memory, keys
        self.agreement = self.agrees_by(info, keys, secret, start, memory, now)
        self._flood = ContributionFlood(info.me, info.neighbours)
        self._in: View | None = None  # the view that contributions belong to
        self._question: Question | None = None
        self._attempt = 1  # of the question; larger after unequal requests
        self._frozen: dict[bytes, Contribution] = {}  # what this process has contributed, by name
        self.conflict: Conflict | None = None
        self._models: dict[str, bytes] = {model_digest(memory.model): memory.model} if memory.model else {}
        self._requests: dict[str, bytes] = {}  # requests of this number by digest
        self._wanted: set[str] = set()  # digests of models that are asked for
        self._wanted_request = ""  # digest of the request that is asked for; empty: none
        self._news: dict[int, set[int]] = {peer: set() for peer in info.neighbours[info.me]}  # authors to be told
        self._replies: dict[int, Bundle] = {}
        self._told = -np.inf  # [s] time of the last beat
        self._moved = now  # [s] time of the last progress of a total

    # what a fit sees

    @property
    def view(self) -> View | None:
        """Return the members with which the next total (a sum over all members) can be made now, as a View, or None.

        It is None if this member lacks an earlier total of theirs, or if they take over a model, for which no total is
        made.
        """
        view, held = self.agreement.view, self.memory.held
        if view is None or view.vote is not None or held is None or held.fit != view.held.fit:
            return None
        return view if held.count >= view.held.count else None

    @property
    def program_view(self) -> View | None:
        """Return the members of the fit that the program is to be run on now, as a View; None: it must wait.

        A view is a list of the members that make totals together.
        """
        return self.view

    @property
    def entries(self) -> list[KeptTotal]:
        """Return the totals (sums over all members) of the present fit that this member holds, in their order."""
        return self.memory.entries

    @property
    def is_final(self) -> bool:
        """Return whether more than half of the voters have voted for one model, and this member holds it."""
        return self.agreement.final

    @property
    def model(self) -> bytes:
        """Return the bytes of the model that this member has voted for; empty before its vote."""
        return self.memory.model

    @property
    def refusals(self) -> dict[int, str]:
        """Return {member id: why it cannot go on} of the members that refuse, this one included."""
        return {one: status.refused for one, status in self.agreement.everybody.items() if status.refused}

    @property
    def has_contributed(self) -> bool:
        """Return whether this process has signed a contribution, which may have been sent."""
        return bool(self._frozen)

    def ask(self, question: Question, now: float) -> None:
        """Ask for the total (a sum over all members) after the last one that is held.

        Once made, it is the last of `entries`. `now` is the time in [s].
        """
        self._question, self._attempt, self._moved = question, question.attempt, now
        self.conflict, self._requests = None, {}
        self._wanted_request = ""

    @property
    def is_asking(self) -> bool:
        """Return whether the total (a sum) after the last one held has been asked for and is not made yet."""
        return self._question is not None and self._is_due(self._question)

    def resolve(self, question: Question, attempt: int) -> None:
        """Ask again after unequal requests: `question` has the request of the member with the lowest id.

        `attempt` is the number of the new attempt.
        """
        self._question, self._attempt, self.conflict = question, attempt, None

    def refuse(self, why: str) -> None:
        """Tell all members why this one cannot go on, in words that all may read; it contributes to nothing more."""
        self.agreement.refused, self._question = why, None

    def finish(self, model: bytes) -> None:
        """Vote for a model: `model` are the bytes that the program made of all totals (sums over all members)."""
        self._question = None
        self._models[model_digest(model)] = model
        if self.view is not None:
            self._vote(self.view, model)

    # what neighbours send

    def receive(self, peer: int, bundle: Bundle, now: float) -> None:
        """Take in what neighbour `peer` sent, at time `now` [s], and do what follows from it.

        Violation is raised, after all else was taken in, for a status or contribution that its author did not sign.
        """
        wrong: Violation | None = None
        for signed in bundle.statuses:
            try:
                self._hear(signed, peer, now)
            except Violation as error:
                wrong = error
        for view in bundle.views:
            self.agreement.learn(view)
        self.agreement.step(now)
        self._follow()
        for part in bundle.parts:
            try:
                self._take(part, peer, now)
            except Violation as error:
                wrong = error
        for ask in bundle.asks:
            self._answer(ask, peer)
        self._take_content(bundle)
        self._give(peer, bundle)
        self._conclude(now)
        if wrong is not None:
            raise wrong

    def _hear(self, signed: Signed, peer: int, now: float) -> None:
        """Store a signed status if it is new, and pass it on to the neighbours; `now` is the time in [s].

        If it is of an old process of `peer`, which sent it, tell `peer` the newer one. If it is the first of a process
        of `peer` and the model is final, tell it all statuses: those who have voted may have ended since.
        """
        known = self.agreement.statuses.get(peer)
        if self.agreement.receive(signed, now):
            new = signed.author == peer and (known is None or known.key != self.agreement.statuses[peer].key)
            if new and self.is_final:
                self.greet(peer)
            for other in self._news.keys() - {peer, signed.author}:
                self._news[other].add(signed.author)
        elif signed.author == peer and self.agreement.is_outdated(signed):
            self._news[peer].add(peer)

    def _take(self, part: Contribution, peer: int, now: float) -> None:
        """Store a contribution that `peer` sent and pass it on, if its total is due, or soon will be.

        Others are ignored. Violation is raised for one that its author did not sign. `now` is the time in [s].
        """
        view = self._in
        if view is None or part.view != view.digest or part.author not in view.ids:
            return
        if not 1 <= part.number <= len(self.entries) + 2 or not 1 <= part.attempt <= MOST_ATTEMPTS:
            return
        name = part.name(self.info.federation, view.keys)
        if self._flood.has(name, part.author) or not self._flood.takes(part):
            return
        if not self._keys.verify(part.author, signed_contribution(name, part.author, part.body), part.signature):
            raise Violation(f"a contribution that {self.info.names[part.author]} did not sign")
        if len(part.body) % 8:
            raise Violation(f"a contribution of {len(part.body)} bytes, which are no whole numbers")
        self._flood.keep(name, part, self._receivers(view), peer)
        self._moved = now

    def _answer(self, ask: Ask, peer: int) -> None:
        """Queue for neighbour `peer` the stored contributions that it asks for, if it makes totals with this member."""
        view = self._in
        if view is not None and ask.view == view.digest and peer in view.ids:
            self._flood.asked(ask.name(self.info.federation, view.keys), peer, ask.wanted, view.ids)

    def _take_content(self, bundle: Bundle) -> None:
        """Store those totals, requests and models of a bundle that were asked for and match their digests."""
        view, held = self.agreement.view, self.memory.held
        if bundle.totals is not None and view is not None and held is not None:
            given = bundle.totals
            if (given.fit, given.first) == (held.fit, held.count) == (view.held.fit, held.count):
                self.memory.take(list(given.entries[: view.held.count - held.count]), view.held.chain)
        for key, content in bundle.content:
            if key in self._wanted and model_digest(content) == key:
                self._models[key] = content
                self._wanted.discard(key)
            elif key == self._wanted_request and self._is_request(content, key):
                self._requests[key], self._wanted_request = content, ""

    def _is_request(self, content: bytes, key: str) -> bool:
        """Return whether `content` is a request for the total (a sum) that is due: whether its digest is `key`."""
        held, question = self.memory.held, self._question
        return held is not None and question is not None and request_digest(held.chain, content, question.length) == key

    def _give(self, peer: int, bundle: Bundle) -> None:
        """Queue for neighbour `peer` the totals, requests and models that its bundle asks for, if they are here."""
        reply = self._replies.setdefault(peer, Bundle())
        want, held = bundle.want_totals, self.memory.held
        if want is not None and held is not None and want.fit == held.fit and want.first < want.last <= held.count:
            reply.totals = GiveTotals(want.fit, want.first, tuple(self.entries[want.first : want.last]))
        for key in bundle.want_content:
            found = self._models.get(key) or self._requests.get(key)
            if found is not None:
                reply.content.append((key, found))

    # what follows

    def _receivers(self, view: View) -> list[int]:
        """Return the numbers of the neighbours that are among the members of `view`, ascending."""
        return [one for one in self.info.neighbours[self.info.me] if one in view.ids]

    def _follow(self) -> None:
        """Drop the stored contributions if this member no longer makes totals with the members that they belong to."""
        view = self.agreement.proposal
        if self._in is not view:
            self._flood.clear()
            self._in, self._attempt, self.conflict, self._requests = view, 1, None, {}
            if self._question is not None:
                self._attempt = self._question.attempt

    def _conclude(self, now: float) -> None:
        """Do all that needs no further message: contribute, add up, vote, count votes; `now` is the time in [s]."""
        self.agreement.step(now)
        self._follow()
        view, question = self.view, self._question
        if view is not None and question is not None and self._is_due(question):
            self._compare(view, question)
            if self.conflict is None:
                self._contribute(view, question, now)
        adopting = self.agreement.view
        if adopting is not None and adopting.vote is not None:
            self._adopt(adopting, adopting.vote)
        vote = self.agreement.majority_vote()
        if vote is not None and not self.agreement.final:
            if vote.model in self._models:
                self.agreement.final = True
                self.memory.model = self._models[vote.model]
                self.memory.vote = self.memory.vote or vote
            else:
                self._wanted.add(vote.model)

    def _is_due(self, question: Question) -> bool:
        """Return whether a question is about the total that comes next in the fit whose totals this member holds.

        A question of another fit never is: who has asked at a point in one set of members must not contribute there in
        another.
        """
        held = self.memory.held
        return held is not None and (held.fit, held.count) == (question.fit, question.place)

    def _contribute(self, view: View, question: Question, now: float) -> None:
        """Contribute, once, to the total that a question asks for; when all contributions are there, store their sum.

        `view` has the members; `now` is the time in [s].
        """
        memory, info = self.memory, self.info
        assert memory.held is not None
        request = request_digest(memory.held.chain, question.request, question.length)
        self._requests[request] = question.request
        about = Asking(view.digest, question.number, self._attempt, request)
        name = TotalName(info.federation, about.number, about.attempt, view.digest, view.keys, request).digest
        if not self._flood.has(name, info.me):
            self.agreement.asking = about
            memory.record = Record(memory.held.set, memory.held.start)
            self._flood.keep(name, self.frozen_part(view, question, about, name), self._receivers(view), None)
            self._moved = now
        if self._flood.missing(name, view.ids):
            return
        memory.append(KeptTotal(question.request, self._flood.sum(name, question.length)))
        self._question, self._moved = None, now

    def frozen_part(self, view: View, question: Question, about: Asking, name: bytes) -> Contribution:
        """Return this member's contribution to the total `name`, masked and signed; later calls return the same bytes.

        `about` names the total by its view, number and request, which all members are told. A view is a list of the
        members that make totals together.
        """
        if name not in self._frozen:
            key, me = self.agreement.mask_key, self.info.me
            publics = {one.id: bytes.fromhex(one.key) for one in view.members}
            content = question.content.copy()
            content[: question.marks] *= key.words(name, question.marks)
            body = (content + key.mask(me, publics, name, question.length)).astype("<u8").tobytes()
            signature = self._keys.sign(signed_contribution(name, me, body))
            self._frozen[name] = Contribution(
                view.digest, about.number, about.attempt, about.request, me, body, signature
            )
        return self._frozen[name]

    def _compare(self, view: View, question: Question) -> None:
        """Compare the members' requests for the total (a sum over all members) that is due.

        If they differ, set `conflict` or raise the attempt.
        """
        own = self.agreement.asking
        if own is None or own.view != view.digest or (own.number, own.attempt) != (question.number, self._attempt):
            return
        same = self._requests_for(view, own)
        later = [one.attempt for one in same.values() if one.attempt > own.attempt]
        unequal = any(one.attempt == own.attempt and one.request != own.request for one in same.values())
        if not later and not unequal:
            return
        attempt = max([own.attempt + unequal, *later])
        lowest = view.ids[0]
        if lowest == self.info.me:
            self._attempt = attempt
            return
        theirs = same.get(lowest)
        if theirs is not None and theirs.attempt >= own.attempt:
            self._follow_lowest(lowest, own, theirs, attempt)

    def _requests_for(self, view: View, own: Asking) -> dict[int, Asking]:
        """Return {member: what it asks for} of the members of a view that ask for the total that the site asks for."""
        statuses = self.agreement.statuses
        requests = {one: statuses[one].asking for one in view.ids if one in statuses}
        return {k: one for k, one in requests.items() if one and (one.view, one.number) == (own.view, own.number)}

    def _follow_lowest(self, lowest: int, own: Asking, theirs: Asking, attempt: int) -> None:
        """Do as the member with the lowest id does, whose request for the total is `theirs`, against the site's `own`.

        The attempt is raised if they are equal; else `conflict` has the other request, once it is known.
        """
        if theirs.request == own.request:
            self._attempt = attempt
        elif theirs.request in self._requests:
            self.conflict = Conflict(lowest, self._requests[theirs.request], attempt)
        else:
            self._wanted_request = theirs.request

    def _adopt(self, view: View, vote: Vote) -> None:
        """Vote for the model of the vote that `view` takes over.

        If its bytes are not here, ask the neighbours for them.
        """
        if vote.model in self._models:
            self._vote(view, self._models[vote.model])
            self.agreement.adopted()
        else:
            self._wanted.add(vote.model)

    def _vote(self, view: View, model: bytes) -> None:
        """Store this member's vote for a model in `view`, which it has promised.

        It replaces a vote in an earlier view. A view is a list of the members that make totals together.
        """
        memory = self.memory
        if memory.promised == view.number and (memory.vote is None or memory.vote.number < view.number):
            memory.vote, memory.model = Vote(view.number, view.digest, model_digest(model)), model

    # what is sent

    def poll(self, now: float) -> list[tuple[int, Bundle]]:
        """Return [(neighbour, bundle to be sent to it)] at time `now` [s].

        `memory` must be written to disk before they are sent.
        """
        self._conclude(now)
        heartbeat = now - self._told >= self.info.heartbeat
        if self.agreement.tell(again=heartbeat) is not None:
            for authors in self._news.values():
                authors.add(self.info.me)
        self._told = now if heartbeat else self._told
        parts = self._flood.collect()
        out = []
        for peer in self._news:
            bundle = self._replies.pop(peer, Bundle())
            bundle.statuses = [self.agreement.signed[one] for one in sorted(self._news[peer])]
            self._news[peer] = set()
            bundle.views = self._views(bundle.statuses) if bundle.statuses else []
            bundle.parts = list(parts.get(peer, ()))
            if heartbeat:
                self._request(bundle, peer, now)
            if not bundle.is_empty:
                out.append((peer, bundle))
        return out

    def greet(self, peer: int) -> None:
        """Queue all statuses that are known for neighbour `peer`, whose link has come up."""
        self._news[peer] = set(self.agreement.signed)

    def _views(self, statuses: list[Signed]) -> list[View]:
        """Return the known views, lists of members, that the authors of these statuses say yes to or voted in."""
        everybody, known = self.agreement.everybody, dict(self.agreement.views)
        if self.agreement.proposal is not None:
            known[self.agreement.proposal.digest] = self.agreement.proposal
        used = {everybody[one.author].yes for one in statuses}
        used |= {vote.view for one in statuses if (vote := everybody[one.author].vote) is not None}
        return [known[key] for key in sorted(used) if key in known]

    def _request(self, bundle: Bundle, peer: int, now: float) -> None:
        """Add to the bundle for neighbour `peer` requests for what this member lacks: contributions, totals, models ...

        Contributions are asked for only if the total made no progress for `info.heartbeat` seconds before `now` [s].
        """
        view, held, about = self.agreement.view, self.memory.held, self.agreement.asking
        bundle.want_content = sorted(self._wanted) + [self._wanted_request] * bool(self._wanted_request)
        if view is None or held is None or peer not in view.ids:
            return
        if held.fit == view.held.fit and held.count < view.held.count:
            bundle.want_totals = WantTotals(held.fit, held.count, view.held.count)
        if about is not None and self._question is not None and now - self._moved >= self.info.heartbeat:
            name = TotalName(
                self.info.federation, about.number, about.attempt, about.view, view.keys, about.request
            ).digest
            wanted = tuple(self._flood.missing(name, view.ids))
            bundle.asks = [Ask(about.view, about.number, about.attempt, about.request, wanted)]
