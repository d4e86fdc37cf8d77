"""`train` as one of the ranks of `mpiexec`: one of them speaks for all, and the end of a rank is not the last word."""

import os
import signal
import subprocess
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from glmesh.cli.failures import CHECKPOINT
from glmesh.cli.options import INTERRUPTED, USAGE, changed
from glmesh.engine.agreement import digest, require_same, versions
from glmesh.errors import GlmeshError, InvalidInput
from glmesh.parallel import ProcessGroup
from glmesh.transports.mpi import ranks

PATIENCE = 5.0  # [s] that a rank which has failed waits for the others to hear of it, before it ends them
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")  # variables by which an mpiexec says it
_OWN = ("--command", "--threads", "--quiet")  # what ranks may differ in
_ENDS = 65_536  # [bytes] of either end of a file that are compared
# program of the process that stands by: at the end of its input it prints what it read, unless that ends in a full stop
_SENTINEL = "import sys; said = sys.stdin.read(); sys.stderr.write('' if said.endswith('.') else said)"


def launched() -> int:
    """Return the number of ranks that an mpiexec started, this process being one of them; 1 without an mpiexec."""
    sizes = (os.environ.get(name, "") for name in _SIZES)
    return next((int(size) for size in sizes if size.isdecimal()), 1)


def run(options: Namespace, command: Callable[[Namespace, ProcessGroup], int]) -> int:
    """Call `command(options, ranks)` on every rank of an MPI program; return the exit code of this rank.

    All ranks compare their options first. If several ranks fail, the first of them prints its error. Ranks other than 0
    print nothing else.
    """

    def work(with_all: ProcessGroup) -> int:
        """Compare the options of all ranks, then return the exit code of `command` at this rank."""
        require_same(with_all, versions() | _said(options), {"--runtime": "add --runtime mpi at all ranks"})
        if options.runtime != "mpi":
            raise InvalidInput(
                f"mpiexec has started {with_all.size} ranks, and each would train alone and write the same files; "
                "add --runtime mpi, or start one without mpiexec"
            )
        quiet = options.quiet or with_all.rank > 0
        with Sentinel(options, on=with_all.rank == 0 and with_all.size > 1):
            return command(changed(options, quiet=quiet), with_all)

    return _together(work)


def fail(error: GlmeshError) -> int:
    """End all ranks of an MPI program with the error of this rank, and return this rank's exit code.

    For an error from before the ranks have met: without this call, the others would wait for this rank for ever.
    """

    def work(with_all: ProcessGroup) -> int:
        """Raise the error of this rank, after the ranks have met, so that all of them end."""
        raise error

    return _together(work)


def _together(work: Callable[[ProcessGroup], int]) -> int:
    """Call `work(ranks)` with the group of all MPI ranks; return its exit code at this rank.

    If it fails, one rank prints the error; ranks that have not heard of it within PATIENCE seconds are ended.
    """
    with _interruptible():
        with_all = ranks()
    with_all.patience = PATIENCE
    try:
        with with_all:
            return work(with_all)
    except (GlmeshError, OSError, MemoryError) as error:
        failed, code = with_all.failures, USAGE
        if with_all.rank == min(failed, default=0) or with_all.unheard:
            words = " ".join(str(error).split())
            named = len(failed) in (0, with_all.size) or words.startswith("rank ")
            where = "" if named else f"rank {with_all.rank} of {with_all.size}: "
            print(f"glmesh: error: {where}{words}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        if not with_all.unheard:
            raise
        code = INTERRUPTED
        print("\nglmesh: interrupted", file=sys.stderr, flush=True)
    if with_all.unheard:
        with_all.abort(code)
    return code


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end this process at once inside the block, in which MPI starts and waits for all ranks."""
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not listens or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _said(options: Namespace) -> dict[str, object]:
    """Return {option: value} of all options that ranks must have alike, with words on the data file as "the file"."""
    said = {"DATA" if name == "data" else f"--{name.replace('_', '-')}": value for name, value in vars(options).items()}
    said = {name: value for name, value in said.items() if name not in _OWN}
    if "{rank}" not in options.data:
        said["the file"] = _identity(options.data)
    return said


def _identity(path: str) -> str:
    """Return a text that tells two files apart: size and a digest of the first and last _ENDS bytes, after the path.

    If the file cannot be read, the text is the error.
    """
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            ends = stream.read(_ENDS)
            stream.seek(max(size - _ENDS, 0))
            return f"{path} of {size:,} bytes and digest {digest(ends + stream.read(_ENDS))[:8]}"
    except OSError as error:
        return f"{path}: {error.strerror}"


class Sentinel:
    """A context in which a small process runs beside rank 0; if all ranks are killed, it prints how to go on."""

    def __init__(self, options: Namespace, *, on: bool) -> None:
        path = None if options.checkpoint is None else Path(options.checkpoint, CHECKPOINT)
        advice = (
            f"The same command goes on from {path}, with any number of ranks"
            if path is not None
            else "With --checkpoint DIR the same command would go on from there, with any number of ranks"
        )
        self._on, self._words = on, f"glmesh: error: a rank has died, and the run with it. {advice}\n"

    def __enter__(self) -> Self:
        if self._on:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-E", "-c", _SENTINEL],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            assert self._process.stdin is not None
            self._process.stdin.write(self._words)
            self._process.stdin.flush()
        return self

    def __exit__(self, *_: object) -> None:
        if self._on:
            self._process.communicate(".")
