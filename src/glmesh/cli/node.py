"""`glmesh node NODE.toml`: one site of a federation."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack, closing
from logging import Logger
from typing import TYPE_CHECKING, TextIO

from glmesh.cli.federation import needs_peers
from glmesh.cli.options import INTERRUPTED, OUT_OF_ROUNDS, PARTIAL, REACHED, Parser, whole
from glmesh.errors import GlmeshError

if TYPE_CHECKING:
    from glmesh.federation.config import Site
    from glmesh.federation.monitor.page.record import Folder
    from glmesh.federation.node.training import Ending

LIVE = "show a page in a browser on this machine instead of a live view; prints its address, which is secret"

HELP = "run one site of a federation: train with its neighbours, over TLS"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh node` to its parser."""
    parser.describe(
        "Run one site. Start the nodes of a federation in any order, and again after whatever happens: a node goes on "
        "from its checkpoint. It ends by itself when all members hold a model that is proven to be within tol, and "
        "leaves model.npz, history.jsonl and log.jsonl in its state folder. SIGTERM or Ctrl-C pause it.",
        "glmesh node alice.toml",
        "glmesh node alice.toml --plain 2> alice.log",
        "glmesh node alice.toml --live",
    )
    parser.add_argument("file", metavar="NODE.toml", help="the node file of the site")
    parser.add_argument("--plain", action="store_true", help="write lines instead of a live view")
    parser.add_argument("--live", action="store_true", help=LIVE)
    parser.add_argument("--rounds", type=whole(1), metavar="N", help="stop after N rounds")
    parser.add_argument(
        "--patient", action="store_true", help="wait for silent neighbours for ever, so that nothing depends on time"
    )


def run(options: Namespace) -> int:
    """Run one site of a federation until its training has ended; return the exit code."""
    needs_peers()
    from glmesh.federation.config import Site
    from glmesh.federation.monitor.log import Handshakes, line_handler, node_log

    site = Site.read(options.file)
    site.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    drawn = sys.stderr.isatty() and not options.plain and not options.live
    with ExitStack() as parts:
        log = parts.enter_context(node_log(site.file.name, site.state / "log.jsonl"))
        handshakes = parts.enter_context(closing(Handshakes(log)))
        if not drawn:
            log.addHandler(line_handler(handshakes.terminal))
        try:
            ending = _trained(options, site, parts, log, handshakes.terminal if drawn else None)
        except GlmeshError as error:
            log.error("error", extra={"why": str(error)})
            raise
    print(ending.sentence())
    return exit_code(ending)


def _trained(options: Namespace, site: "Site", parts: ExitStack, log: Logger, screen: TextIO | None) -> "Ending":
    """Run the node of a site, shown and recorded as the options ask for, until it ends; return how it has ended.

    What shows and records it is closed with `parts`. A live view is drawn on `screen`; None: there is none.
    """
    from glmesh.federation.monitor.history import History
    from glmesh.federation.monitor.page.record import Folder
    from glmesh.federation.monitor.screen import LiveScreen
    from glmesh.federation.monitor.server import Server
    from glmesh.federation.monitor.status import figures
    from glmesh.federation.node.process import Node

    node = Node(site, log)
    node.stop_on_signals()
    history = parts.enter_context(closing(History(site.state / "history.jsonl")))
    parts.enter_context(closing(Server(lambda: figures(node), site)))
    if options.live:
        show_live(parts, [Folder(site.state, lambda: figures(node))])
    if screen is not None:
        parts.enter_context(closing(LiveScreen(lambda: figures(node), log, screen)))
    return node.run(patient=options.patient, max_rounds=options.rounds, record=lambda: history.add(figures(node)))


def exit_code(ending: "Ending") -> int:
    """Return the exit code of a node that has ended: REACHED, PARTIAL, INTERRUPTED or OUT_OF_ROUNDS, by its outcome."""
    from glmesh.federation.node.training import TrainingOutcome

    if ending.outcome in (TrainingOutcome.CERTIFIED, TrainingOutcome.ALONE, TrainingOutcome.STATIONARY):
        return REACHED if ending.is_whole else PARTIAL
    if ending.outcome in (TrainingOutcome.TOO_FEW, TrainingOutcome.WAITED):
        return PARTIAL
    return INTERRUPTED if ending.outcome is TrainingOutcome.STOPPED else OUT_OF_ROUNDS


def show_live(parts: ExitStack, folders: Sequence["Folder"]) -> None:
    """Open the live page about the sites with these state folders until `parts` ends, and print its address."""
    from glmesh.federation.monitor.live import live_page

    page = parts.enter_context(closing(live_page(folders)))
    print(f"live page, for this machine only: {page.address}", flush=True)
