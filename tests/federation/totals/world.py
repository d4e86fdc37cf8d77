"""Schedules of an adversary against members that make totals, in simulated time, and what must hold in all of them."""

from __future__ import annotations

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from glmesh.core import Violation
from glmesh.federation.totals import (
    Beginning,
    Bundle,
    FederationInfo,
    Machine,
    MemberMemory,
    Program,
    Runner,
    WantedTotal,
)
from glmesh.federation.totals.bundles import Question
from glmesh.federation.totals.flood import Contribution, ContributionFlood
from glmesh.federation.totals.messages import pack, unpack
from glmesh.federation.totals.statements import Asking
from glmesh.federation.totals.views import View, is_connected
from glmesh.types import Unsigned

TOTALS = 4  # of one fit
LENGTH = 3  # [numbers] of a contribution
BEAT = 1.0  # [s]
WRONGS = ["crash", "return", "backup", "data", "lost", "cut", "apart", "heal", "clone"]


class SharedSecrets:
    """Signatures of members by secrets that no router has: quick, and as hard to forge as those of certificates."""

    def __init__(self, me: int) -> None:
        self._me = me
        self.certificate = b"certificate of %d" % me

    def sign(self, content: bytes) -> bytes:
        return self._signature(self._me, content)

    def learn(self, member: int, certificate: bytes) -> bool:
        return certificate == b"certificate of %d" % member

    def verify(self, member: int, content: bytes, signature: bytes) -> bool:
        return signature == self._signature(member, content)

    def _signature(self, member: int, content: bytes) -> bytes:
        return hashlib.blake2b(content, key=b"secret of %d" % member, digest_size=16).digest()


@lru_cache(maxsize=4096)
def content_of(point: bytes, data: int) -> Unsigned:
    """A site's contribution at a point: any change of either changes all of it."""
    drawn = hashlib.sha512(point + data.to_bytes(8, "little")).digest()
    return np.frombuffer(drawn, dtype=np.uint64)[:LENGTH]


class Unlucky(AssertionError):
    """A property does not hold."""


@dataclass
class Oracle:
    """All that happened in a schedule, by which properties are judged; no member sees it."""

    data: dict[str, int] = field(default_factory=dict)  # by pin
    sets: dict[str, dict[int, str]] = field(default_factory=dict)  # pins by member, of each set
    streams: dict[tuple[bytes, bytes], bytes] = field(default_factory=dict)  # content under (own mask key, name)
    signers: dict[bytes, set[int]] = field(default_factory=lambda: defaultdict(set))  # who contributed to a name
    points: dict[bytes, set[str]] = field(default_factory=lambda: defaultdict(set))  # sets whose total can be made
    values: dict[bytes, bytes] = field(default_factory=dict)  # of names
    models: set[bytes] = field(default_factory=set)  # final ones
    wrong: list[str] = field(default_factory=list)
    judged: dict[tuple[str, int], str] = field(default_factory=dict)  # totals of a fit up to a number: their digest

    def contributed(self, who: int, key: bytes, name: bytes, question: Question, set_: str, view: View) -> None:
        """Note that a member signed a contribution; when all of its view have, whoever routes can make the total."""
        self.sets[set_] = {one.id: one.pin for one in view.members}
        content = question.content.tobytes()
        if self.streams.setdefault((key, name), content) != content:
            self.wrong.append("stream")
        self.signers[name].add(who)
        if self.signers[name] >= set(view.ids):
            self.points[question.request].add(set_)
        if len(self.points[question.request]) > 1:
            self.wrong.append("point")

    def added(self, name: bytes, value: Unsigned) -> None:
        if self.values.setdefault(name, value.tobytes()) != value.tobytes():
            self.wrong.append("value")

    def judge(self, machine: Machine, voters: int) -> None:
        """Compare all totals that a member holds with the sums of its view, and its model with those of others."""
        held = machine.memory.held
        if held is not None and self.judged.get((held.fit, held.count)) != held.chain:
            self.judged[held.fit, held.count] = held.chain
            pins = self.sets.get(held.set, {})
            for entry in machine.entries if pins else ():
                expected = sum((content_of(entry.request, self.data[pin]) for pin in pins.values()), np.uint64(0))
                if not np.array_equal(entry.value, expected):
                    self.wrong.append("sum")
        if machine.is_final:
            self.models.add(machine.model)
            if len(self.models) > 1:
                self.wrong.append("models")
            members = machine.model.split(b"|")[0].split()
            if 2 * len(members) <= voters:
                self.wrong.append("minority")


