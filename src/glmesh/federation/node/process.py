"""The process of a site: its phases one after another. No coordinator for anything."""

import logging
import signal
from collections.abc import Callable
from contextlib import closing

from glmesh.federation.config import Site
from glmesh.federation.node.about import write_about
from glmesh.federation.node.meeting import Meeting
from glmesh.federation.node.participant import Participant
from glmesh.federation.node.totalling import Totalling
from glmesh.federation.node.training import Ending, TrainingOutcome
from glmesh.kernels.jit import told_of_compiling

COMPILING = "compiling"  # phase and event
COMPILING_TEXT = "compiling for this machine (once, about a minute)"


class Node:
    """The process of one site: meeting, training and model; other threads may read its attributes during `run`."""

    def __init__(self, site: Site, log: logging.Logger) -> None:
        self._log, self._meeting = log, Meeting(site, log)
        self.neighbourhood = self._meeting.neighbourhood
        self.participant: Participant | None = None  # None until all members' summaries are known, and with totals
        self.totals: Totalling | None = None  # None until all members have met, and with gossip
        self.seen: Callable[[float, float], None] = lambda objective, gap: None  # is told of each round on totals

    def run(
        self, *, patient: bool = False, max_rounds: int | None = None, record: Callable[[], None] = lambda: None
    ) -> Ending:
        """Meet the neighbours, train with them and write the model; return how it ended.

        `patient`: wait for each neighbour without limit, so that the rounds are the simulator's. `max_rounds`: None is
        the limit in the federation file. `record` is called about twice a second and after each new proof.
        """
        neighbourhood = self.neighbourhood
        limit = neighbourhood.site.federation.problem.max_rounds if max_rounds is None else max_rounds
        write_about(neighbourhood.site, None)
        with closing(neighbourhood.links):
            ending = Ending(TrainingOutcome.STOPPED)
            agreed = self._meeting.run()
            if agreed is not None:
                write_about(neighbourhood.site, agreed.fitted.table.m)
            if agreed is not None and agreed.federation.problem.by_totals:
                with told_of_compiling(self._compiling):
                    self.totals = agreed.prepare_totals()
                ending = self.totals.run(limit, record, self.seen)
            elif agreed is not None:
                with told_of_compiling(self._compiling):
                    training = agreed.prepare(patient=patient)
                self.participant = training.participant
                ending = training.run(limit, record)
            neighbourhood.phase = ending.outcome.name.lower()
            about = {"outcome": ending.outcome.name.lower(), "why": ending.sentence()}
            self._log.info("end", extra=about | {"sites": list(ending.sites), "without": list(ending.without)})
            return ending

    def _compiling(self) -> None:
        """Say that kernels are being compiled, which takes long and happens at the first start on a machine only."""
        self.neighbourhood.phase = COMPILING
        self._log.info(COMPILING, extra={"why": COMPILING_TEXT})

    def stop_on_signals(self) -> None:
        """Let SIGTERM and Ctrl-C end the run after a checkpoint, from now on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.neighbourhood.stop.set())
