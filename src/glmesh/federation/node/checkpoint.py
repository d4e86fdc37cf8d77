"""What a node leaves on its disk: a checkpoint to go on from, and the model."""

from functools import cached_property

import numpy as np

from glmesh.contract import Column, Contract, DataTable, Fitted
from glmesh.engine import checkpoint
from glmesh.errors import InvalidInput
from glmesh.federation.config import Site
from glmesh.federation.node.gossip_store import GossipStore
from glmesh.federation.node.site_data import SiteData
from glmesh.federation.node.trainer import Trainer
from glmesh.federation.wire import PROTOCOL
from glmesh.files.model_files import Model
from glmesh.problem import DataSummary
from glmesh.types import SampleMatrix, Tree


class Store:
    """The checkpoint file of a node; a file of another node, configuration or data is refused."""

    def __init__(self, site: Site, data: SiteData) -> None:
        self._site, self._data = site, data
        self.path = site.state / "checkpoint"

    @cached_property
    def _identity(self) -> dict[str, str]:
        """Return digests, by "protocol", "configuration", "data" and "name", that tell whose a checkpoint is."""
        table = self._data.table
        parts = {
            "protocol": PROTOCOL,
            "configuration": self._site.federation.entries(),
            "data": [_plain(table.X), [str(one) for one in table.labels], _codes(table), table.weight, table.names],
            "name": self._site.file.name,
        }
        return {key: checkpoint.digest(part) for key, part in parts.items()}

    def load(self) -> Tree | None:
        """Return the dict with "trainer" and "gossip" that `save` wrote last; None if there is no checkpoint file.

        InvalidInput is raised for a checkpoint of another node, configuration or data.
        """
        if not self.path.exists():
            return None
        tree = checkpoint.read(self.path)
        for key, digest in self._identity.items():
            if tree["identity"].get(key) != digest:
                raise InvalidInput(
                    f"{self.path} is a checkpoint with another {key}; remove the folder to begin anew, "
                    f"or go back to the {key} that it was made with"
                )
        saved: Tree = tree["state"]
        return saved

    def save(self, trainer: Trainer, gossip: GossipStore) -> None:
        """Write the state of a node's training and gossip to the checkpoint file; a crash leaves the old file."""
        state = {"trainer": trainer.tree(), "gossip": gossip.to_json()}
        checkpoint.write(self.path, {"identity": self._identity, "setup": None, "problem": None, "state": state})


def _plain(X: SampleMatrix) -> object:
    """Return a matrix in a form that a digest can be taken of: a dense array, or [data, indices, indptr, shape]."""
    return [X.data, X.indices, X.indptr, list(X.shape)] if hasattr(X, "toarray") else np.ascontiguousarray(X)


def _codes(table: DataTable) -> object:
    """Return the targets of a table as numbers, shape (m,): as they are, or their places among the labels if texts."""
    y = np.empty(0) if table.y is None else table.y
    return y if y.dtype.kind == "f" else np.searchsorted(np.array(table.labels), y)


def model_of(trainer: Trainer, site: Site, summary: DataSummary, fitted: Fitted, status: str) -> Model:
    """Return the Model that a node writes at the end: by features it has the coefficients of the node's own columns.

    Split by samples it has all coefficients. `fitted` is the site's table in the contract's order, `status` a word on
    how training ended. A contract says which target, columns and labels the tables of all sites or ranks have.
    """
    part, spec = site.federation.problem, site.federation.problem.model()
    x, v = trainer.variables()
    f = trainer.block.f
    info: dict[str, str | float | int] = {
        "status": status,
        "node": site.file.name,
        "split": part.split,
        "rounds": trainer.state.round,
        "nodes": len(trainer.members),
    }
    if trainer.proof is not None:
        certificate = trainer.proof.certificate
        info |= {"certified_round": certificate.round, "gap": certificate.bound, "relative_gap": certificate.relative}
        info |= {"objective_low": certificate.objective_low, "objective_high": certificate.objective_high}
    classes: tuple[float | str, ...] | None = summary.classes if spec.loss.classifies else None
    if classes is not None and any(isinstance(label, str) for label in fitted.labels):
        classes = fitted.labels  # the targets are their positions
    members = [member.name for member in site.federation.members]
    inside = [members[k] for k in trainer.members]
    return Model(
        coef=f.gradient(v) if part.split == "samples" else x,
        intercept=f.offset(v),
        loss=part.loss,
        penalty=part.penalty,
        alpha=part.alpha,
        l1_ratio=float(spec.l1_ratio or 0.0),
        classes=classes,
        info=info,
        contract=contract_of(fitted, part.split),
        federation=site.federation.name,
        digest=site.federation.digest,
        sites=tuple(inside),
        without=tuple(name for name in members if name not in inside),
    )


def contract_of(fitted: Fitted, split: str) -> Contract | None:
    """Return the Contract to put into a model file: names of columns, target and labels of the table `fitted`.

    For svmlight text, which has no names, only the index base is in it; None for any other file without names.
    """
    table = fitted.table
    if table.names is None:
        base = table.index_base
        return None if base is None else Contract("", split=split, header=False, index_base=base)
    return Contract(table.target or "", tuple(Column(name) for name in table.names), fitted.labels, split)
