"""Bytes of a file, decompressed by the end of its name."""

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from glmesh.errors import UnreadableFile

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
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UnreadableFile(f"{path}: cannot be read to its end ({error}); write or copy it again") from error
