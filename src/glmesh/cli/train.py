"""`glmesh train DATA`: fit a model over a simulated network, or the ranks of a cluster, and save it."""

import json
import sys
from argparse import Namespace
from dataclasses import asdict
from math import isfinite
from typing import NamedTuple, TypedDict

import networkx as nx
import numpy as np

from glmesh import Cola, Network, Problem, Status, __version__, plot, solve
from glmesh.cli import cluster
from glmesh.cli.coefficients import coefficients_text
from glmesh.cli.failures import (
    EVERY,
    checkpoint_output,
    checkpoint_text,
    make_checkpoint,
    plan_text,
    read_plan,
    rounds_done,
    told,
)
from glmesh.cli.models import MODELS, ModelChoice, choose, completed, loss_text
from glmesh.cli.options import INTERRUPTED, OUT_OF_ROUNDS, REACHED, changed
from glmesh.cli.output import check_picture, check_writable, count, rows, write_history
from glmesh.cli.predict import score
from glmesh.cli.progress import Progress, certified
from glmesh.cli.train_data import RowsRead, read
from glmesh.cli.train_options import RECORD_EVERY, add_options
from glmesh.contract import Contract
from glmesh.contract.fitting import spoken
from glmesh.core import AnyMethod
from glmesh.core.block import NetworkInfo
from glmesh.display.overview import LARGEST
from glmesh.engine.result import Result
from glmesh.engine.scatter import scatter, shape_of
from glmesh.errors import InvalidInput
from glmesh.files.model_files import Model
from glmesh.formatting import duration, rounded_up, rows_text, size
from glmesh.formulas import Design
from glmesh.formulas.tables import raw_contract
from glmesh.functions import Loss
from glmesh.methods import MaximumLikelihood
from glmesh.methods.totals.likelihood.statistics import FitStatistics
from glmesh.network import Plan, topology
from glmesh.parallel import SINGLE_PROCESS, ProcessGroup
from glmesh.problem import ProblemSpec, Split
from glmesh.types import Indices, Labels, SampleMatrix

__all__ = ["HELP", "add_options", "exit_code", "run"]

Shape = tuple[int, int, int | None]  # samples, features and, if sparse, nonzeros

HELP = "fit a model to a data file, over a simulated network"


def run(options: Namespace) -> int:
    """Fit a model to a data file, in this process or on the ranks of an MPI program; return the exit code."""
    if options.weights is not None:
        print("glmesh: warning: --weights is now --mixing; the old name goes in the next release", file=sys.stderr)
        options = changed(options, mixing=options.weights)
    if options.runtime == "mpi" or cluster.launched() > 1:
        return cluster.run(options, train)
    return train(options, SINGLE_PROCESS)


class SimulatedNetwork(NamedTuple):
    """The network that a fit is spread over: its graph, its clock if it has one, and what fails in it."""

    graph: nx.Graph
    clock: Network | None  # None: seconds are those of this machine
    plan: Plan | None  # the fault plan; None: nothing fails

    @staticmethod
    def of(options: Namespace) -> "SimulatedNetwork":
        """Return the network that the options describe; raise InvalidInput if the fault plan does not fit it."""
        graph = _graph(options)
        given = {"latency": options.latency, "bandwidth": options.bandwidth}
        clock = {name: value for name, value in given.items() if value is not None}
        return SimulatedNetwork(graph, Network(**clock) if clock else None, read_plan(options, graph))


def _graph(options: Namespace) -> nx.Graph:
    """Return the graph of the options --topology, --nodes and --seed."""
    return topology.build(options.topology, options.nodes, options.seed)


def train(options: Namespace, processes: ProcessGroup) -> int:
    """Check the options, read the data, fit; the first process writes and prints. Return the exit code."""
    first = processes.rank == 0
    if first:
        _check_outputs(options)
    _check_what_to_fit(options)
    options = completed(options)
    choice = choose(options)
    network = SimulatedNetwork.of(options)
    done = rounds_done(options) if first else None

    _tell(options, f"Reading {options.data}")
    rows_read = _rows(options, processes, choice)
    options = _as_data_say(options, choice, rows_read)
    if choice.loss.compares_rows:
        network = network._replace(graph=_graph(options))
    shape, info = shape_of(rows_read.X, processes), NetworkInfo.of_graph(network.graph, options.seed)
    objective = _objective(options, choice)
    split, why = choice.split_of(lambda one: ProblemSpec.of(**objective, split=one), shape[:2], info, network.clock)
    problem = _problem(options, objective, split, rows_read, processes)
    for remark in rows_read.remarks:
        _tell(options, f"  {remark}")
    _tell(options, _introduction(options, choice, (shape, split, why), rows_read) + plan_text(network.plan))
    if options.checkpoint:
        _tell(options, checkpoint_text(options, done))
    result = _solved(options, problem, network, processes)
    if first:
        _conclude(options, choice, network, result, rows_read)
    return exit_code(result)


