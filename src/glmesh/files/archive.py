"""Trees of plain data in one file: no pickle, and nothing in the file is ever executed.

The file is an uncompressed zip archive, so NumPy alone can read its arrays:

| member           | holds                                                                  |
|------------------|------------------------------------------------------------------------|
| `structure.json` | `kind`, `version`, `objects` and `tree`                                |
| `0.npy`, `1.npy` | the arrays, each once                                                  |
| archive comment  | `glmesh-archive-1 blake2b ` and the digest of all the bytes before it  |

A node of `tree` is null, a truth value, a number, a string, a list of nodes, or an object with one key:
`tuple` (nodes), `dict` (pairs of nodes, in order), `int` (hexadecimal, beyond 64 bits), `float` (the bits of a nan or
an infinity), `str` (UTF-8 with lone surrogates), `array` (its number), `enum` (class and member) or `object` (its
number in `objects`, where a dataclass instance is its class and its fields, after all the objects it refers to).

The digest tells damage, not malice: who can write the file can write its digest. A crafted file may hold wrong numbers,
but can make nothing but plain data and the classes that the reader names.
"""

import errno
import importlib
import json
import math
import os
import secrets
import struct
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from glob import escape
from hashlib import blake2b
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from glmesh.errors import InvalidInput, UnreadableFile
from glmesh.types import Array

try:
    import fcntl
except ImportError:  # Windows: there are no such locks, and leftovers stay
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")

MAX_DEPTH = 100  # [levels] of a tree: far from where Python's own JSON reader gives up

_MAGIC = b"glmesh-archive-1 blake2b "
_SEAL = len(_MAGIC) + 2 * blake2b().digest_size
_STRUCTURE = "structure.json"
_BLOCK = 1 << 20  # bytes hashed at a time


def write_atomically(path: str | PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Replace the file at `path` by what `write(stream)` writes to a binary stream; an error leaves the old file.

    A crash leaves the old file whole too; at worst a hidden .part file stays beside it, and the next call for the same
    path removes it.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder; make it first", str(path.parent))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; expected the name of a file", str(path))
    remove_leftovers(path)
    part, stream = _open_part(path)
    try:
        write(stream)
        stream.flush()
        os.fsync(stream.fileno())
        if fcntl is None:
            stream.close()  # Windows renames no open file
        os.replace(part, path)
    finally:
        stream.close()
        part.unlink(missing_ok=True)
    with suppress(OSError):  # the file is whole already, and not every file system can flush a folder
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_parts(folder: str | PathLike[str]) -> None:
    """Remove the hidden .part files that a killed process left in a folder; nobody else may be writing there."""
    for part in Path(folder).glob(".*.part"):
        part.unlink(missing_ok=True)


def _open_part(path: Path) -> tuple[Path, BinaryIO]:
    """Return (path, stream) of a new hidden file beside `path`, which is locked as long as the stream is open."""
    while True:
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        stream = part.open("x+b")
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(stream, fcntl.LOCK_EX)
            if not part.exists():  # another process took it for a leftover before it was locked
                stream.close()
                continue
        return part, stream


