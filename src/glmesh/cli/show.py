"""`glmesh show MODEL`: what is in a model file."""

from argparse import Namespace

import numpy as np

from glmesh.cli.options import REACHED, Parser, number
from glmesh.cli.output import rows
from glmesh.errors import InvalidInput
from glmesh.files import model_files
from glmesh.files.model_files import Model
from glmesh.formatting import rows_text
from glmesh.inference import Inference

HELP = "show the coefficients of a saved model, with their standard errors"
_WHY = "have no standard errors or p values: the model has a penalty, which shrinks them"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh show` to its parser."""
    parser.describe(
        "Show a model that `glmesh train`, `glmesh node` or an estimator saved. A fit of a family without a penalty is "
        "shown as the table that users of R and statsmodels know: coefficients, standard errors, tests, intervals, and "
        "how near the exact estimate they are proven to be. Any other model is shown as a list of its coefficients.",
        "glmesh show glmesh-model.npz",
        "glmesh show glmesh-model.npz --exp --level 0.9",
        "glmesh show alice.state/model.npz --errors HC3",
        "glmesh show alice.state/model.npz --sites",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="a file that `glmesh train` wrote")
    add("--level", type=number(0.0, 1.0), default=0.95, help="level of the intervals (default 0.95)")
    add("--exp", action="store_true", help="show exp(coefficient): ratios of odds, rates or hazards")
    kinds = ("model", "HC0", "HC1", "HC2", "HC3", "cluster")
    add("--errors", choices=kinds, default="model", help="where standard errors come from: the model (default), or "
        "sandwiches that allow for unequal variances (HC0 to HC3) or for clusters of rows that depend on each other "
        "(cluster)")  # fmt: skip
    add("--sites", action="store_true", help="show below the table a test of whether all sites, or nodes, have the "
        "same coefficients")  # fmt: skip


def run(options: Namespace) -> int:
    """Print a model file as a table; return the exit code."""
    model = model_files.load(options.model)
    if model.statistics is not None:
        inference = Inference(model.statistics, rows=model.rows)
        print(inference.summary(options.level, vcov=options.errors, exponentiate=options.exp))
        if options.sites:
            print(inference.heterogeneity_test())
        return REACHED
    if options.exp or options.sites or options.errors != "model":
        raise InvalidInput(f"{options.model}: its coefficients {_WHY}")
    print(rows(_lines(model)))
    return REACHED


def _lines(model: Model) -> list[tuple[str, str]]:
    """Return pairs (name, text): what was fitted, and each coefficient; of several classes one line for each class."""
    what = f"{model.loss}, {model.penalty} penalty, alpha {model.alpha:g}"
    lines = [("model", what), ("coefficients", _WHY if model.alpha else f"{np.size(model.coef):,}")]
    if model.design is not None:
        lines.insert(1, ("formula", model.design.formula))
    if model.rows is not None:
        lines.insert(1, ("rows", rows_text(*model.rows)))
    names = model.names or tuple(f"x{k}" for k in range(model.coef.shape[-1]))
    coefs, intercepts = np.atleast_2d(model.coef), np.atleast_1d(model.intercept)
    labels = model.classes if model.classes is not None and len(coefs) > 1 else [""] * len(coefs)
    for label, coef, intercept in zip(labels, coefs, intercepts, strict=True):
        if label != "":
            lines.append((f"class {label}", ""))
        lines.append(("Intercept", f"{intercept: .6g}"))
        lines += [(name, f"{value: .6g}") for name, value in zip(names, coef, strict=True)]
    return lines
