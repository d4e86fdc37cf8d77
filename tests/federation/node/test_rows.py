"""Data of a site: how files are read, and how rows of two sites are compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from glmesh.errors import InvalidData, InvalidInput, UnreadableFile
from glmesh.federation.node.rows import RowDigests, SiteTable, read_site_table
from glmesh.federation.wire.frames import Violation


def test_svmlight_files_and_tables_with_row_names_are_read(tmp_path: Path) -> None:
    from sklearn.datasets import load_svmlight_file

    path = tmp_path / "x.svm"
    path.write_text("1 1:0.5 7:-2e-3\n-1 2:1\n\n# a comment\n1 qid:3 3:4 # another\n")
    read = read_site_table(path)
    X, y = load_svmlight_file(str(path))
    assert np.array_equal(read.X.toarray(), X.toarray())
    assert np.array_equal(read.y, y)
    path.write_text("1 3:1 2:1\n")
    with pytest.raises(UnreadableFile, match=r"line 1: .*must ascend"):
        read_site_table(path)
    table = tmp_path / "t.csv"
    table.write_text("id,a,b,y\nann,1,2,0\nben,3,4,1\n")
    read = read_site_table(table, ids="id")
    assert read.ids == ["ann", "ben"]
    assert np.array_equal(read.X, [[1, 2], [3, 4]])
    assert np.array_equal(read.y, [0, 1])
    table.write_text("id,a,y\nann,1,0\nann,3,1\n")
    with pytest.raises(InvalidData, match="two rows have the name 'ann'"):
        read_site_table(table, ids="id")
    with pytest.raises(InvalidInput, match="no column 'x'"):
        read_site_table(table, ids="x")


def test_rows_that_are_not_aligned_are_named() -> None:
    y = np.arange(1000.0)
    rows = SiteTable(np.zeros((1000, 1)), y, [str(k) for k in range(1000)]).digests()
    assert rows.misaligned(rows) is None
    swapped = [str(k) for k in range(1000)]
    swapped[500], swapped[501] = "501", "500"
    others = SiteTable(np.zeros((1000, 1)), y, swapped).digests()
    assert rows.misaligned(others) == "the names of rows 501 to 504 differ; sort both files alike"
    few = SiteTable(np.zeros((3, 1)), y[:3]).digests()
    assert rows.misaligned(few) == "1000 rows here and 3 there"
    assert "labels of row 2" in str(few.misaligned(SiteTable(np.zeros((3, 1)), y[[0, 2, 2]]).digests()))


def test_row_digests_of_a_neighbour_are_checked() -> None:
    rows = SiteTable(np.zeros((3, 1)), np.arange(3.0)).digests()
    assert RowDigests.from_json(rows.to_json()) == rows
    with pytest.raises(Violation, match=r"RowDigests, count: expected a value of type int, got '3'"):
        RowDigests.from_json(rows.to_json() | {"count": "3"})
