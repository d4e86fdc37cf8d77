"""The commands about peers, word by word as the README has them."""

from __future__ import annotations

import html.parser
import json
import os
import pty
import re
import shlex
import socket
import sys
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from glmesh.cli import main
from glmesh.federation.config import keys
from glmesh.federation.monitor.screen import left, screen
from glmesh.federation.monitor.server import metrics
from glmesh.files import model_files
from tests.cases import LIMIT
from tests.peers import FORK, free_ports, sites

README = Path(__file__).parents[2] / "README.md"


def _tables(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("alice", "bob", "carol"):
        X = rng.normal(size=(40, 6))
        y = np.where(X @ np.ones(6) + rng.normal(size=40) > 0, 1, -1)
        np.savetxt(folder / f"{name}.csv", np.column_stack([X, y]), delimiter=",")


def _commands() -> list[list[str]]:
    """The README's second example."""
    section = README.read_text().split("## Between machines")[1].split("\n## ")[0]
    return [shlex.split(line, comments=True)[1:] for line in re.findall(r"^    (glmesh .*)$", section, flags=re.M)]


@pytest.mark.parametrize("command", ["keys", "federation", "doctor", "node", "up", "status", "report"])
def test_help_shows_examples_and_fits_a_terminal(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"examples:\n  glmesh {command}" in shown
    assert max(map(len, shown.splitlines())) <= 82


@pytest.mark.waits
def test_the_second_example_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = _commands()
    assert [command[0] for command in commands] == ["demo", "keys", "federation", "federation", "up"]
    for command in commands[:-1]:
        extra = ["--port", str(free_ports(3)[0])] if "add" in command else []
        assert main([*command, *extra]) == 0, capsys.readouterr()
    assert main(["federation", "check", "fed.toml"]) == 0
    assert "alice, bob, carol" in capsys.readouterr().out
    assert main(["doctor", "alice.toml"]) == 0
    told = capsys.readouterr().out
    assert "392 samples, 6 features" in told
    assert re.search(r"ok +privacy +Totals are masked", told)
    assert "nobody listens there yet" in told
    assert main(commands[-1]) == 0
    told = capsys.readouterr().out
    assert told.count("Totals are masked") == 1
    assert "Totals are masked" in Path("bob.state/log.jsonl").read_text()
    for name in ("alice", "bob", "carol"):
        assert told.count(f"{name}: rows: ") == 1
    assert told.count("alice, bob and carol hold the same model, to the last bit.") == 1
    assert told.count("standard errors of the exact estimate") == 1
    assert re.search(r"3 sites, \d totals, \d+ messages to each neighbour", told)
    assert told.endswith(
        "Next:\n  glmesh show alice.state/model.npz\n  glmesh report alice.state\n"
        "  glmesh predict alice.state/model.npz new.csv --missing empty\n"
    )
    assert main(["predict", "bob.state/model.npz", "carol.csv", "--missing", "empty"]) == 0
    capsys.readouterr()
    assert main(["status", "carol.toml"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"carol: finished, within \de-\d+ standard errors\. All 3 sites hold", told)
    model = model_files.load("carol.state/model.npz")
    for name, value in zip(model.names, model.coef, strict=True):
        shown = re.search(rf"^{re.escape(name)} +(\S+)", told, re.M)
        assert shown is not None
        assert float(shown[1]) == pytest.approx(value, rel=1e-2)
    (tmp_path / "bob.csv").write_text("\n".join((tmp_path / "bob.csv").read_text().split("\n")[:-4]))
    assert main(["doctor", "bob.toml"]) == 2
    assert re.search(r"error +rules .*\d rows of the data file have changed", capsys.readouterr().out)


def test_the_doctor_finds_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _tables(tmp_path)
    keys.make(tmp_path / "keys", ["alice", "bob"], days=10)
    assert main(["federation", "init", "fed.toml", "--model", "lasso", "--method", "gossip"]) == 2
    assert "--split features can do it" in capsys.readouterr().err
    columns = ["federation", "init", "fed.toml", "--model", "lasso", "--split", "features", "--aligned"]
    assert main([*columns, "--method", "gossip"]) == 0
    told = capsys.readouterr().out
    assert "split by features" in told
    assert "Gossip by features cannot be masked: a neighbour reads sums over your columns" in told
    assert main(["federation", "add", "fed.toml", "alice=alice.csv", "bob=missing.csv"]) == 0
    capsys.readouterr()
    assert main(["doctor", "bob.toml"]) == 2
    told = capsys.readouterr().out
    assert re.search(r"warning +certificate +good until", told)
    assert re.search(r"error +data .*missing.csv: no such file", told)
    assert main(["federation", "add", "fed.toml", "alice=alice.csv"]) == 2
    assert main(["federation", "add", "fed.toml", "dave=alice.csv"]) == 2
    assert "`glmesh keys keys dave` makes it" in capsys.readouterr().err
    assert main(["federation", "init", "fed.toml"]) == 2
    assert main(["up", "nowhere.toml"]) == 2


def _hospital(folder: Path, name: str, header: str = "age,bmi,sbp,ill") -> None:
    rng = np.random.default_rng(len(name))
    X = rng.normal(size=(40, 3))
    y = np.where(X @ np.ones(3) > 0, 1, 0)
    np.savetxt(folder / f"{name}.csv", np.column_stack([X, y]), delimiter=",", header=header, comments="", fmt="%.6g")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--method", "gossip", "--intercept"],
            "--split features can do it, and means that every site holds other columns of the same rows",
        ),
        (["--method", "gossip", "--model", "lasso"], "--split features can do it"),
        (["--gone", "freeze"], "with totals write --gone wait"),
        (["--split", "features", "--method", "gossip", "--gone", "wait"], "with gossip write --gone freeze"),
        (["--split", "features", "--gone", "without"], "all take part from the beginning"),
        (["--model", "svm", "--alpha", "0"], "needs an L1 or L2 penalty"),
        (["--method", "gossip", "--model", "ridge", "--alpha", "0"], "--split features can do it"),
        (["--aligned"], "--aligned goes with --split features"),
        (["--method", "gossip", "--gone", "freeze"], "who is among them; split by samples write --gone reset"),
        (["--target", "ill"], "about the file of --like"),
        (["--like", "nowhere.csv"], "no such file"),
        (["--like", "alice.csv", "--target", "sick"], "sick"),
    ],
)
def test_init_never_changes_the_split_by_itself(
    options: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _hospital(tmp_path, "alice")
    assert main(["federation", "init", "fed.toml", *options]) == 2
    assert words in capsys.readouterr().err
    assert not Path("fed.toml").exists()


def test_a_contract_is_written_from_one_file_and_the_doctor_compares_others_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _hospital(tmp_path, "alice")
    _hospital(tmp_path, "bob", "bmi,age,sbp,ill")
    _hospital(tmp_path, "carol", "age,weight,sbp,ill")
    keys.make(tmp_path / "keys", ["alice", "bob", "carol"])
    assert main(["federation", "init", "fed.toml", "--model", "logistic", "--like", "alice.csv"]) == 0
    text = Path("fed.toml").read_text()
    assert all(word in text for word in ("[data]", '"age"', 'target = "ill"', "salt"))
    assert not re.search(r"\d\.\d{4}", text)  # no values
    first = free_ports(3)[0]
    assert (
        main(
            ["federation", "add", "fed.toml", "alice=alice.csv", "bob=bob.csv", "carol=carol.csv", "--port", str(first)]
        )
        == 0
    )
    assert main(["federation", "check", "fed.toml"]) == 0
    assert "target ill, age, bmi, sbp" in capsys.readouterr().out
    assert main(["doctor", "bob.toml"]) == 0
    assert re.search(r"warning +columns +bob.csv: the columns stand in another order", capsys.readouterr().out)
    assert main(["doctor", "carol.toml"]) == 2
    assert re.search(r"error +data +carol.csv: lacks the column bmi.*expected age, bmi, sbp", capsys.readouterr().out)
    with socket.create_server(("127.0.0.1", first)):
        assert main(["doctor", "alice.toml"]) == 2
        assert re.search(r"error +port .*another program listens there", capsys.readouterr().out)
    Path("keys/alice.key").write_bytes(Path("keys/bob.key").read_bytes())
    assert main(["doctor", "alice.toml"]) == 2
    assert "is not the key of" in capsys.readouterr().out


@pytest.mark.waits
def test_up_ends_at_every_site_when_one_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three processes; then the state folders say how it ended."""
    monkeypatch.chdir(tmp_path)
    for name in ("alice", "bob", "carol"):
        _hospital(tmp_path, name)
    _hospital(tmp_path, "bob", "age,weight,sbp,ill")
    keys.make(tmp_path / "keys", ["alice", "bob", "carol"])
    assert main(["federation", "init", "fed.toml"]) == 0
    first = str(free_ports(3)[0])
    assert (
        main(["federation", "add", "fed.toml", "alice=alice.csv", "bob=bob.csv", "carol=carol.csv", "--port", first])
        == 0
    )
    assert main(["status", "alice.toml"]) == 2
    assert "has not run yet" in capsys.readouterr().err
    assert main(["up", "fed.toml"]) == 2
    told = capsys.readouterr().out
    why = "ended with code 2: bob cannot take part: lacks the column bmi, which alice has; has"
    assert told.count(f"alice, bob and carol {why}") == 1
    assert main(["status", "carol.toml"]) == 0
    assert "carol: refused. bob cannot take part" in capsys.readouterr().out


class _Checker(html.parser.HTMLParser):
    """Counts plots, and notes whatever a page would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.plots, self.outside = 0, []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.plots += tag == "polyline"
        self.outside += [value for key, value in attributes if key in ("src", "href")]


def _headline(address: str) -> str:
    """How things stand, as the live page at this address says it."""
    with urllib.request.urlopen(address + "now", timeout=LIMIT) as answer:
        return re.findall("<h1>(.*)</h1>", answer.read().decode())[0]


@pytest.mark.waits
def test_a_running_node_is_seen_from_outside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    parts = [(rng.normal(size=(30, 10)), rng.choice([-1.0, 1.0], size=30)) for _ in range(3)]
    problem = {"loss": "logistic", "split": "samples", "tol": 1e-15}
    with sites(tmp_path, parts, problem=problem) as peers:
        peers.start(options=["--live"])
        peers.until(lambda: peers.round(0) > 100 and peers.history(0)[-1]["certificate"] is not None)
        assert main(["status", str(tmp_path / "n0.toml"), "--json"]) == 0
        figures = json.loads(capsys.readouterr().out)
        assert figures["node"] == "n0"
        assert figures["neighbours"]["n1"]["state"] == "up"
        assert main(["status", str(tmp_path / "n0.toml")]) == 0
        assert "proven gap" in capsys.readouterr().out
        port = int((tmp_path / "n0.state" / "status.port").read_text())
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT) as answer:
            text = answer.read().decode()
        assert re.search(r'^glmesh_round\{node="n0"\} \d+$', text, flags=re.M)
        assert 'glmesh_neighbour_up{node="n0",neighbour="n2"} 1' in text
        with pytest.raises(urllib.error.HTTPError), urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=LIMIT):
            pass
        address = re.findall(r"live page, for this machine only: (http\S+/)", (tmp_path / "n0.out").read_text())
        assert len(address) == 1
        peers.until(lambda: _headline(address[0]).startswith("Training, round "))
        assert address[0].split("/")[3] not in (tmp_path / "n0.state" / "log.jsonl").read_text()
        assert main(["doctor", str(tmp_path / "n2.toml")]) == 0
        assert "with the certificate that is listed" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path / "n0.state"), str(tmp_path / "n1.state"), "--out", str(page)]) == 0
    checker = _Checker()
    checker.feed(page.read_text())
    assert checker.plots >= 2
    assert not checker.outside
    assert main(["status", str(tmp_path / "n0.toml")]) == 2  # the node was killed
    assert "did not say how it ended" in capsys.readouterr().err


