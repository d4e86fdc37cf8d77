"""The paper's experiments, each with its data, its picture, and a verdict on each of its claims."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from glmesh.bench.report import machine
from glmesh.paper.baselines import consensus, lasso_baselines, ridge_baselines
from glmesh.paper.dropout import dropout, dropout_reset
from glmesh.paper.experiment import Claim, Experiment, Outcome, Settings
from glmesh.paper.passes import local_passes
from glmesh.paper.table import datasets
from glmesh.paper.topologies import topologies

__all__ = ["EXPERIMENTS", "Claim", "Outcome", "Settings", "run", "write_page"]

EXPERIMENTS: dict[str, Experiment] = {
    "datasets": datasets,
    "local-passes": local_passes,
    "topologies": topologies,
    "ridge-baselines": ridge_baselines,
    "lasso-baselines": lasso_baselines,
    "dropout": dropout,
    "dropout-reset": dropout_reset,
    "consensus": consensus,
}


def run(
    names: list[str],
    settings: Settings,
    folder: Path,
    *,
    pictures: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> list[Outcome]:
    """Runs experiments and writes their files; the page holds what has been done so far."""
    outcomes = []
    for name in names:
        outcome = EXPERIMENTS[name](settings)
        outcome.publish(folder, pictures=pictures)
        outcomes.append(outcome)
        write_page(outcomes, settings, folder, pictures=pictures)
        say(f"\n{outcome.title}\n" + "\n".join(f"  {claim}" for claim in outcome.claims))
    return outcomes


def write_page(outcomes: list[Outcome], settings: Settings, folder: Path, *, pictures: bool = True) -> Path:
    """One page of all experiments."""
    claims = [claim for outcome in outcomes for claim in outcome.claims]
    seen = sum(claim.seen for claim in claims)
    lines = [
        "# The experiments of the paper",
        "",
        f"{seen} of {len(claims)} claims were seen here. Suboptimality is relative to that at zero, above an optimum "
        "that a duality gap proves (never the best value seen). λ is per sample. Seconds are on a virtual clock, the "
        "same for all methods."
        + (" This was a quick run: small stand-ins for the data, and few rounds." if settings.quick else ""),
        "",
        f"Machine: {machine()}.",
        "",
    ]
    text = "\n".join(lines) + "\n" + "\n".join(outcome.page(pictures=pictures) for outcome in outcomes)
    path = folder / "report.md"
    path.write_text(text, encoding="utf-8")
    return path
