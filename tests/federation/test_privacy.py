"""Attacks on what crosses links, against recorded real messages: none works, and each works on the older form."""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glmesh
from glmesh.federation.config import Site, keys
from glmesh.federation.monitor.server import ask
from glmesh.federation.node.site_data import add_name, digest_key
from glmesh.federation.wire import Hello, Kind, PeerLinks, links, pack_json, pack_vector, unpack_vector
from tests.cases import LIMIT
from tests.loopback import Loopback
from tests.peers import free_ports

pytestmark = pytest.mark.waits

NAMES = ("alice", "bob", "carol")
Recorded = list[tuple[Kind, bytes]]


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorded]:
    """Every message that a node of this process sends from now on, HELLO included."""
    sent: Recorded = []
    genuine = links.frames

    def frames(kind: Kind, number: int, content: Any) -> Iterator[bytes]:
        sent.append((kind, content if isinstance(content, bytes) else b"".join(content)))
        return genuine(kind, number, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links, "frames", frames)
        yield sent


@dataclass
class Run:
    """A run of three sites: what was sent, and what only the sites know."""

    made: Loopback
    sent: Recorded
    y: list[np.ndarray]  # by site
    ids: list[str]  # names of the rows, split by features

    def of(self, *kinds: Kind) -> list[bytes]:
        """The contents of all messages of these kinds, of all if none is named."""
        return [content for kind, content in self.sent if not kinds or kind in kinds]


def _text(columns: list[str], rows: Iterable[Iterable[object]]) -> str:
    return "".join(",".join(map(str, line)) + "\n" for line in (columns, *rows))


