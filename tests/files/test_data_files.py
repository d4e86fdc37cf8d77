import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from glmesh.errors import InvalidData, InvalidInput, UnreadableFile
from glmesh.files import data_files

SVM = b"# a comment\n+1 1:0.5 3:-2\n\n-1 qid:7 2:1e-3  # another\n+1\n"
SVM_X = np.array([[0.5, 0, -2], [0, 1e-3, 0], [0, 0, 0]])
SVM_Y = np.array([1.0, -1.0, 1.0])
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("name", ["a.svm", "a.libsvm", "a.svmlight", "a.txt", "a9a", "a9a.t", "A.SVM"])
def test_svmlight_under_every_name(tmp_path: Path, name: str, compression: str) -> None:
    X, y = data_files.load(write(tmp_path / (name + compression), COMPRESS[compression](SVM)))
    assert isinstance(X, sparse.csr_array)
    assert X.dtype == np.float64
    assert X.indices.dtype == X.indptr.dtype == np.int32
    np.testing.assert_array_equal(X.toarray(), SVM_X)
    np.testing.assert_array_equal(y, SVM_Y)


def test_svmlight_pads_to_n_features(tmp_path: Path) -> None:
    X, _ = data_files.load(write(tmp_path / "a.svm", SVM), n_features=5)
    np.testing.assert_array_equal(X.toarray(), np.pad(SVM_X, ((0, 0), (0, 2))))


def test_svmlight_may_count_from_zero(tmp_path: Path) -> None:
    X, _ = data_files.load(write(tmp_path / "a.svm", b"1 0:4 2:5\n"))
    np.testing.assert_array_equal(X.toarray(), [[4, 0, 5]])


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", b","), (".tsv", b"\t")])
def test_table(tmp_path: Path, suffix: str, delimiter: bytes, compression: str) -> None:
    text = b"1,2,3\n\n4,nan,-6e1\r\n".replace(b",", delimiter)
    X, y = data_files.load(write(tmp_path / f"t{suffix}{compression}", COMPRESS[compression](text)))
    np.testing.assert_array_equal(X, [[1, 2], [4, np.nan]])
    np.testing.assert_array_equal(y, [3, -60])


@pytest.mark.parametrize("target", ["b", 1, "1", -2])
def test_table_target_by_name_or_position(tmp_path: Path, target: str | int) -> None:
    path = write(tmp_path / "t.csv", b'\xef\xbb\xbfa, b ,"c, d"\n1,2,3\n4,5,6\n')
    X, y = data_files.load(path, target=target)
    np.testing.assert_array_equal(X, [[1, 3], [4, 6]])
    np.testing.assert_array_equal(y, [2, 5])


@pytest.mark.parametrize("target", [None, "y", 3, "3", -1])
def test_table_with_names_of_rows_and_a_target_by_name_or_position(tmp_path: Path, target: str | int | None) -> None:
    path = write(tmp_path / "t.csv", b"a,id,b,y\n1,ann,2,0\n3,7,4,1\n")
    table = data_files.read_table(path, target=target, ids="id")
    assert table.ids == ["ann", "7"]
    np.testing.assert_array_equal(table.X, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(table.y, [0, 1])


def test_target_zero_is_the_first_column_with_and_without_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", b"y,a,id\n5,1,8\n6,2,9\n")
    with_ids = data_files.read_table(path, target="0", ids="id")
    _, without = data_files.load(path, target="0")
    assert with_ids.ids == ["8", "9"]
    np.testing.assert_array_equal(with_ids.y, without)


def test_default_target_is_the_last_column_that_does_not_name_rows(tmp_path: Path) -> None:
    table = data_files.read_table(write(tmp_path / "t.csv", b"a,y,id\n1,5,8\n2,6,9\n"), ids="id")
    np.testing.assert_array_equal(table.X, [[1], [2]])
    np.testing.assert_array_equal(table.y, [5, 6])


def test_names_of_rows_in_an_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X=np.eye(2), y=np.ones(2), who=["ann", "ben"], few=["ann"])
    assert data_files.read_table(tmp_path / "d.npz", ids="who").ids == ["ann", "ben"]
    assert data_files.read_table(tmp_path / "d.npz").ids is None
    with pytest.raises(UnreadableFile, match=r"'few' has shape \(1,\), expected one name for each of 2 rows"):
        data_files.read_table(tmp_path / "d.npz", ids="few")


