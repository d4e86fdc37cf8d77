"""`local-passes`: the effect of kappa, the passes over a node's data in each round."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from glmesh.bench import Reference, Trace, Watch, reference
from glmesh.bench.data import DataSet
from glmesh.bench.draw import Panel
from glmesh.methods import Cola
from glmesh.paper.experiment import NETWORK, NODES, Claim, Findings, Settings, common_goal, cost, falls, told
from glmesh.problem import Problem

LAMBDA = 1e-6  # per sample, as in the paper


@cache
def weak_lasso(settings: Settings) -> tuple[DataSet, Problem, Reference]:
    """Return (data set, problem, proven optimum) of the Lasso on RCV1 with a small penalty, lambda = 1e-6 per sample.

    The experiments `local-passes` and `topologies` share it.
    """
    data = settings.load("rcv1")
    problem = Problem.glm(data.X, data.y, penalty="l1", alpha=LAMBDA * len(data.y))
    return data, problem, reference(problem, tol=1e-7, max_rounds=settings.pick(200, 300))


def local_passes(settings: Settings) -> Findings:
    """Compare the published CoLA with kappa = 1, 2, 4, ... passes over a node's data a round; return the findings."""
    data, problem, best = weak_lasso(settings)
    kappas = (1, 4, 16, 64) if settings.quick else (1, 2, 4, 8, 16, 32)
    watch = Watch(max_communications=settings.pick(300, 250))
    traces = [
        settings.follow(problem, replace(Cola.printed(), local_passes=kappa), best, watch, f"κ = {kappa}")
        for kappa in kappas
    ]
    about = (
        f"Lasso, λ = {LAMBDA:g} per sample (that is, 1/2 |Xw - y|² + λm |w|₁ over m = {len(data.y):,} samples), "
        f"{data.name} ({data.source}), ring of {NODES}, printed CoLA, by features. Seconds are on the virtual clock: "
        f"{NETWORK.bandwidth / 1e6:.0f} MB/s, {1e3 * NETWORK.latency:g} ms, {NETWORK.nonzeros_per_second:g} nonzeros a "
        f"second. The optimum is proven to {best.gap / (best.start - best.objective):.0e} of the start."
    )
    panel = Panel("local-passes", "local passes κ: rounds, and seconds", traces, x=("round", "seconds"))
    return Findings("local-passes", "Local passes", about, verdicts(kappas, traces), [panel])


def verdicts(kappas: Sequence[int], traces: Sequence[Trace]) -> list[Claim]:
    """Return two verdicts on local passes: more of them need fewer rounds, and a middle number the least time.

    traces[i] is of the run that makes kappas[i] passes over a node's data in each round.
    """
    goal = common_goal(traces)
    rounds = [cost(trace, goal, "round") for trace in traces]
    seconds = [cost(trace, goal, "seconds") for trace in traces]
    ends = [trace.last["of_start"] for trace in traces]
    quickest = int(np.argmin(seconds))
    listed = ", ".join(
        f"κ = {k}: {told(r)} rounds, {told(s)} s" for k, r, s in zip(kappas, rounds, seconds, strict=True)
    )
    return [
        Claim(
            "a larger κ always takes fewer rounds.",
            falls(rounds),
            f"To {goal:g} of the start: {listed}. At the end all are between {min(ends):.3g} and {max(ends):.3g}.",
        ),
        Claim(
            "at a fixed bandwidth time is a trade-off: neither the smallest κ nor the largest is the quickest.",
            0 < quickest < len(kappas) - 1,
            f"The quickest is κ = {kappas[quickest]}, of {kappas[0]} to {kappas[-1]}.",
        ),
    ]
