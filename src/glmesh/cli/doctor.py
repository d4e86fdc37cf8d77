"""`glmesh doctor NODE.toml`: look at a node before it starts."""

from argparse import Namespace

from glmesh.cli.federation import needs_peers
from glmesh.cli.options import REACHED, USAGE, Parser

HELP = "check a node before it starts"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh doctor` to its parser."""
    parser.describe(
        "Look at configuration, certificates and their expiry, data, topology, neighbours, the size of messages and "
        "the time that a run may take. The exit code is 2 if something would keep the node from running.",
        "glmesh doctor alice.toml",
    )
    parser.add_argument("file", metavar="NODE.toml")


def run(options: Namespace) -> int:
    """Check a node before it starts and print a line per finding; return the exit code."""
    needs_peers()
    from glmesh.federation.monitor.doctor import examine

    bad = False
    for finding in examine(options.file):
        bad |= finding.level == "error"
        print(f"{finding.level:<8} {finding.what:<20} {finding.seen}", flush=True)
    return USAGE if bad else REACHED
