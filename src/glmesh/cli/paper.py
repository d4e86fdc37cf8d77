"""`glmesh paper`: the experiments of the paper, redone."""

from argparse import Namespace
from pathlib import Path

from glmesh.cli.options import REACHED, Parser, whole
from glmesh.cli.output import can_plot
from glmesh.cli.tables import text_table

HELP = "redo the paper's experiments, and say which claims were seen"
NAMES = (
    "datasets",
    "local-passes",
    "topologies",
    "ridge-baselines",
    "lasso-baselines",
    "dropout",
    "dropout-reset",
    "consensus",
)


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh paper` to its parser."""
    parser.describe(
        "Redoes an experiment of the CoLA paper (He, Bian, Jaggi; NeurIPS 2018) and writes its data (CSV), its picture "
        "(PNG, SVG) and one sentence for each claim: seen or not seen, with figures. Data sets are looked for in the "
        "folder of --data (or GLMESH_DATA); small ones of the same shape stand in for those that are not there.",
        "glmesh paper topologies",
        "glmesh paper all --quick                       a minute, without any data",
        "glmesh paper all --data folder --out paper-out",
        after="names: " + ", ".join(NAMES) + ", all",
    )
    add = parser.add_argument
    add("name", metavar="NAME", choices=(*NAMES, "all"), help="name of the experiment, or all")
    add("--out", default="paper-out", metavar="FOLDER", help="folder to write to (default paper-out)")
    add("--data", metavar="FOLDER", help="folder with the files of data sets (default $GLMESH_DATA)")
    add("--quick", action="store_true", help="take stand-ins for the data sets, and few rounds")
    add("--seed", type=whole(0), default=0, metavar="N", help="seed of all that is random (default 0)")


def run(options: Namespace) -> int:
    """Run the experiments that were asked for, write their files, print the verdicts; return the exit code."""
    from glmesh import paper

    names = list(NAMES) if options.name == "all" else [options.name]
    settings = paper.Settings(quick=options.quick, folder=options.data, seed=options.seed)
    folder = Path(options.out)
    seen: list[bool] = []  # of the paper's own claims
    for name in names:
        print(f"{name} ...", flush=True)
        (found,) = paper.run([name], settings, folder, pictures=can_plot())
        cells = [(claim.text, "yes" if claim.seen else "no", claim.figures) for claim in found.claims]
        ours = [claim.ours for claim in found.claims]
        print(
            f"\n{found.title}\n\n{text_table(['claim', 'seen', 'figures'], cells, ours, left=(0, 1, 2))}\n", flush=True
        )
        seen += [claim.seen for claim in found.claims if not claim.ours]
    counted = f"{sum(seen)} of {len(seen)} claims of the paper were seen. " if seen else ""
    print(f"{counted}* or bold: ours, beside the paper's.")
    print(f"The whole page: {folder / 'report.md'}")
    if not can_plot():
        print("No pictures, because matplotlib is missing: pip install 'glmesh[plot]'")
    return REACHED
