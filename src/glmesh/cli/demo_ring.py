"""`glmesh demo --ring`: sixteen nodes on a ring solve a Lasso, and prove that they did."""

import sys
from argparse import Namespace

import numpy as np

from glmesh import Problem, Status, plot, solve
from glmesh.cli.options import REACHED
from glmesh.cli.output import can_plot, check_picture, check_writable, plain
from glmesh.cli.progress import Progress
from glmesh.cli.train import exit_code
from glmesh.engine.result import Result
from glmesh.files import data_files
from glmesh.formatting import size
from glmesh.types import Matrix, Vector

_NODES, TOL, ROUNDS = 16, 1e-4, 20_000
_SHRINK = 10  # alpha, as a part of the smallest one that makes all coefficients zero


def run(options: Namespace) -> int:
    """Fit a Lasso over 16 nodes, print how it compares with scikit-learn's, draw; return the exit code."""
    draws = not options.no_plot and can_plot()
    if draws:
        check_picture("--out", options.out)
        check_writable({"--out": options.out})

    X, y = data_files.demo()
    alpha = float(np.abs(X.T @ y).max()) / _SHRINK
    print(
        f"{_NODES} nodes stand in a ring. Each holds {X.shape[1] // _NODES} of the {X.shape[1]} features of "
        f"{X.shape[0]} diabetes\npatients and talks to its two neighbours only. Together they fit a Lasso, and\n"
        f"stop when every node can prove that the objective is within {TOL:.2%} of the best.\n",
        flush=True,
    )
    progress = Progress(stop="certificate", tol=TOL, max_rounds=ROUNDS)
    result = solve(
        Problem.glm(X, y, penalty="l1", alpha=alpha),
        n_nodes=_NODES,
        topology="ring",
        stop="certificate",
        tol=TOL,
        max_rounds=ROUNDS,
        callback=progress,
        record_every=10,
    )
    progress.finish(result)
    if result.status is not Status.CERTIFIED:
        print(f"\n{result.status}")
        return exit_code(result)
    print(f"\n{_certificate(result)}\n\n{_comparison(result, X, y, alpha)}\n\n{_curve(result)}")
    if draws:
        plot.convergence(result.history, path=options.out, title="Lasso on a ring of 16 nodes", tol=TOL)
        print(f"\nThe same as a picture: {options.out}")
    elif not options.no_plot:
        print("\nNo picture, because matplotlib is missing: pip install 'glmesh[plot]'")
    print("Next: glmesh train --help")
    return REACHED


def _certificate(result: Result) -> str:
    """Return sentences for people on a run: the gap that the nodes proved, and the rounds and bytes that this took."""
    return (
        "Every node knows, from messages of its neighbours alone, that the objective\n"
        f"is within {result.gap:.3g} ({result.relative_gap:.4%}) of the best possible.\n"
        f"That took {result.rounds:,} rounds, and {size(result.bytes)} over the {_NODES} links.\n"
        "(The proof is about the optimiser on these rows; whether the data are right it\ncannot say.)"
    )


def _comparison(result: Result, X: Matrix, y: Vector, alpha: float) -> str:
    """Return a table for people: objective and nonzeros of the nodes' Lasso, and of scikit-learn's on pooled data.

    X has shape (m, p), y has shape (m,), alpha is the weight of the penalty as glmesh scales it.
    """
    from sklearn.linear_model import Lasso

    # scikit-learn divides the loss by the number of samples
    pooled = Lasso(alpha=alpha / len(y), fit_intercept=False, tol=1e-10, max_iter=100_000).fit(X, y).coef_
    best = result.problem.objective(pooled)
    largest = float(np.abs(pooled).max())
    form = "  {:<34} {:>14} {:>9}"
    return "\n".join(
        [
            form.format("", "objective", "nonzeros"),
            form.format("16 nodes, data apart", f"{result.objective:.4f}", int(np.count_nonzero(result.coef))),
            form.format("scikit-learn, data in one place", f"{best:.4f}", int(np.count_nonzero(pooled))),
            f"  So the nodes are {max(result.objective - best, 0):.2g} from the best (they promised at most "
            f"{result.gap:.3g}).\n"
            f"  Coefficients differ by at most {np.abs(result.coef - pooled).max():.2g}; the largest is {largest:.0f}.",
        ]
    )


def _curve(result: Result) -> str:
    """Return a plot made of text: the run's relative duality gap against communications."""
    history = result.history
    return plot.curve(
        history["communications"],
        history["gap"] / abs(history["objective"]),
        height=10,
        title="duality gap, relative to the objective",
        xlabel="communications",
        goal=TOL,
        ascii=plain(sys.stdout),
    )
