"""The committed comparison with the rivals: RCV1 and a9a, 16 nodes, ring and torus, Lasso, ridge and logistic.

GLMESH_DATA=folder python benchmarks/rivals.py docs/reports/rivals

The same as `glmesh bench --datasets rcv1 a9a`, without exact ADMM on RCV1, whose rounds take long. The page grows with
every race, so it may be stopped at any time.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from glmesh.bench import data, report
from glmesh.bench.compare import RacePlan, races
from glmesh.bench.contenders import CONTENDERS


def main(folder: Path) -> None:
    plan = RacePlan(max_communications=3_000, max_seconds=25.0)
    inexact = [name for name in CONTENDERS if name != "D-ADMM, exact"]
    on_rcv1 = replace(plan, contenders=inexact)
    found = []
    for name, part in (
        ("rcv1", replace(on_rcv1, objectives=("lasso",), topologies=("ring",))),
        ("a9a", plan),
        ("rcv1", replace(on_rcv1, objectives=("lasso",), topologies=("torus",))),
        ("rcv1", replace(on_rcv1, objectives=("ridge", "logistic"))),
    ):
        for race in races(part, data.load(name, real=True), say=lambda line: print(line, flush=True)):
            found.append(race)
            report.write(plan, found, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
