"""What a real site may hold back from totals of a maximum-likelihood fit: the seam between its rules and the method.

In a simulation nothing is held back. Between sites every member says before such a total whether its rows may take
part; if one of them may not, nobody is asked, so that a sum is never that of fewer members than take part in the fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from glmesh.methods.totals.likelihood.cone import Cone
from glmesh.types import Array, Flags, Matrix, Vector

if TYPE_CHECKING:  # which reads `Rows`, which has a Discretion
    from glmesh.methods.totals.likelihood.cone_sums import ConeQuery


class Discretion(Protocol):
    """Protocol of a site's rules for sums over rows that a criterion chooses, and for sums of outer products."""

    asks_cones: bool  # whether all members let their rows tell if a maximum exists, beside Newton's sums
    too_far: bool  # whether few of the rows would show at the trial point, so that its step is refused as too long

    def objects(self, cone: Cone, question: ConeQuery) -> bool:
        """Return whether the site does not answer a question with a search, because its sums would show few rows."""
        ...

    def answered(self, cone: Cone, question: ConeQuery) -> None:
        """Note that a question with a search, to which nobody objected, is answered."""
        ...

    def blurred(self, fields: Mapping[str, Vector]) -> dict[str, Vector]:
        """Return the site's fields of a total that answers a question, with counts of rows that tell no more than 0."""
        ...

    def allowed_meats(self, scores: Matrix, slack: Vector) -> Flags:
        """Return whether sums of outer products of scores may be told: HC0, HC2 and HC3, a mask of shape (3,).

        Scores of the site's rows, in units in which columns have norms near one, have shape (m, k); `slack`, shape
        (m,), is 1 less the leverage of each row.
        """
        ...

    def allows_misfit(self, pulls: Matrix) -> bool:
        """Return whether the one number may be told by which sites are compared, the squared norm of all pulls' sum.

        `pulls`, shape (m, r), are the scores of the site's rows in units of their standard deviations, in the r
        directions in which the site has rows.
        """
        ...

    def allows_clusters(self, scores: Matrix, labels: Array) -> bool:
        """Return whether the sum of outer products of the clusters' scores may be told, and their number.

        Scores of the site's rows of weight > 0, in units in which columns have norms near one, have shape (m, k);
        `labels`, shape (m,), say which cluster each row belongs to.
        """
        ...

    def check_shape(self, curvatures: Vector) -> None:
        """Raise an error if few rows make up most of what a shape is estimated from.

        `curvatures`, shape (m,), are the rows' second derivatives by its logarithm.
        """
        ...
