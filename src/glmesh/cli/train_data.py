"""The data of `train`: a file with the names that it has, or what each rank of a cluster reads of it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from glmesh.cli.train_beside import Beside
from glmesh.contract import Contract, DataTable, agree, fit
from glmesh.contract.events import with_events
from glmesh.contract.fitting import listed, spoken
from glmesh.core.moments import with_moments
from glmesh.engine.scatter import load_based
from glmesh.errors import InvalidData, InvalidInput, Mismatch
from glmesh.files.data_files import is_table, read_table
from glmesh.files.describe import describe
from glmesh.formulas import Design, Formula, Frame, Levels, design_of
from glmesh.formulas.tables import designed, response_of, without_gaps
from glmesh.functions import Cox
from glmesh.parallel import ProcessGroup
from glmesh.problem.named import check_finite, check_known
from glmesh.problem.offsets import put_last
from glmesh.types import Indices, Labels, SampleMatrix, Vector
from glmesh.validation import LARGEST


@dataclass(frozen=True, eq=False)
class RowsRead:
    """Samples that this process has read, with columns in the order of the contract that all processes keep.

    A contract says which target, columns and labels the tables of all sites or ranks have.
    """

    X: SampleMatrix  # (m, p)
    y: Vector  # (m,) targets; positions among the labels where these are texts
    said: Labels  # (m,) targets as the file has them
    weight: Vector | None = None  # (m,) sample weights; None: all are 1
    contract: Contract | None = None  # names, target and labels, or the index base of svmlight text; None: of neither
    remarks: tuple[str, ...] = ()  # for people: what was done to the file's columns, and what `describe` finds in them
    offset: bool = False  # whether the last column, or its logarithm, is added to linear predictors
    design: Design | None = None  # what made the columns of those of a table; None: they are the table's
    rows: tuple[int, int] | None = None  # rows of the table, and how many were left out for gaps; None: none may be
    strata: Indices | None = None  # (m,) numbers from 0 of the strata, of a Cox model; None: there is one
    clusters: Indices | None = None  # (m,) numbers from 0 of the clusters; None: none are named

    def with_offset(self, name: str, *, logarithm: bool, where: str) -> RowsRead:
        """Return the rows with the column `name` put last: it, or its logarithm, is to be an offset.

        Raise InvalidInput if the file `where` has no such column, InvalidData if a logarithm is asked of a value <= 0.
        """
        option = "--exposure" if logarithm else "--offset"
        names = self.contract.names if self.contract is not None and self.contract.header else ()
        if name not in names:
            raise InvalidInput(f"{option} {name}: {where} has no such column; it has {', '.join(names) or 'no names'}")
        assert self.contract is not None
        at = names.index(name)
        X, order = put_last(self.X, at)
        if logarithm and not (X[:, -1] > 0).all():
            row = int(np.argmax(~(X[:, -1] > 0)))
            raise InvalidData(f"{where}: {option} {name} is {X[row, -1]:g} in data row {row + 1}; expected > 0")
        columns = tuple(self.contract.columns[k] for k in order)
        return replace(self, X=X, contract=replace(self.contract, columns=columns), offset=True)


def read(options: Namespace, processes: ProcessGroup, *, classifies: bool) -> RowsRead:
    """Return the samples of DATA, or those of them that this rank reads, with columns in an order that all ranks share.

    Columns of a table go by name. InvalidData or Mismatch, which name line and column, are raised for a value that is
    missing or no number.
    """
    path = options.data.replace("{rank}", str(processes.rank)) if options.runtime == "mpi" else options.data
    if options.runtime == "mpi" and not (is_table(path) and path != options.data):
        return _read_part(options, processes, path)
    formula = None if options.formula is None else Formula.parse(options.formula)
    if formula is not None:
        _refuse_beside_formula(options, formula, path)
    beside = Beside.of(options, formula)
    if beside.names and not is_table(path):
        raise InvalidInput(f"{path}: {listed(beside.options)} need a table, whose columns have names: .csv, .parquet")
    reading = _Reading(options, processes, formula, beside, classifies)
    table = reading.table(path)
    if not is_table(path):
        return _plain(table, classifies=classifies)
    return reading.by_names(table) if formula is None else reading.by_formula(table, formula)


@dataclass(frozen=True)
class _Reading:
    """How this process reads its table: the options of `train`, the formula, and the columns beside the features."""

    options: Namespace
    processes: ProcessGroup  # the ranks, which all read a table of their own and agree on its columns
    formula: Formula | None  # that makes the columns of features; None: the table's own are
    beside: Beside
    classifies: bool  # whether the loss needs a target with two labels

    @property
    def drops(self) -> bool:
        """Return whether rows that lack a value in a used column are left out and counted, instead of refused."""
        if self.options.missing is not None:
            return bool(self.options.missing == "drop")
        return bool(self.formula or self.options.family)

    def table(self, path: str) -> DataTable:
        """Return the file at `path` as a table, with the columns that may hold text as they are."""
        options, formula = self.options, self.formula
        return read_table(
            path,
            target=self.beside.time or (options.target if formula is None else formula.targets[0]),
            ids=options.ids,
            weight=options.sample_weight,
            header=options.header,
            encoding=options.encoding,
            index_base=options.index_base,
            texts=(*self.beside.labels, *(() if formula is None else formula.candidates)),
            gaps=self.drops,
        )

    def by_names(self, table: DataTable) -> RowsRead:
        """Return the samples of a table whose columns are the features."""
        beside = self.beside
        kept = without_gaps(without_gaps(table, beside.names)) if self.drops else table
        strata, clusters = beside.numbers(kept)
        made = _of_table(self.options, self.processes, beside.without(kept), classifies=self.classifies)
        made = replace(made, strata=strata, clusters=clusters)
        return replace(made, rows=_rows_in_all(table.m, kept.m, self.processes)) if self.drops else made

    def by_formula(self, whole: DataTable, formula: Formula) -> RowsRead:
        """Return the samples that a formula makes of a table, with the design of all processes' tables."""
        options, beside = self.options, self.beside
        extra = tuple(one for one in (options.offset, options.exposure) if one)
        used = (*formula.variables, *extra)
        Frame.of_table(whole).require((*used, *beside.names))
        table = without_gaps(whole, (*used, *beside.names)) if self.drops else whole
        strata, clusters = beside.numbers(table)
        if beside.event:
            table = with_events(table, beside.event)
        frame = Frame.of_table(table)
        levels = self.processes.all_gather([Levels.of(frame, formula)])
        design = with_moments(design_of(formula, levels), [frame], self.processes)
        made = self._with_response(designed(table, design, frame, extra), formula, frame)
        text = made.y is not table.y and formula.target
        response = (
            [f"{formula.target}: {spoken(table.labels[1:])} counts as 1, {spoken(table.labels[:1])} as 0"]
            if text
            else []
        )
        found = _of_table(options, self.processes, made, classifies=self.classifies)
        columns = f"columns of the formula: {listed(list(design.names))}"
        return replace(
            found,
            strata=strata,
            clusters=clusters,
            design=design,
            rows=_rows_in_all(whole.m, table.m, self.processes),
            remarks=(columns, *response, *_remarks_on(table, used)),
        )

    def _with_response(self, table: DataTable, formula: Formula, frame: Frame) -> DataTable:
        """Return the table with the response that a formula makes of `frame`, or with 0 and 1 in place of two texts."""
        if not formula.target and not formula.survival:
            return replace(table, y=response_of(formula, frame))
        return _two_texts(table, self.options) if formula.target and not self.classifies else table


