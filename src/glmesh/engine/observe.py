"""The history of a run: a record every few rounds, and the result at the end."""

import numpy as np

from glmesh.engine.result import Result, Status
from glmesh.engine.run import Run
from glmesh.engine.telling import how_of, named_statistics
from glmesh.types import Tree

WHOLE_NUMBERS = ("round", "communications", "bytes")  # columns of the history that hold integers


class Observer:
    """Appends a record to a run's history every `record_every` rounds and at round `max_rounds`; makes the Result."""

    def __init__(self, run: Run, record_every: int, max_rounds: int) -> None:
        self._run, self._every, self._last = run, record_every, max_rounds
        history = run.history
        while len(history) > 1 and history[-1]["round"] % record_every:  # where an earlier part of the run had stopped
            history.pop()

    def record(self, *, due: bool = False) -> Tree | None:
        """Append a record of the present round to the run's history if one is due, and return it; None if none is due.

        A record is a dict of measures (objective, gap, ...) and costs (communications, bytes, seconds). `due=True`
        makes one in any case. The bound of a certificate stands in the first record after the bound became known; the
        other records have NaN there.
        """
        run, history = self._run, self._run.history
        if history and history[-1]["round"] == run.rounds:
            return history[-1]
        if history and not (due or run.rounds % self._every == 0 or run.rounds == self._last):
            return None
        m, certificate = run.measure(), run.certificate
        theta = run.theta if run.rounds else np.full(run.n_nodes, np.nan)
        known = run.history[-1]["certificate_round"] if run.history else -1
        news = certificate is not None and certificate.round != known and np.isfinite(certificate.bound)
        run.history.append(
            {
                "round": run.rounds,
                "communications": run.communications,
                "bytes": run.bytes,
                "seconds": run.seconds,
                "objective": m.objective,
                "h": m.h,
                "gap": m.gap,
                "consensus": m.consensus,
                "certificate": certificate.bound if certificate is not None and news else np.nan,
                "theta": float(theta.max(initial=-np.inf)) if run.rounds else np.nan,
                "certificate_round": -1 if certificate is None else certificate.round,
                "thetas": theta,
            }
        )
        return history[-1]

    def result(self, status: Status, tol: float | None) -> Result:
        """Return the Result of the run, which ended with this status, after a last record of the history.

        `tol` is the relative gap that was aimed at; None if there was none.
        """
        run, history = self._run, self._run.history
        self.record(due=True)
        last, nodes = history[-1], run.nodes
        x, estimates, gap, objective = run.x, run.estimates, last["gap"], last["objective"]
        if status is Status.CERTIFIED and run.certificate is not None:
            x, estimates = run.certified_state()
            gap, objective = run.certificate.bound, nodes.objective_at(x, estimates, run.rounds)
        coef, intercept = nodes.coefficients(x, estimates, run.members)
        skipped, work_saved = nodes.skipped
        keys = [key for key in last if key not in ("certificate_round", "thetas")]
        return Result(
            x=x,
            coef=coef,
            intercept=intercept,
            rounds=run.rounds,
            communications=run.communications,
            bytes=run.bytes,
            seconds=run.seconds,
            gap=gap,
            objective=objective,
            status=status,
            tol=tol,
            history={
                key: np.array([entry[key] for entry in history], int if key in WHOLE_NUMBERS else float) for key in keys
            },
            certificate=run.certificate,
            estimates=estimates,
            problem=run.problem,
            faults=run.faults.to_dict(),
            events=tuple(run.events),
            skipped=skipped,
            work_saved=work_saved,
            thetas=np.array([entry["thetas"] for entry in history]),
            story=tuple(run.story),
            copies=nodes.replicates,
            remark=nodes.remark,
            distance=nodes.distance,
            standard_errors_off=nodes.standard_errors_off,
            statistics=named_statistics(run),
            names=run.problem.feature_names,
            how=how_of(run),
        )
