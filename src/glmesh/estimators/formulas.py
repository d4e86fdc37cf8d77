"""Estimators from formulas: data frames with texts and gaps become design columns by name, and the fit keeps them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from glmesh.core.moments import with_moments
from glmesh.errors import InvalidData, InvalidInput
from glmesh.formulas import Design, Formula, Frame, Levels, design_of
from glmesh.formulas.expressions import Factor
from glmesh.formulas.frames import SITE, DataFrame, plain
from glmesh.formulas.tables import response_of
from glmesh.types import Array, Data, Flags, Matrix, Vector
from glmesh.validation import one_of


@dataclass(frozen=True, eq=False)
class _Beside:
    """Names of columns that a fit needs beside those of the formula; None: it does not."""

    sample_weight: str | None
    offset: str | None
    strata: str | None
    exposure: str | None
    clusters: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that are there."""
        found = (self.sample_weight, self.offset, self.strata, self.exposure, self.clusters)
        return tuple(one for one in found if one is not None)

    def offsets(self, frame: Frame) -> Vector | None:
        """Return the offset of each row, or the logarithm of its exposure; None without either."""
        if self.offset is not None:
            return frame.numbers(self.offset)
        return None if self.exposure is None else Factor.parse(f"log(Q({self.exposure!r}))").numbers(frame)

    def of_rows(self, frame: Frame) -> list[Vector | None]:
        """Return [weights, offsets] of the rows, or as many of them as there are: a later one makes an earlier None."""
        more = [None if self.sample_weight is None else frame.numbers(self.sample_weight), self.offsets(frame)]
        while more and more[-1] is None:
            more.pop()
        return more

    def clusters_of(
        self, frames: Sequence[Frame], tables: Sequence[DataFrame], rows: Sequence[Flags]
    ) -> list[Array] | None:
        """Return the labels of the clusters of the rows of each frame; None: the fit has no clusters.

        They are those of `tables`, as they are there (no integer becomes a float); `rows` flags what is in `frames`.
        """
        name = self.clusters
        if name is None:
            return None
        return [
            np.asarray(table[name].to_numpy())[kept] if name in frame.columns else np.array(frame.values(name))
            for frame, table, kept in zip(frames, tables, rows, strict=True)
        ]


