"""Which acceleration a run of CoLA takes: what its options and the fault plan leave open, the cost model decides.

| before the first exchange | acceleration |
|---|---|
| `acceleration` is given | that one; "momentum" for sums with certificates under faults |
| other options rule acceleration out | none |
| matrix gossip that may lose messages one way | none |
| messages may get lost, or nodes join or leave | the cheaper of totals and momentum |
| the network stands still | the cheapest of totals, sums and momentum (`glmesh.methods.choice`) |

Totals are for nodes that hold rows and for methods whose options of a round are the defaults. Sums that win nothing
several times in a row, and sums that lack a part, give way to momentum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glmesh.core import Block, Setup
from glmesh.errors import UnsuitablePair
from glmesh.methods.choice import Estimate, Task, estimates
from glmesh.methods.cola.iterate import initial_variables
from glmesh.methods.totals.dealing import unsuitable
from glmesh.methods.totals.nodes import OnTotals

ACCELERATIONS = ("auto", "momentum", "sums", "newton", "none")

# [sums] in a row that win nothing before momentum takes over, because rounding may hide what is left to win
MOST_IDLE = 6

RELIABLE = "momentum", "it needs fewest communications on most networks, and stands what fails"
AS_ASKED = "as asked for"


@dataclass(frozen=True)
class Choice:
    """The acceleration of a run, equal at all nodes, and the reason for it as text (`why`).

    `name` is "none", "momentum", "sums", or the name of a method on totals, which `on_totals` then holds. `leaves`:
    sums that win nothing any more give way to momentum. `cold`: all variables x are 0 at first, so that Ax = 0 is known
    (A the data matrix).
    """

    name: str  # "none", "momentum", "sums", or the name of a method on totals
    why: str
    on_totals: OnTotals | None = None  # method that makes the rounds instead of CoLA
    leaves: bool = False  # whether sums that win nothing any more give way to momentum
    cold: bool = False  # x = 0 at all nodes, so that Ax = 0 is known

    @property
    def extrapolates(self) -> bool:
        """Return whether nodes send estimates of an extrapolated point instead of their own x, as under momentum."""
        return self.name == "momentum"


def initial(acceleration: str, unsuited: str | None, *, reliable: bool = True) -> Choice:
    """Return the Choice that the options alone decide on: the `acceleration` asked for; momentum with "auto".

    `unsuited` is a text: what acceleration needs and the options do not give; None: nothing is missing. `reliable`
    False: plain gossip on a network where a message may get lost one way. With such a text, or not reliable, "auto"
    becomes "none". Gossip averages the nodes' estimates with their neighbours'.
    """
    if acceleration != "auto":
        return Choice(acceleration, AS_ASKED)
    if unsuited is not None:
        return Choice("none", f"acceleration needs {unsuited}")
    if not reliable:
        return Choice("none", "plain gossip loses its mean when messages get lost, and momentum would make that worse")
    return Choice(*RELIABLE)


def newton(setup: Setup) -> Choice:
    """Return the Choice of the cheapest method on totals that suits the problem, for acceleration="newton".

    Raise UnsuitablePair if no method on totals suits the problem, InvalidInput if the fault plan does not go with
    totals. A method on totals, such as Newton's, computes from sums over all nodes.
    """
    task = Task.of(setup.problem, setup.processes)
    if task.on_totals is None:
        raise UnsuitablePair(
            "acceleration='newton' needs nodes that hold rows (split='samples'), a penalty with a term per coefficient "
            "and, unless all have an L1 penalty, few coefficients; acceleration='auto' finds what suits"
        )
    if refusal := unsuitable(setup):
        raise refusal
    name = next(one.name for one in _cheapest(task, setup) if one.name not in ("sums", "momentum"))
    return Choice(name, AS_ASKED, task.on_totals)


def cheapest(setup: Setup, *, totals: bool, sums: bool) -> Choice:
    """Return the Choice of the acceleration that is cheapest by the cost model; its reason quotes the estimated costs.

    `totals` and `sums` say whether options and fault plan allow methods on totals and exact sums. Momentum is always
    allowed, unless the problem has no form f(Ax) + g(x). Where nothing suits, momentum is returned too: preparing
    CoLA's nodes then raises an error that says what is missing. A is the data matrix, x are the variables of all nodes.
    """
    task = Task.of(setup.problem, setup.processes)
    allowed = {"momentum"} | ({"sums"} if sums else set())
    free = task.split == "samples" and setup.problem.spec.fit_intercept
    if free and (setup.certify or not setup.plan.is_empty):
        allowed = set()  # CoLA moves the anchor of a free intercept at all nodes at once, and proves nothing with it
    by_gossip, on_totals = {"sums", "momentum"}, totals and unsuitable(setup) is None
    found = [one for one in _cheapest(task, setup) if one.name in allowed or (on_totals and one.name not in by_gossip)]
    if not found:
        return Choice(*RELIABLE)
    best, others = found[0], found[1:]
    why = f"expected: {best}; " + (f"{others[0].name}: {others[0]}" if others else "nothing else is possible here")
    return Choice(best.name, why, None if best.name in by_gossip else task.on_totals, leaves=True)


def _cheapest(task: Task, setup: Setup) -> list[Estimate]:
    """Return the estimated costs of all accelerations that suit `task` on the network of a run, cheapest first."""
    return estimates(task, setup.info, setup.timing)


def starts_at_zero(blocks: Sequence[Block], any_process: Callable[[bool], bool]) -> bool:
    """Return whether x = 0 is inside the bounds at the nodes of all processes, so that a cold start has Ax = 0.

    `any_process(flag)` returns whether the flag is true in any process. A is the data matrix, x are the variables of
    all nodes.
    """
    return not any_process(any(initial_variables(block).any() for block in blocks))
