"""The federation file: what is solved, who takes part, and who talks to whom. Every member holds the same.

name = "clinics"

[problem]                 # as Problem.from_nodes: loss, penalty, alpha, l1_ratio, split, fit_intercept
loss = "logistic"
penalty = "l2"
alpha = 1.0
split = "samples"
tol = 1e-6                # the relative gap to be proven
max_rounds = 100000

[network]
topology = "ring"         # over the members in their order, or "links" with links = [["alice", "bob"], ...]
seed = 0
wire = "float64"          # or "float32": half the bytes, and about six digits
gone_after = 600.0        # seconds without a sign of a member until its neighbours give it up
gone = "freeze"           # then its last share stays counted, or "reset": it does not

[[members]]
name = "alice"
address = "127.0.0.1:7001"
fingerprint = "sha256:..."
late = true               # the others do not wait for it at the start
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import networkx as nx
import numpy as np

from glmesh.core.block import NetworkInfo
from glmesh.errors import InvalidInput, InvalidNetwork, UnreadableFile, UnsuitablePair
from glmesh.federation.config.keys import check_name
from glmesh.files.archive import write_atomically
from glmesh.methods import Cola
from glmesh.network import mixing as mixing_module
from glmesh.network import topology as topology_module
from glmesh.network.mixing import Mixing
from glmesh.problem.spec import ProblemSpec
from glmesh.types import Indices

LINKS = "links"  # the topology that is listed link by link


@dataclass(frozen=True)
class ProblemPart:
    """What is solved, and how well."""

    loss: str = "squared"
    penalty: str = "l2"
    alpha: float = 1.0
    l1_ratio: float = 0.5
    split: str = "samples"
    fit_intercept: bool = False
    tol: float = 1e-6
    max_rounds: int = 100_000

    def model(self) -> ProblemSpec:
        """Checked, or refused by name."""
        if self.fit_intercept and self.split == "samples":
            raise UnsuitablePair(
                "an unpenalised intercept needs split='features' between peers; or add a column of ones to all data"
            )
        ratio = self.l1_ratio if self.penalty == "elasticnet" else None
        return ProblemSpec.of(self.loss, self.penalty, self.alpha, ratio, self.split, self.fit_intercept)


@dataclass(frozen=True)
class NetworkPart:
    """Who talks to whom, and how."""

    topology: str = "ring"
    links: list[list[str]] = field(default_factory=list)
    seed: int = 0
    wire: str = "float64"
    gone_after: float = 600.0
    gone: str = "freeze"


@dataclass(frozen=True)
class Member:
    """A site."""

    name: str
    address: str
    fingerprint: str
    late: bool = False


@dataclass(frozen=True)
class Federation:
    """What all members agree on."""

    name: str
    problem: ProblemPart
    network: NetworkPart
    members: tuple[Member, ...]

    @staticmethod
    def read(path: str | PathLike[str]) -> Federation:
        """From a file; what is wrong in it is named."""
        return Federation.of(read_toml(path, "federation"), str(path))

    @staticmethod
    def of(tree: Mapping[str, Any], where: str = "the federation") -> Federation:
        """From plain data."""
        check_keys(tree, ("name", "problem", "network", "members"), where)
        members = tree.get("members", [])
        if not isinstance(members, list):
            raise InvalidInput(f"{where}: members are tables, [[members]]")
        return Federation(
            str(tree.get("name", "federation")),
            typed(ProblemPart, tree.get("problem", {}), f"{where}, [problem]"),
            typed(NetworkPart, tree.get("network", {}), f"{where}, [network]"),
            tuple(typed(Member, one, f"{where}, member {k + 1}") for k, one in enumerate(members)),
        )

    def write(self, path: str | PathLike[str]) -> None:
        """As TOML, whole or not at all."""
        lines = [f"name = {toml_value(self.name)}", "", "[problem]", *_table(self.problem), "", "[network]"]
        lines += _table(self.network)
        for member in self.members:
            lines += ["", "[[members]]", *_table(member)]
        text = "\n".join(lines) + "\n"

        def write(stream: BinaryIO) -> None:
            stream.write(text.encode())

        write_atomically(path, write)

    def check(self) -> None:
        """Refuses what cannot run, and says what would do."""
        part, network = self.problem, self.network
        part.model()
        if not part.tol > 0 or part.max_rounds < 1:
            raise InvalidInput(f"tol must be > 0 and max_rounds >= 1, got {part.tol} and {part.max_rounds}")
        if network.wire not in ("float64", "float32"):
            raise InvalidInput(f"wire must be 'float64' or 'float32', got {network.wire!r}")
        if network.gone not in ("freeze", "reset") or not network.gone_after > 0:
            raise InvalidInput(
                f"gone must be 'freeze' or 'reset' and gone_after > 0, got {network.gone!r}, {network.gone_after}"
            )
        names = [check_name(member.name) for member in self.members]
        if len(names) < 2:
            raise InvalidInput(f"a federation has two members or more, this one has {len(names)}; add some")
        for what, values in (("name", names), ("fingerprint", [member.fingerprint for member in self.members])):
            twice = [value for value in values if values.count(value) > 1]
            if twice:
                raise InvalidInput(f"two members have the {what} {twice[0]}; each needs its own")
        _ = self.mixing
        present = np.array([not member.late for member in self.members])
        if not present.any():
            raise InvalidInput("all members are late; somebody has to begin")
        if mixing_module.among(self.mixing, present).consensus_gap <= 0:
            raise InvalidNetwork("those who are not late are not connected without those who are")

    def id_of(self, name: str) -> int:
        """A member's number: its place in the file."""
        for number, member in enumerate(self.members):
            if member.name == name:
                return number
        raise InvalidInput(f"{name!r} is no member; members are {', '.join(m.name for m in self.members)}")

    def entries(self) -> dict[str, str]:
        """All that members must agree on, key by key; addresses may differ from where one looks."""
        out: dict[str, str] = {}
        for title, part in (("problem", self.problem), ("network", self.network)):
            out |= {f"{title}.{one.name}": str(getattr(part, one.name)) for one in fields(part)}
        for number, member in enumerate(self.members):
            out[f"members.{number + 1}"] = f"{member.name} {member.fingerprint}{' late' if member.late else ''}"
        return out

    @cached_property
    def graph(self) -> nx.Graph:
        """Over 0..K-1, in the order of the members."""
        n, network = len(self.members), self.network
        if network.topology != LINKS:
            return topology_module.build(network.topology, n, network.seed)
        graph = nx.empty_graph(n)
        for link in network.links:
            if len(link) != 2:
                raise InvalidInput(f"a link has two ends, got {link}")
            graph.add_edge(self.id_of(link[0]), self.id_of(link[1]))
        return topology_module.build(graph, n, network.seed)

    @cached_property
    def mixing(self) -> Mixing:
        """Metropolis weights: they need nothing but degrees, and stay right when links fail."""
        return mixing_module.metropolis(self.graph)

    @property
    def members_at_start(self) -> Indices:
        """1 for those who take part from the start."""
        return np.array([0 if member.late else 1 for member in self.members], dtype=np.int64)

    def neighbours(self, node: int) -> list[int]:
        """Ascending."""
        return sorted(int(peer) for peer in self.graph.neighbors(node))

    def network_info(self) -> NetworkInfo:
        """What every node knows of the network: the simulator's, to the last bit."""
        diameter = topology_module.diameter(self.mixing.matrix)
        present = self.members_at_start.astype(bool)
        if not present.all():
            diameter = max(diameter, topology_module.diameter(mixing_module.among(self.mixing, present).matrix))
        return NetworkInfo.of(self.mixing, diameter, self.network.seed)

    def method(self) -> Cola:
        """Return CoLA with flow gossip, whose estimates survive lost messages."""
        return Cola(gossip="flows")


