"""The node file: what one site knows beside the federation file.

name = "alice"
federation = "federation.toml"      # paths are relative to this file
data = "alice.csv"
target = "y"                        # column of a table that holds the labels; default: the last
ids = "patient"                     # column with the names of the rows, to compare them split by features
sample_weight = "w"                 # column with the sample weights; default: all are 1
index_base = 1                      # of svmlight text: index of the first column; default: that of the contract
certificate = "keys/alice.crt"
key = "keys/alice.key"
ca = "keys/ca.crt"
state = "alice.state"               # folder for checkpoints, logs, history and the model
listen = "127.0.0.1:7001"           # default: the address in the federation
status = 9101                       # loopback port for `glmesh status` and Prometheus; 0: any free one
checkpoint_every = 50               # rounds

[rules]                             # below which this site contributes to no total; these are the defaults
least_rows = 10                     # rows of this site
least_class = 5                     # rows of each class here, where there are any
least_clusters = 10                 # clusters here, below which nobody gets standard errors by clusters
most_columns = 0.33                 # coefficients per row
largest_share = 0.5                 # of one row in the trace of the Hessian, at every point
effective_rows = 5.0                # rows that the curvature is spread over, at every point
reveal_support = false              # true: losses with kinks, whose totals show single rows
small_changes = false               # true: a file in which few rows (or clusters) have changed since the last fit
most_vectors = 0                    # totals with a number per row, where sites hold columns; 0: no limit

[neighbours]                        # addresses that are others from here
bob = "10.0.0.7:7001"
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from glmesh.errors import InvalidInput
from glmesh.federation.config.federation import Federation
from glmesh.federation.config.keys import Identity, fingerprint
from glmesh.federation.config.tables import read_toml, typed


@dataclass(frozen=True)
class NodeFile:
    """Entries of a node file: where one site has its data, certificates and output; empty texts are defaults."""

    name: str  # of the member, as in the federation file
    federation: str  # path, relative to the node file; so are all others
    data: str  # path of the site's table
    certificate: str  # path of the node's certificate
    key: str  # path of its private key
    ca: str  # path of the authority's certificate
    target: str = ""  # column of a table with the labels; default: that of the contract, or the last
    ids: str = ""  # column with the names of the rows; default: that of the contract, or none
    sample_weight: str = ""  # column with the sample weights; default: that of the contract, or none
    index_base: int | None = None  # of svmlight text, 0 or 1; None: that of the contract, or 1 unless a 0 is used
    state: str = ""  # folder for all that the node writes; default: NAME.state
    listen: str = ""  # host:port; default: the address in the federation
    status: int = 0  # loopback port for figures; 0: any free one
    checkpoint_every: int = 50  # [rounds]


@dataclass(frozen=True)
class SiteRules:
    """Table [rules] of a node file: limits that a site's own data must keep before the site contributes to a total.

    Defaults are those of DataSHIELD (nfilter.glm 0.33) and vantage6 (10 rows, 5 of a class); the two about points
    let real data sets pass at every iterate and stop a member that steers towards one row.
    """

    least_rows: int = 10  # rows of the site
    least_class: int = 5  # rows of each class at the site, where there are any
    least_clusters: int = 10  # clusters of the site, below which the sum over clusters is made by nobody
    most_columns: float = 0.33  # coefficients, intercept included, per row of the site
    largest_share: float = 0.5  # of one row in the trace of the Hessian
    effective_rows: float = 5.0  # (sum h)^2 / sum h^2 over the rows' curvatures h
    reveal_support: bool = False  # whether losses with kinks are allowed, whose totals show rows at the kink
    small_changes: bool = False  # whether a file may differ by a few rows, columns or clusters from earlier fits
    most_vectors: int = 0  # totals with a number per row that the site adds to, where sites hold columns; 0: no limit


@dataclass(frozen=True)
class Site:
    """A node file with all that it refers to, read and checked: federation and certificates, but not the data."""

    file: NodeFile
    folder: Path  # of the node file
    federation: Federation
    identity: Identity  # certificate, key and authority
    me: int  # number of this node in the federation
    addresses: dict[int, str]  # host:port of each neighbour, as seen from here
    rules: SiteRules = SiteRules()

    @staticmethod
    def read(path: str | PathLike[str]) -> Site:
        """Read and check a node file and the federation file and certificates that it names.

        UnreadableFile or InvalidInput, which names what is wrong, is raised for files that cannot be used.
        """
        path = Path(path)
        tree = read_toml(path, "node")
        elsewhere = tree.pop("neighbours", {})
        if not isinstance(elsewhere, dict):
            raise InvalidInput(f"{path}: neighbours must be a table, [neighbours]")
        rules = typed(SiteRules, tree.pop("rules", {}), f"{path}, [rules]")
        file = typed(NodeFile, tree, str(path))
        if file.checkpoint_every < 1 or not 0 <= file.status < 1 << 16:
            raise InvalidInput(f"{path}: checkpoint_every must be >= 1 and status a port")
        if file.index_base not in (None, 0, 1):
            raise InvalidInput(f"{path}: index_base must be 0 or 1, got {file.index_base}")
        folder = path.resolve().parent
        federation = Federation.read(folder / file.federation)
        federation.check()
        me = federation.id_of(file.name)
        identity = Identity.read(folder / file.certificate, folder / file.key, folder / file.ca)
        shown, listed = fingerprint(identity.certificate), federation.members[me].fingerprint
        if shown != listed:
            raise InvalidInput(
                f"{file.certificate} has the fingerprint {shown}, but the federation lists {listed} for {file.name}; "
                "use the certificate that was listed, or have the new one listed by everybody"
            )
        member = federation.members[me]
        file = replace(file, state=file.state or f"{file.name}.state", listen=file.listen or member.address)
        addresses = {peer: federation.members[peer].address for peer in federation.neighbours(me)}
        for name, address in elsewhere.items():
            if (peer := federation.id_of(name)) in addresses:
                addresses[peer] = str(address)
        return Site(file, folder, federation, identity, me, addresses, rules)

    @property
    def state(self) -> Path:
        """Return the folder that the node writes to: checkpoint, log, history and model."""
        return self.folder / self.file.state

    @property
    def data(self) -> Path:
        """Return the path of the site's data file."""
        return self.folder / self.file.data
