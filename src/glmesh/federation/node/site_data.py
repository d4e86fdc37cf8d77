"""A site's own table: read and checked, offered to the others, and put in the order that all agree on.

Split by features all sites hold the same samples, row by row. They compare one keyed digest of the whole column of row
names; targets are never digested, since a digest of few values is easily undone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from glmesh.contract import Contract, DataTable, Fitted, fit
from glmesh.contract.fitting import listed, spoken
from glmesh.errors import GlmeshError, InvalidData, InvalidInput, Mismatch
from glmesh.federation.config import Federation, Site
from glmesh.federation.config.families import named_columns
from glmesh.federation.config.formulas import formula_of
from glmesh.federation.node.roles import spec_of, with_roles
from glmesh.federation.node.site_table import (
    CATEGORY,
    check_clusters,
    coded,
    texts_wanted,
    trimmed,
    with_clusters,
    with_kinds,
)
from glmesh.federation.wire import CONTROL, PRESUMED, DataOffer, pack_json
from glmesh.files.data_files import is_table, read_table
from glmesh.files.describe import DataFinding, describe
from glmesh.files.svmlight import IndexBase
from glmesh.problem import NodeData
from glmesh.types import SampleMatrix

_SCALES = 4096  # [columns] beyond which a site does not tell the scales of its columns


@dataclass(frozen=True, eq=False)
class SiteData:
    """The table of one site, checked without the other sites, and what the other sites are told of it."""

    site: Site
    table: DataTable  # as the file has it; with a formula only the columns that it names, and rows without gaps
    offer: DataOffer  # what the other sites are told of it
    left_out: int | None = None  # rows that are not in it because of missing values; None: such rows are refused

    @staticmethod
    def read(site: Site) -> SiteData:
        """Read and check a site's data file; raise Mismatch, InvalidInput or UnreadableFile if it cannot be used."""
        federation = site.federation
        whole = read_site_table(site)
        table = trimmed(whole, federation.problem, federation.contract)
        check_clusters(table, federation.problem)
        left_out = whole.m - table.m if federation.problem.drops_gaps else None
        own = own_contract(table, site)
        fitted = fit(_widened(coded(table, own), own), own)
        if federation.problem.split == "features" and table.ids is None and not federation.problem.aligned:
            raise Mismatch(
                f"{table.where}: split by features rows must have names, to be compared with those of the other sites; "
                "name their column by `ids` in the node file, or write aligned = true into [problem] of the federation "
                "file if all files have the same rows in the same order"
            )
        weight = "" if table.weight is None else site.file.sample_weight or own.weight
        data = SiteData(site, table, _offer(fitted, own, weight, site), left_out)
        if (told := len(pack_json(data.offer.to_json()))) > CONTROL // 2:
            raise InvalidInput(
                f"{table.where}: the names of its {table.X.shape[1]:,} columns take {told / 1e6:.1f} MB, and at most "
                f"{CONTROL / 2e6:.1f} MB can be told to other sites; shorten the names"
            )
        own_rows = data.node_data(with_roles(fitted, federation.problem))  # finds what is not finite
        if own_rows.spec.loss.by_likelihood:
            own_rows.spec.loss.check(own_rows.y, own_rows.where)
        return data

    def fitted(self, contract: Contract) -> Fitted:
        """Return the table with its columns in the order of a contract.

        A sparse table without names gets the zero columns that it lacks; columns that are no features leave them, see
        `with_roles`. A contract says which target, columns and labels the tables of all sites or ranks have.
        """
        fitted = fit(_widened(coded(self.table, contract), contract), contract)
        return with_roles(fitted, self.site.federation.problem)

    def node_data(self, fitted: Fitted) -> NodeData:
        """Return the site's table, in the contract's order, as a node's data of the federation's problem.

        A contract says which target, columns and labels the tables of all sites or ranks have.
        """
        spec = spec_of(self.site.federation.problem, fitted)
        made = NodeData(spec, fitted.table.X, fitted.y, fitted.table.weight, f" of {self.site.file.name}")
        return made if fitted.table.clusters is None else made.with_clusters(fitted.table.clusters)


