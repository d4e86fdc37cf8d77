"""Models that `--model` knows by name, and the splits that a loss and a penalty allow."""

from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from glmesh.cli.families import check_family_options
from glmesh.cli.options import changed
from glmesh.core.block import NetworkInfo
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions import LOSSES, Cox, Family, Loss, NegativeBinomial, family_of
from glmesh.methods.choice import least_seconds
from glmesh.methods.totals.choice import method_on_totals
from glmesh.network import Network
from glmesh.problem import ProblemSpec, Split, refusals, shorter

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
class ModelChoice:
    """A loss and a penalty that the user chose, and the splits (by samples, by features) that they allow."""

    loss: Loss
    penalty: str  # name
    splits: tuple[Split, ...]  # at least one
    only: str = ""  # why there is one split only
    totals: bool = False  # whether the options leave open that nodes with samples make totals

    def split_of(
        self,
        spec_of: Callable[[Split], ProblemSpec],
        shape: tuple[int, int],
        info: NetworkInfo,
        network: Network | None,
    ) -> tuple[Split, str]:
        """Return (the split to take, words for people on why it was taken).

        With totals it is the split whose messages take less time by the cost model, else that with shorter messages.
        `spec_of` returns the objective with a split, `shape` is (samples, features), `info` and `network` are what the
        cost model needs to know of the network. Raise UnsuitablePair if data of this shape can be split in no way.
        """
        m, p = shape
        found = {split: self._seconds(spec_of(split), shape, info, network) for split in self.splits}
        able = {split: seconds for split, seconds in found.items() if np.isfinite(seconds)}
        if not able:
            spec_of(self.splits[0]).require_form()
        if len(self.splits) == 1 or not self.totals:
            split = shorter(self.splits, m, p)
            a, b = (p, m) if split == "samples" else (m, p)
            return split, self.only or f"whose messages have {a:,} numbers (the other way {b:,})"
        split = min(able, key=lambda one: able[one])
        others = [seconds for one, seconds in able.items() if one != split]
        if not others:
            return split, "the only one for data of this shape"
        return split, f"whose messages are expected to take {able[split]:.2g} s (the other way {others[0]:.2g} s)"

    def _seconds(self, spec: ProblemSpec, shape: tuple[int, int], info: NetworkInfo, network: Network | None) -> float:
        """Return the seconds that the messages of a fit with the objective `spec` take, as the cost model expects.

        `shape` is (samples, features); `info` and `network` say what the network is like. It is infinite if data of
        this shape cannot be split that way.
        """
        if not self.totals and not spec.has_form:
            return np.inf
        return least_seconds(spec, shape, info, network)


def choose(options: Namespace) -> ModelChoice:
    """Return the ModelChoice that the options of `train` ask for: loss, penalty and possible splits.

    InvalidInput or UnsuitablePair is raised, before any data is read, if --model, --loss, --penalty, --split, ... do
    not go together; a split that was asked for is never changed.
    """
    if options.family:
        return _family(options)
    name, usual = MODELS[options.model] if options.model else (options.loss, "l2")
    loss, penalty = parse_loss(name), options.penalty or usual
    refused = refusals(loss, penalty, options.alpha, options.l1_ratio, options.intercept)
    needs, totals = _needs_features(options), _allows_totals(options, loss, penalty)
    if totals and not needs:
        refused |= {"samples": None}
    splits = tuple(split for split, reason in refused.items() if reason is None)
    wanted = _wanted_splits(options.split, loss, refused)
    if needs and "features" not in wanted:
        raise _intercept_by_samples(needs, splits)
    if needs and wanted != ("features",):
        return ModelChoice(loss, penalty, ("features",), f"as an intercept with {needs} needs it")
    made = ModelChoice(loss, penalty, wanted, totals=totals and not needs)
    return made if options.split != "auto" else _of_auto(made, totals and options.acceleration == "newton", splits)


def _of_auto(usual: ModelChoice, newton: bool, splits: tuple[Split, ...]) -> ModelChoice:
    """Return the `usual` choice, or that by samples if Newton's method was asked for, or that of the only split.

    `splits` are those that loss and penalty allow.
    """
    if newton:
        return replace(usual, splits=("samples",), only="as --acceleration newton needs it", totals=True)
    if len(splits) == 1:
        why = f"the only one for {usual.loss.name} loss, {usual.penalty} penalty and this alpha"
        return replace(usual, only=why, totals=False)
    return usual


def _family(options: Namespace) -> ModelChoice:
    """Return the ModelChoice of --family: by samples, on totals; raise InvalidInput for options that do not fit."""
    loss = _cox(options) if options.family == Cox.name else parse_family(options.family, options.link)
    if options.split == "features":
        raise UnsuitablePair(f"--split features: the {loss.name} family is fitted where nodes hold rows")
    if options.acceleration not in ("auto", "newton") or options.local_passes or options.gossip_steps != 1:
        raise InvalidInput("--family is fitted by sums over rows; leave --acceleration and options of rounds away")
    return ModelChoice(loss, options.penalty or "l2", ("samples",), "as a family needs it", totals=True)


def _cox(options: Namespace) -> Cox:
    """Return the loss of --family cox; raise InvalidInput for options that do not go with it."""
    for name in ("link", "offset", "exposure", "no_intercept", "faults", "checkpoint"):
        if getattr(options, name):
            raise InvalidInput(f"--{name.replace('_', '-')} does not go with --family cox")
    if options.runtime == "mpi":
        raise InvalidInput("--family cox compares rows of a stratum, which ranks would cut; leave --runtime mpi out")
    if not options.formula and not (options.time and options.event):
        raise InvalidInput(
            "--family cox needs --time COLUMN and --event COLUMN, or --formula 'Surv(time, event) ~ ...'"
        )
    return Cox()


