"""The model that a node on totals writes to its file: the answer of all sites, and how the fit that made it went."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from glmesh.federation.config import Federation, Site
from glmesh.federation.node.answer import Answer
from glmesh.federation.node.own_rows import OwnRows
from glmesh.federation.node.training import TrainingOutcome
from glmesh.files.model_files import Model

Info = dict[str, str | float | int]  # what a model file tells of its fit, by name


@dataclass(frozen=True, eq=False)
class FinalModel:
    """What a node knows of a fit on totals that has ended, of which `to_model` makes the model for its file."""

    answer: Answer  # that all sites voted for, with the node's own coefficients
    outcome: TrainingOutcome
    communications: int  # messages with contributions that the node sent to a neighbour, at most
    federation: Federation  # in which members that were refused count as late
    site: Site
    own: OwnRows

    def to_model(self) -> Model:
        """Return the Model for the node's file: coefficients, names of columns and sites, and figures as `info`."""
        part, answer = self.federation.problem, self.answer
        names = [member.name for member in self.federation.members]
        return Model(
            coef=answer.coef,
            intercept=answer.intercept,
            loss=self.own.data.spec.loss.name,
            penalty=part.penalty,
            alpha=part.alpha if answer.curve is None else answer.curve.alpha,
            l1_ratio=float(part.model().l1_ratio or 0.0),
            classes=self._classes,
            info=self._run() | self._proof() | self._family() | self._remarks() | self._folds(),
            contract=self.own.contract_of_model(answer.design, part),
            design=answer.design,
            statistics=answer.statistics,
            federation=self.site.federation.name,
            digest=self.site.federation.digest,
            sites=tuple(names[k] for k in answer.members),
            without=tuple(name for k, name in enumerate(names) if k not in answer.members),
        )

    @property
    def _classes(self) -> tuple[float | str, ...] | None:
        """Return the classes of a classification, as texts where the files have texts; None for other losses."""
        loss, labels = self.own.data.spec.loss, self.own.fitted.labels
        classes = self.own.summary.classes if loss.classifies else None
        if loss.n_outputs > 1 or (classes is not None and any(isinstance(one, str) for one in labels)):
            return labels
        return classes

    def _run(self) -> Info:
        """Return what the model file tells of the run: how it ended, at which node, after how many totals."""
        return {
            "status": self.outcome.name.lower(),
            "node": self.site.file.name,
            "split": self.federation.problem.split,
            "method": "totals",
            "rounds": self.answer.totals,
            "nodes": len(self.answer.members),
            "communications": self.communications,
        }

    def _proof(self) -> Info:
        """Return what the model file tells of the proven gap: its round and size, and the range of the optimum.

        It is empty if no gap is proven.
        """
        if not np.isfinite(self.answer.gap):
            return {}
        proof = self.answer.certificate
        return {
            "certified_round": proof.round,
            "gap": proof.bound,
            "relative_gap": proof.relative,
            "objective_low": proof.objective_low,
            "objective_high": proof.objective_high,
        }

    def _family(self) -> Info:
        """Return the parameters of the family, with a theta that was estimated; empty for a loss and a penalty."""
        part, statistics = self.federation.problem, self.answer.statistics
        if not part.family:
            return {}
        fitted = None if statistics is None else statistics.fitted.family
        return asdict(fitted or self.own.data.spec.loss) | ({"exposure": part.exposure} if part.exposure else {})

    def _remarks(self) -> Info:
        """Return what else the model file tells, where there is something to tell: errors, columns, rows, levels."""
        answer, info = self.answer, Info()
        if np.isfinite(answer.off):
            info["standard_errors_off"] = answer.off
        if answer.remark:
            info["remark"] = answer.remark
        if self.federation.revealed:
            info["revealed"] = self.federation.revealed
        if answer.dropped:
            columns = self.own.columns(answer.design, self.federation.problem)
            info["dropped"] = ", ".join(columns[k] for k in answer.dropped)
        if answer.left_out is not None:
            info |= {"rows": answer.left_out[0], "rows_left_out": answer.left_out[1]}
        if answer.said:
            info["levels"] = "; ".join(answer.said)
        return info

    def _folds(self) -> Info:
        """Return what folds found of each weight of the penalty, numbers as text; empty if no folds chose it."""
        part, curve = self.federation.problem, self.answer.curve
        if curve is None:
            return {}
        found = {"cv_alphas": curve.weights, "cv_losses": curve.means, "cv_standard_errors": curve.errors}
        texts = {key: " ".join(repr(float(one)) for one in values) for key, values in found.items()}
        return {"cv_folds": part.cv, "cv_rule": part.choose, **texts}
