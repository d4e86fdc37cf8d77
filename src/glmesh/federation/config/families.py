"""Keys of the table [problem] that name a family of distributions: what they mean, and which go together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from glmesh.contract import Contract
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions import Cox, Loss, NegativeBinomial, Softmax, family_of

if TYPE_CHECKING:
    from glmesh.federation.config.problem import ProblemPart

MULTINOMIAL, COX = Softmax.name, Cox.name
PARAMETERS = {"negative_binomial": "theta", "tweedie": "power"}  # key of the number that a family takes, by its name


def likelihood_of(part: ProblemPart, n_classes: int) -> Loss:
    """Return the loss of the family in [problem], with its link and parameter; "multinomial" has `n_classes` classes.

    Raise InvalidInput or UnsuitablePair, which name what would do, for keys that do not go together.
    """
    _check_keys(part)
    if part.family == COX:
        return Cox()
    if part.family == MULTINOMIAL:
        return Softmax(max(n_classes, 2))
    family = family_of(part.family, part.link or None)
    key = PARAMETERS.get(part.family)
    changed: dict[str, Any] = {} if key is None else {key: getattr(part, key)}
    return replace(family, **changed | ({"theta": None} if part.estimate_theta else {}))


def check_without_family(part: ProblemPart) -> None:
    """Raise InvalidInput if [problem] has a key that goes with a family, but no family."""
    for key in ("link", "offset", "exposure", "time", "event", "cluster", "estimate_theta"):
        if getattr(part, key):
            raise InvalidInput(f"{key} = {getattr(part, key)!r} goes with a family; write family = ... into [problem]")


def named_columns(part: ProblemPart) -> dict[str, str]:
    """Return {key of [problem]: name of a column} of the columns beside target and features that [problem] names."""
    found = {key: getattr(part, key) for key in ("offset", "exposure", "event")}
    return {key: name for key, name in found.items() if name}


def check_contract(part: ProblemPart, contract: Contract) -> None:
    """Raise InvalidInput if the contract of a federation file lacks a column that [problem] names."""
    for key, name in named_columns(part).items():
        if name not in contract.names:
            raise InvalidInput(f"[data] lacks the column {name!r}, which [problem] has as {key}; add it to the columns")
    if part.cluster in contract.names and not part.formula:
        raise InvalidInput(
            f"[data] has the column {part.cluster!r} among the features, and [problem] has it as cluster, whose labels "
            "stay at their sites; take it out of the columns"
        )
    if part.cluster and part.cluster in (contract.target, contract.ids, contract.weight):
        raise InvalidInput(
            f"[data] has {part.cluster!r} as target, ids or weight, and [problem] as cluster; name another"
        )
    if part.time and contract.target != part.time:
        raise InvalidInput(f"[data] has the target {contract.target!r}, and [problem] has time = {part.time!r}")


def _check_keys(part: ProblemPart) -> None:
    """Raise InvalidInput or UnsuitablePair if keys of [problem] beside the family do not go with it."""
    if part.loss:
        raise InvalidInput(
            f"loss = {part.loss!r} and family = {part.family!r} exclude each other; leave one of them out of [problem]"
        )
    if part.estimate_theta and (part.family != NegativeBinomial.name or part.alpha or part.theta != 1.0):
        raise InvalidInput(
            "estimate_theta = true is for family = 'negative_binomial' without a penalty, and leaves theta out"
        )
    if part.offset and part.exposure:
        raise InvalidInput("offset and exposure exclude each other; exposure = C is an offset of the logarithm of C")
    _check_columns(part)
    if part.method == "gossip" or part.split != "samples":
        raise UnsuitablePair(
            f"the {part.family} family is fitted by totals, where sites hold rows; leave method and split out"
        )
    if part.cv:
        raise UnsuitablePair("cv chooses the alpha of a loss; with a family write cv = 0 and an alpha")
    if not part.tol_se > 0:
        raise InvalidInput(f"tol_se must be > 0, got {part.tol_se}")


def _check_columns(part: ProblemPart) -> None:
    """Raise InvalidInput or UnsuitablePair if times, events, a link or an offset do not go with the family."""
    if part.family == COX and not (part.time and part.event):
        raise InvalidInput("family = 'cox' needs two columns: time = ... and event = ..., which is 1 where it happened")
    if part.family != COX and (part.time or part.event):
        raise InvalidInput(f"time and event go with family = 'cox', not with {part.family!r}")
    if part.time and part.time == part.event:
        raise InvalidInput(f"time and event are two columns, and both are {part.time!r}")
    if part.family in (COX, MULTINOMIAL) and part.link not in ("", "softmax" if part.family == MULTINOMIAL else ""):
        raise InvalidInput(f"family = {part.family!r} has no link to choose; leave link out")
    if part.family == MULTINOMIAL and (part.offset or part.exposure):
        raise UnsuitablePair("an offset that is the same for all classes changes no probability; leave it out")
    _check_cluster(part)


def _check_cluster(part: ProblemPart) -> None:
    """Raise InvalidInput or UnsuitablePair if a column of clusters does not go with the other keys."""
    if part.cluster and part.alpha:
        raise UnsuitablePair(
            f"cluster = {part.cluster!r} is for standard errors, which a fit with a penalty has not; leave cluster "
            "or alpha out"
        )
    for key, name in (*named_columns(part).items(), ("time", part.time)):
        if name and name == part.cluster:
            raise InvalidInput(f"cluster and {key} are two columns, and both are {name!r}")
