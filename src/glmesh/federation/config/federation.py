"""The federation file: what is solved, who takes part, and who talks to whom. Every member holds the same file.

name = "clinics"

[problem]                 # as Problem.from_nodes: loss, penalty, alpha, l1_ratio, split, fit_intercept
loss = "logistic"         # or family = "poisson", with link, theta, power, offset, exposure, time, event, cluster
penalty = "l2"
alpha = 1.0
split = "samples"
method = ""               # "totals": masked sums, the default split by samples; "gossip": the default split by features
formula = ""              # totals: "ill ~ age + C(ward)", response and terms; "": all columns are features
rare_levels = "refuse"    # formula: a level with under 5 rows over all sites ends the run; "merge" them, "drop" rows
missing = ""              # totals: rows with a missing value: "drop" (default with a formula), or "refuse" the site
reveal_sites = false      # formula: true allows columns that tell sites apart, such as C(site)
rare = "refuse"           # totals: a column with under 5 rows of one of its two values ends the run; "drop": without
cv = 0                    # totals: folds inside each site that choose alpha, which is 1 in the file then; 0: no folds
choose = "minimum"        # cv: the weight with the least loss of held-out rows, or "one_standard_error": the largest
                          # weight within one standard error of that
alphas = []               # cv: the weights to try; []: 20 that are computed
aligned = false           # true: split by features without names of rows, the rows stand in the same order everywhere
tol = 1e-6                # relative gap to be proven; tol_se: standard errors, of a family without a penalty
max_rounds = 100000

[network]
topology = "ring"         # over the members in their order, or "links" with links = [["alice", "bob"], ...]
seed = 0
wire = "float64"          # or "float32": half the bytes, and about six digits
gone_after = 600.0        # seconds without a sign of a member until its neighbours give it up
gone = ""                 # totals: "wait" for a member that is away (default), or go on "without" it after gone_after;
                          # gossip: "freeze", its share stays counted (default), or "reset": it does not
wait_at_most = 0.0        # totals: seconds after which a node stops to wait and ends; 0: never
reveal = false            # totals: true allows two members, of which each learns what the other contributes
refused = "end"           # a member whose data or file does not fit ends the run; "without": the others go on
meet_within = 600.0       # seconds to wait at the start for members that are not late
salt = "..."              # random text: key of the digest of row names, split by features

[data]                    # optional: what every site's file must have; without it sites agree when they meet
target = "ill"
labels = [0.0, 1.0]
[[data.columns]]
name = "age"
[[data.columns]]
name = "ward"
kind = "category"         # text, for formulas
levels = ["a", "b", "c"]  # in the order of the columns; without them sites agree on levels by masked counts
reference = "b"           # default: the first

[[members]]
name = "alice"
address = "127.0.0.1:7001"
fingerprint = "sha256:..."
late = true               # the others do not wait for it at the start
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from os import PathLike

import networkx as nx
import numpy as np
import tomli_w

from glmesh.contract import Contract
from glmesh.core import NetworkInfo
from glmesh.errors import InvalidInput, InvalidNetwork
from glmesh.federation.config.families import check_contract
from glmesh.federation.config.formulas import REVEALED_SITES, check_formula, formula_of, used
from glmesh.federation.config.keys import check_name
from glmesh.federation.config.problem import ProblemPart, check_folds
from glmesh.federation.config.tables import check_keys, read_toml, typed
from glmesh.federation.totals.masks import LARGEST_VIEW
from glmesh.files.archive import write_atomically
from glmesh.methods import Cola
from glmesh.network import Mixing
from glmesh.network import mixing as mixing_module
from glmesh.network import topology as topology_module
from glmesh.types import Indices

GONE = ("wait", "without", "freeze", "reset")  # what becomes of a member that stays away
# what a neighbour can learn from gossip, by split; docs/peers.md has the figures
_LEARNED = {
    "samples": "Gossip by rows is not masked: a neighbour reads sums over your rows in every round. It can tell who is "
    "among them, and compute the rows of a site that has few (docs/peers.md, What a neighbour can learn).",
    "features": "Gossip by features cannot be masked: a neighbour reads sums over your columns in every round. After "
    "as many rounds as you have columns it knows the space that they span; who also knows the values of a few more "
    "rows than you have columns can compute those of all rows (docs/peers.md, What a neighbour can learn).",
}
_MASKED = (
    "Totals are masked: members read sums over the rows of all sites and the model, and not what one site contributes "
    "(docs/peers.md, Masked totals)."
)
_MASKED_COLUMNS = (
    "Totals are masked: members read sums over the columns of all sites, one number per row and round, not what one "
    "site adds to them. After as many rounds as the other sites have columns together, a member knows the space that "
    "these span: who also knows the values of a few more rows than that can compute all of them, though not whose they "
    "are, and columns of 0 and 1 may be read off (docs/peers.md, Masked totals over columns)."
)
_REVEALED = "reveal = true: two sites make totals, so each learns what the other contributes (docs/peers.md)."
LINKS = "links"  # name of the topology that is listed link by link


@dataclass(frozen=True)
class NetworkPart:
    """Table [network] of a federation file: who talks to whom, in which precision, and when a member is given up."""

    topology: str = "ring"  # name of a graph over the members in their order, or LINKS
    links: list[list[str]] = field(default_factory=list)  # pairs of names, for the topology LINKS
    seed: int = 0  # of random graphs and of the certificate's random vector
    wire: str = "float64"  # or "float32": precision of the vectors in MAIL
    gone_after: float = 600.0  # [s] without a message until neighbours give a member up
    gone: str = ""  # "wait" or "without" (totals), "freeze" or "reset" (gossip); empty: the first of each
    wait_at_most: float = 0.0  # [s] that a node on totals waits for others before it ends; 0: without limit
    reveal: bool = False  # whether two members may make totals, which tell each what the other contributes
    refused: str = "end"  # a member that does not fit ends the run of all; "without": the others go on without it
    meet_within: float = 600.0  # [s] that members which are not late are waited for at the start
    salt: str = ""  # random text, with which the names of rows are digested; `glmesh federation init` draws it

    def check_meeting(self) -> None:
        """Raise InvalidInput if `refused` or `meet_within` is not allowed."""
        if self.refused not in ("end", "without") or not self.meet_within > 0:
            raise InvalidInput(
                f"refused must be 'end' or 'without' and meet_within > 0, got {self.refused!r}, {self.meet_within}"
            )


@dataclass(frozen=True)
class Member:
    """An entry of [[members]] in a federation file: one site, its address and its certificate's fingerprint."""

    name: str
    address: str  # host:port
    fingerprint: str  # sha256:... of its certificate
    late: bool = False  # the other members do not wait for it at the start


