"""`glmesh node NODE.toml`: one site of a federation."""

from __future__ import annotations

import sys
from argparse import Namespace

from glmesh.cli.options import INTERRUPTED, OUT_OF_ROUNDS, REACHED, Parser, examples, whole
from glmesh.cli.peers import needs_peers

HELP = "run one site of a federation: train with its neighbours, over TLS"


def add_options(parser: Parser) -> None:
    """The options of `node`."""
    parser.description = (
        "Run one site. Start the nodes of a federation in any order, and again after whatever happens: a node goes on "
        "from its checkpoint. It ends by itself when all members hold a model that is proven to be good enough, and "
        "leaves model.npz, history.jsonl and log.jsonl in its state folder. SIGTERM or Ctrl-C pause it."
    )
    parser.epilog = examples("glmesh node alice.toml", "glmesh node alice.toml --plain 2> alice.log")
    parser.add_argument("file", metavar="NODE.toml", help="what the site knows beside the federation file")
    parser.add_argument("--plain", action="store_true", help="lines instead of a live view")
    parser.add_argument("--rounds", type=whole(1), metavar="N", help="stop after so many rounds")
    parser.add_argument(
        "--patient", action="store_true", help="wait for silent neighbours for ever, so that nothing depends on time"
    )


def run(options: Namespace) -> int:
    """Until it is done."""
    needs_peers()
    from glmesh.errors import GlmeshError
    from glmesh.federation.config.site import Site
    from glmesh.federation.monitor.log import Handshakes, Log
    from glmesh.federation.monitor.screen import View
    from glmesh.federation.monitor.server import Server
    from glmesh.federation.monitor.status import figures
    from glmesh.federation.node.process import Node, Outcome, listen_to_signals

    site = Site.read(options.file)
    site.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    live = sys.stderr.isatty() and not options.plain
    log = Log(site.file.name, site.state / "log.jsonl", None if live else sys.stderr)
    handshakes = Handshakes(log)
    server = view = None
    try:
        node = Node(site, log, patient=options.patient, rounds=options.rounds)
        listen_to_signals(node)
        server = Server(lambda: figures(node), site)
        view = View(node, handshakes.terminal) if live else None
        outcome = node.run()
    except GlmeshError as error:
        log("error", why=str(error))
        raise
    finally:
        for part in (view, server, handshakes, log):
            if part is not None:
                part.close()
    print(outcome.value)
    if outcome in (Outcome.CERTIFIED, Outcome.ALONE):
        return REACHED
    return INTERRUPTED if outcome is Outcome.STOPPED else OUT_OF_ROUNDS
