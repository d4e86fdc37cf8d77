"""Three hospitals' tables of patients, drawn at random, for trying a federation."""

from pathlib import Path

import numpy as np

from glmesh.cli.output import check_writable, write_lines
from glmesh.errors import InvalidInput

HOSPITALS = {"alice": (120, 64.0), "bob": (90, 71.0), "carol": (150, 58.0)}  # name: (patients, their mean age)
HEADER = "age,male,bmi,systolic,smoker,prior_stays,readmitted"


def write(folder: str) -> list[Path]:
    """Write a .csv with a header for each hospital into a folder, which is made if missing; return their paths.

    The patients are invented: the same numbers every time. Age is in decades from 65, bmi in steps of 5 from 25,
    systolic pressure in steps of 20 mmHg from 130.
    """
    where = Path(folder)
    if where.exists() and not where.is_dir():
        raise InvalidInput(f"--files {folder}: is not a folder; give the name of one, it is made if missing")
    where.mkdir(parents=True, exist_ok=True)
    paths = [where / f"{name}.csv" for name in HOSPITALS]
    present = [path for path in paths if path.exists()]
    if present:
        raise InvalidInput(f"--files {folder}: {present[0]} is there already; give another folder, or remove it")
    check_writable({f"--files {path.name}": str(path) for path in paths})
    rng = np.random.default_rng(2018)
    for path, (n, mean_age) in zip(paths, HOSPITALS.values(), strict=True):
        age = rng.normal(mean_age, 11.0, n).clip(19, 97).round()
        male, smoker = rng.random(n) < 0.52, rng.random(n) < 0.24
        bmi = rng.normal(26.5, 4.2, n).clip(16, 48).round(1)
        systolic = (rng.normal(102, 13, n) + 0.5 * age).clip(85, 220).round()
        stays = rng.poisson(0.8, n)
        risk = 0.05 * (age - 66) + 0.07 * (bmi - 27) + 0.8 * smoker + 0.7 * stays + 0.2 * male - 0.9
        ill = rng.random(n) < 1 / (1 + np.exp(-risk))
        # from centres and in steps that all hospitals agreed on: linear models learn faster where columns are near 1
        scaled = ((age - 65) / 10, male.astype(int), (bmi - 25) / 5, (systolic - 130) / 20, smoker.astype(int), stays)
        rows = zip(*scaled, ill.astype(int), strict=True)
        write_lines(str(path), [HEADER, *(",".join(f"{value:g}" for value in row) for row in rows)])
    return paths
