"""`glmesh report NODE.toml`: the history of a node as a page with plots."""

from argparse import Namespace

from glmesh.cli.options import REACHED, Parser
from glmesh.cli.output import check_writable
from glmesh.files.archive import write_text

HELP = "make a page with plots of what a node went through"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh report` to its parser."""
    parser.describe(
        "Make an HTML page of the histories of one or more nodes (history.jsonl in their state folders): the proven "
        "gap, rounds and traffic over time, who was away, and the last events. The page refers to nothing outside it.",
        "glmesh report alice.state",
        "glmesh report alice.state bob.state --out both.html",
    )
    parser.add_argument("folders", metavar="FOLDER", nargs="+", help="state folders of nodes")
    parser.add_argument(
        "--out", default="glmesh-report.html", metavar="FILE", help="the page (default glmesh-report.html)"
    )


def run(options: Namespace) -> int:
    """Write an HTML page about the nodes whose state folders are given; return the exit code."""
    check_writable({"--out": options.out})
    from glmesh.federation.monitor.report import page

    write_text(options.out, page(options.folders))
    print(options.out)
    return REACHED
