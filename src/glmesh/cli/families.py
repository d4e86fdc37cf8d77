"""Options about a family of distributions, in the same words for `train` and `federation init`."""

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

from glmesh.cli.options import number
from glmesh.errors import InvalidInput
from glmesh.functions import FAMILIES
from glmesh.methods.totals.likelihood.method import TOL_SE


def add_family_options(add: Callable[..., Any], *, others: Sequence[str] = ()) -> None:
    """Add --family, --link, --offset, --exposure and --tol-se by an `add_argument`; `others` are families beside."""
    add("--family", metavar="NAME", help="instead of --model: a family of distributions, fitted by maximum likelihood "
        f"with an intercept and no penalty: {', '.join([*FAMILIES, *others])}; with a parameter as in "
        "negative_binomial=2 (theta; or negative_binomial=estimated) or tweedie=1.5 (power); binomial's target is 0 "
        "or 1, or a share, and "
        "--sample-weight the trials")  # fmt: skip
    add("--link", metavar="NAME", help="link of --family, as in probit (default: the usual one)")
    add("--offset", metavar="COLUMN", help="column of a table that is added to the linear predictor of --family")
    add("--exposure", metavar="COLUMN", help="column of a table, > 0, whose logarithm is added to it")
    add("--tol-se", type=number(positive=True), default=TOL_SE, metavar="SE", help="standard errors that each "
        f"coefficient of --family without a penalty may be off, proven (default {TOL_SE:g})")  # fmt: skip


def add_survival_options(add: Callable[..., Any]) -> None:
    """Add --time and --event of a Cox model by an `add_argument`."""
    add("--time", metavar="COLUMN", help="with --family cox, column with the time of the event or of censoring")
    add("--event", metavar="COLUMN", help="with --family cox, column that is 1 where the event happened, else 0")


def add_cluster_option(add: Callable[..., Any], whose: str = "") -> None:
    """Add --cluster by an `add_argument`; `whose` says more of the rows that may depend on each other."""
    add("--cluster", metavar="COLUMN", help="with --family and no penalty, column that says which rows may depend on "
        f"each other{whose}, for `glmesh show --errors cluster`")  # fmt: skip


def check_family_options(options: Namespace, names: Sequence[str]) -> None:
    """Raise InvalidInput if one of the options `names` was given without --family, or --offset beside --exposure."""
    if not options.family:
        for name in names:
            if getattr(options, name):
                raise InvalidInput(f"--{name.replace('_', '-')} goes with --family")
    if options.offset and options.exposure:
        raise InvalidInput("--offset and --exposure exclude each other; --exposure C is --offset with the log of C")