class WatchedFlood(ContributionFlood):
    """Tells the oracle each value that is added up."""

    oracle: Oracle

    def sum(self, name: bytes, length: int) -> Unsigned:
        value = super().sum(name, length)
        self.oracle.added(name, value)
        return value


class WatchedMachine(Machine):
    """Tells the oracle each contribution that is signed."""

    oracle: Oracle

    def watch(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self._flood = WatchedFlood(self.info.me, self.info.neighbours)
        self._flood.oracle = oracle

    def frozen_part(self, view: View, question: Question, about: Asking, name: bytes) -> Contribution:
        if name not in self._frozen:
            assert self.memory.held is not None
            key, set_ = self.agreement.mask_key.public, self.memory.held.set
            self.oracle.contributed(self.info.me, key, name, question, set_, view)
        return super().frozen_part(view, question, about, name)


def toy(data: int, totals: int = TOTALS) -> Program:
    """A program of some totals whose points follow from all before."""

    def program(beginning: Beginning) -> Generator[WantedTotal, Unsigned, bytes]:
        history = beginning.start.encode()
        for number in range(totals):
            point = hashlib.sha256(history + bytes([number])).digest()
            value = yield WantedTotal(point, content_of(point, data))
            history = point + value.tobytes()
        who = " ".join(str(one) for one in beginning.members).encode()
        return who + b"|" + hashlib.sha256(history).digest()

    return program


@dataclass
class Process:
    """A running process of a member."""

    machine: WatchedMachine
    runner: Runner
    member: int
    data: int  # that it has read


@dataclass
class Disk:
    """A site's files: what the node keeps, all backups of it, and the data."""

    data: int
    memory: MemberMemory | None = None  # None: lost, or never written
    pinned: int = -1  # data that the pin in memory is about
    backups: list[tuple[MemberMemory, int]] = field(default_factory=list)


class World:
    """Members, links and an adversary with a random plan; `run` returns after everything has healed and time passed."""

    machine: type[WatchedMachine] = WatchedMachine
    keys: type[SharedSecrets] = SharedSecrets
    watched: tuple[str, ...] | None = None  # properties that are looked at; None: all

    def __init__(self, seed: int, *, without: bool, n: int | None = None, hostile: bool = True) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.n = n or int(rng.integers(3, 6))
        self.late = frozenset([self.n - 1]) if self.n >= 4 and rng.random() < 0.3 else frozenset()
        ring = self.n > 3 and rng.random() < 0.4
        self.neighbours = tuple(
            tuple(sorted({(k - 1) % self.n, (k + 1) % self.n} if ring else set(range(self.n)) - {k}))
            for k in range(self.n)
        )
        self.without, self.hostile = without, int(rng.integers(self.n)) if hostile else -1
        self.least = 2 if rng.random() < 0.3 else 3
        self.oracle = Oracle()
        self.now, self.count = 0.0, 0
        self.queue: list[tuple[float, int, int, int, bytes]] = []  # (due, tie, sender, receiver, content)
        self.disks = [Disk(int(rng.integers(1 << 40))) for _ in range(self.n)]
        self.up: dict[int, Process] = {}
        self.clones: list[Process] = []
        self.cloned: set[int] = set()
        self.gone: set[int] = set()  # for ever
        self.cut: set[frozenset[int]] = set()
        self.deaf: set[tuple[int, int]] = set()  # (sender, receiver) that does not hear it
        self.caught: list[bytes] = []  # what the hostile router has kept
        self.forgot: dict[int, int] = {}  # who has lost some memory, and the start up to which processes have
        self.loss, self.calm = float(rng.choice([0.0, 0.05, 0.3])), False

    # processes

    def start(self, member: int, *, clone: bool = False) -> None:
        disk = self.disks[member]
        memory = None if disk.memory is None else replace(disk.memory)
        info = self.info(member)
        if memory is None:
            memory = MemberMemory(self.new_pin(disk.data), info.voters)
        elif disk.pinned != disk.data:
            memory = replace(memory, pin=self.new_pin(disk.data))
        begun = self.stamp()
        machine = self.machine(info, self.keys(member), self.secret(member), begun, memory, self.now)
        machine.watch(self.oracle)
        process = Process(machine, Runner(machine, self.program(member, disk.data)), member, disk.data)
        if clone:
            self.cloned.add(member)
            self.clones.append(process)
            self.forgot[member] = begun  # what the clone does is not on the disk that is left
        else:
            self.up[member] = process

    def program(self, member: int, data: int) -> Program:
        return toy(data)

    def info(self, member: int) -> FederationInfo:
        names = tuple(f"site{k}" for k in range(self.n))
        return FederationInfo(
            "federation",
            names,
            self.neighbours,
            member,
            self.late,
            without=self.without,
            gone_after=12.0,
            least=self.least,
            heartbeat=BEAT,
        )

    def secret(self, member: int) -> bytes:
        return self.rng.bytes(32)

    def stamp(self) -> int:
        self.count += 1
        return int(1000 * self.now) * 1000 + self.count

    def new_pin(self, data: int) -> str:
        pin = self.rng.bytes(8).hex()
        self.oracle.data[pin] = data
        return pin

    # time

    def step(self, seconds: float) -> None:
        """Let time pass, with all deliveries and polls in it."""
        end = self.now + seconds
        while self.now < end:
            self.now += 0.5 * BEAT
            while self.queue and self.queue[0][0] <= self.now:
                _, _, sender, receiver, content = heapq.heappop(self.queue)
                self.deliver(sender, receiver, content)
            for process in [*self.up.values(), *self.clones]:
                self.poll(process)

    def deliver(self, sender: int, receiver: int, content: bytes) -> None:
        if frozenset((sender, receiver)) in self.cut or (sender, receiver) in self.deaf:
            return
        for process in [one for one in [*self.up.values(), *self.clones] if one.member == receiver]:
            try:
                process.machine.receive(sender, unpack(content, self.n), self.now)
            except Violation:
                assert sender == self.hostile, "an honest member's message is refused"
            self.poll(process)

    def poll(self, process: Process) -> None:
        """Let a process go on, write its memory, and send what it has to say."""
        process.runner.advance(self.now)
        bundles = process.machine.poll(self.now)
        if bundles:
            self.save(process)
        for peer, bundle in bundles:
            self.send(process.member, peer, bundle)
        self.oracle.judge(process.machine, self.n - len(self.late))
        agreement = process.machine.agreement
        if agreement.remembers and agreement.start > self.forgot.get(process.member, agreement.start):
            del self.forgot[process.member]  # the others have told it what it had forgotten
        wrong = [one for one in self.oracle.wrong if self.watched is None or one in self.watched]
        if wrong:
            raise Unlucky(wrong[0])

    def save(self, process: Process) -> None:
        disk = self.disks[process.member]
        if process not in self.clones:
            disk.memory, disk.pinned = replace(process.machine.memory), process.data
            if self.rng.random() < 0.05:
                disk.backups.append((disk.memory, disk.pinned))

    def send(self, sender: int, receiver: int, bundle: Bundle) -> None:
        content = pack(bundle)
        if sender == self.hostile and not self.calm:
            content = self.tampered(bundle, content)
        for _ in range(1 + (not self.calm and self.rng.random() < 0.05)):
            if self.calm or self.rng.random() >= self.loss:
                delay = 0.05 if self.calm else float(self.rng.exponential(0.5))
                self.count += 1
                heapq.heappush(self.queue, (self.now + delay, self.count, sender, receiver, content))

    def tampered(self, bundle: Bundle, content: bytes) -> bytes:
        """What the hostile router sends instead: others' contributions changed, kept back, or old messages again."""
        self.caught.append(content)
        what = self.rng.random()
        if what < 0.1:
            return self.caught[int(self.rng.integers(len(self.caught)))]
        if what < 0.3:
            bundle.parts = [one for one in bundle.parts if one.author == self.hostile]
            return pack(bundle)
        if what < 0.5 and bundle.parts:
            changed = [self.changed(one) if one.author != self.hostile else one for one in bundle.parts]
            bundle.parts = changed
            return pack(bundle)
        return content

    def changed(self, part: Contribution) -> Contribution:
        body = np.frombuffer(part.body, dtype=np.uint64) + self.rng.integers(1, 1 << 60, LENGTH, dtype=np.uint64)
        return replace(part, body=body.tobytes())

    # what goes wrong

    def disturb(self) -> None:
        """Let one thing go wrong."""
        member = int(self.rng.integers(self.n))
        what = str(self.rng.choice(WRONGS))
        if what in ("backup", "lost", "clone") and not self.may_forget(member):
            return
        if what in ("crash", "backup", "data", "lost") and member in self.up:
            del self.up[member]
        disk = self.disks[member]
        if what == "backup" and disk.backups:
            disk.memory, disk.pinned = disk.backups[int(self.rng.integers(len(disk.backups)))]
            self.forgot[member] = self.stamp()
        elif what == "data":
            disk.data = int(self.rng.integers(1 << 40))
        elif what == "lost":
            disk.memory = None
            self.forgot[member] = self.stamp()
        elif what == "return" and member not in self.up and member not in self.gone:
            self.start(member)
        elif what == "cut":
            other = int(self.rng.integers(self.n))
            self.cut.add(frozenset((member, other)))
        elif what == "apart":
            side = [k for k in range(self.n) if self.rng.random() < 0.5]
            self.cut |= {frozenset((a, b)) for a in side for b in range(self.n) if b not in side}
        elif what == "heal":
            self.cut.clear()
        elif what == "clone" and disk.memory is not None and not self.clones:
            self.start(member, clone=True)

    def may_forget(self, member: int) -> bool:
        """Whether more than half know all that they ever did if this member forgets: else nobody need know of a vote.

        Who forgot counts again when the others have told it, so that one after another everybody may forget.
        """
        groups = [k for k in range(self.n) if k not in self.late], list(range(self.n))  # a late one counts later
        return all(2 * sum(k != member and k not in self.forgot for k in group) > len(group) for group in groups)

    def run(self, trouble: int = 12) -> None:
        """Start all, let things go wrong, then heal and wait until nothing more can be hoped for."""
        for member in range(self.n):
            if member not in self.late or self.rng.random() < 0.5:
                self.start(member)
        for _ in range(trouble):
            self.step(float(self.rng.choice([0.5, 1.0, 3.0, 15.0], p=[0.35, 0.25, 0.2, 0.2])))
            self.disturb()
        self.calm = True
        self.clones.clear()
        if not self.without:
            self.settle(10)
            self.judge_words()
        self.cut.clear()
        self.leave_for_ever()
        for member in range(self.n):
            if member not in self.up and member not in self.gone:
                self.start(member)
        self.settle(60)

    def settle(self, turns: int) -> None:
        """Let two seconds pass so often, or until nobody waits, and start again who was superseded."""
        for _ in range(turns):
            self.step(2.0)
            for member in [k for k, one in self.up.items() if one.machine.agreement.superseded]:
                self.start(member)  # its process has ended and said why
            if not self.waiting():
                break

    def judge_words(self) -> None:
        """Whether everybody that waits says for whom: for all that count and cannot be reached, and for nobody else."""
        for k in self.waiting():
            agreement = self.up[k].machine.agreement
            away = set(agreement.memory.voters) - self.reached(k)
            if set(agreement.absent(self.now)) != away:
                raise Unlucky("words")

    def reached(self, member: int) -> set[int]:
        """Who is up and connected with a member by links that are not cut, this one among them."""
        found, edge = {member}, [member]
        while edge:
            one = edge.pop()
            new = {k for k in self.neighbours[one] if k in self.up and frozenset((k, one)) not in self.cut} - found
            found |= new
            edge += new
        return found

    def leave_for_ever(self) -> None:
        """Let those that are down stay away, if a majority of three or more that remembers is up and connected."""
        remembering = [
            k for k, one in self.up.items() if one.machine.agreement.remembers and k not in self.cloned
        ]  # a process that has been cloned ends when it hears of the clone
        if self.without and len(remembering) >= 3 and 2 * len(remembering) > self.n and self.connected():
            self.gone = {k for k in range(self.n) if k not in self.up}

    def connected(self) -> bool:
        """Whether those that are up are connected among themselves: a ring that has lost two may not be."""
        return bool(self.up) and is_connected(list(self.up), self.neighbours)

    def waiting(self) -> list[int]:
        """Members that are up and hold no final model."""
        return [k for k, one in self.up.items() if not one.machine.is_final]
