"""`train` as one of the ranks of `mpiexec`: one of them speaks for all, and the end of a rank is not the last word."""

import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Self

from glmesh.cli.failures import CHECKPOINT
from glmesh.cli.options import USAGE
from glmesh.errors import GlmeshError
from glmesh.parallel import ProcessGroup
from glmesh.transports.mpi import ranks

# program of the process that stands by: at the end of its input it prints what it read, unless that ends in a full stop
_SENTINEL = "import sys; said = sys.stdin.read(); sys.stderr.write('' if said.endswith('.') else said)"


def run(options: Namespace, command: Callable[[Namespace, ProcessGroup], int]) -> int:
    """Call `command(options, ranks)` on every rank of an MPI program; return the exit code of this rank.

    Of the ranks that fail, the first prints the error; ranks other than 0 are quiet.
    """
    with_all = ranks()
    options = Namespace(**vars(options) | {"quiet": options.quiet or with_all.rank > 0})
    try:
        with with_all, Sentinel(options, on=with_all.rank == 0 and with_all.size > 1):
            return command(options, with_all)
    except (GlmeshError, OSError) as error:
        failed = with_all.failures
        if with_all.rank != min(failed, default=0):
            return USAGE
        where = "" if len(failed) in (0, with_all.size) else f"rank {with_all.rank} of {with_all.size}: "
        print("glmesh: error:", where + " ".join(str(error).split()), file=sys.stderr)
        return USAGE


class Sentinel:
    """A context in which a small process beside rank 0 stands by, to say how to go on if all ranks are killed."""

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
