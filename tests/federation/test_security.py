"""Who is let in, and what is refused: with a clear line on both sides, while the run goes on."""

from __future__ import annotations

import datetime
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import glmesh
from glmesh.core.messages import Mail
from glmesh.core.wire import Layout
from glmesh.federation.config import keys
from glmesh.federation.config.site import Site
from glmesh.federation.wire.frames import (
    CHUNK,
    Assembler,
    Kind,
    Violation,
    frames,
    pack_json,
    pack_mail,
    unpack_json,
)
from glmesh.federation.wire.listed import listed_certificate
from glmesh.federation.wire.messages import Hello
from glmesh.gossip.edge import Offer
from glmesh.gossip.membership import Membership
from tests.cases import LIMIT
from tests.peers import Sites, sites

pytestmark = pytest.mark.waits


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """Three nodes at work, for as long as the tests take."""
    rng = np.random.default_rng(0)
    parts = [(rng.normal(size=(30, 10)), rng.choice([-1.0, 1.0], size=30)) for _ in range(3)]
    problem = {"loss": "logistic", "split": "samples", "tol": 1e-15, "max_rounds": 10**9}
    with sites(tmp_path_factory.mktemp("run"), parts, problem=problem) as peers:
        peers.start()
        peers.until(lambda: peers.round(0) > 5)
        yield peers
        at = peers.round(0)
        peers.until(lambda: peers.round(0) > at + 20)  # whatever was tried, the run goes on
        for k in range(3):
            peers.kill(k, signal.SIGTERM)
        assert peers.wait() == [130] * 3, peers.output()


def _channel(peers: Sites, folder: Path, name: str | None, target: int = 0) -> grpc.Channel:
    ca = (peers.folder / "keys" / "ca.crt").read_bytes()
    key, certificate = (
        (None, None) if name is None else ((folder / f"{name}.key").read_bytes(), (folder / f"{name}.crt").read_bytes())
    )
    return grpc.secure_channel(
        f"127.0.0.1:{peers.ports[target]}",
        grpc.ssl_channel_credentials(ca, key, certificate),
        [("grpc.ssl_target_name_override", f"n{target}"), ("grpc.max_send_message_length", -1)],
    )


def _talk(peers: Sites, name: str, messages: list[bytes], folder: Path | None = None) -> str:
    """What n0 answers to these frames, sent with the certificate of `name`: why it refuses them.

    The real n1 dials too, and may take its stream back in the middle of a sentence; then all is said again.
    """
    for _ in range(10):
        why = _talk_once(peers, name, messages, folder)
        if why:
            return why
    return ""


def _talk_once(peers: Sites, name: str, messages: list[bytes], folder: Path | None) -> str:
    with _channel(peers, folder or peers.folder / "keys", name) as channel:
        answered = threading.Event()
        answers = channel.stream_stream("/glmesh.Link/Talk")(_until(messages, answered), timeout=LIMIT)
        assembler, why = Assembler(), ""
        try:
            for frame in answers:
                whole = assembler.feed(frame)
                if whole is not None and whole[0] is Kind.REFUSE:
                    why = str(unpack_json(whole[1])["why"])
                    answered.set()
        except grpc.RpcError as error:
            why = why or error.details()
        finally:
            answered.set()
        return why


def _until(messages: list[bytes], answered: threading.Event) -> Iterator[bytes]:
    """These messages; the stream stays open until they are answered."""
    yield from messages
    answered.wait(LIMIT)


def _hello(peers: Sites, name: str, **other: Any) -> bytes:
    hello = replace(Hello(name, peers.federation.entries(), version=glmesh.__version__), **other)
    (frame,) = frames(Kind.HELLO, 0, pack_json(hello.to_json()))
    return frame


def _mail(d: int = 10, value: float = 1.0, clock: int = 3) -> bytes:
    offer = Offer(10**15, 0, clock, -1, 0, 0.3, np.full(d, value))
    return b"".join(pack_mail(clock, Mail(1, 0, [offer, Membership(0)]), Layout(d, 3)))


def _await_logged(peers: Sites, event: str, words: str) -> None:
    peers.until(lambda: any(words in str(entry.get("why")) for entry in peers.events(0, event)))


def _outsiders(peers: Sites) -> Path:
    folder = peers.folder / "outside"
    if not folder.exists():
        keys.make(folder, ["n1"])
    return folder


@pytest.mark.parametrize(
    ("who", "words"),
    [
        ("nobody", "peer did not return a certificate"),
        ("another CA", "certificate verify failed"),
        ("expired", "certificate has expired"),
    ],
)
def test_a_connection_without_a_good_certificate_is_refused(running: Sites, who: str, words: str) -> None:
    folder, name = running.folder / "keys", None
    if who == "another CA":
        folder, name = _outsiders(running), "n1"
    elif who == "expired":
        name = "gone"
        if not (folder / "gone.crt").exists():
            keys.make(folder, ["gone"], days=-1)
    with _channel(running, folder, name) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            next(channel.stream_stream("/glmesh.Link/Talk")(iter([_hello(running, "n1")]), timeout=LIMIT))
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    _await_logged(running, "refused", words)
    if name is not None:  # what a node says that dials with it
        site = Site.read(running.folder / "n1.toml")
        files = (folder / f"{name}.crt", folder / f"{name}.key")
        wrong = replace(site, identity=replace(site.identity, files=files))
        with pytest.raises((Violation, ConnectionError), match="accept this node's certificate"):
            listed_certificate(f"127.0.0.1:{running.ports[0]}", wrong, "n0", site.federation.members[0].fingerprint)


