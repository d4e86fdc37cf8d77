"""Methods that compete, by name, with the split of the problem that each is given."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from glmesh.core import AnyMethod
from glmesh.methods import Cola, DAdmm, Dapg, Dgd, Diging, Extra, Nids, PgExtra
from glmesh.methods.consensus.samples import parts_of
from glmesh.problem import Problem, Split

Make = Callable[[], AnyMethod]


@dataclass(frozen=True)
class Contender:
    """A method under a name.

    Parameters
    ----------
    make : callable
        Returns the method: any object with `prepare` and `round`.
    split : {"features", "samples"}, default "features"
        Split of the problem that the method is given; consensus methods hold samples whatever it is.
    ours : bool, default False
        Whether the library does this by default, or for the asking.
    kinks_only : bool, default False
        Whether the method is left out of smooth problems, where it equals another.
    fallback : callable, optional
        Returns the method to run instead where the first one ends above its start, as a step that was best in short
        trials may.
    """

    make: Make
    split: Split = "features"
    ours: bool = False
    kinks_only: bool = False
    fallback: Make | None = None

    @staticmethod
    def of(entry: "Contender | Make") -> "Contender":
        """Return a Contender as it is, and a callable that returns a method as a Contender split by features."""
        return entry if isinstance(entry, Contender) else Contender(entry)

    def has_use_for(self, problem: Problem) -> bool:
        """Return whether the method is worth a run on the problem.

        It is not if it is `kinks_only` and the problem's penalty is smooth.
        """
        return not self.kinks_only or parts_of(problem.spec.penalty_of(None))[2] is not None


def _tuned(method: Callable[..., AnyMethod], *, kinks_only: bool = False, **options: object) -> Contender:
    """Return a Contender with a method whose step is the best of a grid ("auto"), and with theory's step as fallback.

    `method` is called with `options` and the step; `kinks_only` leaves it out of smooth problems.
    """
    make, fallback = partial(method, "auto", **options), partial(method, **options)
    return Contender(make, kinks_only=kinks_only, fallback=fallback)


CONTENDERS: dict[str, Contender] = {
    "CoLA default, by features": Contender(Cola, "features", ours=True),
    "CoLA default, by samples": Contender(Cola, "samples", ours=True),
    "CoLA sums, by features": Contender(partial(Cola, acceleration="sums"), "features", ours=True),
    "CoLA sums, by samples": Contender(partial(Cola, acceleration="sums"), "samples", ours=True),
    "CoLA printed, by features": Contender(Cola.printed, "features"),
    "CoLA printed, by samples": Contender(Cola.printed, "samples"),
    "DGD": _tuned(Dgd),
    "DIGing": _tuned(Diging),
    "DIGing, subgradients": _tuned(Diging, subgradients=True, kinks_only=True),
    "EXTRA": _tuned(Extra),
    "PG-EXTRA": _tuned(PgExtra, kinks_only=True),
    "NIDS": _tuned(Nids),
    "D-ADMM": _tuned(DAdmm),
    "D-ADMM, exact": _tuned(DAdmm, local_solve="exact"),
    "DAPG": _tuned(Dapg),
}
