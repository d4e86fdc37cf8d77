"""What a round costs between 16 peers on a ring, beside raw TLS sockets that move the same bytes.

    python benchmarks/peers.py

Both sides run as 16 processes on this machine. A peer's exchange is glmesh's own: mail in frames over gRPC, checked
and handed over; a raw process sends the same bytes over TLS 1.3 with Python's sockets and reads them, nothing else.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import socket
import ssl
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import machine, write
from tests.peers import free_ports

from glmesh.core.messages import Mail, Outbox
from glmesh.core.wire import Layout
from glmesh.federation.config import Federation, Member, NetworkPart, ProblemPart, keys
from glmesh.federation.config.site import Site
from glmesh.federation.wire.frames import Kind, longest_mail, pack_json
from glmesh.federation.wire.inbox import Message
from glmesh.federation.wire.links import PeerLinks
from glmesh.federation.wire.messages import Hello, Ready
from glmesh.federation.wire.transport import PeerExchange
from glmesh.gossip.edge import Offer
from glmesh.gossip.membership import Membership

PEERS = 16
SIZES = {47_236: 60, 1_000_000: 8}  # length of the vector: rounds that are timed
WARM = 3  # rounds before


def peer(k: int, folder: str, d: int, rounds: int, barrier: object, results: object) -> None:
    """Rounds of exchanges of one node, and nothing else."""
    site = Site.read(Path(folder) / f"n{k}.toml")
    links = PeerLinks(site, logging.getLogger("benchmark"), Hello(site.file.name, {}), lambda *_: None)
    ready: set[int] = set()

    def other(message: Message) -> None:
        if message.up:
            links.send(message.peer, Kind.READY, pack_json(Ready(0).to_json()))
        if message.kind is Kind.READY:
            ready.add(message.peer)
            exchange.barrier.ready(message.peer, 0)

    links.start()
    layout = Layout(d, PEERS)
    links.allow(longest_mail(layout))
    exchange = PeerExchange(links, site.federation.mixing, layout, other, patient=True)
    while ready < set(links.links):
        message = links.inbox.get(0.5)
        if message is not None:
            exchange.take(message)
    vector = np.random.default_rng(k).normal(size=d)

    def one(clock: int) -> None:
        parts = [Offer(1, 1, clock, -1, 7, 0.3, vector), Membership(3)]
        (halo,) = exchange.exchange([Outbox(mail=[Mail(k, peer, parts) for peer in sorted(links.links)])])
        assert len(halo.mail) == 2

    for clock in range(WARM):
        one(clock)
    barrier.wait()
    began, cpu, sent = time.perf_counter(), time.process_time(), sum(link.sent for link in links.links.values())
    for clock in range(WARM, WARM + rounds):
        one(clock)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    sent = sum(link.sent for link in links.links.values()) - sent
    barrier.wait()
    results.put((cpu / rounds, wall / rounds, sent / rounds))
    links.close()
    os._exit(0)


def raw(k: int, folder: str, ports: list[int], size: int, rounds: int, barrier: object, results: object) -> None:
    """The same bytes over plain TLS sockets: to both neighbours at once, and from both."""
    site = Site.read(Path(folder) / f"n{k}.toml")
    certificate, key = site.identity.files
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in (server, client):
        context.minimum_version, context.verify_mode = ssl.TLSVersion.TLSv1_3, ssl.VerifyMode.CERT_REQUIRED
        context.load_verify_locations(cadata=site.identity.ca.decode())
        context.load_cert_chain(certificate, key)
        context.check_hostname = False
        context.verify_mode = ssl.VerifyMode.CERT_REQUIRED
    listener = socket.create_server(("127.0.0.1", ports[k]))
    barrier.wait()
    ahead: list[socket.socket] = []
    dialler = threading.Thread(
        target=lambda: ahead.append(client.wrap_socket(socket.create_connection(("127.0.0.1", ports[(k + 1) % PEERS]))))
    )
    dialler.start()
    behind = server.wrap_socket(listener.accept()[0], server_side=True)
    dialler.join()
    streams, content = [ahead[0], behind], np.random.default_rng(k).bytes(size)
    buffers = [bytearray(size), bytearray(size)]

    def read(stream: socket.socket, buffer: bytearray) -> None:
        view, at = memoryview(buffer), 0
        while at < size:
            at += stream.recv_into(view[at:])

    def one() -> None:
        work = [threading.Thread(target=stream.sendall, args=(content,)) for stream in streams]
        work += [threading.Thread(target=read, args=pair) for pair in zip(streams, buffers, strict=True)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()

    for _ in range(WARM):
        one()
    barrier.wait()
    began, cpu = time.perf_counter(), time.process_time()
    for _ in range(rounds):
        one()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    barrier.wait()
    results.put((cpu / rounds, wall / rounds, 2.0 * size))
    os._exit(0)


def federation(folder: Path) -> None:
    names, ports = [f"n{k}" for k in range(PEERS)], free_ports(PEERS)
    keys.make(folder / "keys", names)
    members = tuple(
        Member(name, f"127.0.0.1:{port}", keys.fingerprint((folder / "keys" / f"{name}.crt").read_bytes()))
        for name, port in zip(names, ports, strict=True)
    )
    Federation("bench", ProblemPart(), NetworkPart(), members).write(folder / "federation.toml")
    for name in names:
        text = f'name = "{name}"\nfederation = "federation.toml"\ndata = "none"\nca = "keys/ca.crt"\n'
        text += f'certificate = "keys/{name}.crt"\nkey = "keys/{name}.key"\n'
        (folder / f"{name}.toml").write_text(text)


def measure(target: object, arguments: tuple[object, ...]) -> tuple[float, float, float]:
    """(CPU seconds, wall seconds, bytes sent) per node and round."""
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(PEERS), context.SimpleQueue()
    processes = [context.Process(target=target, args=(k, *arguments, barrier, results)) for k in range(PEERS)]
    for process in processes:
        process.start()
    found = np.array([results.get() for _ in processes])
    for process in processes:
        process.join()
    return tuple(found.mean(axis=0).tolist())


def main() -> None:
    lines = [
        "# Peers: what a round costs (`python benchmarks/peers.py`)",
        "",
        f"{PEERS} processes on a ring, {machine()}. glmesh sends a letter with a vector of d float64 to both neighbours over gRPC with",
        "mutual TLS, and checks what comes; raw TLS sockets move the same bytes and look at nothing. Per node and round:",
        "",
        "| d | bytes | CPU, glmesh | CPU, raw TLS | ratio | rounds/s, glmesh | rounds/s, raw TLS |",
        "|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        federation(folder)
        for d, rounds in SIZES.items():
            ours = measure(peer, (name, d, rounds))
            size = round(ours[2] / 2)
            theirs = measure(raw, (name, free_ports(PEERS), size, rounds))
            lines.append(
                f"| {d:,} | {ours[2]:,.0f} | {1000 * ours[0]:.1f} ms | {1000 * theirs[0]:.1f} ms "
                f"| {ours[0] / theirs[0]:.2f} | {1 / ours[1]:.1f} | {1 / theirs[1]:.1f} |"
            )
            print(lines[-1], flush=True)
    write("peers", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
