"""What a run is about, in the file about.json of a site's state folder, so that reports need no other file."""

import json
from dataclasses import asdict
from importlib.metadata import version
from typing import TypedDict

from glmesh.federation.config import Site
from glmesh.files.archive import write_text

FILE = "about.json"
_SECRET = ("salt", "links")  # keys of [network] that a report does not show: a key, and what `links` below says


class About(TypedDict):
    """Settings of a run and the members of its federation, as JSON; no addresses, no keys."""

    node: str  # name of the site
    federation: str  # name of the federation
    digest: str  # of the federation file
    members: list[str]  # names, in the order of the file
    late: list[str]  # names of the members that nobody waits for at the start
    links: list[tuple[str, str]]  # pairs of names
    masked: bool  # whether masks hide what a single site contributes
    disclosure: str  # sentences on what a neighbour can learn
    problem: dict[str, object]  # table [problem] of the federation file
    network: dict[str, object]  # table [network], without the salt
    rows: int | None  # of this site's own table; None: not read yet
    versions: dict[str, str]  # of packages, by name


def write_about(site: Site, rows: int | None) -> None:
    """Write about.json to a site's state folder; `rows` is the number of rows of its own table, None: not known."""
    federation = site.federation
    names = [member.name for member in federation.members]
    about: About = {
        "node": site.file.name,
        "federation": federation.name,
        "digest": federation.digest,
        "members": names,
        "late": [member.name for member in federation.members if member.late],
        "links": [(names[a], names[b]) for a, b in sorted(federation.graph.edges())],
        "masked": federation.is_masked,
        "disclosure": federation.disclosure,
        "problem": {key: _plain(value) for key, value in asdict(federation.problem).items()},
        "network": {key: value for key, value in asdict(federation.network).items() if key not in _SECRET},
        "rows": rows,
        "versions": {name: version(name) for name in ("glmesh", "numpy", "scipy", "numba", "grpcio")},
    }
    site.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_text(site.state / FILE, json.dumps(about))


def _plain(value: object) -> object:
    """Return the value as JSON can hold it: a number that is not finite becomes its text."""
    return str(value) if isinstance(value, float) and value - value != 0 else value
