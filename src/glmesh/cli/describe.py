"""`glmesh describe FILE`: what will be read of a data file."""

import shutil
import textwrap
from argparse import Namespace

import numpy as np

from glmesh.cli.options import REACHED, Parser
from glmesh.cli.output import count, rows
from glmesh.contract import DataTable
from glmesh.contract.contract import kind_of
from glmesh.contract.fitting import listed
from glmesh.files.data_files import read_table
from glmesh.files.describe import DataFinding, describe

HELP = "show what will be read of a data file"
_SHOWN = 30  # [columns] that have a line each


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh describe` to its parser."""
    parser.describe(
        "Show how a data file is read: header, delimiter, decimal mark, encoding, kinds of columns and labels; and "
        "what may be wrong in it: text, missing values, constant columns, and columns that look like names of rows, "
        "dates or codes for 'missing' (-999). No row is shown, and nothing leaves this machine.",
        "glmesh describe patients.csv",
        "glmesh describe patients.csv --target ill --ids patient",
        "glmesh describe alt.csv --encoding latin-1 --header no",
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="a data file in any format that `glmesh train` reads")
    add("--target", metavar="COLUMN", help="column that holds y, by name or position (default: the last)")
    add("--ids", metavar="COLUMN", help="column with the names of the rows")
    add("--sample-weight", metavar="COLUMN", help="column with the sample weights")
    parser.add_text_options()


def run(options: Namespace) -> int:
    """Read a data file, print its layout, columns and warnings; return the exit code."""
    table = read_table(
        options.file,
        target=options.target,
        ids=options.ids,
        weight=options.sample_weight,
        header=options.header,
        encoding=options.encoding,
        index_base=options.index_base,
    )
    print(options.file)
    findings = describe(table)
    print(rows(_summary(options, table, findings)))
    if isinstance(table.X, np.ndarray):
        print("\n" + "\n".join(_columns(table)))
    warnings = [str(finding) for finding in findings if finding.warns]
    print("\n" + ("Worth a look" if warnings else "Nothing looks wrong."))
    width = max(60, min(shutil.get_terminal_size().columns, 120))
    for warning in warnings:
        print(textwrap.fill(warning, width, initial_indent="  - ", subsequent_indent="    "))
    return REACHED


def _summary(options: Namespace, table: DataTable, findings: list[DataFinding]) -> list[tuple[str, str]]:
    """Return pairs (name, text) on a data file as a whole: how it was read, rows, features, ids, weights, target."""
    lines = [("read as", table.read_as), ("rows", f"{table.m:,}"), ("features", f"{table.X.shape[1]:,}")]
    lines += [("left out", listed(table.left_out))] if table.left_out else []
    if options.ids:
        lines.append(("ids", f"{options.ids}, all distinct"))
    if table.weight is not None:
        lines.append(("weights", f"{options.sample_weight}, {table.weight.min():g} to {table.weight.max():g}"))
    lines += [("target", str(one).removeprefix("the target ")) for one in findings if one.kind == "labels"]
    return lines


def _columns(table: DataTable) -> list[str]:
    """Return lines of text, a table with a row per feature: name, kind, missing values, least and largest value."""
    lines = [("column", "kind", "missing", "least", "largest")]
    texts = {one.name: one for one in table.text_columns}
    for k, name in enumerate(table.columns[:_SHOWN]):
        values = table.X[:, k]
        known = values[~np.isnan(values)]
        kind = f"text, {count(texts[name].levels, 'level')}" if name in texts else kind_of(values)
        extent = (f"{known.min():.6g}", f"{known.max():.6g}") if len(known) else ("", "")
        lines.append((name, kind, "" if name in texts else f"{len(values) - len(known):,}", *extent))
    widths = [min(40, max(len(line[k]) for line in lines)) for k in range(5)]
    out = [
        f"  {a[: widths[0]]:<{widths[0]}}   {b:<{widths[1]}}   {c:>{widths[2]}}   {d:>{widths[3]}}   {e:>{widths[4]}}"
        for a, b, c, d, e in lines
    ]
    more = len(table.columns) - _SHOWN
    return [line.rstrip() for line in out] + ([f"  ... and {count(more, 'more column')}"] if more > 0 else [])
