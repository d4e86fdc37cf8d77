"""`glmesh keys FOLDER NAME...`: a private certificate authority, and certificates for nodes."""

from argparse import Namespace
from pathlib import Path

from glmesh.cli.federation import needs_peers
from glmesh.cli.options import REACHED, Parser, whole

HELP = "make a private CA and the certificates of nodes"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh keys` to its parser."""
    parser.describe(
        "Make a private certificate authority in a folder, unless there is one, and a certificate and a key for each "
        "name. Keep ca.key where nobody else gets at it; give each site ca.crt and its own .crt and .key only.",
        "glmesh keys keys alice bob carol",
        "glmesh keys keys dave --days 90",
    )
    parser.add_argument("folder", metavar="FOLDER", help="folder of the files, which is made if missing")
    parser.add_argument("names", metavar="NAME", nargs="*", help="name of a node: small letters, digits, hyphens")
    parser.add_argument(
        "--days", type=whole(1), metavar="N", help="days that the new certificates are good for (default 397)"
    )


def run(options: Namespace) -> int:
    """Write keys and certificates, print each certificate's expiry and fingerprint; return the exit code."""
    needs_peers()
    from glmesh.federation.config import keys

    made = keys.make(Path(options.folder), options.names, days=options.days or keys.NODE_DAYS)
    for path in made:
        if path.suffix == ".crt":
            content = path.read_bytes()
            print(f"{path}  until {keys.expiry(content):%Y-%m-%d}  {keys.fingerprint(content)}")
    return REACHED
