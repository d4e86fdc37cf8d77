"""Old module names: they warn, and give what the modules that have their places now hold."""

from __future__ import annotations

import importlib
import sys
import types

import pytest

import glmesh
from glmesh._moved import MOVED, RENAMED


@pytest.fixture(autouse=True)
def _fresh():
    """Nothing was imported by an old name yet, nor is afterwards."""
    before = dict(vars(glmesh))
    yield
    for old in MOVED:
        sys.modules.pop(f"glmesh.{old}", None)
        name = old.split(".")[0]
        if name in before:
            setattr(glmesh, name, before[name])
        elif name in vars(glmesh):
            delattr(glmesh, name)


def by_old_name(name: str) -> types.ModuleType:
    """The module of an old name, imported with nothing but warnings that it has moved."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        with pytest.warns(DeprecationWarning, match=rf"glmesh\.{'.'.join(parts[:end])} is now glmesh\."):
            module = importlib.import_module(f"glmesh.{'.'.join(parts[:end])}")
    return module


@pytest.mark.parametrize("old", MOVED)
def test_an_old_name_warns_and_has_the_attributes_of_the_new_module(old):
    module, new = by_old_name(old), importlib.import_module(f"glmesh.{MOVED[old]}")
    for name, value in vars(new).items():
        if not name.startswith("_") and f"glmesh.{old}.{name}" not in RENAMED:
            assert getattr(module, name) is value, name
    with pytest.raises(AttributeError, match="nonsense"):
        module.nonsense  # noqa: B018


@pytest.mark.parametrize("old", RENAMED)
def test_a_name_that_went_elsewhere_is_found_by_its_old_one(old):
    _, _, path = old.partition(".")
    home, _, name = path.rpartition(".")
    place, _, new = RENAMED[old].rpartition(".")
    assert getattr(by_old_name(home), name) is getattr(importlib.import_module(f"glmesh.{place}"), new)


def test_other_names_are_unknown_as_ever():
    with pytest.raises(ModuleNotFoundError, match=r"glmesh\.nonsense"):
        importlib.import_module("glmesh.nonsense")
