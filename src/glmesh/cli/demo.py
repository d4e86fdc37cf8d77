"""`glmesh demo`: three hospitals as processes, one of which is killed; or a simulated ring, or files to try."""

from argparse import Namespace

from glmesh.cli import demo_files, demo_hospitals, demo_ring
from glmesh.cli.options import REACHED, Parser
from glmesh.errors import InvalidInput

HELP = "see it work: three hospitals, one model, and one of them is killed meanwhile"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh demo` to its parser."""
    parser.describe(
        "Three hospitals with tables of their own (invented patients; text, factors, gaps) fit one logistic "
        "regression: three processes on this machine that talk over TLS. One of them is killed while they do, and "
        "started again. The table they end with is compared with the fit to the pooled rows, and with what each "
        "hospital finds alone. The exit code is not 0 if anything is not as promised.",
        "glmesh demo",
        "glmesh demo --no-plot",
        "glmesh demo --files hospitals",
        "glmesh demo --ring",
    )
    add = parser.add_argument
    add("--out", default="glmesh-demo.png", metavar="FILE", help="file for the picture (default glmesh-demo.png)")
    add("--no-plot", action="store_true", help="draw no picture")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--ring", action="store_true", help="simulate 16 nodes on a ring instead, which fit a Lasso to "
        "the diabetes data of scikit-learn, each to its own features; needs no extras")  # fmt: skip
    what.add_argument("--files", metavar="DIR", help="do nothing but write the hospitals' tables there, alice.csv, "
        "bob.csv and carol.csv, for trying a federation")  # fmt: skip


def run(options: Namespace) -> int:
    """Run the demo that the options name; return the exit code."""
    if options.files is not None:
        return _files(options.files)
    return demo_ring.run(options) if options.ring else demo_hospitals.run(options)


def _files(folder: str) -> int:
    """Write the tables of three hospitals, and print what to do with them; return the exit code."""
    if not folder:
        raise InvalidInput("--files needs the name of a folder; it is made if missing")
    for path in demo_files.write(folder):
        print(f"{path}  {len(path.read_text().splitlines()) - 1} invented patients")
    there = [] if folder in (".", "./") else [f"cd {folder}"]
    lines = "\n".join(f"  {line}" for line in [*there, *demo_files.commands()])
    print(f"\nA federation of the three, on this machine:\n{lines}")
    return REACHED
