"""Files as other programs write them, read as pandas reads them, by both readers of glmesh."""

import bz2
import gzip
import io
import lzma
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glmesh.contract import Contract, DataTable, fit
from glmesh.errors import InvalidInput, Mismatch, UnreadableFile
from glmesh.files import arrow
from glmesh.files.data_files import read_table

READERS = ["line by line", pytest.param("pyarrow", marks=pytest.mark.skipif(not find_spec("pyarrow"), reason="extra"))]


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(arrow, "WORTH_IT", 0 if request.param == "pyarrow" else 1 << 60)
    return str(request.param)


def saved(path: Path, content: bytes | str, encoding: str = "utf-8") -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    table = pd.DataFrame(
        {"age": rng.integers(20, 90, 30), "bmi": rng.normal(25, 4, 30), "smokes": rng.random(30) < 0.3}
    )
    table["bmi"] = table["bmi"].where(rng.random(30) < 0.9)
    table["größe"] = rng.normal(size=30) * 10.0 ** rng.integers(-300, 300, 30)
    table["ill"] = rng.integers(0, 2, 30)
    return table


def same_as(table: DataTable, expected: pd.DataFrame) -> None:
    assert table.y is not None
    assert table.target == expected.columns[-1]
    assert table.names == tuple(expected.columns[:-1])
    assert not table.texts
    np.testing.assert_array_equal(table.X, expected.iloc[:, :-1].to_numpy(dtype=float))
    np.testing.assert_array_equal(table.y, expected.iloc[:, -1].to_numpy(dtype=float))


def with_numpy(table: pd.DataFrame, path: Path, **options: Any) -> None:
    np.savetxt(path, table.to_numpy(dtype=float), header=options["delimiter"].join(table.columns), **options)


WRITERS: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    "pandas": lambda t, path: t.to_csv(path, index=False),
    "pandas with its index": lambda t, path: t.to_csv(path),
    "pandas, decimal comma": lambda t, path: t.to_csv(path, index=False, sep=";", decimal=","),
    "pandas, |": lambda t, path: t.to_csv(path, index=False, sep="|", na_rep="NA"),
    "pandas, tab, decimal comma": lambda t, path: t.to_csv(path, index=False, sep="\t", decimal=","),
    "pandas, all quoted": lambda t, path: t.to_csv(path, index=False, quoting=1),
    "pandas, BOM and Windows' line ends": lambda t, path: t.to_csv(
        path, index=False, encoding="utf-8-sig", lineterminator="\r\n"
    ),
    "pandas, old Mac's line ends": lambda t, path: t.to_csv(path, index=False, lineterminator="\r"),
    "pandas, UTF-16": lambda t, path: t.to_csv(path, index=False, encoding="utf-16"),
    "numpy": lambda t, path: with_numpy(t, path, delimiter=",", fmt="%.17g", encoding="utf-8"),
    "numpy, spaces": lambda t, path: with_numpy(t, path, delimiter=" ", fmt="%.17g", encoding="utf-8"),
    "numpy without #": lambda t, path: with_numpy(t, path, delimiter="\t", comments="", fmt="%.17g", encoding="utf-8"),
}