def _widened(table: DataTable, contract: Contract) -> DataTable:
    """Return the table with zero columns added to the contract's width, if it is sparse and has no names.

    A contract says which target, columns and labels the tables of all sites or ranks have.
    """
    width = len(contract.columns)
    if table.names is not None or isinstance(table.X, np.ndarray) or table.X.shape[1] >= width:
        return table
    X = table.X.copy()
    X.resize((table.m, width))
    return replace(table, X=X)


def read_site_table(site: Site) -> DataTable:
    """Read the data file of a site; the node file or the contract name its columns of target, row names and weights.

    A contract says which target, columns and labels the tables of all sites or ranks have.
    """
    file, contract = site.file, site.federation.data or Contract("")
    named = is_table(site.data)
    wanted = _columns_of(site, contract) if named else {"target": "", "ids": file.ids, "weight": ""}
    base = contract.index_base if file.index_base is None else file.index_base
    try:
        table = read_table(
            site.data,
            target=wanted["target"] or None,
            ids=wanted["ids"] or None,
            weight=wanted["weight"] or None,
            missing=contract.missing,
            index_base=cast("IndexBase", "auto" if base is None else base),
            texts=texts_wanted(site.federation.problem),
            gaps=site.federation.problem.drops_gaps,
        )
    except InvalidData:
        raise
    except InvalidInput as error:
        names = read_table(site.data, has_target=False, missing=contract.missing).names
        _refuse_lacking(names or (), wanted, file.data, error)
        raise
    beside = named_columns(site.federation.problem)
    if beside and table.names is None:
        raise Mismatch(f"{file.data}: has no header, and {spoken(tuple(beside.values()))} must be found by name")
    _refuse_lacking(table.names or (), beside, file.data, None)
    return with_clusters(replace(table, where=file.data), site.federation.problem)


def _columns_of(site: Site, contract: Contract) -> dict[str, str]:
    """Return the names of three columns, {"target": ..., "ids": ..., "weight": ...}, from node file or contract.

    A name is "" where neither says it. A contract says which target, columns and labels the tables of all sites or
    ranks have.
    """
    file, formula = site.file, site.federation.problem.formula
    target = formula_of(formula).targets[0] if formula else contract.target
    if formula and file.target not in ("", target):
        raise InvalidInput(f"the node file has target = {file.target!r}, and the formula {target!r}; leave the key out")
    return {
        "target": site.federation.problem.time or file.target or target,
        "ids": file.ids or contract.ids,
        "weight": file.sample_weight or contract.weight,
    }


def _refuse_lacking(names: tuple[str, ...], wanted: dict[str, str], where: str, error: InvalidInput | None) -> None:
    """Raise Mismatch if a file with the column names `names` lacks a column that is wanted.

    `wanted` is {what it is for: its name}, `where` the file for the message, `error` the cause. A file without names is
    left to the caller.
    """
    for key, name in wanted.items():
        if names and name and name not in names:
            raise Mismatch(
                f"{where}: lacks the column {name!r} ({key}); the file has {listed(names)}; rename the column, "
                "or correct the name in the node file or the federation file"
            ) from error


def own_contract(table: DataTable, site: Site) -> Contract:
    """Return the contract in the federation file or, if it has none, the one that the site's own table keeps.

    A contract says which target, columns and labels the tables of all sites or ranks have.
    """
    part, contract = site.federation.problem, site.federation.contract
    if contract is not None:
        labels = table.labels if part.has_labels else ()
        return contract if contract.labels else contract.with_labels(labels)
    weight = "" if table.weight is None else site.file.sample_weight
    made = Contract.like(table, split=part.split, classifies=part.has_labels, weight=weight)
    return with_kinds(made, table) if part.formula else made


def _offer(fitted: Fitted, own: Contract, weight: str, site: Site) -> DataOffer:
    """Return what a site tells all others of its table, which keeps the contract `own`.

    `weight` is the name of its column of sample weights, "" for none. A contract says which target, columns and labels
    the tables of all sites or ranks have.
    """
    federation, table = site.federation, fitted.table
    contract = federation.data or Contract("")
    offer = DataOffer(
        target=own.target,
        names=[],
        open=federation.data is None and hasattr(table.X, "toarray") and table.names is None,
        labels=[] if contract.labels else list(own.labels),
        weight=weight,
        index_base=_said_base(table, site.file.index_base is not None or contract.index_base is not None),
    )
    if federation.problem.split == "features":
        return replace(
            offer,
            names=None if table.names is None else list(table.names),
            width=table.X.shape[1],
            rows=table.m,
            ids="" if table.ids is None else row_digest(table.ids, federation),
        )
    offer = replace(offer, scales=[] if len(own.columns) > _SCALES else _scales(table.X, own))
    return offer if federation.data is not None else _with_columns(offer, own)


