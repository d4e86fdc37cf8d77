import numpy as np
import pytest
from scipy import sparse

from glmesh.contract import DataTable, TextColumn
from glmesh.files.describe import DataFinding, describe

ROWS = 40
RNG = np.random.default_rng(5)


def found(name: str, column: np.ndarray, kind: str) -> tuple[str, ...]:
    """Return what `describe` says of this column under this kind of finding."""
    other = RNG.normal(size=len(column))
    table = DataTable("t.csv", np.column_stack([other, column]), ("other", name), np.arange(len(column)) % 2.0, "y")
    findings = [one for one in describe(table) if one.warns]
    assert not any("other" in one.columns for one in findings)
    assert {one.kind for one in findings} <= {kind}
    return tuple(told for one in findings for told in one.columns)


def put(column: np.ndarray, value: float, *rows: int) -> np.ndarray:
    column = column.astype(float)
    column[list(rows)] = value
    return column


TEMPERATURES = 37 + RNG.normal(size=ROWS)
AGES = RNG.integers(20, 90, ROWS)
DAYS = np.array([20240100 + 1 + k % 28 for k in range(ROWS)])


@pytest.mark.parametrize(
    ("name", "column", "kind", "told"),
    [
        ("ward", np.ones(ROWS), "constant", "ward"),
        ("ward", put(np.ones(ROWS), np.nan, 3), "missing", None),
        ("bmi", put(TEMPERATURES, np.nan, 3, 7), "missing", "bmi (2 of 40, first in line 4)"),
        ("t", put(TEMPERATURES, -999, 3, 7), "sentinel", "t (-999, 2 times)"),
        ("t", put(TEMPERATURES, 9999, 3), "sentinel", "t (9999, once)"),
        ("age", put(AGES, 999, 3), "sentinel", "age (999, once)"),
        ("age", put(AGES, 99, 3), "sentinel", ""),
        ("code", put(AGES, -9, 3), "sentinel", ""),
        ("age", AGES, "id", ""),
        ("row", np.arange(ROWS) + 100, "id", "row"),
        ("row", RNG.permutation(ROWS) + 100, "id", "row"),
        ("patient_id", RNG.permutation(ROWS) ** 3, "id", "patient_id"),
        ("income", RNG.permutation(ROWS) ** 3, "id", ""),
        ("seen", DAYS, "date", "seen"),
        ("seen", 1.7e9 + 86400 * RNG.permutation(ROWS), "date", "seen"),
        ("price", np.where(DAYS % 2, 20249900, DAYS), "date", ""),
    ],
)
def test_columns_that_a_person_would_look_at_twice_are_named(
    name: str, column: np.ndarray, kind: str, told: str | None
) -> None:
    if told is not None:
        assert found(name, column, kind) == ((told,) if told else ())
    else:  # two findings of one column
        table = DataTable("t.csv", column[:, None], (name,))
        assert [one.kind for one in describe(table)] == ["missing", "constant"]


def test_text_header_and_labels() -> None:
    table = DataTable(
        "t.csv",
        np.array([[np.nan, np.nan, np.nan, k + 0.5, np.nan] for k in range(4)]),
        ("sex", "seen", "who", "3.5", "sex"),
        np.array(["no", "", "yes", "no"]),
        "ill",
        first_line=2,
        text_columns=(
            TextColumn("sex", 2, "F", 2),
            TextColumn("seen", 2, "2024-01-01", 4, "dates"),
            TextColumn("who", 2, "ann", 4, "names of rows"),
        ),
        left_out=("the first column, which has no name (numbers or names of rows)",),
    )
    findings = describe(table)
    assert [(one.kind, one.columns) for one in findings] == [
        ("left out", ()),
        ("header", ("sex",)),
        ("header", ("3.5",)),
        ("text", ("sex (2 levels)",)),
        ("date", ("seen",)),
        ("id", ("who",)),
        ("missing", ()),
        ("labels", ()),
    ]
    said = [str(one) for one in findings]
    assert said[-2] == "the target ill is missing in 1 row, first in line 3; take the rows out"
    assert said[-1] == "the target ill has the labels no (2 rows), yes (1 row)"
    assert "ann" not in " ".join(said)


def labels(y: np.ndarray) -> DataFinding:
    return describe(DataTable("t.svm", sparse.csr_array(np.eye(len(y))), None, y))[-1]


def test_labels_are_counted_and_many_are_a_range() -> None:
    assert str(labels(np.array([1.0, 2.0, 2.0]))) == "the target has the labels 1 (1 row), 2 (2 rows)"
    assert not labels(np.array([1.0, 2.0, 2.0])).warns
    assert str(labels(np.ones(3))) == "the target has one label only, 1 (3 rows); a model needs two"
    assert labels(np.ones(3)).warns
    assert str(labels(np.arange(25.0))) == "the target holds 25 distinct numbers from 0 to 24"
    assert labels(np.array([f"t{k}" for k in range(25)])).warns
