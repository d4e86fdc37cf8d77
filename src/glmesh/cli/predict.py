"""`glmesh predict MODEL DATA`: apply a model that `train` saved."""

import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.sparse import issparse

from glmesh.cli.options import REACHED, Parser
from glmesh.cli.output import check_writable, count, write_lines
from glmesh.contract import MISSING, DataTable, fit_features
from glmesh.contract.fitting import listed, spoken
from glmesh.errors import InvalidData, InvalidInput, Mismatch
from glmesh.files import model_files
from glmesh.files.data_files import is_table, read_table
from glmesh.files.model_files import Model
from glmesh.files.streams import kind_of
from glmesh.files.svmlight import IndexBase
from glmesh.formulas import Design, Frame
from glmesh.formulas.tables import designed
from glmesh.functions import Cox, Family, Softmax
from glmesh.types import Flags, Labels, Matrix, SampleMatrix, Vector

PROBABLE = ("logistic", Softmax.name)  # losses whose models know the probabilities of classes
HELP = "apply a saved model to a data file"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh predict` to its parser."""
    parser.describe(
        "Apply a model that `glmesh train` saved: one prediction per line, a class or a number, in the order of the "
        "samples. Columns are found by name: their order does not matter, and columns that the model does not have are "
        "left out and listed. Where the file has the target as well, how well they agree is reported on stderr. A "
        "model without names takes columns by position, and says so.",
        "glmesh predict glmesh-model.npz new.svm",
        "glmesh predict glmesh-model.npz new.csv --out predictions.csv",
        "glmesh predict glmesh-model.npz new.csv --missing empty",
        "glmesh predict clicks.npz new.svm.gz --probability | sort -g | tail",
        "glmesh predict alice.state/model.npz new.csv --node alice.toml",
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="a file that `glmesh train` wrote")
    add("data", metavar="DATA", help="samples, in any format that `glmesh train` reads")
    add("--target", metavar="COLUMN", help="column of a table that holds y, by name or position (default: the model's)")
    parser.add_text_options()
    rows = "rows with a missing value: refuse the file (default), or leave their answers empty"
    add("--missing", choices=("refuse", "empty"), default="refuse", help=rows)
    add("--out", metavar="FILE", help="write there instead of printing")
    add("--node", metavar="NODE.toml", help="with the other sites of a federation that is split by features")
    several = "of more than two, of every label, ascending"
    losses = "logistic or multinomial loss only"
    add("--probability", action="store_true", help=f"print P(the larger label); {several} ({losses})")


def run(options: Namespace) -> int:
    """Predict the samples of a data file with a saved model, write or print, report; return the exit code."""
    check_writable({"--out": options.out}, options.model, options.data)

    model = model_files.load(options.model)
    _check(options, model)
    table, remarks = _read(options, model)
    X, whole = table.X, _whole_rows(table.X)
    if not whole.all() and options.missing == "refuse":
        raise _missing(table, int(np.argmin(whole)))
    for remark in remarks:
        print(remark, file=sys.stderr)
    X = X if whole.all() else X[whole]
    if options.node:
        from glmesh.federation.predict import predict_together

        model, X = predict_together(options.node, model, X)
    predictions = model.predict(X)
    shown = model.predict_probability(X) if options.probability else predictions
    lines = np.full(len(whole), "", dtype=object)
    lines[whole] = [_line(value) for value in shown.tolist()]
    if options.out:
        write_lines(options.out, lines)
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines)
    _report(options, model, (predictions, model.decision(X)), table, whole)
    return REACHED


def _check(options: Namespace, model: Model) -> None:
    """Raise InvalidInput for options of `predict` that do not go with the model, or with each other."""
    if options.probability and model.loss not in PROBABLE:
        raise InvalidInput(f"--probability: the {model.loss} loss has none; train with --model logistic")
    if model.is_share and not options.node:
        whose = model.info.get("node", "one site")
        raise InvalidInput(
            f"{options.model}: holds the coefficients of {whose}'s columns only, since the federation is split by "
            "features; all sites predict together: --node NODE.toml"
        )
    if options.node and options.missing == "empty":
        raise InvalidInput("--missing empty: does not go with --node, since other sites' rows must be the same ones")


def _read(options: Namespace, model: Model) -> tuple[DataTable, list[str]]:
    """Return (table, remarks): the samples of DATA, with the model's features as columns, in the model's order.

    The table has y if the file has it. Remarks are sentences for people on what was done to the columns.
    """
    contract = model.contract
    if contract is None or model.names is None:
        return _by_position(options, model)
    table = _table(options, model, options.target or contract.target or None, has_target=options.target is not None)
    if model.design is not None:
        return _by_design(options, model, model.design, table)
    fitted = fit_features(table, replace(contract, split="samples"))  # a site's share has names of its own columns
    return fitted.table, fitted.remarks()


def _by_design(options: Namespace, model: Model, design: Design, table: DataTable) -> tuple[DataTable, list[str]]:
    """Return (table, remarks): the design's columns of DATA, in whose rows with a missing value all are missing."""
    frame = Frame.of_table(table)
    frame.require((*design.wanted, *model.beside))
    whole = frame.complete((*design.wanted, *model.beside))
    if not whole.all() and options.missing == "refuse":
        row = int(np.argmin(whole))
        name = next(one for one in (*design.wanted, *model.beside) if not frame.complete((one,))[row])
        raise _gap(table, row, f"column {name!r}", "a missing value")
    made = designed(table.rows(whole), design, frame.take(whole), model.beside)
    assert isinstance(made.X, np.ndarray)
    X = np.full((table.m, made.X.shape[1]), np.nan)
    X[whole] = made.X
    used = {*design.wanted, *model.beside}
    extra = [name for name in table.columns if name not in used]
    remarks = [f"{table.where}: columns that are not used: {listed(extra)}"] if extra else []
    return replace(table, X=X, names=made.names, text_columns=(), cells={}), remarks


def _table(options: Namespace, model: Model, target: str | None, *, has_target: bool) -> DataTable:
    """Return the data file as a table with its columns in the file's order.

    `target` names the column of y, None: the default one. Unless `has_target`, the table's y may be None.
    """
    return read_table(
        options.data,
        target=target,
        header=options.header,
        encoding=options.encoding,
        index_base=_index_base(options, model),
        n_features=None if is_table(options.data) else model.coef.shape[-1],
        missing=MISSING if model.contract is None else model.contract.missing,
        has_target=has_target,
        texts=() if model.design is None else model.design.wanted,
    )


def _index_base(options: Namespace, model: Model) -> IndexBase:
    """Return the index base of svmlight text: that of --index-base, else the model's, else "auto"."""
    if options.index_base != "auto" or model.contract is None or model.contract.index_base is None:
        chosen: IndexBase = options.index_base
        return chosen
    return 0 if model.contract.index_base == 0 else 1


def _by_position(options: Namespace, model: Model) -> tuple[DataTable, list[str]]:
    """Return (table, remarks) for a model without names, which takes the first p columns as its features.

    One more column behind these is taken for y, unless --target names another. Remarks are sentences for people on
    that.
    """
    p = model.coef.shape[-1]
    known = options.target or (model.contract.target if model.contract is not None else "") or None
    table = _table(options, model, known, has_target=options.target is not None)
    presumed = table.y is None and table.X.shape[1] == p + 1
    if presumed:
        table = _table(options, model, None, has_target=True)
    _refuse_other_columns(options, model, table)
    if presumed and model.classes is not None and not _are_labels(table, model):
        raise Mismatch(
            f"{options.data}: the last column, which would be y, holds other values than the model's labels "
            f"({spoken(model.classes)}); give {p} columns, or say which one is y: --target COLUMN"
        )
    last = "" if not presumed else f"; the last one{f', {table.target!r},' if table.target else ''} is taken for y"
    said = f"{options.model}: {model.lacks}; columns go by position{last}"
    return table, [said] if is_table(options.data) else []


def _refuse_other_columns(options: Namespace, model: Model, table: DataTable) -> None:
    """Raise InvalidData or Mismatch unless a table has as many columns as the model has features, all of numbers."""
    p = model.coef.shape[-1]
    if table.X.shape[1] != p:
        y = f" and the target {table.target!r}" if table.y is not None and table.target else ""
        raise InvalidData(
            f"{options.data}: has {table.X.shape[1]} columns{y}, and {options.model} takes {p} features by position "
            f"(it {model.lacks}); give it those {p} columns, and at most y behind them"
        )
    if table.texts:
        raise Mismatch(f"{options.data}: {listed(list(table.texts))} hold text; the model takes {p} columns of numbers")


def _whole_rows(X: SampleMatrix) -> Flags:
    """Return flags of shape (m,): True where the row has no NaN and no infinity."""
    if not issparse(X):
        return np.asarray(np.isfinite(X).all(axis=1))
    entries = X.tocoo()
    whole = np.ones(X.shape[0], dtype=np.bool_)
    whole[entries.row[~np.isfinite(entries.data)]] = False
    return whole


def _missing(table: DataTable, row: int) -> InvalidData:
    """Return the InvalidData that says which value of a row is missing or infinite, with a remedy."""
    values = table.X[[row]].toarray()[0] if issparse(table.X) else table.X[row]
    k = int(np.argmin(np.isfinite(values)))
    what = "infinity" if np.isinf(values[k]) else "a missing value"
    column = f"column {table.names[k]!r}" if table.names is not None else f"column {k}"
    return _gap(table, row, column, what)


def _gap(table: DataTable, row: int, column: str, what: str) -> InvalidData:
    """Return (not raise) the InvalidData that a row of a table holds `what`, such as infinity, in a column."""
    binary = kind_of(Path(table.where)) in (".npz", ".parquet", ".feather")
    place = f"row {row}" if binary else f"line {table.line(row)}"
    return InvalidData(
        f"{table.where}, {place}, {column}: holds {what}; fill it in, or leave the answers of such rows "
        "empty: --missing empty"
    )


def _line(value: str | float | list[float]) -> str:
    """Return a prediction as a line: a label as it is, a whole number without ".0", probabilities with commas."""
    if isinstance(value, list):
        return ",".join(map(repr, value))
    return value if isinstance(value, str) else repr(value).removesuffix(".0")


def _report(options: Namespace, model: Model, made: tuple[Labels, Matrix], table: DataTable, whole: Flags) -> None:
    """Print to stderr how many predictions were made and, if y is known, how well they agree with it.

    `made` are (predictions, decisions); `whole` has shape (m,), True for rows without missing values, of which they
    are.
    """
    predictions, decisions = made
    text = f"{count(len(predictions), 'prediction')}{f' in {options.out}' if options.out else ''}"
    empty = int((~whole).sum())
    if empty:
        text += f"; {count(empty, 'row')} with a missing value {'has' if empty == 1 else 'have'} an empty answer"
    if model.without:
        everybody = len(model.sites) + len(model.without)
        text += f"; the model is without {', '.join(model.without)} ({len(model.sites)} of {everybody} sites)"
    if table.y is not None and model.loss != Cox.name:  # hazards are not on the scale of times
        known = ~table.missing_labels[whole]
        y = table.y[whole][known]
        fit = score(model, predictions[known], y, decisions[known]) if len(y) else None
        if fit:
            text += f"; {fit[0]} {fit[1]}"
        elif len(y):
            text += f"; y holds other labels ({spoken(table.labels)}) than the model's, so there is no accuracy"
    print(text, file=sys.stderr)


def _comparable(y: Labels, model: Model) -> Labels:
    """Return the labels y, shape (m,), in the type of the model's classes: as texts where classes are texts."""
    if not isinstance((model.classes or (0.0,))[0], str):
        return y
    return np.array([label if isinstance(label, str) else f"{label:.17g}" for label in y.tolist()], dtype=np.str_)


def _are_labels(table: DataTable, model: Model) -> bool:
    """Return whether all values of y that are not missing are classes of the model; False without y."""
    return table.y is not None and set(_comparable(np.array(table.labels), model).tolist()) <= set(model.classes or ())


def score(model: Model, predictions: Labels, y: Labels, decisions: Matrix) -> tuple[str, str] | None:
    """Return (name, text) on how well predictions agree with y; None if y has labels that the model does not know.

    A classifier has ("accuracy", per cent and counts), a regression ("R2", value and root mean squared error), a family
    ("deviance explained", value and more). `decisions` are those of the model, of which the predictions were made.
    """
    if model.classes is not None:
        labels = _comparable(y, model)
        if not set(np.unique(labels).tolist()) <= set(model.classes):
            return None
        return "accuracy", _share(int(np.sum(predictions == labels)), len(y))
    if y.dtype.kind != "f":
        return None
    made, wanted = np.asarray(predictions, dtype=np.float64), np.asarray(y, dtype=np.float64)
    errors, spread = float(np.sum((made - wanted) ** 2)), float(np.sum((wanted - wanted.mean()) ** 2))
    root = f"root mean squared error {np.sqrt(errors / len(y)):.4g}"
    if model.family is not None and model.family.name != "gaussian":
        return "deviance explained", _explained(model.family, made, wanted, decisions, root)
    return "R2", f"{1 - errors / spread:.4f} ({root})" if spread > 0 else f"undefined, y is constant ({root})"


def _share(right: int, n: int) -> str:
    """Return how many of n predictions are right, in per cent and as a count."""
    return f"{100 * right / n:.2f} % ({right:,} of {n:,})"


def _explained(family: Family, means: Vector, y: Vector, z: Vector, root: str) -> str:
    """Return the share of the deviance from the mean of y that linear predictors z explain, with what else is telling.

    All rows count alike. Of targets 0 and 1 that is the log loss and the accuracy of means above one half, of others
    `root`, the root mean squared error of the means.
    """
    if family.has_unknown_shape:
        return f"undefined, the fit has not found the shape of the {family.name} family ({root})"
    try:
        family.check(y)
    except InvalidData:
        return f"undefined, y holds values that the {family.name} family has not ({root})"
    ones, more = np.ones(len(y)), root
    with np.errstate(all="ignore"):  # of a constant y, whose predictor may be infinite
        loss, null = family.total(y, z, ones), family.total(y, family.predictor(np.full(len(y), y.mean())), ones)
    if family.name == "binomial" and np.isin(y, (0.0, 1.0)).all():
        right = int(np.sum((means > 0.5) == (y == 1.0)))
        more = f"log loss {loss / len(y):.4g}, accuracy {_share(right, len(y))}"
    if not (np.isfinite(loss) and np.isfinite(null) and null > 0):
        return f"undefined, y is constant or a mean is none of the family's ({more})"
    return f"{1 - loss / null:.4f} ({more})"
