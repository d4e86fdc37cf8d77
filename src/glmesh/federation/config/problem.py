"""Table [problem] of a federation file: the objective, the gap to be proven and the limit of rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isnan, nan

from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.federation.config.families import MULTINOMIAL, check_without_family, likelihood_of
from glmesh.methods.columns.method import require_columns
from glmesh.methods.totals.choice import method_on_totals
from glmesh.methods.totals.cross_validation import RULES
from glmesh.methods.totals.likelihood.method import TOL_SE
from glmesh.problem import ProblemSpec


@dataclass(frozen=True)
class ProblemPart:
    """Table [problem] of a federation file: the objective, the gap to be proven and the limit of rounds."""

    loss: str = ""  # name of a loss, as for `Problem.glm`; empty: "squared", unless there is a family
    family: str = ""  # instead of a loss: a family, "multinomial" or "cox", fitted by maximum likelihood
    link: str = ""  # of the family; empty: its usual one
    theta: float = 1.0  # shape of the negative binomial family; of no effect on others
    estimate_theta: bool = False  # whether theta is estimated, beside the coefficients
    power: float = 1.5  # of Tweedie's variance; of no effect on other families
    offset: str = ""  # column that is added to the linear predictor of a family
    exposure: str = ""  # column, > 0, whose logarithm is added to it
    time: str = ""  # family "cox": column with the time of the event or of censoring, > 0
    event: str = ""  # family "cox": column that is 1 where the event happened at that time, 0 where it did not
    cluster: str = ""  # column whose equal values at a site say which of its rows may depend on each other
    penalty: str = "l2"  # or "l1", or "elasticnet"
    alpha: float = nan  # strength of the penalty; 1 if it is not given, with a family 0
    l1_ratio: float = 0.5  # share of L1 in the elastic net; of no effect on other penalties
    split: str = "samples"  # or "features": what a site holds
    fit_intercept: bool = False  # unpenalised
    method: str = ""  # "totals" or "gossip"; empty: "totals" split by samples, "gossip" split by features
    rare: str = "refuse"  # what a two-valued column with few rows of one value does to totals; "drop": without it
    cv: int = 0  # folds inside each site that choose alpha; 0: alpha is that of the file
    choose: str = "minimum"  # or "one_standard_error": which weight the folds choose
    alphas: list[float] = field(default_factory=list)  # weights that the folds try; empty: they are computed
    aligned: bool = False  # split by features: rows without names stand in the same order at all sites
    formula: str = ""  # "ill ~ age + C(ward)": response and terms; empty: all columns are features
    rare_levels: str = "refuse"  # what a level with few rows over all sites does: "refuse", "merge" or "drop"
    missing: str = ""  # rows with a missing value: "drop" or "refuse"; empty: "drop" with a formula or family
    reveal_sites: bool = False  # whether columns may tell sites apart, whose sums all learn then
    tol: float = 1e-6  # relative gap to be proven
    tol_se: float = TOL_SE  # [standard errors] that coefficients of a family without a penalty may be off, proven
    max_rounds: int = 100_000  # [rounds] after which a node gives up

    def __post_init__(self) -> None:
        """Set alpha and loss where they are not given."""
        if isnan(self.alpha):
            object.__setattr__(self, "alpha", 0.0 if self.family else 1.0)
        if not (self.loss or self.family):
            object.__setattr__(self, "loss", "squared")

    def model(self, n_classes: int = 2) -> ProblemSpec:
        """Return loss, penalty and split as a ProblemSpec; raise an error if sites cannot train it.

        `n_classes` is the number of classes of the multinomial family, which sites know when they have met.
        """
        ratio = self.l1_ratio if self.penalty == "elasticnet" else None
        if not self.family:
            check_without_family(self)
        loss = likelihood_of(self, n_classes) if self.family else self.loss
        spec = ProblemSpec.of(loss, self.penalty, self.alpha, ratio, self.split, self.fit_intercept)
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
    def name(self) -> str:
        """Return the name of the family or of the loss."""
        return self.family or self.loss

    @property
    def is_unpenalised(self) -> bool:
        """Return whether a family is fitted without a penalty: what is proven then counts standard errors."""
        return bool(self.family) and self.alpha == 0

    @property
    def has_labels(self) -> bool:
        """Return whether targets are labels of classes, on which sites agree: two, or more with "multinomial"."""
        return self.family == MULTINOMIAL or self.model().loss.classifies

    @property
    def held(self) -> str:
        """Return the name of the column whose values, or their logarithms, are an offset; "" if there is none."""
        return self.offset or self.exposure

    @property
    def by_totals(self) -> bool:
        """Return whether sites train from totals, masked sums over all sites; False: they gossip with neighbours."""
        return self.method == "totals" or (self.method == "" and self.split == "samples")

    @property
    def drops_gaps(self) -> bool:
        """Return whether rows with a missing value are left out; False: a site with such rows is refused."""
        usual = self.split == "samples" and bool(self.formula or self.family)
        return self.missing == "drop" or (self.missing == "" and usual)

    def _require_totals(self, spec: ProblemSpec) -> None:
        """Raise UnsuitablePair, which names what would do, unless a method on totals (sums over sites) suits `spec`."""
        if self.split == "features":
            require_columns(spec.loss, spec.penalty_of(None))
            return
        if method_on_totals(spec.loss, spec.penalty_of(None), 1) is None:
            raise UnsuitablePair(
                f"there is no method on totals for the {self.name} loss with penalty {self.penalty!r} and alpha "
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