def remove_leftovers(path: Path) -> None:
    """Remove the hidden files that crashed writers of `path` left: those that no living process has locked."""
    for part in path.parent.glob(f".{escape(path.name)}.{'[0-9a-f]' * 8}.part"):
        with suppress(OSError), part.open("rb") as stream:
            if fcntl is not None:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write `text` to the file at `path` in UTF-8; an error or a crash leaves the old file."""
    write_atomically(path, lambda stream: stream.write(text.encode()))


def name_of(cls: type, package: str) -> str | None:
    """Return "module.name" of a dataclass or enum that is defined in `package`; None for any other class."""
    own = bool(package) and f"{cls.__module__}.".startswith(f"{package}.")
    return f"{cls.__module__}.{cls.__qualname__}" if own and (is_dataclass(cls) or issubclass(cls, Enum)) else None


def _named(name: str, package: str) -> type | None:
    """Return the dataclass or enum of which `name_of` in `package` is `name`; None if there is none."""
    module, _, own = name.rpartition(".")
    if not package or not f"{module}.".startswith(f"{package}."):
        return None
    cls = getattr(importlib.import_module(module), own, None)
    return cls if isinstance(cls, type) and name_of(cls, package) == name else None


def save(
    path: str | PathLike[str],
    tree: object,
    *,
    kind: str,
    version: int,
    classes: Sequence[type] = (),
    package: str = "",
) -> None:
    """Write a tree of plain data to a file, whole or not at all.

    Arrays and dataclass instances that occur twice come back as one object; views of one buffer come back apart.

    Parameters
    ----------
    path : str or path
        The file.
    tree : object
        None, bool, int, float, str, list, tuple, dict, arrays, enums and dataclasses, nested up to 100 levels.
    kind : str
        What the file holds, as messages name it; `load` refuses another.
    version : int
        Of the layout of the tree; `load` refuses another.
    classes : sequence of type, default ()
        Enums and dataclasses that the tree may hold, named in the file by their own names.
    package : str, default ""
        All enums and dataclasses of this package may be in the tree too, by their full names.

    Raises
    ------
    InvalidInput
        The tree holds something else; the message says where.
    """
    encoder = _Encoder(kind, classes, package)
    root = encoder.node(tree, "", 0)
    structure = {"kind": kind, "version": version, "objects": encoder.objects, "tree": root}
    text = json.dumps(structure, allow_nan=False, separators=(",", ":"))

    def write(stream: BinaryIO) -> None:
        """Write structure and arrays as a zip archive, and the digest of its bytes as the archive's comment."""
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(zipfile.ZipInfo(_STRUCTURE), text)
            for i, array in enumerate(encoder.arrays):
                with archive.open(zipfile.ZipInfo(f"{i}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(array, order="C"), (1, 0), allow_pickle=False)
            archive.comment = bytes(_SEAL)
        end = stream.seek(0, os.SEEK_END) - _SEAL
        seal = _seal(stream, end)
        stream.seek(end)
        stream.write(seal)

    write_atomically(path, write)


def load(path: str | PathLike[str], *, kind: str, version: int, classes: Sequence[type] = (), package: str = "") -> Any:
    """Read what `save` wrote, after checking every byte of it.

    Parameters
    ----------
    path : str or path
        The file.
    kind, version, classes, package
        As they were given to `save`.

    Returns
    -------
    object
        The tree.

    Raises
    ------
    UnreadableFile
        The file is missing, damaged, or holds another kind or version.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream:
            _check_seal(stream, path, kind)
            return _read(stream, path, kind, version, classes, package)
    except FileNotFoundError:
        what = "file; check the name" if path.parent.is_dir() else f"folder {path.parent}; check the name of the folder"
        raise UnreadableFile(f"{path}: no such {what}") from None
    except IsADirectoryError:
        raise UnreadableFile(f"{path}: is a folder, expected a glmesh {kind}; name a file") from None
    except OSError as error:
        raise UnreadableFile(f"{path}: cannot be read to its end ({error}); write or copy it again") from error


class _Encoder:
    """Builds JSON nodes (plain JSON values) of one tree of Python objects for `save`.

    `arrays` and `objects` collect what the nodes refer to by number.
    """

    def __init__(self, kind: str, classes: Sequence[type], package: str) -> None:
        self.arrays: list[Array] = []
        self.objects: list[list[object]] = []
        self._kind, self._package = kind, package
        self._classes = {cls.__name__: cls for cls in classes}
        self._seen: dict[int, tuple[object, dict[str, int]]] = {}  # id(value): value, node

    def node(self, value: Any, place: str, depth: int) -> object:
        """Return the JSON node of `value`, which is at `place` of the tree, `depth` levels down.

        Raise InvalidInput if no file can hold it.
        """
        if depth > MAX_DEPTH:
            start = place.removeprefix(".")[:40]
            raise InvalidInput(
                f"{self._kind}: {start}... is nested deeper than {MAX_DEPTH} levels, or contains itself; flatten it"
            )
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        if isinstance(value, np.generic) and (value.dtype.kind in "biu" or value.dtype in (np.half, np.single, float)):
            value = value.item()
        cls = type(value)
        if cls in _SCALARS:
            return _SCALARS[cls](value)
        if cls is list:
            return self._items(value, place, depth)
        if cls is tuple:
            return {"tuple": self._items(value, place, depth)}
        if cls is dict:
            return {"dict": [self._entry(key, item, place, depth) for key, item in value.items()]}
        if cls is np.ndarray and value.dtype.kind in "biuf":
            self.arrays.append(value)
            return self._remember(value, {"array": len(self.arrays) - 1})
        return self._instance(value, place, depth)

    def _instance(self, value: object, place: str, depth: int) -> object:
        """Return the JSON node of an enum member or a dataclass instance at `place` of the tree, `depth` levels down.

        Raise InvalidInput for any other object.
        """
        cls = type(value)
        name = cls.__name__ if self._classes.get(cls.__name__) is cls else name_of(cls, self._package)
        if name and isinstance(value, Enum) and value.name in type(value).__members__:
            return {"enum": [name, value.name]}
        if name and is_dataclass(cls):
            content = {f.name: self.node(getattr(value, f.name), f"{place}.{f.name}", depth + 1) for f in fields(cls)}
            self.objects.append([name, content])
            return self._remember(value, {"object": len(self.objects) - 1})
        raise self._refusal(value, place, "is")

    def _remember(self, value: object, node: dict[str, int]) -> dict[str, int]:
        """Store that `value` has this JSON node, so that a second occurrence refers to the first; return the node."""
        self._seen[id(value)] = value, node
        return node

    def _items(self, values: Sequence[object], place: str, depth: int) -> list[object]:
        """Return the JSON nodes of the entries of a list or tuple, at `place` of the tree and `depth` levels down."""
        return [self.node(value, f"{place}[{i}]", depth + 1) for i, value in enumerate(values)]

    def _entry(self, key: object, value: object, place: str, depth: int) -> list[object]:
        """Return the JSON nodes [key, value] of an entry of the dict at `place`; raise InvalidInput for other keys.

        Keys are strings, whole numbers and tuples of whole numbers. `depth` is the number of levels above the dict.
        """
        if not (type(key) is str or _whole(key) or (type(key) is tuple and all(map(_whole, key)))):
            raise self._refusal(key, place, "has a key that is")
        below = f"{place}.{key}" if type(key) is str and key.isidentifier() else f"{place}[{key!r}]"
        return [self.node(key, below, depth + 1), self.node(value, below, depth + 1)]

    def _refusal(self, value: object, place: str, verb: str) -> InvalidInput:
        """Return the InvalidInput that says what stands at `place` of the tree, and what a file can hold.

        `value` is what stands there; `verb` are the words before it in the message, such as "is".
        """
        what = type(value).__name__
        if isinstance(value, np.ndarray | np.generic):
            what += f" of dtype {value.dtype}"
        where = place.removeprefix(".") or "the whole"
        known = "".join(f", {name}" for name in self._classes)
        return InvalidInput(
            f"{self._kind}: {where} {verb} a {what}, which a file cannot hold; expected numbers, strings, "
            f"numeric arrays, lists, tuples, dicts keyed by str, int or tuple of int{known}"
        )


def _whole(key: object) -> bool:
    """Return whether a key of a dict is a whole number of Python or NumPy; a bool is not."""
    return type(key) is int or (isinstance(key, np.integer) and key.dtype.kind in "iu")


def _text_node(text: str) -> object:
    """Return the JSON node of a string: itself, or its UTF-8 bytes in hexadecimal if it holds lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return {"str": text.encode("utf-8", "surrogatepass").hex()}
    return text


_SCALARS: dict[type, Callable[[Any], object]] = {  # exact type to the JSON node of a value
    type(None): lambda value: value,
    bool: lambda value: value,
    int: lambda value: value if -(2**63) <= value < 2**63 else {"int": hex(value)},
    float: lambda value: value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()},
    str: _text_node,
}


def _seal(stream: BinaryIO, end: int) -> bytes:
    """Return the archive's comment, bytes: a marker, and the BLAKE2b digest of the first `end` bytes of the stream."""
    digest = blake2b()
    stream.seek(0)
    while block := stream.read(min(_BLOCK, end - stream.tell())):
        digest.update(block)
    return _MAGIC + digest.hexdigest().encode()


def _check_seal(stream: BinaryIO, path: Path, kind: str) -> None:
    """Raise UnreadableFile unless the stream ends in the comment that `_seal` makes of the bytes before it.

    `path` and `kind` name the file in the message.
    """
    end = max(0, stream.seek(0, os.SEEK_END) - _SEAL)
    stream.seek(end)
    seal = stream.read()
    if not seal.startswith(_MAGIC):
        stream.seek(0)
        head = stream.read(64)
        what = "is empty"
        if head[30:].startswith(_STRUCTURE.encode()):
            what = "has lost or spoilt its end"
        elif head[30:].startswith(b"coef.npy"):
            what = "looks like a glmesh model"
        elif head.startswith(b"PK"):
            what = "is another kind of zip or npz archive"
        elif head:
            what = "is no file of glmesh, or lost its end"
        raise UnreadableFile(f"{path}: {what}, expected a glmesh {kind}; check the name, or copy the file again")
    if seal != _seal(stream, end):
        raise UnreadableFile(
            f"{path}: is damaged, its bytes do not match their digest; expected a whole glmesh {kind}; "
            "copy it again, or use an older one"
        )


def _read(stream: BinaryIO, path: Path, kind: str, version: int, classes: Sequence[type], package: str) -> Any:
    """Return the tree in an archive whose digest is right; raise UnreadableFile for another kind or version.

    `classes` and `package` say which dataclasses and enums the tree may hold.
    """
    try:
        with zipfile.ZipFile(stream) as archive:
            size = stream.seek(0, os.SEEK_END)
            if sum(info.file_size for info in archive.infolist()) > size:
                raise ValueError("members larger than the file")
            structure = json.loads(archive.read(_STRUCTURE))
            if structure["kind"] != kind:
                raise UnreadableFile(
                    f"{path}: is a glmesh {structure['kind']}, expected a glmesh {kind}; check the name"
                )
            if structure["version"] != version:
                raise UnreadableFile(
                    f"{path}: is a glmesh {kind} of version {structure['version']}, expected {version}; "
                    "upgrade glmesh, or use the release that wrote it"
                )
            return _Decoder(archive, structure["objects"], classes, package).node(structure["tree"])
    except (UnreadableFile, OSError):
        raise
    except Exception as error:  # its digest is right, so it was crafted, or written by a glmesh with other classes
        raise UnreadableFile(
            f"{path}: does not hold what a glmesh {kind} holds ({error!r}); "
            "upgrade glmesh, or use the release that wrote it"
        ) from error


class _Decoder:
    """Builds the tree of Python objects from JSON nodes for `load`; a crafted file may make it raise any exception."""

    def __init__(
        self,
        archive: zipfile.ZipFile,
        objects: list[tuple[str, dict[str, object]]],
        classes: Sequence[type],
        package: str,
    ) -> None:
        self._archive, self._package = archive, package
        self._classes = {cls.__name__: cls for cls in classes}
        self._arrays: dict[int, Array] = {}
        self._objects: list[object] = []
        for name, content in objects:
            self._objects.append(self._object(name, content))

    def node(self, node: Any) -> object:
        """Return the Python object that a JSON node of `_Encoder.node` describes."""
        if isinstance(node, list):
            return [self.node(item) for item in node]
        if not isinstance(node, dict):
            return node
        ((tag, content),) = node.items()
        match tag:
            case "tuple":
                return tuple(self.node(item) for item in content)
            case "dict":
                return {self.node(key): self.node(value) for key, value in content}
            case "int":
                return int(content, 16)
            case "float":
                return struct.unpack(">d", bytes.fromhex(content))[0]
            case "str":
                return bytes.fromhex(content).decode("utf-8", "surrogatepass")
            case "array":
                return self._array(content)
            case "enum":
                return self._class(content[0], Enum).__members__[content[1]]
            case "object":
                return self._objects[content]
        raise ValueError(f"unknown node {tag!r}")

    def _class(self, name: str, base: type[T]) -> type[T]:
        """Return the class called `name`, a subclass of `base`, if the reader allows it; else raise ValueError."""
        cls = self._classes.get(name) or _named(name, self._package)
        if cls is None or not issubclass(cls, base):
            raise ValueError(f"unknown class {name!r}")
        return cls

    def _object(self, name: str, content: dict[str, object]) -> object:
        """Return an instance of the dataclass `name` with the fields `content`, made without calling its __init__.

        ValueError is raised unless `content` has exactly the fields of the dataclass.
        """
        cls = self._class(name, object)
        if not is_dataclass(cls) or content.keys() != {field.name for field in fields(cls)}:
            raise ValueError(f"{name} with the fields {', '.join(content)}")
        made = object.__new__(cls)
        for key, value in content.items():
            object.__setattr__(made, key, self.node(value))  # past frozen, and past checks that could alter it
        return made

    def _array(self, number: int) -> Array:
        """Return array `number` of the archive; raise ValueError unless it is numeric and fills its bytes exactly."""
        if number not in self._arrays:
            name = f"{number}.npy"
            with self._archive.open(name) as member:  # the header first: its shape decides how much memory is taken
                np.lib.format.read_magic(member)
                shape, _, dtype = np.lib.format.read_array_header_1_0(member)
                held = self._archive.getinfo(name).file_size - member.tell()
            if dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != held:
                raise ValueError(f"array {number} of dtype {dtype} and shape {shape} in {held} bytes")
            with self._archive.open(name) as member:
                self._arrays[number] = np.lib.format.read_array(member, allow_pickle=False)
        return self._arrays[number]
