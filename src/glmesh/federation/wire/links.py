"""Links to the neighbours: gRPC with mutual TLS, one bidirectional stream each, in a thread of its own.

Of two neighbours the one with the larger number dials, again and again with growing pauses; the other listens. A stream
begins with a HELLO from both ends, which must agree. MAIL that cannot be sent in time gives way to newer MAIL (flow
gossip repairs the loss), so a neighbour that reads nothing costs a bounded amount of memory and no waiting.
"""

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import grpc
import grpc.aio

from glmesh.errors import GlmeshError, InvalidInput
from glmesh.federation.config import Site, fingerprint
from glmesh.federation.wire.frames import (
    CHUNK,
    Assembler,
    Content,
    Kind,
    Violation,
    frames,
    pack_json,
    unpack_json,
)
from glmesh.federation.wire.inbox import Inbox, Message
from glmesh.federation.wire.listed import listed_certificate
from glmesh.federation.wire.messages import Hello, LinkRefusal

_METHOD, _PATH = "Talk", "/glmesh.Link/Talk"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # [s] between attempts to reach a neighbour; doubled after each, with jitter
_HANDSHAKE = 15.0  # [s] until a neighbour's HELLO must have come; a stream that lived longer resets the pauses
_MAIL_KEPT = 2  # [messages] MAIL kept for a neighbour that does not read: that of two exchanges
_CONTROLS_KEPT = 1024  # [messages] other messages kept for it, beyond which the stream is given up
_UNREAD = 4  # [longest messages] of a neighbour that the node may leave unread before its stream is read no further
_UNREAD_POLL = 0.02  # [s] between two looks whether the node has caught up
_WHY = 500  # [characters] of a reason that are sent, and shown of a neighbour's
_LAST_TASKS = 4.0  # [s] that the last tasks of streams may take, on a machine that is busy with other things
_LAST_WORD = 0.2  # [s] that a stream stays open after a REFUSE, so that the other end can read why
CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", CHUNK + 4096),
    ("grpc.max_send_message_length", CHUNK + 4096),
    # The next three take a third less CPU with vectors of a million numbers (benchmarks/peers.py).
    ("grpc.http2.max_frame_size", CHUNK),
    ("grpc.http2.lookahead_bytes", 4 * CHUNK),  # also what a neighbour that does not read can make this node hold
    ("grpc.http2.bdp_probe", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),
    ("grpc.enable_http_proxy", 0),
]

Read = Callable[[], Awaitable[bytes | None]]  # the next frame of a stream, None at its end
Write = Callable[[bytes], Awaitable[object]]


@dataclass
class PeerLink:
    """Link to one neighbour: messages to be sent, the stream, and counters; changed in the thread of the links only."""

    peer: int  # number of the neighbour
    name: str  # of the neighbour
    address: str  # host:port
    controls: deque[tuple[Kind, Content]] = field(default_factory=deque)  # to be sent before any MAIL
    mail: deque[Content] = field(default_factory=deque)  # to be sent, oldest first
    wake: asyncio.Event = field(default_factory=asyncio.Event)  # there is something to be sent
    stream: asyncio.Task[None] | None = None  # the session in progress
    up: bool = False  # both HELLOs agree
    assembler: Assembler = field(default_factory=Assembler)  # puts the messages that come together
    limit: int | None = None  # [bytes] longest message; None until d is known
    why: str = "not reached yet"  # reason that the link is down
    refused: str = ""  # reason that one of both ends refuses the other; empty: none does
    sent: int = 0  # [bytes]
    received: int = 0  # [bytes]
    dropped: int = 0  # [messages] MAIL that gave way to newer MAIL

    def keep(self, content: Content) -> None:
        """Queue MAIL, the message with the vectors of an exchange, to be sent.

        If over _MAIL_KEPT wait, the oldest is dropped.
        """
        self.mail.append(content)
        while len(self.mail) > _MAIL_KEPT:
            self.mail.popleft()
            self.dropped += 1

    def refuse(self, why: str) -> None:
        """Queue the REFUSE message, whose reason `why` tells the neighbour why its stream ends."""
        self.why = why
        self.controls.append((Kind.REFUSE, pack_json(LinkRefusal(why[:_WHY]).to_json())))
        self.wake.set()

    def begin(self, hello: bytes) -> None:
        """Begin a new stream: drop the messages queued for the last one, and queue `hello`, its first message."""
        self.assembler, self.why = Assembler(), "its stream ended"
        self.controls.clear()
        self.mail.clear()
        self.controls.append((Kind.HELLO, hello))
        self.wake.set()

    def accept(self) -> None:
        """Mark the link as up, and accept messages of up to `limit` bytes from the neighbour."""
        self.up, self.limit = True, self.limit or self.assembler.limit
        self.assembler.limit = self.limit

    def close(self) -> bool:
        """Mark the link as down, without a stream; return whether it was up until now."""
        was_up, self.up, self.stream = self.up, False, None
        return was_up

    def feed(self, frame: bytes) -> tuple[Kind, bytearray] | None:
        """Take in a frame, a piece of a message; return (kind, content) of the message that it completes, else None."""
        self.received += len(frame)
        return self.assembler.feed(frame)

    async def write(self, write: Write) -> None:
        """Send the queued messages with the coroutine `write`, frame by frame, until cancelled.

        MAIL, the vectors of an exchange, goes after all other messages.
        """
        number = 0
        while True:
            await self.wake.wait()
            self.wake.clear()
            while self.controls or self.mail:
                kind, content = self.controls.popleft() if self.controls else (Kind.MAIL, self.mail.popleft())
                for frame in frames(kind, number, content):
                    await write(frame)
                    self.sent += len(frame)
                number += 1