def completed(options: Namespace) -> Namespace:
    """Return the options with the defaults that --family changes: alpha 0 instead of 1, and an intercept.

    Raise InvalidInput for options that go with --family alone, or not with each other.
    """
    check_family_options(options, ("link", "offset", "exposure", "no_intercept", "cluster"))
    _check_beside(options)
    if not options.family:
        return changed(options, alpha=1.0 if options.alpha is None else options.alpha)
    if options.intercept and options.no_intercept:
        raise InvalidInput("--intercept and --no-intercept exclude each other")
    if options.family == Cox.name and options.intercept:
        raise InvalidInput("--intercept: a Cox model has none, since it would cancel")
    return changed(
        options,
        alpha=0.0 if options.alpha is None else options.alpha,
        intercept=not options.no_intercept and options.family != Cox.name,
    )


def _check_beside(options: Namespace) -> None:
    """Raise InvalidInput for --time, --event, --strata and --cluster where they do not go with the other options."""
    for name in ("time", "event", "strata"):
        if getattr(options, name) and options.family != Cox.name:
            raise InvalidInput(f"--{name} goes with --family cox")
    if options.cluster and options.alpha:
        raise InvalidInput("--cluster is for standard errors, which a fit with a penalty has not; leave --alpha out")
    if options.cluster and options.runtime == "mpi":
        raise InvalidInput("--cluster needs all rows in one process; leave --runtime mpi out")


def _wanted_splits(choice: str, loss: Loss, refused: Mapping[Split, UnsuitablePair | None]) -> tuple[Split, ...]:
    """Return the splits that `--split choice` leaves: those that are not refused for "auto", else the one it names.

    `refused` says for each split why it is not possible, None if it is. Raise UnsuitablePair if no split is left.
    """
    splits = tuple(split for split, reason in refused.items() if reason is None)
    if not splits:
        raise UnsuitablePair(
            f"the {loss.name} loss is not smooth, so it is split by samples, which needs an L2 part in the penalty "
            "and alpha > 0; or take a smooth loss: squared, logistic, huber, squared_hinge"
        )
    if choice == "auto":
        return splits
    named: Split = "samples" if choice == "samples" else "features"
    if (reason := refused[named]) is not None:
        raise UnsuitablePair(f"--split {named}: {_as_options(str(reason))}")
    return (named,)


def _allows_totals(options: Namespace, loss: Loss, penalty: str) -> bool:
    """Return whether nodes that hold samples may take a method on totals.

    There must be one for the loss and the penalty, called `penalty`, and the options must not ask for anything that
    only other methods have: passes of a local solver, several gossip steps, or another acceleration.
    """
    free = options.local_passes is None and options.gossip_steps == 1
    spec = ProblemSpec.of(loss, penalty, options.alpha, options.l1_ratio, "samples", options.intercept)
    suits = method_on_totals(spec.loss, spec.penalty_of(None), 1, 1) is not None
    return suits and free and options.acceleration in ("auto", "newton")


def _needs_features(options: Namespace) -> str:
    """Return the option that makes an intercept need a split by features, if one was given; "" if not.

    Such options are "--stop certificate" and "--faults".
    """
    if not options.intercept:
        return ""
    return "--stop certificate" if options.stop == "certificate" else "--faults" if options.faults else ""


def _intercept_by_samples(option: str, splits: tuple[Split, ...]) -> UnsuitablePair:
    """Return (not raise) the error that `option` and --intercept do not go together when split by samples.

    `splits` are the splits that the loss allows.
    """
    remedy = "--split features, " if "features" in splits else ""
    return UnsuitablePair(
        f"--intercept does not go with {option} split by samples; use {remedy}"
        f"{'--stop gap' if option == '--stop certificate' else 'no --faults'}, or a column of ones instead of "
        "--intercept, which is penalised as the others are"
    )


def _as_options(text: str) -> str:
    """Return a message of the Python interface with its arguments written as options of the command line."""
    for ours, theirs in (
        ("split='features'", "--split features"),
        ("split='samples'", "--split samples"),
        ("penalty='elasticnet' with l1_ratio < 1 (and alpha > 0)", "--penalty elasticnet (and --alpha above 0)"),
    ):
        text = text.replace(ours, theirs)
    return text


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


ESTIMATED = "estimated"  # in place of a number: theta of the negative binomial is fitted


def parse_family(text: str, link: str | None = None) -> Family:
    """Return the family for a text NAME or NAME=PARAMETER, as in negative_binomial=2; raise InvalidInput for others."""
    name, equals, parameter = text.partition("=")
    family = family_of(name, link)
    names = [field.name for field in fields(family) if field.name != "link"]
    if not equals:
        return family
    if not names:
        raise InvalidInput(f"--family {text}: the {name} family has no parameter; write --family {name}")
    if parameter == ESTIMATED and family.name == NegativeBinomial.name:
        return NegativeBinomial(None)
    try:
        value = float(parameter)
    except ValueError:
        or_estimated = f" or {ESTIMATED!r}" if family.name == NegativeBinomial.name else ""
        raise InvalidInput(f"--family {text}: {names[0]} must be a number{or_estimated}, got {parameter!r}") from None
    given: dict[str, Any] = {names[0]: value}
    return replace(family, **given)


def loss_text(loss: Loss) -> str:
    """Return the name and the parameters of a loss for people, as in: huber (delta 1.35)."""
    given = {field.name: getattr(loss, field.name) for field in fields(loss)}
    values = {name: ESTIMATED if value is None else value for name, value in given.items()}
    told = (f"{name} {value}" if isinstance(value, str) else f"{name} {value:g}" for name, value in values.items())
    parameters = ", ".join(told)
    return f"{loss.name} ({parameters})" if parameters else loss.name
