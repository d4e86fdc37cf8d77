"""The models that `--model` knows by name, and what a choice of loss and penalty can be split by."""

from argparse import Namespace
from dataclasses import dataclass, fields

from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions import LOSSES, Loss
from glmesh.problem import Split, refusals, shorter

# name: loss, penalty
MODELS = {
    "ridge": ("squared", "l2"),
    "lasso": ("squared", "l1"),
    "elastic-net": ("squared", "elasticnet"),
    "logistic": ("logistic", "l2"),
    "svm": ("hinge", "l2"),
    "squared-svm": ("squared_hinge", "l2"),
    "huber": ("huber", "l2"),
    "svr": ("epsilon_insensitive", "l2"),
    "quantile": ("quantile", "l2"),
}


@dataclass(frozen=True)
class Choice:
    """What to fit, known to have a form for each of `splits`."""

    loss: Loss
    penalty: str
    splits: tuple[Split, ...]

    def split_for(self, n_samples: int, n_features: int) -> Split:
        """The split with the shorter messages: they hold a number per feature, or one per sample."""
        return shorter(self.splits, n_samples, n_features)


def choose(options: Namespace) -> Choice:
    """Check --model, --loss, --penalty, ... against each other, before any data is read."""
    name, usual = MODELS[options.model] if options.model else (options.loss, "l2")
    loss, penalty = parse_loss(name), options.penalty or usual
    refused = refusals(loss, penalty, options.alpha, options.l1_ratio, options.intercept)
    splits: list[Split] = [
        split for split, reason in refused.items() if reason is None and options.split in ("auto", split)
    ]
    if options.split == "auto" and options.intercept and (options.stop == "certificate" or options.faults):
        splits = [split for split in splits if split != "samples"] or splits  # an intercept stands in the way there
    if not splits and options.split != "auto":
        reason = refused[options.split]
        assert reason is not None
        raise reason
    if not splits:
        raise UnsuitablePair(
            f"the {loss.name} loss is not smooth, so it is split by samples, which needs an L2 part in the penalty "
            "and alpha > 0; or take a smooth loss: squared, logistic, huber, squared_hinge"
        )
    return Choice(loss, penalty, tuple(splits))


def parse_loss(text: str) -> Loss:
    """A loss from NAME or NAME=PARAMETER, as in huber=1.35."""
    name, equals, parameter = text.partition("=")
    if name not in LOSSES:
        raise InvalidInput(f"--loss {name}: unknown; choose from {', '.join(LOSSES)}")
    if not equals:
        return LOSSES[name]()
    names = [field.name for field in fields(LOSSES[name])]
    if not names:
        raise InvalidInput(f"--loss {text}: the {name} loss has no parameter; write --loss {name}")
    try:
        value = float(parameter)
    except ValueError:
        raise InvalidInput(f"--loss {text}: {names[0]} must be a number, got {parameter!r}") from None
    return LOSSES[name](**{names[0]: value})


def loss_text(loss: Loss) -> str:
    """The loss in words: huber (delta 1.35)."""
    parameters = ", ".join(f"{field.name} {getattr(loss, field.name):g}" for field in fields(loss))
    return f"{loss.name} ({parameters})" if parameters else loss.name