@pytest.mark.parametrize("compression", ["", ".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("writer", WRITERS)
def test_what_pandas_and_numpy_write_is_read_to_the_last_bit(
    tmp_path: Path, writer: str, compression: str, reader: str
) -> None:
    WRITERS[writer](frame(), tmp_path / "t.csv")
    compress = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[compression]
    path = saved(tmp_path / f"t.csv{compression}", compress((tmp_path / "t.csv").read_bytes()))
    table = read_table(path)
    same_as(table, frame())
    assert bool(table.left_out) == (writer == "pandas with its index")
    assert table.line(0) == 2
    assert table.line(29) == 31


@dataclass
class Case:
    """A file as a program writes it, and how pandas is told to read it."""

    content: str
    encoding: str = "utf-8"
    options: dict[str, Any] = field(default_factory=dict)  # of read_table
    pandas: dict[str, Any] = field(default_factory=dict)  # of pandas.read_csv
    lines: tuple[int, ...] = (2, 3, 4)


INDEX = {"index_col": 0}
CASES = {
    "R write.csv": Case('"","age","bmi","ill"\n"1",41,22.5,TRUE\n"2",57,NA,FALSE\n"3",36,1e-04,TRUE\n', pandas=INDEX),
    "R write.csv without row names": Case('"age","bmi","ill"\n41,22.5,1\n57,NA,0\n36,31,1\n'),
    "R write.csv2": Case(
        '"";"age";"bmi";"ill"\n"1";41;22,5;TRUE\n"2";57;NA;FALSE\n"3";36;31;TRUE\n',
        pandas={"sep": ";", "decimal": ",", "index_col": 0},
    ),
    "R write.table": Case('"age" "bmi" "ill"\n"1" 41 22.5 1\n"2" 57 NA 0\n"3" 36 31 1\n', pandas={"sep": " "}),
    "R write.table, comma": Case('"age","bmi","ill"\n"ann",41,22.5,1\n"ben",57,NA,0\n"cat",36,31,1\n'),
    "R write.csv, names in latin-1": Case(
        '"größe","ill"\n1.71,1\n1.6,0\n1.8,1\n', "latin-1", {"encoding": "latin-1"}, {"encoding": "latin-1"}
    ),
    "Excel, CSV UTF-8, English": Case("\ufeffage,bmi,ill\r\n41,22.5,1\r\n57,,0\r\n36,#N/A,1\r\n"),
    "Excel, CSV, German": Case(
        "Größe;BMI;krank\r\n1,71;22,5;1\r\n1,6;;0\r\n1,8;#NV;1\r\n",
        "cp1252",
        {"encoding": "cp1252", "missing": ("", "#NV")},
        {"sep": ";", "decimal": ",", "encoding": "cp1252", "na_values": ["#NV"]},
    ),
    "Excel, sep=": Case(
        "sep=;\r\nage;bmi;ill\r\n41;22,5;1\r\n57;;0\r\n36;31;1\r\n",
        pandas={"sep": ";", "decimal": ",", "skiprows": 1},
        lines=(3, 4, 5),
    ),
    "Excel, Unicode text": Case(
        "age\tbmi\till\r\n41\t22.5\t1\r\n57\t\t0\r\n36\t31\t1\r\n", "utf-16", pandas={"sep": "\t", "encoding": "utf-16"}
    ),
    "Excel, empty columns and rows at the end": Case(
        "age;bmi;ill;;\r\n41;22,5;1;;\r\n57;;0;;\r\n36;31;1\r\n;;;;\r\n;;;;\r\n",
        pandas={"sep": ";", "decimal": ",", "usecols": [0, 1, 2], "nrows": 3},
    ),
    "Excel, TRUE and FALSE": Case("smokes,ill\r\nTRUE,1\r\nFALSE,0\r\nTRUE,1\r\n"),
    "polars": Case("age,bmi,smokes,ill\n41,22.5,true,1\n57,,false,0\n36,1e-7,,1\n"),
    "polars, |": Case("age|bmi|ill\n41|22.5|1\n57||0\n36|31.0|1\n", pandas={"sep": "|"}),
    "trailing delimiter": Case("age,bmi,ill\n41,22.5,1,\n57,,0,\n36,31,1,\n", pandas={"index_col": False}),
    "trailing delimiter in the header too": Case(
        "age,bmi,ill,\n41,22.5,1,\n57,,0,\n36,31,1,\n", pandas={"usecols": [0, 1, 2]}
    ),
    "blank lines": Case("\nage,bmi,ill\n\n41,22.5,1\n57,NaN,0\n\n\n36,31,1\n\n", lines=(4, 5, 8)),
    "spaces": Case("age, bmi, ill\n41, 22.5, 1\n57, 3, 0\n36, 31 , 1\n", pandas={"skipinitialspace": True}),
    "quoted numbers": Case('"age","bmi","ill"\n"41","22.5","1"\n"57","","0"\n"36","NULL","1"\n'),
    "a name that spans lines": Case('"age\nin years","bmi","ill"\n41,22.5,1\n57,1,0\n36,31,1\n', lines=(3, 4, 5)),
    "a name with the delimiter": Case('"age, in ""years""","bmi","ill"\n41,22.5,1\n57,1,0\n36,31,1\n'),
    "no line end at the end": Case("age,bmi,ill\n41,22.5,1\n57,.,0\n36,-nan,1", pandas={"na_values": ["."]}),
    "infinity and exponents": Case("a,b,y\ninf,1E5,1\n-Infinity,-.5e-3,0\n5.,+7,1\n"),
    "digits beyond 64 bits": Case(
        "a,b,y\n0.1234567890123456789012345,123456789012345678901,1\n2.2250738585072011e-308,4.9e-324,0\n"
        "9007199254740993,0.30000000000000004,1\n"
    ),
    "first fraction far down": Case(
        "a;b;y\n" + "1;2;0\n" * 60_000 + "1,5;2;1\n",
        pandas={"sep": ";", "decimal": ","},
        lines=tuple(range(2, 60_003)),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_other_programs_write_is_read_as_pandas_reads_it(tmp_path: Path, case: str, reader: str) -> None:
    wanted = CASES[case]
    path = saved(tmp_path / "t.csv", wanted.content, wanted.encoding)
    table = read_table(path, **wanted.options)
    expected = pd.read_csv(path, **({"sep": ","} | wanted.pandas))
    expected.columns = [name.strip() for name in expected.columns]
    same_as(table, expected)
    assert tuple(table.line(row) for row in range(table.m)) == wanted.lines


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_parquet_and_feather(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / f"t.{kind}"
    getattr(frame(), f"to_{kind}")(path)
    same_as(read_table(path), frame())
    table = frame().assign(
        who=[f"p{k}" for k in range(30)], number=np.arange(30) + 2**60, seen=pd.Timestamp("2024-02-29")
    )
    table["group"] = pd.Categorical(["a", "b", "c"] * 10)
    table["label"] = ["yes", "no"] * 15
    getattr(table, f"to_{kind}")(path)
    read = read_table(path, target="label", ids="number", weight="age")
    assert read.ids == [str(2**60 + k) for k in range(30)]
    assert read.labels == ("no", "yes")
    assert [(one.name, one.looks) for one in read.text_columns] == [
        ("who", "names of rows"),
        ("seen", "dates"),
        ("group", ""),
    ]
    np.testing.assert_array_equal(read.weight, table["age"])


def test_the_index_of_a_parquet_file_is_left_out(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame().set_index(np.arange(30) * 7).to_parquet(tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", has_target=False).X.shape == (30, 5)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "find_spec", lambda name: None)
    with pytest.raises(UnreadableFile, match=r"t\.parquet: parquet files need pyarrow; pip install 'glmesh\[tables\]'"):
        read_table(saved(tmp_path / "t.parquet", b"PAR1"))


def outcome(content: bytes, folder: Path, **options: Any) -> tuple[Any, ...]:
    try:
        table = read_table(saved(folder / "t.csv", content), **options)
    except (UnreadableFile, InvalidInput) as error:
        return type(error), str(error)
    y = (
        None
        if table.y is None
        else (table.y.dtype.kind, table.y.tobytes() if table.y.dtype.kind == "f" else list(table.y))
    )
    lines = [table.line(row) for row in range(table.m)]
    return table.names, table.X.shape, table.X.tobytes(), y, table.texts, table.text_columns, lines, table.ids


CELLS = [
    *("1", "2.5", "-3e5", "", "NA", "nan", "x", '"x, y"', '"a\nb"', '"1"', " 7 ", "TRUE", "F", "T", "1,5", "1_0", "é"),
    *(
        "inf",
        "0x1F",
        "1e400",
        "--1",
        "+5",
        "1.",
        ".5",
        ".",
        "2024-01-01",
        '"NA"',
        '"a""b"',
        '"',
        '"a"b',
        "1 2",
        "1d5",
        "\xa07",
    ),
]


@pytest.mark.skipif(not find_spec("pyarrow"), reason="extra")
@given(
    st.lists(st.lists(st.sampled_from(CELLS), min_size=3, max_size=3), min_size=1, max_size=6),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.booleans(),
)
def test_both_readers_give_the_same_bits_lines_and_messages(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], delimiter: str, end: str, ids: bool
) -> None:
    folder = tmp_path_factory.mktemp("both")
    plain = [["a", "b", "y"], *([["1", "2.5", "0"]] * 3)]  # what the first lines promise
    content = "".join(delimiter.join(row) + end for row in [*plain, *rows]).encode()
    options = {"ids": "b"} if ids else {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glmesh.files.layout._SAMPLE", 20)
        patch.setattr(arrow, "WORTH_IT", 1 << 60)
        expected = outcome(content, folder, **options)
        patch.setattr(arrow, "WORTH_IT", 0)
        assert outcome(content, folder, **options) == expected


@pytest.mark.parametrize(
    ("first", "header"),
    [
        (b"age,bmi,y\n1,2,0\n3,4,1\n", True),
        (b"age,2,3\n1,2,0\n3,4,1\n", True),
        (b",age,y\n1,2,0\n3,4,1\n", True),
        (b"1.5,NA,0\n3,4,1\n", False),
        (b"1,2,0\n3,4,1\n", False),
        (b"1,1,0\n3.5,4,1\n", False),
        (b"NA,NA,NA\n3.5,4,1\n", False),
        (b"1;2,5;0\n3;4;1\n", False),
    ],
)
def test_a_first_line_with_text_is_a_header_and_one_of_numbers_is_none(
    tmp_path: Path, first: bytes, header: bool
) -> None:
    table = read_table(saved(tmp_path / "t.csv", first))
    assert (table.names is not None) == header
    assert table.m == 2
    assert table.line(0) == 1 + header


@pytest.mark.parametrize(
    "content", [b"0,1,2\n0.5,1,1\n2,3,0\n", b"3,1,2\n5,1,ill\n", b",0,1\n0,5.0,1\n1,6.0,0\n", b"TRUE,1,2\nFALSE,4,5\n"]
)
def test_a_first_line_that_may_be_either_is_refused_until_it_is_said(tmp_path: Path, content: bytes) -> None:
    path = saved(tmp_path / "t.csv", content)
    with pytest.raises(UnreadableFile, match=r"t\.csv, line 1: .*--header yes.*--header no"):
        read_table(path)
    rows = content.count(b"\n")
    assert read_table(path, header="no").m == rows
    named = read_table(path, header="yes")
    assert named.m == rows - 1
    assert named.target == content.split(b"\n")[0].split(b",")[-1].decode()
    with pytest.raises(InvalidInput, match="header must be 'auto', 'yes' or 'no', got 'y'"):
        read_table(path, header="y")  # type: ignore[arg-type]


def test_text_is_kept_apart_and_refused_where_it_is_used(tmp_path: Path, reader: str) -> None:
    content = b"id,age,sex,seen,ill\n7,41,F,2024-01-31,no\n8,57,M,2024-02-01,yes\n007,,F,,no\n"
    table = read_table(saved(tmp_path / "t.csv", content), ids="id")
    assert table.ids == ["7", "8", "007"]
    assert table.texts == ("sex", "seen")
    assert [(one.line, one.cell, one.levels, one.looks) for one in table.text_columns] == [
        (2, "F", 2, ""),
        (2, "2024-01-31", 2, "dates"),
    ]
    assert np.isnan(table.X[:, 1:]).all()
    assert table.labels == ("no", "yes")
    contract = Contract.like(table, classifies=True)
    with pytest.raises(Mismatch, match=r"columns sex, seen have text; .*: line 2 holds 'F'") as caught:
        fit(table, contract)
    assert "'F'" not in caught.value.public


def test_a_column_of_f_alone_is_no_column_of_false(tmp_path: Path, reader: str) -> None:
    table = read_table(saved(tmp_path / "t.csv", b"a,b,c,y\nF,T,TRUE,1\nF,F,1,0\n"))
    assert table.texts == ("a", "c")
    np.testing.assert_array_equal(table.X[:, 1], [1, 0])


def test_a_table_to_be_predicted_may_lack_the_target(tmp_path: Path) -> None:
    path = saved(tmp_path / "t.csv", b"age,bmi\n41,22\n57,30\n")
    assert read_table(path, has_target=False).names == ("age", "bmi")
    without = read_table(path, has_target=False, target="ill")
    assert without.y is None
    assert without.X.shape == (2, 2)
    there = read_table(path, has_target=False, target="age")
    assert there.names == ("bmi",)
    np.testing.assert_array_equal(there.y, [41, 57])  # type: ignore[arg-type]
    assert read_table(saved(tmp_path / "one.csv", b"age\n41\n57\n"), has_target=False).X.shape == (2, 1)


@pytest.mark.parametrize(
    ("content", "options", "says"),
    [
        (b"a,a,y\n1,2,3\n", {"target": "a"}, "target='a' names 2 columns, expected one of a, a, y"),
        (b"a,a,y\n1,2,3\n", {"ids": "a"}, "2 columns 'a', expected one; there are a, a, y"),
        (b"a,w,y\n1,2,3\n", {"weight": "v"}, "no column 'v'; there are a, w, y"),
        (b"a,w,y\n1,2,3\n", {"weight": "w", "ids": "w"}, "ids and weight are one column, 'w', expected two"),
        (b"a,w,y\n1,2,3\n", {"weight": "y", "target": "y"}, "target='y' and weight='y' are one column"),
        (b"a,w,y\n1,2,3\n4,x,3\n", {"weight": "w"}, r"line 3, column 1 \(w\): a weight must be a number"),
        (b"a,w,y\n1,2,3\n4,,3\n", {"weight": "w"}, r"line 3, column 1 \(w\): a weight must be a number"),
        (b"a,i,y\n1,2,3\n4,,3\n", {"ids": "i"}, "line 3: the row has no name in the column of ids"),
        (b"a,i,y\n1,2,3\n\n4,2,3\n", {"ids": "i"}, "two rows have the name '2', lines 2 and 4"),
        (b",a,y\n1,2,3\n", {"target": 0}, "target=0 names 1 columns, expected one of a, y"),
        (b"a,,y\n1,2,3\n", {}, "the column after 'a' has no name in line 1, but values"),
        (b"a,b,y\n1,2,3\n\n1,2,3,4\n", {}, "line 4: has 4 cells, expected 3 as the header has names"),
        (b'a,b,y\n1,"2\n",3\n1,2\n', {}, "line 4: has 2 cells, expected 3"),
        (b'a,b,y\n1,2,3\n1,"2,3\n', {}, "line 3: unexpected end of data; expected plain or quoted cells"),
        (b"a,b,y\n1,2,3\n1,\xe9,3\n", {}, "line 3: is not text in utf-8 .*--encoding latin-1"),
        ("a,b,y\n1,2,3\n".encode("utf-16-le"), {}, "holds zero bytes, expected text; .*--encoding utf-16-le"),
        (b"a,y\n1,2\n", {"encoding": "ebcdic?"}, "encoding 'ebcdic\\?' is unknown; utf-8, latin-1"),
        (b"", {}, "holds no samples"),
        (b"\n\n", {}, "holds no samples"),
        (b"a;b;y\n", {}, "holds no samples"),
    ],
)
def test_refusals_say_where_and_what_would_do(
    tmp_path: Path, content: bytes, options: dict[str, Any], says: str, reader: str
) -> None:
    with pytest.raises((UnreadableFile, InvalidInput), match=says) as caught:
        read_table(saved(tmp_path / "t.csv", content), **options)
    assert "t.csv" in str(caught.value) or "encoding" in options


def npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, X=np.eye(2))
    return stream.getvalue()


FOREIGN = {
    "gzip data": gzip.compress(b"a,b\n"),
    "bzip2 data": bz2.compress(b"a,b\n"),
    "xz data": lzma.compress(b"a,b\n"),
    "an Excel workbook": b"PK\x03\x04\x14\x00\x06\x00\x08\x00\x00\x00!\x00" + bytes(16) + b"[Content_Types].xml",
    "an old Excel workbook": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    "a NumPy archive": npz(),
    "a zip archive": b"PK\x03\x04 data.csv",
    "a Parquet file": b"PAR1\x15\x04",
    "a Feather": b"ARROW1\0\0",
    "a SAS data set": bytes(12) + b"\xc2\xea\x81\x60\xb3\x14\x11\xcf",
    "a PNG picture": b"\x89PNG\r\n\x1a\n",
    "a Python pickle": pickle.dumps([1]),
    "an SQLite database": b"SQLite format 3\0",
    "a web page": b"\n<!DOCTYPE html><html>",
    "a JSON document": b'[{"a": 1}]',
}


@pytest.mark.parametrize("name", ["t.csv", "t.svm", "t.csv.gz"])
@pytest.mark.parametrize("what", FOREIGN)
def test_a_file_with_a_wrong_name_is_called_what_it_is(tmp_path: Path, what: str, name: str) -> None:
    content = gzip.compress(FOREIGN[what]) if name.endswith(".gz") else FOREIGN[what]
    with pytest.raises(UnreadableFile, match=rf"{name}: is {what}.*, expected .*; ."):
        read_table(saved(tmp_path / name, content))


def test_the_base_of_svmlight_indices_can_be_said(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.svm", b"1 1:4 3:5\n")
    assert [read_table(path, index_base=base).X.shape[1] for base in ("auto", 0, 1)] == [3, 4, 3]
    with pytest.raises(UnreadableFile, match=r"uses the index 0, expected indices from 1 on \(index_base=1\)"):
        read_table(saved(tmp_path / "b.svm", b"1 0:4 3:5\n"), index_base=1)


def test_missing_values_are_refused_where_a_model_is_trained(tmp_path: Path) -> None:
    table = read_table(saved(tmp_path / "t.csv", b"a,b,y\n1,2,0\n\n3,NA,1\n"))
    with pytest.raises(Mismatch, match=r"column b has a missing value; .*: the first is in line 4"):
        fit(table, Contract.like(table, classifies=True))
    for labels in (b"0\n\n3,4,NA\n5,6,1", b"no\n\n3,4,\n5,6,yes"):
        table = read_table(saved(tmp_path / "t.csv", b"a,b,y\n1,2," + labels))
        with pytest.raises(Mismatch, match=r"the target 'y' has a missing value; .*: the first is in line 4"):
            fit(table, Contract.like(table, classifies=True))