def difference(ours: Mapping[str, str], theirs: Mapping[str, Any]) -> str | None:
    """The first key that differs, with both values; None if none does."""
    for key in sorted({*ours, *theirs}):
        mine, other = ours.get(key), theirs.get(key)
        if mine != other:
            return f"{str(key)[:80]} is {mine!r:.200} here and {other!r:.200} there"
    return None


def read_toml(path: str | PathLike[str], what: str) -> dict[str, Any]:
    """A TOML file."""
    path = Path(path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnreadableFile(f"{path}: no such file; expected a {what} file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UnreadableFile(f"{path}: is no TOML ({error}); expected a {what} file") from None


def check_keys(tree: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    """Refuses keys that mean nothing."""
    for key in tree:
        if key not in known:
            raise InvalidInput(f"{where}: unknown key {key!r}; known are {', '.join(known)}")


def typed(kind: type[Any], tree: Any, where: str) -> Any:
    """A dataclass from plain data, its types checked; an int does for a float."""
    if not isinstance(tree, Mapping):
        raise InvalidInput(f"{where}: expected a table")
    check_keys(tree, tuple(one.name for one in fields(kind)), where)
    names = {"str": str, "float": float, "int": int, "bool": bool, "list[list[str]]": list}
    values = {}
    for one in fields(kind):
        if one.name not in tree:
            continue
        value, wanted = tree[one.name], names[str(one.type).removesuffix(" | None")]
        if wanted is float and type(value) is int:
            value = float(value)
        if type(value) is not wanted:
            raise InvalidInput(f"{where}: {one.name} must be a {wanted.__name__}, got {value!r}")
        values[one.name] = value
    try:
        return kind(**values)
    except TypeError as error:
        raise InvalidInput(f"{where}: {str(error).split('__init__() ')[-1]}") from None


def _table(part: Any) -> list[str]:
    return [f"{one.name} = {toml_value(getattr(part, one.name))}" for one in fields(part)]


def toml_value(value: Any) -> str:
    """As TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return repr(value)