def test_only_listed_certificates_take_part(running: Sites) -> None:
    folder = running.folder / "keys"
    keys.make(folder, ["mallory"])
    assert "is not listed in the federation" in _talk(running, "mallory", [_hello(running, "n1")])
    _await_logged(running, "refused", "'mallory'")
    again = running.folder / "again"  # the right authority, the right name, but not the certificate that is listed
    again.mkdir()
    for file in ("ca.crt", "ca.key"):
        (again / file).write_bytes((folder / file).read_bytes())
    keys.make(again, ["n1"])
    assert "is not listed in the federation" in _talk(running, "n1", [_hello(running, "n1")], again)
    site = Site.read(running.folder / "n1.toml")
    with pytest.raises(Violation, match="the federation lists sha256"):
        listed_certificate(f"127.0.0.1:{running.ports[0]}", site, "n0", "sha256:0000")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("another's name", "has the certificate of n1 and calls itself 'n2'"),
        ("another configuration", "problem.alpha is '1.0' here and '2.0' there"),
        ("a future protocol", "protocol version 9, this node speaks 4"),
        ("no hello", "does not begin with a HELLO"),
        ("a repeated message", "message 0 where 1 was due"),
        ("a message out of order", "message 5 where 1 was due"),
        ("a message too large", "at most"),
        ("damage", "does not match its checksum"),
        ("garbage", "none of glmesh's"),
        ("NaN", "an offer with NaN at position 0"),
        ("infinity", "an offer with infinity at position 0"),
        ("another dimension", "of another dimension"),
        ("gossip about nobody", "GOSSIP entry 0: expected a node from 0 to 2, got 99"),
    ],
)
def test_a_message_that_breaks_the_protocol_is_refused(running: Sites, what: str, words: str) -> None:
    hello = _hello(running, "n1")
    mail = list(frames(Kind.MAIL, 1, _mail()))
    messages = {
        "another's name": [_hello(running, "n2")],
        "another configuration": [
            _hello(running, "n1", entries=running.federation.entries() | {"problem.alpha": "2.0"})
        ],
        "a future protocol": [hello[:2] + b"\x09" + hello[3:]],
        "no hello": list(frames(Kind.BYE, 0, b"{}")),
        "a repeated message": [hello, hello],
        "a message out of order": [hello, *frames(Kind.MAIL, 5, _mail())],
        "a message too large": [hello, next(frames(Kind.MAIL, 1, bytes(5 * CHUNK)))],
        "damage": [hello, mail[0][:-1] + b"\x55"],
        "garbage": [hello, os.urandom(400)],
        "NaN": [hello, *frames(Kind.MAIL, 1, _mail(value=np.nan))],
        "infinity": [hello, *frames(Kind.MAIL, 1, _mail(value=np.inf))],
        "another dimension": [hello, *frames(Kind.MAIL, 1, _mail(d=12))],
        "gossip about nobody": [hello, *frames(Kind.GOSSIP, 1, pack_json({"entries": [["fits", 99, 1, 1]]}))],
    }[what]
    assert words in _talk(running, "n1", messages)
    _await_logged(running, "violation", words)


def test_nothing_secret_is_logged_and_keys_are_private(running: Sites) -> None:
    secrets = [
        line.encode()
        for path in (running.folder / "keys").glob("*.key")
        for line in path.read_text().splitlines()
        if "-----" not in line
    ]
    for path in [*running.folder.glob("*.out"), *running.folder.glob("*.state/*")]:
        content = path.read_bytes()
        assert not any(secret in content for secret in secrets), path
    for path in (running.folder / "keys").glob("*.key"):
        assert path.stat().st_mode & 0o777 == 0o600
    open_key = running.folder / "keys" / "n1.key"
    try:
        open_key.chmod(0o644)
        with pytest.raises(ValueError, match="others can read this key"):
            Site.read(running.folder / "n1.toml")
    finally:
        open_key.chmod(0o600)


def test_certificates_end_after_their_lifetimes(tmp_path: Path) -> None:
    keys.make(tmp_path, ["alice"])
    now = datetime.datetime.now(datetime.UTC)
    ends = [keys.expiry((tmp_path / f"{name}.crt").read_bytes()) - now for name in ("alice", "ca")]
    assert datetime.timedelta(days=390) < ends[0] < datetime.timedelta(days=398)
    assert datetime.timedelta(days=4 * 365) < ends[1] < datetime.timedelta(days=6 * 365)
    with pytest.raises(ValueError, match="is there already"):
        keys.make(tmp_path, ["alice"])
    with pytest.raises(ValueError, match="no name for a node"):
        keys.make(tmp_path, ["Alice!"])