@dataclass(frozen=True)
class Federation:
    """Content of a federation file: the objective, the network and the members, on which all sites agree."""

    name: str  # of the federation
    problem: ProblemPart
    network: NetworkPart
    members: tuple[Member, ...]  # in the order of the file, which numbers them
    data: Contract | None = None  # what every site's file must have; None: sites agree on it when they meet

    @staticmethod
    def read(path: str | PathLike[str]) -> Federation:
        """Read a federation file; raise UnreadableFile or InvalidInput, which names what is wrong with it."""
        return Federation.of(read_toml(path, "federation"), str(path))

    @staticmethod
    def of(tree: Mapping[str, object], where: str = "the federation") -> Federation:
        """Return the Federation that the tables of a parsed TOML file describe; `where` names the file in errors.

        Raise InvalidInput for tables, keys or values that a federation file may not have. `tree` is the dict of tables.
        """
        check_keys(tree, ("name", "problem", "network", "data", "members"), where)
        members = tree.get("members", [])
        if not isinstance(members, list):
            raise InvalidInput(f"{where}: members are tables, [[members]]")
        data = tree.get("data")
        if data is not None and not isinstance(data, Mapping):
            raise InvalidInput(f"{where}: data must be a table, [data]")
        return Federation(
            str(tree.get("name", "federation")),
            typed(ProblemPart, tree.get("problem", {}), f"{where}, [problem]"),
            typed(NetworkPart, tree.get("network", {}), f"{where}, [network]"),
            tuple(typed(Member, one, f"{where}, member {k + 1}") for k, one in enumerate(members)),
            None if data is None else Contract.of(data, f"{where}, [data]"),
        )

    def write(self, path: str | PathLike[str]) -> None:
        """Write the federation to a TOML file; an error or a crash leaves the old file."""
        tree: dict[str, object] = {"name": self.name, "problem": asdict(self.problem), "network": asdict(self.network)}
        if self.data is not None:
            tree["data"] = self.data.to_dict()
        if self.members:
            tree["members"] = [asdict(member) for member in self.members]
        write_atomically(path, lambda stream: tomli_w.dump(tree, stream))

    def check(self) -> None:
        """Raise an error, which says what would do, if sites cannot train by this file."""
        self.check_settings()
        self._check_members()
        if self.by_columns:
            self.check_columns()
        self._check_moments()
        _ = self.mixing
        present = np.array([not member.late for member in self.members])
        if not present.any():
            raise InvalidInput("all members are late; somebody has to begin")
        if mixing_module.among(self.mixing, present).consensus_gap <= 0:
            raise InvalidNetwork("those who are not late are not connected without those who are")

    def check_settings(self) -> None:
        """Raise InvalidInput or UnsuitablePair if a value in [problem], [network] or [data] is not allowed."""
        part, network = self.problem, self.network
        part.model()
        if not part.tol > 0 or part.max_rounds < 1:
            raise InvalidInput(f"tol must be > 0 and max_rounds >= 1, got {part.tol} and {part.max_rounds}")
        if network.wire not in ("float64", "float32"):
            raise InvalidInput(f"wire must be 'float64' or 'float32', got {network.wire!r}")
        if network.gone not in ("", *GONE) or not network.gone_after > 0 or network.wait_at_most < 0:
            raise InvalidInput(
                f"gone must be one of {', '.join(map(repr, GONE))}, gone_after > 0 and wait_at_most >= 0, got "
                f"{network.gone!r}, {network.gone_after} and {network.wait_at_most}"
            )
        if network.gone in ("wait", "without") and not part.by_totals:
            raise InvalidInput(f"gone = {network.gone!r} is for method 'totals'; with gossip use 'freeze' or 'reset'")
        check_folds(part)
        check_formula(part, self.data)
        if part.method not in ("", "totals", "gossip") or part.rare not in ("refuse", "drop"):
            raise InvalidInput(
                f"method must be 'totals' or 'gossip' and rare 'refuse' or 'drop', got {part.method!r}, {part.rare!r}"
            )
        network.check_meeting()
        if self.data is not None and self.data.split != part.split:
            raise InvalidInput(f"[data] is for a split by {self.data.split}, [problem] has a split by {part.split}")
        if self.data is not None:
            check_contract(part, self.data)

    def check_columns(self) -> None:
        """Raise InvalidInput if members of a federation on totals over columns might change.

        Two sets of members have totals whose difference gives the columns of a site away, at whatever points they are
        made; so all take part from the beginning to the end.
        """
        if why := self._may_change:
            raise InvalidInput(
                f"{why}, and totals over columns are for sites that all take part from the beginning: the totals of "
                "two sets of members give away the columns of the site in which they differ; write gone = 'wait', "
                "refused = 'end' and no late member, or method = 'gossip' into [problem]"
            )

    def _check_moments(self) -> None:
        """Raise InvalidInput if members might change, and the formula needs moments, whose difference is one site's."""
        part = self.problem
        if not part.formula or part.reveal_sites or not (why := self._may_change):
            return
        codes = [code for code, one in formula_of(part.formula).factors.items() if one.standardised]
        if codes:
            raise InvalidInput(
                f"{why}, and the formula has {codes[0]}: the means of two sets of members give away that of the site "
                "in which they differ; write gone = 'wait', refused = 'end' and no late member, numbers that all agree "
                "on, I((x - 50) / 10), or reveal_sites = true if all sites agree to that"
            )

    @property
    def _may_change(self) -> str:
        """Return words on why members may be left out or come late; "" if all take part from beginning to end."""
        late = [member.name for member in self.members if member.late]
        if self.gone == "without":
            return "gone = 'without' would leave a site out"
        if self.network.refused == "without":
            return "refused = 'without' would leave a site out"
        return f"{late[0]} is late" if late else ""

    def _check_members(self) -> None:
        """Raise InvalidInput unless there are at least two members, and no two have the same name or fingerprint."""
        names = [check_name(member.name) for member in self.members]
        if len(names) < 2:
            raise InvalidInput(f"a federation has two members or more, this one has {len(names)}; add some")
        for what, values in (("name", names), ("fingerprint", [member.fingerprint for member in self.members])):
            twice = [value for value in values if values.count(value) > 1]
            if twice:
                raise InvalidInput(f"two members have the {what} {twice[0]}; each needs its own")
        if self.problem.by_totals and len(names) > LARGEST_VIEW:
            raise InvalidInput(
                f"{len(names)} sites are too many for masked totals, of which every two share a key: at most "
                f"{LARGEST_VIEW}; let some join their data, or write method = 'gossip' into [problem]"
            )
        if self.problem.by_totals and not self.network.reveal and len(names) < 3:
            raise InvalidInput(
                "two sites are too few: each would learn from the total what the other contributes; add a third, or "
                "write reveal = true into [network] if both may know"
            )

    @property
    def contract(self) -> Contract | None:
        """Return what every site's file must have: [data], with a formula only the columns that it names."""
        return used(self.problem, self.data)

    @property
    def gone(self) -> str:
        """Return the word for what becomes of a member that stays away.

        With totals it is "wait" (the default) or "without"; with gossip it is "freeze", its share stays counted (the
        default split by features), or "reset", its share is dropped (the default split by samples).
        """
        if not self.problem.by_totals:
            return self.network.gone or ("freeze" if self.problem.split == "features" else "reset")
        return "without" if self.network.gone == "without" else "wait"

    def remarks(self) -> list[str]:
        """Return a sentence on each setting of the file that is read as another value; mostly an empty list."""
        if self.problem.by_totals and self.network.gone in ("freeze", "reset"):
            return [f"gone = {self.network.gone!r} is for gossip; with totals it is read as 'wait'"]
        return []

    def id_of(self, name: str) -> int:
        """Return the number of the member with this name, its place in the file from 0.

        Raise InvalidInput if there is none.
        """
        names = [member.name for member in self.members]
        if name not in names:
            raise InvalidInput(f"{name!r} is no member; members are {', '.join(names)}")
        return names.index(name)

    def entries(self) -> dict[str, str]:
        """Return {key: text} of all settings that members must agree on.

        A key is such as "problem.alpha" or "members.1". Addresses are left out, since they may differ by site. A node
        tells the settings to neighbours that have not shown yet that they know them, so the salt is in them as a
        digest.
        """
        out: dict[str, str] = {}
        for title, part in (("problem", self.problem), ("network", self.network)):
            out |= {f"{title}.{one.name}": str(getattr(part, one.name)) for one in fields(part)}
        out["network.salt"] = hashlib.blake2b(self.network.salt.encode(), digest_size=8).hexdigest()
        for key, value in ({} if self.data is None else self.data.to_dict()).items():
            rows = enumerate(value, 1) if key == "columns" else [("", value)]
            out |= {f"data.{key}.{k}".rstrip("."): json.dumps(one, sort_keys=True) for k, one in rows}
        for number, member in enumerate(self.members):
            out[f"members.{number + 1}"] = f"{member.name} {member.fingerprint}{' late' if member.late else ''}"
        return out

    @property
    def digest(self) -> str:
        """Return 32 bytes of BLAKE2b over all settings of `entries`, as 64 hexadecimal digits."""
        return hashlib.blake2b(json.dumps(self.entries(), sort_keys=True).encode(), digest_size=32).hexdigest()

    def without(self, nodes: Collection[int]) -> Federation:
        """Return a copy in which the members with these numbers are late, so that nobody waits for or counts them.

        InvalidInput or InvalidNetwork is raised if those that are left cannot train together.
        """
        if not nodes:
            return self
        members = [replace(one, late=one.late or k in nodes) for k, one in enumerate(self.members)]
        left = [member.name for member in members if not member.late]
        if len(left) < 2:
            raise InvalidInput(f"{' and '.join(left) or 'nobody'} would be left, and two sites or more are needed")
        made = replace(self, members=tuple(members))
        if mixing_module.among(made.mixing, made.members_at_start.astype(bool)).consensus_gap <= 0:
            raise InvalidNetwork(
                f"{', '.join(left)} would be left, who are not connected without the others; list more links"
            )
        return made

    @cached_property
    def graph(self) -> nx.Graph:
        """Return the communication graph of the members; its nodes are the members' numbers, from 0."""
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
        """Return the Metropolis weights W of the links: they depend on degrees only and stay right when links fail."""
        return mixing_module.metropolis(self.graph)

    @property
    def members_at_start(self) -> Indices:
        """Return the counter of each member in the membership view at the start: 1, a member, or 0 if it is late."""
        return np.array([0 if member.late else 1 for member in self.members], dtype=np.int64)

    def neighbours(self, node: int) -> list[int]:
        """Return the numbers of the neighbours of member `node` in the graph, ascending."""
        return sorted(int(peer) for peer in self.graph.neighbors(node))

    def network_info(self) -> NetworkInfo:
        """Return what every node knows of the network before round 0, with the same bits as in a simulation."""
        diameter = topology_module.diameter(self.mixing.matrix)
        present = self.members_at_start.astype(bool)
        if not present.all():
            diameter = max(diameter, topology_module.diameter(mixing_module.among(self.mixing, present).matrix))
        return NetworkInfo.of(self.mixing, diameter, self.network.seed)

    @property
    def hands_over(self) -> bool:
        """Return whether a member leaves what its data adds to A x with a neighbour, who counts it if it is lost.

        A x is the data matrix by columns times the variables. Split by samples no member does so: what it adds is a sum
        over its rows, with which the neighbour could tell who is among them.
        """
        return self.problem.split == "features" and self.gone == "freeze"

    @property
    def disclosure(self) -> str:
        """Return sentences on what a neighbour can learn of a site's data from its messages."""
        if not self.problem.by_totals:
            return _LEARNED[self.problem.split]
        sites = f" {REVEALED_SITES}" if self.problem.reveal_sites else ""
        masked = _MASKED_COLUMNS if self.by_columns else _MASKED
        return f"{masked if self.is_masked else _REVEALED}{sites}"

    @property
    def revealed(self) -> str:
        """Return sentences on what masks do not hide: that of two sites each learns the other's, or columns by site.

        "" if masks hide what a single site contributes.
        """
        two = _REVEALED if self.problem.by_totals and not self.is_masked else ""
        return f"{two} {REVEALED_SITES if self.problem.reveal_sites else ''}".strip()

    @property
    def by_columns(self) -> bool:
        """Return whether sites hold columns of the same rows and make totals over these."""
        return self.problem.by_totals and self.problem.split == "features"

    @property
    def is_masked(self) -> bool:
        """Return whether masks hide what a single site contributes from all other members."""
        return self.problem.by_totals and not (self.network.reveal and len(self.members) < 3)

    def method(self) -> Cola:
        """Return the method that all sites gossip by: CoLA with flow gossip, which survives lost messages."""
        return Cola(gossip="flows")


def difference(ours: Mapping[str, str], theirs: Mapping[str, object]) -> str | None:
    """Return a text with the first key in which two dicts of `Federation.entries` differ, and its two values.

    None: they are equal. `ours` is this node's, `theirs` that of another.
    """
    for key in sorted({*ours, *theirs}):
        mine, other = ours.get(key), theirs.get(key)
        if mine != other:
            return f"{str(key)[:80]} is {mine!r:.200} here and {other!r:.200} there"
    return None
