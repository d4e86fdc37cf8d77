"""`dropout` and `dropout-reset`: nodes that take part in each round with probability p only."""

from collections.abc import Sequence

import numpy as np

from glmesh.bench import Trace, Watch, reference
from glmesh.bench.draw import Panel
from glmesh.methods import Cola
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
from glmesh.problem import Problem

LAMBDA = 1e-4  # per sample, as in the paper
CHANCES = (0.5, 0.7, 0.9, 1.0)  # p, the probability that a node takes part in a round


def dropout(settings: Settings) -> Findings:
    """Follow the published CoLA when nodes are away at random and keep their variables; return the findings."""
    return _dropout(settings, "freeze")


def dropout_reset(settings: Settings) -> Findings:
    """Follow the published CoLA when nodes are away at random and lose their variables; return the findings."""
    return _dropout(settings, "reset")


def _dropout(settings: Settings, model: str) -> Findings:
    """Follow the published CoLA for each probability in CHANCES that a node takes part in a round; return the findings.

    `model` is "freeze" or "reset": nodes that are away keep their variables, or lose them.
    """
    data = settings.load("url")
    problem = Problem.glm(data.X, data.y, alpha=LAMBDA * len(data.y))
    best = reference(problem, tol=1e-8, max_rounds=settings.pick(200, 500))
    watch, traces = Watch(max_communications=settings.pick(250, 400), every_round=True), []
    for p in CHANCES:
        plan = {"seed": 1 + settings.seed, "random": [{"dropout": 1.0 - p, "model": model}]} if p < 1 else None
        traces.append(
            settings.follow(problem, Cola.printed(), best, watch, f"p = {p:g}", faults=plan),
        )
    frozen = model == "freeze"
    claims = _claims_of_freezing(traces) if frozen else [_claim_of_resetting(traces)]
    about = (
        f"Ridge, λ = {LAMBDA:g} per sample, {data.name} ({data.source}), ring of {NODES}, printed CoLA, by features. "
        "A node takes part in a round with probability p; links to nodes that are away carry nothing, and their weight "
        "stays at both ends. "
        + ("Variables of a node that is away stay as they are." if frozen else "A node that goes loses its variables.")
    )
    name = "dropout" if frozen else "dropout-reset"
    title = "Dropout, frozen" if frozen else "Dropout, reset"
    return Findings(name, title, about, claims, [Panel(name, title.lower(), traces, x=("round",))])


def _claims_of_freezing(traces: Sequence[Trace]) -> list[Claim]:
    """Return two verdicts on nodes that keep their variables while away: monotone decrease, and faster with a larger p.

    p is the probability that a node takes part in a round; `traces` has one Trace for each p, ascending.
    """
    goal = common_goal(traces)
    rounds = [cost(trace, goal, "round") for trace in traces]
    listed = ", ".join(f"{trace.name}: {told(value)}" for trace, value in zip(traces, rounds, strict=True))
    monotone = all(rises(trace) == 0.0 for trace in traces)
    return [
        Claim("for all p > 0 the suboptimality decreases monotonically.", monotone, _figures(traces)),
        Claim("a larger p converges faster.", falls(rounds), f"Rounds to {goal:g} of the start: {listed}."),
    ]


def _claim_of_resetting(traces: Sequence[Trace]) -> Claim:
    """Return the verdict on nodes that lose their variables while away: the error oscillates, and falls slowly.

    `traces` has one Trace for each probability p that a node takes part in a round, ascending; the last is p = 1.
    """
    *shaken, steady = traces
    oscillates = all(rises(trace) > 0 for trace in shaken)
    slow = all(np.nanmin(trace.history["of_start"]) > steady.last["of_start"] for trace in shaken)
    text = "when variables are reset, it oscillates and does not converge fast."
    return Claim(text, bool(oscillates and slow), _figures(traces))


def _figures(traces: Sequence[Trace]) -> str:
    """Return a sentence with each trace's largest rise of the error in a round, and its error at the end.

    The error is "of_start", the suboptimality relative to that at zero.
    """
    up = ", ".join(f"{trace.name}: {rises(trace):.1e}" for trace in traces)
    ends = ", ".join(f"{trace.name}: {trace.last['of_start']:.1e}" for trace in traces)
    return f"Largest rise in a round, of the start: {up}. At the end: {ends}."
