"""Old module names, which work for one release: importing one warns and gives the module that has its place now."""

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "archive": "files.archive",
    "block": "core.block",
    "cluster": "transports.mpi",
    "cluster.mpi": "transports.mpi.process_group",
    "columns": "linalg.columns",
    "datasets": "files.data_files",
    "events": "core.records",
    "exchange": "transports",
    "faults": "network.faults",
    "measures": "certificate.measures",
    "mixing": "network.mixing",
    "modelfile": "files.model_files",
    "partition": "problem.partition",
    "path": "engine.path",
    "peers": "federation",
    "peers.config": "federation.config.site",
    "peers.federation": "federation.config.federation",
    "peers.keys": "federation.config.keys",
    "peers.predict": "federation.predict",
    "result": "engine.result",
    "run": "engine.run",
    "scatter": "engine.scatter",
    "shard": "problem.shard",
    "termplot": "plot.terminal",
    "topology": "network.topology",
}


# names of those modules that moved to another module than the rest: full old name -> new one, below glmesh
RENAMED = {
    "glmesh.block.Halo": "core.messages.Halo",
    "glmesh.block.Rows": "core.messages.Outbox",
    "glmesh.block.spectral_norm": "linalg.norms.spectral_norm",
}


class _Alias(Loader):
    """A loader that makes an empty module with an old name, whose attributes are those of the module `new`."""

    def __init__(self, new: str) -> None:
        self._new = new

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        old, module = ModuleType(spec.name, f"Deprecated name of {self._new}."), importlib.import_module(self._new)

        def find(name: str) -> object:
            home, _, own = RENAMED.get(f"{spec.name}.{name}", "").rpartition(".")
            return getattr(importlib.import_module(f"glmesh.{home}"), own) if home else getattr(module, name)

        old.__dict__["__getattr__"] = find
        if spec.submodule_search_locations is not None:
            old.__path__ = []  # else modules in the folder of the new one would be found by their old names, twice
        return old

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: there is no code under the old name."""


class _MovedModules(MetaPathFinder):
    """A finder for `sys.meta_path` that finds the modules of `MOVED` by their old names, and warns with the new one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, old = fullname.partition(".")
        if package != "glmesh" or old not in MOVED:
            return None
        new = f"glmesh.{MOVED[old]}"
        warnings.warn(f"{fullname} is now {new}; the old name goes in the next release", DeprecationWarning, 2)
        return ModuleSpec(fullname, _Alias(new), is_package=any(one.startswith(f"{old}.") for one in MOVED))


def install() -> None:
    """Make the old module names of `MOVED` importable, by a finder at the end of `sys.meta_path`."""
    sys.meta_path.append(_MovedModules())
