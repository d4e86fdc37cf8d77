"""All sites of a federation as processes on this machine, seen from outside: `glmesh up` and `glmesh demo` use them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glmesh.cli.coefficients import coefficients_text
from glmesh.cli.options import PARTIAL, REACHED
from glmesh.errors import InvalidInput
from glmesh.federation.monitor.history import Figures, lines_since
from glmesh.files import model_files
from glmesh.files.model_files import Model
from glmesh.formatting import joined

if TYPE_CHECKING:
    from glmesh.federation.config import Federation, Site
    from glmesh.federation.monitor.page.record import Event

_WITH_MODEL = ("certified", "alone", "stationary")  # outcomes of a node that has a model of this run
OTHERS = 45.0  # [s] that the other nodes have to end by themselves after one has failed
LOOK = 0.1  # [s] between two looks at the sites


@dataclass
class LocalSites:
    """The nodes of a federation that run on this machine as processes, each with a state folder of its own."""

    files: Mapping[str, Path]  # node files, by name
    sites: Mapping[str, Site]
    verbose: bool = False  # whether log lines of the nodes go to this terminal
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)  # processes started last, by name
    began: float = field(default_factory=time.time)  # [s] since 1970
    last: dict[str, Figures] = field(default_factory=dict)  # newest figures that were seen, by name

    @classmethod
    def of(cls, path: Path, federation: Federation, *, verbose: bool = False) -> LocalSites:
        """Return the sites of a federation file, whose node files are beside it; raise InvalidInput if one is not."""
        from glmesh.federation.config import Site

        files = {member.name: path.parent / f"{member.name}.toml" for member in federation.members}
        missing = [str(file) for file in files.values() if not file.is_file()]
        if missing:
            raise InvalidInput(f"{missing[0]}: no such file; `glmesh federation add {path} NAME=DATA` writes it")
        return cls(files, {name: Site.read(file) for name, file in files.items()}, verbose)

    # processes

    def start(self, names: Iterable[str] = ()) -> None:
        """Start a process for each of the sites `names`, or for all."""
        for name in names or self.files:
            command = [sys.executable, "-m", "glmesh", "node", str(self.files[name]), "--plain"]
            sink = None if self.verbose else subprocess.DEVNULL
            self.last.pop(name, None)
            self.nodes[name] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sink)

    def kill(self, name: str) -> None:
        """Kill the process of a site by SIGKILL, and wait until it is gone."""
        self.nodes[name].send_signal(signal.SIGKILL)
        self.nodes[name].wait()

    def end(self) -> None:
        """Terminate the nodes that still run, and wait until all have ended."""
        for node in self.nodes.values():
            if node.poll() is None:
                node.terminate()
        for node in self.nodes.values():
            node.wait()

    @property
    def running(self) -> list[str]:
        """Return the names of the sites whose process runs."""
        return [name for name, node in self.nodes.items() if node.poll() is None]

    def wait(self, watch: Callable[[LocalSites], None]) -> None:
        """Call `watch` now and then until all nodes have ended, or the others have not long after one has failed."""
        failed = 0.0
        network = next(iter(self.sites.values())).federation.network
        while self.running:
            time.sleep(LOOK)
            watch(self)
            if any(node.poll() not in (None, REACHED, PARTIAL) for node in self.nodes.values()):
                failed = failed or time.monotonic()  # one that is refused tells the others, which end by themselves
                if network.refused == "end" and time.monotonic() > failed + OTHERS:
                    return

    # what is seen of them

    def look(self, name: str) -> Figures | None:
        """Return the present figures of a site, which are kept in `last`; None if its node does not answer."""
        from glmesh.federation.monitor.server import ask

        figures = ask(self.sites[name]) if name in self.running else None
        if figures is not None and figures["time"] >= self.began:
            self.last[name] = figures
            return figures
        return None

    def events(self, name: str) -> list[Event]:
        """Return what a site has logged since the sites were started, oldest first."""
        return lines_since(self.sites[name].state / "log.jsonl", self.began)

    def outcome(self, name: str) -> str:
        """Return how a site's run has ended, in a word or two, as its log says; "" if it has not, or was killed."""
        ends = [event for event in self.events(name) if event["event"] in ("end", "error")]
        return str(ends[-1].get("outcome", "refused")).replace("_", " ") if ends else ""

    def remarks(self) -> dict[str, list[str]]:
        """Return {remark on data: sites that have logged it}."""
        said: dict[str, list[str]] = {}
        for name in self.sites:
            for why in dict.fromkeys(str(event.get("why")) for event in self.events(name) if event["event"] == "data"):
                said.setdefault(why, []).append(name)
        return said

    # how they ended

    def model(self, name: str) -> Model | None:
        """Return the model that a site has made since the sites were started; None if it has none."""
        ended_well = any(event["event"] == "end" and event.get("outcome") in _WITH_MODEL for event in self.events(name))
        if not ended_well or self.nodes[name].poll() not in (REACHED, PARTIAL):
            return None
        return model_files.load(self.sites[name].state / "model.npz")

    def failure(self, name: str) -> str:
        """Return words on a node that failed: its exit code, and the reason if its log has one."""
        whys = [f": {event['why']}" for event in self.events(name) if event["event"] in ("error", "end")]
        return f"ended with code {self.nodes[name].returncode}{whys[-1] if whys else ''}"


def tables_text(models: Mapping[str, Model]) -> str:
    """Return the coefficients of sites' models as text: one table, or each site's share where columns are apart."""
    if any(model.is_share for model in models.values()):
        return "\n\n".join(f"{name}:\n{coefficients_text(model)}" for name, model in models.items())
    return coefficients_text(next(iter(models.values())))


def proofs_text(models: Mapping[str, Model]) -> list[str]:
    """Return sentences on whose models these are, what is proven of them, and whose data they lack; each once.

    What is proven in standard errors is left to the table.
    """
    said: dict[str, list[str]] = {}
    for name, model in models.items():
        said.setdefault(_proof(model), []).append(name)
    return [f"{joined(names)} {_held([models[name] for name in names])}{proof}." for proof, names in said.items()]


def _held(models: Sequence[Model]) -> str:
    """Return words on what sites with these models hold: "hold the same model, to the last bit"."""
    verb = "holds" if len(models) == 1 else "hold"
    if models[0].is_share:
        return f"{verb} the coefficients of {'its' if len(models) == 1 else 'their'} columns"
    bits = {model.coef.tobytes() + np.asarray(model.intercept).tobytes() for model in models}
    same = "the same model, to the last bit" if len(bits) == 1 else "the same model, each its own estimate"
    return f"{verb} {'a model' if len(models) == 1 else same}"


def _proof(model: Model) -> str:
    """Return words on what is proven of a site's model, and whose data is missing in it, each after a comma or colon.

    What is proven in standard errors stands below the table already.
    """
    from glmesh.federation.node.training import without_text

    left_out = f", {without_text(model.sites, model.without)}" if model.without else ""
    if "standard_errors_off" in model.info:
        return left_out
    if model.info["status"] == "stationary":
        return f"{left_out}: a stationary point; no proof that it is the maximum"
    gap = float(model.info.get("relative_gap", float("nan")))
    return f"{left_out}: relative gap proven to be at most {gap:.1e}"