@pytest.fixture(scope="module")
def by_features(tmp_path_factory: pytest.TempPathFactory, recorder: Recorded) -> Run:
    """Breast cancer, 120 patients with numbers of four digits as names, three columns at each site."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(0)
    rows, ids = np.arange(120), [f"{k:04d}" for k in rng.choice(10_000, 120, replace=False)]
    files = {
        name: _text(
            ["patient", *(f"x{3 * k + j}" for j in range(3)), "ill"],
            ([ids[i], *X[i, 3 * k : 3 * k + 3], y[i]] for i in rows),
        )
        for k, name in enumerate(NAMES)
    }
    problem = {"loss": "logistic", "split": "features", "max_rounds": 12}
    return _recorded(tmp_path_factory, recorder, files, problem, {"ids": "patient"}, [y[rows].astype(float)] * 3, ids)


SIZES = {"alice": 1013, "bob": 211, "carol": 907}  # rows: numbers that nothing else is likely to be


@pytest.fixture(scope="module")
def by_rows(tmp_path_factory: pytest.TempPathFactory, recorder: Recorded) -> Run:
    """A regression on three sites of different sizes and ranges, with weights; the file says "freeze" as older ones."""
    rng = np.random.default_rng(1)
    parts = [(rng.normal(size=(m, 3)).round(4), (rng.normal(size=m) + 9.7 * m).round(4)) for m in SIZES.values()]
    files = {
        name: _text(["a", "b", "c", "dose"], ([*row, label] for row, label in zip(X, y, strict=True)))
        for name, (X, y) in zip(NAMES, parts, strict=True)
    }
    return _recorded(tmp_path_factory, recorder, files, {"max_rounds": 12}, {}, [y for _, y in parts], [])


def _recorded(
    factory: pytest.TempPathFactory,
    recorder: Recorded,
    files: dict[str, str],
    problem: dict[str, Any],
    node: dict[str, Any],
    y: list[np.ndarray],
    ids: list[str],
) -> Run:
    made = Loopback.make(
        factory.mktemp("run"), files, problem=problem, network={"gone": "freeze"}, node=node | {"checkpoint_every": 2}
    )
    recorder.clear()
    made.run()
    assert not made.errors
    assert len(made.endings) == 3
    kinds = {kind for kind, _ in recorder}
    assert kinds >= {Kind.HELLO, Kind.GOSSIP, Kind.MAIL, Kind.READY}
    return Run(made, list(recorder), y, ids)


# dictionaries


def _tokens(contents: Iterable[bytes]) -> list[object]:
    """All in these messages that could be a digest: hexadecimal texts, and numbers of JSON as integers."""
    out: list[object] = []
    for content in contents:
        text = content.decode("utf-8", errors="replace")
        out += re.findall(r"(?<![0-9a-f])[0-9a-f]{12,128}(?![0-9a-f])", text)
        out += [int(float(number)) for number in re.findall(r"(?<![\w.])\d{6,18}(?:\.0)?(?![\w.])", text)]
    return out


def _digests(content: bytes, secrets: Iterable[bytes]) -> Iterator[object]:
    """What a guess would look like in a message: common digests of it, with each of these keys."""
    yield hashlib.sha256(content).hexdigest()
    for key, size in itertools.product(secrets, (6, 8, 16, 32)):
        digest = hashlib.blake2b(content, key=key, digest_size=size).digest()
        yield digest.hex()
        yield int.from_bytes(digest, "little")


def undone(contents: Iterable[bytes], guesses: Iterable[bytes], secrets: Iterable[bytes] = (b"",)) -> list[bytes]:
    """The attack: which of the guesses were digested in these messages, in the order of their digests."""
    table = {digest: guess for guess in guesses for digest in _digests(guess, list(secrets))}
    return [table[token] for token in _tokens(contents) if token in table]


def _column(ids: list[str]) -> bytes:
    """A whole column of row names, as sites digest it."""

    class Joined:
        content = b""

        def update(self, more: bytes) -> None:
            self.content += more

    joined: Any = Joined()
    for name in ids:
        add_name(joined, name)
    return joined.content


def _single(label: float) -> bytes:
    return np.array([label]).tobytes()


def _whole(y: np.ndarray) -> bytes:
    return y.tobytes() + np.ones(len(y)).tobytes()


def _old_hello(run: Run) -> bytes:
    """A HELLO as it was: a digest of 8 bytes for the name and the label of each row, without a key."""

    def digest(content: bytes) -> str:
        return hashlib.blake2b(content, digest_size=8).hexdigest()

    rows = {
        "count": len(run.ids),
        "named": True,
        "ids": [digest(name.encode()) for name in run.ids],
        "labels": [digest(_single(label)) for label in run.y[0]],
    }
    return pack_json(Hello("alice", run.made.federation.entries()).to_json() | {"rows": rows})


def test_labels_cannot_be_read_from_digests(by_features: Run) -> None:
    guesses = [_single(0.0), _single(1.0)]
    secrets = [b"", digest_key(by_features.made.federation)]
    assert undone([_old_hello(by_features)], guesses) == [_single(label) for label in by_features.y[0]]
    assert undone(by_features.of(), guesses, secrets) == []


def test_a_label_that_is_not_known_cannot_be_tested_even_by_who_knows_all_others_and_every_key(
    by_features: Run,
) -> None:
    y = by_features.y[0]
    guesses = [_whole(y)] + [_whole(np.where(np.arange(len(y)) == k, 1 - y, y)) for k in range(len(y))]
    key = digest_key(by_features.made.federation)
    plain = int.from_bytes(hashlib.blake2b(_whole(y), digest_size=6).digest(), "little")
    old = pack_json({"entries": [["summary", 0, 1, [120.0, -120.0, float(plain), -float(plain), 1.0, 0.0, 120.0]]]})
    assert _whole(y) in undone([old], guesses)
    keyed = pack_json({"targets": hashlib.blake2b(_whole(y), key=key, digest_size=16).hexdigest()})
    assert undone([keyed], guesses, [key]) == [_whole(y)]  # a key that members share does not keep members from it
    assert undone(by_features.of(), guesses, [b"", key]) == []
    compared = [json.loads(content) for content in by_features.of(Kind.TARGETS)]
    assert len(compared) == 12  # two messages each way on each of three links
    assert len({one["point"] for one in compared}) == 6


def test_row_names_cannot_be_read_from_digests(by_features: Run) -> None:
    names = [f"{k:04d}".encode() for k in range(10_000)]
    assert undone([_old_hello(by_features)], names) == [name.encode() for name in by_features.ids]
    sent, federation = by_features.of(), by_features.made.federation
    outsider = digest_key(replace(federation, network=replace(federation.network, salt="")))
    assert undone(sent, names, [b"", outsider]) == []
    # who knows the whole column, but not the salt, cannot even tell that it is this one
    assert undone(sent, [_column(by_features.ids)], [b"", outsider]) == []
    # a member can test a guess of all names in their order, and of nothing less
    member = [digest_key(federation)]
    assert undone(sent, [*names, *(_column([name.decode()]) for name in names)], member) == []
    other = [*by_features.ids[:-1], "9999"]
    assert set(undone(sent, [_column(by_features.ids), _column(other)], member)) == {_column(by_features.ids)}


# what everybody is told of each site


def told(contents: Iterable[bytes]) -> set[float]:
    """The attack: all numbers, without their signs, in statements about the data of sites."""
    found: set[float] = set()

    def visit(value: object) -> None:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for one in value:
                visit(one)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.add(abs(float(value)))

    for content in contents:
        for kind, _, _, value in json.loads(content)["entries"]:
            if kind not in ("done", "membership", "successor"):  # numbers of rounds and of nodes
                visit(value)
    return found


def test_the_gossip_store_tells_neither_numbers_of_rows_nor_ranges_of_targets(by_rows: Run) -> None:
    private = {
        float(number) for m, y in zip(SIZES.values(), by_rows.y, strict=True) for number in (m, abs(y.min()), y.max())
    }
    old = [
        pack_json({"entries": [["summary", k, 1, [3.0, -3.0, 0.0, 0.0, y.max(), -y.min(), float(len(y))]]]})
        for k, y in enumerate(by_rows.y)
    ]
    assert told(old) >= private
    assert told(by_rows.of(Kind.GOSSIP)) & private == set()
    kinds = {entry[0] for content in by_rows.of(Kind.GOSSIP) for entry in json.loads(content)["entries"]}
    assert {"fits", "offer"} <= kinds
    assert {json.loads(content)["n_rows"] for content in by_rows.of(Kind.HELLO)} == {None}


def direction(contents: Iterable[bytes]) -> list[np.ndarray]:
    """The attack: the row of a site with one row, up to its length, from a share X_k' alpha_k."""
    vectors = [unpack_vector(content, None)[1] for content in contents]
    return [vector / np.linalg.norm(vector) for vector in vectors]


