from pathlib import Path

import pytest

from glmesh.cli import main

CONTENT = b"""patient;age;bmi;sex;ill
P1;41;22,5;F;yes
P2;57;NA;M;no
P3;36;31,25;F;no
"""
SHOWN = """patients.csv
  read as    UTF-8 text, delimiter semicolon, decimal comma, names in line 1
  rows       3
  features   3
  ids        patient, all distinct
  target     ill has the labels no (2 rows), yes (1 row)

  column   kind             missing   least   largest
  age      number                 0      36        57
  bmi      number                 1    22.5     31.25
  sex      text, 2 levels

Worth a look
  - text: sex (2 levels); a formula takes it as a category, with a column per
    level beside the first (--formula); without one take the columns out
  - missing values: bmi (1 of 3, first in line 3); fill them in, or take the
    rows or columns out
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def test_describe_shows_how_a_file_is_read_and_what_may_be_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    Path("patients.csv").write_bytes(CONTENT)
    assert main(["describe", "patients.csv", "--ids", "patient"]) == 0
    assert capsys.readouterr().out == SHOWN


def test_describe_of_a_file_that_is_fine(capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_bytes(b"0,1,2\n0.5,1.5,1\n0.75,3.5,0\n")
    assert main(["describe", "t.csv"]) == 2
    assert "--header yes" in capsys.readouterr().err
    assert main(["describe", "t.csv", "--header", "no", "--target", "0", "--sample-weight", "x"]) == 2
    assert "no column 'x'" in capsys.readouterr().err
    assert main(["describe", "t.csv", "--header", "no"]) == 0
    out = capsys.readouterr().out
    assert "no header" in out
    assert "column 1" in out
    assert out.endswith("Nothing looks wrong.\n")


def test_describe_reads_every_format_and_says_what_a_foreign_file_is(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.svm").write_bytes(b"1 1:2 3:1\n-1 2:1\n")
    assert main(["describe", "a.svm"]) == 0
    assert "svmlight text, which names no columns" in capsys.readouterr().out
    Path("wide.csv").write_text(",".join(f"x{k}" for k in range(50)) + "\n" + ",".join(f"{k}.5" for k in range(50)))
    assert main(["describe", "wide.csv"]) == 0
    assert "... and 19 more columns" in capsys.readouterr().out
    Path("b.csv").write_bytes(b"PK\x03\x04 xl/workbook.xml")
    assert main(["describe", "b.csv"]) == 2
    assert "b.csv: is an Excel workbook (.xlsx), expected a table of text; save it as" in capsys.readouterr().err
    Path("c.csv").write_bytes("größe,y\n1.5,2\n".encode("latin-1"))
    assert main(["describe", "c.csv", "--encoding", "latin-1"]) == 0
    assert "größe" in capsys.readouterr().out
