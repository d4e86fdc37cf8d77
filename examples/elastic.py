"""A consortium of sixteen sites over a bad week: sites drop out, two come late, one leaves, data arrives.

python examples/elastic.py
"""

import numpy as np

from glmesh import Problem, Run, solve

rng = np.random.default_rng(0)
X, new = rng.normal(size=(120, 64)), rng.normal(size=(120, 4))
y = X[:, :6] @ rng.normal(size=6) + new @ [1.0, -1.0, 0.0, 0.5] + 0.1 * rng.normal(size=120)
plan = {
    "seed": 3,
    "random": [{"dropout": 0.3, "loss": 0.05}],
    "join": [{"node": 3, "round": 60}, {"node": 11, "round": 150}],
    "leave": [{"node": 6, "round": 220, "model": "reset"}],
    "partition": [{"groups": [list(range(8))], "from": 250, "until": 300}],
}


def new_features_arrive(run: Run) -> None:
    """Node 9 measures four more features from round 100 on."""
    if run.rounds == 100:
        run.add_columns(9, new)


result = solve(
    Problem.glm(X, y, penalty="l1", alpha=10.0),
    topology="torus",
    n_nodes=16,
    faults=plan,
    tol=1e-4,
    stop="certificate",
    callback=new_features_arrive,
)
print(result.message)
for event in result.events:
    gaps = f"{event.gap_before:.1e} -> {event.gap_after:.1e}"
    print(f"round {event.round}: {event.kind}, node {event.node}, local gap {gaps}")
title = "30 % dropout, 5 % loss, two joiners, a leaver, a partition, new data"
result.plot("elastic.png", title=title)
