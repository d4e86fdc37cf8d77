"""
A slow site, a thin link
========================

How long would it take? A virtual clock answers without a network: it counts what each node computes, what travels,
and who waits for whom. One slow site holds up all others, unless it may do less than they do; and which method is
quickest depends on how far apart the sites are and how much their lines carry.
"""

# %%
# A made-up Lasso over sixteen sites on a torus.
import numpy as np

import glmesh
from glmesh import Cola, Network, plot

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 128))
y = X[:, :8] @ rng.normal(size=8) + 0.5 * rng.normal(size=400)
problem = glmesh.Problem.glm(X, y, penalty="l1", alpha=40.0)


def run(network, **options):
    """Return (seconds on the virtual clock, relative gap) at every round."""
    options = {"acceleration": "none"} | options
    result = glmesh.solve(
        problem, method=Cola(**options), topology="torus", n_nodes=16, network=network, tol=1e-4, record_every=5
    )
    return result.history["seconds"], result.history["gap"] / result.history["objective"]


# %%
# A message takes a millisecond. In the second run one site computes some two thousand times more slowly than the
# others; in the third it is given five milliseconds a round and does as much as fits into them.
equal = Network(latency=1e-3, nonzeros_per_second=5e8)
slow = Network(latency=1e-3, nonzeros_per_second=[5e8] * 15 + [2e5])
runs = {
    "all alike": run(equal),
    "one is slow,\nall wait": run(slow),
    "one is slow,\nand does less": run(slow, time_budget=5e-3),
}

# %%
# What the lines carry: sites that are 10 ms apart, with less and less bandwidth. Exact sums send more and wait less
# often, momentum the other way round.
bandwidths = np.geomspace(1e4, 1e8, 7)
methods = {"as published": "none", "momentum": "momentum", "exact sums": "sums"}
needed = {
    name: [run(Network(latency=0.01, bandwidth=bandwidth), acceleration=method)[0][-1] for bandwidth in bandwidths]
    for name, method in methods.items()
}

# %%
# Above the first story, below the second.
figure, (above, below) = plot.subplots(2, height=7.0)
for name, (seconds, gap) in runs.items():
    (line,) = above.plot(seconds, gap, linewidth=2)
    at = np.argmax(gap < 3e-3)
    above.annotate(name, (seconds[at], gap[at]), (8, 0), textcoords="offset points", color=line.get_color())
above.axhline(1e-4, color=plot.COLOURS["ink"], linewidth=1, linestyle=(0, (5, 3)))
above.set(yscale="log", xlim=(0, 1.15), xlabel="seconds")
above.text(1.1, 1.2e-4, "goal", ha="right")
above.set_title("duality gap, relative", loc="left")
for name, seconds in needed.items():
    below.plot(bandwidths, seconds, label=name, marker="o", markersize=4, linewidth=2)
below.set(xscale="log", yscale="log", xlabel="bytes a second that a site can send")
below.set_xticks([1e5, 1e6, 1e7, 1e8], ["100 kB", "1 MB", "10 MB", "100 MB"])
below.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
below.set_title("seconds until the gap is 1e-4", loc="left")
for axes in (above, below):
    axes.minorticks_off()
plot.label_lines(below)