def test_no_share_of_rows_is_left_with_a_neighbour(by_rows: Run, by_features: Run) -> None:
    row = np.array([0.3, -1.2, 0.7])
    (found,) = direction([pack_vector({}, row * 0.41)])
    np.testing.assert_allclose(found, row / np.linalg.norm(row), atol=1e-15)
    assert direction(by_rows.of(Kind.HANDOVER)) == []
    assert by_features.of(Kind.HANDOVER)  # the recorder sees them where they are sent


# who is at the other end


class Relay:
    """TCP that passes each connection on to the target that `choose` returns for it."""

    def __init__(self, choose: Callable[[], str]) -> None:
        self._choose, self.count = choose, 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._server]
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.enough = threading.Event()  # six connections were passed on
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                self._open.append(near)
                host, _, port = self._choose().rpartition(":")
                self.count += 1
                if self.count > 6:
                    self.enough.set()
                far = socket.create_connection((host, int(port)))
                self._open.append(far)
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                sink.sendall(content)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()  # so that no connection is taken that nobody closes
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Heard(logging.Handler):
    """Reasons that were logged."""

    def __init__(self) -> None:
        super().__init__()
        self.whys: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.whys.append(str(getattr(record, "why", "")))


def _log(name: str) -> tuple[logging.Logger, Heard]:
    log, heard = logging.Logger(name), Heard()
    log.addHandler(heard)
    return log, heard


def _links(site: Site) -> tuple[PeerLinks, Heard]:
    log, heard = _log(site.file.name)
    hello = Hello(site.file.name, site.federation.entries(), version=glmesh.__version__)
    return PeerLinks(site, log, hello, lambda peer, hello: None), heard


