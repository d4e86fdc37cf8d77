"""`glmesh status NODE.toml`: a running node at a glance."""

import json
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from glmesh.cli.coefficients import coefficients_text
from glmesh.cli.federation import needs_peers
from glmesh.cli.options import REACHED, Parser
from glmesh.files import model_files

if TYPE_CHECKING:
    from glmesh.federation.monitor.history import Figures

HELP = "look at a node that runs, or how it ended"


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh status` to its parser."""
    parser.describe(
        "Ask a node that runs on this machine for its figures: rounds, gap, neighbours, bytes. Of a node that has "
        "ended, read in its state folder how it ended, whose data is in its model, and the coefficients.",
        "glmesh status alice.toml",
        "glmesh status alice.toml --json",
    )
    parser.add_argument("file", metavar="NODE.toml", help="the node file of the site")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(options: Namespace) -> int:
    """Print the figures of a node that runs on this machine, or how it ended; return the exit code."""
    needs_peers()
    from glmesh.federation.config import Site
    from glmesh.federation.monitor.screen import screen
    from glmesh.federation.monitor.server import ask, last_words

    site = Site.read(options.file)
    figures = ask(site)
    if figures is None:
        figures = last_words(site)
        text = "\n\n".join(filter(None, (ended_text(figures), model_text(figures, site.state / "model.npz"))))
    else:
        text = screen(figures, [], None, 120).rstrip()
    print(json.dumps(figures) if options.json else text)
    return REACHED


def model_text(figures: "Figures", path: Path) -> str:
    """Return the coefficients in a site's model file `path`, or the table; "" if the run that ended did not write it.

    A run wrote it if its outcome and sites are those in the file.
    """
    if not path.is_file():
        return ""
    model = model_files.load(path)
    if (model.info.get("status"), list(model.sites)) != (figures["outcome"], list(figures.get("sites", ()))):
        return ""
    share = "The coefficients of this site's columns:\n" if model.is_share else ""
    return f"{share}{coefficients_text(model)}\n\n{path}"


def ended_text(figures: "Figures") -> str:
    """Return a line on how a node ended, such as "alice: finished, certified 8.4e-08, without dora (3 of 4 sites)"."""
    from glmesh.federation.monitor.screen import proof_text, released_text
    from glmesh.federation.node.training import without_text

    good = figures["outcome"] in ("certified", "alone")
    proof = proof_text(figures, "certified {:.1e}")
    said = [f"finished, {proof}" if good and proof else figures["outcome"].replace("_", " ")]
    if figures.get("without"):
        said.append(without_text(figures["sites"], figures["without"]))
    released = f" Released: {released_text(figures)}." if "released" in figures else ""
    return f"{figures['node']}: {', '.join(said)}. {figures.get('why', '')}".rstrip() + released
