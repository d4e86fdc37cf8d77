import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, Flag, IntEnum
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from glmesh.errors import InvalidInput, UnreadableFile
from glmesh.files import archive
from glmesh.files.model_files import Model
from tests.cases import prop


class Colour(Enum):
    RED = "r"
    BLUE = "b"


class Level(IntEnum):
    LOW = 1


class Bits(Flag):
    A = 1
    B = 2


@dataclass(frozen=True)
class Checked:
    size: Any
    twice: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", abs(self.size))

    @cached_property
    def cached(self) -> object:
        return object()


@dataclass(slots=True, eq=False)
class State:
    x: Any
    y: Any = None


Point = namedtuple("Point", "x y")
CLASSES = (Colour, Level, Bits, Checked, State)


def save(path: Path, tree: Any) -> None:
    archive.save(path, tree, kind="checkpoint", version=3, classes=CLASSES)


def load(path: Path) -> Any:
    return archive.load(path, kind="checkpoint", version=3, classes=CLASSES)


def through_a_file(tree: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder) / "c.glm", tree)
        return load(Path(folder) / "c.glm")


def same(a: Any, b: Any) -> bool:
    """Equal in type, order and every bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        plain = b.flags.c_contiguous and b.flags.writeable
        return bool(plain and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if type(a) is float:
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same([*a.items()], [*b.items()])
    if isinstance(a, Checked):
        return same((a.size, a.twice), (b.size, b.twice))
    if isinstance(a, State):
        return same((a.x, a.y), (b.x, b.y))
    return bool(a == b)


arrays = hnp.arrays(
    st.one_of(
        hnp.boolean_dtypes(),
        hnp.integer_dtypes(endianness="?"),
        hnp.unsigned_integer_dtypes(endianness="?"),
        hnp.floating_dtypes(endianness="?"),
    ),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3),
).map(lambda array: array.T)
huge = st.integers() | st.integers(0, 20_000).map(lambda power: (-3) ** power)
texts = st.text(st.characters(exclude_categories=()))
floats = st.floats() | st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", bits.to_bytes(8, "little"))[0])
leaves = st.none() | st.booleans() | huge | floats | texts | arrays | st.sampled_from([*Colour, *Level, *Bits])
keys = texts | st.integers() | st.lists(st.integers(), max_size=2).map(tuple)
trees = st.recursive(
    leaves,
    lambda nodes: st.one_of(
        st.lists(nodes, max_size=4),
        st.lists(nodes, max_size=4).map(tuple),
        st.dictionaries(keys, nodes, max_size=4),
        st.builds(State, nodes, nodes),
    ),
    max_leaves=12,
)


@prop(2000)
@given(trees)
def test_round_trip(tree: Any) -> None:
    assert same(tree, through_a_file(tree))


@prop(300)
@given(hnp.arrays(hnp.scalar_dtypes(), ()))
def test_numpy_scalars_come_back_as_python_numbers_or_are_refused(array: Any) -> None:
    scalar = array[()]
    if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8:
        assert same(scalar.item(), through_a_file(scalar))
    else:
        with pytest.raises(InvalidInput, match=f"the whole is a {type(scalar).__name__}"):
            through_a_file(scalar)


def test_numpy_keys_become_python_numbers() -> None:
    assert same({7: 1, (1, 2): 2}, through_a_file({np.int32(7): 1, (np.int64(1), 2): 2}))


def test_shared_arrays_and_objects_stay_shared() -> None:
    buffer, inner = np.arange(3.0), State(1)
    outer = State(buffer, [inner, buffer])
    a, b, c, d = through_a_file([buffer, outer, inner, {"again": outer, "equal": np.arange(3.0)}])
    assert a is b.x is b.y[1]
    assert b.y[0] is c
    assert d["again"] is b
    assert d["equal"] is not a
    a[0] = 9.0
    assert b.x[0] == 9.0


def test_fields_are_restored_past_every_check() -> None:
    saved = Checked(3)
    object.__setattr__(saved, "size", -3)
    object.__setattr__(saved, "twice", -6)
    assert saved.cached is saved.cached
    loaded = through_a_file(saved)
    assert vars(loaded) == {"size": -3, "twice": -6}


def test_numpy_alone_reads_the_arrays(tmp_path: Path) -> None:
    save(tmp_path / "c.npz", {"x": np.eye(3, 2).T})
    with np.load(tmp_path / "c.npz", allow_pickle=False) as content:
        np.testing.assert_array_equal(content["0"], np.eye(2, 3))


def test_equal_trees_make_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(tmp_path / name, {"x": np.ones(4), "n": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


class MySolver:
    pass


Shadow = type("State", (), {})


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        (
            {"run": State({"solver": MySolver()})},
            r"checkpoint: run\.x\.solver is a MySolver, which a file cannot hold; ",
        ),
        ([0, (print,)], r"checkpoint: \[1\]\[0\] is a builtin_function_or_method"),
        ({"a b": {3: {1}}}, r"checkpoint: \['a b'\]\[3\] is a set"),
        (np.array([None]), "the whole is a ndarray of dtype object"),
        (np.array(["a"]), "ndarray of dtype <U1"),
        (np.array([1j]), "ndarray of dtype complex128"),
        (np.zeros(2, dtype="f8,i4"), "the whole is a ndarray of dtype"),
        (np.ma.masked_array([1.0]), "MaskedArray of dtype float64"),
        (Point(1, 2), "is a Point"),
        (b"bytes", "is a bytes"),
        (1j, "is a complex"),
        (Shadow(), "is a State"),
        (State, "is a type"),
        (Bits.A | Bits.B, "is a Bits"),
        ({1.5: 0}, "the whole has a key that is a float"),
        ({"x": {True: 0}}, "x has a key that is a bool"),
        ({(1, "a"): 0}, "has a key that is a tuple"),
    ],
)
def test_what_a_file_cannot_hold(tmp_path: Path, tree: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        save(tmp_path / "c.glm", tree)
    assert not [*tmp_path.iterdir()]


def nested(depth: int, wrap: Callable[[Any], Any]) -> Any:
    tree: Any = 0
    for _ in range(depth):
        tree = wrap(tree)
    return tree


@pytest.mark.parametrize("wrap", [lambda t: [t], lambda t: (t,), lambda t: {"k": t}, State])
def test_depth(wrap: Callable[[Any], Any]) -> None:
    tree = nested(archive.MAX_DEPTH, wrap)
    assert same(tree, through_a_file(tree))
    with pytest.raises(InvalidInput, match=r"checkpoint: .{1,40}\.\.\. is nested deeper than 100 levels"):
        through_a_file(wrap(tree))


def test_cycles_are_refused() -> None:
    state = State(1)
    state.y = [state]
    with pytest.raises(InvalidInput, match="or contains itself"):
        through_a_file(state)


def test_every_flipped_bit_and_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.glm"
    save(path, {"x": np.arange(5.0), "state": State(Colour.RED, [1.5, "a", None])})
    content = path.read_bytes()
    for i in range(len(content)):
        path.write_bytes(content[:i] + bytes([content[i] ^ 1 << i % 8]) + content[i + 1 :])
        with pytest.raises(UnreadableFile, match=r"c\.glm: .*expected a (whole )?glmesh checkpoint; c"):
            load(path)
    for end in range(0, len(content), 3):
        path.write_bytes(content[:end])
        with pytest.raises(UnreadableFile, match=r"c\.glm: .*expected a (whole )?glmesh checkpoint; c"):
            load(path)
    for longer in (content + b"\0", b"\0" + content, content + content):
        path.write_bytes(longer)
        with pytest.raises(UnreadableFile, match="expected a"):
            load(path)
    path.write_bytes(content)
    assert load(path)["state"].x is Colour.RED


def test_long_arrays_are_hashed_to_their_end(tmp_path: Path) -> None:
    path = tmp_path / "c.glm"
    tree = np.arange(400_000.0)
    save(path, tree)
    assert same(tree, load(path))
    content = bytearray(path.read_bytes())
    content[-2000] ^= 1
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match="do not match their digest"):
        load(path)


def foreign_model(path: Path) -> None:
    Model(np.ones(2), 0.0, "squared", "l2", 1.0, 0.0).save(path)


def foreign_npz(path: Path) -> None:
    with path.open("wb") as stream:
        np.savez(stream, x=np.ones(2))


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (foreign_model, "looks like a glmesh model, expected a glmesh checkpoint"),
        (foreign_npz, "is another kind of zip or npz archive, expected a glmesh checkpoint"),
        (lambda path: path.write_bytes(b""), "is empty, expected a glmesh checkpoint"),
        (lambda path: path.write_text("1 2:3\n" * 100), "is no file of glmesh, or lost its end"),
        (lambda path: path.mkdir(), "is a folder, expected a glmesh checkpoint"),
        (lambda path: None, "no such file; check the name"),
        (lambda path: archive.save(path, 1, kind="history", version=3), "is a glmesh history, expected a glmesh check"),
        (
            lambda path: archive.save(path, 1, kind="checkpoint", version=4),
            "checkpoint of version 4, expected 3; upgrade glmesh",
        ),
        (
            lambda path: archive.save(path, Model(*"abcdef"), kind="checkpoint", version=3, classes=[Model]),
            "unknown class 'Model'.*upgrade glmesh",
        ),
    ],
)
def test_foreign_files(tmp_path: Path, write: Callable[[Path], None], says: str) -> None:
    write(tmp_path / "c.glm")
    with pytest.raises(UnreadableFile, match=rf"c\.glm: .*{says}"):
        load(tmp_path / "c.glm")


def test_missing_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"no such folder .*/none; check"):
        load(tmp_path / "none" / "c.glm")
    with pytest.raises(FileNotFoundError, match=r"no such folder; make it first: .*/none'"):
        save(tmp_path / "none" / "c.glm", 1)
    with pytest.raises(IsADirectoryError, match="is a folder; expected the name of a file"):
        save(tmp_path, 1)


def test_a_file_of_a_class_with_other_fields(tmp_path: Path) -> None:
    older = dataclass(type("State", (), {"__annotations__": {"x": int}}))
    archive.save(tmp_path / "c.glm", older(1), kind="checkpoint", version=3, classes=[older])
    with pytest.raises(UnreadableFile, match=r"State with the fields x.*upgrade glmesh"):
        load(tmp_path / "c.glm")


def seal(content: bytes) -> bytes:
    """The comment of an archive, which vouches for all bytes before it."""
    return b"glmesh-archive-1 blake2b " + blake2b(content).hexdigest().encode()


def craft(path: Path, structure: bytes | None, members: dict[str, bytes], compression: int = 0) -> None:
    """An archive with a right digest and any content."""
    with path.open("w+b") as stream:
        with zipfile.ZipFile(stream, "w", compression) as zipped:
            for name, content in ({} if structure is None else {"structure.json": structure} | members).items():
                zipped.writestr(name, content)
            zipped.comment = bytes(len(seal(b"")))
        end = stream.seek(0, os.SEEK_END) - len(seal(b""))
        stream.seek(0)
        stream.write(seal(stream.read(end)))


def npy(descr: str, shape: str, data: bytes = b"") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


HEAD = b'{"kind":"checkpoint","version":3,"objects":[],"tree":'


@pytest.mark.parametrize(
    "structure",
    [
        None,
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        HEAD + b"[" * 5000 + b"]" * 5000 + b"}",
        HEAD + b"9" * 5000 + b"}",
        *(
            HEAD + node + b"}"
            for node in (
                b"{}",
                b'{"list":[]}',
                b'{"tuple":1}',
                b'{"tuple":[],"list":[]}',
                b'{"dict":[[[],1]]}',
                b'{"dict":[[1]]}',
                b'{"int":1}',
                b'{"int":"z"}',
                b'{"float":"00"}',
                b'{"str":"ff"}',
                b'{"object":0}',
                b'{"object":{}}',
                b'{"array":9}',
                b'{"array":[]}',
                b'{"enum":[]}',
                b'{"enum":["Colour","GREEN"]}',
                b'{"enum":["Colour","__class__"]}',
                b'{"enum":["State","x"]}',
                b'{"enum":[[],"x"]}',
            )
        ),
        *(
            b'{"kind":"checkpoint","version":3,"tree":0,"objects":' + objects + b"}"
            for objects in (
                b"1",
                b"[1]",
                b'[["State",{"x":1}]]',
                b'[["State",[]]]',
                b'[["Colour",{}]]',
                b'[["int",{}]]',
                b'[["State",{"x":{"object":0},"y":0}]]',
            )
        ),
    ],
)
def test_crafted_structures(tmp_path: Path, structure: bytes | None) -> None:
    craft(tmp_path / "c.glm", structure, {})
    with pytest.raises(UnreadableFile, match=r"c\.glm: does not hold what a glmesh checkpoint holds"):
        load(tmp_path / "c.glm")


@pytest.mark.parametrize(
    "member",
    [
        b"",
        b"junk",
        npy("'<f8'", "(9,)", bytes(8)),
        npy("'<f8'", "(1000000000000000,)"),
        npy("'<f8'", f"({2**62}, 4)"),
        npy("'<f8'", f"(0, {10**30})"),
        npy("'<f8'", "(-1,)", bytes(8)),
        npy("'<f8'", "(-1, -1)", bytes(8)),
        npy("'<f8'", "(" * 5000),
        npy("'<f8'", "\n  1\n 2"),
        npy("'|O'", "()", bytes(8)),
        npy("'<c16'", "()", bytes(16)),
        npy("'<U2'", "()", bytes(8)),
        npy("[('a', '<f8')]", "()", bytes(8)),
        npy("None", "()", bytes(8)),
    ],
)
def test_crafted_arrays(tmp_path: Path, member: bytes) -> None:
    craft(tmp_path / "c.glm", HEAD + b'{"array":0}}', {"0.npy": member})
    with pytest.raises(UnreadableFile, match="does not hold what a glmesh checkpoint holds"):
        load(tmp_path / "c.glm")


def test_zip_bombs_are_not_unpacked(tmp_path: Path) -> None:
    craft(tmp_path / "c.glm", HEAD + b" " * 1_000_000 + b"0}", {}, zipfile.ZIP_DEFLATED)
    with pytest.raises(UnreadableFile, match="members larger than the file"):
        load(tmp_path / "c.glm")


def test_not_even_a_zip(tmp_path: Path) -> None:
    (tmp_path / "c.glm").write_bytes(b"no zip" + seal(b"no zip"))
    with pytest.raises(UnreadableFile, match="BadZipFile"):
        load(tmp_path / "c.glm")


tags = st.sampled_from(["tuple", "dict", "int", "float", "str", "array", "enum", "object", "x"])
nodes = st.recursive(
    st.none() | st.integers(-2, 2) | st.sampled_from(["State", "Colour", "RED", "x", "00", "0x1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(tags, inner, max_size=2),
    max_leaves=8,
)


@prop(300)
@given(nodes)
def test_any_json_is_read_or_refused(node: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.glm"
        craft(path, HEAD + json.dumps(node).encode() + b"}", {"0.npy": npy("'<f8'", "()", bytes(8))})
        try:
            load(path)
        except UnreadableFile as error:
            assert "does not hold" in str(error)  # noqa: PT017


def half(stream: BinaryIO) -> None:
    stream.write(b"half")
    raise RuntimeError("pulled the plug")


def whole(stream: BinaryIO) -> None:
    stream.write(b"whole")


def refuse(*_: Any) -> None:
    raise OSError("no space left")


@pytest.mark.parametrize("old", [None, b"old"])
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: bytes | None) -> None:
    path = tmp_path / "c.glm"
    if old is not None:
        path.write_bytes(old)
    before = [*tmp_path.iterdir()]
    with pytest.raises(RuntimeError, match="pulled the plug"):
        archive.write_atomically(path, half)
    for call in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, refuse)
            with pytest.raises(OSError, match="no space left"):
                archive.write_atomically(path, whole)
        assert [*tmp_path.iterdir()] == before
        assert old is None or path.read_bytes() == old
    archive.write_atomically(str(path), whole)
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_bytes() == b"whole"


def test_a_folder_that_cannot_be_flushed_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", refuse)
    archive.write_atomically(tmp_path / "c.glm", whole)
    assert (tmp_path / "c.glm").read_bytes() == b"whole"


def test_unreadable_to_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "c.glm", 1)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UnreadableFile, match=r"cannot be read to its end \(no space left\)"):
        load(tmp_path / "c.glm")


def test_leftovers_of_crashed_writers_are_removed_by_the_next_writer_of_the_same_file(tmp_path: Path) -> None:
    name = str(tmp_path / "a.glm")
    crash = f"from glmesh.files import archive as a; a.write_atomically({name!r}, lambda stream: a.os._exit(7))"
    assert subprocess.run([sys.executable, "-c", crash], check=False).returncode == 7
    left = list(tmp_path.iterdir())
    assert [path.suffix for path in left] == [".part"]
    other = tmp_path / ".b.glm.01234567.part"
    other.write_bytes(b"")
    archive.write_text(tmp_path / "a.glm", "whole")
    assert sorted(tmp_path.iterdir()) == [other, tmp_path / "a.glm"]


def test_a_part_that_is_being_written_is_no_leftover(tmp_path: Path) -> None:
    path = tmp_path / "a.glm"

    def slow(stream: Any) -> None:
        stream.write(b"slow")
        archive.write_text(path, "quick")
        assert path.read_text() == "quick"
        assert len(list(tmp_path.glob(".*.part"))) == 1

    archive.write_atomically(path, slow)
    assert path.read_text() == "slow"
    assert list(tmp_path.iterdir()) == [path]
