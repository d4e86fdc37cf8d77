"""The scripts in examples/ run, and leave a picture that can be read."""

import ast
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from tests.cases import SOAK

GALLERY = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


def run(script: Path) -> dict[str, Any]:
    return runpy.run_path(str(script), run_name="__main__")


def drawn(figure: Figure) -> np.ndarray:
    """Return the pixels of a figure, shape (height, width, 4), at a low resolution."""
    figure.set_dpi(40)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba()).copy()


@pytest.mark.parametrize("script", GALLERY, ids=lambda path: path.stem)
def test_an_example_runs_and_its_picture_is_not_blank_nor_cut_off(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace = run(script)
    assert not list(tmp_path.iterdir())
    assert "Stopped" not in capsys.readouterr().out  # before the goal was reached
    figure = namespace["figure"]
    picture = drawn(figure)
    assert (picture[..., :3] < 250).any(axis=2).mean() > 0.02
    height, width = picture.shape[:2]
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip() and text.axes is not None:
            box = text.get_window_extent()
            assert box.x0 > -2, text
            assert box.x1 < width + 2, text
            assert box.y0 > -2, text
            assert box.y1 < height + 2, text
    if SOAK:
        assert np.array_equal(drawn(run(script)["figure"]), picture), "another picture the second time"


@pytest.mark.parametrize("script", GALLERY, ids=lambda path: path.stem)
def test_a_page_of_the_gallery_begins_with_a_title_and_says_in_a_few_sentences_what_one_sees(script: Path) -> None:
    title, rule, empty, *text = (ast.get_docstring(ast.parse(script.read_text())) or "").splitlines()
    assert set(rule) == {"="}
    assert len(rule) == len(title)
    assert not empty
    assert 2 <= len(re.findall(r"[.!?](?=\s|$)", "\n".join(text))) <= 5


@pytest.mark.parametrize("script", GALLERY, ids=lambda path: path.stem)
def test_no_block_of_a_gallery_script_ends_with_a_value_that_its_page_would_print(script: Path) -> None:
    for block in script.read_text().split("# %%")[1:]:
        last = ast.parse(block).body[-1]
        if isinstance(last, ast.Expr):
            assert isinstance(last.value, ast.Call)
            name = ast.unparse(last.value.func).rpartition(".")[2]
            assert name in ("print", "label_lines", "grid", "minorticks_off"), f"{script.name}: {name}"


def test_the_gallery_has_at_least_15_pictures_and_needs_no_pyplot() -> None:
    assert len(GALLERY) >= 15
    assert all(script.name.startswith("plot_") for script in GALLERY)
    assert not [script.name for script in GALLERY if "pyplot" in script.read_text()]
