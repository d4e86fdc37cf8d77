"""Last phase of a node whose sites make masked totals: I/O around the state machine of `federation.totals`."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from glmesh.errors import InvalidInput, Mismatch
from glmesh.federation.config import Federation, Site
from glmesh.federation.node.answer import Answer
from glmesh.federation.node.final_model import FinalModel
from glmesh.federation.node.fit_figures import FitFigures, ReleaseFigures, released_figures
from glmesh.federation.node.levels import DesignAgreement
from glmesh.federation.node.neighbourhood import Neighbourhood
from glmesh.federation.node.own_rows import OwnRows
from glmesh.federation.node.program import FormulaColumns, SiteProgram, site_method
from glmesh.federation.node.questions import is_about_clusters
from glmesh.federation.node.rules import RuleBook, has_constant_curvature, largest_leverage
from glmesh.federation.node.totals_store import Kept, TotalsStore, federation_info
from glmesh.federation.node.training import Ending, TrainingOutcome, look_again
from glmesh.federation.totals import Machine, Program, Runner
from glmesh.federation.totals.flood import Contribution
from glmesh.federation.totals.messages import pack, unpack
from glmesh.federation.totals.signatures import CertificateKeys
from glmesh.federation.wire import Kind, Message, pack_json
from glmesh.formatting import rows_text
from glmesh.kernels.warm import warm_up_totals
from glmesh.methods import Rows
from glmesh.methods.totals.dealing import rows_of_part
from glmesh.methods.totals.likelihood.outputs import coefficient_table
from glmesh.problem import DataSummary, NodeData

_POLL = 0.2  # [s] longest sleep
_LINGER = 10.0  # [s] that a node stays after its end for others that do not know it yet
TELL = 2.0  # [s] that a node which refuses stays to tell neighbours that may go on without it
_PASSED_ON = "another site refuses"  # reason of a node that ends because it has learned of a refusal
_OTHER_ROWS = (
    "the sites hold a model that was made of other rows (or clusters) than the data file has now, and one federation "
    "file makes one model; put the rows back, or begin with a new federation file"
)
# how a fit without a proof ended, by why no more totals were worth it; other reasons say that there is no optimum
_OUTCOMES = {
    "": TrainingOutcome.OUT_OF_ROUNDS,
    "stationary": TrainingOutcome.STATIONARY,
    "rounding": TrainingOutcome.STALLED,
    "collinear": TrainingOutcome.COLLINEAR,
    "outside": TrainingOutcome.NO_START,
}
# ends of a family without a penalty in which coefficients say nothing: there is no maximum, or none is proven
_NO_MODEL = (TrainingOutcome.NO_OPTIMUM, TrainingOutcome.NO_START, TrainingOutcome.STALLED)
_LONGEST = 256 << 20  # [bytes] longest message: totals of a whole fit, for a site that comes back


class Totalling:
    """Last phase of a node on totals: contributes until more than half of the sites hold the model, then writes it."""

    machine_kind: ClassVar[type[Machine]] = Machine

    def __init__(self, neighbourhood: Neighbourhood, federation: Federation, own: OwnRows) -> None:
        warm_up_totals()  # so that no sign of life waits for a compilation
        self._neighbourhood, self._federation, self._own = neighbourhood, federation, own
        self._fitted, self._summary = own.fitted, own.summary
        site = neighbourhood.site
        self._site = site
        self._block = self.rows_of(federation, site, own.data, own.summary)
        self.info = federation_info(federation, site)
        self._store = TotalsStore(site, self.info)
        self._kept = self._store.load(self._block)
        self._rules = self.rules_of(federation, site, self._block, self._kept)
        self._saved: object = None
        self._again = self._kept.memory.vote is not None  # started again after its vote, perhaps for one that lacks it
        keys = CertificateKeys(site.identity, [member.fingerprint for member in federation.members])
        start = self._kept.start = max(int(time.time() * 1000), self._kept.start + 1)
        secret = secrets.token_bytes(32)
        self.machine = self.machine_kind(self.info, keys, secret, start, self._kept.memory, time.monotonic())
        frame = own.frame(federation, site)
        local = None if frame is None else frame.alone()
        self._shown = self._block if local is None else self._designed(local)  # rows that figures are about
        self._leverage = largest_leverage(self._shown)
        self._released: set[tuple[str, int, int, str]] = set()  # contributions of this process that were sent
        self._chosen = ""  # which alpha was chosen, in words
        self._said: list[str] = []  # sentences on rows that were left out, and on rare levels
        self._progress = (np.nan, np.inf)  # (objective, relative gap) after the last round
        self._off = np.nan  # proven bound of the distance to the optimum in standard errors, after the last round
        self.contributions: Counter[int] = Counter()  # messages with contributions sent, by neighbour
        self._runner: Runner | None = None

    @classmethod
    def check(cls, federation: Federation, site: Site, data: NodeData, summary: DataSummary) -> ReleaseFigures:
        """Return what the site has released before, and the largest leverage of its rows.

        Raise Refusal, InvalidData or UnreadableFile if the site's own rules forbid that it contributes.
        """
        block = cls.rows_of(federation, site, data, summary)
        kept = TotalsStore(site, federation_info(federation, site)).load(block)
        cls.rules_of(federation, site, block, kept).check_alone(block)
        return released_figures(block, kept.released, None if federation.problem.formula else largest_leverage(block))

    @classmethod
    def rows_of(cls, federation: Federation, site: Site, data: NodeData, summary: DataSummary) -> Rows:
        """Return the site's own rows as a block with a single node, which methods on totals read."""
        X, y, weight = rows_of_part(data, summary, site.me)
        table = coefficient_table(data.spec, int(X.shape[1]))  # `ProblemPart.model` has refused penalties without one
        ids = np.array([site.me], dtype=np.uint64)
        made = Rows(ids, federation.network_info(), [X], [y], [weight], data.spec.loss, table, data.spec.fit_intercept)
        return replace(made, clusters=None if data.clusters is None else [data.clusters])

    @classmethod
    def rules_of(cls, federation: Federation, site: Site, block: Rows, kept: Kept) -> RuleBook:
        """Return the site's RuleBook; `kept` says how many of its rows differ from its last contribution."""
        smooth = block.loss.by_likelihood or block.dual.has_smooth_conjugate
        kinked = "" if smooth else federation.problem.loss
        constant = bool(kinked) or has_constant_curvature(block)
        may_change = federation.gone == "without" or any(member.late for member in federation.members)
        changed = kept.changed, kept.clusters_changed
        return RuleBook(site.rules, site.file.name, constant, may_change, kinked, *changed)

    @property
    def figures(self) -> FitFigures:
        """Return figures on the fit for people and programs: totals made, members, proven gap, contributions ..."""
        view, (objective, gap) = self.machine.agreement.view, self._progress
        names = self.info.names
        ids = () if view is None else view.ids
        statuses = self.machine.agreement.everybody
        return {
            "round": 0 if self._runner is None else self._runner.totals,
            "members": [names[k] for k in ids],
            "without": [name for k, name in enumerate(names) if k not in ids],
            "certificate": float(gap) if np.isfinite(gap) else None,
            "certificate_round": None if self._runner is None else self._runner.totals,
            "standard_errors": float(self._off) if np.isfinite(self._off) else None,
            "objective": float(objective) if np.isfinite(objective) else None,
            "missed": 0,
            "communications": max(self.contributions.values(), default=0),
            "done": [names[k] for k, one in sorted(statuses.items()) if one.vote is not None],
            "chosen": self._chosen,
            "revealed": self._federation.revealed,
            "rows": "; ".join(self._said),
            **released_figures(self._shown, self._kept.released, self._leverage),
        }

    def run(
        self, max_rounds: int, record: Callable[[], None], seen: Callable[[float, float], None] = lambda *_: None
    ) -> Ending:
        """Make totals (sums over all members) until the model is final, write it and leave.

        Return the outcome and whose data is in the model. `record` is called about twice a second, `seen` after each
        round with objective and relative gap. Mismatch is raised if this or another site refuses to go on.
        """
        self._neighbourhood.links.allow(_LONGEST)
        self._runner = Runner(self.machine, self._program(max_rounds, seen))
        for peer in self.info.neighbours[self.info.me]:
            self.machine.greet(peer)
        self._neighbourhood.phase = "training"
        if self._kept.outdated:
            public = f"refused by {self._site.file.name}"
            self.machine.refuse(public)
            self._pass_on()
            raise Mismatch(public, private=f"{self._site.file.name}: {_OTHER_ROWS}")
        began, looked = time.monotonic(), -np.inf
        while not self._neighbourhood.stop.is_set():
            self._turn()
            now = time.monotonic()
            if self.machine.is_final:
                return self._finish(record)
            if (ending := self.ends_early(now)) is not None:
                return ending
            if now >= looked + look_again(now - began):
                looked = now
                self._say_waiting(now)
                record()
        self._save()
        return Ending(TrainingOutcome.STOPPED)

    def _program(self, max_rounds: int, seen: Callable[[float, float], None]) -> Program:
        """Return the program of this site's fit: the method on totals that suits the objective, on this site's rows.

        `seen(objective, gap)` is called after each round; `max_rounds` is the largest number of totals.
        """
        part, block = self._federation.problem, self._block
        method = site_method(part, block.p)
        names = self._fitted.table.columns

        checks = part.tol, max_rounds, self._rules, names, part.rare, self.told(seen), part.cv
        frame = self._own.frame(self._federation, self._site)
        columns = None
        if frame is not None:
            columns = FormulaColumns(frame, self._designed, lambda p: site_method(part, p))
        return SiteProgram(
            *(method, block, len(self.info.names), *checks, self._fitted.labels), columns, self._own.left_out
        )

    def told(self, seen: Callable[[float, float], None]) -> Callable[[float, float, float], None]:
        """Return a function that keeps objective, gap and standard errors off of a round for `figures`.

        It calls `seen` with the first two.
        """

        def keep(objective: float, gap: float, off: float) -> None:
            """Keep objective, gap and standard errors off of the last round for `figures`, and tell the caller."""
            self._progress, self._off = (objective, gap), off
            seen(objective, gap)

        return keep

    def _answer(self) -> Answer:
        """Return the model that more than half of the members voted for."""
        return Answer.of_bytes(self.machine.model)

    def _designed(self, agreement: DesignAgreement) -> Rows:
        """Return the site's rows with the columns of the design that all sites have agreed on."""
        data, summary = self._own.designed(agreement, self._federation.problem)
        return self.rows_of(self._federation, self._site, data, summary)

    # messages

    def _turn(self) -> None:
        """Give the machine the messages that have come, advance the program, write the memory to disk, send bundles."""
        message = self._neighbourhood.links.inbox.get(_POLL)
        while message is not None:
            self._take(message)
            message = self._neighbourhood.links.inbox.get(0.0)
        assert self._runner is not None
        now = time.monotonic()
        bundles = []
        for _ in range(2):
            self._runner.advance(now)
            if is_about_clusters(self._runner.request):
                self._kept.tell_clusters()
            bundles += self.machine.poll(now)
        self._count_released([part for _, bundle in bundles for part in bundle.parts])
        for peer, bundle in bundles:
            self._save()
            self.contributions[peer] += bool(bundle.parts)
            self._neighbourhood.links.send(peer, Kind.TOTALS, pack(bundle))

    def _count_released(self, parts: Sequence[Contribution]) -> None:
        """Count the numbers of this site's own contributions among those that are about to be sent, each only once."""
        for part in parts:
            name = part.view, part.number, part.attempt, part.request
            if part.author == self.info.me and name not in self._released:
                self._released.add(name)
                self._kept.released += len(part.body) // 8

    def _take(self, message: Message) -> None:
        """Act on a message: greet a neighbour whose link came up, and pass the message on to the neighbourhood."""
        if message.kind is None and message.up:
            self.machine.greet(message.peer)
        self._neighbourhood.receive(message, self._act)

    def _act(self, peer: int, kind: Kind, content: bytes | bytearray) -> None:
        """Give the bundle in a TOTALS message of neighbour `peer` to the machine.

        Other kinds of messages need nothing: votes tell who is done, not a BYE.
        """
        if kind is Kind.TOTALS:
            self.machine.receive(peer, unpack(content, len(self.info.names)), time.monotonic())

    def _save(self) -> None:
        """Write the node's memory of views and totals to its file, if it has changed since it was last written.

        A view is a list of the members that make totals together.
        """
        memory = self._kept.memory
        if self.machine.has_contributed:
            self._kept.contribute(self.info.names)
        state = (
            *(memory.promised, memory.record, memory.held, memory.vote, memory.voters),
            *(self._kept.released, self.machine.has_contributed, len(self._kept.partitions)),
        )
        if state != self._saved:
            self._store.save(self._kept)
            self._saved = state

    # ends

    def _say_waiting(self, now: float) -> None:
        """Record at the neighbourhood which members this node waits for, since when, and until when.

        `now` is in seconds of a monotonic clock.
        """
        absent = self.machine.agreement.absent(now)
        since = min(absent.values(), default=now) - now + time.time()
        limits = [self._federation.network.wait_at_most] if self._federation.network.wait_at_most else []
        if self.info.without:
            limits.append(self.info.gone_after)
        self._neighbourhood.wait_for(sorted(absent), since, since + min(limits) if limits else None)

    def ends_early(self, now: float) -> Ending | None:
        """Return the Ending of a run that ends without a model; None if the run goes on.

        Raise Mismatch if a site refuses, InvalidInput if another process of this node has taken over. `now` is in
        seconds of a monotonic clock.
        """
        self._raise_refusals()
        away = {k: now - since for k, since in self.machine.agreement.absent(now).items()}
        ending = self._too_few(away) or self._waited_enough(away)
        if ending is not None:
            self._save()
        return ending

    def _raise_refusals(self) -> None:
        """Raise Mismatch if this site refuses, or another one that the model cannot be made without.

        Before that the others are told. InvalidInput is raised if another process of this node has taken over.
        """
        names, refusals = self.info.names, self.machine.refusals
        if self.machine.agreement.superseded:
            raise InvalidInput(f"another process of {names[self.info.me]} has been started since; this one ends")
        if self._runner is not None and self._runner.refusal is not None:
            self._pass_on()
            public = self._runner.refusal.public
            raise Mismatch(public, private=str(self._runner.refusal).removeprefix(public).lstrip("; "))
        if self._ends_all(refusals):
            self.machine.refuse(_PASSED_ON)  # tells the neighbours that this node knows
            self._pass_on()
            first = {k: why for k, why in refusals.items() if why != _PASSED_ON} or refusals
            raise Mismatch("; ".join(f"{names[k]} cannot go on: {why}" for k, why in first.items()))

    def _too_few(self, away: dict[int, float]) -> Ending | None:
        """Return the Ending of a run in which too few sites are left for a model without the others; None if not.

        `away` has the seconds for which sites that are away have been so, by id.
        """
        gone = {k for k, seconds in away.items() if seconds >= self.info.gone_after} | set(self.machine.refusals)
        voters = self.machine.agreement.memory.voters
        left = [k for k in voters if k not in gone]
        is_majority = 2 * len(left) > len(voters)  # a minority waits: the others may go on
        if not (self.info.without and gone and is_majority and len(left) < self.info.least):
            return None
        verb = "is" if len(gone) == 1 else "are"
        few = "one site is" if len(left) == 1 else "two sites are"
        why = f"{' and '.join(self.info.names[k] for k in sorted(gone))} {verb} gone; {few} too few."
        return Ending(TrainingOutcome.TOO_FEW, why=why)

    def _waited_enough(self, away: dict[int, float]) -> Ending | None:
        """Return the Ending of a run that has waited for as long as the federation file allows; None if it goes on.

        `away` has the seconds for which sites that are away have been so, by id.
        """
        limit = self._federation.network.wait_at_most
        if not limit or max(away.values(), default=0.0) < limit:
            return None
        missing = ", ".join(self.info.names[k] for k in sorted(away))
        return Ending(TrainingOutcome.WAITED, why=f"{missing} did not come within wait_at_most = {limit:g} s.")

    def _ends_all(self, refusals: Collection[int]) -> bool:
        """Return whether no site can go on because the members `refusals` (ids) refuse.

        One is enough where all wait for all. Else the others go on if they are more than half of the voters, and not
        too few; those that refuse are no site that might go on without this one, so nobody waits for them.
        """
        if not self.info.without:
            return bool(refusals)
        voters = self.machine.agreement.memory.voters
        n_able = sum(one not in refusals for one in voters)
        return bool(refusals) and (n_able < self.info.least or 2 * n_able <= len(voters))

    def _pass_on(self) -> None:
        """Go on exchanging messages until all neighbours have confirmed that they know of a refusal.

        A neighbour that ends for it confirms it by refusing too: it is waited for _LINGER seconds at most. Neighbours
        that may go on without the sites that refuse do not confirm, so they are told for TELL seconds. After that the
        memory of views and totals is written to disk.
        """
        began, seconds = time.monotonic(), _LINGER
        neighbours = set(self.info.neighbours[self.info.me])
        while time.monotonic() < began + seconds and not self._neighbourhood.stop.is_set():
            self._turn()
            refusals = self.machine.refusals
            if neighbours <= refusals.keys():
                break
            seconds = _LINGER if self._ends_all(refusals) else TELL
        self._neighbourhood.links.flush(1.0)
        self._save()

    def _finish(self, record: Callable[[], None]) -> Ending:
        """Write the model, stay until the others know that it is final, send BYE.

        Return the Ending with the model's sites.
        """
        answer = self._answer()
        self._progress, self._off = (answer.objective, answer.certificate.relative), answer.off
        if answer.curve is not None:
            self._chosen = answer.curve.text(self._federation.problem.choose)
        rows = [] if answer.left_out is None else [f"rows of all sites: {rows_text(*answer.left_out)}"]
        self._said = [*rows, *answer.said]
        outcome = _OUTCOMES.get(answer.failure, TrainingOutcome.NO_OPTIMUM)
        if answer.certified:
            outcome = TrainingOutcome.CERTIFIED
        sent = max(self.contributions.values(), default=0)
        model = FinalModel(answer, outcome, sent, self._federation, self._site, self._own).to_model()
        self._save()
        if not (self._federation.problem.is_unpenalised and outcome in _NO_MODEL):
            model.save(self._site.state / "model.npz")
        self._neighbourhood.phase = outcome.name.lower()
        self._neighbourhood.waiting = None
        about = {"round": answer.totals, "gap": answer.certificate.relative}
        record()
        self._neighbourhood.log.info("certified" if answer.certified else "ended", extra=about)
        end = time.monotonic() + _LINGER
        while time.monotonic() < end and not self._neighbourhood.stop.is_set() and not self._all_know():
            self._turn()
        links = self._neighbourhood.links
        links.send_to_all(Kind.BYE, pack_json({}))
        links.flush(1.0)
        said = (
            *(answer.sentence, self._chosen and f"{self._chosen}."),
            *(f"{one[0].upper()}{one[1:]}." for one in self._said),
            self._federation.revealed,
        )
        return Ending(outcome, model.sites, model.without, why=" ".join(one for one in dict.fromkeys(said) if one))

    def _all_know(self) -> bool:
        """Return whether all members that gave a sign of life lately, or are linked, said that the model is final.

        A neighbour whose link has just come up may have to read its data before it can say anything.
        """
        agreement = self.machine.agreement
        calling = self.info.neighbours[self.info.me] if self._again else ()  # perhaps seconds before their next call
        there = self._neighbourhood.linked.union(agreement.there(time.monotonic()), calling)
        return all(k in agreement.everybody and agreement.everybody[k].final for k in there)
