"""`glmesh up FEDERATION`: all nodes of a federation on this machine, as processes of their own."""

import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from glmesh.cli.federation import needs_peers
from glmesh.cli.options import INTERRUPTED, OUT_OF_ROUNDS, PARTIAL, REACHED, USAGE, Parser
from glmesh.cli.output import duration
from glmesh.errors import InvalidInput
from glmesh.files import model_files

if TYPE_CHECKING:
    from glmesh.federation.config import Site

_OTHERS = 45.0  # [s] that the other nodes have to end by themselves after one has failed

HELP = "start all nodes of a federation on this machine, to try it out"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh up` to its parser."""
    parser.describe(
        "Start `glmesh node NAME.toml` for every member of a federation file, whose node files are beside it; real "
        "processes that talk over real TLS. Ctrl-C pauses all of them; started again they go on.",
        "glmesh up federation.toml",
    )
    parser.add_argument("file", metavar="FEDERATION", help="a federation file")
    parser.add_argument("--verbose", action="store_true", help="show the nodes' own lines")


def run(options: Namespace) -> int:
    """Start all nodes of a federation as processes, wait, print how each ended; return the exit code."""
    needs_peers()
    from glmesh.federation.config import Federation, Site

    path = Path(options.file)
    federation = Federation.read(path)
    federation.check()
    files = {member.name: path.parent / f"{member.name}.toml" for member in federation.members}
    missing = [str(file) for file in files.values() if not file.is_file()]
    if missing:
        raise InvalidInput(f"{missing[0]}: no such file; `glmesh federation add {path} NAME=DATA` writes it")
    sites = {name: Site.read(file) for name, file in files.items()}
    started = time.time()
    told: set[tuple[str, str]] = set()  # (site, remark on its data) that were printed
    nodes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, file in files.items():
            command = [sys.executable, "-m", "glmesh", "node", str(file), "--plain"]
            sink = None if options.verbose else subprocess.DEVNULL
            nodes[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sink)
        _wait(nodes, sites, started, told)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        for node in nodes.values():
            if node.poll() is None:
                node.terminate()
        for node in nodes.values():
            node.wait()
    return _tell(nodes, sites, started, told)


def _wait(
    nodes: dict[str, subprocess.Popen[bytes]], sites: dict[str, "Site"], started: float, told: set[tuple[str, str]]
) -> None:
    """Print how far the first node is, until all nodes have ended or one has failed."""
    from glmesh.federation.monitor.history import read_lines

    shown, failed = "", None
    ends = next(iter(sites.values())).federation.network.refused == "end"
    while any(node.poll() is None for node in nodes.values()):
        time.sleep(0.5)
        path = next(iter(sites.values())).state / "history.jsonl"
        entries = [e for e in read_lines(path) if e["time"] >= started] if path.exists() else []
        _remark(sites, started, told)
        if any(node.poll() not in (None, REACHED, PARTIAL) for node in nodes.values()):
            failed = failed or time.monotonic()  # one that is refused tells the others, which then end by themselves
            if ends and time.monotonic() > failed + _OTHERS:
                return
        if not entries:
            line = f"{sum(node.poll() is None for node in nodes.values())} nodes are starting"
        else:
            last = entries[-1]
            gap = "none yet" if last.get("certificate") is None else f"{last['certificate']:.1e}"
            line = f"round {last.get('round', 0):,}, proven gap {gap}"
        if line != shown and any(node.poll() is None for node in nodes.values()):
            print(f"{line}, {duration(time.time() - started)}", flush=True)
            shown = line


def _remark(sites: dict[str, "Site"], started: float, told: set[tuple[str, str]]) -> None:
    """Print what nodes have said about their data since `started`, in seconds since 1970, and is not in `told` yet."""
    from glmesh.federation.monitor.history import read_lines

    for name, site in sites.items():
        log = site.state / "log.jsonl"
        for event in read_lines(log) if log.exists() else ():
            remark = name, str(event.get("why"))
            if event["event"] == "data" and event["time"] >= started and remark not in told:
                told.add(remark)
                print(f"{name}: {remark[1]}", flush=True)


def _tell(
    nodes: dict[str, subprocess.Popen[bytes]], sites: dict[str, "Site"], started: float, told: set[tuple[str, str]]
) -> int:
    """Print how each node ended and where its model is; return the exit code."""
    from glmesh.federation.monitor.history import read_lines
    from glmesh.federation.node.training import without_text

    _remark(sites, started, told)
    for name, node in nodes.items():
        log = sites[name].state / "log.jsonl"
        events = [e for e in read_lines(log) if e["time"] >= started] if log.exists() else []
        if node.returncode not in (REACHED, PARTIAL):
            errors = [e for e in events if e["event"] in ("error", "end")]
            why = f": {errors[-1]['why']}" if errors else ""
            print(f"{name} ended with code {node.returncode}{why}")
            continue
        model = model_files.load(sites[name].state / "model.npz")
        gap = float(model.info.get("relative_gap", float("nan")))
        left_out = f", {without_text(model.sites, model.without)}" if model.without else ""
        print(f"{name}: relative gap proven to be at most {gap:.1e}{left_out}; {sites[name].state / 'model.npz'}")
    codes = {node.returncode for node in nodes.values()}
    if codes & {REACHED, PARTIAL}:
        print("The proof is about the optimiser on these rows, not about the data.")
    print(f"{len(nodes)} nodes, {duration(time.time() - started)}")
    return next((code for code in (PARTIAL, USAGE) if code in codes), REACHED if codes == {REACHED} else OUT_OF_ROUNDS)
