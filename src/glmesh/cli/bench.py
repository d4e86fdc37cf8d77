"""`glmesh bench`: methods against each other, on named data sets and your own."""

import shutil
import sys
from argparse import Namespace
from pathlib import Path

from glmesh.cli.options import REACHED, Parser, number, whole
from glmesh.cli.output import can_plot
from glmesh.cli.tables import text_table

HELP = "compare methods: communications, bytes and seconds"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh bench` to its parser."""
    parser.describe(
        "Follows CoLA and its rivals on the same problems and networks until each is within 1e-6 of a proven optimum, "
        "and writes a page with tables, ratios and plots. Rivals get the best step of a grid. A data set that is not "
        "in the folder of --data (or GLMESH_DATA) is replaced by a small one of the same shape.",
        "glmesh bench --datasets a9a --objectives ridge",
        "glmesh bench --datasets rcv1 a9a --data folder --out bench-out",
        "glmesh bench --add mine.py --datasets mine --methods 'CoLA default, by features' 'NIDS, as given'",
        after="mine.py may define DATASETS, OBJECTIVES and METHODS, dicts from names to functions (docs/rivals.md).",
    )
    add = parser.add_argument
    add(
        "--datasets",
        nargs="+",
        default=["a9a"],
        metavar="NAME",
        help="data sets: rcv1, url, webspam, epsilon, news20, a9a, w8a (default a9a)",
    )
    add(
        "--objectives",
        nargs="+",
        default=["lasso", "ridge", "logistic"],
        metavar="NAME",
        help="objectives: lasso, ridge, logistic (default all)",
    )
    add("--topologies", nargs="+", default=["ring", "torus"], metavar="NAME", help="networks (default ring torus)")
    add("--methods", nargs="+", metavar="NAME", help="some of the methods that a report lists (default all)")
    add("--add", metavar="FILE.py", help="a file with data sets, objectives and methods of your own")
    add("--data", metavar="FOLDER", help="folder with the files of named data sets (default $GLMESH_DATA)")
    add("--nodes", type=whole(1), default=16, metavar="K", help="number of nodes (default 16)")
    add(
        "--seeds",
        nargs="+",
        type=whole(0),
        default=[0],
        metavar="N",
        help="seeds of the partitions to try, of which medians are reported (default 0)",
    )
    add(
        "--repeats",
        type=whole(1),
        default=1,
        metavar="N",
        help="repeats of each run, of which the quickest counts (default 1)",
    )
    add(
        "--max-communications",
        type=whole(1),
        default=5_000,
        metavar="N",
        help="end each run after so many communications (default 5000)",
    )
    add(
        "--max-seconds",
        type=number(positive=True),
        default=60.0,
        metavar="S",
        help="end each run after so many seconds (default 60)",
    )
    add("--out", default="bench-out", metavar="FOLDER", help="folder for the page and its pictures (default bench-out)")


def run(options: Namespace) -> int:
    """Run all comparisons of `glmesh bench`, write the report anew after each; return the exit code."""
    from glmesh.bench import addition, data, report
    from glmesh.bench.compare import GOALS, RacePlan, races
    from glmesh.bench.contenders import CONTENDERS
    from glmesh.bench.objectives import OBJECTIVES

    more = addition.read(options.add) if options.add else addition.Addition()
    contenders = CONTENDERS | more.methods
    plan = RacePlan(
        objectives=options.objectives,
        topologies=options.topologies,
        contenders=options.methods or list(contenders),
        n_nodes=options.nodes,
        seeds=options.seeds,
        repeats=options.repeats,
        max_communications=options.max_communications,
        max_seconds=options.max_seconds,
        known_objectives=OBJECTIVES | more.objectives,
        known_contenders=contenders,
    )
    found, goal = [], min(GOALS)
    for name in options.datasets:
        one = more.load(name) if name in more.datasets else data.load(name, folder=options.data)
        print(f"{name}: {one.X.shape[0]:,} x {one.X.shape[1]:,} ({one.source})", flush=True)
        for race in races(plan, one, say=_say):
            found.append(race)
            page = report.write(plan, found, Path(options.out), pictures=can_plot())  # whatever comes, so much is there
            _say("")
            header, rows, ours = report.standing(race)
            print(f"\n{race.objective}, {name}, {race.topology}: costs until the error is {goal:g}\n")
            print(text_table(header, rows, ours), flush=True)
    if told := report.claims(found):
        print(f"\n{text_table(['claim', 'seen', 'figures'], told, left=(0, 1, 2))}")
    print(f"\nA dash: did not get there. * or bold: ours. The whole page: {page}")
    return REACHED


def _say(line: str) -> None:
    """Show a line of progress: in a terminal over the one before, elsewhere below it; "" clears it."""
    if sys.stdout.isatty():
        columns = shutil.get_terminal_size().columns - 1
        print(f"\r{line[:columns]}\x1b[K", end="", flush=True)
    elif line:
        print(line, flush=True)