def test_the_screen_and_the_metrics() -> None:
    neighbours = {"bob": {"state": "silent", "dropped": 0, "deadline": 1.5, "skipped": 3, "exchange": 7}}
    figures = {
        "node": "alice", "phase": "training", "round": 1234, "certificate": 1e-4, "tol": 1e-6, "seconds": 30.0,
        "members": ["alice", "bob"], "bytes_sent": 2_000_000, "bytes_received": 10, "neighbours": neighbours,
    }  # fmt: skip
    text = screen(figures, ["a line"] * 20, (10.0, 1e-2), 80)
    assert "round 1,234" in text
    assert re.search(r"bob +silent +deadline 1.5 s, skipped 3", text)
    assert len(text.splitlines()) < 24
    assert left(figures, (10.0, 1e-2)) == ""  # bob is silent
    heard = figures | {"neighbours": {"bob": neighbours["bob"] | {"state": "up"}}}
    assert left(heard, (10.0, 1e-2)) == "about 20 s left"  # two powers of ten took 20 s, and two are left
    assert left(heard, None) == ""
    away = figures | {"waiting": {"names": ["bob"], "since": 0.0, "until": 600.0}, "without": ["dora"]}
    assert re.search(
        r"waiting for +bob, since \d\d:\d\d:\d\d, until \d\d:\d\d:\d\d: no proof while bob is away",
        screen(away, [], None, 120),
    )
    assert "without dora (2 of 3 sites)" in screen(away, [], None, 120)
    assert left(away, (10.0, 1e-2)) == ""  # no proof can come while a member is away
    assert 'glmesh_neighbour_up{node="alice",neighbour="bob"} 0' in metrics(figures)
    assert "glmesh_bytes_sent_total" in metrics(figures)


