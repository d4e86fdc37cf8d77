"""Table [problem] of a federation file: the objective, the gap to be proven and the limit of rounds."""

from __future__ import annotations

from dataclasses import dataclass, field

from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.methods.columns.method import require_columns
from glmesh.methods.totals.choice import method_on_totals
from glmesh.methods.totals.cross_validation import RULES
from glmesh.problem import ProblemSpec


@dataclass(frozen=True)
class ProblemPart:
    """Table [problem] of a federation file: the objective, the gap to be proven and the limit of rounds."""

    loss: str = "squared"  # name of a loss, as for `Problem.glm`
    penalty: str = "l2"  # or "l1", or "elasticnet"
    alpha: float = 1.0  # strength of the penalty
    l1_ratio: float = 0.5  # share of L1 in the elastic net; of no effect on other penalties
    split: str = "samples"  # or "features": what a site holds
    fit_intercept: bool = False  # unpenalised
    method: str = ""  # "totals" or "gossip"; empty: "totals" split by samples, "gossip" split by features
    rare: str = "refuse"  # what a two-valued column with few rows of one value does to totals; "drop": without it
    cv: int = 0  # folds inside each site that choose alpha; 0: alpha is that of the file
    choose: str = "minimum"  # or "one_standard_error": which weight the folds choose
    alphas: list[float] = field(default_factory=list)  # weights that the folds try; empty: they are computed
    aligned: bool = False  # split by features: rows without names stand in the same order at all sites
    tol: float = 1e-6  # relative gap to be proven
    max_rounds: int = 100_000  # [rounds] after which a node gives up

    def model(self) -> ProblemSpec:
        """Return loss, penalty and split as a ProblemSpec; raise an error if sites cannot train it."""
        ratio = self.l1_ratio if self.penalty == "elasticnet" else None
        spec = ProblemSpec.of(self.loss, self.penalty, self.alpha, ratio, self.split, self.fit_intercept)
        if self.by_totals:
            self._require_totals(spec)
            return spec
        if self.fit_intercept and self.split == "samples":
            raise UnsuitablePair(
                "an unpenalised intercept needs method='totals' or split='features' between peers; with gossip, sites "
                "that hold rows can add a column of ones to all files instead, which is penalised"
            )
        spec.require_form()
        return spec

    @property
    def by_totals(self) -> bool:
        """Return whether sites train from totals, masked sums over all sites; False: they gossip with neighbours."""
        return self.method == "totals" or (self.method == "" and self.split == "samples")

    def _require_totals(self, spec: ProblemSpec) -> None:
        """Raise UnsuitablePair, which names what would do, unless a method on totals (sums over sites) suits `spec`."""
        if self.split == "features":
            require_columns(spec.loss, spec.penalty_of(None))
            return
        if method_on_totals(spec.loss, spec.penalty_of(None), 1) is None:
            raise UnsuitablePair(
                f"there is no method on totals for the {self.loss} loss with penalty {self.penalty!r} and alpha "
                f"{self.alpha:g}; a loss with kinks needs an L1 or L2 penalty with alpha > 0"
            )


def check_folds(part: ProblemPart) -> None:
    """Raise InvalidInput if cv, choose or alphas in [problem], by which folds choose alpha, are not allowed.

    It is raised for values that would have no effect, too.
    """
    _check_fold_values(part)
    if not part.cv and (part.alphas or part.choose != "minimum"):
        raise InvalidInput("alphas and choose are for folds that choose alpha; write cv = 5 into [problem] too")
    if part.cv and not (part.by_totals and part.split == "samples"):
        raise InvalidInput("cv needs totals, so sites that hold rows; with gossip write cv = 0 and an alpha")
    if part.cv and part.alpha != 1.0:
        raise InvalidInput(f"cv chooses alpha, which must be 1 in the file then, got {part.alpha:g}; or write cv = 0")


def _check_fold_values(part: ProblemPart) -> None:
    """Raise InvalidInput if cv, choose or alphas in [problem] have a value that is never allowed."""
    weights = [one for one in part.alphas if type(one) in (int, float)]
    if part.cv < 0 or part.cv == 1 or part.choose not in RULES or len(weights) < len(part.alphas):
        raise InvalidInput(
            f"cv must be 0 or folds >= 2, choose one of {', '.join(map(repr, RULES))} and alphas numbers, got "
            f"{part.cv}, {part.choose!r} and {part.alphas}"
        )
    if not all(0 < one < float("inf") for one in weights):
        raise InvalidInput(f"alphas must be positive numbers, got {part.alphas}")
