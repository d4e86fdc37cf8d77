"""The coefficients of a model file as text: the table with standard errors, or a list by name."""

import numpy as np

from glmesh.display.overview import LISTED, Overview, table_of
from glmesh.engine.result import terms_of
from glmesh.files.model_files import Model
from glmesh.inference import Inference, Summary


def table(model: Model) -> Summary | None:
    """Return coefficients, standard errors and tests of a model without a penalty; None if it has no such table."""
    return None if model.statistics is None else table_of(Inference(model.statistics, rows=model.rows))


def coefficients_text(model: Model, most: int = LISTED) -> str:
    """Return the table of a fit without a penalty; of any other model its `most` largest coefficients, with bars."""
    summary = table(model)
    if summary is not None:
        return str(summary)
    terms, intercepts = terms_of(model.coef, model.intercept, model.names, model.classes or ())
    coef = np.ravel(model.coef)
    return "\n".join(
        Overview(title="", verdict="", good=True, terms=terms, coef=coef, intercepts=intercepts).rows(most)
    )
