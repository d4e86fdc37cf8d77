"""Bytes of a file, decompressed by the end of its name."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from glmesh.errors import UnreadableFile
from glmesh.files.signatures import LOOKED_AT, foreign

_DECOMPRESS: dict[str, Callable[[Path], Any]] = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile}


def is_compressed(path: Path) -> bool:
    """Return whether a file name ends in .gz, .bz2 or .xz."""
    return path.suffix.lower() in _DECOMPRESS


def kind_of(path: Path) -> str:
    """Return the ending of a file name in lower case, without that of a compression: ".csv" for "A.CSV.gz"."""
    return (path.with_suffix("") if is_compressed(path) else path).suffix.lower()


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Yield a binary stream of a file's decompressed content; errors of opening and reading become UnreadableFile."""
    try:
        with _DECOMPRESS.get(path.suffix.lower(), partial(open, mode="rb"))(path) as stream:
            yield stream
    except FileNotFoundError:
        raise UnreadableFile(f"{path}: no such file; check the name and the folder") from None
    except IsADirectoryError:
        raise UnreadableFile(f"{path}: cannot be read, it is a folder; give the name of a file") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UnreadableFile(f"{path}: cannot be read to its end ({error}); write or copy it again") from error


def refuse_foreign(path: Path, expected: str) -> None:
    """Raise UnreadableFile if a file's first bytes, decompressed by its name, are those of another kind of file.

    `expected` says in the message what the file should be.
    """
    with opened(path) as stream:
        found = foreign(stream.read(LOOKED_AT))
    if found:
        raise UnreadableFile(f"{path}: is {found[0]}, expected {expected}; {found[1]}")


@contextmanager
def opened_text(path: Path, encoding: str) -> Iterator[io.TextIOWrapper]:
    """Yield a stream of a file's decompressed text, with line ends as they are.

    UnreadableFile, which names the line, is raised where the file is not text in `encoding`.
    """
    with opened(path) as stream, io.TextIOWrapper(stream, encoding, newline="") as text:
        try:
            yield text
        except UnicodeError as error:
            raise UnreadableFile(
                f"{path}, line {_undecodable(path, encoding)}: is not text in {encoding.removesuffix('-sig')} "
                f"({getattr(error, 'reason', error)}); save it as UTF-8, or say its encoding to a command that "
                "takes one (--encoding latin-1 is that of older Windows programs in the west)"
            ) from None


def _undecodable(path: Path, encoding: str) -> int:
    """Return the number of the first line of a file, from 1, that is no text in `encoding`."""
    number = 1
    with opened(path) as stream, io.TextIOWrapper(stream, encoding, errors="surrogateescape") as text:
        try:
            for number, line in enumerate(text, 1):
                if any("\udc80" <= sign <= "\udcff" for sign in line):
                    return number
        except UnicodeError:
            number += 1
    return number
