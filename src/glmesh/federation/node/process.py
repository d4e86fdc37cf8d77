"""The process of a site: meet the neighbours, agree, train, prove, write the model. No coordinator for anything."""

from __future__ import annotations

import signal
import threading
import time
from enum import Enum
from typing import Any

import numpy as np

from glmesh.core.wire import Layout
from glmesh.errors import InvalidData, InvalidInput
from glmesh.federation.config.federation import difference
from glmesh.federation.config.site import Site
from glmesh.federation.monitor.history import History
from glmesh.federation.monitor.log import Log
from glmesh.federation.monitor.status import figures
from glmesh.federation.node.checkpoint import Store, model_of
from glmesh.federation.node.gossip_store import Board
from glmesh.federation.node.rows import Samples, load, misaligned
from glmesh.federation.node.trainer import Trainer
from glmesh.federation.wire.frames import (
    CONTROL,
    Kind,
    Violation,
    longest_mail,
    pack_json,
    pack_vector,
    unpack_json,
    unpack_vector,
)
from glmesh.federation.wire.inbox import Message
from glmesh.federation.wire.links import Links
from glmesh.federation.wire.transport import PeerExchange
from glmesh.problem.summary import DataSummary

_START = 60.0  # seconds that a node waits for its neighbours to be ready too, once all facts are known
_LINGER = 10.0  # seconds that it stays to tell the others that it is done
_CONFIRM = 60.0  # seconds without any neighbour after which a node that holds a proof ends by itself
_LOOK = 0.5  # seconds between looks at who is gone, and between entries of the history


class Outcome(Enum):
    """How it ended, as a sentence."""

    CERTIFIED = "All members hold a model that is proven to be good enough."
    ALONE = "The model is proven to be good enough; nobody was there to confirm that all others have theirs."
    OUT_OF_ROUNDS = "Stopped after max_rounds without a proof; raise max_rounds or relax tol."
    LEFT_BEHIND = "The others are done; this node came back too late to prove its part."
    STOPPED = "Stopped; started again it goes on from its checkpoint."


