"""A site's own rows as the meeting has left them, and as the federation's formula sees them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from glmesh.contract import Contract, Fitted
from glmesh.federation.config import Federation, ProblemPart, Site
from glmesh.federation.config.formulas import formula_of
from glmesh.federation.node.checkpoint import contract_of
from glmesh.federation.node.levels import DesignAgreement, SiteFrame
from glmesh.federation.node.roles import spec_of, summary_of
from glmesh.formulas import Design, Frame
from glmesh.formulas.design import CATEGORY
from glmesh.formulas.tables import designed, raw_contract
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
            beside=_beside(part),
        )

    def designed(self, agreement: DesignAgreement, part: ProblemPart) -> tuple[NodeData, DataSummary]:
        """Return (data, summary) of the rows that are in the fit, with the columns of the design that was agreed on.

        An offset stays the last column. Raise Mismatch for a row that does not fit the design.
        """
        rows = self.fitted.table.rows(agreement.kept)
        fitted = replace(self.fitted, table=designed(rows, agreement.design, agreement.frame, _beside(part)))
        spec = spec_of(part, fitted)
        data = NodeData(spec, fitted.table.X, fitted.y, rows.weight, self.data.where)
        data = data if rows.clusters is None else data.with_clusters(rows.clusters)
        return data, summary_of(data, fitted.labels)

    def columns(self, design: Design | None, part: ProblemPart) -> tuple[str, ...]:
        """Return the names of the columns of the fit; a design has an offset behind its own."""
        return self.fitted.table.columns if design is None else (*design.names, *_beside(part))

    def contract_of_model(self, design: Design | None, part: ProblemPart) -> Contract | None:
        """Return the contract of a model file: names of the columns, with a formula those of the tables."""
        made = contract_of(self.fitted, part.split)
        return made if design is None or made is None else raw_contract(design, made, _beside(part))


def _beside(part: ProblemPart) -> tuple[str, ...]:
    """Return the names of columns that are in the fit as they are: an offset or exposure."""
    return (part.held,) if part.held else ()