def _as_data_say(options: Namespace, choice: ModelChoice, rows: RowsRead) -> Namespace:
    """Return the options with what the data decide: a formula whether there is an intercept, strata how many nodes."""
    if rows.design is not None:
        options = changed(options, intercept=rows.design.has_intercept and not choice.loss.compares_rows)
    if choice.loss.compares_rows:
        options = changed(options, nodes=1 if rows.strata is None else int(rows.strata.max()) + 1)
    return options


class ObjectiveOptions(TypedDict):
    """An objective as keyword arguments of `ProblemSpec.of` and `Problem.glm`, but for the split."""

    loss: Loss
    penalty: str  # name
    alpha: float
    l1_ratio: float | None
    fit_intercept: bool


def _objective(options: Namespace, choice: ModelChoice) -> ObjectiveOptions:
    """Return the objective as keyword arguments of `ProblemSpec.of` and `Problem.glm`, but for the split."""
    return {
        "loss": choice.loss,
        "penalty": choice.penalty,
        "alpha": options.alpha,
        "l1_ratio": options.l1_ratio,
        "fit_intercept": options.intercept,
    }


def _solved(options: Namespace, problem: Problem, network: SimulatedNetwork, processes: ProcessGroup) -> Result:
    """Return the result of fitting the problem as the options ask for; the first process shows the progress."""
    progress = Progress(stop=options.stop, tol=options.tol, max_rounds=options.max_rounds, quiet=options.quiet)
    result = solve(
        problem,
        method=_method(options),
        topology=network.graph,
        n_nodes=options.nodes,
        tol=options.tol,
        max_rounds=options.max_rounds,
        stop=options.stop,
        seed=options.seed,
        callback=progress,
        record_every=options.record_every or RECORD_EVERY[problem.spec.split],
        network=network.clock,
        mixing=options.mixing,
        partition=options.partition,
        faults=network.plan,
        checkpoint=make_checkpoint(options),
        checkpoint_every=options.checkpoint_every or EVERY,
        n_jobs=options.threads,
        runtime=processes,
    )
    if processes.rank == 0:
        progress.finish(result)
    return result


def _conclude(
    options: Namespace, choice: ModelChoice, network: SimulatedNetwork, result: Result, rows_read: RowsRead
) -> None:
    """Write the model and the other files of a fit that has ended, and print how it ended."""
    result = _clustered(result, rows_read)
    model = _model(options, choice, network.plan, result, rows_read)
    _write(options, model, result)
    scored = options.runtime == "simulation" and not choice.loss.compares_rows  # hazards are not times
    pooled = (rows_read.X, rows_read.said) if scored else None
    _tell(options, _summary(options, model, result, pooled, virtual=network.clock is not None))


def _problem(
    options: Namespace, objective: ObjectiveOptions, split: Split, rows: RowsRead, processes: ProcessGroup
) -> Problem:
    """Return the problem on the samples of all processes; `rows` are those that this process has read."""
    X, offset = rows.X, None
    if rows.offset:
        X, last = rows.X[:, :-1], rows.X[:, -1]
        offset = np.log(last) if options.exposure else last
    contract = rows.contract
    names = (contract.names or None) if contract is not None and contract.header else None
    names = names[:-1] if names and rows.offset else names
    if rows.strata is not None:
        parts = [(X[own], rows.y[own], None if rows.weight is None else rows.weight[own]) for own in _strata(rows)]
        return Problem.from_nodes(parts, split=split, **objective).named(names)
    if options.runtime == "simulation":
        return Problem.glm(X, rows.y, split=split, sample_weight=rows.weight, offset=offset, **objective).named(names)
    return scatter(
        X,
        rows.y,
        processes,
        n_nodes=options.nodes,
        partition=options.partition,
        seed=options.seed,
        split=split,
        sample_weight=rows.weight,
        offset=offset,
        **objective,
    ).named(names)


def _strata(rows: RowsRead) -> list[Indices]:
    """Return the numbers of the rows of each stratum, of all rows if there is one."""
    if rows.strata is None:
        return [np.arange(len(rows.y))]
    return [np.flatnonzero(rows.strata == k) for k in range(int(rows.strata.max()) + 1)]


def _clustered(result: Result, rows: RowsRead) -> Result:
    """Return the result of a fit with what standard errors of kind "cluster" need, if clusters are named."""
    if rows.clusters is None:
        return result
    from glmesh.estimators.clusters import clustered  # with scikit-learn, which takes a second

    return clustered(result, [rows.clusters[own] for own in _strata(rows)])


