"""First phase of a node: meet the others, agree on what the data of all sites is, or say who does not fit and why."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from glmesh.contract import Contract, Fitted
from glmesh.engine.agreement import versions
from glmesh.errors import GlmeshError, Mismatch
from glmesh.federation.config import Federation, Site, difference
from glmesh.federation.node.agreed import Agreed
from glmesh.federation.node.agreement import (
    gossip_warnings,
    other_targets,
    same_targets,
    scale_warnings,
    uncompared,
    verdict_of,
)
from glmesh.federation.node.checkpoint import Store
from glmesh.federation.node.neighbourhood import Neighbourhood
from glmesh.federation.node.roles import summary_of
from glmesh.federation.node.site_data import SiteData, public_reason, warnings_of
from glmesh.federation.wire import (
    DISTINCT,
    FITS,
    OFFER,
    PREDICT,
    REFUSED,
    ROWS,
    TRAIN,
    WHY,
    GossipEntry,
    Hello,
)
from glmesh.files.archive import remove_parts
from glmesh.formatting import rows_text
from glmesh.types import Tree

_TELL_OWN = 30.0  # [s] that a site whose own data does not fit stays for neighbours that it has not reached yet
_TELL = 3.0  # [s] that a site which has learned of a refusal stays for such neighbours
_GRACE = 1.0  # [s] that links stay open after the last word, so that the others can read it
_LATE = (
    "nobody waits for this site, which is marked late: it takes part from when it comes; if the others have a final "
    "model it takes that over, and if they have ended, they must be started again for it"
)

_VERSION = str(versions()["glmesh"])  # of this node
_STARTED = {PREDICT: "predict", ROWS: "compare rows", DISTINCT: "compare rows"}  # what others do, by purpose


def _other_version(me: str, name: str, theirs: str) -> str:
    """Return a text that says which of two sites, `me` and `name`, with other versions of glmesh must upgrade."""

    def key(version: str) -> list[int]:
        """Return the first three numbers in a version, by which versions are compared."""
        return [int(part) for part in re.findall(r"\d+", version)[:3]]

    older = name if key(theirs) < key(_VERSION) else me
    both = f"has glmesh {theirs or 'of an earlier version'}, {me} has {_VERSION}"
    return f"{both}; upgrade glmesh at {older}: sites must compute the same to the last bit"


class Stopped(Exception):
    """Raised inside a meeting when the node was told to stop."""


class _OwnFiles(NamedTuple):
    """What a site reads before it meets the others: its data, and the checkpoint of an earlier run."""

    data: SiteData
    store: Store  # of checkpoints
    saved: Tree | None  # the checkpoint; None: there is none

    @staticmethod
    def read(site: Site) -> _OwnFiles:
        """Return the data and the checkpoint of a site; raise an error if one of them cannot be read."""
        data = SiteData.read(site)
        store = Store(site, data)
        return _OwnFiles(data, store, store.load())


class Meeting:
    """First phase of a node: reads the node's own data, and agrees with the other members on a contract.

    A contract says which target, columns and labels the tables of all sites or ranks have.
    """

    def __init__(self, site: Site, log: logging.Logger) -> None:
        self._site, self._federation, self._log = site, site.federation, log
        hello = Hello(site.file.name, site.federation.entries(), version=_VERSION)
        self.neighbourhood = Neighbourhood(site, log, hello, self._check)
        self._gossip = self.neighbourhood.gossip
        # neighbours with another federation file, and what differs; the thread of the links writes it
        self._differs: dict[int, str] = {}
        self._late = site.federation.members[site.me].late  # others do not wait for this node

    def _check(self, peer: int, hello: Hello) -> str | None:
        """Return why neighbour `peer`, which sent this HELLO, cannot train with this node; None if it can."""
        if hello.purpose != TRAIN:
            return f"does not train, but was started to {_STARTED.get(hello.purpose, 'do something else')}"
        differs = difference(self._federation.entries(), hello.entries)
        if hello.version != _VERSION:
            self._differs[peer] = _other_version(self._site.file.name, self.neighbourhood.name(peer), hello.version)
        elif differs is not None:
            self._differs[peer] = f"has another configuration: {differs}"
        else:
            self._differs.pop(peer, None)
        return self._differs.get(peer)

    def run(self) -> Agreed | None:
        """Agree on the data with all members that are not late; return the second phase, None if told to stop.

        Mismatch is raised if this or another site does not fit, unless the others go on without it; all members that
        can be reached are told before.
        """
        try:
            return self._meet()
        except Stopped:
            return None

    def _meet(self) -> Agreed:
        """Do the work of `run` and return the next phase; raise Stopped if the node was told to stop."""
        own = self._open()
        neighbourhood, site, gossip = self.neighbourhood, self._site, self._gossip
        if own.saved is not None:
            gossip.merge(own.saved["gossip"])
        if not self._late:
            gossip.publish(GossipEntry(OFFER, site.me, 1, offer=own.data.offer))
        contract, federation = self._agree(own.data)
        try:
            fitted = own.data.fitted(contract)
            data = own.data.node_data(fitted)
        except GlmeshError as caught:
            self._withdraw(caught)
        self._remark(own.data, fitted, contract)
        if not federation.members[site.me].late:  # late, or refused by the others, which go on without it
            gossip.publish(GossipEntry(FITS, site.me, 1, 1))
        federation = self._gather(self._without_statement(FITS))
        if self._by_features:
            federation = self._compare(late=federation.members[site.me].late, resumed=own.saved is not None)
        neighbourhood.waiting = None
        summary = summary_of(data, fitted.labels)
        return Agreed(
            neighbourhood, federation, data, summary, fitted, own.store, own.saved, contract, own.data.left_out
        )

    def _open(self) -> _OwnFiles:
        """Read this site's data and checkpoint, log what its neighbours may learn, and open its links.

        Return what was read. A site whose files cannot be used tells all members so, and raises Mismatch.
        """
        own: _OwnFiles | None = None
        error: Exception | None = None
        try:
            own = _OwnFiles.read(self._site)
            if self._by_features:
                self.neighbourhood.compare_targets(own.data.table)
        except (GlmeshError, OSError) as caught:
            error = caught
        for remark in [self._federation.disclosure, *self._federation.remarks()]:
            self._log.warning("reveals", extra={"why": remark})
        self.neighbourhood.links.start()
        remove_parts(self._site.state)
        self.neighbourhood.phase = "meeting"
        if self._late:
            self._log.info("late", extra={"why": _LATE})
        if error is not None:
            self._withdraw(error)
        assert own is not None  # or an error was caught
        return own

    # agreement

    def _agree(self, own: SiteData) -> tuple[Contract, Federation]:
        """Gather the offers of all members that are not late; return (contract, federation).

        `own` is this site's table. In the federation, members that were refused count as late. A late site by features,
        whose offer nobody waits for, checks itself whether its rows and names fit the others'. A contract says which
        target, columns and labels the tables of all sites or ranks have.
        """
        while True:
            federation = self._gather(self._without_statement(OFFER))
            offers = {self.neighbourhood.name(k): offer for k, offer in self._gossip.offers().items()}
            taking_part = [member.name for member in federation.members if not member.late]
            verdict = verdict_of({name: offers[name] for name in taking_part}, federation)
            if verdict.contract is None:
                self._refuse(verdict.culprits, taking_part)
                continue
            if federation.members[self._site.me].late and self._by_features:
                me = self._site.file.name
                culprits = verdict_of(
                    {name: offers[name] for name in taking_part} | {me: own.offer}, federation
                ).culprits
                if me in culprits:
                    self._withdraw(Mismatch(culprits[me]))
            return verdict.contract, federation

    def _compare(self, *, late: bool, resumed: bool) -> Federation:
        """Wait, split by features, until all who take part have compared their targets; raise Mismatch if those differ.

        Return the federation, in which refused members count as late. `late`: this site is late. A `resumed` node keeps
        the results of its last run, since its checkpoint was recognised by the data; any other node believes about
        itself only what it found since it started.
        """

        def missing(nodes: Sequence[int]) -> list[int]:
            """Return those of the nodes, ascending, that must still compare targets with a neighbour.

            The list is empty when the comparisons made are enough.
            """
            around = [peer for peer in self._site.addresses if peer in nodes] or list(self._site.addresses)
            if not resumed and not any(peer in self._results for peer in around):
                return around
            links = [] if late else uncompared(nodes, self._federation.graph, self._compared(resumed)).edges
            return sorted({pair[0] if pair[1] == self._site.me else pair[1] for pair in links})

        federation = self._gather(missing)
        names = {k: member.name for k, member in enumerate(federation.members) if not member.late}
        other = next((names[peer] for peer, equal in self._results.items() if peer in names and not equal), None)
        if late and other is not None:
            self._withdraw(Mismatch(f"its target or its sample weights are not those of {other}"))
        culprits = {} if late else other_targets(same_targets(names, self._compared(resumed)), names)
        if culprits:
            self._end({self._federation.id_of(name): why for name, why in culprits.items()})
        return federation

    def _compared(self, resumed: bool) -> dict[int, dict[int, bool]]:
        """Return {node: {neighbour: whether the node found the neighbour's targets equal to its own}}.

        This node's own results are in it. Unless the node is `resumed`, gossip about itself from before its start is
        left out.
        """
        me, found = self._site.me, self._gossip.compared()
        if not resumed:
            found = {k: {j: same for j, same in results.items() if j != me} for k, results in found.items() if k != me}
        return found | {me: found.get(me, {}) | self._results}

    @property
    def _results(self) -> dict[int, bool]:
        """Return {neighbour: whether its targets equal those of this site}; neighbours not compared yet are missing."""
        targets = self.neighbourhood.targets
        return {} if targets is None else targets.same

    @property
    def _by_features(self) -> bool:
        """Return whether the data is split by features: sites hold columns of the same rows."""
        return self._federation.problem.split == "features"

    def _without_statement(self, kind: str) -> Callable[[Sequence[int]], list[int]]:
        """Return a function that maps a list of nodes to those about which no statement of this kind is stored."""
        return lambda nodes: [node for node in nodes if not self._gossip.knows(kind, node)]

    def _refuse(self, culprits: Mapping[str, str], taking_part: list[str]) -> None:
        """Tell all members why each culprit, {name: why}, does not fit.

        Raise Mismatch if this node, or everybody in `taking_part` (names), is a culprit.
        """
        reasons = {self._federation.id_of(name): why for name, why in culprits.items()}
        if len(culprits) == len(taking_part):
            self._end(reasons)
        for node, why in reasons.items():
            self._gossip.publish(GossipEntry(REFUSED, node, 1, why=why[:WHY]))
        if self._site.me in reasons:
            self._end(reasons)

    def _gather(self, lacking: Callable[[Sequence[int]], list[int]]) -> Federation:
        """Wait until `lacking(nodes)` is empty for the members that are neither late nor refused.

        Return the federation, in which those that are refused count as late, so that nobody waits for them. A member
        that is still lacking after `meet_within` seconds is refused.
        """
        neighbourhood, gossip = self.neighbourhood, self._gossip
        needed = np.flatnonzero(self._federation.members_at_start).tolist()
        within, since = self._federation.network.meet_within, time.time()
        while True:
            refused = {node: why for node, why in gossip.refused().items() if node in needed}
            if refused and self._federation.network.refused == "end":
                self._end(refused)
            missing = lacking([node for node in needed if node not in refused])
            if not missing:
                return self._without(refused)
            if neighbourhood.stop.is_set():
                raise Stopped
            neighbourhood.wait_for(missing, since, since + within)
            if time.time() > since + within:
                self._refuse_absent(missing, within)
                continue
            message = neighbourhood.next_message()
            if message is not None:
                neighbourhood.receive(message, lambda *_: None)
            neighbourhood.raise_if_refused()
            for peer, why in list(self._differs.items()):
                gossip.publish(GossipEntry(REFUSED, peer, 1, why=why[:WHY]))

    def _refuse_absent(self, missing: Sequence[int], within: float) -> None:
        """Tell all members that those in `missing`, which did not come `within` that time [s], are refused."""
        for node in missing:
            why = f"it did not come within {within:g} s{self.neighbourhood.link_trouble(node)}"
            again = self._late and node not in self.neighbourhood.ended
            why += "; if it has ended, start it again" if again else ""
            self._gossip.publish(GossipEntry(REFUSED, node, 1, why=why[:WHY]))

    def _without(self, refused: Mapping[int, str]) -> Federation:
        """Return the federation in which the members `refused`, {number: why}, count as late.

        Raise Mismatch if the others cannot train together.
        """
        try:
            return self._federation.without(refused)
        except GlmeshError as error:
            self._end(refused, f"; {error}")

    # what is said at the end

    def _remark(self, own: SiteData, fitted: Fitted, contract: Contract) -> None:
        """Log a warning for each thing that was done to the columns of this site's file, or that looks wrong in them.

        `own` is the table as the file has it, `fitted` the table in the order of the contract. A contract says which
        target, columns and labels the tables of all sites or ranks have.
        """
        said = warnings_of(own) + fitted.remarks()
        if own.left_out:
            rows = rows_text(own.table.m + own.left_out, own.left_out)
            said.append(f"rows: {rows}; other sites are told the sum over all sites")
        if self._federation.data is None and not contract.header and self._federation.problem.split == "samples":
            said.append("no site's file has a header: columns are matched by position, not by name")
        if self._federation.problem.split == "features" and self._federation.problem.aligned and not own.offer.ids:
            said.append("rows have no names: that all files hold the same rows in the same order was not checked")
        if own.offer.ids and not self._federation.network.salt:
            said.append(
                "salt is empty in [network] of the federation file: who can guess the settings there can test guesses "
                "of all row names; write random text into it at all sites"
            )
        offers = {self.neighbourhood.name(k): offer for k, offer in self._gossip.offers().items()}
        offers[self._site.file.name] = own.offer
        said += scale_warnings(self._site.file.name, offers, contract)
        if not self._federation.problem.by_totals:
            said += gossip_warnings(offers, contract)
        for remark in said:
            self._log.warning("data", extra={"why": remark})

    def _withdraw(self, error: Exception) -> NoReturn:
        """Tell all members that this site cannot take part, with the text of `error` that others may read.

        Raise Mismatch.
        """
        self._log.error("cannot take part", extra={"why": str(error)})
        self._gossip.publish(GossipEntry(REFUSED, self._site.me, 1, why=public_reason(error)[:WHY]))
        self._tell(_TELL_OWN)
        raise Mismatch(f"{self._site.file.name} cannot take part: {error}") from error

    def _end(self, refused: Mapping[int, str], more: str = "") -> NoReturn:
        """Tell all neighbours who cannot take part, {node: why}; then raise Mismatch with all reasons.

        `more` is a text that is added to the message.
        """
        self._tell(_TELL)
        name = self.neighbourhood.name
        raise Mismatch("; ".join(f"{name(node)} cannot take part: {why}" for node, why in refused.items()) + more)

    def _tell(self, seconds: float) -> None:
        """Stay for at most `seconds`, until all neighbours were reached; they get all gossip when their links come up.

        Then links stay open for a moment, so that the others can read the last message.
        """
        neighbourhood = self.neighbourhood
        links, end = neighbourhood.links.links, time.monotonic() + seconds
        reached = {peer for peer, link in links.items() if link.up}
        open_ones = {peer for peer, link in links.items() if not link.refused} - self._gossip.refused().keys()
        while not reached >= open_ones and time.monotonic() < end and not neighbourhood.stop.is_set():
            message = neighbourhood.next_message()
            if message is not None:
                neighbourhood.receive(message, lambda *_: None)
                reached |= {message.peer} if message.up else set()
        neighbourhood.links.flush(1.0)
        end = time.monotonic() + _GRACE
        while any(link.up for link in links.values()) and time.monotonic() < end:
            message = neighbourhood.next_message()
            if message is not None:
                neighbourhood.receive(message, lambda *_: None)
