"""Second phase of a node: all sites have agreed, so the node's state can be made, or restored."""

import time
from dataclasses import dataclass

from glmesh.contract import Contract, Fitted
from glmesh.federation.config import Federation
from glmesh.federation.node.checkpoint import Store
from glmesh.federation.node.column_totalling import ColumnTotalling
from glmesh.federation.node.neighbourhood import Neighbourhood
from glmesh.federation.node.own_rows import OwnRows
from glmesh.federation.node.participant import Participant
from glmesh.federation.node.totalling import Totalling
from glmesh.federation.node.trainer import Trainer
from glmesh.federation.node.training import Training
from glmesh.problem import DataSummary, NodeData
from glmesh.types import Tree


@dataclass(frozen=True)
class Agreed:
    """Second phase of a node: all sites' data fits together, so the node's state can be made, or restored."""

    neighbourhood: Neighbourhood
    federation: Federation  # in which members that were refused count as late
    data: NodeData
    summary: DataSummary  # `roles.summary_of`: what the problem needs of all members' data
    fitted: Fitted  # this node's table in the order of the contract
    store: Store
    saved: Tree | None  # the checkpoint that the node goes on from; None: there is none
    contract: Contract  # of all sites
    left_out: int | None = None  # rows of this node that lack a value and are not in `data`; None: such are refused

    def prepare(self, *, patient: bool = False) -> Training:
        """Make the node's state, or restore it from a checkpoint; return the phase that trains by gossip.

        `patient`: that phase waits for each neighbour without limit. InvalidData is raised if the node's data does not
        fit the summary.
        """
        site = self.neighbourhood.site
        life = int(time.time() * 1000)  # [ms] since 1970: larger than before a restart, with or without a checkpoint
        if self.saved is not None:
            life = max(life, self.saved["trainer"]["life"] + 1)
        trainer = Trainer(self.federation, site.me, self.data.compose(self.summary, site.me), life)
        if self.saved is not None:
            trainer.restore(self.saved["trainer"])
            self.neighbourhood.log.info("resumed", extra={"round": trainer.state.round})
        participant = Participant(self.neighbourhood, trainer, self.store, patient=patient)
        return Training(participant, self.summary, self.fitted, resumed=self.saved is not None)

    def prepare_totals(self) -> Totalling:
        """Return the phase that trains by masked totals.

        Raise UnreadableFile if the memory of views on disk is damaged.
        """
        own = OwnRows(self.data, self.summary, self.fitted, self.contract, self.left_out)
        kind = ColumnTotalling if self.federation.by_columns else Totalling
        return kind(self.neighbourhood, self.federation, own)