class FormulaMixin(BaseEstimator):  # type: ignore[misc]
    """What every estimator has for formulas: `from_formula`, and predictions from the columns that a formula names."""

    design_: Design  # of the last fit, if that was by a formula; so are the others
    rows_: int
    rows_left_out_: int
    _labels_of_response: tuple[str, ...]

    @classmethod
    def from_formula(
        cls,
        formula: str,
        data: DataFrame | Sequence[DataFrame] | Mapping[str, DataFrame],
        *,
        sample_weight: str | None = None,
        offset: str | None = None,
        exposure: str | None = None,
        strata: str | None = None,
        clusters: str | None = None,
        missing: str = "drop",
        **parameters: object,
    ) -> Self:
        """Fit by a formula such as "y ~ age + C(sex)", whose columns have the names that statsmodels gives them.

        Parameters
        ----------
        formula : str
            Response and terms. Texts are categories, with a column per level beside the first; docs/estimators.md has
            what may stand in a formula. Whether there is an intercept is for the formula to say.
        data : data frame, sequence of data frames, or dict of str to data frame
            One table, which is dealt out over a simulated network; or the table of each node. In a dict they have
            names, which are the levels of the variable `site`; in a sequence these are 0, 1, ...
        sample_weight : str or None, default None
            Column with weights of the rows; None: 1.
        offset : str or None, default None
            Column that is added to the linear predictor; only with a family.
        exposure : str or None, default None
            Column, > 0, whose logarithm is added to it; `predict` is for an exposure of 1.
        strata : str or None, default None
            Column with the strata of Cox's model, where `data` is one table.
        clusters : str or None, default None
            Column with labels of clusters of rows that may depend on each other, for standard errors of kind "cluster";
            equal labels in two frames are two clusters. "site", unless frames have such a column: each frame is one.
        missing : {"drop", "refuse"}, default "drop"
            What is done about rows that lack a value in a column that is used: they are left out and counted, or the
            fit is refused.
        **parameters
            Parameters of the estimator.

        Returns
        -------
        estimator
            Fitted. `design_` has terms, variables, and levels in order; `feature_names_in_` the names of the columns;
            `rows_` and `rows_left_out_` how many rows there were, and how many of these were left out. `predict` takes
            data frames with the columns that the formula names.

        Examples
        --------
        >>> import glmesh
        >>> import pandas as pd
        >>> north = pd.DataFrame({"y": [1.0, 2.0, 4.0], "sex": ["f", "m", "m"], "age": [1.0, 2.0, 4.0]})
        >>> south = pd.DataFrame({"y": [3.0, 5.0, 9.0], "sex": ["f", None, "f"], "age": [2.0, 2.0, 7.0]})
        >>> model = glmesh.GLMRegressor.from_formula("y ~ age + sex", [north, south], family="gaussian")
        >>> model.feature_names_in_.tolist(), model.rows_left_out_
        (['sex[T.m]', 'age'], 1)
        """
        one_of(missing, "missing", ("drop", "refuse"))
        made = Formula.parse(formula)
        estimator = cls(**parameters)
        if "fit_intercept" in parameters and bool(parameters["fit_intercept"]) != made.has_intercept:
            raise InvalidInput(
                "the formula says whether there is an intercept: '+ 1' (by itself) or '- 1'; leave fit_intercept out"
            )
        if "fit_intercept" in cls._get_param_names():
            estimator.set_params(fit_intercept=made.has_intercept)
        if offset is not None and exposure is not None:
            raise InvalidInput("offset and exposure exclude each other; exposure='c' is an offset of the log of c")
        beside = _Beside(sample_weight, offset, strata, exposure, clusters)
        estimator._refuse_others(made, beside)
        tables, sites = _tables(data)
        whole = _frames(tables, sites, made, beside)
        rows = [frame.complete((*made.variables, *made.targets, *beside.names)) for frame in whole]
        left_out = sum(int(np.count_nonzero(~one)) for one in rows)
        if left_out and missing == "refuse":
            _refuse_gaps(whole, (*made.variables, *made.targets, *beside.names))
        frames = [frame.take(kept) for frame, kept in zip(whole, rows, strict=True)]
        if not any(frame.m for frame in frames):
            raise InvalidData("no row is whole: each has a missing value in a column that the formula names")
        design = _design(made, frames, sites)
        y, labels = estimator._responses(made, frames, tables, rows)
        clusters_of_rows = beside.clusters_of(frames, tables, rows)
        named = _named(made, y)
        estimator._fit_frames(design, frames, named, beside, clusters_of_rows, apart=not hasattr(data, "columns"))
        estimator.design_, estimator._labels_of_response = design, labels
        estimator.rows_, estimator.rows_left_out_ = sum(frame.m for frame in whole), left_out
        return estimator

    def _refuse_others(self, formula: Formula, beside: _Beside) -> None:
        """Raise InvalidInput if what is asked for is nothing that this kind of estimator can be fitted with.

        That may be the left side of the formula, or an offset, strata or clusters that the caller has named in
        `beside`, the options that go with a formula.
        """
        known = inspect.signature(type(self).fit).parameters
        name = type(self).__name__
        if bool(formula.survival) != ("event" in known):
            wanted = "a response: y ~ ..." if formula.survival else "Surv(time, event) ~ ..."
            raise InvalidInput(f"{name} needs {wanted}, got {formula.response!r} on the left side of the formula")
        if (beside.offset or beside.exposure) is not None and "offset" not in known:
            raise InvalidInput(f"{name} has no offset; take GLMRegressor, PoissonRegressor, ... with a family")
        if beside.clusters is not None and "clusters" not in known:
            raise InvalidInput(f"{name} has no standard errors, and so no clusters; take GLMRegressor with a family")
        if beside.strata is not None and "strata" not in known:
            raise InvalidInput(f"{name} has no strata; they are those of CoxRegressor")

    def _responses(
        self, formula: Formula, frames: Sequence[Frame], tables: Sequence[DataFrame], rows: Sequence[Flags]
    ) -> tuple[Sequence[tuple[Array, ...]], tuple[str, ...]]:
        """Return (responses of each frame, the two texts that a regression counts as 0 and 1, or ()).

        Responses are (y,), or (time, event) in a formula of Cox's model, each of shape (m,). A classifier gets labels
        as they are. `rows` are the flags of the rows of `tables` that are in `frames`.
        """
        if formula.survival:
            return [tuple(frame.numbers(name) for name in formula.survival) for frame in frames], ()
        if not formula.target:
            return [(response_of(formula, frame),) for frame in frames], ()
        if hasattr(self, "decision_function"):
            return [(np.asarray(table[formula.target])[kept],) for table, kept in zip(tables, rows, strict=True)], ()
        numbers, texts = _numbers_or_two_texts(formula.target, frames)
        return [(one,) for one in numbers], texts

    def _fit_frames(
        self,
        design: Design,
        frames: Sequence[Frame],
        y: Sequence[tuple[Data, ...]],
        beside: _Beside,
        labels: list[Array] | None,
        *,
        apart: bool,
    ) -> None:
        """Fit this estimator to the design columns of the frames; `apart`: each is the data of a node.

        `y` are the responses of each frame, as `_named` returns them; `labels` those of the clusters of its rows.
        """
        import pandas as pd

        parts: list[tuple[Data | None, ...]] = []
        for frame, own in zip(frames, y, strict=True):
            X = pd.DataFrame(design.matrix(frame), columns=list(design.names))
            parts.append((X, *own, *beside.of_rows(frame)))
        options: dict[str, object] = {} if labels is None else {"clusters": labels if apart else labels[0]}
        if beside.strata is not None:
            if apart:
                raise InvalidInput("each node is a stratum; leave strata out, or give one table")
            options["strata"] = [plain(one or "") for one in frames[0].values(beside.strata)]
        if apart:
            self.fit_nodes(parts, **options)
        else:
            self.fit(*parts[0], **options)

    def _designed(self, X: Data) -> Matrix | None:
        """Return the design columns of a data frame with the columns that the formula names; None for other data.

        None, too, if this fit has no formula, or X has the columns of the design already.
        """
        design: Design | None = getattr(self, "design_", None)
        if design is None or not hasattr(X, "columns"):
            return None
        held = set(X.columns)
        if held >= set(design.names) and not held >= set(design.wanted):
            return None
        return design.matrix(Frame.of_data_frame(X, design.wanted, "X"))

    def _forget_design(self) -> None:
        """Remove what an earlier fit by a formula left behind."""
        for name in ("design_", "rows_", "rows_left_out_", "_labels_of_response"):
            self.__dict__.pop(name, None)


