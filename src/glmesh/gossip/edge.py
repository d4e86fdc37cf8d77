"""One end of a link, as a pure state machine: no I/O, no clock, no randomness.

Node k keeps a flow F_kl for its neighbour l, and l keeps F_lk; together s_k = u_k + sum_l F_kl. The sum of all s is the
sum of all u exactly when F_kl = -F_lk on every link, whatever the flows are. The machine keeps that true, or makes it
true again at the next contact, however messages are lost, repeated or reordered, and whoever crashes.

An exchange is an *attempt* with a number e. Each end sends OFFER(e, version, digest, s), which is never changed: a
later offer has a larger e. `version` and `digest` say from which flow the offer starts. What follows is a function of
the two offers of one attempt alone, so both ends that see both of them do the same:

- same version, same digest: F += coast D + push D + W (s_l - s_k), and the version becomes e (momentum, below);
- same version, other digest (somebody returned from an old backup): the flow becomes zero, and the version e;
- different versions (a message was lost one way): nothing; the end with the higher version sends its flow along with
  its next offer, and the other adopts the negative.

So one version stands for one flow. An end that is behind is repaired by a single message, and an offer that comes late
or twice finds its attempt over. An end that lost its memory has a new `incarnation`; offers name the incarnations of
both ends, and one that names another than the present one is not acted upon. The first message on a new connection does
not know the other's incarnation yet: it is the HELLO, and carries no vector.

Momentum: D is what the last exchange added to F, and goes with its version. An end lets its flow coast while exchanges
fail, F + coast D, so that a link that is silent for a while does not break the motion of all the others. Both numbers
are named in the offers, and the smaller counts; who adopts a flow knows no D, and names zero.
"""

import enum
import struct
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from glmesh.core import Layout, Packed, Reader, Violation, array_bytes
from glmesh.kernels.flow import add_flow, fingerprint
from glmesh.types import Vector

NEVER = -1  # version of a flow that was never exchanged, and is zero
_UNKNOWN = 0  # incarnation of a neighbour that has not been heard of: 0, because incarnations count from 1
_FIELDS = struct.Struct("<QQqqQddd")  # incarnation, addressed, attempt, version, digest, limit, coast, push
OFFER_BYTES = _FIELDS.size
_VECTOR, _FLOW = 1, 2  # flags of an offer on the wire: a bit each, because an offer may have both


@dataclass(slots=True)
class Offer:
    """A message from one end of a link to the other, in one attempt to exchange flow; never changed once made.

    Both ends compute the new flow F, a vector of shape (d,), from the two offers of an attempt. `vector` is the
    sender's estimate s, None in a first greeting; `version` and `digest` say from which flow the offer starts;
    `incarnation` counts the lives of the sender. `coast` and `push` are multiples of the last change of F.
    """

    incarnation: int  # of the sender: from 1, larger after each crash
    addressed: int  # the receiver's incarnation, as far as the sender knows; 0 makes the offer a HELLO
    attempt: int  # number of the attempt that the offer belongs to
    version: int  # of the sender's flow: the attempt that last changed it; -1: none did
    digest: int  # fingerprint of the sender's flow
    limit: float  # largest weight W_kl that the sender allows; the smaller of the two ends' counts
    vector: Vector | None  # (d,) s of the sender; None in a HELLO
    flow: Vector | None = None  # (d,) the sender's flow, for a receiver that is behind
    coast: float = 0.0  # [D] how far the sender's flow has coasted; the smaller of the two ends' counts
    push: float = 0.0  # [D] by how much the sender's flow would go on; the smaller of the two ends' counts

    @property
    def nbytes(self) -> int:
        """Return the bytes that the offer counts as: 64 of fields, and its vectors as they are in memory."""
        return OFFER_BYTES + sum(part.nbytes for part in (self.vector, self.flow) if part is not None)

    def pack(self, layout: Layout) -> Packed:
        """Return the offer as bytes: fields, vector s in the precision of `layout`, and any flow in float64."""
        body = []
        if self.vector is not None:
            body.append(array_bytes(self.vector, "<f4" if layout.single else "<f8"))
        if self.flow is not None:
            body.append(array_bytes(self.flow))
        head = _FIELDS.pack(
            self.incarnation, self.addressed, self.attempt, self.version, self.digest, self.limit, self.coast, self.push
        )
        flags = _VECTOR * (self.vector is not None) | _FLOW * (self.flow is not None)
        return Packed(head, flags, tuple(body))

    @classmethod
    def unpack(cls, head: bytes, flags: int, body: Reader, layout: Layout) -> Self:
        """Return the Offer whose `pack` gave these bytes: `head` are the fields, `body` reads the vectors.

        Raise Violation for a weight, attempt or version out of range. An attempt is one exchange of offers over the
        link.
        """
        incarnation, addressed, attempt, version, digest, limit, coast, push = _FIELDS.unpack(head)
        if not (0 <= limit <= 2 and 0 <= coast < 1e6 and 0 <= push <= 1):  # also refuses NaN
            raise Violation(f"an offer with weight {limit}, coast {coast} and push {push}")
        if attempt < 0 or version > attempt or version < NEVER or not incarnation:
            raise Violation(f"an offer of attempt {attempt} that starts from version {version}")
        vector = body.vector(layout.d, "<f4" if layout.single else "<f8", "an offer") if flags & _VECTOR else None
        flow = body.vector(layout.d, what="a flow") if flags & _FLOW else None
        return cls(incarnation, addressed, attempt, version, digest, limit, vector, flow, coast, push)


