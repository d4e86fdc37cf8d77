"""The contract of a new federation file, after the data file that --like names."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from glmesh.contract import fit
from glmesh.contract.fitting import listed, spoken
from glmesh.errors import InvalidInput
from glmesh.formulas import Formula

if TYPE_CHECKING:
    from glmesh.contract import Contract
    from glmesh.federation.config import ProblemPart


def contract_like(options: Namespace, problem: ProblemPart) -> Contract | None:
    """Return the contract (target, columns and labels) of the file that --like names; None without the option."""
    from glmesh.contract import Contract
    from glmesh.federation.config.families import check_contract
    from glmesh.federation.node.site_table import (
        check_clusters,
        coded,
        texts_wanted,
        trimmed,
        with_clusters,
        with_kinds,
        with_levels,
    )
    from glmesh.files.data_files import read_table

    if options.like is None:
        _refuse_without_like(options)
        return None
    formula = _formula_of(options)
    table = read_table(
        options.like,
        target=formula.targets[0] if formula else problem.time or options.target,
        ids=options.ids,
        weight=options.sample_weight,
        index_base=options.index_base,
        texts=texts_wanted(problem),
        gaps=problem.drops_gaps,
    )
    table = trimmed(with_clusters(table, problem), problem, None)
    check_clusters(table, problem)
    classifies, two = problem.has_labels, problem.model().loss.classifies
    contract = Contract.like(
        table, split=problem.split, classifies=classifies, ids=options.ids or "", weight=options.sample_weight or ""
    )
    if classifies and (len(contract.labels) != 2 if two else len(contract.labels) < 2):
        raise _other_labels(options.like, contract, problem, two=two)
    if formula:
        contract = with_kinds(contract, table)
        contract = with_levels(contract, table, formula) if options.levels else contract
    elif options.levels:
        raise InvalidInput("--levels goes with --formula, whose categories have levels")
    check_contract(problem, contract)
    fit(coded(table, contract), contract)  # the file must keep its own contract: no other text, no doubled name
    _tell_contract(options.like, contract)
    return contract


def _formula_of(options: Namespace) -> Formula | None:
    """Return the formula of --formula, None without one; raise InvalidInput if --target names another response."""
    formula = Formula.parse(options.formula) if options.formula else None
    if formula and options.target not in (None, formula.targets[0]):
        raise InvalidInput(
            f"--target {options.target} and --formula, which has {formula.response!r}: leave --target out"
        )
    return formula


def _refuse_without_like(options: Namespace) -> None:
    """Raise InvalidInput for options on the file of --like, which is not given."""
    if options.target or options.ids or options.sample_weight or options.levels or options.index_base != "auto":
        raise InvalidInput(
            "--target, --ids, --sample-weight, --levels and --index-base of `init` are about the file of --like; "
            "name it"
        )


def _other_labels(where: str, contract: Contract, problem: ProblemPart, *, two: bool) -> InvalidInput:
    """Return the InvalidInput for a file `where` with too few or too many labels; `two`: the loss takes just two."""
    return InvalidInput(
        f"{where}: has the labels {spoken(contract.labels)}, and the {problem.name} loss needs two"
        f"{'' if two else ' or more'}; give --like a file that has {'both' if two else 'all'}, or leave it out: "
        "then sites agree when they meet"
    )


def _tell_contract(where: str, contract: Contract) -> None:
    """Print what the file `where` says of target, columns, labels and levels."""
    how = listed(contract.names) if contract.names else "every site has its own"
    print(f"{where}: target {contract.target or 'in the last column'}, columns: {how}")
    if contract.labels:
        print(f"{where}: labels {spoken(contract.labels)}")
    for column in contract.columns:
        if column.levels:
            print(f"{where}: levels of {column.name}, the first is the reference: {spoken(column.levels)}")
