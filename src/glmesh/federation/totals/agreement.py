"""Which view a member is in: a state machine without I/O, which is told what others sign and what time it is.

Every member's newest signed `MemberStatus` reaches all others. The lowest id that is there proposes a view, by saying
yes to it, when members, processes or data are others than in the present one. All that are in the view say yes unless
a rule forbids it; when a member sees the yes of all, it is in the view.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from glmesh.core import Violation
from glmesh.federation.totals.masks import LARGEST_VIEW, MaskKey, key_statement
from glmesh.federation.totals.memory import FederationInfo, MemberMemory
from glmesh.federation.totals.names import digest, first_chain
from glmesh.federation.totals.statements import (
    Asking,
    Held,
    Keys,
    MemberStatus,
    Record,
    Signed,
    Vote,
    canonical,
    read_status,
    signed_part,
)
from glmesh.federation.totals.views import (
    View,
    ViewMember,
    best_held,
    best_vote,
    drawn_seed,
    has_majority,
    is_connected,
    may_meet,
    set_digest,
    start_of,
)

MOST_DOUBLINGS = 4  # of PATIENCE, while answers take longer than that to come back: up to 48 beats
PATIENCE = 3.0  # [beats] that a proposed view is waited for before another is proposed


class Agreement:
    """One member's side of agreeing on views: numbered lists of the members that make totals together.

    It does no I/O. `secret` is that of the member's mask key, `start` the time at which its process began [ms since
    1970], `now` the time [s] on any monotonic clock.
    """

    def __init__(
        self, info: FederationInfo, keys: Keys, secret: bytes, start: int, memory: MemberMemory, now: float
    ) -> None:
        self.info, self.memory, self._keys = info, memory, keys
        self.mask_key, self.start = MaskKey(secret), start
        public = self.mask_key.public
        self._statement = keys.sign(key_statement(info.federation, info.names[info.me], start, public)).hex()
        self.statuses: dict[int, MemberStatus] = {}  # the newest of each other member
        self.signed: dict[int, Signed] = {}  # the same as they were signed, and this member's own
        self.views: dict[str, View] = {}  # views that statuses refer to, by digest
        self.heard = dict.fromkeys(range(len(info.names)), now)  # [s] time of the newest status
        self.proposal: View | None = None  # that this member said yes to last
        self.view: View | None = None  # that all its members have said yes to, and this one is in
        self.remembers = False
        self.asking: Asking | None = None
        self.final = False
        self.refused = ""
        self.superseded = False  # another process of this member is newer: a clone, or this one is the clone
        self._sequence = 0
        self._proposed = now  # [s] time of the last yes
        self._repeated = 0  # proposals of this member since it was in a view, of the same members as the one before
        self._own = self._status()

    # what others say

    def receive(self, signed: Signed, now: float) -> bool:
        """Store a member's signed status if it is valid and newer than the stored one; return whether it was stored.

        `now` is the time [s] at which it came. A status of a newer process of this member itself sets `superseded`.
        Violation is raised for a status or mask key that its author did not sign.
        """
        if not 0 <= signed.author < len(self.info.names):
            raise Violation(f"a status of member {signed.author}, who is none")
        status = read_status(signed)
        known = self.statuses.get(status.author)
        if known is not None and status.age <= known.age:
            return False
        self._check(signed, status, known)
        if status.author == self.info.me:
            self.superseded |= (status.start, status.key) > (self.start, self.mask_key.public.hex())
            return False
        self.statuses[status.author], self.signed[status.author] = status, signed
        self.heard[status.author] = now
        return True

    def is_outdated(self, signed: Signed) -> bool:
        """Return whether a status is of a process that has ended: a later process of the same member is known."""
        known, status = self.statuses.get(signed.author), read_status(signed)
        return known is not None and (status.start, status.key) < (known.start, known.key)

    def _check(self, signed: Signed, status: MemberStatus, known: MemberStatus | None) -> None:
        """Raise Violation unless the author's listed certificate has signed the status and its mask key.

        `signed` is the status as it came, `status` what it holds, `known` the author's status that is stored, None:
        none.
        """
        author, federation = status.author, self.info.federation
        name = self.info.names[author]
        if not self._keys.learn(author, signed.certificate):
            raise Violation(f"a status of {name} with a certificate that is not listed")
        if not self._keys.verify(author, signed_part(federation, signed.body), signed.signature):
            raise Violation(f"a status that {name} did not sign")
        if known is not None and (known.start, known.key) == (status.start, status.key):
            return
        try:
            public, signature = bytes.fromhex(status.key), bytes.fromhex(status.key_signature)
        except ValueError:
            raise Violation(f"a mask key of {name} that is no hexadecimal number") from None
        if len(public) != 32:
            raise Violation(f"a mask key of {name} with {len(public)} bytes, expected 32")
        if not self._keys.verify(author, key_statement(federation, name, status.start, public), signature):
            raise Violation(f"a mask key that {name} did not sign")

    def learn(self, view: View) -> None:
        """Store a view, a list of members that some status says yes to or voted in, by its digest."""
        self.views[view.digest] = view

    # what this member says

    def tell(self, *, again: bool = False) -> Signed | None:
        """Return this member's newly signed status if there is news to be told at once, or if `again`; else None.

        A change of the fields `held`, `asking` and `record` is no such news: it is told with the next sign of life.
        """
        status, last = self._status(), self._own
        quiet = replace(status, sequence=last.sequence, asking=last.asking, held=last.held, record=last.record)
        if not again and quiet == last and self.info.me in self.signed:
            return None
        self._sequence += 1
        self._own = replace(status, sequence=self._sequence)
        body = canonical(self._own)
        signature = self._keys.sign(signed_part(self.info.federation, body))
        self.signed[self.info.me] = Signed(self.info.me, body, signature, self._keys.certificate)
        return self.signed[self.info.me]

    def _status(self) -> MemberStatus:
        """Return this member's status as it is now, not signed yet."""
        memory = self.memory
        return MemberStatus(
            author=self.info.me,
            start=self.start,
            key=self.mask_key.public.hex(),
            key_signature=self._statement,
            sequence=self._sequence,
            pin=memory.pin,
            remembers=self.remembers,
            promised=memory.promised,
            yes="" if self.proposal is None else self.proposal.digest,
            voters=memory.voters,
            record=memory.record,
            held=memory.held,
            vote=memory.vote,
            asking=self.asking,
            final=self.final,
            refused=self.refused,
        )

    @property
    def everybody(self) -> dict[int, MemberStatus]:
        """Return {member id: the newest status known of that member}; this member's own is as it is now."""
        return {**self.statuses, self.info.me: self._status()}

    # views

    def step(self, now: float) -> None:
        """Say yes to a view that may be accepted, enter one that all its members said yes to, or propose one.

        A view is a numbered list of the members that make totals together. `now` is the time in [s].
        """
        if self.superseded:
            self.view = self.proposal = None
            return
        statuses = self.everybody
        self._prune(statuses)
        offered = [self.views[one.yes] for one in statuses.values() if one.yes in self.views]
        for view in sorted(offered, key=lambda one: -one.number):
            if view.number > self.memory.promised and self.accepts(view, now):
                self.say_yes(view, now)
                statuses = self.everybody
                break
        if self.proposal is not None and self.view is not self.proposal and self.proposal.is_made(statuses):
            self.enter(self.proposal)
        wanted = self._wanted(statuses, now)
        if wanted is not None and self._must_propose(wanted, statuses, now):
            view = self.proposed_view(wanted, statuses)
            if self.accepts(view, now):
                again = self.proposal is not None and self.proposal.members == view.members
                self._repeated = min(self._repeated + 1, MOST_DOUBLINGS) if again else 0
                self.say_yes(view, now)

    def _prune(self, statuses: dict[int, MemberStatus]) -> None:
        """Delete the stored views that no status says yes to or voted in; `statuses` is {id: newest MemberStatus}.

        A view is a list of the members that make totals together.
        """
        used = {one.yes for one in statuses.values()} | {one.vote.view for one in statuses.values() if one.vote}
        self.views = {key: view for key, view in self.views.items() if key in used}

    def say_yes(self, view: View, now: float) -> None:
        """Say yes to a view: promise to enter none with a smaller number, leave the present one, and count its voters.

        `now` is the time [s] from which on the yes of the others is waited for. A view is a list of the members that
        make totals together.
        """
        self.memory.promised, self.proposal, self.view, self.asking = view.number, view, None, None
        self.memory.voters = view.voters
        self.views[view.digest] = view
        self._proposed = now

    def enter(self, view: View) -> None:
        """Make a view the present one, after all its members have said yes to it.

        If it goes on with another fit than the one whose totals this member holds, that fit is taken up without its
        totals. A drawn start is recorded at once: some member knows of totals at zero, and from now on this one does
        too. In a view that takes over a vote, a member that was restarted remembers only after it has voted itself
        (`adopted`). A view is a list of the members that make totals together.
        """
        memory = self.memory
        self.view, self._repeated = view, 0
        if view.vote is not None:
            return
        self.remembers = True
        if memory.held is None or memory.held.fit != view.held.fit:
            memory.begin(view.held)
        if view.held.start:
            memory.record = Record(view.held.set, view.held.start)

    def adopted(self) -> None:
        """Count this member among those that remember: it has voted for the model that the present view takes over.

        A view is a list of the members that make totals together.
        """
        self.remembers = True

    def accepts(self, view: View, now: float) -> bool:
        """Return whether this member may say yes to a proposed view, a list of members, at time `now` [s].

        The rules are those of the methods below.
        """
        statuses, ids = self.everybody, view.ids
        fits = (
            not self.refused
            and not self.superseded
            and view.number > self.memory.promised
            and self.info.me in ids
            and list(ids) == sorted(set(ids))
            and all(one.id in statuses and member_of(statuses[one.id]) == one for one in view.members)
            and self.info.least <= len(ids) <= LARGEST_VIEW
            and is_connected(ids, self.info.neighbours)
        )
        return (
            fits
            and self.is_majority(view, statuses)
            and self._patience(view, statuses, now)
            and self._vote_kept(view)
            and (view.vote is not None or self._start_allowed(view))
        )

    def is_majority(self, view: View, statuses: dict[int, MemberStatus]) -> bool:
        """Return whether a view counts all its members and all voters that this member knows of, and most are in it.

        A yes makes a view's voters known, so of any two views the later one counts all voters of the earlier: more than
        half of these were in both. `statuses` is {id: newest MemberStatus}; `has_majority` says what most are. A view
        is a list of the members that make totals together.
        """
        grown = set(view.voters) >= {*self.memory.voters, *view.ids}
        return grown and has_majority(view.ids, view.voters, statuses)

    def _patience(self, view: View, statuses: dict[int, MemberStatus], now: float) -> bool:
        """Return whether every voter is in a view, or may be left out of it at time `now` [s].

        `statuses` is {id: newest MemberStatus}. A view is a list of the members that make totals together.
        """
        return all(one in view.ids or self._is_gone(one, statuses, now) for one in self.memory.voters)

    def _is_gone(self, member: int, statuses: dict[int, MemberStatus], now: float) -> bool:
        """Return whether the member with id `member` may be left out of a view at time `now` [s].

        It may if it refused or was silent for `gone_after` [s]; never where the federation waits for all members. A
        view is a list of the members that make totals together.
        """
        if not self.info.without:
            return False
        refused = member in statuses and bool(statuses[member].refused)
        return refused or now - self.heard[member] >= self.info.gone_after

    def _vote_kept(self, view: View) -> bool:
        """Return whether a view takes over the model that this member voted for, or that of a later vote.

        It is True if the member has not voted. A view is a list of the members that make totals together.
        """
        vote = self.memory.vote
        return vote is None or (view.vote is not None and view.vote.number >= vote.number)

    def _start_allowed(self, view: View) -> bool:
        """Return whether the fit with which a view goes on keeps this member's totals and starts at an allowed point.

        A new fit may start at the point of this member's last contribution only if members and data are those of then;
        otherwise it starts at the point that is drawn for the view, where no other set of members has been. An earlier
        fit may be gone on with by the rule of `may_meet`. A view is a list of the members that make totals together.
        """
        pins = {one.id: one.pin for one in view.members}
        held, own, record = view.held, self.memory.held, self.memory.record
        if held.set != set_digest(pins) or held.fit != self._fit(held.set, held.start, held.born):
            return False
        if own is not None and own.set == held.set:
            if (held.born, held.count) < (own.born, own.count):
                return False
            if (held.fit, held.count) == (own.fit, own.count) and held.chain != own.chain:
                return False
        if held.born != view.number:
            return may_meet(record, held.set, held.start)
        known = record is None or (record.set == held.set and record.start == held.start)
        return held.count == 0 and (known or held.start == view.drawn)

    def _fit(self, set_: str, start: str, born: int) -> str:
        """Return the name, 64 hexadecimal digits, of a fit of the set `set_` that began in view number `born`.

        `set_` is the digest of the fit's members and their data, `start` the seed of its first point. A view is a list
        of the members that make totals together.
        """
        return digest("glmesh/fit/1", self.info.federation, set_, start, born).hex()

    def _wanted(self, statuses: dict[int, MemberStatus], now: float) -> list[int] | None:
        """Return the ids of the members that should make totals together at time `now` [s], ascending.

        `statuses` is {id: newest MemberStatus}. None: there should be no new view, because members are too few, this
        one refuses, or an absent voter is waited for. A view is a list of the members that make totals together.
        """
        there = self.there(now)
        ids = [one for one in there if not statuses[one].refused]
        if self.refused or self.info.me not in ids or len(ids) < self.info.least:
            return None
        absent = [one for one in self.memory.voters if one not in ids]
        if any(not self._is_gone(one, statuses, now) for one in absent):
            return None
        return self._admitted(ids, statuses)

    def _admitted(self, ids: list[int], statuses: dict[int, MemberStatus]) -> list[int]:
        """Return `ids` with one newcomer at most, and with none unless all others remember: the rest wait their turn.

        `statuses` is {id: newest MemberStatus}. A newcomer counts from the first yes on, also if the view is never
        made, and does not remember yet; so too many at once could leave no majority. All are returned if the others are
        too few or not connected without newcomers. A view is a list of the members that make totals together.
        """
        known = {one for k in ids for one in statuses[k].voters}
        remaining = [one for one in ids if one in known]
        if remaining == ids or len(remaining) < self.info.least or not is_connected(remaining, self.info.neighbours):
            return ids
        ready = all(statuses[one].remembers for one in remaining) and 2 * len(remaining) > len(known) + 1
        for one in ids:
            if ready and one not in known:
                admitted = sorted([*remaining, one])
                if is_connected(admitted, self.info.neighbours):
                    return admitted
        return remaining

    def there(self, now: float) -> list[int]:
        """Return the ids of the members that gave a sign of life lately, ascending, this one included; `now` in [s]."""
        lately = [one for one in self.statuses if not self.is_silent(one, now)]
        return sorted([*lately, self.info.me])

    def _must_propose(self, ids: list[int], statuses: dict[int, MemberStatus], now: float) -> bool:
        """Return whether this member is to propose a view of the members `ids` at time `now` [s].

        It is if its id is the lowest, and either the present view has other members, processes or data or one of them
        has promised a later view, or a view under way was not agreed on for PATIENCE * info.heartbeat seconds,
        which double each time that the same members are proposed again: their answers may take longer than that.
        `statuses` is {id: newest MemberStatus}. A view is a list of the members that make totals together.
        """
        if ids[0] != self.info.me:
            return False
        current = self.proposal
        if current is None:
            return True
        same = current.members == tuple(member_of(statuses[one]) for one in ids)
        ahead = any(statuses[one].promised > current.number for one in ids)
        if self.view is current:
            return not same or ahead
        return now - self._proposed >= PATIENCE * self.info.heartbeat * 2.0 ** (self._repeated if same else 0)

    def proposed_view(self, ids: list[int], statuses: dict[int, MemberStatus]) -> View:
        """Return a new view of the members `ids`, which goes on from the totals and the vote that they tell of.

        `statuses` is {id: newest MemberStatus}. A view is a list of the members that make totals together.
        """
        chosen = [statuses[one] for one in ids]
        number = 1 + max(one.promised for one in statuses.values())
        members = tuple(member_of(one) for one in chosen)
        voters = {one for status in chosen for one in status.voters} | set(ids)
        set_ = set_digest({one.id: one.pin for one in members})
        held = best_held(set_, chosen)
        if held is None:
            start = start_of(set_, [one.record for one in chosen], drawn_seed(number, members))
            fit = self._fit(set_, start, number)
            held = Held(fit, set_, start, number, 0, first_chain(fit))
        return View(number, members, tuple(sorted(voters)), held, best_vote(chosen))

    # what follows

    def majority_vote(self) -> Vote | None:
        """Return the vote for a model that more than half of the voters of its view have signed.

        None if there is none. A view is a list of the members that make totals together.
        """
        votes = [(one.author, one.vote) for one in self.statuses.values() if one.vote is not None]
        if self.memory.vote is not None:
            votes.append((self.info.me, self.memory.vote))
        for vote in {vote for _, vote in votes}:
            view = self.views.get(vote.view)
            if view is None and self.view is not None and self.view.digest == vote.view:
                view = self.view
            if view is not None and 2 * sum(one == vote and who in view.voters for who, one in votes) > len(
                view.voters
            ):
                return vote
        return None

    def absent(self, now: float) -> dict[int, float]:
        """Return {member id: time [s] of its last sign of life} of the members that are silent at time `now` [s].

        Looked at are the members of the present view or, without one, all voters. A view is a list of the members that
        make totals together.
        """
        needed: Collection[int] = self.memory.voters if self.view is None else self.view.ids
        return {one: self.heard[one] for one in needed if self.is_silent(one, now)}

    def is_silent(self, member: int, now: float) -> bool:
        """Return whether another member gave no sign of life for `info.present` seconds before `now` [s].

        It is False for this member itself.
        """
        return member != self.info.me and now - self.heard[member] >= self.info.present


def member_of(status: MemberStatus) -> ViewMember:
    """Return the author of a status as a view lists it: id, start of its process, mask key, name of its data.

    A view is a list of the members that make totals together.
    """
    return ViewMember(status.author, status.start, status.key, status.pin)
