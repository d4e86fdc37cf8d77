"""Families on real data against statsmodels; certificates and separation on thousands of random problems.

    python benchmarks/families.py data            # data sets of statsmodels and scikit-learn: a minute
    python benchmarks/families.py certificates    # 2,000 problems of each loss: a quarter of an hour
    python benchmarks/families.py separation      # 500 cases of each kind of targets: some minutes
    python benchmarks/families.py report          # benchmarks/reports/families.md from what these have kept

Each part keeps its figures beside the report, in `families.json`, so that one may be made again alone.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from common import REPORTS, machine, table, write
from tests.methods.totals.likelihood.soaks import LOSSES, Claims, claims, verdicts

KEPT = REPORTS / "families.json"
PROBLEMS, BATCH, CASES = 2000, 100, 500


def keep(part: str, rows: object) -> None:
    """Put the rows of one part into the file of figures."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    KEPT.write_text(json.dumps(kept | {part: rows}, indent=1) + "\n")


def certificates() -> None:
    """Judge PROBLEMS problems of every loss, BATCH of each in turn, so that an early end leaves all losses alike."""
    found = {name: Claims() for name in LOSSES}
    for start in range(0, PROBLEMS, BATCH):
        for name, so_far in found.items():
            claims(name, range(start, start + BATCH), so_far)
        keep("certificates", [_claimed(name, one) for name, one in found.items()])
        print(start + BATCH, sum(len(one.wrong) for one in found.values()), flush=True)
    for one in found.values():
        for wrong in one.wrong:
            print(wrong)


def _claimed(name: str, found: Claims) -> list[object]:
    tight = np.percentile(found.tightness, [50, 95, 100]) if found.tightness else [np.nan] * 3
    worst = [f"{found.worst[what]:.6f}" if what in found.worst else "" for what in WHAT]
    ends = ", ".join(f"{n} {status}" for status, n in found.ended.most_common())
    return [name, found.n, ends, found.checked, len(found.wrong), *worst, *(f"{one:.5g}" for one in tight)]


WHAT = ("distance", "coefficients", "deviance", "standard errors")


def separation() -> None:
    """Compare the ends of fits with a linear program."""
    rows = []
    for targets, model in (("shares", "logistic"), ("counts", "Poisson"), ("classes", "softmax")):
        found = verdicts(targets, range(CASES))
        least, most = np.percentile(found.totals, [50, 100]).astype(int).tolist()
        rows.append([model, found.n, found.separated, len(found.wrong), found.undecided, len(found.misnamed), least, most])
        keep("separation", rows)
        print(rows[-1], *found.wrong, *found.misnamed, sep="\n", flush=True)


PARTS = {"certificates": certificates, "separation": separation}

if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        PARTS[sys.argv[1]]()
