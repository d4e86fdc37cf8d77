"""Svmlight text: lines of `label index:value index:value ...` with ascending indices, `#` begins a comment."""

from array import array
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

import numpy as np
from scipy.sparse import csr_array

from glmesh.errors import UnreadableFile
from glmesh.files.streams import opened
from glmesh.types import Vector
from glmesh.validation import one_of

IndexBase = Literal["auto", 0, 1]  # first index of a file; "auto": 1, or 0 if the file uses a 0


def parse(path: Path, span: tuple[int, int] | None = None) -> tuple[csr_array, Vector]:
    """Read svmlight text; return (X as CSR of shape (m, largest index + 1), y of shape (m,)).

    With span = (begin, end) only lines that begin in the bytes [begin, end) are read; None reads all. Column j of X is
    index j as written in the file, whether the file counts from 0 or from 1.
    """
    labels, values, indices, starts = array("d"), array("d"), array("i"), array("q", [0])
    number, line = 0, b""
    with opened(path) as stream:
        try:
            for line in _lines(stream, span):
                number += 1
                label, *pairs = line.split(b"#", 1)[0].split() or [b""]
                if not label:
                    continue
                if pairs and pairs[0].startswith(b"qid:"):
                    del pairs[0]
                texts, numbers = zip(*[pair.split(b":") for pair in pairs], strict=True) if pairs else ((), ())
                own = list(map(int, texts))
                if own != sorted(set(own)) or min(own, default=0) < 0:
                    raise ValueError("indices must ascend")
                labels.append(float(label))
                indices.extend(own)
                values.extend(map(float, numbers))
                starts.append(len(values))
        except (ValueError, OverflowError) as error:
            got = line[:40].decode("ascii", "backslashreplace").strip()
            where = f"line {number}{f' after byte {span[0]}' if span and span[0] else ''}"
            raise UnreadableFile(
                f"{path}, {where}: expected 'label index:value index:value ...' with ascending "
                f"indices, got {got!r} ({error}); for a table, name the file .csv or .tsv"
            ) from None
    places = np.asarray(indices, dtype=np.int32)
    shape = len(labels), int(places.max(initial=-1)) + 1
    return csr_array((np.asarray(values), places, np.asarray(starts)), shape=shape), np.asarray(labels)


def read(path: Path, n_features: int | None = None, index_base: IndexBase = "auto") -> tuple[csr_array, Vector, int]:
    """Read a whole svmlight file; return (X as CSR of shape (m, p), y of shape (m,), the index of the first column).

    p is `n_features`; if None, as many as the largest index needs. `index_base` is the index of the first column in the
    file, 0 or 1; "auto": 1, or 0 if the file uses a 0.
    """
    X, y = parse(path)
    if n_features is None and len(y) and X.nnz == 0:
        raise UnreadableFile(f"{path}: no line has a feature; expected 'label index:value ...', or n_features")
    base = first_index(path, int(X.indices.min(initial=1)), index_base)
    indices = X.indices - base
    width = int(indices.max(initial=-1)) + 1
    if n_features is not None and width > n_features:
        row = np.searchsorted(X.indptr, np.argmax(indices >= n_features), side="right")
        raise UnreadableFile(
            f"{path}: has {width} features (sample {row} is the first to go beyond), expected at most "
            f"n_features={n_features}; is it of the same data set?"
        )
    shape = len(y), width if n_features is None else n_features
    return csr_array((X.data, indices, X.indptr), shape=shape), y, base


def first_index(path: Path, least: int, index_base: IndexBase) -> int:
    """Return the index of the first column, 0 or 1, of a file whose least index is `least`.

    UnreadableFile is raised if indices are said to count from 1, and one is 0. `index_base` is what the caller said: 0,
    1 or "auto" (1, or 0 if the file uses a 0).
    """
    one_of(index_base, "index_base", ("auto", 0, 1))
    if index_base == 1 and least == 0:
        raise UnreadableFile(
            f"{path}: uses the index 0, expected indices from 1 on (index_base=1); the file counts from 0"
        )
    return int(least > 0) if index_base == "auto" else index_base


def _lines(stream: IO[bytes], span: tuple[int, int] | None) -> Iterator[bytes]:
    """Yield the lines of a stream that begin in the bytes [span[0], span[1]), or all if span is None.

    A byte order mark at the start is left out.
    """
    place, end = (0, None) if span is None else span
    if place:
        stream.seek(place - 1)
        place += len(stream.readline()) - 1  # the rest of a line that begins before
    for line in stream:
        if end is not None and place >= end:
            return
        yield line if place else line.removeprefix(BOM_UTF8)
        place += len(line)
