"""Models that `--model` knows by name, and the splits that a loss and a penalty allow."""

from argparse import Namespace
from dataclasses import dataclass, fields

from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions import LOSSES, Loss
from glmesh.problem import Split, refusals, shorter

# name: (loss, penalty)
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
    """A loss and a penalty that the user chose, and the splits (by samples, by features) that they allow."""

    loss: Loss
    penalty: str  # name
    splits: tuple[Split, ...]  # at least one

    def split_for(self, n_samples: int, n_features: int) -> Split:
        """Return the allowed split with the shorter message: m numbers split by features, p split by samples."""
        return shorter(self.splits, n_samples, n_features)


def choose(options: Namespace) -> Choice:
    """Return the loss, the penalty and the splits that the options of `train` ask for.

    InvalidInput or UnsuitablePair is raised, before any data is read, if --model, --loss, --penalty, ... do not fit.
    """
    name, usual = MODELS[options.model] if options.model else (options.loss, "l2")
    loss, penalty = parse_loss(name), options.penalty or usual
    refused = refusals(loss, penalty, options.alpha, options.l1_ratio, options.intercept)
    if options.split != "auto":
        reason = refused[options.split]
        if reason is not None:
            raise reason
        return Choice(loss, penalty, (options.split,))
    splits = tuple(split for split, reason in refused.items() if reason is None)
    if not splits:
        raise UnsuitablePair(
            f"the {loss.name} loss is not smooth, so it is split by samples, which needs an L2 part in the penalty "
            "and alpha > 0; or take a smooth loss: squared, logistic, huber, squared_hinge"
        )
    apart = options.intercept and (options.stop == "certificate" or options.faults)  # then samples would not do
    return Choice(loss, penalty, ("features",) if apart and "features" in splits else splits)


def parse_loss(text: str) -> Loss:
    """Return the loss for a text NAME or NAME=PARAMETER, as in huber=1.35; raise InvalidInput for any other."""
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
    """Return the name and the parameters of a loss for people, as in: huber (delta 1.35)."""
    parameters = ", ".join(f"{field.name} {getattr(loss, field.name):g}" for field in fields(loss))
    return f"{loss.name} ({parameters})" if parameters else loss.name