def test_unsuitable_names_of_rows_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", b"id,a,y\nann,1,0\nann,3,1\n")
    with pytest.raises(InvalidData, match="two rows have the name 'ann'"):
        data_files.read_table(path, ids="id")
    with pytest.raises(InvalidInput, match="no column 'x'; there are id, a, y"):
        data_files.read_table(path, ids="x")
    with pytest.raises(InvalidInput, match="target=0 and ids='a' are one column, expected two"):
        data_files.read_table(write(tmp_path / "u.csv", b"a,y\n1,2\n"), target=0, ids="a")
    with pytest.raises(UnreadableFile, match=r"t\.csv, line 2, column 0 \(id\): expected a number, got 'ann'"):
        data_files.load(path)
    with pytest.raises(InvalidInput, match="svmlight files have no names of rows"):
        data_files.read_table(write(tmp_path / "a.svm", SVM), ids="id")


def test_npz_dense(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X=np.arange(6).reshape(3, 2), y=np.array([1, 0, 1], dtype=np.int8), names=["a", "b"])
    X, y = data_files.load(tmp_path / "d.npz")
    assert X.dtype == y.dtype == np.float64
    np.testing.assert_array_equal(X, [[0, 1], [2, 3], [4, 5]])


@pytest.mark.parametrize("layout", ["csr", "csc", None])
def test_npz_sparse(tmp_path: Path, layout: str | None) -> None:
    A = sparse.csc_array(SVM_X) if layout == "csc" else sparse.csr_array(SVM_X)
    parts: dict[str, Any] = {
        "data": A.data,
        "indices": A.indices.astype(np.int64),
        "indptr": A.indptr,
        "shape": A.shape,
        "y": SVM_Y,
    }
    if layout:
        parts["format"] = layout.encode()
    np.savez_compressed(tmp_path / "s.npz", **parts)
    X, y = data_files.load(tmp_path / "s.npz", n_features=3)
    assert isinstance(X, sparse.csr_array)
    assert X.indices.dtype == np.int32
    np.testing.assert_array_equal(X.toarray(), SVM_X)
    np.testing.assert_array_equal(y, SVM_Y)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.svm", b"", "holds no samples"),
        ("a.svm", b"# only this\n", "holds no samples"),
        ("a.svm", b"1 1:1\n-1 x:2\n", "a.svm, line 2: expected 'label index:value .* got '-1 x:2'"),
        ("a.svm", b"1 1:1\n\n# c\n1 3:1 2:1\n", "line 4: .* ascending"),
        ("a.svm", b"1 1:1\n1 99999999999:1\n", "line 2"),
        ("a.svm", b"\x89PNG\r\n\x1a\n\x00\xff", "a.svm: is a PNG picture, expected svmlight text"),
        ("a.svm", b"\x88PNG\r\n\x1a\n\x00\xff", "line 1"),
        ("a.svm", b"1 2\n", "line 1: "),
        ("a.svm", b"1 2:3:4\n", "line 1: "),
        ("a.svm", b"1 1:1 2 3:4\n", "line 1: "),
        ("a.svm", b"1 -1:4\n", "line 1: "),
        ("a.svm", b"1,2,3\n", r"line 1: .* name the file \.csv"),
        ("a.svm", b"1\n-1\n", "no line has a feature"),
        ("a.svm.gz", SVM, "cannot be read to its end"),
        ("a.svm.xz", SVM, "cannot be read to its end"),
        ("t.csv", b"", "holds no samples"),
        ("t.csv", b"a,b\n", "holds no samples"),
        ("t.csv", b"a,b\n1,2\n3\n", "t.csv, line 3: has 1 cell, expected 2"),
        ("t.csv", b"a,b\n1,2\nx,3\n", r"line 3, column 0 \(a\): expected a number, got 'x'"),
        ("t.csv", b"a,y\n1,2\n3,x\n", "line 3, target 'y': expected a number, got 'x'"),
        ("t.csv", b"1:2\n3:4\n", "has 1 column and no feature beside the target; expected columns separated by"),
        ("t.csv", b'1,2\n"3,4\n', "line 2: "),
        ("t.csv", b"a,b\n1,\xff\n", "UTF-8"),
        ("d.npz", b"", "not a whole npz archive"),
        ("d.npz", b"PK\x03\x04 not really", "not a whole npz archive"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(UnreadableFile, match=says) as caught:
        data_files.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("compression", [".gz", ".bz2", ".xz"])
@pytest.mark.parametrize(("name", "content"), [("a.svm", SVM), ("t.csv", b"1,2\n")])
def test_truncated_compression(tmp_path: Path, name: str, content: bytes, compression: str) -> None:
    path = write(tmp_path / (name + compression), COMPRESS[compression](content)[:-9])
    with pytest.raises(UnreadableFile, match="cannot be read to its end"):
        data_files.load(path)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"A": np.eye(2)}, "has the keys A; expected X y, or data indices indptr shape y"),
        ({"X": np.eye(2)}, "has the keys X; expected"),
        ({"X": np.eye(2), "y": np.ones(3)}, "y has 3 labels, expected 2"),
        ({"X": np.ones(2), "y": np.ones(2)}, r"key 'X' has dtype float64 and shape \(2,\), expected 2-d numbers"),
        ({"X": np.eye(2), "y": np.array(["a", "b"])}, "key 'y' has dtype <U1"),
        ({"X": np.eye(2) * 1j, "y": np.ones(2)}, "key 'X' has dtype complex128"),
        ({"X": np.array([[None]], dtype=object), "y": np.ones(1)}, "key 'X' cannot be read .* pickled"),
        ({"X": np.ones((0, 3)), "y": np.ones(0)}, "holds no samples"),
    ],
)
def test_unsuitable_npz(tmp_path: Path, arrays: dict[str, Any], says: str) -> None:
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(UnreadableFile, match=says):
        data_files.load(tmp_path / "d.npz")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"indices": np.array([0, 9, 1])}, "make no csr matrix"),
        ({"indptr": np.array([0, 3, 2, 3])}, "make no csr matrix"),
        ({"shape": np.array([3])}, "make no csr matrix"),
        ({"indices": np.array([0.0, 2.0, 1.0])}, "key 'indices' has dtype float64 .* expected 1-d integers"),
        ({"format": np.array(b"bsr")}, "key 'format' is 'bsr', expected csr or csc"),
    ],
)
def test_unsuitable_sparse_npz(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    A = sparse.csr_array(SVM_X)
    arrays = {"data": A.data, "indices": A.indices, "indptr": A.indptr, "shape": np.array(A.shape), "y": SVM_Y}
    np.savez(tmp_path / "s.npz", **(arrays | change))
    with pytest.raises(UnreadableFile, match=says):
        data_files.load(tmp_path / "s.npz")


def test_one_flipped_bit_in_an_npz_is_noticed(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X=np.eye(3), y=np.ones(3))
    content = bytearray((tmp_path / "d.npz").read_bytes())
    content[content.index(np.ones(3).tobytes()[:8])] ^= 1
    with pytest.raises(UnreadableFile, match=r"X\.npy fails its checksum"):
        data_files.load(write(tmp_path / "d.npz", bytes(content)))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for name in ("a.svm", "a.svm.gz", "a.svm.xz", "t.csv", "d.npz"):
        with pytest.raises(UnreadableFile, match="no such file"):
            data_files.load(tmp_path / name)
    with pytest.raises(UnreadableFile, match="cannot be read"):
        data_files.load(tmp_path)


def test_more_features_than_allowed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.svm", b"1 1:1\n1 2:1 5:1\n1 4:1\n")
    with pytest.raises(UnreadableFile, match=r"has 5 features \(sample 2 .* at most n_features=3"):
        data_files.load(path, n_features=3)
    with pytest.raises(UnreadableFile, match="has 1 features, expected n_features=2"):
        data_files.load(write(tmp_path / "t.csv", b"1,2\n"), n_features=2)


@pytest.mark.parametrize("target", ["z", "x", 3, -4])
def test_wrong_target(tmp_path: Path, target: str | int) -> None:
    path = write(tmp_path / "t.csv", b"x,x,y\n1,2,3\n")
    with pytest.raises(InvalidInput, match="expected one of x, x, y, a position from 0 to 2"):
        data_files.load(path, target=target)
    with pytest.raises(InvalidInput, match="there is no header"):
        data_files.load(write(tmp_path / "u.csv", b"1,2,3\n"), target=target)
    with pytest.raises(InvalidInput, match="leave it out"):
        data_files.load(write(tmp_path / "a.svm", SVM), target=target)


def test_demo_is_standardised_and_of_full_rank() -> None:
    X, y = data_files.demo()
    assert X.shape == (442, 64)
    np.testing.assert_allclose(np.linalg.norm(X, axis=0), 1)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    assert abs(y.mean()) < 1e-12
    assert np.linalg.matrix_rank(X) == 64