def _in_a_terminal(arguments: list[str], output: str) -> None:
    """`glmesh` with a terminal as its standard error; what it draws goes to a file."""
    child, terminal = pty.fork()
    if child:
        with Path(output).open("wb", buffering=0) as stream:
            while True:
                try:
                    stream.write(os.read(terminal, 1 << 16))
                except OSError:
                    break
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    sys.exit(main(arguments))


@pytest.mark.waits
def test_the_live_view_in_a_terminal(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    parts = [(rng.normal(size=(30, 10)), rng.choice([-1.0, 1.0], size=30)) for _ in range(2)]
    with sites(tmp_path, parts, problem={"loss": "logistic", "split": "samples"}) as peers:
        shown = tmp_path / "screen"
        viewer = FORK.Process(target=_in_a_terminal, args=(["node", str(tmp_path / "n0.toml")], str(shown)))
        viewer.start()
        peers.until(lambda: shown.exists() and "n0  meeting" in shown.read_text())  # drawn before there is a neighbour
        peers.start(1)
        viewer.join(LIMIT)
        assert viewer.exitcode == 0
        assert peers.wait() == [0]
        text = shown.read_text()
        assert "\x1b[2J" in text
        assert re.search(r"n0  certified  round \d+", text)
        assert "proven gap" in text


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ([], "totals"),
        (["--model", "lasso", "--topology", "complete"], "totals"),
        (["--method", "gossip"], "gossip"),
        (["--refused", "without"], "gossip"),
        (["--gone", "freeze"], "gossip"),
        (["--alpha", "0"], "gossip"),
    ],
)
def test_init_takes_masked_totals_over_columns_where_they_are_cheaper_and_says_so(
    options: list[str], method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["federation", "init", "fed.toml", "--split", "features", *options]) == 0
    told = capsys.readouterr().out
    assert tomllib.loads((tmp_path / "fed.toml").read_text())["problem"]["method"] == method
    assert ("masked totals are cheaper than gossip: about " in told) == (method == "totals")
    assert ("columns of 0 and 1 may be read off" in told) == (method == "totals")
    assert ("Gossip by features cannot be masked" in told) == (method == "gossip")