def _refuse_beside_formula(options: Namespace, formula: Formula, path: str) -> None:
    """Raise InvalidInput for options, a response and a file that do not go with a formula."""
    if not is_table(path):
        raise InvalidInput(f"{path}: --formula needs a table, whose columns have names: .csv, .tsv, .parquet, .feather")
    if options.target is not None and options.target != formula.target:
        raise InvalidInput(
            f"--target {options.target} and --formula, which has {formula.response!r}: leave --target out"
        )
    if bool(formula.survival) != (options.family == Cox.name):
        raise InvalidInput(
            "--family cox and Surv(time, event) ~ ... go together; the formula has "
            f"{formula.response!r} on its left side"
        )
    if len(formula.targets) > 1 and not formula.survival:
        raise InvalidInput(f"--formula: the response {formula.response!r} must be one column, or a function of one")
    if options.intercept and not formula.has_intercept:
        raise InvalidInput("--intercept and a formula without one exclude each other; leave --intercept out")


def _remarks_on(table: DataTable, used: Collection[str]) -> list[str]:
    """Return the sentences of `glmesh describe` on those columns of a table that are `used`."""
    numbers = [k for k, name in enumerate(table.columns) if name in used and name not in table.texts]
    about = table.take(np.array(numbers, dtype=np.int64), tuple(table.columns[k] for k in numbers))
    about = replace(about, text_columns=tuple(one for one in table.text_columns if one.looks and one.name in used))
    return [f"{'warning: ' if one.warns else ''}{one}" for one in describe(about) if one.kind != "labels"]


def _rows_in_all(read: int, kept: int, processes: ProcessGroup) -> tuple[int, int]:
    """Return (rows, those left out) of all processes' tables; this one has read `read` rows and kept `kept` of them."""
    counts = processes.all_gather([(read, read - kept)])
    return sum(one for one, _ in counts), sum(lacking for _, lacking in counts)


