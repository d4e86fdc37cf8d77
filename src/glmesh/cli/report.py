"""`glmesh report FOLDER...`: what sites went through, as a page."""

from argparse import Namespace

from glmesh.cli.options import REACHED, Parser
from glmesh.cli.output import check_writable
from glmesh.files.archive import write_text

HELP = "make a page of what sites went through, and of the coefficients"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh report` to its parser."""
    parser.describe(
        "Make an HTML page of what the state folders of one or more nodes tell: how the run stands or ended, the "
        "coefficients with intervals where there are some, the proof by round, who was away when, traffic, events and "
        "settings. The page has no script and refers to nothing outside it.",
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
