"""Last phase of a node: rounds until all members hold a proof, then the model and a good-bye."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from glmesh.contract import Fitted
from glmesh.engine.result import Status
from glmesh.federation.node.checkpoint import model_of
from glmesh.federation.node.participant import Participant
from glmesh.federation.wire import Kind, pack_json
from glmesh.problem import DataSummary

_START = 60.0  # [s] that a new node waits for its neighbours to be ready, once all have agreed
_RESUME = 5.0  # [s] that a resumed node waits for them; those that are up answer at once
_LINGER = 10.0  # [s] that a node stays after its end, to tell its neighbours
_CONFIRM = 60.0  # [s] without any neighbour after which a node that holds a proof ends by itself
LOOK = 0.5  # [s] between looks for absent members, and between entries of the history, at most
SOONEST = 0.02  # [s] between entries of the history at the beginning, so that a run of a second has some, too


class TrainingOutcome(Enum):
    """Ways in which a node's training ends; the value of each member is a sentence for people."""

    CERTIFIED = "The sites that took part hold a model that is proven to be within tol of the best for their rows."
    ALONE = "The model is proven to be within tol of the best for these rows; nobody confirmed that others have theirs."
    OUT_OF_ROUNDS = "Stopped after max_rounds without a proof; raise max_rounds or relax tol."
    NO_OPTIMUM = "There is no optimum to be found."
    STATIONARY = Status.STATIONARY.value
    COLLINEAR = Status.COLLINEAR.value
    STALLED = Status.STALLED.value
    NO_START = Status.NO_START.value
    TOO_FEW = "Stopped without a model."
    WAITED = "Stopped without a model, after waiting."
    LEFT_BEHIND = "The others are done; this node came back too late to prove its part."
    STOPPED = "Stopped; started again it goes on from its checkpoint."


@dataclass(frozen=True)
class Ending:
    """How a node's training ended, and the names of the sites whose data is in the model."""

    outcome: TrainingOutcome
    sites: tuple[str, ...] = ()  # members whose data is in the answer; empty if the node never began to train
    without: tuple[str, ...] = ()  # members whose data is not: given up, refused, or never there
    why: str = ""  # more words on the outcome

    @property
    def is_whole(self) -> bool:
        """Return whether no member's data is missing from the model."""
        return not self.without

    def sentence(self) -> str:
        """Return sentences for people: how the training ended here, which sites are left out, what is proven."""
        proven = self.outcome in (TrainingOutcome.CERTIFIED, TrainingOutcome.ALONE)
        text = self.outcome.value
        if self.outcome is TrainingOutcome.CERTIFIED and self.is_whole:
            text = (
                f"All {len(self.sites)} sites hold a model that is proven to be within tol of the best for these rows."
            )
        said = [without_text(self.sites, self.without)] if self.sites and self.without else []
        covers = ["The proof is about the optimiser on these rows, not about the data."] if proven else []
        more = [self.why] if self.why else []
        return " ".join([text, *more, *(f"It is {one}." for one in said), *covers])


def look_again(seconds: float) -> float:
    """Return the seconds between two entries of the history of a phase that has lasted for `seconds` by now."""
    return min(LOOK, max(SOONEST, seconds / 20.0))


def without_text(sites: Sequence[str], without: Sequence[str]) -> str:
    """Return words on the sites that a model is without: "without dora (3 of 4 sites)"; empty if there are none."""
    return f"without {', '.join(without)} ({len(sites)} of {len(sites) + len(without)} sites)" if without else ""


