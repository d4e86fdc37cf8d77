"""What the documentation site is made of: all public names, files for services and containers, the check of its pages.

The site itself is built by `make docs`, which runs that check.
"""

from __future__ import annotations

import configparser
import importlib
import importlib.util
import inspect
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import glmesh

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "docs" / "deploy"
MADE_BY_THE_ENGINE = {"among", "check_support"}  # of glmesh.mixing; nobody calls these by hand


def objects_with_a_page() -> list[object]:
    """The objects that the lists of docs/reference/api.md name; each list gets a page per name."""
    found: list[object] = []
    for module, names in re.findall(
        r"currentmodule:: (\S+)\n(.*?)```", (ROOT / "docs/reference/api.md").read_text(), re.S
    ):
        for name in re.findall(r"^   ([A-Za-z_][\w.]*)$", names, re.M):
            value: object = glmesh
            for part in f"{module}.{name}".split(".")[1:]:
                if not hasattr(value, part):
                    assert inspect.ismodule(value)
                    importlib.import_module(f"{value.__name__}.{part}")
                value = getattr(value, part)
            found.append(value)
    return found


def test_every_public_name_has_a_page_in_the_reference() -> None:
    """By object, since some have two names (glmesh.Cola is glmesh.methods.Cola)."""
    listed = objects_with_a_page()
    assert len({id(one) for one in listed}) == len(listed), "a name is listed twice"
    modules = [glmesh, *(value for name in glmesh.__all__ if inspect.ismodule(value := getattr(glmesh, name)))]
    for module in modules:
        names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
        for name in names:
            value = getattr(module, name)
            own = module is glmesh or getattr(value, "__module__", "").startswith(module.__name__)
            if own and callable(value) and name not in MADE_BY_THE_ENGINE:
                assert any(value is one for one in listed), f"{module.__name__}.{name} is not in docs/reference/api.md"


def test_the_service_file_is_one_that_systemd_reads() -> None:
    """Its syntax everywhere; by systemd's own check where systemd is there (the program itself is not installed)."""
    unit = DEPLOY / "glmesh-node@.service"
    parser = configparser.RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit.read_text())
    assert parser.sections() == ["Unit", "Service", "Install"]
    assert parser["Service"]["ExecStart"].endswith("glmesh node --plain %i.toml")
    kept = set(parser["Service"]["RestartPreventExitStatus"].split())
    assert kept == {"2", "3", "4"}  # it has ended by itself; starting it again would end alike
    if shutil.which("systemd-analyze"):
        done = subprocess.run(
            ["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=60, check=False
        )
        unknown = [line for line in done.stderr.splitlines() if unit.name[:12] in line and "not executable" not in line]
        assert unknown == []


def test_the_dockerfile_has_instructions_alone_and_extras_that_exist() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    instructions = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert instructions[0] == "FROM"
    assert set(instructions) <= {"FROM", "COPY", "RUN", "ENV", "WORKDIR", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
    extras = re.search(r"/source\[([\w,]+)\]", "\n".join(lines))
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras
    assert set(extras[1].split(",")) <= set(known)


@pytest.fixture(name="check", scope="module")
def _check() -> ModuleType:
    """The script docs/_site/check.py as a module."""
    spec = importlib.util.spec_from_file_location("check", ROOT / "docs" / "_site" / "check.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//cdn.example/x.css">',
        '<link rel="preconnect" href="https://fonts.example">',
        '<img src="http://example.org/x.png">',
        '<img srcset="here.png 1x, https://example.org/x.png 2x">',
        "<style>@import 'https://example.org/x.css';</style>",
        '<p style="background: url(https://example.org/x.png)">',
        '<iframe src="https://example.org"></iframe>',
        '<img src="missing.png">',
        '<a href="missing.html">',
    ],
)
def test_the_check_finds_what_is_loaded_from_outside_or_missing(check: ModuleType, tmp_path: Path, html: str) -> None:
    (tmp_path / "here.png").touch()
    (tmp_path / "index.html").write_text(f"<html><body>{html}</body></html>")
    assert len(list(check.wrong(tmp_path))) == 1


def test_the_check_lets_own_files_and_links_to_elsewhere_pass(check: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "x.js").touch()
    page = (
        '<script src="x.js?v=1"></script><a href="https://example.org">x</a><a href="#top">x</a><a href="x.js#a">x</a>'
    )
    (tmp_path / "index.html").write_text(page + '<link rel="canonical" href="https://example.org">')
    assert list(check.wrong(tmp_path)) == []
    (tmp_path / "x.js").write_text("""document.write('<script src="https://cdn.example/y.js">')""")
    assert len(list(check.wrong(tmp_path))) == 1


def test_the_check_finds_blank_pictures(check: ModuleType, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "_images").mkdir()
    (tmp_path / "index.html").touch()
    image.new("RGB", (8, 8), "white").save(tmp_path / "_images" / "blank.png")
    assert [line for line in check.wrong(tmp_path) if "blank.png" in line]