@pytest.fixture
def pair(tmp_path: Path) -> list[Site]:
    """Two sites, of which the second dials the first."""
    Loopback.make(tmp_path, {"alice": "", "bob": ""})
    return [Site.read(tmp_path / f"{name}.toml") for name in ("alice", "bob")]


def _impostor(alice: Site, folder: Path) -> Site:
    """A site that calls itself alice, with a certificate that the authority has signed but nobody listed."""
    folder.mkdir()
    for name in ("ca.crt", "ca.key"):
        shutil.copy(alice.folder / "keys" / name, folder)
    keys.make(folder, ["alice"])
    identity = keys.Identity.read(*(folder / name for name in ("alice.crt", "alice.key", "ca.crt")))
    return replace(alice, identity=identity, file=replace(alice.file, listen=f"127.0.0.1:{free_ports(1)[0]}"))


@pytest.mark.parametrize("trusts_authority", [False, True])
def test_a_relay_with_the_key_of_the_authority_cannot_serve_an_impostor(
    trusts_authority: bool, pair: list[Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay passes connections that look at her certificate on to alice, and serves the impostor on all others.

    The control trusts the authority on the channel, as was done once: then the impostor is taken for alice.
    """
    genuine, looked_at = links.listed_certificate, threading.Event()

    def look(address: str, site: Site, *others: Any) -> bytes:
        looked_at.set()
        try:
            listed = genuine(address, site, *others)
        finally:
            looked_at.clear()
        return site.identity.ca if trusts_authority else listed

    monkeypatch.setattr(links, "listed_certificate", look)
    alice, bob = pair
    impostor = _impostor(alice, tmp_path / "forged")
    with closing(Relay(lambda: (alice if looked_at.is_set() else impostor).file.listen)) as relay:
        (real, _), (forged, _) = _links(alice), _links(impostor)
        dialling, heard = _links(replace(bob, addresses={0: relay.address}))
        with closing(real), closing(forged), closing(dialling):
            for one in (real, forged, dialling):
                one.start()
            if trusts_authority:
                message = dialling.inbox.get(LIMIT)
                assert message is not None
                assert message.up
                reached = forged.inbox.get(LIMIT)
                assert reached is not None
                assert reached.up
                return
            assert relay.enough.wait(LIMIT)
            assert forged.inbox.get(0.0) is None
            assert dialling.inbox.get(0.0) is None
            assert not dialling.links[0].up
            assert any("somebody may stand between this node and alice" in why for why in heard.whys), heard.whys


def test_the_listed_certificate_is_enough_for_both_ends(pair: list[Site]) -> None:
    (alice, _), (bob, _) = (_links(site) for site in pair)
    with closing(alice), closing(bob):
        alice.start()
        bob.start()
        for one in (alice, bob):
            message = one.inbox.get(LIMIT)
            assert message is not None
            assert message.up


# proxies of the environment


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A proxy that the environment names for everything, and that serves nobody; set once somebody has called it."""
    called = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    called.set()
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        for name in ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{server.getsockname()[1]}")
        for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
            monkeypatch.delenv(name, raising=False)
        yield called
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("obeys", [False, True])
def test_links_take_no_proxy_from_the_environment(
    obeys: bool, pair: list[Site], proxy: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control leaves the option away."""
    if obeys:
        others = [option for option in links.CHANNEL_OPTIONS if option[0] != "grpc.enable_http_proxy"]
        monkeypatch.setattr(links, "CHANNEL_OPTIONS", others)
    (alice, _), (bob, _) = (_links(site) for site in pair)
    with closing(alice), closing(bob):
        alice.start()
        bob.start()
        if obeys:
            assert proxy.wait(LIMIT)
            assert not bob.links[0].up
            return
        message = bob.inbox.get(LIMIT)
        assert message is not None
        assert message.up
    assert not proxy.is_set()


def test_status_takes_no_proxy_from_the_environment(pair: list[Site], proxy: threading.Event) -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"node": "alice"}')

        def log_message(self, format: str, *args: object) -> None:
            pass

    alice = pair[0]
    alice.state.mkdir()
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        (alice.state / "status.port").write_text(str(server.server_address[1]))
        assert ask(alice) == {"node": "alice"}
    assert not proxy.is_set()
