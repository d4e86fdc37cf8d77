"""`glmesh topology NAME`: what a network looks like and how fast it mixes."""

import math
import sys
from argparse import Namespace

from glmesh import plot
from glmesh.cli.options import REACHED, Parser, add_network
from glmesh.cli.output import check_picture, check_writable, count, plain, rows
from glmesh.errors import InvalidNetwork
from glmesh.network import mixing, topology
from glmesh.network.mixing import Mixing

HELP = "draw a network and say how fast it mixes"
_DRAWN = 150  # [links] more are a blot in a terminal

DESCRIPTIONS = {
    "ring": "each node between two others",
    "path": "a ring that is cut open",
    "grid": "rows and columns, most square",
    "torus": "a grid with its edges glued",
    "complete": "everybody with everybody",
    "star": "everybody with node 0 only",
    "hypercube": "numbers differ in one bit",
    "exponential": "1, 2, 4, 8, ... places away",
    "2-cycle": "the 2 nearest each side (or k)",
    "3-cycle": "the 3 nearest each side",
    "random-regular": "random, 3 neighbours each",
    "random-3-regular": "the same (or another number)",
    "erdos-renyi": "random, link by link",
}


def add_options(parser: Parser) -> None:
    """Add the options and the help text of `glmesh topology` to its parser."""
    parser.describe(
        "Draw a network of nodes and print what matters for a run on it: a message travels along each link in both "
        "directions every round, and the disagreement between nodes shrinks by the factor beta with each exchange "
        "(Metropolis weights), so a large spectral gap 1 - beta means few rounds.",
        "glmesh topology list                   the names, compared",
        "glmesh topology torus --nodes 64",
        "glmesh topology random-4-regular --nodes 50 --seed 7 --plot network.png",
    )
    add = parser.add_argument
    add("name", metavar="NAME", help="a name, or `list` for all of them")
    add_network(parser)
    add("--plot", metavar="FILE", help="a larger drawing, as .png, .pdf or .svg")


def run(options: Namespace) -> int:
    """Draw one network and print its figures, or print a table of all names; return the exit code."""
    check_picture("--plot", options.plot)
    check_writable({"--plot": options.plot})
    if options.name == "list":
        print(_table(options.nodes, options.seed))
        return REACHED

    graph = topology.build(options.name, options.nodes, options.seed)
    if 0 < graph.number_of_edges() <= _DRAWN:
        print(plot.graph(graph, ascii=plain(sys.stdout)), end="\n\n")
    print(f"{options.name}, {count(options.nodes, 'node')}\n")
    print(rows(_info(mixing.metropolis(graph), topology.diameter(graph), topology.EXACT_DIAMETER)))
    if options.plot:
        plot.topology(graph, path=options.plot, title=f"{options.name}, {count(options.nodes, 'node')}")
        print(f"\n  drawn in {options.plot}")
    return REACHED


def _info(weights: Mixing, diameter: int, exact: int) -> list[tuple[str, str]]:
    """Return pairs (name, text) on a network: neighbours, links, diameter and how fast it mixes.

    `weights` has the mixing matrix, `diameter` is in links; it is exact for up to `exact` nodes, else an upper bound.
    """
    degrees = weights.degrees
    low, high = int(degrees.min()), int(degrees.max())
    spread = "everywhere" if low == high else f"to {high}, {degrees.mean():.3g} on average"
    bound = "at most " if weights.n_nodes > exact else ""
    return [
        ("neighbours", f"{low} {spread}"),
        ("links", f"{weights.edges // 2:,}"),
        ("messages a round", f"{weights.edges:,} (one each way along every link)"),
        ("diameter", f"{bound}{diameter} (rounds until news has reached everybody)"),
        ("beta", f"{weights.beta:.6g} (disagreement times this, in each exchange)"),
        ("spectral gap", f"{weights.spectral_gap:.4g} (1 - beta)"),
        ("exchanges per digit", f"{_per_digit(weights.beta)} (until disagreement is a tenth)"),
    ]


def _per_digit(beta: float) -> str:
    """Return, as text, how many exchanges make disagreement ten times smaller: ln 10 / -ln beta, rounded up.

    beta is the second largest absolute eigenvalue of the mixing matrix, in [0, 1].
    """
    return f"{math.ceil(math.log(10) / -math.log(beta)) if beta > 1e-12 else 1:,}"


def _table(nodes: int, seed: int) -> str:
    """Return a table for people: name, links, diameter, spectral gap and description of each topology of `nodes` nodes.

    `seed` is that of random graphs.
    """
    form = "  {:<17}{:>8}{:>10}{:>10}  {}"
    lines = [form.format(f"{nodes:,} nodes", "links", "diameter", "1 - beta", "")]
    for name in topology.names():
        figures: list[object] = ["-"] * 3
        try:
            weights = mixing.metropolis(graph := topology.build(name, nodes, seed))
            figures = [f"{weights.edges // 2:,}", topology.diameter(graph), f"{weights.spectral_gap:.3g}"]
        except InvalidNetwork:  # a hypercube of 12 nodes, say
            pass
        lines.append(form.format(name, *figures, DESCRIPTIONS[name]))
    return "\n".join(line.rstrip() for line in lines)
