"""`glmesh federation init --family`, and what `up` prints of a family."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from glmesh.cli import main
from glmesh.federation.config import keys
from tests.cases import SOAK
from tests.peers import free_ports

pytestmark = pytest.mark.usefixtures("folder")


def write(name: str, seed: int, *, exposure: str = "years") -> None:
    """A site's table: claims by age and bmi, years of exposure, and whether and when something happened."""
    rng = np.random.default_rng(seed)
    age, bmi, years = rng.normal(50, 10, 120), rng.normal(27, 4, 120), rng.uniform(0.5, 3, 120)
    claims = rng.poisson(years * np.exp(-2 + 0.02 * age + 0.03 * bmi))
    columns = np.column_stack([age, bmi, years, rng.random(120) < 0.5, claims]).round(3)
    np.savetxt(f"{name}.csv", columns, delimiter=",", header=f"age,bmi,{exposure},died,claims", comments="", fmt="%g")


def problem(*options: str) -> dict[str, object]:
    """The table [problem] that `init` writes with these options."""
    assert main(["federation", "init", "fed.toml", *options]) == 0
    tree = tomllib.loads(Path("fed.toml").read_text())
    Path("fed.toml").unlink()
    part: dict[str, object] = tree["problem"]
    return part


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--family", "poisson"), {"family": "poisson", "loss": "", "alpha": 0.0, "fit_intercept": True}),
        (("--family", "poisson", "--exposure", "years"), {"exposure": "years", "offset": ""}),
        (("--family", "poisson", "--offset", "years", "--alpha", "2"), {"offset": "years", "alpha": 2.0}),
        (("--family", "negative_binomial=2"), {"family": "negative_binomial", "theta": 2.0}),
        (("--family", "negative_binomial=estimated"), {"family": "negative_binomial", "estimate_theta": True}),
        (("--family", "tweedie=1.7", "--tol-se", "1e-4"), {"family": "tweedie", "power": 1.7, "tol_se": 1e-4}),
        (("--family", "binomial", "--link", "probit", "--no-intercept"), {"link": "probit", "fit_intercept": False}),
        (("--family", "multinomial"), {"family": "multinomial", "link": ""}),
        (
            ("--family", "cox", "--time", "years", "--event", "died"),
            {"time": "years", "event": "died", "fit_intercept": False},
        ),
        ((), {"family": "", "loss": "logistic", "alpha": 1.0}),
    ],
)
def test_init_writes_what_a_family_needs(options: tuple[str, ...], expected: dict[str, object]) -> None:
    found = problem(*options)
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--family", "poison"), "did you mean 'poisson'"),
        (("--family", "poisson", "--model", "ridge"), "exclude each other"),
        (("--family", "poisson", "--offset", "a", "--exposure", "b"), "exclude each other"),
        (("--offset", "a"), "--offset goes with --family"),
        (("--time", "a"), "--time goes with --family"),
        (("--family", "cox", "--time", "years"), "two columns"),
        (("--family", "cox", "--time", "years", "--event", "died", "--intercept"), "intercept has no effect"),
        (("--family", "poisson", "--split", "features"), "fitted by totals"),
        (("--family", "poisson", "--cv"), "write cv = 0"),
        (("--family", "poisson", "--exposure", "year", "--like", "alice.csv"), "lacks the column 'year'"),
        (("--family", "poisson=3"), "no parameter"),
    ],
)
def test_init_refuses_what_does_not_go_together(
    options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("alice", 0)
    assert main(["federation", "init", "fed.toml", *options]) == 2
    assert words in capsys.readouterr().err
    assert not Path("fed.toml").exists()


def test_a_contract_of_a_cox_model_has_the_time_as_target_and_check_says_what_is_fitted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("alice", 0)
    keys.make(Path("keys"), ["alice", "bob", "carol"])
    options = ["--family", "cox", "--time", "years", "--event", "died", "--like", "alice.csv"]
    assert main(["federation", "init", "fed.toml", *options]) == 0
    assert tomllib.loads(Path("fed.toml").read_text())["data"]["target"] == "years"
    port = str(free_ports(3)[0])
    assert main(["federation", "add", "fed.toml", "alice=alice.csv", "bob", "carol", "--port", port]) == 0
    assert main(["federation", "check", "fed.toml"]) == 0
    shown = capsys.readouterr().out
    assert "cox (ties efron) family, no penalty, split by samples, to 1e-06 standard errors" in shown
    assert main(["doctor", "alice.toml"]) == 0


@pytest.mark.waits
@pytest.mark.skipif(not SOAK, reason="three processes")
def test_up_prints_the_proof_of_each_site_and_the_table_once(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("alice", "bob", "carol")
    for seed, name in enumerate(names):
        write(name, seed)
    keys.make(Path("keys"), list(names))
    assert main(["federation", "init", "fed.toml", "--family", "poisson", "--exposure", "years"]) == 0
    parts = [f"{name}={name}.csv" for name in names]
    assert main(["federation", "add", "fed.toml", *parts, "--port", str(free_ports(3)[0])]) == 0
    capsys.readouterr()
    assert main(["up", "fed.toml", "--live"]) == 0
    told = capsys.readouterr().out
    assert told.count("live page, for this machine only: http://127.0.0.1:") == 1
    assert told.count(" standard errors of the exact estimate") == 1
    assert told.count("alice, bob and carol hold the same model, to the last bit.") == 1
    assert told.count("Generalised linear model") == 1
    assert main(["status", "bob.toml"]) == 0
    assert "bob: finished, within" in capsys.readouterr().out
    assert main(["report", "alice.state", "--out", "report.html"]) == 0
    assert Path("report.html").read_text().count("class='interval'") == 3
