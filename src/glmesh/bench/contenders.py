"""Who competes, by name: what each is, which split it works on, and whether it is for a problem at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from glmesh.errors import UnsuitablePair
from glmesh.methods import Cola, Consensus, DAdmm, Dapg, Dgd, Diging, Extra, Nids, PgExtra
from glmesh.methods.consensus.samples import parts_of
from glmesh.problem.problem import Problem


@dataclass(frozen=True)
class Contender:
    """A method under a name.

    split: of the problem it gets; methods of consensus hold samples whatever it is. ours: what the library does by
    default, or for the asking. kinks_only: without a kink it is the same as another.
    """

    make: Callable[[], Cola | Consensus]
    split: Literal["features", "samples"] = "features"
    ours: bool = False
    kinks_only: bool = False

    def suits(self, problem: Problem) -> bool:
        """Whether it takes the problem."""
        method = self.make()
        if self.kinks_only and parts_of(problem.spec.penalty_of(None))[2] is None:
            return False
        if not isinstance(method, Consensus):
            return True
        try:
            method.check(problem)
        except UnsuitablePair:
            return False
        return True


CONTENDERS: dict[str, Contender] = {
    "CoLA default, by features": Contender(Cola, "features", ours=True),
    "CoLA default, by samples": Contender(Cola, "samples", ours=True),
    "CoLA sums, by features": Contender(lambda: Cola(acceleration="sums"), "features", ours=True),
    "CoLA sums, by samples": Contender(lambda: Cola(acceleration="sums"), "samples", ours=True),
    "CoLA printed, by features": Contender(Cola.printed, "features"),
    "CoLA printed, by samples": Contender(Cola.printed, "samples"),
    "DGD": Contender(lambda: Dgd("auto")),
    "DIGing": Contender(lambda: Diging("auto")),
    "DIGing, subgradients": Contender(lambda: Diging("auto", subgradients=True), kinks_only=True),
    "EXTRA": Contender(lambda: Extra("auto")),
    "PG-EXTRA": Contender(lambda: PgExtra("auto"), kinks_only=True),
    "NIDS": Contender(lambda: Nids("auto")),
    "D-ADMM": Contender(lambda: DAdmm("auto")),
    "D-ADMM, exact": Contender(lambda: DAdmm("auto", local_solve="exact")),
    "DAPG": Contender(lambda: Dapg("auto")),
}
