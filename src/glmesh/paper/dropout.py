"""`dropout` and `dropout-reset`: nodes that take part in each round with probability p only."""

from __future__ import annotations

import numpy as np

from glmesh.bench import follow, reference
from glmesh.methods import Cola
from glmesh.paper.experiment import (
    NETWORK,
    NODES,
    Claim,
    Outcome,
    Panel,
    Settings,
    common_goal,
    cost,
    falls,
    rises,
    told,
)
from glmesh.problem.problem import Problem

LAMBDA = 1e-4
CHANCES = (0.5, 0.7, 0.9, 1.0)


def dropout(settings: Settings) -> Outcome:
    """Variables of a node that is away are frozen."""
    return _dropout(settings, "freeze")


def dropout_reset(settings: Settings) -> Outcome:
    """Variables of a node that goes are reset to zero, and its neighbours settle with it."""
    return _dropout(settings, "reset")


def _dropout(settings: Settings, model: str) -> Outcome:
    data = settings.load("url")
    problem = Problem.glm(data.X, data.y, alpha=LAMBDA * len(data.y))
    best = reference(problem, tol=1e-8, max_rounds=settings.pick(200, 500))
    traces = []
    for p in CHANCES:
        plan = {"seed": 1 + settings.seed, "random": [{"dropout": 1.0 - p, "model": model}]} if p < 1 else None
        traces.append(
            follow(
                problem,
                Cola.printed(),
                best,
                name=f"p = {p:g}",
                max_communications=settings.pick(250, 400),
                every_round=True,
                topology="ring",
                n_nodes=NODES,
                seed=settings.seed,
                faults=plan,
                network=NETWORK,
            )
        )
    frozen = model == "freeze"
    goal = common_goal(traces)
    rounds = [cost(trace, goal, "round") for trace in traces]
    up = {trace.name: rises(trace) for trace in traces}
    ends = ", ".join(f"{trace.name}: {trace.last['of_start']:.1e}" for trace in traces)
    listed = ", ".join(f"{trace.name}: {told(value)}" for trace, value in zip(traces, rounds, strict=True))
    if frozen:
        claims = [
            Claim(
                "for all p > 0 the suboptimality decreases monotonically.",
                max(up.values()) == 0.0,
                "Largest rise in a round, of the start: "
                + ", ".join(f"{name}: {value:.1e}" for name, value in up.items())
                + f". At the end: {ends}.",
            ),
            Claim(
                "a larger p converges faster.",
                falls(rounds),
                f"Rounds to {goal:g} of the start: {listed}.",
            ),
        ]
    else:
        steady, shaken = traces[-1], traces[:-1]
        oscillates = all(up[trace.name] > 0 for trace in shaken)
        slow = all(np.nanmin(trace.history["of_start"]) > steady.last["of_start"] for trace in shaken)
        claims = [
            Claim(
                "when variables are reset, it oscillates and does not converge fast.",
                bool(oscillates and slow),
                "Largest rise in a round, of the start: "
                + ", ".join(f"{name}: {value:.1e}" for name, value in up.items())
                + f". At the end: {ends}.",
            )
        ]
    about = (
        f"Ridge, λ = {LAMBDA:g} per sample, {data.name} ({data.source}), ring of {NODES}, printed CoLA, by features. "
        "A node takes part in a round with probability p; links to nodes that are away carry nothing, and their weight "
        "stays at both ends. "
        + ("Variables of a node that is away stay as they are." if frozen else "A node that goes loses its variables.")
    )
    name = "dropout" if frozen else "dropout-reset"
    title = "Dropout, frozen" if frozen else "Dropout, reset"
    return Outcome(name, title, about, claims, [Panel(name, title.lower(), traces, x=("round",))], used=[data])
