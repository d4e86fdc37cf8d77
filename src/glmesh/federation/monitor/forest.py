"""The coefficients of a model on a page: what is proven in plain words, and a forest plot, ratios and the table."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from glmesh.display import table_of
from glmesh.engine.result import terms_of
from glmesh.federation.monitor.page.words import named
from glmesh.files.model_files import Model
from glmesh.inference import Inference
from glmesh.inference.summary import Summary
from glmesh.page.forest import bars, of_summary


def of_model(model: Model) -> str:
    """Return HTML on the coefficients of a model: with intervals and the table where there are some, else as bars."""
    summary = None if model.statistics is None else table_of(Inference(model.statistics, rows=model.rows))
    if summary is not None:
        return of_summary(summary, _words(model, summary))
    terms, told = _terms(model)
    return f"{told}{bars(terms, _why(model))}"


def of_shares(models: Sequence[tuple[str, Model]]) -> str:
    """Return HTML on the coefficients of models of which each has those of one site's columns; `models` by site."""
    found: list[tuple[str, float]] = []
    for site, model in models:
        found += [(f"{site}: {term}", value) for term, value in _terms(model)[0]]
    names = html.escape(", ".join(site for site, _ in models))
    whose = f"<p>Each site holds the coefficients of its own columns; these are of {names}.</p>"
    return f"{whose}{_terms(models[0][1])[1]}{bars(found, _why(models[0][1]))}"


def _terms(model: Model) -> tuple[list[tuple[str, float]], str]:
    """Return ((name, coefficient) of each term, the intercepts as HTML) of a model."""
    terms, intercepts = terms_of(model.coef, model.intercept, model.names, model.classes or ())
    told = "".join(f"<p>{html.escape(name)}: {value:.4g}</p>" for name, value in intercepts)
    return list(zip(terms, np.ravel(model.coef).tolist(), strict=True)), told


def _why(model: Model) -> str:
    """Return the sentence on why the coefficients of a model have no intervals; "" if no penalty is the reason."""
    why = f"No intervals: they are for fits without a penalty, and this one has the penalty {model.penalty}."
    return why if model.statistics is None and model.alpha else ""


def _words(model: Model, summary: Summary) -> str:
    """Return sentences for people on what is proven of the coefficients, and on whose rows they are about."""
    proof = f"{summary.proof[0].upper()}{summary.proof[1:]}."
    whose = named(model.sites) if len(model.sites) > 1 else "this site"
    rows = f"{summary.statistics.n:,} rows of {whose} together"
    lacks = f", without {', '.join(model.without)}" if model.without else ""
    if np.isfinite(summary.accuracy.worst):
        exact = (
            f"The exact estimate is the maximum of the likelihood of the {rows}{lacks}: what pooling them would give"
        )
        return f"{proof} {exact}. That is proven, not measured; whether the model suits the data is another question."
    return f"{proof} The coefficients are about the {rows}{lacks}."
