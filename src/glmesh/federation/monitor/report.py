"""The report: the page about sites, frozen, as one file without script, from their state folders."""

from collections.abc import Sequence
from pathlib import Path

from glmesh.errors import UnreadableFile
from glmesh.federation.monitor.page.document import report
from glmesh.federation.monitor.page.record import Folder


def page(folders: Sequence[str]) -> str:
    """Return an HTML page about the sites whose state folders are given; UnreadableFile if one has no history or log.

    It says how things stand in words and shows the proof by round, who was there, the coefficients with intervals,
    the sites, traffic, events and settings.
    """
    records = []
    for folder in map(Path, folders):
        if not any((folder / name).is_file() for name in ("history.jsonl", "log.jsonl")):
            raise UnreadableFile(f"{folder / 'history.jsonl'}: no such file; a node writes it while it runs")
        records.append(Folder(folder).look())
    return report(records)