class OfferOutcome(enum.Enum):
    """Result of `Edge.receive`: what a neighbour's offer did to this node's record of the flow over their link."""

    NOTHING = "nothing"  # flow unchanged
    COMMITTED = "committed"  # both ends exchanged flow
    ADOPTED = "adopted"  # this end was behind and took the negative of the peer's flow
    ZEROED = "zeroed"  # both ends had different flows of one version


@dataclass(slots=True)
class Edge:
    """One end of a link: node `me`'s flow F from node `peer`, and how far the exchange of offers has come.

    All fields are durable state. D is the change of F in the last exchange that succeeded; an attempt is one exchange
    of offers, a version the number of the attempt that last changed F.
    """

    me: int  # node of this end
    peer: int  # node of the other end
    flow: Vector  # (d,) F of this end; the other end has the negative, if it is up to date
    incarnation: int = 1  # of this end: larger after each crash
    peer_incarnation: int = _UNKNOWN  # of the other end; 0: not heard of
    version: int = NEVER  # attempt that last changed the flow; -1: none did
    digest: int = -1  # fingerprint of the flow; -1: to be computed
    attempt: int = -1  # number of the last offer made
    made: Offer | None = None  # last offer made
    open: bool = False  # whether the last offer may still be answered
    heard: int = -1  # attempt of the newest offer received
    ahead: bool = False  # the newest offer received was of an earlier attempt than ours
    owes: bool = False  # the peer is behind: the next offer brings it our flow
    flow_sent: int = -1  # attempt whose offer last brought the peer our flow
    early: Offer | None = None  # received offer of an attempt that we have not come to yet
    drift: Vector = field(default_factory=lambda: np.zeros(0))  # (d,) D; empty where flows have no momentum
    drifts: bool = False  # whether D belongs to this version of the flow
    coast: float = 0.0  # [D] how far the flow coasted before the attempt under way
    push: float = 0.0  # [D] by how much the attempt under way goes on, unless it succeeds
    speed: float = 1.0  # product of all pushes since the last exchange that succeeded

    def __post_init__(self) -> None:
        if self.digest < 0:
            self.digest = self._fingerprint()

    def _fingerprint(self) -> int:
        """Return a 64-bit integer, a digest of the flow F that both ends of a link compute alike if F_kl = -F_lk.

        A flow is what has passed over a link, a vector of shape (d,); its two ends hold opposite copies.
        """
        return int(fingerprint(self.flow.view(np.uint64), np.uint64(self.me > self.peer)))

    def advance(self, push: float) -> None:
        """Set the extrapolation of the flow in the coming attempt: D times all `push` since the last success.

        D is the last change of the flow, shape (d,), and `push` a factor. If the last attempt failed, its extrapolation
        is added to `coast`. Called before `offer`, on links with momentum. An attempt is one exchange of offers over
        the link.
        """
        if self.drifts and self.version < self.attempt:
            self.coast += self.push
        self.push = self.speed = self.speed * push if self.drifts else 0.0

    def offer(self, s: Vector, limit: float, clock: int = 0) -> Offer:
        """Begin the next attempt to exchange flow and return its Offer of the vector s, shape (d,), of this end.

        `limit` is the largest mixing weight that this end allows. `clock` is the number of the exchange if both ends
        count exchanges alike, else 0. An end that finds itself ahead of the other repeats its last offer, so that the
        two fall into step again.
        """
        if self.ahead and self.open and self.made is not None and clock <= self.attempt:
            self.ahead = False
            return self.made
        self.attempt, self.ahead = max(self.attempt + 1, self.heard, clock), False
        greeting = self.peer_incarnation == _UNKNOWN
        self.open = not greeting
        flow = None
        if self.owes and not greeting:
            flow, self.owes, self.flow_sent = self.flow.copy(), False, self.attempt
        self.made = Offer(
            self.incarnation,
            self.peer_incarnation,
            self.attempt,
            self.version,
            self.digest,
            limit,
            None if greeting else s,
            flow,
            self.coast if self.drifts else 0.0,
            self.push,
        )
        if self.early is not None and self.early.attempt <= self.attempt:
            early, self.early = self.early, None
            self._conclude(early)
        return self.made

    def receive(self, offer: Offer) -> OfferOutcome:
        """Process an offer from the peer and return what it did to the flow; version and incarnation may change too.

        An incarnation is a life of a node: the number grows when it starts without its memory. A flow is what has
        passed over a link, a vector of shape (d,); its two ends hold opposite copies.
        """
        if offer.incarnation < self.peer_incarnation:
            return OfferOutcome.NOTHING  # from a former life
        if offer.incarnation > self.peer_incarnation:  # a new life: it does not know our offers
            self.peer_incarnation = offer.incarnation
            self.heard, self.early, self.open, self.flow_sent = -1, None, False, -1
        if offer.addressed != self.incarnation:
            if offer.addressed == _UNKNOWN and offer.version < self.version:
                self.owes = True
            return OfferOutcome.NOTHING
        adopts = False
        if offer.flow is not None and offer.version > self.version:
            np.negative(offer.flow, out=self.flow)
            self.version, self.digest, self.drifts, adopts = offer.version, self._fingerprint(), False, True
        outcome = OfferOutcome.NOTHING
        if offer.attempt > self.heard:  # else late, or a copy
            self.heard = offer.attempt
            self.ahead = offer.attempt < self.attempt
            if offer.attempt > self.attempt:
                self.early = offer
                self._notice_lag(offer)
            else:
                outcome = self._conclude(offer)
        return OfferOutcome.ADOPTED if adopts else outcome

    def _notice_lag(self, offer: Offer) -> None:
        """If the peer's offer starts from an older version of the flow than ours, let our next offer carry the flow.

        A flow is what has passed over a link, a vector of shape (d,); its two ends hold opposite copies.
        """
        if offer.version < self.version and offer.attempt > self.flow_sent:
            self.owes = True

    def _conclude(self, offer: Offer) -> OfferOutcome:
        """Compute the new flow from this end's and the peer's offer of one attempt, if the attempt is still open.

        Return the OfferOutcome: what was done to the flow. A flow is what has passed over a link, a vector of shape
        (d,); its two ends hold opposite copies.
        """
        self._notice_lag(offer)
        made = self.made
        if made is None or offer.attempt != made.attempt or not self.open:
            return OfferOutcome.NOTHING
        self.open = False
        if not offer.version == made.version == self.version or offer.vector is None or made.vector is None:
            return OfferOutcome.NOTHING
        if offer.digest == self.digest:
            weight, coast, push = (
                min(made.limit, offer.limit),
                min(made.coast, offer.coast),
                min(made.push, offer.push),
            )
            add_flow(self.flow, self.drift, made.vector, offer.vector, weight, coast, push)
            self.drifts, self.coast, self.push, self.speed = self.drift.size > 0, 0.0, 0.0, 1.0
            outcome = OfferOutcome.COMMITTED
        else:
            self.flow[:] = 0.0
            self.drifts = False
            outcome = OfferOutcome.ZEROED
        self.owes = False
        self.version, self.digest = self.attempt, self._fingerprint()
        return outcome

    @property
    def lean(self) -> float:
        """Return how far the extrapolated flow is ahead of the agreed one, as a multiple of its last change; a float.

        0 without momentum. A flow is what has passed over a link, a vector of shape (d,); its two ends hold opposite
        copies.
        """
        return self.coast + self.push if self.drifts else 0.0

    def drop(self) -> None:
        """Set the flow over this link to zero, as if never exchanged: the peer has lost its own or is gone for good.

        A flow is what has passed over a link, a vector of shape (d,); its two ends hold opposite copies.
        """
        self.flow[:] = 0.0
        self.version, self.digest, self.drifts = NEVER, self._fingerprint(), False
        self.open, self.owes, self.early, self.flow_sent = False, False, None, -1

    def restart(self, incarnation: int) -> None:
        """Begin a new incarnation of this end after a crash.

        The flow stays as it is, and the peer's incarnation is unknown. `incarnation` must be larger than any before,
        also than those after the backup that this end returns from. A flow is what has passed over a link, a vector of
        shape (d,); its two ends hold opposite copies.
        """
        self.incarnation = incarnation
        self.peer_incarnation = _UNKNOWN
        self.drifts = False
        self.open, self.owes, self.early, self.heard, self.flow_sent = False, False, None, -1, -1
