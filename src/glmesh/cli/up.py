"""`glmesh up FEDERATION`: all nodes of a federation on this machine, as processes of their own."""

import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from glmesh.cli.federation import needs_peers
from glmesh.cli.node import show_live
from glmesh.cli.options import INTERRUPTED, OUT_OF_ROUNDS, PARTIAL, REACHED, USAGE, Parser
from glmesh.cli.output import duration
from glmesh.errors import InvalidInput
from glmesh.federation.monitor.history import Figures, lines_since
from glmesh.files import model_files
from glmesh.formatting import rounded_up
from glmesh.inference import Inference

if TYPE_CHECKING:
    from glmesh.federation.config import Site

_WITH_MODEL = ("certified", "alone", "stationary")  # outcomes of a node that has a model of this run
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
    parser.add_argument("--live", action="store_true", help="show all nodes on a page in a browser on this machine")
    parser.add_argument("--verbose", action="store_true", help="print the log lines of the nodes, too")


def run(options: Namespace) -> int:
    """Start all nodes of a federation as processes, wait, print how each ended; return the exit code."""
    needs_peers()
    from glmesh.federation.config import Federation, Site
    from glmesh.federation.monitor.page.record import Folder
    from glmesh.federation.monitor.server import ask

    path = Path(options.file)
    federation = Federation.read(path)
    federation.check()
    files = {member.name: path.parent / f"{member.name}.toml" for member in federation.members}
    missing = [str(file) for file in files.values() if not file.is_file()]
    if missing:
        raise InvalidInput(f"{missing[0]}: no such file; `glmesh federation add {path} NAME=DATA` writes it")
    print(federation.disclosure, flush=True)
    running = _Federation({name: Site.read(file) for name, file in files.items()})
    parts = ExitStack()
    if options.live:
        show_live(parts, [Folder(site.state, partial(ask, site)) for site in running.sites.values()])
    try:
        running.start(files, verbose=options.verbose)
        running.wait()
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        running.end()
        parts.close()
    return running.tell()


@dataclass
class _Federation:
    """The nodes of a federation that run on this machine as processes, and the remarks on their data printed so far."""

    sites: dict[str, "Site"]
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)  # processes that were started, by name
    started: float = field(default_factory=time.time)  # [s] since 1970
    told: set[tuple[str, str]] = field(default_factory=set)  # (site, remark on its data) that were printed

    def start(self, files: Mapping[str, Path], *, verbose: bool) -> None:
        """Start a process for each node file (name -> path); if `verbose`, their log lines go to this terminal."""
        for name, file in files.items():
            command = [sys.executable, "-m", "glmesh", "node", str(file), "--plain"]
            sink = None if verbose else subprocess.DEVNULL
            self.nodes[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sink)

    def end(self) -> None:
        """Terminate the nodes that still run, and wait until all have ended."""
        for node in self.nodes.values():
            if node.poll() is None:
                node.terminate()
        for node in self.nodes.values():
            node.wait()

    def wait(self) -> None:
        """Print round and gap of the first node now and then, until all nodes have ended or one has failed."""
        shown, failed = "", None
        first = next(iter(self.sites.values()))
        while self._running():
            time.sleep(0.5)
            line = self._progress(lines_since(first.state / "history.jsonl", self.started))
            self._remark()
            if any(node.poll() not in (None, REACHED, PARTIAL) for node in self.nodes.values()):
                failed = failed or time.monotonic()  # one that is refused tells the others, which end by themselves
                if first.federation.network.refused == "end" and time.monotonic() > failed + _OTHERS:
                    return
            if line != shown and self._running():
                print(f"{line}, {duration(time.time() - self.started)}", flush=True)
                shown = line

    def _running(self) -> int:
        """Return the number of nodes that have not ended."""
        return sum(node.poll() is None for node in self.nodes.values())

    def _progress(self, entries: list[Figures]) -> str:
        """Return words on round and proven gap in the last of a node's history `entries`.

        That nodes start if there is none.
        """
        if not entries:
            return f"{self._running()} nodes are starting"
        from glmesh.federation.monitor.screen import proof_text

        last = entries[-1]
        none = "proven gap none yet" if "tol_se" not in last else "nothing proven yet"
        return f"round {last.get('round', 0):,}, {proof_text(last, 'proven gap {:.1e}') or none}"

    def _remark(self) -> None:
        """Print the remarks on data that nodes have logged since they were started and that were not printed yet."""
        for name, site in self.sites.items():
            for event in lines_since(site.state / "log.jsonl", self.started):
                remark = name, str(event.get("why"))
                if event["event"] == "data" and remark not in self.told:
                    self.told.add(remark)
                    print(f"{name}: {remark[1]}", flush=True)

    def tell(self) -> int:
        """Print how each node ended and where its model is; return the exit code of `glmesh up`."""
        self._remark()
        for name, node in self.nodes.items():
            has_model = node.returncode in (REACHED, PARTIAL) and self._is_proven(name)
            print(self._ending(name) if has_model else self._failure(name))
        codes = {node.returncode for node in self.nodes.values()}
        self._show_table()
        if codes & {REACHED, PARTIAL}:
            print("The proof is about the optimiser on these rows, not about the data.")
        print(f"{len(self.nodes)} nodes, {duration(time.time() - self.started)}")
        lasting = next((code for code in (PARTIAL, USAGE) if code in codes), OUT_OF_ROUNDS)
        return REACHED if codes == {REACHED} else lasting

    def _ending(self, name: str) -> str:
        """Return a line on a node that has a model: the proven gap, whose data is missing, and where the model is."""
        from glmesh.federation.node.training import without_text

        path = self.sites[name].state / "model.npz"
        model = model_files.load(path)
        left_out = f", {without_text(model.sites, model.without)}" if model.without else ""
        if "standard_errors_off" in model.info:
            off = rounded_up(float(model.info["standard_errors_off"]))
            return (
                f"{name}: each coefficient is within {off:.0e} standard errors of the exact estimate{left_out}; {path}"
            )
        if model.info["status"] == "stationary":
            return f"{name}: a stationary point; no proof that it is the maximum{left_out}; {path}"
        gap = float(model.info.get("relative_gap", float("nan")))
        return f"{name}: relative gap proven to be at most {gap:.1e}{left_out}; {path}"

    def _show_table(self) -> None:
        """Print the table of coefficients once, if a node ended with one."""
        for name, node in self.nodes.items():
            if node.returncode in (REACHED, PARTIAL) and self._is_proven(name):
                model = model_files.load(self.sites[name].state / "model.npz")
                if model.statistics is not None:
                    print(f"\n{Inference(model.statistics).summary()}\n")
                return

    def _is_proven(self, name: str) -> bool:
        """Return whether a node ended with a proof, and so with a model of this run."""
        events = lines_since(self.sites[name].state / "log.jsonl", self.started)
        return any(event["event"] == "end" and event.get("outcome") in _WITH_MODEL for event in events)

    def _failure(self, name: str) -> str:
        """Return a line on the node `name`, which failed: its exit code, and the reason if its log has one."""
        events = lines_since(self.sites[name].state / "log.jsonl", self.started)
        whys = [f": {event['why']}" for event in events if event["event"] in ("error", "end")]
        return f"{name} ended with code {self.nodes[name].returncode}{whys[-1] if whys else ''}"
