"""What a node tells: a line for people, and the same as JSON in a file. Nothing secret passes through here."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, TextIO


class Log:
    """Events with fields; also kept, so that a live view can show the last ones."""

    def __init__(self, name: str, path: Path | None = None, stream: TextIO | None = sys.stderr) -> None:
        self.name = name
        self.recent: deque[str] = deque(maxlen=50)
        self.stream = stream
        self._file = None if path is None else path.open("a", encoding="utf-8")
        self._lock = threading.Lock()

    def __call__(self, event: str, **fields: Any) -> None:
        """An event, now."""
        now = time.time()
        told = " ".join(f"{key}={_shown(value)}" for key, value in fields.items())
        line = f"{time.strftime('%H:%M:%S', time.localtime(now))} {self.name} {event} {told}".rstrip()
        with self._lock:
            self.recent.append(line)
            if self._file is not None:
                entry = {"time": round(now, 3), "node": self.name, "event": event, **fields}
                self._file.write(json.dumps(entry, default=str) + "\n")
                self._file.flush()
            if self.stream is not None:
                print(line, file=self.stream, flush=True)

    def close(self) -> None:
        """Ends the file."""
        if self._file is not None:
            self._file.close()


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    text = str(value)
    return json.dumps(text) if " " in text or not text else text


class Handshakes:
    """gRPC writes failed TLS handshakes to the standard error only; this makes log lines of them."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._saved = os.dup(2)
        reading, writing = os.pipe()
        os.dup2(writing, 2)
        os.close(writing)
        self._thread = threading.Thread(target=self._read, args=(reading,), name="stderr", daemon=True)
        self.terminal = os.fdopen(os.dup(self._saved), "w", encoding="utf-8", errors="backslashreplace")
        if log.stream is not None:
            log.stream = self.terminal
        self._thread.start()

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as stream:
            for line in stream:
                if b"Handshake failed with error" in line:
                    why = line.split(b"OPENSSL_internal:")[-1].decode(errors="replace").strip()
                    self._log("refused", who="a connection", why=why.replace("_", " ").lower())
                else:
                    os.write(self._saved, line)

    def close(self) -> None:
        """The standard error is the old one again."""
        os.dup2(self._saved, 2)
        self._thread.join(1.0)
        os.close(self._saved)
