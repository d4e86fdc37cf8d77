"""`glmesh doctor NODE.toml`: look at a node before it starts."""

from argparse import Namespace

from glmesh.cli.federation import needs_peers
from glmesh.cli.options import REACHED, USAGE, Parser

HELP = "check a node before it starts"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh doctor` to its parser."""
    parser.describe(
        "Look at configuration, certificates and their expiry, data, topology, neighbours, the size of messages and "
        "the time that a run may take. The exit code is 2 if something would keep the node from running. With --rows "
        "or --distinct, two sites compare the names of their rows (`ids`) instead. That happens only if the other site "
        "runs the same with this one's name, at the same time; what both learn from it is said first.",
        "glmesh doctor alice.toml",
        "glmesh doctor alice.toml --rows bob  # and at bob: doctor bob.toml --rows alice",
        "glmesh doctor alice.toml --distinct bob",
    )
    parser.add_argument("file", metavar="NODE.toml")
    purpose = parser.add_mutually_exclusive_group()
    purpose.add_argument("--rows", metavar="SITE", help="split by features: the first row that is another one at SITE")
    purpose.add_argument("--distinct", metavar="SITE", help="split by samples: rows that SITE has too, by their names")


def run(options: Namespace) -> int:
    """Check a node before it starts and print a line per finding; return the exit code."""
    needs_peers()
    from glmesh.federation.monitor.doctor import compare, examine

    bad = False
    purposes = [(name, getattr(options, name)) for name in ("rows", "distinct") if getattr(options, name) is not None]
    for finding in compare(options.file, *purposes[0]) if purposes else examine(options.file):
        bad |= finding.level == "error"
        print(f"{finding.level:<8} {finding.what:<20} {finding.seen}", flush=True)
    return USAGE if bad else REACHED