def exit_code(result: Result) -> int:
    """Return the exit code of a result: REACHED, OUT_OF_ROUNDS or INTERRUPTED, by its status."""
    if result.status is Status.INTERRUPTED:
        return INTERRUPTED
    return REACHED if result.reached else OUT_OF_ROUNDS


def _check_what_to_fit(options: Namespace) -> None:
    """Raise InvalidInput unless exactly one of --model, --loss and --family was given."""
    if sum(one is not None for one in (options.model, options.loss, options.family)) == 1:
        return
    if options.model or options.loss or options.family:
        raise InvalidInput(
            "--model, --loss and --family exclude each other; --model NAME stands for a loss and a penalty"
        )
    raise InvalidInput(f"say what to fit: --model NAME ({', '.join(MODELS)}), --loss NAME or --family NAME")


def _check_outputs(options: Namespace) -> None:
    """Raise InvalidInput for a file that cannot be written, or is one of those that are read."""
    check_picture("--plot", options.plot)
    outputs = {"--out": options.out, "--history": options.history, "--plot": options.plot}
    inputs = [options.data] if options.faults is None else [options.data, options.faults]
    check_writable(outputs | {"--checkpoint": checkpoint_output(options)}, *inputs)


def _rows(options: Namespace, processes: ProcessGroup, choice: ModelChoice) -> RowsRead:
    """Return the rows of the data file, with their offset if there is one."""
    rows = read(options, processes, classifies=choice.loss.classifies)
    held = options.offset or options.exposure
    return rows.with_offset(held, logarithm=bool(options.exposure), where=options.data) if held else rows


def _method(options: Namespace) -> AnyMethod:
    """Return the method that the options ask for: maximum likelihood for families, else CoLA."""
    if options.family:
        return MaximumLikelihood(tol_se=options.tol_se)
    return Cola(local_passes=options.local_passes, gossip_steps=options.gossip_steps, acceleration=options.acceleration)


def _tell(options: Namespace, text: str) -> None:
    """Print a text, unless --quiet was given."""
    if not options.quiet:
        print(text, file=sys.stdout, flush=True)


def _introduction(options: Namespace, choice: ModelChoice, data: tuple[Shape, Split, str], rows: RowsRead) -> str:
    """Return the text that is printed before the run: lines on the data, the objective and the network.

    `data` is ((samples, features, nonzeros or None) of all processes together, split, words on why that was taken).
    """
    shape, split, why = data
    stored = f", {count(shape[2], 'nonzero')}" if shape[2] is not None else ""
    intercept = ", with an intercept" if options.intercept else ""
    kind = "family" if options.family else "loss"
    unpenalised = options.family and options.alpha == 0
    penalty = "no penalty" if unpenalised else f"{choice.penalty} penalty, alpha {options.alpha:g}"
    chosen = f"  split auto: by {split}, {why}\n" if options.split == "auto" else ""
    return (
        f"  {count(shape[0], 'sample')}, {count(shape[1], 'feature')}{stored}{_named(rows.contract)}\n"
        f"{'' if rows.rows is None else f'  rows: {rows_text(*rows.rows)}' + chr(10)}"
        f"  {loss_text(choice.loss)} {kind}, {penalty}{intercept}\n"
        f"  split by {split} over {count(options.nodes, 'node')}, topology {options.topology}\n"
        f"{chosen}"
    )


def _named(contract: Contract | None) -> str:
    """Return words on the target, labels and weights of a contract, or on how columns are found; "" for None."""
    if contract is None:
        return ""
    if contract.index_base is not None:
        return f"; indices count from {contract.index_base}"
    if not contract.header:
        return "; no header, so columns go by position"
    labels = f" ({spoken(contract.labels)})" if 0 < len(contract.labels) <= 2 else ""
    weights = f", sample weights {contract.weight}" if contract.weight else ""
    return f"; target {contract.target}{labels}{weights}"


def _model(options: Namespace, choice: ModelChoice, plan: Plan | None, result: Result, rows_read: RowsRead) -> Model:
    """Return the Model to be saved: coefficients, loss, penalty, names and labels, and figures of the run as `info`."""
    info: dict[str, str | float] = {
        "glmesh": __version__,
        "status": result.status.name.lower(),
        "split": result.problem.spec.split,
        "nodes": options.nodes,
        "topology": options.topology,
        "seed": options.seed,
        "rounds": result.rounds,
        "communications": result.communications,
        "bytes": result.bytes,
        "objective": result.objective,
        "gap": result.gap,
        **asdict(choice.loss),
    }
    info |= {name: value for name in ("exposure", "strata", "cluster") if (value := getattr(options, name))}
    if rows_read.rows is not None:
        info |= {"rows": rows_read.rows[0], "rows_left_out": rows_read.rows[1]}
    contract, design = rows_read.contract, rows_read.design
    if plan is not None:
        info["faults"] = json.dumps(plan.to_dict())
    return Model(
        coef=result.coef,
        intercept=result.intercept,
        loss=choice.loss.name,
        penalty=choice.penalty,
        alpha=options.alpha,
        l1_ratio=float(result.problem.spec.l1_ratio or 0.0),
        classes=contract.labels if contract is not None and contract.labels else result.problem.classes,
        info={key: value for key, value in info.items() if not isinstance(value, float) or isfinite(value)},
        contract=contract if design is None or contract is None else _raw(design, contract),
        statistics=_statistics(result, contract),
        design=design,
    )


