"""What commands write: text for people, and files that are whole or absent."""

import shutil
import tempfile
import textwrap
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

from glmesh.errors import InvalidInput
from glmesh.files.archive import remove_leftovers, write_text
from glmesh.types import Vector

PICTURES = (".png", ".pdf", ".svg")


def count(n: int, what: str) -> str:
    """Return a number with its noun as text: 1 -> 1 node, 1234 -> 1,234 nodes."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def rows(pairs: Iterable[tuple[str, str]]) -> str:
    """Return pairs (name, value) as one text, a line for each pair, in two aligned columns."""
    pairs = list(pairs)
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"  {name:<{width}}   {value}" for name, value in pairs)


def folded(text: str, stream: TextIO) -> str:
    """Return a text of one line, with line breaks between words where a terminal is narrower; elsewhere unchanged."""
    return textwrap.fill(text, shutil.get_terminal_size().columns - 1) if stream.isatty() else text


def plain(stream: TextIO) -> bool:
    """Return whether the encoding of a text stream lacks braille and block characters."""
    try:
        "⣿█░×≤".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeError, LookupError):
        return True
    return False


def check_writable(outputs: Mapping[str, str | None], *inputs: str) -> None:
    """Raise InvalidInput, before any work, if an output cannot be written or would overwrite another or an input.

    `outputs` has the file name of each option, None if it was not given. Hidden .part files that a killed writer of an
    output has left are removed.
    """
    taken = {Path(name).resolve(): "the input" for name in inputs}
    for option, name in outputs.items():
        if name is None:
            continue
        path = Path(name)
        if path.exists() and not path.is_file():
            raise InvalidInput(f"{option} {name}: is not a regular file; give the name of a file to write")
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise InvalidInput(f"{option} {name}: cannot write there ({error.strerror})") from None
        same = taken.setdefault(path.resolve(), option)
        if same != option:
            raise InvalidInput(f"{option} {name}: would overwrite {same}; give it another name")
        remove_leftovers(path)


def check_picture(option: str, name: str | None) -> None:
    """Raise InvalidInput, before any work, if a plot cannot be drawn: a wrong file name, or no matplotlib."""
    if name is None:
        return
    if Path(name).suffix.lower() not in PICTURES:
        raise InvalidInput(f"{option} {name}: a picture's name ends in {', '.join(PICTURES)}")
    if not can_plot():
        raise InvalidInput(f"{option} {name}: plots need matplotlib; pip install 'glmesh[plot]'")


def can_plot() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def write_lines(path: str, lines: Iterable[str]) -> None:
    """Write lines to a text file; an error or a crash leaves the old file."""
    write_text(path, "".join(f"{line}\n" for line in lines))


def write_history(path: str, history: Mapping[str, Vector]) -> None:
    """Write arrays of equal length to a CSV file, the keys as header; numbers are read back to the last bit."""
    columns = [values.tolist() for values in history.values()]
    write_lines(path, [",".join(history), *(",".join(map(repr, row)) for row in zip(*columns, strict=True))])
