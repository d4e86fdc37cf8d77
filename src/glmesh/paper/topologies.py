"""`topologies`: ring, 2- and 3-connected cycle, grid and complete graph."""

import numpy as np

from glmesh.bench import Watch
from glmesh.bench.draw import Panel
from glmesh.methods import Cola
from glmesh.network import mixing, topology
from glmesh.paper.experiment import (
    NODES,
    Claim,
    Findings,
    Settings,
    common_goal,
    cost,
    falls,
    rises,
    told,
)
from glmesh.paper.passes import LAMBDA, weak_lasso


def topologies(settings: Settings) -> Findings:
    """Compare the published CoLA on five graphs of 16 nodes, Lasso on RCV1; return the findings."""
    data, problem, best = weak_lasso(settings)
    graphs = {
        "ring": topology.ring(NODES),
        "2-connected cycle": topology.cycle(NODES, 2),
        "3-connected cycle": topology.cycle(NODES, 3),
        "grid": topology.grid(NODES),
        "complete": topology.complete(NODES),
    }
    betas = {name: mixing.metropolis(graph).beta for name, graph in graphs.items()}
    watch = Watch(max_communications=settings.pick(300, 400), consensus=True)
    traces = [
        settings.follow(problem, Cola.printed(), best, watch, f"{name}, β = {betas[name]:.3g}", topology=graph)
        for name, graph in graphs.items()
    ]
    goal = common_goal(traces)
    rounds = {name: cost(trace, goal, "round") for name, trace in zip(graphs, traces, strict=True)}
    by_beta = sorted(graphs, key=lambda name: betas[name])
    ordered = falls([rounds[name] for name in reversed(by_beta)])
    largest = max(rises(trace) for trace in traces)
    h_rises = max(rises(trace, "h") for trace in traces)
    listed = ", ".join(f"{name} (β = {betas[name]:.3g}): {told(rounds[name])}" for name in by_beta)
    claims = [
        Claim(
            "CoLA converges monotonically on all topologies.",
            largest == 0.0,
            f"Largest rise of the objective from one look to the next: {largest:.1e} of the start; "
            f"of H, for which theory promises none: {h_rises:.1e}.",
        ),
        Claim("a smaller β is faster.", ordered, f"Rounds to {goal:g} of the start: {listed}."),
    ]
    about = (
        f"Lasso, λ = {LAMBDA:g} per sample, {data.name} ({data.source}), {NODES} nodes, printed CoLA, by features, "
        f"Metropolis weights. The optimum is proven to {best.gap / (best.start - best.objective):.0e} of the start."
    )
    floor = max(1e-12, float(np.nan_to_num(best.gap / (best.start - best.objective))) * 0.1)
    panel = Panel("topologies", "five topologies", traces, x=("round",), floor=floor)
    return Findings("topologies", "Topologies", about, claims, [panel])