class PeerLinks:
    """All links of a node, by number of the neighbour, in a thread of their own.

    `hello` is the first message that this node sends over each stream. `check(peer, hello)` returns why the HELLO of a
    neighbour does not agree with it, None if it does.
    """

    def __init__(
        self, site: Site, log: logging.Logger, hello: Hello, check: Callable[[int, Hello], str | None]
    ) -> None:
        self.site, self.log, self.inbox = site, log, Inbox()
        self._hello = pack_json(hello.to_json())
        self._check = check
        self._members = {member.fingerprint: k for k, member in enumerate(site.federation.members)}
        self.links = {
            peer: PeerLink(peer, site.federation.members[peer].name, address)
            for peer, address in site.addresses.items()
        }
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links", daemon=True)
        self._tasks: list[asyncio.Task[None]] = []
        self._server: grpc.aio.Server | None = None
        self._said: dict[int, str] = {}  # the last reason logged for each neighbour

    def start(self) -> None:
        """Start the thread of the links: listen, and dial the neighbours with smaller numbers."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    async def _start(self) -> None:
        """Start the server and the tasks that dial neighbours; raise InvalidInput if the port is taken."""
        site, identity = self.site, self.site.identity
        self._server = grpc.aio.server(options=CHANNEL_OPTIONS)
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
        """End all streams to neighbours, the server and the thread of the links."""

        async def end() -> None:
            """End all tasks and streams of the links, and the server."""
            for task in self._tasks:
                task.cancel()
            for link in self.links.values():
                if link.stream is not None:
                    link.stream.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._server is not None:
                await self._server.stop(0.2)
            # the last tasks of streams, gRPC's too: asyncio prints complaints about those that its loop ends before
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:
                await asyncio.wait(others, timeout=_LAST_TASKS)

        if self._thread.is_alive():
            with contextlib.suppress(TimeoutError):
                asyncio.run_coroutine_threadsafe(end(), self._loop).result(_LAST_TASKS + 1.0)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5.0)
        if not self._loop.is_running():
            self._loop.close()

    # for the node's own thread

    def send(self, peer: int, kind: Kind, content: Content) -> None:
        """Queue a message for neighbour `peer`; it is dropped if the link is down.

        MAIL (vectors of an exchange) that waits gives way to newer MAIL.
        """
        self._loop.call_soon_threadsafe(self._queue, self.links[peer], kind, content)

    def send_to_all(self, kind: Kind, content: Content) -> None:
        """Queue a message for every neighbour whose link is up."""
        for peer in self.links:
            self.send(peer, kind, content)

    def drop(self, peer: int, why: str) -> None:
        """End the stream of neighbour `peer`, which breaks the protocol, and tell it the reason `why`."""
        self._loop.call_soon_threadsafe(self._break, self.links[peer], why)

    def allow(self, limit: int) -> None:
        """Accept messages of up to `limit` bytes from all neighbours from now on."""

        def change() -> None:
            """Set the longest message that each link accepts to `limit` bytes, in the thread of the links."""
            for link in self.links.values():
                link.limit = link.assembler.limit = limit

        self._loop.call_soon_threadsafe(change)

    def flush(self, seconds: float) -> None:
        """Wait until all queued messages are handed over to the network, for `seconds` at most."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(link.up and (link.controls or link.mail) for link in self.links.values()):
            time.sleep(0.01)
        time.sleep(0.05)  # the last frame is with gRPC, which does not say when it has left

    # in the thread of the links

    def _queue(self, link: PeerLink, kind: Kind, content: Content) -> None:
        """Queue a message of this kind if the link is up.

        A neighbour for which _CONTROLS_KEPT messages wait does not read: its stream is ended.
        """
        if not link.up:
            return
        if kind is Kind.MAIL:
            link.keep(content)
        elif len(link.controls) < _CONTROLS_KEPT:
            link.controls.append((kind, content))
        else:
            self._break(link, "reads nothing")
        link.wake.set()

    def _break(self, link: PeerLink, why: str) -> None:
        """Send the reason `why` to the neighbour of a link, and end its stream _LAST_WORD seconds later."""
        if link.stream is not None:
            self._refuse(link, why)
            self._loop.call_later(_LAST_WORD, link.stream.cancel)

    def _refuse(self, link: PeerLink, why: str) -> None:
        """Log that a neighbour broke the protocol, and queue the REFUSE message that tells it the reason `why`."""
        self.log.warning("violation", extra={"peer": link.name, "why": why})
        link.refuse(why)

    async def _serve(self, requests: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        """Serve a stream that another process dialled; refuse it unless its certificate is that of a neighbour.

        `requests` yields the frames that come; `context` is gRPC's.
        """
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
        if peer is None or why is not None:
            self.log.warning("refused", extra={"who": name, "address": context.peer(), "why": why})
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, why)
            return
        link = self.links[peer]
        if link.stream is not None:  # the old one is dead and does not know it yet
            link.stream.cancel()
            await asyncio.wait([link.stream], timeout=1.0)
        reading = requests.__aiter__()

        async def read() -> bytes | None:
            """Return the next frame that the neighbour sends, None at the end of the stream."""
            return await anext(reading, None)

        await self._run(link, read, context.write)

    async def _dial(self, link: PeerLink) -> None:
        """Dial a neighbour again and again, with growing pauses, and serve its stream each time that it is reached."""
        pause = _FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                await self._talk(link)
            except grpc.aio.AioRpcError as error:
                self._failed(link, _why_broken(link, str(error.details())))
            except (GlmeshError, OSError) as error:
                self._failed(link, str(error))
            if time.monotonic() - began > _HANDSHAKE:
                pause = _FIRST_PAUSE
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2.0 * pause, _LONGEST_PAUSE)

    def _failed(self, link: PeerLink, why: str) -> None:
        """Store in the link the reason `why` its neighbour cannot be connected to, and log a reason that is new."""
        link.why = why
        if self._said.get(link.peer) != why:
            self._said[link.peer] = why
            self.log.warning("unreachable", extra={"peer": link.name, "address": link.address, "why": why})

    async def _talk(self, link: PeerLink) -> None:
        """Dial a neighbour once, and exchange messages over the stream until it ends."""
        site, identity = self.site, self.site.identity
        listed = site.federation.members[link.peer].fingerprint
        root = await asyncio.to_thread(listed_certificate, link.address, site, link.name, listed)
        credentials = grpc.ssl_channel_credentials(root, identity.key, identity.certificate)
        options = [*CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", link.name)]
        async with grpc.aio.secure_channel(link.address, credentials, options) as channel:
            call = channel.stream_stream(_PATH)()

            async def read() -> bytes | None:
                """Return the next frame that the neighbour sends, None at the end of the stream."""
                frame = await call.read()
                return None if frame is grpc.aio.EOF else frame

            await self._run(link, read, call.write)
            if call.done() and await call.code() not in (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED):
                raise GlmeshError(await call.details())

    async def _run(self, link: PeerLink, read: Read, write: Write) -> None:
        """Exchange messages over a stream, in a task that can be cancelled, until it ends; then mark the link as down.

        `read()` returns the next frame, None at the end; `write(frame)` sends one.
        """
        session = asyncio.create_task(self._session(link, read, write))
        link.stream = session
        try:
            await asyncio.wait([session])
        finally:
            if not session.done():
                session.cancel()
            if link.stream is session and link.close():
                self.log.info("down", extra={"peer": link.name, "why": link.why})
                self.inbox.put(Message(link.peer, None))
        if not session.cancelled() and (error := session.exception()) is not None:
            raise error

    async def _session(self, link: PeerLink, read: Read, write: Write) -> None:
        """Exchange HELLO messages over a stream, then put every message that comes into the inbox.

        It returns when the stream ends. `read()` returns the next frame, None at the end; `write(frame)` sends one.
        """
        link.begin(self._hello)
        writer = asyncio.create_task(link.write(write))
        try:
            async with asyncio.timeout(_HANDSHAKE):
                kind, content = await self.message(link, read)
            self._greet(link, kind, content)
            while True:
                kind, content = await self.message(link, read)
                if kind is Kind.REFUSE:
                    raise _Refused(f"{link.name} {_reason(content)}")
                self.inbox.put(Message(link.peer, kind, content))
                while self.inbox.unread(link.peer) > _UNREAD * link.assembler.limit:
                    await asyncio.sleep(_UNREAD_POLL)  # then the neighbour's messages wait at its own end
        except _Refused as error:
            link.why = str(error)
            raise
        except Violation as error:
            self._refuse(link, str(error))
            await asyncio.sleep(_LAST_WORD)
            raise
        except TimeoutError:
            raise GlmeshError(f"no HELLO in {_HANDSHAKE:g} s") from None
        except EOFError:
            return
        finally:
            writer.cancel()
            await asyncio.wait([writer])

    def _greet(self, link: PeerLink, kind: Kind, content: bytearray) -> None:
        """Mark the link as up if a neighbour's first message is a HELLO that agrees; else raise Violation."""
        why: str | None = "does not begin with a HELLO"
        if kind is Kind.REFUSE:
            why = _reason(content)
        elif kind is Kind.HELLO:
            hello = Hello.from_json(unpack_json(content))
            if hello.name != link.name:
                why = f"has the certificate of {link.name} and calls itself {hello.name[:80]!r}"
            else:
                why = self._check(link.peer, hello)
        link.refused = "" if why is None else f"{link.name}: {why}"
        if why is not None:
            self.inbox.put(Message(link.peer, None))
            raise _Refused(f"{link.name} {why}") if kind is Kind.REFUSE else Violation(link.refused)
        link.accept()
        self._said.pop(link.peer, None)
        self.log.info("up", extra={"peer": link.name})
        self.inbox.put(Message(link.peer, None, up=True))

    async def message(self, link: PeerLink, read: Read) -> tuple[Kind, bytearray]:
        """Return (kind, content) of the next message of a neighbour; raise EOFError at the end of its stream.

        `read()` returns the next frame, None at the end.
        """
        while True:
            frame = await read()
            if frame is None:
                raise EOFError
            whole = link.feed(frame)
            if whole is not None:
                return whole


def _why_broken(link: PeerLink, details: str) -> str:
    """Return words on why a stream that this node dialled broke; `details` is the text of gRPC's error."""
    if "CERTIFICATE_VERIFY_FAILED" not in details:
        return details
    return (
        f"{link.address} showed the listed certificate of {link.name} and then, on the next connection, does not hold "
        f"its key; somebody may stand between this node and {link.name}"
    )


class _Refused(Violation):
    """Raised when a neighbour sent REFUSE: the link ends, and no REFUSE is sent back."""


def _reason(content: bytearray) -> str:
    """Return the reason in the content of a REFUSE message, as words that can follow the neighbour's name."""
    return f"refuses this node: {LinkRefusal.from_json(unpack_json(content)).why[:_WHY]}"
