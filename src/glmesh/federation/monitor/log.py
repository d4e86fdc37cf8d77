"""What a node tells: stdlib `logging` records whose message is an event and whose `extra` are its fields.

`log.info("up", extra={"peer": "bob"})` is a line for people and a line of JSON in a file. Nothing secret is logged.
"""

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}  # attributes of any record
_RECENT = 50  # [lines] kept for a live view, which shows the last ones


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """Return {name: value} of the fields that a log record was given as `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _node(record: logging.LogRecord) -> str:
    """Return the name of the node whose logger made a log record."""
    return record.name.rpartition(".")[2]


class JsonFormatter(logging.Formatter):
    """Formats a log record as JSON: {"time": s since 1970, "node": name, "event": message, field: value, ...}."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line of JSON."""
        head = {"time": round(record.created, 3), "node": _node(record), "event": record.getMessage()}
        return json.dumps(head | _fields(record), default=str)


class LineFormatter(logging.Formatter):
    """Formats a log record as `HH:MM:SS node event field=value ...`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as the line `HH:MM:SS node event field=value ...`."""
        told = " ".join(f"{key}={_shown(value)}" for key, value in _fields(record).items())
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        return f"{clock} {_node(record)} {record.getMessage()} {told}".rstrip()


def _shown(value: object) -> str:
    """Return a field's value as text: floats with four digits, texts in quotes if they are empty or have blanks."""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = str(value)
    return json.dumps(text) if " " in text or not text else text


class RecentLines(logging.Handler):
    """A log handler that keeps the last _RECENT (50) lines in memory, for a live view."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LineFormatter())
        self.lines: deque[str] = deque(maxlen=_RECENT)

    def emit(self, record: logging.LogRecord) -> None:
        """Append the line of a log record to `lines`."""
        self.lines.append(self.format(record))


def line_handler(stream: TextIO | None = None) -> logging.Handler:
    """Return a log handler that writes lines for people to a stream, by default to standard error."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter())
    return handler


@contextmanager
def node_log(name: str, path: Path | None = None) -> Iterator[logging.Logger]:
    """Yield the logger of node `name`, a context; if `path` is given, it appends lines of JSON to that file.

    All handlers of the logger are removed and closed at the end of the block.
    """
    log = logging.getLogger(f"glmesh.node.{name}")
    log.setLevel(logging.INFO)
    log.propagate = False
    if path is not None:
        handler = logging.FileHandler(path, encoding="utf-8")
        handler.setFormatter(JsonFormatter())
        log.addHandler(handler)
    try:
        yield log
    finally:
        for one in list(log.handlers):
            log.removeHandler(one)
            one.close()


class Handshakes:
    """Redirects standard error until closed, to turn gRPC's lines about failed TLS handshakes into log events."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._saved = os.dup(2)
        reading, writing = os.pipe()
        os.dup2(writing, 2)
        os.close(writing)
        self._thread = threading.Thread(target=self._read, args=(reading,), name="stderr", daemon=True)
        self.terminal = os.fdopen(os.dup(self._saved), "w", encoding="utf-8", errors="backslashreplace")
        self._thread.start()

    def _read(self, descriptor: int) -> None:
        """Read what is written to standard error until it is closed: log lines about handshakes, pass on all others.

        `descriptor` is the file descriptor to read from.
        """
        with os.fdopen(descriptor, "rb") as stream:
            for line in stream:
                if b"Handshake failed with error" in line:
                    why = line.split(b"OPENSSL_internal:")[-1].decode(errors="replace").strip()
                    fields = {"who": "a connection", "why": why.replace("_", " ").lower()}
                    self._log.warning("refused", extra=fields)
                else:
                    os.write(self._saved, line)

    def close(self) -> None:
        """Restore standard error, and end the thread that reads it."""
        os.dup2(self._saved, 2)
        self._thread.join(1.0)
        os.close(self._saved)
