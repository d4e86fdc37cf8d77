"""A live page: something that goes on, seen in a browser on this machine, at an address that nobody can guess.

A thread draws the page and swaps it in one assignment, and requests are answered with what is there. What it draws
from, files or a snapshot that the thread which computes has left, is its caller's; no lock is shared with that thread.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from glmesh.errors import InvalidInput
from glmesh.page.document import live, policy

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"
TOKEN_BYTES = 16  # 128 bits
RATE, BURST = 10.0, 30.0  # [requests/s] that are answered for long, and requests at once; a page asks once a second
CONNECTIONS = 16  # that are open at the same time
PATIENCE = 5.0  # [s] that a request may take to arrive
EVERY = 1.0  # [s] between two drawings
LATEST = 3.0  # [s] that a request waits for an old page to be drawn anew
WATCHED = 10.0  # [s] after a request for which the page is drawn anew, and waited for at the end
FAREWELL = 3.0  # [s] that the end waits for a browser to fetch the last page


@dataclass(frozen=True)
class Snapshot:
    """The page at one time; a new one replaces it in one assignment."""

    version: str  # changes with the content
    whole: bytes  # the document
    content: bytes  # what is in its element main
    made: float  # [s, monotonic clock]


class Allowance:
    """A bucket of BURST requests that fills up at RATE per second; the threads of the server share it."""

    def __init__(self, rate: float = RATE, burst: float = BURST, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._now = rate, burst, now
        self._left, self._at = burst, now()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Return whether another request may be answered, and count it."""
        with self._lock:
            now = self._now()
            self._left = min(self._burst, self._left + self._rate * (now - self._at))
            self._at = now
            if self._left < 1.0:
                return False
            self._left -= 1.0
            return True


class _Handler(BaseHTTPRequestHandler):
    """Handler of requests: GET with the token and the right Host is answered, all else is refused without a word."""

    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    def do_GET(self) -> None:
        """Answer GET /TOKEN/ with the page, and GET /TOKEN/now?after=VERSION with its content if that is another."""
        split = urlsplit(self.path)
        known = self._is_allowed(split.path)
        if not (self.server.known if known else self.server.unknown).take():
            self._answer(429)
        elif not known:
            self._answer(403)
        else:
            self.server.asked = time.monotonic()
            now = self.server.fresh()
            place = split.path.rpartition("/")[2]
            after = parse_qs(split.query).get("after", [""])[-1]
            if place == "":
                self.server.seen = now.version
                self._answer(200, now.whole, now.version)
            elif place != "now":
                self._answer(404)
            elif after == now.version:
                self.server.seen = now.version
                self._answer(204)
            else:
                self.server.seen = now.version
                self._answer(200, now.content, now.version)

    def _is_allowed(self, path: str) -> bool:
        """Return whether the request came to this server's own name, with its token."""
        host = (self.headers.get("Host") or "").lower()
        given = path.split("/")[1] if path.count("/") >= 2 else ""
        token = hmac.compare_digest(given.encode(), self.server.token.encode())
        return token and host in (f"{HOST}:{self.server.port}", f"localhost:{self.server.port}")

    def _answer(self, code: int, content: bytes = b"", version: str = "") -> None:
        """Send an answer; one without content says nothing of the server."""
        self.send_response_only(code)
        if version:
            self.send_header("X-Version", version)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Security-Policy", policy(live=True))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        if code == 429:
            self.send_header("Retry-After", "2")
        if code != 204:
            self.send_header("Content-Length", str(len(content)))
        if code >= 400:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request that is no GET, or is malformed, without the page that the base class sends."""
        self.close_connection = True
        self._answer(code if code in (400, 414, 431) else 403)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: requests are no events of a site."""


class _Server(ThreadingHTTPServer):
    """The server of a live page, with at most CONNECTIONS connections at a time."""

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self.known, self.unknown = Allowance(), Allowance()  # requests with the token have an allowance of their own
        self.asked = -WATCHED  # [s, monotonic clock] time of the last request with the token
        self.wanted = threading.Event()  # set by a request that finds an old page
        self.seen = ""  # version that a browser fetched last
        self._slots = threading.BoundedSemaphore(CONNECTIONS)
        super().__init__((HOST, 0), _Handler)
        self.port = int(self.server_address[1])

    def fresh(self) -> Snapshot:
        """Return the page; one that nobody has watched for a while is drawn anew before, within LATEST seconds."""
        began = time.monotonic()
        while self.snapshot.made < began - 1.5 * EVERY and time.monotonic() < began + LATEST:
            self.wanted.set()
            time.sleep(0.02)
        return self.snapshot

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """Answer a connection in a thread of its own; refuse it with 429 if too many are open."""
        assert isinstance(request, socket.socket)
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        request.settimeout(1.0)
        with contextlib.suppress(OSError):
            request.sendall(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        self.shutdown_request(request)

    def process_request_thread(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Answer the requests of a connection, and give its slot back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a browser that went away in the middle of an answer."""


class LivePage:
    """A page on loopback that shows how something goes on; `address` has the token, and is told once by its caller.

    `draw` returns (title, content of the element main as HTML); a thread calls it every second while a browser asks.
    """

    def __init__(self, draw: Callable[[], tuple[str, str]]) -> None:
        self._source = draw
        self._number = 0
        self._content = ""
        self._failures = 0  # drawings in a row that failed
        try:
            self._server = _Server(self._draw(None))
        except OSError as error:
            raise InvalidInput(f"live: cannot listen on {HOST}: {error.strerror or error}") from None
        self.address = f"http://{HOST}:{self._server.port}/{self._server.token}/"
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.1,), name="live", daemon=True),
            threading.Thread(target=self._run, name="draw", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def seen(self) -> str:
        """Return the version of the page that a browser fetched last; "" before the first request with the token."""
        return self._server.seen

    def _draw(self, before: Snapshot | None) -> Snapshot:
        """Return the page as it is to be seen now; the one `before`, None: there is none, if nothing is new."""
        title, content = self._source()
        if before is not None and content == self._content:
            return replace(before, made=time.monotonic())
        self._content, self._number = content, self._number + 1
        return Snapshot(str(self._number), live(title, content).encode(), content.encode(), time.monotonic())

    def _run(self) -> None:
        """Draw the page every second while it is watched, until the end."""
        server = self._server
        while not self._end.is_set():
            server.wanted.wait(EVERY)
            server.wanted.clear()
            if time.monotonic() < server.asked + WATCHED and not self._end.is_set():
                self._redraw()

    def _redraw(self) -> None:
        """Draw the page; one that cannot be drawn stays as it was, and is tried again a second later.

        A single failure is none: a dict of the node may have grown while it was read. The second in a row is logged.
        """
        server = self._server
        try:
            server.snapshot = self._draw(server.snapshot)
            self._failures = 0
        except Exception as error:  # whatever it is, it must not end what the page shows, nor the thread that draws
            server.snapshot = replace(server.snapshot, made=time.monotonic())  # else requests would wait for a new one
            self._failures += 1
            if self._failures == 2:
                logger.warning("the live page cannot be drawn, and stays as it is: %s: %s", type(error).__name__, error)

    def close(self) -> None:
        """Close the port; a browser that watches is waited for, until it has fetched the page as it is at the end."""
        self._end.set()
        self._server.wanted.set()
        self._threads[1].join(5.0)
        if time.monotonic() < self._server.asked + WATCHED:
            self._redraw()
            until = time.monotonic() + FAREWELL
            while time.monotonic() < until and self.seen != self._server.snapshot.version:
                time.sleep(0.05)
        self._server.shutdown()
        self._server.server_close()
        self._threads[0].join(1.0)
