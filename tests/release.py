"""Build wheel and source archive, install each apart from this folder, and try it: `python -m tests.release [DIR]`.

The archives are left in DIR (dist). Each is installed with the extras `peers,formulas` in a virtual environment of its
own under a temporary folder; from there three hospitals fit a model over TLS, as on README, and a Lasso is fitted in a
simulated network and shown on the live page. The exit code is 1 if anything is not as it should be.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import glmesh

ROOT = Path(__file__).parent.parent
PACKAGE = ("py.typed", "page/page.css", "page/live.js", "cli/app.py")  # files without which it is not whole
BESIDE = (  # of the source archive
    *("LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "Makefile", "pyproject.toml"),
    *(
        "docs/index.md",
        "docs/deploy/Dockerfile",
        "docs/images/demo.png",
        "examples/GALLERY_HEADER.rst",
        "tests/conftest.py",
    ),
    *("benchmarks/reports/soak.md", ".importlinter", ".ci/run"),
)
LITTER = ("__pycache__", ".nbi", ".nbc", ".pyc", "docs/generated", ".state/", ".git/", ".venv")
FORMULA = "readmitted ~ age + C(sex) + bmi + systolic + C(smoker) + stays"
HOSPITALS = (  # the commands of README
    ("demo", "--files", "."),
    ("keys", "keys", "alice", "bob", "carol"),
    ("federation", "init", "fed.toml", "--family", "binomial", "--formula", FORMULA, "--like", "alice.csv"),
    ("federation", "add", "fed.toml", "alice=alice.csv", "bob=bob.csv", "carol=carol.csv"),
    ("up", "fed.toml"),
    ("show", "alice.state/model.npz", "--exp"),
    ("report", "alice.state", "--out", "report.html"),
)
FIT = """
import urllib.request
import numpy as np
import glmesh
from sklearn.datasets import load_diabetes

X, y = load_diabetes(return_X_y=True)
pages = []
result = glmesh.solve(glmesh.Problem.glm(X, y, penalty="l1", alpha=100.0, fit_intercept=True), live=pages.append)
assert result.reached, result.message
page = urllib.request.urlopen(pages[0]).read().decode()
assert "prefers-color-scheme: dark" in page and "fetch(" in page, "the style or the script of the page is missing"
model = glmesh.LogisticRegression().fit_nodes([(X[:200], y[:200] > 150), (X[200:], y[200:] > 150)])
assert model.result_.reached, model.result_.message
print(glmesh.__version__, glmesh.__file__)
"""


def say(text: str) -> None:
    """Write a line, at once also where standard output is a file."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def built(folder: Path) -> tuple[Path, Path]:
    """Return (wheel, source archive) of the package as it is here, built in `folder`."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True, capture_output=True)
    stem = f"glmesh-{glmesh.__version__}"
    return folder / f"{stem}-py3-none-any.whl", folder / f"{stem}.tar.gz"


def missing(wheel: Path, source: Path) -> list[str]:
    """Return sentences on what the two archives lack, or should not hold."""
    in_wheel = zipfile.ZipFile(wheel).namelist()
    with tarfile.open(source) as archive:
        in_source = [name.partition("/")[2] for name in archive.getnames()]
    info = f"glmesh-{glmesh.__version__}.dist-info"
    wanted = [f"glmesh/{name}" for name in PACKAGE] + [f"{info}/licenses/LICENSE", f"{info}/entry_points.txt"]
    found = [f"the wheel lacks {name}" for name in wanted if name not in in_wheel]
    found += [f"the wheel has {name}" for name in in_wheel if name.split("/")[0] not in ("glmesh", info)]
    found += [
        f"the source archive lacks {name}"
        for name in (*(f"src/glmesh/{name}" for name in PACKAGE), *BESIDE)
        if name not in in_source
    ]
    for what, names in (("wheel", in_wheel), ("source archive", in_source)):
        found += [f"the {what} has {name}" for name in names if any(part in name for part in LITTER)]
    return found


def tried(archive: Path, folder: Path) -> list[str]:
    """Return sentences on what does not work of an archive that is installed in a new environment in `folder`."""
    say(f"{archive.name}: an environment of its own ...")
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / "bin"
    work = folder / "work"
    work.mkdir()
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def run(name: str, *command: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder `work`; say its name, and what it wrote if it failed."""
        ended = subprocess.run(
            list(map(str, command)), cwd=work, env=clean, capture_output=True, text=True, check=False
        )
        say(f"  {name}: {'ok' if ended.returncode == 0 else f'exit code {ended.returncode}'}")
        if ended.returncode:
            say(ended.stdout + ended.stderr)
        return ended

    steps: list[tuple[str, list[str | Path], Callable[[str], bool]]] = [
        (
            "pip install",
            [programs / "python", "-m", "pip", "install", "--quiet", f"{archive}[peers,formulas]"],
            lambda said: True,
        ),
        ("--version", [programs / "glmesh", "--version"], lambda said: said.strip() == f"glmesh {glmesh.__version__}"),
        ("fits and live page", [programs / "python", "-c", FIT], lambda said: str(folder) in said),
    ]
    for command in HOSPITALS:
        steps.append((f"glmesh {command[0]}", [programs / "glmesh", *command], lambda said: True))
    for name, command_line, is_right in steps:
        ended = run(name, *command_line)
        if ended.returncode or not is_right(ended.stdout):
            return [f"{archive.name}: {name} failed"]
    report = (work / "report.html").read_text(encoding="utf-8")
    whole = "odds ratio" in report and "prefers-color-scheme: dark" in report
    return [] if whole else [f"{archive.name}: the report has no odds ratios, or no style"]


def main(folder: str = "dist") -> int:
    """Return 0 if both archives are whole and work, else 1."""
    wheel, source = built(Path(folder).absolute())
    wrong = missing(wheel, source)
    for archive in (wheel, source):
        with tempfile.TemporaryDirectory(prefix="glmesh-release-") as place:
            wrong += tried(archive, Path(place).resolve())
    for one in wrong:
        say(one)
    say(f"{wheel.name}, {source.name}: {'as they should be' if not wrong else f'{len(wrong)} things wrong'}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
