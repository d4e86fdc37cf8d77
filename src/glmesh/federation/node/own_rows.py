"""A site's own rows as the meeting has left them, and as the federation's formula sees them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from glmesh.contract import Contract, Fitted
from glmesh.federation.config import Federation, Site
from glmesh.federation.config.formulas import formula_of
from glmesh.federation.node.checkpoint import contract_of
from glmesh.federation.node.levels import SiteFrame
from glmesh.formulas import Design, Frame
from glmesh.formulas.design import CATEGORY
from glmesh.formulas.tables import raw_contract
from glmesh.methods import Rows
from glmesh.problem import DataSummary, NodeData


@dataclass(frozen=True, eq=False)
class OwnRows:
    """A site's own rows, and what all sites have agreed on about their tables."""

    data: NodeData
    summary: DataSummary  # what the problem needs of all members' data
    fitted: Fitted  # the table in the order of the contract
    contract: Contract  # of all sites
    left_out: int | None = None  # rows that lack a value and are not in `data`; None: such are refused

    def frame(self, federation: Federation, site: Site) -> SiteFrame | None:
        """Return the rows as the federation's formula sees them; None: it has no formula."""
        part, me = federation.problem, site.file.name
        if not part.formula:
            return None
        categories = [one.name for one in self.contract.columns if one.kind == CATEGORY]
        return SiteFrame(
            formula=formula_of(part.formula),
            frame=Frame.of_table(self.fitted.table, me, categories),
            columns={one.name: one for one in self.contract.columns},
            sites=tuple(member.name for member in federation.members),
            me=me,
            rare_levels=part.rare_levels,
            key=site.federation.digest,
            reveal_sites=part.reveal_sites,
        )

    def contract_of_model(self, design: Design | None, split: str) -> Contract | None:
        """Return the contract of a model file: names of the columns, with a formula those of the tables."""
        made = contract_of(self.fitted, split)
        return made if design is None or made is None else raw_contract(design, made)


def alone(block: Rows, frame: SiteFrame | None) -> Rows:
    """Return a site's rows with the columns that the formula would make of them alone; as they are without one."""
    X = None if frame is None else frame.alone()
    return block if X is None else replace(block, X=[X], _norms=None)