def _with_columns(offer: DataOffer, own: Contract) -> DataOffer:
    """Return the offer with names and kinds of the site's columns, which a federation file without them leaves open."""
    return replace(
        offer,
        names=list(own.names) if own.header else None,
        width=len(own.columns),
        booleans=[k for k, column in enumerate(own.columns) if column.kind == "boolean"],
        categories=[k for k, column in enumerate(own.columns) if column.kind == CATEGORY],
    )


def _scales(X: SampleMatrix, own: Contract) -> list[int | None]:
    """Return `scales` of X, None for the categories of the contract that the table keeps."""
    return [None if one.kind == CATEGORY else k for k, one in zip(scales(X), own.columns, strict=True)]


def _said_base(table: DataTable, said: bool) -> str:
    """Return the index of the first column, as an offer says it: "0" or "1" of svmlight text, "" of other files.

    PRESUMED stands for a 1 that nobody said: `said` is whether the node file or the contract does. A contract says
    which target, columns and labels the tables of all sites or ranks have.
    """
    if table.index_base is None:
        return ""
    return PRESUMED if table.index_base == 1 and not said else str(table.index_base)


def digest_key(federation: Federation) -> bytes:
    """Return the key of the federation's digests: 32 bytes of BLAKE2b over the salt and all settings of its file."""
    return hashlib.blake2b((federation.network.salt + federation.digest).encode(), digest_size=32).digest()


def row_digest(ids: list[str], federation: Federation) -> str:
    """Return 16 bytes of keyed BLAKE2b over all names of rows, in their order, in hexadecimal.

    The key is that of `digest_key`.
    """
    return row_hash(ids, federation).hexdigest()


def row_hash(ids: list[str], federation: Federation) -> hashlib.blake2b:
    """Return a BLAKE2b object, keyed by `digest_key`, that has taken in these names of rows, in their order.

    Its digest is what `row_digest` returns.
    """
    state = hashlib.blake2b(key=digest_key(federation), digest_size=16)
    for name in ids:
        add_name(state, name)
    return state


def add_name(state: hashlib.blake2b, name: str) -> hashlib.blake2b:
    """Feed the length and the bytes of a row's name to a BLAKE2b object, in place; return that object."""
    content = name.encode()
    state.update(len(content).to_bytes(8, "little") + content)
    return state


def scales(X: SampleMatrix) -> list[int | None]:
    """Return, for each column of X, the whole number k with 2^(k-1) <= max abs(x) < 2^k; None for a column of zeros."""
    if not X.shape[0]:
        return [None] * X.shape[1]
    largest = abs(X).max(axis=0)
    largest = largest.toarray().ravel() if hasattr(largest, "toarray") else np.asarray(largest)
    exponents = np.frexp(largest)[1]
    return [int(k) if value > 0 else None for k, value in zip(exponents, largest, strict=True)]


def warnings_of(own: SiteData) -> list[str]:
    """Return sentences on what looks wrong in a site's table.

    Where a formula says which columns are used, text is not among it, and names of rows only if they are in it.
    """
    formula = own.site.federation.problem.formula

    def is_moot(one: DataFinding) -> bool:
        """Return whether the formula makes a finding pointless."""
        unused = one.kind == "id" and not any(column in formula for column in one.columns)
        return bool(formula) and (one.kind == "text" or unused)

    found = [str(one) for one in describe(own.table) if one.warns and not is_moot(one)]
    n = 0 if own.table.clusters is None else len(np.unique(own.table.clusters))
    if 0 < n < own.site.rules.least_clusters:
        found.append(
            f"{own.table.where}: {n} clusters, least_clusters = {own.site.rules.least_clusters}: nobody will get "
            "standard errors by clusters"
        )
    return found


def public_reason(error: Exception) -> str:
    """Return the text of an error that other sites may read: names of columns, never values."""
    return str(getattr(error, "public", GlmeshError.public))
