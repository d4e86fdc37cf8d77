"""What masks cost between eight sites: totals of 47,000 numbers over TLS, with and without masks in turns.

    python benchmarks/masks.py

Every site is a process of its own with the state machine, the links and the signatures of `glmesh node`. Masks cannot be
switched off in the product; here the mask key of every site returns zeros for every other block of totals.
"""

from __future__ import annotations

import logging
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import machine, write
from tests.peers import free_ports

from glmesh.federation.config import Federation, Member, NetworkPart, ProblemPart, keys
from glmesh.federation.config.site import Site
from glmesh.federation.totals import Beginning, FederationInfo, Machine, Runner, WantedTotal
from glmesh.federation.totals.masks import MaskKey
from glmesh.federation.totals.memory import MemberMemory
from glmesh.federation.totals.messages import pack, unpack
from glmesh.federation.totals.signatures import CertificateKeys
from glmesh.federation.wire.frames import Kind
from glmesh.federation.wire.links import PeerLinks
from glmesh.federation.wire.messages import Hello
from glmesh.types import Unsigned

SITES = 8
NUMBERS = 47_000
BLOCK = 10  # totals in a row with masks, then without
BLOCKS = 12  # of both kinds together; the first two are not counted


class Switched(MaskKey):
    """A mask key that can be told to mask with zeros."""

    masks = True

    def mask(self, me: int, publics: Mapping[int, bytes], name: bytes, length: int) -> Unsigned:
        if not self.masks:
            return np.zeros(length, dtype=np.uint64)
        return super().mask(me, publics, name, length)


@dataclass
class Blocks:
    """A fit whose totals come in blocks with and without masks, and what each block took."""

    key: Switched
    content: Unsigned
    cpu: list[float] = field(default_factory=list)  # [s] at the beginning of each block
    wall: list[float] = field(default_factory=list)

    def program(self, beginning: Beginning) -> Generator[WantedTotal, Unsigned, bytes]:
        self.cpu, self.wall = [], []
        for number in range(BLOCKS * BLOCK + 1):
            if number % BLOCK == 0:
                self.cpu.append(time.process_time())
                self.wall.append(time.perf_counter())
                self.key.masks = number // BLOCK % 2 == 0
            yield WantedTotal(number.to_bytes(4, "little"), self.content)
        return b"done"


def site(me: int, folder: str, results: SimpleQueue[list[list[float]]]) -> None:
    """Make the totals of one site, and report seconds of the processor and of the clock for each block."""
    own = Site.read(Path(folder) / f"n{me}.toml")
    others = tuple(tuple(k for k in range(SITES) if k != j) for j in range(SITES))
    info = FederationInfo(own.federation.digest, tuple(f"n{k}" for k in range(SITES)), others, me)
    certificates = CertificateKeys(own.identity, [member.fingerprint for member in own.federation.members])
    memory = MemberMemory(f"data of {me}", info.voters)
    rng = np.random.default_rng(me)
    secret = rng.bytes(32)
    member = Machine(info, certificates, secret, 1 + me, memory, time.monotonic())
    member.agreement.mask_key = Switched(secret)
    blocks = Blocks(member.agreement.mask_key, rng.integers(0, 1 << 50, NUMBERS, dtype=np.uint64))
    runner = Runner(member, blocks.program)
    links = PeerLinks(own, logging.getLogger("benchmark"), Hello(own.file.name, {}), lambda *_: None)
    links.allow(64 << 20)
    links.start()
    while not member.is_final:
        message = links.inbox.get(0.1)
        while message is not None:
            if message.up:
                member.greet(message.peer)
            if message.kind is Kind.TOTALS:
                member.receive(message.peer, unpack(message.content, SITES), time.monotonic())
            message = links.inbox.get(0.0)
        runner.advance(time.monotonic())
        for peer, bundle in member.poll(time.monotonic()):
            links.send(peer, Kind.TOTALS, pack(bundle))
    results.put([np.diff(blocks.cpu).tolist(), np.diff(blocks.wall).tolist()])
    links.flush(2.0)
    time.sleep(2.0)
    links.close()


def federation(folder: Path) -> None:
    """Write the files of the sites."""
    names = [f"n{k}" for k in range(SITES)]
    keys.make(folder, names)
    ports = free_ports(SITES)
    members = [
        Member(name, f"127.0.0.1:{port}", keys.fingerprint((folder / f"{name}.crt").read_bytes()))
        for name, port in zip(names, ports, strict=True)
    ]
    Federation("masks", ProblemPart(), NetworkPart(topology="complete"), tuple(members)).write(
        folder / "federation.toml"
    )
    for name in names:
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\nfederation = "federation.toml"\ndata = "none.csv"\n'
            f'certificate = "{name}.crt"\nkey = "{name}.key"\nca = "ca.crt"\n'
        )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        federation(Path(folder))
        context = multiprocessing.get_context("spawn")
        results = context.SimpleQueue()
        processes = [context.Process(target=site, args=(k, folder, results)) for k in range(SITES)]
        for process in processes:
            process.start()
        taken = 1000.0 / BLOCK * np.array([results.get() for _ in processes])[:, :, 2:]  # [ms] a total
        for process in processes:
            process.join()
    cpu, wall = taken.sum(axis=0)[0], taken.mean(axis=0)[1]
    rows = [
        f"| {what} | {np.median(one[0::2]):.1f} ms | {np.median(one[1::2]):.1f} ms "
        f"| {np.median(one[0::2]) / np.median(one[1::2]):.2f} | {one[0::2].min() / one[1::2].min():.2f} |"
        for what, one in (("processor, all sites", cpu), ("clock", wall))
    ]
    lines = [
        "# Masks: what they cost (`python benchmarks/masks.py`)",
        "",
        f"{SITES} processes in a complete graph, {machine()}: totals of {NUMBERS:,} numbers, signed and flooded over TLS. Blocks of",
        f"{BLOCK} totals with masks and of {BLOCK} without take turns in one run, {BLOCKS // 2 - 1} of each; medians per total:",
        "",
        "| | with masks | without | ratio | ratio of the fastest blocks |",
        "|---|---|---|---|---|",
        *rows,
    ]
    print("\n".join(lines))
    write("masks", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