class Training:
    """Last phase of a node that gossips: rounds with its neighbours until the run ends, then the model and BYE."""

    def __init__(self, participant: Participant, summary: DataSummary, fitted: Fitted, *, resumed: bool) -> None:
        self.participant, self._summary, self._fitted, self._resumed = participant, summary, fitted, resumed
        self._neighbourhood, self._trainer = participant.neighbourhood, participant.trainer
        self._looked = 0.0  # [s] time of the last look for absent members
        self._began = time.monotonic()  # [s] time at which the phase was made
        self._linked = time.monotonic()  # [s] time at which some link was last seen up

    def run(self, max_rounds: int, record: Callable[[], None]) -> Ending:
        """Make rounds until the run ends, write checkpoint and model, send BYE; return the outcome and the sites in it.

        `record` is called about twice a second and after each new proof.
        """
        self._start()
        self.participant.save()
        self._neighbourhood.phase = "training"
        outcome = self._rounds(max_rounds, record)
        self._neighbourhood.phase = outcome.name.lower()
        self.participant.save()
        site = self._neighbourhood.site
        model = model_of(self._trainer, site, self._summary, self._fitted, outcome.name.lower())
        if outcome is not TrainingOutcome.STOPPED:
            model.save(site.state / "model.npz")
            self._part()
        return Ending(outcome, model.sites, model.without)

    def _start(self) -> None:
        """Wait until the neighbours that are not late are ready, or one has begun; then open the links of flow gossip.

        A node that comes later than others joins the exchange that they are in.
        """
        participant, trainer = self.participant, self._trainer
        participant.learn_membership()
        participant.say_ready_to_all()
        self._neighbourhood.phase = "waiting"
        self._await_neighbours(_RESUME if self._resumed else _START)
        self._neighbourhood.waiting = None
        participant.follow_membership()
        if self._is_behind() and trainer.met:
            trainer.returned()  # the others have begun: this node is late, or has lost its memory
        elif not self._resumed and not self._neighbourhood.stop.is_set():
            trainer.greet(participant.exchange)
        about = {"round": trainer.state.round, "members": len(trainer.members), "d": trainer.block.d}
        self._neighbourhood.log.info("training", extra=about)

    def _await_neighbours(self, seconds: float) -> None:
        """Take in messages until all neighbours that are not late are ready, one has begun, or `seconds` are over."""
        barrier, members = self.participant.exchange.barrier, self.participant.federation.members
        needed = {peer for peer in self.participant.timing if barrier.patient or not members[peer].late}
        began, end = time.time(), time.monotonic() + seconds
        while not self._neighbourhood.stop.is_set() and not self._is_behind():
            missing = sorted(needed - self._neighbourhood.ready.keys())
            if not missing or (time.monotonic() >= end and not barrier.patient):
                return
            self._neighbourhood.wait_for(missing, began, began + seconds)
            message = self._neighbourhood.next_message()
            if message is not None:
                self.participant.exchange.take(message)

    def _is_behind(self) -> bool:
        """Return whether a neighbour is in a later exchange than this node."""
        return self.participant.exchange.barrier.newest > self._trainer.gossip.clock

    def _rounds(self, max_rounds: int, record: Callable[[], None]) -> TrainingOutcome:
        """Make rounds until the run ends, `max_rounds` are made or the node is stopped; return the outcome.

        The run ends when all members hold a proof about the same round, or nobody could confirm that. `record` is
        called about twice a second and after each new proof.
        """
        trainer, stop = self._trainer, self._neighbourhood.stop
        while not stop.is_set():
            outcome = self._outcome(time.monotonic())
            if outcome is not None:
                return outcome
            if trainer.state.round >= max_rounds:
                return TrainingOutcome.OUT_OF_ROUNDS
            trainer.round(self.participant.exchange)
            if not stop.is_set() and self._after_round(time.monotonic()):
                record()
        return TrainingOutcome.STOPPED

    def _after_round(self, now: float) -> bool:
        """Keep and tell a new proof, save, give up absent members; return whether `record` is to be called now.

        `now` is in seconds of a monotonic clock.
        """
        participant, trainer = self.participant, self._trainer
        participant.follow_membership()
        is_proven = participant.prove()
        every = self._neighbourhood.site.file.checkpoint_every
        if is_proven or trainer.state.round >= participant.saved_round + every:
            participant.save()
        if is_proven and trainer.proof is not None:
            certificate = trainer.proof.certificate
            self._neighbourhood.log.info("certified", extra={"round": certificate.round, "gap": certificate.relative})
        participant.say_done()
        if not is_proven and now < self._looked + look_again(now - self._began):
            return False
        self._looked = now
        participant.give_up_absent(now)
        participant.wait_for_absent(now)
        if any(link.up for link in self._neighbourhood.links.links.values()):
            self._linked = now
        return True

    def _outcome(self, now: float) -> TrainingOutcome | None:
        """Return the outcome if the run ends at time `now` [s, monotonic clock], None if it goes on.

        The run ends when all members hold a proof about the same round, or nobody is left who could confirm that.
        """
        participant, trainer = self.participant, self._trainer
        around = [timing for peer, timing in participant.timing.items() if trainer.view.is_member(peer)]
        left_behind = bool(around) and all(timing.finished for timing in around)
        if trainer.proof is None:
            return TrainingOutcome.LEFT_BEHIND if left_behind else None
        held = trainer.proof.certificate.round
        if all(participant.proven_round(node) == held for node in trainer.members):
            return TrainingOutcome.CERTIFIED
        return TrainingOutcome.ALONE if left_behind or now > self._linked + _CONFIRM else None

    def _part(self) -> None:
        """Send the last gossip and BYE to all neighbours, and wait up to _LINGER seconds for their BYE."""
        links, stop, timing = self._neighbourhood.links, self._neighbourhood.stop, self.participant.timing
        links.send_to_all(Kind.GOSSIP, pack_json(self._neighbourhood.gossip.to_json()))
        links.send_to_all(Kind.BYE, pack_json({}))
        end = time.monotonic() + _LINGER
        while time.monotonic() < end and not stop.is_set():
            if all(one.finished or not links.links[peer].up for peer, one in timing.items()):
                break
            message = self._neighbourhood.next_message()
            if message is not None:
                self.participant.exchange.take(message)
                if message.up:
                    links.send(message.peer, Kind.BYE, pack_json({}))
        links.flush(1.0)
