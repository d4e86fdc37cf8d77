"""What the nodes must know of each other's data before round 0; how it travels as numbers is known here alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from glmesh.types import Vector


@dataclass(frozen=True)
class DataSummary:
    """Width, range of targets, and weights of the data of one node, or their extremes over several nodes.

    `to_vector` orders the seven numbers so that merging is their element-wise maximum: any network that can flood a
    maximum can merge summaries. Numbers that must be equal at all nodes are kept as largest and least.
    """

    width: int  # [features] split by samples, [samples] split by features; the largest of the nodes merged
    least_width: int  # the smallest of them
    y_digest: int  # 48 bits of a digest of y and weights split by features, 0 split by samples; the largest
    least_y_digest: int  # the smallest of them
    y_min: float  # +inf without samples
    y_max: float  # -inf without samples
    weight: float  # sum of a node's sample weights; the largest of the nodes merged

    @staticmethod
    def of(width: int, y: Vector, weight: Vector, *, y_digest: int = 0) -> DataSummary:
        """Return the summary of one node's data with targets y and sample weights, both of shape (m,).

        `width` is the number of features split by samples, of samples split by features; `y_digest` a digest of y and
        weights.
        """
        low, high = (float(y.min()), float(y.max())) if len(y) else (np.inf, -np.inf)
        return DataSummary(width, width, y_digest, y_digest, low, high, float(weight.sum()))

    def to_vector(self) -> Vector:
        """Return the summary as a (7,) float64 vector; the element-wise maximum of several is the merged summary."""
        widths, digests = (self.width, -self.least_width), (self.y_digest, -self.least_y_digest)
        return np.array([*widths, *digests, self.y_max, -self.y_min, self.weight], dtype=np.float64)

    @staticmethod
    def from_vector(vector: Sequence[float] | Vector) -> DataSummary:
        """Return the summary encoded in a vector of shape (7,), of `to_vector` or the maximum of several of those."""
        most, least, last, first, high, low, weight = (float(number) for number in vector)
        return DataSummary(int(most), int(-least), int(last), int(-first), -low, high, weight)

    @staticmethod
    def merge(summaries: Iterable[DataSummary]) -> DataSummary:
        """Return the summary of several nodes' data together, from the summary of each."""
        return DataSummary.from_vector(np.max([summary.to_vector() for summary in summaries], axis=0))

    @property
    def same_width(self) -> bool:
        """Whether the data of all merged nodes has one width: features split by samples, samples split by features."""
        return self.width == self.least_width

    @property
    def same_targets(self) -> bool:
        """Whether all nodes hold the same y and sample weights (always true split by samples)."""
        return self.y_digest == self.least_y_digest

    @property
    def classes(self) -> tuple[float, float]:
        """Labels (negative, positive) of a classification: the smallest and the largest target of all merged nodes."""
        return self.y_min, self.y_max
