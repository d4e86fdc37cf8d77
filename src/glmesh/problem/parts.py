"""Data that is already apart, node by node, as NodeData that go together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from glmesh.errors import InvalidData, InvalidInput
from glmesh.problem.named import Names, check_labels, check_rows, in_order, named_matrix, refuse_permuted, target_name
from glmesh.problem.node_data import NodeData
from glmesh.problem.offsets import OFFSET, hold_offset, with_offset
from glmesh.problem.spec import ProblemSpec
from glmesh.types import Data


def data_of_nodes(
    parts: Sequence[tuple[Data, ...]], spec: ProblemSpec, offsets: Sequence[ArrayLike] | None
) -> tuple[ProblemSpec, list[NodeData]]:
    """Return (spec, data of each node), where `parts` are (X_k, y_k) or (X_k, y_k, weights_k).

    Columns go by name, in the order of the first part. The spec that is returned holds the coefficient of `offsets`, an
    array for each node that becomes the last column of X_k; None: there are none. Raise InvalidData, InvalidInput or
    Mismatch if a part is malformed, or parts do not go together.
    """
    _check_parts(parts, spec)
    check_rows(parts, spec.split)
    named = [named_matrix(part[0], f"X of node {k}") for k, part in enumerate(parts)]
    named = in_order(named, [target_name(part[1]) for part in parts], spec.split)
    if offsets is not None:
        for k, (part, offset) in enumerate(zip(parts, offsets, strict=False)):
            refuse_permuted(part[0], offset, f"the offset of part {k}", f"X of part {k}")
        named = _with_offsets(named, offsets)
        spec = hold_offset(spec, named[0][0].shape[1])
    checked = [
        NodeData(spec, X, part[1], part[2] if len(part) == 3 else None, f" of node {k}", names)
        for k, (part, (X, names)) in enumerate(zip(parts, named, strict=True))
    ]
    if spec.loss.classifies and spec.split == "samples":
        check_labels([np.unique(part.y) for part in checked], "code the labels alike in all parts: two in all")
    if not any(part.m for part in checked) or not any(part.p for part in checked):
        raise InvalidData(f"all {len(checked)} parts are empty")
    return spec, checked


def _with_offsets(named: list[tuple[Data, Names]], offsets: Sequence[ArrayLike]) -> list[tuple[Data, Names]]:
    """Return (matrix, names of its columns) of each node with the node's offset as the last column."""
    if len(offsets) != len(named):
        raise InvalidInput(f"{len(offsets)} offsets for {len(named)} nodes; give one per node")
    both = zip(named, offsets, strict=True)
    return [_behind(names, with_offset(X, own, f"X of node {k}")) for k, ((X, names), own) in enumerate(both)]


def _behind(names: Names, extended: tuple[Data, Names]) -> tuple[Data, Names]:
    """Return (matrix, names of its columns) of a matrix that `with_offset` has extended; `names` are those before."""
    return extended[0], None if names is None else (*names, OFFSET)


def _check_parts(parts: Sequence[tuple[Data, ...]], spec: ProblemSpec) -> None:
    """Raise InvalidData unless there is a part, and each of `parts` is (X, y) or (X, y, weights).

    Raise InvalidInput if each node has a penalty of its own, but there are not as many penalties as parts.
    """
    if not len(parts):
        raise InvalidData("parts is empty: give one (X, y) per node")
    if isinstance(spec.penalty, list) and len(spec.penalty) != len(parts):
        raise InvalidInput(f"{len(spec.penalty)} penalties for {len(parts)} nodes")
    for k, part in enumerate(parts):
        if not isinstance(part, tuple | list) or len(part) not in (2, 3):
            raise InvalidData(f"part {k} must be (X, y) or (X, y, sample_weight)")
