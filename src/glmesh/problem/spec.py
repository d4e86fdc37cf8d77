"""Specification of a problem: a loss, a penalty and a split, which mostly have the form f(Ax) + g(x) together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions import LOSSES, Family, Loss, Separable, Softmax, Table, family_of
from glmesh.types import Indices
from glmesh.validation import number_in, one_of, unknown

Split = Literal["features", "samples"]
SPLITS: tuple[Split, ...] = ("samples", "features")


@dataclass(frozen=True, eq=False)
class ProblemSpec:
    """Loss, penalty and split of a problem, without its data; `of` refuses what no method can minimise.

    `split` is "features" or "samples": what a node holds of the data. Split by samples, a penalty without a quadratic
    term has no form f(Ax) + g(x) with smooth f: `require_form` refuses it for methods that need the form. A is the data
    matrix, x are the variables of all nodes.
    """

    loss: Loss
    penalty: Separable | list[Separable]  # multiplied by alpha; a list: one per node
    penalty_name: str  # "l1", "l2", "elasticnet" or "custom"
    alpha: float
    l1_ratio: float | None  # None: a custom penalty
    split: Split
    fit_intercept: bool
    anchor: float = 0.0  # value near which a free intercept is held, split by samples; `solve` moves it
    offset: bool = False  # whether the last column of the data is an offset, whose coefficient is held at 1
    intercept_l2: float | None = None  # l2 that the intercept's row of A was scaled for; None: that of the penalty

    @staticmethod
    def of(
        loss: str | Loss,
        penalty: str | Separable | Sequence[Separable],
        alpha: float,
        l1_ratio: float | None,
        split: str,
        fit_intercept: bool,
    ) -> ProblemSpec:
        """Return the specification for options as users write them; their meaning is that in `Problem.glm`.

        Raise UnsuitablePair for loss and penalty that no method can minimise with this split.
        """
        loss = _loss(loss)
        alpha = number_in(alpha, "alpha", "a finite number >= 0", lambda weight: 0 <= weight < np.inf)
        one_of(split, "split", ("features", "samples"))
        chosen = next(one for one in SPLITS if one == split)
        name, parts = _penalty(penalty, l1_ratio)
        scaled = [part.scaled(alpha) for part in parts]
        _check_list(penalty, scaled, split)
        _check_pair(loss, scaled, split)
        if fit_intercept and loss.compares_rows:
            raise UnsuitablePair(f"an intercept has no effect on the {loss.name} loss; leave fit_intercept=True away")
        one = scaled[0] if not isinstance(penalty, list | tuple) else scaled
        ratio = {"l1": 1.0, "l2": 0.0, "elasticnet": 0.5 if l1_ratio is None else float(l1_ratio)}.get(name)
        return ProblemSpec(loss, one, name, float(alpha), ratio, chosen, fit_intercept)

    @property
    def has_form(self) -> bool:
        """Whether loss and penalty can be written f(Ax) + g(x) with this split, f smooth.

        A is the data matrix, x are the variables of all nodes.
        """
        if self.loss.by_likelihood:
            return False
        return self.split == "features" or self.penalty_of(None).strong_convexity > 0

    def require_form(self) -> None:
        """Raise UnsuitablePair if loss and penalty cannot be written f(Ax) + g(x) with a smooth f.

        The message says what to change. A is the data matrix, x are the variables of all nodes.
        """
        if self.has_form:
            return
        if self.loss.by_likelihood:
            raise UnsuitablePair(
                f"{self.loss.name} is fitted by sums over rows (MaximumLikelihood), not by this method; leave method= "
                "and acceleration= away"
            )
        what = {"l1": "a plain L1 penalty", "elasticnet": "an elastic net without L2 part"}.get(
            self.penalty_name, "a penalty without L2 part (or with alpha=0)"
        )
        raise UnsuitablePair(
            f"{what} cannot be split by samples: its conjugate is not smooth. Use split='features', or "
            "penalty='elasticnet' with l1_ratio < 1 (and alpha > 0)."
        )

    def penalty_of(self, node: int | None) -> Separable:
        """Return the penalty, alpha included, of the columns of `node`; None: of the columns of the pooled data."""
        if isinstance(self.penalty, list):
            return self.penalty[node or 0]
        return self.penalty

    def with_penalty(self, node: int, penalty: Separable, n_nodes: int | None) -> ProblemSpec:
        """Return a copy of the specification with another penalty, alpha included, for one of n_nodes nodes.

        n_nodes is None for pooled data, which has one penalty.
        """
        if isinstance(self.penalty, list):
            return replace(self, penalty=[*self.penalty[:node], penalty, *self.penalty[node + 1 :]])
        if n_nodes is not None and penalty is not self.penalty and self.split == "features":
            return replace(self, penalty=[penalty if k == node else self.penalty for k in range(n_nodes)])
        return replace(self, penalty=penalty)

    def row_l2(self) -> float:
        """Return the factor l2 of a quadratic term l2/2 c^2 for which the intercept's row of A is scaled, a float.

        It is used split by samples only, where an intercept is one more coefficient c.
        """
        l2 = self.penalty_of(None).strong_convexity if self.intercept_l2 is None else self.intercept_l2
        return l2 if np.isfinite(l2) else 1.0

    def with_alpha(self, alpha: float) -> ProblemSpec:
        """Return a copy of the specification with another factor alpha of the penalty; the matrix A does not change."""
        if not isinstance(alpha, int | float | np.number) or not 0 < float(alpha) < np.inf or not self.alpha > 0:
            raise InvalidInput(f"alpha must be a finite number > 0, before and after; got {self.alpha!r} and {alpha!r}")
        factor = float(alpha) / self.alpha
        row_l2 = self.row_l2() if self.fit_intercept and self.split == "samples" else None
        if isinstance(self.penalty, list):
            return replace(self, alpha=float(alpha), penalty=[one.scaled(factor) for one in self.penalty])
        return replace(self, alpha=float(alpha), penalty=self.penalty.scaled(factor), intercept_l2=row_l2)

    def grown_penalty(self, node: int, penalty: Separable | None, n: int, more: int) -> Separable:
        """Return the penalty of a node's `n` old columns and `more` new ones behind them.

        `penalty` is that of the new columns, before it is multiplied by alpha; None: that of the old ones.
        """
        old = self.penalty_of(node)
        if penalty is not None and (self.split == "samples" or type(penalty) is not type(old)):
            raise InvalidInput(f"penalty of new columns: a {type(old).__name__}, and only split by features")
        if self.split == "samples":
            return old
        if penalty is not None:
            penalty = penalty.scaled(self.alpha)
            penalty.check_size(more)
            return old.join([old, penalty], [n, more])
        try:
            old.check_size(n + more)
        except InvalidInput:
            raise InvalidInput(
                f"the penalty has an entry per column; give the new ones theirs: penalty={type(old).__name__}(...)"
            ) from None
        return old

    def shrunk_penalty(self, node: int, kept: Indices) -> Separable:
        """Return the penalty of a node that keeps only its columns with the indices `kept`.

        Raise InvalidInput if a group of the penalty would be cut.
        """
        penalty = self.penalty_of(node)
        if self.split == "samples":
            return penalty
        labels = penalty.group_labels
        if labels is not None and np.isin(np.delete(labels, kept), labels[kept]).any():
            raise InvalidInput("the columns of a group go together: remove all of them or none")
        return penalty.take(kept)


def loss_of(
    loss: str | Loss | None,
    family: str | Family | Softmax | None,
    link: str | None = None,
    targets: Sequence[ArrayLike] = (),
) -> Loss:
    """Return the Loss with this name, or that of a family with a link; both None: the squared loss.

    `targets` are those of each part of the data, from which "multinomial" takes its number of classes. Raise
    InvalidInput for unknown names, for a loss beside a family, and for a link without one.
    """
    if family is None:
        if link is not None:
            raise InvalidInput(f"link={link!r} goes with family=...")
        return _loss("squared" if loss is None else loss)
    if loss is not None:
        raise InvalidInput(f"give either loss={loss!r} or family={family!r}, not both")
    if isinstance(family, Softmax) or family == Softmax.name:
        if link not in (None, "softmax"):
            raise InvalidInput(f"the multinomial family has the link 'softmax' alone, got {link!r}")
        return Softmax.of(targets) if isinstance(family, str) else family
    return family_of(family, link)


def _loss(loss: str | Loss) -> Loss:
    """Return the Loss with this name, or the one that is given; raise InvalidInput for an unknown name."""
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise unknown("loss", loss, LOSSES)
    return LOSSES[loss]()


def _penalty(penalty: str | Separable | Sequence[Separable], l1_ratio: float | None) -> tuple[str, list[Separable]]:
    """Return (name, penalties) of a penalty that is given by name, or ("custom", penalties) of one's own.

    The list of penalties, before they are multiplied by alpha, has one entry, or one per node where a sequence was
    given; l1_ratio is the fraction of L1 in the elastic net.
    """
    if isinstance(penalty, list | tuple):
        if not penalty or not all(isinstance(part, Separable) for part in penalty):
            raise InvalidInput("a list of penalties holds one Separable per node")
        return "custom", list(penalty)
    if isinstance(penalty, Separable):
        if l1_ratio is not None:
            raise InvalidInput("l1_ratio goes with penalty='elasticnet'; a Separable carries its own weights")
        return "custom", [penalty]
    if penalty not in ("l1", "l2", "elasticnet"):
        raise InvalidInput(f"unknown penalty {penalty!r}; use 'l1', 'l2', 'elasticnet' or a Separable")
    if penalty != "elasticnet" and l1_ratio is not None:
        raise InvalidInput(f"l1_ratio goes with penalty='elasticnet', not with {penalty!r}")
    ratio = {"l1": 1.0, "l2": 0.0}.get(str(penalty), 0.5 if l1_ratio is None else l1_ratio)
    ratio = number_in(ratio, "l1_ratio", "between 0 and 1", lambda share: 0 <= share <= 1)
    return str(penalty), [Table(l1=np.asarray(ratio), l2=np.asarray(1.0 - ratio))]


def _check_list(penalty: str | Separable | Sequence[Separable], scaled: list[Separable], split: str) -> None:
    """Raise UnsuitablePair if a list of penalties, one per node, cannot be: split by samples, or of several kinds."""
    if not isinstance(penalty, list | tuple):
        return
    if split == "samples":
        raise UnsuitablePair("split by samples all nodes share one penalty; give one Separable, not a list")
    kinds = sorted({type(part).__name__ for part in scaled})
    if len(kinds) > 1:
        raise UnsuitablePair(f"the penalties of all nodes must be of one kind, got {' and '.join(kinds)}")


def _check_pair(loss: Loss, penalties: list[Separable], split: str) -> None:
    """Raise UnsuitablePair if the loss has no form with this split, or a penalty does not suit the split."""
    if split == "features" and loss.by_likelihood:
        raise UnsuitablePair(f"{loss.name} is fitted where nodes hold rows; use split='samples'")
    if split == "features":
        if loss.smooth(np.ones(1), np.ones(1)) is None:
            raise UnsuitablePair(
                f"the {loss.name} loss has no form split by features here. "
                "Use split='samples', or a smooth loss: squared, logistic, huber, squared_hinge."
            )
        return
    for penalty in penalties:
        if penalty.as_table() is None and loss.by_likelihood:
            raise UnsuitablePair(
                f"the {loss.name} family goes with penalties that have a term per coefficient (l1, l2, elasticnet, "
                f"bounds), and {type(penalty).__name__} is another; take one of these, or a loss in place of the family"
            )
        if penalty.as_table() is None:
            raise UnsuitablePair(
                f"{type(penalty).__name__} cannot be split by samples: its conjugate is not smooth. "
                "Use split='features'."
            )


def refusals(
    loss: str | Loss, penalty: str | Separable, alpha: float, l1_ratio: float | None, fit_intercept: bool
) -> dict[Split, UnsuitablePair | None]:
    """Return {split: error} for both splits: why loss and penalty cannot be written f(Ax) + g(x), or None if they can.

    The options are those of `Problem.glm`. A is the data matrix, x are the variables of all nodes. alpha is the weight
    of the penalty and l1_ratio the fraction of L1 in it.
    """
    found: dict[Split, UnsuitablePair | None] = {}
    for split in SPLITS:
        try:
            ProblemSpec.of(loss, penalty, alpha, l1_ratio, split, fit_intercept).require_form()
            found[split] = None
        except UnsuitablePair as error:
            found[split] = error
    return found


def shorter(allowed: Sequence[Split], n_samples: int, n_features: int) -> Split:
    """Return the allowed split with the shorter messages: "samples" if features are fewer than samples.

    Nodes that hold samples exchange a number per feature, nodes that hold features a number per sample.
    """
    first: Split = "samples" if n_features < n_samples else "features"
    return first if first in allowed else allowed[0]
