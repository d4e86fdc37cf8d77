"""The plots of the report: zeros at the floor, the goal, and the end of each line."""

import re

from glmesh.federation.monitor.report import plot


def test_a_gap_of_0_is_at_the_floor_the_goal_is_drawn_and_ends_are_marked():
    lines = [("alice", [(0.0, 1.0), (1.0, 1e-3), (2.0, 0.0)]), ("bob", [(0.0, 0.5), (2.0, 1e-5)])]
    drawn = plot(lines, "seconds", logarithmic=True, goal=1e-4)
    floor = float(re.search(r"y='([\d.]+)'[^>]*>0</text>", drawn).group(1)) - 4
    ends = re.findall(r"class='end' cx='([\d.]+)' cy='([\d.]+)'", drawn)
    assert len(ends) == 2
    assert abs(float(ends[0][1]) - floor) < 0.2
    assert float(ends[1][1]) < floor
    goal = float(re.search(r"class='goal' d='M[\d.]+ ([\d.]+)H", drawn).group(1))
    assert goal < float(ends[1][1])
    assert "goal 1e-04" in drawn


def test_colours_of_a_legend_are_not_those_of_other_text():
    drawn = plot([("alice", [(0.0, 1.0)]), ("bob", [(0.0, 2.0)])], "seconds")
    colours = re.findall(r"style='fill:(#\w+)'>— ", drawn)
    assert len(set(colours)) == 2  # a style, which a rule for all text does not override


def test_only_zeros_and_nothing():
    assert ">0</text>" in plot([("a", [(0.0, 0.0), (1.0, 0.0)])], "seconds", logarithmic=True)
    assert "Nothing to draw" in plot([("a", [])], "seconds", logarithmic=True, goal=1e-4)
