import io
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from matplotlib.colors import to_rgba

from glmesh import plot
from glmesh.errors import InvalidInput
from glmesh.plot.figures import ORANGE, TINT

History = dict[str, np.ndarray]


def history(n: int = 60) -> History:
    t = np.arange(n, dtype=np.float64)
    return {
        "round": t,
        "communications": 2 * t,
        "bytes": 2 * t * 16 * 8e4,
        "seconds": 0.02 * t,
        "objective": 3 + np.exp(-t / 9),
        "h": 3 + np.exp(-t / 9),
        "gap": 9 * np.exp(-t / 7),
        "consensus": 2 * np.exp(-t / 5),
        "certificate": np.where(t % 10 == 9, 20 * np.exp(-t / 7), np.nan),
    }


def spoiled(**changes: float) -> History:
    return history() | {key: np.full(60, value) for key, value in changes.items()}


def is_png(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG")


def test_convergence(tmp_path: Path) -> None:
    figure = plot.convergence(history(), path=tmp_path / "c.png", title="a run")
    assert is_png(tmp_path / "c.png")
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == ["duality gap", "certified by the nodes"]
    np.testing.assert_allclose(
        np.asarray(left.lines[0].get_ydata(), dtype=float), history()["gap"] / history()["objective"]
    )
    assert np.size(left.lines[1].get_xdata()) == 6
    assert len(right.lines) == 1
    assert left.get_yscale() == right.get_yscale() == "log"
    assert left.xaxis.get_major_formatter()(100, 0) == "100\n128 MB"


@pytest.mark.parametrize(
    ("spoilt", "lines"),
    [
        (history(1), [1, 1]),
        (history(0), [0, 0]),
        (spoiled(objective=0.0, consensus=0.0), [0, 1]),
        (spoiled(gap=np.nan, certificate=np.nan), [0, 1]),
        (spoiled(gap=np.inf, consensus=-1.0), [1, 0]),
        (spoiled(gap=1e-320, consensus=1.7e308), [2, 1]),
        (spoiled(bytes=np.nan, communications=0.0), [2, 1]),
    ],
)
def test_convergence_of_odd_histories(tmp_path: Path, spoilt: History, lines: list[int]) -> None:
    figure = plot.convergence(spoilt)
    figure.set_layout_engine("none")  # half of the time
    figure.savefig(tmp_path / "c.png", dpi=20)
    assert [len(axes.lines) for axes in figure.axes] == lines


def ended_at_zero() -> History:
    """As Newton's method ends: the gap is exactly 0 from one record to the next."""
    return {key: values[[0, 20, 40]] for key, values in history().items()} | {
        "gap": np.array([4.0, 0.04, 0.0]),
        "consensus": np.array([0.0, 1e-20, 0.0]),
    }


def test_a_gap_of_zero_lies_at_the_floor_and_the_end_and_the_goal_are_marked() -> None:
    left, right = plot.convergence(ended_at_zero(), tol=1e-4).axes
    goal, curve = left.lines[:2]
    floor = left.get_ylim()[0]
    assert np.asarray(curve.get_ydata())[-1] == floor < 1e-4
    assert left.yaxis.get_major_formatter()(floor, 0) == "0"
    assert floor in left.get_yticks()
    assert np.asarray(goal.get_ydata()).tolist() == [1e-4, 1e-4]
    ends = [tuple(np.asarray(one.get_offsets())[0]) for one in left.collections]
    assert ends == [(80.0, floor)]
    assert [text.get_text() for text in left.texts] == ["goal 0.0001", "0"]
    assert np.asarray(right.lines[0].get_ydata())[0] == right.get_ylim()[0]


def test_training_draws_zeros_ends_and_the_goal() -> None:
    figure = plot.training([ended_at_zero(), history()], tol=1e-4)
    for axes in (figure.axes[2], figure.axes[3]):
        assert np.asarray(axes.lines[1].get_ydata())[-1] == axes.get_ylim()[0]
        assert np.asarray(axes.lines[0].get_ydata()).tolist() == [1e-4, 1e-4]
    assert all(len(axes.collections) == 2 for axes in figure.axes)


def test_training_draws_what_nodes_certified() -> None:
    figure = plot.training([history()], tol=1e-4)
    for axes, against in ((figure.axes[2], "round"), (figure.axes[3], "bytes")):
        points = axes.lines[-1]
        assert points.get_marker() == "o"
        assert np.asarray(points.get_xdata()).tolist() == history()[against][9::10].tolist()


@pytest.mark.parametrize("ascii", [False, True])
def test_a_curve_in_text_has_zeros_at_its_floor_an_end_and_a_goal(ascii: bool) -> None:
    lines = plot.curve([0, 1, 2], [1.0, 0.01, 0.0], height=8, goal=1e-3, ascii=ascii).split("\n")
    bottom = lines[-3]
    assert bottom.lstrip().startswith("0 ")
    assert bottom.endswith("o" if ascii else "●")
    assert sum("goal" in line for line in lines) == 1


def test_the_end_that_is_told_is_that_of_the_proof_where_nodes_certified() -> None:
    left = plot.convergence(history()).axes[0]
    proven = history()["certificate"][-1] / history()["objective"][-1]
    assert [text.get_text() for text in left.texts] == [f"{proven:.2g}"]
    assert len(left.collections) == 2


def test_convergence_without_certificates() -> None:
    plain = history()
    del plain["certificate"]
    assert len(plot.convergence(plain).axes[0].lines) == 1


def presence(n_rounds: int, n_nodes: int = 4) -> np.ndarray:
    """Node 0 joins after a quarter, node 1 is away for the second half."""
    there = np.ones((n_rounds, n_nodes))
    there[: n_rounds // 4, 0] = 0
    there[n_rounds // 2 :, 1] = 0.5
    return there


def test_presence(tmp_path: Path) -> None:
    figure = plot.convergence(history(41), path=tmp_path / "c.png", presence=presence(40))
    assert is_png(tmp_path / "c.png")
    left, _right, top = figure.axes
    image = top.images[0]
    assert image.get_extent() == [0, 80, 3.5, -0.5]
    assert left.get_xlim() == top.get_xlim() == (0, 80)
    colours = np.asarray(image.get_array())
    assert colours.shape == (4, 40, 4)
    tint, orange = to_rgba(TINT), to_rgba(ORANGE)
    np.testing.assert_allclose(colours[0, :, 3], [0] * 10 + [1] * 30, atol=1e-12)
    np.testing.assert_allclose(colours[1], [tint] * 20 + [orange] * 20, atol=1e-12)
    np.testing.assert_allclose(colours[2:], np.broadcast_to(tint, (2, 40, 4)), atol=1e-12)
    assert [text.get_text() for text in top.get_legend().get_texts()] == ["there", "away", "not a member"]
    assert top.get_yticks().tolist() == [0, 1, 2, 3]


def test_presence_follows_communications() -> None:
    uneven = history(3) | {"round": np.array([0, 10, 40]), "communications": np.array([4, 24, 44])}
    colours = plot.convergence(uneven, presence=presence(40)).axes[2].images[0].get_array()
    # 10 rounds before record 1 are half of the width, 30 after it the other half
    np.testing.assert_allclose(np.asarray(colours)[0, :, 3], [0] * 20 + [1] * 20, atol=1e-12)


def test_presence_of_many_rounds_shows_shares() -> None:
    there = np.ones((5000, 70))
    there[::5] = 0.5
    top = plot.convergence(history(5001), presence=there).axes[2]
    colours = np.asarray(top.images[0].get_array())
    assert colours.shape[1] < 1000
    blend = 0.8 * np.array(to_rgba(TINT)) + 0.2 * np.array(to_rgba(ORANGE))
    np.testing.assert_allclose(colours.mean(axis=(0, 1)), blend, atol=1e-9)
    assert top.get_legend().get_texts()[1].get_text().startswith("away (paler")
    assert (list(top.get_yticks()), top.get_ylabel()) == ([], "70 nodes")


@pytest.mark.parametrize(
    ("run", "there"),
    [
        (history(), np.ones((59, 4))),
        (history(), np.zeros((0, 4))),
        (history(0), presence(8)),
        (history(1), presence(8)),
        (spoiled(communications=0.0), presence(59)),
    ],
)
def test_no_presence_where_there_is_nothing_to_see(run: History, there: np.ndarray) -> None:
    assert len(plot.convergence(run, presence=there).axes) == 2


@pytest.mark.parametrize(
    ("there", "run"),
    [
        (np.full((1, 1), 0.5), history(2)),
        (presence(59, 64), history()),
        (presence(59), spoiled(gap=np.nan, certificate=np.nan)),
    ],
)
def test_presence_of_odd_runs(tmp_path: Path, there: np.ndarray, run: History) -> None:
    figure = plot.convergence(run, presence=there)
    figure.set_layout_engine("none")
    figure.savefig(tmp_path / "c.png", dpi=20)
    assert len(figure.axes) == 3


@pytest.mark.parametrize(
    "graph",
    [
        nx.empty_graph(0),
        nx.empty_graph(1),
        nx.empty_graph(3),
        nx.path_graph(2),
        nx.cycle_graph(5),
        nx.star_graph(6),
        nx.grid_2d_graph(3, 4),
        nx.cycle_graph(70),
        nx.disjoint_union(nx.cycle_graph(4), nx.star_graph(3)),
    ],
)
def test_topology(tmp_path: Path, graph: nx.Graph) -> None:
    figure = plot.topology(graph, path=tmp_path / "t.png", title="network")
    assert is_png(tmp_path / "t.png")
    links, nodes = figure.axes[0].collections
    places = np.asarray(nodes.get_offsets(), dtype=float)
    assert len(places) == len(graph)
    assert len(links.get_paths()) == graph.number_of_edges()
    assert np.abs(places).max(initial=0) <= 1 + 1e-9


def test_missing_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install glmesh\[plot\]"):
        plot.convergence(history())
    with pytest.raises(ImportError, match=r"pip install glmesh\[plot\]"):
        plot.topology(nx.path_graph(2))


def test_pyplot_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it would now fail
    plot.topology(nx.grid_2d_graph(2, 3), path=tmp_path / "t.png")
    plot.convergence(history(2), path=tmp_path / "c.png")


@pytest.mark.parametrize("ascii", [False, True])
def test_curve(ascii: bool) -> None:
    run = history()
    text = plot.curve(run["communications"], run["gap"], title="relative gap", xlabel="communications", ascii=ascii)
    lines = text.split("\n")
    assert len(lines) == 1 + 12 + 2
    assert max(map(len, lines)) <= 64
    assert lines[0].strip() == "relative gap"
    assert lines[-1].split() == ["0", "communications", "118"]
    assert [line.split()[0] for line in lines if "1e" in line] == ["1e+00", "1e-01", "1e-02"]
    assert text.isascii() == ascii


def test_curve_falls_from_corner_to_corner() -> None:
    lines = plot.curve([0, 1, 2], [1e2, 1, 1e-2], width=14, height=5, ascii=True).split("\n")
    assert [line[9:] for line in lines[:5]] == [".", " .", "  .", "   .", "    o"]
    assert [line[:9] for line in lines[:5:2]] == ["  1e+02 +", "  1e+00 +", "  1e-02 +"]


@pytest.mark.parametrize(
    ("xs", "ys", "shows"),
    [
        ([], [], "nothing to draw"),
        ([1, 2, 3], [-2, -1, np.nan], "nothing to draw"),
        ([5], [3.0], "3.0e+00"),
        ([1, 2, 3], [1e-4] * 3, "1.0e-04"),
        ([1, 2, 3], [0.012, 0.018, 0.015], "1.8e-02"),
        ([1, 2, np.inf, 4, 5], [np.inf, 1e-320, 1, np.nan, 1.7e308], "1e+68"),
        ([0, 0], [1, 1e-9], "1e-04"),
    ],
)
@pytest.mark.parametrize(("width", "height"), [(64, 12), (10, 3), (1, 1)])
def test_curve_of_odd_data(xs: list[float], ys: list[float], shows: str, width: int, height: int) -> None:
    text = plot.curve(xs, ys, width=width, height=height)
    if height == 12:
        assert shows in text


def test_small_graph() -> None:
    drawn = plot.graph(nx.cycle_graph(4), width=7, height=5, ascii=True).split("\n")
    assert drawn == ["   0", " .. ..", "3     1", " .. ..", "   2"]


@pytest.mark.parametrize(("n_nodes", "ascii"), [(1, False), (2, True), (16, False), (32, True), (40, False)])
def test_nodes_are_numbered(n_nodes: int, ascii: bool) -> None:
    text = plot.graph(nx.empty_graph(n_nodes), ascii=ascii)
    assert sorted(map(int, text.split())) == [*range(n_nodes)]


def test_large_and_empty_graphs() -> None:
    assert plot.graph(nx.empty_graph(0)) == "(no nodes)"
    assert "●" in plot.graph(nx.complete_graph(41))
    text = plot.graph(nx.cycle_graph(100), ascii=True)
    assert text.isascii()
    assert not any(letter.isdigit() for letter in text)


@pytest.mark.parametrize("draw", ["convergence", "training"])
def test_one_model_at_all_nodes_has_a_gap_of_0_at_the_floor_and_no_consensus_violation(draw):
    """The history of a method on totals: nothing is known before the first total, h and consensus are NaN."""
    unknown = np.full(4, np.nan)
    history = {
        "round": np.arange(4), "communications": 8 * np.arange(4), "bytes": 100 * np.arange(4), "h": unknown,
        "objective": np.array([np.nan, 3.0, 2.0, 2.0]), "gap": np.array([np.inf, 1.0, 1e-3, 0.0]),
        "consensus": unknown, "certificate": unknown,
    }  # fmt: skip
    if draw == "convergence":
        figure = plot.convergence(history, tol=1e-4)
        gaps, agreed = [figure.axes[0]], [figure.axes[1]]
    else:
        figure = plot.training([history, history], tol=1e-4)
        gaps, agreed = [figure.axes[2], figure.axes[3]], [figure.axes[4], figure.axes[5]]
    for axes in gaps:
        curve = next(line for line in axes.lines if len(line.get_xdata()) == 3)
        assert curve.get_ydata()[-1] == axes.get_ylim()[0]  # the floor, where zeros are
        assert any(np.allclose(line.get_ydata(), 1e-4) for line in axes.lines)  # the goal
    for axes in agreed:
        assert [text.get_text() for text in axes.texts] == ["all nodes hold the same model"]
        assert not axes.axison
    figure.savefig(io.BytesIO())


def test_paths_have_the_names_of_columns_at_their_ends_apart_from_each_other():
    alphas = np.geomspace(1.0, 0.01, 5)
    coefs = np.outer([3.0, 2.99, -1.0, 0.0], np.linspace(0, 1, 5))
    figure = plot.selection(alphas, np.ones((5, 3)), 0.1, coefs=coefs, names=["age", "bmi", "hdl", "sex"])
    right = figure.axes[1]
    places = {text.get_text(): text.get_position()[1] for text in right.texts}
    assert set(places) == {"age", "bmi", "hdl"}  # one that is 0 at the end has no line to see
    assert places["hdl"] == -1.0
    low, high = right.get_ylim()
    assert places["age"] - places["bmi"] > 0.04 * (high - low)
    with pytest.raises(InvalidInput, match="3 names for 4 coefficients"):
        plot.selection(alphas, np.ones((5, 3)), 0.1, coefs=coefs, names=["a", "b", "c"])


def test_a_goal_that_is_the_smallest_of_all_does_not_lie_on_the_axis():
    left = plot.convergence(history(5), tol=1e-6).axes[0]
    assert left.get_ylim()[0] < 1e-6
