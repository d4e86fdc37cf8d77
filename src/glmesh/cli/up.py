"""`glmesh up FEDERATION`: all nodes of a federation on this machine, as processes of their own."""

import os
import sys
import time
from argparse import Namespace
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from glmesh.cli.federation import needs_peers
from glmesh.cli.local_sites import LocalSites, proofs_text, tables_text
from glmesh.cli.node import show_live
from glmesh.cli.options import INTERRUPTED, OUT_OF_ROUNDS, PARTIAL, REACHED, USAGE, Parser
from glmesh.cli.output import count, folded
from glmesh.cli.watch import SitesDisplay
from glmesh.files.model_files import Model
from glmesh.formatting import duration, joined

HELP = "start all nodes of a federation on this machine, to try it out"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh up` to its parser."""
    parser.describe(
        "Start `glmesh node NAME.toml` for every member of a federation file, whose node files are beside it; real "
        "processes that talk over real TLS. Ctrl-C pauses all of them; started again they go on.",
        "glmesh up federation.toml",
    )
    parser.add_argument("file", metavar="FEDERATION", help="a federation file")
    parser.add_argument("--live", action="store_true", help="show all nodes on a page in a browser on this machine")
    parser.add_argument("--verbose", action="store_true", help="print the log lines of the nodes, too")


def run(options: Namespace) -> int:
    """Start all nodes of a federation as processes, wait, print how each ended; return the exit code."""
    needs_peers()
    from glmesh.federation.config import Federation
    from glmesh.federation.monitor.page.record import Folder
    from glmesh.federation.monitor.server import ask

    path = Path(options.file)
    federation = Federation.read(path)
    federation.check()
    sites = LocalSites.of(path, federation, verbose=options.verbose)
    print(folded(federation.disclosure, sys.stdout), flush=True)
    parts = ExitStack()
    if options.live:
        show_live(parts, [Folder(site.state, partial(ask, site)) for site in sites.sites.values()])
    watch = SitesDisplay(in_place=not options.verbose)
    try:
        sites.start()
        sites.wait(watch)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        sites.end()
        watch.clear()
        parts.close()
    watch.remark(sites)
    return tell(sites)


def tell(sites: LocalSites) -> int:
    """Print how the sites ended, the table, what is proven and what to do next; return the exit code of `glmesh up`."""
    models = {name: model for name in sites.nodes if (model := sites.model(name)) is not None}
    failures: dict[str, list[str]] = {}
    for name in sites.nodes:
        if name not in models:
            failures.setdefault(sites.failure(name), []).append(name)
    for why, names in failures.items():
        print(folded(f"{joined(names)} {why}", sys.stdout))
    seconds = duration(time.time() - sites.began)
    if models:
        table, model = tables_text(models), next(iter(models.values()))
        print(f"\n{table}\n")
        print("\n".join(proofs_text(models)))
        for key in ("remark", "levels"):
            if (remark := str(model.info.get(key, ""))) and remark not in table:
                print(folded(remark, sys.stdout))
        print("The proof is about the optimiser on these rows, not about the data.")
        print(f"{cost_text(model)}, {seconds}\n\n{_next(sites, models)}")
    else:
        print(f"{count(len(sites.nodes), 'node')}, {seconds}")
    codes = {node.returncode for node in sites.nodes.values()}
    lasting = next((code for code in (PARTIAL, USAGE) if code in codes), OUT_OF_ROUNDS)
    return REACHED if codes == {REACHED} else lasting


def cost_text(model: Model) -> str:
    """Return words on what a fit between sites took: "3 sites, 5 totals, 22 messages to each neighbour"."""
    rounds = int(model.info["rounds"])
    steps = count(rounds, "total" if model.info.get("method") == "totals" else "round")
    messages = f", {count(int(model.info['communications']), 'message')} to each neighbour"
    told = messages if "communications" in model.info else ""
    return f"{count(len(model.sites) + len(model.without), 'site')}, {steps}{told}"


def _next(sites: LocalSites, models: dict[str, Model]) -> str:
    """Return lines on what can be done with the models, as commands that can be copied."""
    name, model = next(iter(models.items()))
    state = Path(os.path.relpath(sites.sites[name].state))
    predict = f"glmesh predict {state / 'model.npz'} new.csv"
    if model.design is not None:  # tables with text may have gaps
        predict += " --missing empty"
    if model.is_share:
        predict += f" --node {os.path.relpath(sites.files[name])}   # at all sites at the same time"
    return f"Next:\n  glmesh show {state / 'model.npz'}\n  glmesh report {state}\n  {predict}"