def _raw(design: Design, contract: Contract) -> Contract:
    """Return the contract of tables as they are before a formula makes columns of them.

    `design` are the columns that the formula makes, and `contract` is that of the data behind it: it has the design's
    columns and, where there is an offset, the column of that, which tables have, too.
    """
    return raw_contract(design, contract, tuple(name for name in contract.names if name not in design.names))


def _statistics(result: Result, contract: Contract | None) -> FitStatistics | None:
    """Return what totals said of a fit without a penalty, with the names of the columns; None: nothing."""
    if result.statistics is None or result.statistics.fitted.outputs > 1:
        return result.statistics
    named = contract is not None and contract.header and bool(contract.names)
    return result.statistics.named(contract.names) if contract is not None and named else result.statistics


def _write(options: Namespace, model: Model, result: Result) -> None:
    """Write the model and, if --history or --plot was given, the history as CSV and the plot."""
    model.save(options.out)
    if options.history:
        write_history(options.history, result.history)
    if options.plot:
        title = (
            f"{options.model or options.loss or options.family} on {count(options.nodes, 'node')}, {options.topology}"
        )
        plot.convergence(result.history, path=options.plot, title=title, presence=result.presence, tol=result.tol)


def _gaps(result: Result, *, certifying: bool) -> list[tuple[str, str]]:
    """Return pairs (name, text) on the relative gap that was reached, and the one that was asked for.

    A family without a penalty has a proof in standard errors instead.

    With `certifying` it is the gap that the nodes proved, and the measured one too where they could not prove enough.
    """
    if np.isfinite(result.standard_errors_off) and result.problem.spec.loss.by_likelihood:
        off = rounded_up(result.standard_errors_off)
        return [("proof", f"each coefficient is within {off:.0e} standard errors of the exact estimate")]
    wanted = f" (asked for {result.tol:g})" if result.tol is not None else ""
    measured = ("relative gap", f"{result.relative_gap:.2e}{'' if certifying else wanted}")
    if not certifying:
        return [measured]
    proven = ("certified gap", f"{certified(result.certificate):.2e}{wanted}")
    return [proven] if result.status is Status.CERTIFIED else [proven, measured]


def _choices(result: Result) -> list[tuple[str, str]]:
    """Return pairs (name, text) on the accelerations that the method switched to, each with its round and why."""
    told = [f"{name}{f' from round {round:,}' if round else ''} ({why})" for round, name, why in result.story]
    return [("acceleration" if not place else "", line) for place, line in enumerate(told)]


def _summary(
    options: Namespace, model: Model, result: Result, pooled: tuple[SampleMatrix, Labels] | None, *, virtual: bool
) -> str:
    """Return the text at the end of `train`: status, cost, objective, gaps, fit on the training data, and files.

    `pooled` is (X, y), for the fit on the training data, or None; `virtual`: seconds are those of the network clock.
    """
    time = f"{duration(result.seconds)} {'on the network clock' if virtual else 'of computing'}"
    nonzero = int(np.count_nonzero(model.coef))
    lines = [
        ("rounds", f"{result.rounds:,}"),
        *_choices(result),
        ("communications", f"{result.communications:,}, {size(result.bytes)} over all links, {time}"),
        ("objective", f"{result.objective:.8g}"),
        *_gaps(result, certifying=options.stop == "certificate"),
        ("", "(this is about the optimiser on these rows; whether the data are right it cannot say)"),
    ]
    if model.statistics is None:
        lines.append(("coefficients", f"{nonzero:,} of {len(model.coef):,} are not zero"))
    if model.statistics is None and model.rows is not None:
        lines.append(("rows", rows_text(*model.rows)))
    fit = None if pooled is None else score(model, model.predict(pooled[0]), pooled[1], model.decision(pooled[0]))
    if fit is not None:
        lines.append((fit[0], f"{fit[1]} on the training data"))
    files = {"model": options.out, "history": options.history, "plot": options.plot, "checkpoint": options.checkpoint}
    lines += [*told(result), *((name, value) for name, value in files.items() if value)]
    proven = f" {result.proof}" if result.proof and model.statistics is None else ""
    return f"\n{result.status}{proven}\n\n{rows(lines)}\n\n{coefficients_text(model, LARGEST)}"