def _named(formula: Formula, y: Sequence[tuple[Array, ...]]) -> Sequence[tuple[Data, ...]]:
    """Return the responses of each frame, with the name of the formula's response; times and events have none."""
    import pandas as pd

    return y if formula.survival else [(pd.Series(own[0], name=formula.response),) for own in y]


def _tables(data: Any) -> tuple[list[DataFrame], list[str | float | None]]:
    """Return (data frames, the site of each: a name, a number, or None if there is one table).

    Raise InvalidData for what is neither a data frame nor a list or dict of them.
    """
    if hasattr(data, "columns") and hasattr(data, "to_numpy"):
        return [data], [None]
    if isinstance(data, Mapping):
        return list(data.values()), [str(name) for name in data]
    if isinstance(data, list | tuple) and data:
        return list(data), [float(k) for k in range(len(data))]
    raise InvalidData(
        f"data is {type(data).__name__}; expected a data frame, a list of data frames (one per node) or a dict of them"
    )


def _frames(
    tables: Sequence[DataFrame], sites: Sequence[str | float | None], formula: Formula, beside: _Beside
) -> list[Frame]:
    """Return the frames of data frames with the columns that a fit needs; raise Mismatch if one lacks a column."""
    names = (*formula.variables, *formula.targets, *beside.names)
    single = len(tables) == 1 and sites[0] is None
    out = []
    for k, (table, site) in enumerate(zip(tables, sites, strict=True)):
        named = site if isinstance(site, str) else f"part {k}"
        frame = Frame.of_data_frame(table, dict.fromkeys(names), "the table" if single else named, site)
        if SITE in (*formula.variables, beside.clusters) and single and SITE not in frame.columns:
            raise InvalidInput(
                "`site` stands for the node that a row is at; give data as a list or dict of data frames"
            )
        frame.require(names)
        out.append(frame)
    return out


def _design(formula: Formula, frames: Sequence[Frame], sites: Sequence[str | float | None]) -> Design:
    """Return the design of a formula for the frames of all nodes; categories of pandas keep their order."""
    tables = [Levels.of(frame, formula) for frame in frames]
    first = frames[0].orders
    orders = {name: order for name, order in first.items() if all(one.orders.get(name) == order for one in frames)}
    own = SITE in formula.variables and not any(SITE in frame.columns for frame in frames)
    levels = [one for one in sites if one is not None] if own else ()
    return with_moments(design_of(formula, tables, orders=orders, sites=levels), frames)


def _refuse_gaps(frames: Sequence[Frame], names: Sequence[str]) -> None:
    """Raise InvalidData that names the first missing value of the frames in the columns `names`."""
    for frame in frames:
        for name in names:
            whole = frame.complete((name,))
            if not whole.all():
                raise InvalidData(
                    f"{frame.where} has a missing value in {frame.place(int(np.argmin(whole)))}, column {name!r}; fill "
                    "it in, or say missing='drop'"
                )


def _numbers_or_two_texts(target: str, frames: Sequence[Frame]) -> tuple[list[Vector], tuple[str, ...]]:
    """Return (responses of each frame as numbers, the two texts that count as 0 and 1, or () for numbers).

    Raise InvalidData for text with more or fewer levels than two.
    """
    texts = sorted({plain(one) for frame in frames for one in frame.values(target) if isinstance(one, str)})
    if not texts or set(texts) <= {"False", "True"}:
        return [frame.numbers(target) for frame in frames], ()
    if len(texts) != 2:
        raise InvalidData(
            f"the response {target!r} holds text with {len(texts)} levels; a regression takes numbers, or "
            "with family='binomial' two levels; take GLMClassifier for labels"
        )
    numbers = [np.array([float(one == texts[1]) for one in frame.values(target)]) for frame in frames]
    return numbers, tuple(texts)
