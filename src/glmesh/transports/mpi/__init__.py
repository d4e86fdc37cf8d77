"""A run on several machines: the ranks of an MPI program, each with its share of the nodes.

What every process of a run needs lives in `glmesh.parallel`; only code that calls mpi4py enters here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from glmesh.errors import InvalidInput

if TYPE_CHECKING:
    from glmesh.transports.mpi.process_group import Ranks

__all__ = ["ranks"]


def ranks() -> Ranks:
    """Return the process group of all ranks of this program, for a `with` statement; a lone process is one rank."""
    try:
        from glmesh.transports.mpi.process_group import Ranks
    except ImportError as error:
        raise InvalidInput(f"runtime 'mpi' needs mpi4py and an MPI: pip install 'glmesh[mpi]' ({error})") from error
    return Ranks()
