"""How fitted estimators show themselves: an overview as text and as HTML in place of scikit-learn's box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from glmesh.display import Overview
from glmesh.engine.result import NO_ESTIMATES, Result, terms_of
from glmesh.inference import Summary
from glmesh.types import Vector


class Shown(BaseEstimator):  # type: ignore[misc]
    """Base class of all estimators: what a fit came to, with coefficients by name.

    Estimators that are not fitted show scikit-learn's box; `repr` is always the constructor's call, as scikit-learn's.
    """

    def summary(self) -> Overview | Summary:
        """Return the fit at a glance: verdict, coefficients by name, cost and proof.

        Returns
        -------
        Overview
            Its text is `str(overview)`; `to_frame()` gives the coefficients to pandas, indexed by term.
        """
        check_is_fitted(self)
        return self._overview()

    def _shown_model(self) -> tuple[Vector, Any]:
        """Return (coef, intercept); those of two classes as of one linear function."""
        if np.ndim(self.coef_) == 2 and len(self.coef_) == 1:
            return self.coef_[0], np.ravel(self.intercept_)[0]
        return self.coef_, self.intercept_

    def _shown_results(self) -> list[Result]:
        """Return the results of the fit, one or one per class; empty where a file did not keep them."""
        found: Result | list[Result] | None = getattr(self, "result_", None)
        if isinstance(found, list):
            return found
        return [] if found is None else [found]

    def _overview(self, remark: str = "") -> Overview:
        """Return the fit at a glance, with `remark` as its last sentence; the fit must have ended."""
        names: Sequence[str] | None = getattr(self, "feature_names_in_", None)
        coef, intercept = self._shown_model()
        terms, intercepts = terms_of(coef, intercept, names, getattr(self, "classes_", ()))
        results = self._shown_results()
        if not all(one.estimates_anything for one in results):
            remark = NO_ESTIMATES
        chosen = [("chosen", f"alpha {self.alpha_:g}")] if hasattr(self, "alpha_") else []
        how = [(name, text) for name, text in results[0].how if name != "model"] if results else []
        return Overview(
            title=type(self).__name__,
            verdict=_verdict(results) if results else "Fitted earlier; its history is not kept in a file.",
            good=all(one.reached for one in results) if results else None,
            terms=terms,
            coef=np.ravel(coef),
            intercepts=intercepts,
            cost=_cost(results),
            how=(("estimator", " ".join(repr(self).split())), *chosen, *how),
            curves=[one.curve for one in results],
            goal=results[0].tol if results else None,
            remark=remark,
            table=self._table,
        )

    @property
    def _table(self) -> Summary | None:
        """Return the table of inference; None: the estimator, or this fit, has none."""
        return None

    def _repr_html_inner(self) -> str:
        """Return the fit at a glance as HTML; scikit-learn's box before the fit."""
        box: str = super()._repr_html_inner()
        return self._overview()._repr_html_() if hasattr(self, "coef_") else box

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return {kind: text} for notebooks: `repr`, and HTML unless scikit-learn's display is set to "text"."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return bundle | {"text/html": self._repr_html_inner()} if "text/html" in bundle else bundle


def _verdict(results: Sequence[Result]) -> str:
    """Return how the fits of an estimator ended and what is proven; of several fits the worst ones are told."""
    told = [" ".join(filter(None, (str(one.status), one.proof, one.remark))) for one in results]
    if len(results) == 1:
        return told[0]
    failed = [k for k, one in enumerate(results) if not one.reached]
    if failed:
        return f"{len(failed)} of {len(results)} fits, one per class, did not end as asked for. {told[failed[0]]}"
    worst = max(range(len(results)), key=lambda k: results[k].relative_gap)
    return f"{len(results)} fits, one per class; of the one that is proven least: {told[worst]}"


def _cost(results: Sequence[Result]) -> str:
    """Return what the fits of an estimator took; of several fits the largest figures, as they may travel together."""
    if len(results) < 2:
        return "".join(one.cost for one in results)
    rounds, waits = max(one.rounds for one in results), max(one.communications for one in results)
    return f"at most {rounds:,} rounds and {waits:,} communications a fit"
