"""
A bad week
==========

Sixteen sites on a torus. In any round three in ten of them are away and every twentieth message is lost; two sites
come late, one leaves for good, and for a while the network is cut in two. The run goes on, knows all the time how
good its answer is at most, and ends when every site can prove that it is good enough.
"""

# %%
# The week as a plan: plain data, which a simulation takes and a TOML file can hold.
import numpy as np

import glmesh
from glmesh import plot

plan = {
    "seed": 3,
    "random": [{"dropout": 0.3, "loss": 0.05}],
    "join": [{"node": 3, "round": 60}, {"node": 11, "round": 150}],
    "leave": [{"node": 6, "round": 220, "model": "reset"}],
    "partition": [{"groups": [list(range(8))], "from": 250, "until": 300}],
}

# %%
# A Lasso on made-up data. Node 9 measures four more features from round 100 on: data may change while all learn.
rng = np.random.default_rng(0)
X, new = rng.normal(size=(120, 64)), rng.normal(size=(120, 4))
y = X[:, :6] @ rng.normal(size=6) + new @ [1.0, -1.0, 0.0, 0.5] + 0.1 * rng.normal(size=120)


def new_features_arrive(run):
    """Give node 9 four more columns when round 100 is done."""
    if run.rounds == 100:
        run.add_columns(9, new)


problem = glmesh.Problem.glm(X, y, penalty="l1", alpha=10.0)
options = {"topology": "torus", "n_nodes": 16, "tol": 1e-4, "callback": new_features_arrive, "record_every": 3}
result = glmesh.solve(problem, faults=plan, stop="certificate", **options)
print(result.message)
for event in result.events:
    print(f"round {event.round}: {event.kind}, node {event.node}")

# %%
# Above, who was there: a row for each node, white while it is no member, pale where it was away. Below, what can
# still be gained: arrivals bring work, and the gap jumps; then it falls again, through all that goes wrong.
figure, (above, below) = plot.subplots(2, height=6.4, sharex=True, gridspec_kw={"height_ratios": [1, 1.4]})
blue, orange, green, ink = (plot.COLOURS[name] for name in ("blue", "orange", "green", "ink"))
end = result.rounds
away = result.presence[: end - end % 7].reshape(-1, 7, 16).mean(axis=1)  # seven rounds are a pixel
above.imshow(away.T, aspect="auto", cmap="Blues", vmin=0, vmax=1.3, extent=(0, end - end % 7, 15.5, -0.5))
above.grid(visible=False)
above.set(yticks=[3, 6, 9, 11], yticklabels=["node 3", "node 6", "node 9", "node 11"])
above.set_title("who was there", loc="left")

gap = result.history["gap"] / result.history["objective"]
known = np.isfinite(result.history["certificate"])
proven = (result.history["certificate"] / result.history["objective"])[known]
below.axvspan(250, 300, color=plot.COLOURS["sky"], alpha=0.25, linewidth=0)
below.plot(result.history["round"], gap, color=blue, linewidth=1.8)
below.scatter(result.history["round"][known], proven, color=orange, s=22, zorder=4, clip_on=False)
below.axhline(1e-4, color=green, linewidth=1.2, linestyle=(0, (5, 3)))
below.text(20, 0.7e-4, "goal", color=green, va="top")
below.text(600, 0.2, "proven by all sites", color=orange)
below.text(330, 4e-3, "duality gap", color=blue, ha="right")
for at, what, height in ((60, "3 joins", 40), (100, "9 has new data", 13), (150, "11 joins", 40), (220, "6 leaves", 4)):
    below.plot([at, at], [0.2, height], color=ink, linewidth=0.7)
    below.text(at + 6, height, what, fontsize=9, va="top")
below.text(306, 40, "two halves\ncut off", fontsize=9, va="top")
below.set(yscale="log", ylim=(2e-6, 60), xlim=(0, end), xlabel="rounds")
below.set_title("relative to the objective", loc="left")
below.minorticks_off()
