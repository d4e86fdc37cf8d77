"""Federations whose nodes are threads of this process, over real links on loopback: quick, and easy to look into."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from glmesh.cli.federation import needs_peers
from glmesh.errors import GlmeshError
from glmesh.federation.config import Federation, Member, NetworkPart, ProblemPart, Site, keys
from glmesh.federation.monitor.history import read_lines
from glmesh.federation.monitor.log import node_log
from glmesh.federation.node.process import Node
from glmesh.federation.node.training import Ending
from glmesh.files import model_files
from tests.cases import LIMIT
from tests.peers import free_ports

needs_peers()


@dataclass
class Loopback:
    """A federation in a folder; `run` makes one thread per site and waits for all."""

    folder: Path
    federation: Federation
    endings: dict[str, Ending] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)

    @staticmethod
    def make(
        folder: Path,
        files: Mapping[str, str],
        *,
        problem: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
        node: Mapping[str, Any] | None = None,
        data: Any = None,
        late: tuple[str, ...] = (),
    ) -> Loopback:
        """Write federation, keys, node files, and the data files whose contents are given by name of the site."""
        keys.make(folder / "keys", list(files))
        ports = free_ports(len(files))
        members = [
            Member(
                name,
                f"127.0.0.1:{port}",
                keys.fingerprint((folder / "keys" / f"{name}.crt").read_bytes()),
                name in late,
            )
            for name, port in zip(files, ports, strict=True)
        ]
        federation = Federation(
            "clinics",
            ProblemPart(**{"tol": 1e-7, "method": "gossip"} | dict(problem or {})),
            NetworkPart(**{"salt": "s", "topology": "complete", "meet_within": 200.0} | dict(network or {})),
            tuple(members),
            data,
        )
        made = Loopback(folder, federation)
        for name, content in files.items():
            made.write_node(name, federation, **(node or {}))
            if content:
                (folder / f"{name}.csv").write_text(content)
        return made

    def write_node(self, name: str, federation: Federation, **other: Any) -> None:
        """Write the node file of a site and its own copy of the federation file."""
        federation.write(self.folder / f"{name}.fed.toml")
        values = {
            "name": name, "federation": f"{name}.fed.toml", "data": f"{name}.csv", "certificate": f"keys/{name}.crt",
            "key": f"keys/{name}.key", "ca": "keys/ca.crt",
        } | other  # fmt: skip
        lines = (f"{key} = {json.dumps(value)}\n" for key, value in values.items())
        (self.folder / f"{name}.toml").write_text("".join(lines))

    def change(self, name: str, **problem: Any) -> None:
        """Give one site another federation file."""
        self.write_node(name, replace(self.federation, problem=replace(self.federation.problem, **problem)))

    def run(self, *names: str) -> None:
        """Run these nodes, or all, to their ends."""
        chosen = names or tuple(member.name for member in self.federation.members)
        threads = [threading.Thread(target=self._one, args=(name,), daemon=True) for name in chosen]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        assert not any(thread.is_alive() for thread in threads), "a node hangs"

    def _one(self, name: str) -> None:
        site = Site.read(self.folder / f"{name}.toml")
        site.state.mkdir(exist_ok=True)
        with node_log(name, site.state / "log.jsonl") as log:
            try:
                self.nodes[name] = Node(site, log)
                self.endings[name] = self.nodes[name].run()
            except GlmeshError as error:
                self.errors[name] = str(error)

    def said(self, name: str, event: str = "data") -> list[str]:
        """What a site's log says in events of this name."""
        entries = read_lines(self.folder / f"{name}.state" / "log.jsonl")
        return [entry.get("why", "") for entry in entries if entry["event"] == event]

    def model(self, name: str) -> model_files.Model:
        return model_files.load(self.folder / f"{name}.state" / "model.npz")


@contextmanager
def running(made: Loopback, *names: str) -> Iterator[threading.Thread]:
    """A thread in which these nodes, or all, run; it has ended when the context does."""
    thread = threading.Thread(target=made.run, args=names, daemon=True)
    thread.start()
    yield thread
    thread.join(LIMIT)
    assert not thread.is_alive()


@dataclass
class MeetingClock:
    """Takes the place of `time` in `glmesh.federation.node.meeting`, so that a test decides when time is up."""

    forward: float = 0.0  # [s]

    def time(self) -> float:
        return time.time() + self.forward

    def monotonic(self) -> float:
        return time.monotonic()
