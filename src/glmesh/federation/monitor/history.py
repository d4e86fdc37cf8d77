"""Figures of a node over time, a line of JSON per entry; `glmesh report` draws them."""

import json
from pathlib import Path
from typing import Any

from glmesh.errors import UnreadableFile


class History:
    """Appends the figures of a node to a file, one line of JSON per entry."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("a", encoding="utf-8")

    def add(self, figures: dict[str, Any]) -> None:
        """Append an entry to the file, as one line of JSON."""
        self._stream.write(json.dumps(figures) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Close the history file."""
        self._stream.close()


def lines_since(path: Path, since: float = 0.0) -> list[dict[str, Any]]:
    """Return the entries of a history or log file from a time on, in seconds since 1970; none if there is no file."""
    return [entry for entry in read_lines(path) if entry["time"] >= since] if path.is_file() else []


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return all entries of a history or log file; a last line that a crash cut off is left out."""
    if not path.is_file():
        raise UnreadableFile(f"{path}: no such file; a node writes it while it runs")
    entries: list[dict[str, Any]] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            entries.append(json.loads(line))
        except ValueError:
            if number < len(lines):
                raise UnreadableFile(f"{path}, line {number}: is no JSON; expected what a node wrote") from None
    return entries