def _two_texts(table: DataTable, options: Namespace) -> DataTable:
    """Return the table with 0 and 1 in place of a response with two texts, for the binomial family."""
    if table.y is None or table.y.dtype.kind == "f" or not str(options.family).startswith("binomial"):
        return table
    labels = table.labels
    if len(labels) != 2:
        raise InvalidData(
            f"{table.where}: the target {table.target!r} has {len(labels)} labels; --family binomial takes two"
        )
    return replace(table, y=(table.y == labels[1]).astype(np.float64))


def _of_table(options: Namespace, processes: ProcessGroup, table: DataTable, *, classifies: bool) -> RowsRead:
    """Return the samples of a table whose features are numbers, with columns in the order that all ranks share."""
    keys = {"ids": options.ids or "", "weight": options.sample_weight or ""}
    _check(table)
    offer = Contract.like(table, classifies=classifies, **keys)
    contract = _agreed_contract(offer, processes, classifies=classifies)
    fitted = fit(table, contract)
    if classifies:
        _check_labels(table, contract.labels, "line", first=table.line(0))
    assert table.y is not None  # as a target was asked for
    found = [f"{'warning: ' if one.warns else ''}{one}" for one in describe(table) if one.kind != "labels"]
    return RowsRead(fitted.table.X, fitted.y, table.y, table.weight, contract, tuple(fitted.remarks() + found))


def _read_part(options: Namespace, processes: ProcessGroup, path: str) -> RowsRead:
    """Return the rows of the file `path`, svmlight text or an .npz, that are for this rank to read.

    InvalidInput is raised for --sample-weight and --ids, which name columns of a table.
    """
    for option in ("sample_weight", "ids"):
        if getattr(options, option) is not None:
            raise InvalidInput(
                f"{path}: --{option.replace('_', '-')} names a column of a table; give one table for each rank, "
                "with {rank} in its name"
            )
    X, y, base = load_based(options.data, processes, target=options.target, index_base=options.index_base)
    return RowsRead(X, y, y, contract=_nameless(base))


def _plain(table: DataTable, *, classifies: bool) -> RowsRead:
    """Return the rows of svmlight text or of an .npz; raise InvalidData, which names a row that is not finite."""
    y = np.asarray(table.y, dtype=np.float64)
    check_finite(table.X, f"{table.where}: X", None)
    check_known(y, f"{table.where}: y")
    if classifies:
        _check_labels(table, table.labels, "row", first=0)
    return RowsRead(table.X, y, y, table.weight, _nameless(table.index_base))


def _nameless(index_base: int | None) -> Contract | None:
    """Return the contract of a file without names: only the index base of svmlight text; None for an .npz.

    A contract says which target, columns and labels the tables of all sites or ranks have.
    """
    return None if index_base is None else Contract("", header=False, index_base=index_base)


def _agreed_contract(offer: Contract, processes: ProcessGroup, *, classifies: bool) -> Contract:
    """Return the contract (names, target and labels) of the tables of all ranks; `offer` is that of this rank's own.

    If the loss `classifies`, it has the labels of all ranks. Mismatch, which names a rank whose table differs, is
    raised at all ranks.
    """
    if processes.size == 1:
        return offer
    offers = {f"rank {rank}": one for rank, one in enumerate(processes.all_gather([offer]))}
    verdict = agree(offers, classifies=classifies)
    if verdict.contract is None:
        rank, what = min(verdict.culprits.items())
        raise Mismatch(f"{rank} {what}; give the files of all ranks the same columns, names and labels")
    return verdict.contract


def _check_labels(table: DataTable, labels: tuple[str | float, ...], place: str, first: int) -> None:
    """Raise InvalidData unless `labels`, those of all files, are exactly two.

    If there are more, the message names a row with the label that is rarest in this file. `place` is what a row of the
    table is called, "line" of a file or "row" of a matrix; `first` is the number of the first.
    """
    what = f"{table.where}: {'y' if table.target is None else f'the target {table.target!r}'} has"
    if len(labels) == 1:
        raise InvalidData(f"{what} one label only, {spoken(labels)}; a classification needs two")
    if len(labels) > 2 and table.y is not None:
        own, counts = np.unique(table.y, return_counts=True)
        rare = own[np.argmin(counts)]
        raise InvalidData(
            f"{what} the labels {spoken(labels)}, and a classification needs two; code them as two ({place} "
            f"{first + table.line(int(np.argmax(table.y == rare))) - table.line(0)} holds {spoken((rare.item(),))}), "
            "say --target if it is another column, or --model ridge if it is a quantity"
        )


def _check(table: DataTable) -> None:
    """Raise InvalidData, which names the line, for a sample weight that is negative or too large, or if all are 0."""
    weight = np.ones(1) if table.weight is None else table.weight
    wrong = ~((weight >= 0) & (weight <= LARGEST))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidData(
            f"{table.where}, line {table.line(row)}: expected a sample weight >= 0 and <= {LARGEST:g}, got "
            f"{weight[row]:g}"
        )
    if not weight.any():
        raise InvalidData(f"{table.where}: all sample weights are 0, so that no row counts; expected one > 0")
