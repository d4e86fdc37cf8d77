"""Experiments of the CoLA paper, each with its data, its picture, and a verdict on each claim of the paper.

Everything runs on the simulator, through `bench`; no method and no tuned number lives here.
"""

from collections.abc import Callable
from pathlib import Path

from glmesh.bench.report import machine
from glmesh.files.archive import write_text
from glmesh.paper.baselines import consensus, lasso_baselines, ridge_baselines
from glmesh.paper.dropout import dropout, dropout_reset
from glmesh.paper.experiment import Claim, Experiment, Findings, Settings
from glmesh.paper.passes import local_passes
from glmesh.paper.table import datasets
from glmesh.paper.topologies import topologies

__all__ = ["EXPERIMENTS", "Claim", "Findings", "Settings", "run", "write_page"]

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
) -> list[Findings]:
    """Run experiments by name and write their files; return the findings of each, in the order of `names`.

    After each experiment report.md is written, with all experiments whose files are in the folder. `pictures` draws
    panels too; `say` is called with a text about each experiment when it is done.
    """
    findings = []
    for name in names:
        one = EXPERIMENTS[name](settings)
        one.publish(folder, pictures=pictures)
        findings.append(one)
        write_page(folder)
        say(f"\n{one.title}\n" + "\n".join(f"  {claim}" for claim in one.claims))
    return findings


def write_page(folder: Path) -> Path:
    """Write report.md, one page of all experiments whose files are in `folder`; return its path."""
    parts = [folder / f"{name}.md" for name in EXPERIMENTS]
    text = "\n".join(part.read_text(encoding="utf-8") for part in parts if part.exists())
    seen, not_seen = text.count("\n- Seen: "), text.count("\n- Not seen: ")
    head = [
        "# The experiments of the paper",
        "",
        f"{seen} of {seen + not_seen} claims of the paper were seen. Suboptimality is relative to that at zero, above "
        "an optimum that a duality gap proves (never the best value seen). λ is per sample. Seconds are on a virtual "
        "clock, the same for all methods. A *stand-in* is a small random data set of the same shape.",
        "",
        f"Machine: {machine()}.",
        "",
    ]
    path = folder / "report.md"
    write_text(path, "\n".join(head) + "\n" + text)
    return path
