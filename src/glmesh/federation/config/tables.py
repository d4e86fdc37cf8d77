"""Tables of a TOML file, as dataclasses whose fields give the keys and their types."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from math import isnan
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from glmesh.errors import InvalidInput, UnreadableFile

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Part = TypeVar("Part", bound="DataclassInstance")


def read_toml(path: str | PathLike[str], what: str) -> dict[str, object]:
    """Return the tables of a TOML file as a dict; raise UnreadableFile if it cannot be read.

    `what` is the kind of file that was expected, such as "federation", for the message.
    """
    path = Path(path)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnreadableFile(f"{path}: no such file; expected a {what} file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UnreadableFile(f"{path}: is no TOML ({error}); expected a {what} file") from None


def check_keys(tree: Mapping[str, object], known: tuple[str, ...], where: str) -> None:
    """Raise InvalidInput if a table of a file has a key that is not in `known`.

    `tree` is the table as a dict; `where` names it in the message.
    """
    for key in tree:
        if key not in known:
            other = {"federation": "a node file, as `glmesh node` takes it", "problem": "a federation file"}.get(key)
            looks = f" (this looks like {other})" if other else ""
            raise InvalidInput(f"{where}: unknown key {key!r}{looks}; known are {', '.join(known)}")


def typed(kind: type[Part], tree: object, where: str) -> Part:
    """Return an instance of the dataclass `kind` made from the dict `tree`, whose keys and types must fit the fields.

    An int does for a float. InvalidInput is raised for any other dict; `where` names the dict in its message.
    """
    if not isinstance(tree, Mapping):
        raise InvalidInput(f"{where}: expected a table")
    check_keys(tree, tuple(one.name for one in fields(kind)), where)
    names = {"str": str, "float": float, "int": int, "bool": bool, "list[list[str]]": list, "list[float]": list}
    values = {}
    for one in fields(kind):
        if one.name not in tree:
            continue
        value, wanted = tree[one.name], names[str(one.type).removesuffix(" | None")]
        if wanted is float and type(value) is int:
            value = float(value)
        if isinstance(value, float) and isnan(value):
            raise InvalidInput(f"{where}: {one.name} must be a number, got nan")
        if type(value) is not wanted:
            raise InvalidInput(f"{where}: {one.name} must be a {wanted.__name__}, got {value!r}")
        values[one.name] = value
    try:
        return kind(**values)
    except TypeError as error:
        raise InvalidInput(f"{where}: {str(error).split('__init__() ')[-1]}") from None
