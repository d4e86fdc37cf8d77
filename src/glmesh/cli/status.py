"""`glmesh status NODE.toml`: a running node at a glance."""

import json
from argparse import Namespace

from glmesh.cli.federation import needs_peers
from glmesh.cli.options import REACHED, Parser

HELP = "look at a running node"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh status` to its parser."""
    parser.describe(
        "Ask a node that runs on this machine for its figures: rounds, gap, neighbours, bytes.",
        "glmesh status alice.toml",
        "glmesh status alice.toml --json",
    )
    parser.add_argument("file", metavar="NODE.toml")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(options: Namespace) -> int:
    """Ask a node that runs on this machine for its figures and print them; return the exit code."""
    needs_peers()
    from glmesh.federation.config import Site
    from glmesh.federation.monitor.screen import screen
    from glmesh.federation.monitor.server import ask

    figures = ask(Site.read(options.file))
    print(json.dumps(figures) if options.json else screen(figures, [], None, 120).rstrip())
    return REACHED
