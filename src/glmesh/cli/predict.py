"""`glmesh predict MODEL DATA`: apply a model that `train` saved."""

import sys
from argparse import Namespace

import numpy as np

from glmesh.cli.options import REACHED, Parser
from glmesh.cli.output import check_writable, count, write_lines
from glmesh.errors import InvalidData, InvalidInput
from glmesh.files import model_files
from glmesh.files.data_files import is_table, load
from glmesh.files.model_files import Model
from glmesh.types import SampleMatrix, Vector

HELP = "apply a saved model to a data file"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh predict` to its parser."""
    parser.describe(
        "Apply a model that `glmesh train` saved: one prediction per line, a class or a number, in the order of the "
        "samples. Where the file has a y as well, how well they agree is reported on stderr. A .csv may leave y out.",
        "glmesh predict glmesh-model.npz new.svm",
        "glmesh predict glmesh-model.npz new.csv --target price --out predictions.csv",
        "glmesh predict clicks.npz new.svm.gz --probability | sort -g | tail",
        "glmesh predict alice.state/model.npz new.csv --node alice.toml",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="a file that `glmesh train` wrote")
    add("data", metavar="DATA", help="samples, in any format that `glmesh train` reads")
    add("--target", metavar="COLUMN", help="column of a .csv that holds y, by name or position (default: the last)")
    add("--out", metavar="FILE", help="write there instead of printing")
    add("--node", metavar="NODE.toml", help="with the other sites of a federation that is split by features")
    add("--probability", action="store_true", help="print P(the larger label) instead (logistic loss only)")


def run(options: Namespace) -> int:
    """Predict the samples of a data file with a saved model, write or print, report; return the exit code."""
    check_writable({"--out": options.out}, options.model, options.data)

    model = model_files.load(options.model)
    if options.probability and model.loss != "logistic":
        raise InvalidInput(f"--probability: the {model.loss} loss has none; train with --model logistic")
    X, y = _read(options, model)
    if options.node:
        from glmesh.federation.predict import predict_together

        model, X = predict_together(options.node, model, X)
    predictions = model.predict(X)
    shown = model.predict_probability(X) if options.probability else predictions
    if model.classes is not None and not options.probability:
        lines = [f"{value:.17g}" for value in shown]  # labels are mostly whole: 1 rather than 1.0
    else:
        lines = [repr(value) for value in shown.tolist()]
    if options.out:
        write_lines(options.out, lines)
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines)
    _report(options, model, predictions, y)
    return REACHED


def _read(options: Namespace, model: Model) -> tuple[SampleMatrix, Vector | None]:
    """Return (X of shape (m, p), y of shape (m,) or None) of the data file.

    y is None for a table with only as many columns as the model has features.
    """
    p = len(model.coef)
    if not is_table(options.data) or options.target is not None:
        return load(options.data, target=options.target, n_features=p)
    X, last = load(options.data)
    if X.shape[1] == p - 1:
        return np.column_stack([X, last]), None
    if X.shape[1] != p:
        raise InvalidData(f"{options.data}: has {X.shape[1]} features and y, the model was trained on {p} features")
    return X, last


def _report(options: Namespace, model: Model, predictions: Vector, y: Vector | None) -> None:
    """Print to stderr how many predictions were made and, if y is known, how well they agree with it."""
    text = f"{count(len(predictions), 'prediction')}{f' in {options.out}' if options.out else ''}"
    if y is not None:
        fit = score(model, predictions, y)
        text += f"; {fit[0]} {fit[1]}" if fit else "; y holds other labels than the model's, so there is no accuracy"
    print(text, file=sys.stderr)


def score(model: Model, predictions: Vector, y: Vector) -> tuple[str, str] | None:
    """Return (name, text) on how well predictions agree with y; None if y has other labels than the model.

    That is the accuracy of a classifier, or R2 and the root mean squared error of a regression.
    """
    if model.classes is not None:
        if not np.isin(y, model.classes).all():
            return None
        right = int(np.sum(predictions == y))
        return "accuracy", f"{100 * right / len(y):.2f} % ({right:,} of {len(y):,})"
    errors, spread = float(np.sum((predictions - y) ** 2)), float(np.sum((y - y.mean()) ** 2))
    root = f"root mean squared error {np.sqrt(errors / len(y)):.4g}"
    return "R2", f"{1 - errors / spread:.4f} ({root})" if spread > 0 else f"undefined, y is constant ({root})"
