"""Three hospitals' tables of patients, drawn at random, for trying a federation."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from glmesh.cli.output import check_writable, write_lines
from glmesh.errors import InvalidInput
from glmesh.types import Array

HOSPITALS = {"alice": (420, 64.0), "bob": (310, 71.0), "carol": (530, 58.0)}  # name: (patients, their mean age)
COLUMNS = ("age", "sex", "bmi", "systolic", "smoker", "stays", "days", "readmitted", "visits", "died")
FORMULA = "readmitted ~ age + C(sex) + bmi + systolic + C(smoker) + stays"  # of what the tables may be asked


def write(folder: str) -> list[Path]:
    """Write the tables of three hospitals as hospitals have them; return the paths of the .csv files.

    They have text and factors, gaps, units of their own, a number of the patient that no model needs, and columns in
    another order at each hospital; bob has no present smokers. The patients are invented: the same every time. They
    were followed for `days` days, in which they came for a number of `visits`, and at the end of which they had `died`
    (1) or not.
    """
    paths = _paths(folder, HOSPITALS)
    rng = np.random.default_rng(2026)
    for path, (n, mean_age) in zip(paths, HOSPITALS.values(), strict=True):
        columns = {"patient": [f"{path.stem[0].upper()}{k:04d}" for k in range(n)]} | _patients(rng, n, mean_age)
        if path.stem == "bob":
            columns["smoker"] = ["past" if one == "present" else one for one in columns["smoker"]]
        names = ["patient", *rng.permutation(COLUMNS)]
        rows = zip(*(columns[name] for name in names), strict=True)
        write_lines(str(path), [",".join(names), *(",".join(row) for row in rows)])
    return paths


def _patients(rng: np.random.Generator, n: int, mean_age: float) -> dict[str, list[str]]:
    """Return {name of a column: n cells as text} for n invented patients; a gap is an empty cell."""
    texts = {name: [_cell(one) for one in column.tolist()] for name, column in _drawn(rng, n, mean_age).items()}
    for name, part in (("bmi", 0.03), ("systolic", 0.01), ("smoker", 0.02)):
        texts[name] = ["" if gap else one for one, gap in zip(texts[name], rng.random(n) < part, strict=True)]
    return texts


def _cell(value: str | float) -> str:
    """Return a value as a cell of a .csv file: text as it is, a whole number without a decimal point."""
    return value if isinstance(value, str) else f"{value:g}"


def _drawn(rng: np.random.Generator, n: int, mean_age: float) -> dict[str, Array]:
    """Return {name of a column: its n values, an array of shape (n,)} for n invented patients, without gaps."""
    age = rng.normal(mean_age, 11.0, n).clip(19, 97).round()
    male = rng.random(n) < 0.52
    bmi = rng.normal(26.5, 4.2, n).clip(16, 48).round(1)
    systolic = (rng.normal(102, 13, n) + 0.5 * age).clip(85, 220).round()
    smoker = rng.choice(["never", "past", "present"], n, p=[0.5, 0.3, 0.2])
    stays = rng.poisson(0.8, n)
    smokes = 0.3 * (smoker == "past") + 0.8 * (smoker == "present")
    risk = 0.04 * (age - 66) + 0.06 * (bmi - 27) + smokes + 0.5 * stays + 0.2 * male
    ill = rng.random(n) < 1 / (1 + np.exp(0.9 - risk))
    lasts = rng.exponential(900 / np.exp(0.6 * risk)).clip(1, 365).round()
    visits = rng.poisson(np.exp(0.3 * risk) * lasts / 365)
    return {
        "age": age,
        "sex": np.where(male, "male", "female"),
        "bmi": bmi,
        "systolic": systolic,
        "smoker": smoker,
        "stays": stays,
        "days": lasts,
        "readmitted": ill.astype(np.int64),
        "visits": visits,
        "died": (lasts < 365).astype(np.int64),
    }


def _paths(folder: str, names: Iterable[str]) -> list[Path]:
    """Return the paths of the files NAME.csv in a folder, which is made; raise InvalidInput if one cannot be written.

    A file that is there already is not written over.
    """
    where = Path(folder)
    if where.exists() and not where.is_dir():
        raise InvalidInput(f"--files {folder}: is not a folder; give the name of one, it is made if missing")
    where.mkdir(parents=True, exist_ok=True)
    paths = [where / f"{name}.csv" for name in names]
    present = [path for path in paths if path.exists()]
    if present:
        raise InvalidInput(f"--files {folder}: {present[0]} is there already; give another folder, or remove it")
    check_writable({f"--files {path.name}": str(path) for path in paths})
    return paths


def commands(names: Sequence[str] = tuple(HOSPITALS), formula: str = FORMULA) -> list[str]:
    """Return the commands that fit the model `formula` to the tables NAME.csv, as processes on this machine."""
    return [
        f"glmesh keys keys {' '.join(names)}",
        f'glmesh federation init fed.toml --family binomial --formula "{formula}"',
        f"glmesh federation add fed.toml {' '.join(f'{name}={name}.csv' for name in names)}",
        "glmesh up fed.toml",
    ]
