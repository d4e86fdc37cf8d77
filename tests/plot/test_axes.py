from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text
from sklearn.isotonic import isotonic_regression

from glmesh import plot
from glmesh.plot.axes import moved_apart
from tests.cases import prop


def names(axes):
    """{label: the text beside the axes}"""
    return {text.get_text(): text for text in axes.texts}


def test_subplots_have_the_style_of_the_gallery():
    figure, axes = plot.subplots(2, 3, width=6.0, height=5.0, sharex=True)
    assert axes.shape == (2, 3)
    assert figure.get_size_inches().tolist() == [6.0, 5.0]
    lines = [line for _ in range(7) for line in axes[0, 0].plot([0, 1])]
    colours = [line.get_color() for line in lines]
    assert len(set(colours)) == 7
    assert plot.COLOURS["yellow"] not in colours
    assert not any(one.spines["top"].get_visible() for one in axes.flat)


def test_a_name_stands_beside_the_end_of_its_line_in_its_colour():
    _, axes = plot.subplots()
    (line,) = axes.plot([0, 1, 2], [3.0, 1.0, 2.0], label="ours")
    axes.plot([0, 1], [1.0, 1.0])  # has no name
    axes.plot([], [], label="nothing")
    axes.plot([0, 2], [np.nan, np.nan], label="not finite")
    axes.plot([0, 2], [1.0, 9.0], label="outside")
    axes.set(xlim=(0, 2), ylim=(0, 4))
    plot.label_lines(axes)
    assert list(names(axes)) == ["ours"]
    text = names(axes)["ours"]
    assert text.get_color() == line.get_color()
    assert text.xyann == pytest.approx((1.03, 0.5))


def test_names_that_would_cover_each_other_move_apart_and_keep_their_order():
    figure, axes = plot.subplots()
    for k in range(6):
        axes.plot([0, 1], [0.0, 1.0 + 0.01 * k], label=f"line {k}")
    axes.set(xlim=(0, 1), ylim=(0, 2))
    plot.label_lines(axes, names=[f"line {k}" for k in range(5)])
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(names(axes)[f"line {k}"]) for k in range(5)]  # without its arrow
    assert all(lower.y1 <= upper.y0 for lower, upper in pairwise(boxes))
    middle = np.mean([(box.y0 + box.y1) / 2 for box in boxes])
    assert middle == pytest.approx(axes.transData.transform((1, 1.02))[1], abs=1.0)
    assert "line 5" not in names(axes)


def test_a_line_that_ends_inside_has_its_name_there():
    _, axes = plot.subplots()
    axes.plot([0, 0.5], [0.5, 0.5], label="short")
    axes.plot([0, 1], [0.5, 0.5], label="long")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    plot.label_lines(axes)
    assert names(axes)["short"].xyann == pytest.approx((0.53, 0.5))
    assert names(axes)["long"].xyann == pytest.approx((1.03, 0.5))


def test_a_log_scale_is_respected():
    _, axes = plot.subplots()
    axes.plot([0, 1], [1.0, 0.1], label="falls")
    axes.set(xlim=(0, 1), ylim=(1e-2, 1.0), yscale="log")
    plot.label_lines(axes)
    assert names(axes)["falls"].xyann == pytest.approx((1.03, 0.5))


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0, 0.3))
@prop(300)
def test_heights_are_as_near_as_can_be_to_where_lines_end(heights, least):
    heights = sorted(heights)
    moved = moved_apart(heights, least)
    assert moved.shape == (len(heights),)
    assert (np.diff(moved) >= least - 1e-12).all()
    steps = least * np.arange(len(heights))
    expected = isotonic_regression(np.array(heights) - steps) + steps if heights else moved
    np.testing.assert_allclose(moved, expected, atol=1e-12)
