"""Summaries of the nodes' data: merging is a maximum of vectors, and nothing is lost on the way."""

from __future__ import annotations

import numpy as np
import pytest

from glmesh.problem import Problem
from glmesh.problem.summary import DataSummary

RNG = np.random.default_rng(5)
X, Y, WEIGHT = RNG.normal(size=(12, 3)), RNG.normal(size=12), RNG.uniform(size=12)
PARTS = [(X[:5], Y[:5], WEIGHT[:5]), (X[5:], Y[5:], WEIGHT[5:]), (X[:0], Y[:0], WEIGHT[:0])]


def summaries(parts, split):
    return [part.summary() for part in Problem.from_nodes(parts, split=split).parts]


@pytest.mark.parametrize("split", ["samples", "features"])
def test_a_vector_gives_the_summary_back(split):
    for summary in summaries(PARTS, split):
        vector = summary.to_vector()
        assert vector.shape == (7,)
        assert DataSummary.from_vector(vector) == summary
        assert DataSummary.from_vector(vector.tolist()) == summary


def test_the_maximum_of_the_vectors_is_the_merged_summary():
    own = summaries(PARTS, "samples")
    merged = DataSummary.merge(own)
    assert merged == DataSummary.from_vector(np.maximum.reduce([one.to_vector() for one in own]))
    assert (merged.width, merged.same_width, merged.same_targets) == (3, True, True)
    assert merged.classes == (Y.min(), Y.max())
    assert merged.weight == max(one.weight for one in own)
    assert merged == DataSummary.merge([merged, *own]), "merging again changes nothing"


def test_the_order_of_merging_does_not_matter():
    first, second, third = summaries(PARTS, "features")
    left = DataSummary.merge([DataSummary.merge([first, second]), third])
    assert left == DataSummary.merge([third, DataSummary.merge([second, first])])


def test_nodes_that_hold_other_rows_or_targets_are_noticed():
    by_features = summaries([(X, Y), (X[:, :1], Y)], "features")
    assert DataSummary.merge(by_features).same_targets
    other = summaries([(X, Y), (X, Y + 1.0)], "features")
    assert not DataSummary.merge(other).same_targets
    shorter = summaries([(X, Y), (X[:7], Y[:7])], "features")
    assert not DataSummary.merge(shorter).same_width
