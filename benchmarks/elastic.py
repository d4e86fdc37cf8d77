"""What elasticity costs: flow gossip beside plain gossip, and rounds under dropout and loss.

    python benchmarks/elastic.py

Seconds are the best of three, side by side in one run; rounds and bytes are exact.
"""

from __future__ import annotations

import time

import common
import numpy as np

from glmesh import Cola, Problem, Run, solve


def round_cost(problem: Problem, topology: str, n_nodes: int, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """(milliseconds, bytes) a round, by gossip."""
    runs = {
        kind: Run(problem, topology=topology, n_nodes=n_nodes, method=Cola(gossip=kind)) for kind in ("matrix", "flows")
    }
    best = dict.fromkeys(runs, np.inf)
    for run in runs.values():
        next(run)
    for _ in range(3):
        for kind, run in runs.items():
            began = time.perf_counter()
            for _ in range(rounds):
                next(run)
            best[kind] = min(best[kind], (time.perf_counter() - began) / rounds)
    return {kind: 1e3 * value for kind, value in best.items()}, {k: r.bytes / r.rounds for k, r in runs.items()}


def costs() -> str:
    """A round with flow gossip beside plain gossip, nothing failing."""
    rng, rows = np.random.default_rng(0), []
    for m, p, per_column, topology, n_nodes, rounds in (
        (2_000, 4_000, 20, "ring", 16, 60),
        (20_000, 40_000, 40, "ring", 16, 20),
        (20_000, 40_000, 40, "torus", 64, 10),
    ):
        X = common.sparse(m, p, per_column)
        problem = Problem.glm(X, rng.normal(size=m), penalty="l1", alpha=2.0)
        cost, sent = round_cost(problem, topology, n_nodes, rounds)
        name = f"Lasso {m:,} x {p:,}, {X.nnz:,} nonzeros"
        ratios = [f"{by['gossip'] / by['matrix']:.2f}" for by in (cost, sent)]
        rows.append([name, f"{topology}, {n_nodes}", f"{cost['matrix']:.2f}", f"{cost['gossip']:.2f}", *ratios])
    return common.table(["problem", "network", "matrix, ms", "flows, ms", "ratio", "ratio of bytes"], rows)


def slowdowns() -> str:
    """Rounds under dropout and loss."""
    rng, rows = np.random.default_rng(0), []
    X = rng.normal(size=(400, 256))
    y = X[:, :20] @ rng.normal(size=20) + 0.1 * rng.normal(size=400)
    problem = Problem.glm(X, y, penalty="l1", alpha=40.0)
    for random in (
        {},
        {"dropout": 0.1},
        {"dropout": 0.3},
        {"dropout": 0.5},
        {"loss": 0.01},
        {"loss": 0.05},
        {"loss": 0.2},
        {"links": 0.3},
        {"dropout": 0.3, "loss": 0.05, "delay": 0.05},
    ):
        plan = {"seed": 1, "random": [random]} if random else None
        row = [", ".join(f"{name} {100 * share:g} %" for name, share in random.items()) or "none"]
        for stop in ("gap", "certificate"):
            result = solve(
                problem,
                topology="torus",
                n_nodes=16,
                faults=plan,
                stop=stop,
                tol=1e-4,
                max_rounds=50_000,
                record_every=10,
            )
            row += [f"{result.rounds:,}", f"{result.bytes / 1e6:.1f}"]
        rows.append(row)
    return common.table(["faults", "rounds, gap", "MB", "rounds, certificate", "MB"], rows)


def main() -> None:
    """Writes the report."""
    common.write(
        "elastic",
        f"""# What elasticity costs

{common.machine()}

## A round with flow gossip beside plain gossip, nothing failing

{costs()}

## Rounds and bytes to a relative gap of 1e-4, measured and certified

Lasso 400 x 256 (dense), 16 nodes on a torus. dropout: nodes away each round, frozen. loss: messages lost one way.
links: links that fail both ways. delay: messages that are late.

{slowdowns()}
""",
    )


if __name__ == "__main__":
    main()