class Node:
    """A site at work. `patient` waits for every neighbour for ever, so that the rounds are the simulator's."""

    def __init__(self, site: Site, log: Log, *, patient: bool = False, rounds: int | None = None) -> None:
        self.site, self.log, self.patient = site, log, patient
        self.federation, self.me = site.federation, site.me
        self.max_rounds = self.federation.problem.max_rounds if rounds is None else rounds
        self.stop = threading.Event()
        self.model = self.federation.problem.model()
        self.samples: Samples = load(site.data, target=site.file.target or None, ids=site.file.ids or None)
        self.data = self.samples.node_data(self.model, site.file.name)
        self.rows = self.samples.rows()
        hello: dict[str, Any] = {"entries": self.federation.entries()}
        if self.federation.problem.split == "features":
            hello["rows"] = self.rows
        self.store = Store(site, self.data)
        self.links = Links(site, log, hello, self._check)
        self.board = Board(len(self.federation.members), DataSummary.SIZE)
        self.exchange: PeerExchange | None = None
        self.trainer: Trainer | None = None
        self.summary: DataSummary | None = None
        self.ready: dict[int, int] = {}  # neighbours that are ready, and their exchange, before this node is
        self.phase = "starting"
        self.began = time.time()
        self.saved_round = -1
        self._looked = 0.0
        self._gone_since = time.monotonic()
        self.history: History | None = None
        self._counts_changed = False
        self._counts: dict[int, int] = {}  # of the neighbours, when they were last looked at

    # meeting the neighbours

    def _check(self, peer: int, hello: dict[str, Any]) -> str | None:
        """Why a neighbour cannot take part with what it says of itself; None if it can."""
        entries = hello.get("entries")
        if hello.get("purpose", "train") != "train":
            return "does not train but predict"
        if not isinstance(entries, dict):
            return "tells nothing of its configuration"
        differs = difference(self.federation.entries(), entries)
        if differs is not None:
            return f"has another configuration: {differs}"
        if self.federation.problem.split == "features":
            rows = hello.get("rows")
            wrong = misaligned(self.rows, rows) if isinstance(rows, dict) else "nothing told of its rows"
            if wrong is not None:
                return f"its rows are not aligned with those of {self.site.file.name}: {wrong}"
        return None

    def name(self, peer: int) -> str:
        """A member's."""
        return self.federation.members[peer].name

    def receive(self, message: Message) -> None:
        """Act on a message that is no mail."""
        peer = message.peer
        if message.kind is None:
            self.ready.pop(peer, None)
            if message.up:
                self._tell(Kind.BOARD, pack_json(self.board.message()), peer)
                if self.trainer is not None:
                    self._say_ready(peer)
            return
        try:
            self._act(peer, message.kind, message.content)
        except Violation as error:
            self.links.drop(peer, str(error))

    def _act(self, peer: int, kind: Kind, content: bytes | bytearray) -> None:
        if kind is Kind.BOARD:
            news = self.board.merge(unpack_json(content))
            if news:
                self._spread(news, but=peer)
        elif kind is Kind.READY:
            clock = unpack_json(content).get("clock")
            if type(clock) is not int or not 0 <= clock < 1 << 62:
                raise Violation("a READY without an exchange")
            self.ready[peer] = clock
            self._note_ready()
        elif kind is Kind.WILL and self.trainer is not None:
            _, vector = unpack_vector(content, self.trainer.block.d)
            self.trainer.wills[peer] = vector
        elif kind is Kind.BYE and self.exchange is not None:
            self.exchange.paces[peer].finished = True
        elif kind not in (Kind.WILL, Kind.BYE):
            raise Violation(f"a message of kind {kind.name} at this time")

    def _tell(self, kind: Kind, content: bytes, *peers: int) -> None:
        for peer in peers or tuple(self.links.links):
            self.links.send(peer, kind, content)

    def _spread(self, keys: list[tuple[str, int]], but: int | None = None) -> None:
        others = [peer for peer in self.links.links if peer != but]
        if others:
            self._tell(Kind.BOARD, pack_json(self.board.message(keys)), *others)
        for kind, node in keys:
            if kind == "heir" and self.trainer is not None and self.board.get("heir", node) != self.me:
                self.trainer.wills.pop(node, None)  # somebody else has the newer one
            self._counts_changed |= kind == "count"  # to be looked at between two rounds

    def _learn_counts(self) -> None:
        """Links to those who were given up carry no mail, so the board tells of them."""
        trainer, self._counts_changed = self.trainer, False
        assert trainer is not None
        for node in range(len(self.federation.members)):
            trainer.learn(node, self.board.get("count", node) or 0)
        if trainer.view.counts[self.me] > (self.board.get("count", self.me) or trainer.view.counts[self.me]):
            self.log("joined again")
            self._tell_counts([self.me])

    def _tell_counts(self, nodes: list[int]) -> None:
        assert self.trainer is not None
        for node in nodes:
            count = int(self.trainer.view.counts[node])
            self.board.put("count", node, count, count)
        self._spread([("count", node) for node in nodes])

    def _say_done(self) -> None:
        """Which round this node holds a proof about; one that lost it takes its word back."""
        trainer = self.trainer
        assert trainer is not None
        held = -1 if trainer.proof is None else trainer.proof.certificate.round
        said = self.board.get("done", self.me)
        if held != (-1 if said is None else said):
            self.board.put("done", self.me, self.board.stamp("done", self.me) + 1, held)
            self._spread([("done", self.me)])

    def _say_ready(self, *peers: int) -> None:
        assert self.trainer is not None
        self._tell(Kind.READY, pack_json({"clock": self.trainer.gossip.clock}), *peers)

    def _note_ready(self) -> None:
        if self.exchange is not None:
            for peer, clock in self.ready.items():
                pace = self.exchange.paces[peer]
                pace.ready, pace.at = True, max(pace.at, clock)

    # from the start to the first round

    def _agree(self, saved: dict[str, Any] | None) -> bool:
        """Waits until the facts of all who take part from the start are here; False if stopped."""
        late = self.federation.members[self.me].late
        if saved is not None:
            self.board.entries = {(kind, node): (stamp, value) for kind, node, stamp, value in saved["board"]}
        if not late:
            self.board.put("facts", self.me, 1, self.data.summary().to_vector().tolist())
        needed = np.flatnonzero(self.federation.members_at_start).tolist()
        self.phase = "meeting"
        while (summary := self.board.summary(needed)) is None:
            if self.stop.is_set():
                return False
            message = self.links.inbox.get(0.2)
            if message is not None:
                self.receive(message)
            self._refused_by_all()
        self.summary = summary
        if late and not summary.admits(self.data.summary()):
            raise InvalidData(
                f"the data of {self.site.file.name} does not fit what the federation agreed on: "
                "it has more features, other rows, or other labels"
            )
        return True

    def _refused_by_all(self) -> None:
        links = self.links.links.values()
        if links and all(link.refused for link in links):
            raise InvalidInput("; ".join(link.refused for link in links))

    def _prepare(self, saved: dict[str, Any] | None) -> bool:
        """State and exchange; then everybody begins together, or this node joins those who have begun."""
        assert self.summary is not None
        composite = self.data.compose(self.summary, self.me)
        life = max(int(time.time() * 1000), 0 if saved is None else saved["trainer"]["life"] + 1)
        trainer = Trainer(self.federation, self.me, composite, life)
        layout = Layout(trainer.block.d, len(self.federation.members), self.federation.network.wire == "float32")
        self.links.allow(max(longest_mail(layout), CONTROL))
        mixing = self.federation.mixing
        self.exchange = PeerExchange(self.links, mixing, layout, self.me, self.receive, patient=self.patient)
        self.exchange.interrupted = lambda: self.stop.is_set() or self._counts_changed
        self.trainer = trainer
        if saved is not None:
            trainer.restore(saved["trainer"])
            self.log("resumed", round=trainer.state.round)
        self._learn_counts()
        self._note_ready()
        self._say_ready()
        self.phase = "waiting"
        end = time.monotonic() + (_START if saved is None else 5.0)
        needed = [p for p in self.links.links if self.patient or not self.federation.members[p].late]
        while not self.stop.is_set() and (self.patient or time.monotonic() < end):
            if all(peer in self.ready for peer in needed) or self.exchange.newest > trainer.gossip.clock:
                break
            message = self.links.inbox.get(0.2)
            if message is not None:
                self.exchange.take(message)
        if self._counts_changed:
            self._learn_counts()
        if self.exchange.newest > trainer.gossip.clock and trainer.met:
            trainer.returned()  # the others have begun: late, or all memory lost
        elif saved is None and not self.stop.is_set():
            trainer.greet(self.exchange)
        self.log("training", round=trainer.state.round, members=len(trainer.members), d=trainer.block.d)
        return not self.stop.is_set()

    # the run

    def run(self) -> Outcome:
        """From the first word to the model."""
        self.site.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.history = History(self.site.state / "history.jsonl")
        saved = self.store.load()
        try:
            self.links.start()
            outcome = Outcome.STOPPED
            if self._agree(saved) and self._prepare(saved):
                self.save()
                outcome = self._rounds()
            self.phase = outcome.name.lower()
            if self.trainer is not None:
                self.save()
                if outcome is not Outcome.STOPPED:
                    assert self.summary is not None
                    model = model_of(self.trainer, self.site, self.summary, outcome.name.lower())
                    model.save(self.site.state / "model.npz")
                    self._part()
            self.log("end", outcome=outcome.name.lower(), why=outcome.value)
            return outcome
        finally:
            self.links.close()
            self.history.close()

    def _rounds(self) -> Outcome:
        trainer, exchange = self.trainer, self.exchange
        assert trainer is not None
        assert exchange is not None
        self.phase = "training"
        while True:
            if self.stop.is_set():
                return Outcome.STOPPED
            done = self._finished()
            if done is not None:
                return done
            if trainer.state.round >= self.max_rounds:
                return Outcome.OUT_OF_ROUNDS
            trainer.round(exchange)
            if self.stop.is_set():
                return Outcome.STOPPED
            self._after_round()

    def _after_round(self) -> None:
        trainer = self.trainer
        assert trainer is not None
        assert self.history is not None
        if self._counts_changed:
            self._learn_counts()
        wanted = max((self.board.get("done", node) or -1 for node in trainer.members), default=-1)
        proven = trainer.look(wanted)
        if proven or trainer.state.round >= self.saved_round + self.site.file.checkpoint_every:
            self.save()
        if proven and trainer.proof is not None:
            certificate = trainer.proof.certificate
            self.log("certified", round=certificate.round, gap=certificate.relative)
        self._say_done()
        now = time.monotonic()
        if proven or now >= self._looked + _LOOK:
            self._looked = now
            self._look_who_is_gone(now)
            self.history.add(figures(self))

    def _look_who_is_gone(self, now: float) -> None:
        trainer, exchange = self.trainer, self.exchange
        assert trainer is not None
        assert exchange is not None
        for peer, pace in exchange.paces.items():
            count = int(trainer.view.counts[peer])
            if count > self._counts.setdefault(peer, count):
                self._counts[peer], pace.heard = count, now  # it joined: its time begins anew
            away = now - pace.heard
            if trainer.view.is_member(peer) and away > self.federation.network.gone_after and not pace.finished:
                self.log("gone", peer=self.name(peer), away=away, model=self.federation.network.gone)
                trainer.learn(peer, count + 1)
                self._tell_counts([peer])
                self.save()
        if any(link.up for link in self.links.links.values()):
            self._gone_since = now

    def _finished(self) -> Outcome | None:
        """Whether all members hold a proof about one and the same round."""
        trainer, exchange = self.trainer, self.exchange
        assert trainer is not None
        assert exchange is not None
        around = [exchange.paces[peer] for peer in exchange.paces if trainer.view.is_member(peer)]
        left_behind = bool(around) and all(pace.finished for pace in around)
        if trainer.proof is None:
            return Outcome.LEFT_BEHIND if left_behind else None
        held = trainer.proof.certificate.round
        if all(self.board.get("done", node) == held for node in trainer.members):
            return Outcome.CERTIFIED
        if left_behind or time.monotonic() > self._gone_since + _CONFIRM:
            return Outcome.ALONE
        return None

    def _part(self) -> None:
        """Says good-bye, and stays until the neighbours have said it too."""
        assert self.exchange is not None
        self._tell(Kind.BOARD, pack_json(self.board.message()))
        self._tell(Kind.BYE, pack_json({}))
        end = time.monotonic() + _LINGER
        while time.monotonic() < end and not self.stop.is_set():
            paces = self.exchange.paces
            if all(pace.finished or not self.links.links[peer].up for peer, pace in paces.items()):
                break
            message = self.links.inbox.get(0.2)
            if message is not None:
                self.exchange.take(message)
                if message.up:
                    self._tell(Kind.BYE, pack_json({}), message.peer)
        self.links.flush(1.0)

    def save(self) -> None:
        """A checkpoint; and the node's will to its heir."""
        trainer = self.trainer
        assert trainer is not None
        self.store.save(trainer, self.board)
        self.saved_round = trainer.state.round
        heirs = [
            peer for peer in sorted(self.links.links) if self.links.links[peer].up and trainer.view.is_member(peer)
        ]
        if heirs and self.federation.network.gone == "freeze" and self.exchange is not None:
            if self.exchange.paces[heirs[0]].ready:
                self._tell(Kind.WILL, pack_vector({}, trainer.share()), heirs[0])
            if self.board.get("heir", self.me) != heirs[0]:
                self.board.put("heir", self.me, self.board.stamp("heir", self.me) + 1, heirs[0])
                self._spread([("heir", self.me)])


def listen_to_signals(node: Node) -> None:
    """SIGTERM and Ctrl-C end the node after a checkpoint."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: node.stop.set())
