"""Links to the neighbours: gRPC with mutual TLS, one bidirectional stream each, in a thread of its own.

Of two neighbours the one with the larger number dials, again and again with growing pauses; the other listens. A stream
begins with a HELLO from both ends, which must agree. Mail that cannot be sent in time gives way to newer (push-flow
gossip repairs that), so a neighbour that reads nothing costs a bounded amount of memory and no waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from glmesh.errors import GlmeshError, InvalidInput
from glmesh.federation.config.keys import fingerprint
from glmesh.federation.config.site import Site
from glmesh.federation.monitor.log import Log
from glmesh.federation.wire.frames import (
    CHUNK,
    PROTOCOL,
    Assembler,
    Content,
    Kind,
    Violation,
    frames,
    pack_json,
    unpack_json,
)
from glmesh.federation.wire.inbox import Inbox, Message
from glmesh.federation.wire.probe import probe

_METHOD, _PATH = "Talk", "/glmesh.Link/Talk"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between attempts to reach a neighbour
_HANDSHAKE = 15.0  # seconds for the HELLO of a neighbour
_WAITING = 2  # mail kept for a neighbour that does not read
_CONTROLS = 1024  # and other messages, beyond which the stream is given up
_UNREAD, _BREATH = 4, 0.02  # longest messages that may be unread; seconds until the next look
_OPTIONS = [
    ("grpc.max_receive_message_length", CHUNK + 4096),
    ("grpc.max_send_message_length", CHUNK + 4096),
    ("grpc.http2.max_frame_size", CHUNK),  # these three: a third less CPU with vectors of a million
    ("grpc.http2.lookahead_bytes", 4 * CHUNK),  # and what a neighbour that does not read can make us hold
    ("grpc.http2.bdp_probe", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),
    ("grpc.enable_http_proxy", 0),
]


@dataclass
class Link:
    """One neighbour, as the thread of the links sees it."""

    peer: int
    name: str
    address: str
    controls: deque[tuple[Kind, Content]] = field(default_factory=deque)
    mail: deque[Content] = field(default_factory=deque)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    stream: asyncio.Task[Any] | None = None  # of the session in progress
    up: bool = False
    assembler: Assembler = field(default_factory=Assembler)
    limit: int | None = None  # of messages, once known
    why: str = "not reached yet"  # the link is down
    refused: str = ""  # why one of both ends refuses the other
    sent: int = 0
    received: int = 0
    dropped: int = 0  # mail that gave way to newer mail


class Links:
    """All links of a node. `hello` is what it says of itself; `check` refuses what a neighbour says, with a reason."""

    def __init__(
        self, site: Site, log: Log, hello: dict[str, Any], check: Callable[[int, dict[str, Any]], str | None]
    ) -> None:
        self.site, self.log, self.inbox = site, log, Inbox()
        self._hello = pack_json({"protocol": PROTOCOL, "name": site.file.name, **hello})
        self._check = check
        self._members = {member.fingerprint: k for k, member in enumerate(site.federation.members)}
        self.links: dict[int, Link] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._tasks: list[asyncio.Task[Any]] = []
        self._server: Any = None
        self._said: dict[int, str] = {}  # the last reason logged for each neighbour

    def start(self) -> None:
        """Listens and dials."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    async def _start(self) -> None:
        site, identity = self.site, self.site.identity
        for peer, address in site.addresses.items():
            self.links[peer] = Link(peer, site.federation.members[peer].name, address)
        self._server = grpc.aio.server(options=_OPTIONS)
        handler = grpc.stream_stream_rpc_method_handler(self._serve)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("glmesh.Link", {_METHOD: handler}),)
        )
        credentials = grpc.ssl_server_credentials([(identity.key, identity.certificate)], identity.ca, True)
        try:
            self._server.add_secure_port(site.file.listen, credentials)
        except RuntimeError as error:
            raise InvalidInput(f"cannot listen on {site.file.listen}: {error}; is the node running already?") from None
        await self._server.start()
        for link in self.links.values():
            if site.me > link.peer:
                self._tasks.append(asyncio.create_task(self._dial(link)))

    def close(self) -> None:
        """Ends everything."""

        async def end() -> None:
            for task in self._tasks:
                task.cancel()
            for link in self.links.values():
                if link.stream is not None:
                    link.stream.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._server is not None:
                await self._server.stop(0.2)

        if self._thread.is_alive():
            with contextlib.suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(end(), self._loop).result(5.0)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5.0)

    # for the node's own thread

    def send(self, peer: int, kind: Kind, content: Content) -> None:
        """To be sent as soon as the neighbour reads; a letter may give way to a newer one."""
        self._loop.call_soon_threadsafe(self._queue, self.links[peer], kind, content)

    def drop(self, peer: int, why: str) -> None:
        """Ends the stream of a neighbour that breaks the protocol, and tells it why."""
        self._loop.call_soon_threadsafe(self._break, self.links[peer], why)

    def allow(self, limit: int) -> None:
        """From now on messages may have so many bytes."""

        def change() -> None:
            for link in self.links.values():
                link.limit = link.assembler.limit = limit

        self._loop.call_soon_threadsafe(change)

    def flush(self, seconds: float) -> None:
        """Waits until all is handed over to the network, or the time is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(link.up and (link.controls or link.mail) for link in self.links.values()):
            time.sleep(0.01)
        time.sleep(0.05)

    # in the thread of the links

    def _queue(self, link: Link, kind: Kind, content: Content) -> None:
        if not link.up:
            return
        if kind is Kind.MAIL:
            link.mail.append(content)
            while len(link.mail) > _WAITING:
                link.mail.popleft()
                link.dropped += 1
        elif len(link.controls) < _CONTROLS:
            link.controls.append((kind, content))
        else:
            self._break(link, "reads nothing")
        link.wake.set()

    def _break(self, link: Link, why: str) -> None:
        if link.stream is not None:
            self.log("violation", peer=link.name, why=why)
            link.why = why
            link.controls.append((Kind.REFUSE, pack_json({"why": why})))
            link.wake.set()
            stream = link.stream
            self._loop.call_later(0.2, stream.cancel)

    async def _serve(self, requests: AsyncIterator[bytes], context: Any) -> None:
        """A neighbour has dialled; who it is says its certificate."""
        auth = context.auth_context()
        shown = fingerprint(auth.get("x509_pem_cert", [b""])[0])
        peer = self._members.get(shown)
        name = auth.get("x509_common_name", [b"?"])[0].decode(errors="replace")
        why = None
        if auth.get("ssl_tls_version", [b""])[0] != b"TLSv1.3":
            why = "only TLS 1.3 is spoken here"
        elif peer is None:
            why = f"the certificate of {name!r} ({shown[:23]}...) is not listed in the federation"
        elif peer not in self.links:
            why = f"{self.site.federation.members[peer].name} is no neighbour of {self.site.file.name}"
        if why is not None:
            self.log("refused", who=name, address=context.peer(), why=why)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)
        assert peer is not None
        link = self.links[peer]
        if link.stream is not None:  # the old one is dead and does not know it yet
            link.stream.cancel()
            await asyncio.wait([link.stream], timeout=1.0)
        reading = requests.__aiter__()

        async def read() -> bytes | None:
            return await anext(reading, None)

        await self._run(link, read, context.write)

    async def _dial(self, link: Link) -> None:
        """Reaches the neighbour, again and again."""
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                await self._talk(link)
            except grpc.aio.AioRpcError as error:
                self._failed(link, str(error.details()))
            except (GlmeshError, OSError) as error:
                self._failed(link, str(error))
            if time.monotonic() - began > _HANDSHAKE:
                pause = _FIRST_PAUSE
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2.0 * pause, _LONGEST_PAUSE)

    def _failed(self, link: Link, why: str) -> None:
        link.why = why
        if self._said.get(link.peer) != why:
            self._said[link.peer] = why
            self.log("unreachable", peer=link.name, address=link.address, why=why)

    async def _talk(self, link: Link) -> None:
        site, identity = self.site, self.site.identity
        listed = site.federation.members[link.peer].fingerprint
        await asyncio.to_thread(probe, link.address, site, link.name, listed)
        credentials = grpc.ssl_channel_credentials(identity.ca, identity.key, identity.certificate)
        options = [*_OPTIONS, ("grpc.ssl_target_name_override", link.name)]
        async with grpc.aio.secure_channel(link.address, credentials, options) as channel:
            call = channel.stream_stream(_PATH)()

            async def read() -> bytes | None:
                frame = await call.read()
                return None if frame is grpc.aio.EOF else frame

            await self._run(link, read, call.write)
            if call.done() and await call.code() not in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
                raise GlmeshError(await call.details())

    async def _run(
        self, link: Link, read: Callable[[], Awaitable[bytes | None]], write: Callable[[bytes], Awaitable[Any]]
    ) -> None:
        """A stream from its HELLO to its end, as a task that can be cancelled without the caller's being so."""
        session = asyncio.create_task(self._session(link, read, write))
        link.stream = session
        try:
            await asyncio.wait([session])
        finally:
            if not session.done():
                session.cancel()
            if link.stream is session:
                link.stream = None
                if link.up:
                    link.up = False
                    self.log("down", peer=link.name, why=link.why)
                    self.inbox.put(Message(link.peer, None))
        if not session.cancelled() and (error := session.exception()) is not None:
            raise error

    async def _session(
        self, link: Link, read: Callable[[], Awaitable[bytes | None]], write: Callable[[bytes], Awaitable[Any]]
    ) -> None:
        link.assembler, link.why = Assembler(), "its stream ended"
        link.controls.clear()
        link.mail.clear()
        link.controls.append((Kind.HELLO, self._hello))
        link.wake.set()
        writer = asyncio.create_task(self._write(link, write))
        try:
            async with asyncio.timeout(_HANDSHAKE):
                kind, content = await self._message(link, read)
            self._greet(link, kind, content)
            while True:
                kind, content = await self._message(link, read)
                if kind is Kind.REFUSE:
                    raise Violation(f"{link.name} refuses this node: {str(unpack_json(content).get('why'))[:500]}")
                self.inbox.put(Message(link.peer, kind, content))
                while self.inbox.unread(link.peer) > _UNREAD * link.assembler.limit:
                    await asyncio.sleep(_BREATH)  # then the neighbour's messages wait at its own end
        except Violation as error:
            link.why = str(error)
            if "refuses this node" not in link.why:
                self.log("violation", peer=link.name, why=link.why)
                link.controls.append((Kind.REFUSE, pack_json({"why": link.why[:500]})))
                link.wake.set()
                await asyncio.sleep(0.2)  # so that the other end can read why
            raise
        except TimeoutError:
            raise GlmeshError(f"no HELLO in {_HANDSHAKE:g} s") from None
        except EOFError:
            return
        finally:
            writer.cancel()
            await asyncio.wait([writer])

    def _greet(self, link: Link, kind: Kind, content: bytearray) -> None:
        why: str | None = None
        hello: dict[str, Any] = {}
        if kind is Kind.REFUSE:
            why = f"refuses this node: {str(unpack_json(content).get('why'))[:500]}"
        elif kind is not Kind.HELLO:
            why = "does not begin with a HELLO"
        else:
            hello = unpack_json(content)
            if hello.get("name") != link.name:
                why = f"has the certificate of {link.name} and calls itself {str(hello.get('name'))[:80]!r}"
            else:
                why = self._check(link.peer, hello)
        link.refused = "" if why is None else f"{link.name}: {why}"
        if why is not None:
            self.inbox.put(Message(link.peer, None))
            raise Violation(link.refused if kind is not Kind.REFUSE else f"{link.name} {why}")
        link.up = True
        link.limit = link.limit or link.assembler.limit
        link.assembler.limit = link.limit
        self._said.pop(link.peer, None)
        self.log("up", peer=link.name)
        self.inbox.put(Message(link.peer, None, up=True))

    async def _message(self, link: Link, read: Callable[[], Awaitable[bytes | None]]) -> tuple[Kind, bytearray]:
        while True:
            frame = await read()
            if frame is None:
                raise EOFError
            link.received += len(frame)
            whole = link.assembler.feed(frame)
            if whole is not None:
                return whole

    async def _write(self, link: Link, write: Callable[[bytes], Awaitable[Any]]) -> None:
        number = 0
        while True:
            await link.wake.wait()
            link.wake.clear()
            while link.controls or link.mail:
                kind, content = link.controls.popleft() if link.controls else (Kind.MAIL, link.mail.popleft())
                for frame in frames(kind, number, content):
                    await write(frame)
                    link.sent += len(frame)
                number += 1
