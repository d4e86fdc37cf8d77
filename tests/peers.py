"""Federations of real processes on loopback, for tests.

Processes are forked from a server that has everything imported and compiled already: a node is there in a moment, and
still has a process of its own that can be killed and stopped.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from glmesh.engine import checkpoint
from glmesh.federation.config import Federation, Member, NetworkPart, ProblemPart, keys
from glmesh.federation.monitor.history import read_lines
from glmesh.files import model_files
from tests.cases import LIMIT

FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["tests.peers_warm"])


def _main(arguments: list[str], output: str) -> None:
    """In the new process: `glmesh node ...`, its words in a file."""
    stream = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    from glmesh.cli import main

    sys.stdout.flush()
    sys.exit(main(arguments))


LOW, HIGH = 10_000, 32_000  # ports below those that the kernel hands out by itself
_ports = itertools.count(os.getpid() * 101)
_kept: deque[ExitStack] = deque()  # sockets on ports that a federation may still need, also for nodes that return


def free_ports(n: int) -> list[int]:
    """Ports in a row on loopback that are free, and that no other test is given until a hundred calls later.

    Each is kept by a socket that does not listen. Linux lets a node listen there beside it, since both allow an address
    to be used again; another call of this function, which does not allow that at first, goes on to other ports.
    """
    while True:
        first = LOW + next(_ports) * n % (HIGH - LOW)
        ports = list(range(first, first + n))
        with suppress(OSError), ExitStack() as taken:
            for port in ports:
                one = taken.enter_context(socket.socket())
                one.bind(("127.0.0.1", port))
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if sys.platform == "linux":  # elsewhere a port that is kept cannot be used
                _kept.append(taken.pop_all())
            if len(_kept) > 100:
                _kept.popleft().close()
            return ports


class Sites:
    """A federation in a folder, and its processes."""

    def __init__(
        self,
        folder: Path,
        parts: Sequence[tuple[Any, Any]],
        *,
        problem: dict[str, Any] | None = None,
        network: dict[str, Any] | None = None,
        late: Sequence[int] = (),
        every: int = 20,
    ) -> None:
        self.folder, self.names = folder, [f"n{k}" for k in range(len(parts))]
        keys.make(folder / "keys", self.names)
        ports = free_ports(len(parts))
        self.ports = ports
        members = [
            Member(
                name,
                f"127.0.0.1:{ports[k]}",
                keys.fingerprint((folder / "keys" / f"{name}.crt").read_bytes()),
                k in late,
            )
            for k, name in enumerate(self.names)
        ]
        self.federation = Federation(
            "test",
            ProblemPart(**({"method": "gossip"} | (problem or {}))),
            NetworkPart(**(network or {})),
            tuple(members),
        )
        self.federation.write(folder / "federation.toml")
        for k, (X, y) in enumerate(parts):
            if hasattr(X, "tocsr"):
                X = X.tocsr()
                arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
                np.savez(folder / f"n{k}.npz", y=y, **arrays)
            else:
                np.savez(folder / f"n{k}.npz", X=X, y=y)
            self.write_node(k, every=every)
        self.processes: dict[int, Any] = {}

    def write_node(self, k: int, *, every: int = 20, **other: Any) -> Path:
        """n3.toml, or a variant of it."""
        name = self.names[k]
        values = {
            "name": name,
            "federation": "federation.toml",
            "data": f"{name}.npz",
            "certificate": f"keys/{name}.crt",
            "key": f"keys/{name}.key",
            "ca": "keys/ca.crt",
            "checkpoint_every": every,
        } | other
        path = self.folder / f"{name}.toml"
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items() if key != "neighbours")
        if "neighbours" in values:
            text += "[neighbours]\n" + "".join(f'{key} = "{value}"\n' for key, value in values["neighbours"].items())
        path.write_text(text)
        return path

    def start(self, *nodes: int, options: Sequence[str] = ()) -> None:
        for k in nodes or range(len(self.names)):
            self.run(k, ["node", str(self.folder / f"n{k}.toml"), "--plain", *options])

    def run(self, k: int, arguments: list[str]) -> None:
        """A command of a site, as a process."""
        process = FORK.Process(target=_main, args=(arguments, str(self.folder / f"n{k}.out")))
        process.start()
        self.processes[k] = process

    def kill(self, k: int, number: int = signal.SIGKILL) -> None:
        """A signal; a killed process is waited for."""
        os.kill(self.processes[k].pid, number)
        if number == signal.SIGKILL:
            self.processes[k].join()

    def lose_disk(self, k: int) -> None:
        for path in (self.folder / f"n{k}.state").iterdir():
            if path.name not in ("log.jsonl", "history.jsonl"):
                path.unlink()

    def wait(self, nodes: Sequence[int] | None = None) -> list[int | None]:
        """Exit codes, once all (or these) have ended; None for one that has not within LIMIT."""
        end = time.monotonic() + LIMIT
        chosen = [self.processes[k] for k in (nodes or sorted(self.processes))]
        for process in chosen:
            process.join(max(end - time.monotonic(), 0.01))
        return [process.exitcode for process in chosen]

    def until(self, condition: Callable[[], bool], pause: float = 0.05) -> None:
        """Wait until the condition holds, asked every `pause` s; fail after LIMIT, with what the nodes have said."""
        end = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < end, self.output()
            time.sleep(pause)

    def ended(self, k: int) -> bool:
        """Whether the process of a node has ended."""
        return self.processes[k].exitcode is not None

    def history(self, k: int) -> list[dict[str, Any]]:
        path = self.folder / f"n{k}.state" / "history.jsonl"
        return read_lines(path) if path.exists() else []

    def round(self, k: int) -> int:
        entries = self.history(k)
        return entries[-1].get("round", -1) if entries else -1

    def events(self, k: int, event: str) -> list[dict[str, Any]]:
        path = self.folder / f"n{k}.state" / "log.jsonl"
        return [entry for entry in read_lines(path) if entry["event"] == event] if path.exists() else []

    def model(self, k: int) -> model_files.Model:
        return model_files.load(self.folder / f"n{k}.state" / "model.npz")

    def saved(self, k: int) -> dict[str, Any]:
        tree: dict[str, Any] = checkpoint.read(self.folder / f"n{k}.state" / "checkpoint")["state"]["trainer"]
        return tree

    def output(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in sorted(self.folder.glob("*.out")))

    def imbalance(self, nodes: Sequence[int] | None = None) -> float:
        """|sum of (s_k - u_k)| of the state that the common certificate is about, relative to its size."""
        flows = [self.saved(k)["proof"]["flows"] for k in (nodes or range(len(self.names)))]
        size = max(float(np.abs(flow).max()) for flow in flows)
        return float(np.abs(np.sum(flows, axis=0)).max()) / max(size, 1e-300)

    def imbalance_with(self, constant: np.ndarray, nodes: Sequence[int]) -> float:
        """|sum of (s_k - u_k) - constant| relative to the constant, the share of a node that left."""
        flows = np.sum([self.saved(k)["proof"]["flows"] for k in nodes], axis=0)
        return float(np.abs(flows - constant).max() / np.abs(constant).max())


class Proxies:
    """TCP to some ports of this machine, until it is cut."""

    def __init__(self, targets: Sequence[int]) -> None:
        self._loop = asyncio.new_event_loop()
        self._targets, self._open = targets, True
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.ports: list[int] = []

    def __enter__(self) -> Proxies:
        self._thread.start()
        self._servers = [self._call(self._listen(target)) for target in self._targets]
        self.ports = [server.sockets[0].getsockname()[1] for server in self._servers]
        return self

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT)

    async def _listen(self, target: int) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers.add(writer)
            try:
                there, back = await asyncio.open_connection("127.0.0.1", target)
            except OSError:  # nobody is there yet
                writer.close()
                return
            self._writers.add(back)
            if not self._open:
                writer.close()
                back.close()
                return
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

        return await asyncio.start_server(serve, "127.0.0.1", 0)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while content := await reader.read(1 << 16):
                writer.write(content)
                await writer.drain()
        writer.close()

    async def _set(self, open: bool) -> None:
        self._open = open
        for writer in self._writers if not open else ():
            writer.transport.abort()

    def cut(self) -> None:
        self._call(self._set(False))

    def heal(self) -> None:
        self._call(self._set(True))

    def __exit__(self, *_: object) -> None:
        async def end() -> None:
            for server in self._servers:
                server.close()
            await self._set(False)
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:
                await asyncio.wait(others, timeout=4)

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT)
        self._loop.close()


@contextmanager
def sites(*arguments: Any, **options: Any) -> Iterator[Sites]:
    made = Sites(*arguments, **options)
    try:
        yield made
    finally:
        for process in made.processes.values():
            if process.is_alive():
                process.kill()
            process.join()
