"""What a Result says of its run in words: model, method and network, and names of columns."""

from dataclasses import replace

from glmesh.engine.run import Run
from glmesh.methods.totals.likelihood.statistics import FitStatistics, term_names


def how_of(run: Run) -> tuple[tuple[str, str], ...]:
    """Return pairs (name, text): model, method with the accelerations that it took, network, and faults if planned."""
    spec, setup, where = run.problem.spec, run.nodes.setup, run.options.topology
    penalty = f"{spec.penalty_name}, alpha {spec.alpha:g}" if spec.alpha else "no penalty"
    intercept = ", with an intercept" if spec.fit_intercept else ""
    holds = "rows" if spec.split == "samples" or run.nodes.replicates else "columns"
    shape = f"{where}, " if isinstance(where, str) else ""
    links = f"{len(setup.links):,} link{'s' * (len(setup.links) > 1)}" if setup.links else ""
    said = [
        ("model", f"{spec.loss.name}, {penalty}{intercept}"),
        ("method", getattr(run.method, "name", type(run.method).__name__)),
        *(("", f"{name} from round {first:,}: {why}") for first, name, why in run.story),
        ("network", f"{shape}{run.n_nodes:,} nodes with {links}; each holds {holds}" if links else "one node alone"),
    ]
    return (*said, ("faults", "some were planned")) if not run.faults.is_empty else tuple(said)


def named_statistics(run: Run) -> FitStatistics | None:
    """Return what totals at the end of a fit say, its coefficients called as the columns are; None: there is nothing.

    Without names of columns the coefficients keep the names x0, x1, ...
    """
    statistics, names = run.nodes.statistics, run.problem.feature_names
    if not isinstance(statistics, FitStatistics):
        return None
    if names is None or len(statistics.fitted.names) != statistics.fitted.outputs * (len(names) + 1):
        return statistics
    classes = range(statistics.fitted.outputs) if statistics.fitted.outputs > 1 else ()
    return replace(statistics, fitted=replace(statistics.fitted, names=term_names(names, classes)))
