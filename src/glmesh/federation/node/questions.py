"""What a method on totals yields, as questions of a site's program to all sites, and sums of their answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any

import numpy as np

from glmesh.core.totals import Sums, Total, Whole, summation
from glmesh.federation.totals import Beginning, Unequal, WantedTotal
from glmesh.federation.totals.masks import edges_below, largest_edges
from glmesh.methods.totals.likelihood.closing import CLUSTER
from glmesh.types import Indices, Unsigned, Vector

# [parts of the point, in the norm of the Hessian] by which sites may differ, because replicated arithmetic rounds
NEAR = 1e-9
OTHER_POINT = (
    "this site's point differs from that of the first site by more than rounding; do both run the same version of "
    "glmesh?"
)

Steps = Generator[WantedTotal, Unsigned, Any]


class Elsewhere(Exception):
    """Raised where a total must be asked for at the point `at` of another site, because that site asked first."""

    def __init__(self, at: Vector) -> None:
        super().__init__("another point")
        self.at = at


class Questions:
    """The questions of one fit, numbered from 0: each is yielded as a WantedTotal and answered by the sum."""

    def __init__(self, beginning: Beginning, n_nodes: int, take: Callable[[Vector], float] | None = None) -> None:
        """Ask as the fit that begins with `beginning`, in a federation of `n_nodes` members.

        `take` is for contributions that do not depend on the last bits of a point: it takes over the point of another
        site in place of one's own and returns their distance. None: `Elsewhere` is raised.
        """
        self._beginning, self._n_nodes, self._take = beginning, n_nodes, take
        self.place = 0  # number of the next question

    def largest(self, numbers: Indices) -> Steps:
        """Return the largest of all sites, shape (n,), of the exponents `numbers` of this site, shape (1, n).

        It is a generator: it yields the request.
        """
        own = numbers[0]
        marks = edges_below(own)
        total = yield from self.ask({"largest": len(own)}, b"", marks, len(marks))
        return largest_edges(total)

    def sum(self, total: Total) -> Steps:
        """Return the sums over all sites of the fields of a total; it is a generator, which yields the request."""
        assert total.at is not None  # sites compare it; methods that do not say it are not run
        at = total.at.astype("<f8").tobytes()
        steps = summation([total], self._n_nodes)
        answer: Unsigned | None = None
        while True:
            try:
                query = next(steps) if answer is None else steps.send(answer)
            except StopIteration as end:
                sums: Sums = end.value
                return sums
            if isinstance(query, Whole):
                fields = {name: [rows.shape[1], query.grains[name]] for name, rows in total.fields.items()}
                answer = yield from self.ask({"fields": fields}, at, query.rows[0][0], 0, again=query.misfits > 0)
            else:
                answer = yield from self.largest(query[0])

    def ask(self, head: dict[str, object], at: bytes, content: Unsigned, marks: int, *, again: bool = False) -> Steps:
        """Yield one request for a total, and return the sum over all sites.

        `head` and the point `at` are the request; `content` is this site's contribution, whose first `marks` entries
        are marks of a maximum; `again` repeats a request whose sum did not fit. Raise Elsewhere if another site asked
        first, at another point.
        """
        request = json.dumps(head, sort_keys=True).encode() + b"\n" + at
        other = self._beginning.requests.get(self.place, request)
        if other != request:
            theirs, _, there = other.partition(b"\n")
            if theirs != request.partition(b"\n")[0] or len(there) != len(at) or not at:
                raise Unequal(
                    "this site asks for another total than the first; do both run the same version of glmesh?"
                )
            point = np.frombuffer(there, dtype="<f8").astype(np.float64)
            if self._take is None:
                raise Elsewhere(point)
            if not self._take(point) <= NEAR:
                raise Unequal(OTHER_POINT)
            request = other
        answer = yield WantedTotal(request, content, marks, again)
        self.place += 1
        return answer


def is_about_clusters(request: bytes) -> bool:
    """Return whether a request for a total, as `Questions` yields it, is for a sum over clusters."""
    head = request.partition(b"\n")[0]
    return bool(head) and CLUSTER in json.loads(head).get("fields", {})
