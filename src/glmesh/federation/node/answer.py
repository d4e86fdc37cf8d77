"""Result of a fit on totals between sites, and the bytes of it for which they vote."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from glmesh.core import Certificate, Violation
from glmesh.errors import GlmeshError
from glmesh.files.model_files import packed_statistics, unpacked_statistics
from glmesh.formatting import rounded_up
from glmesh.formulas import Design
from glmesh.methods.totals.cross_validation import FoldCurve
from glmesh.methods.totals.likelihood.statistics import FitStatistics
from glmesh.types import Array, Matrix, Vector


@dataclass(frozen=True, eq=False)
class Answer:
    """Result of a fit on totals, with the same bits at all sites: the model, and what is proven of it."""

    coef: Vector | Matrix  # (p,), or (C, p) where a row has C linear predictors
    intercept: float | Vector  # or (C,)
    members: tuple[int, ...]  # whose rows are in it
    totals: int
    objective: float
    gap: float  # proven bound of objective - optimum; infinite: nothing is
    certified: bool
    failure: str  # why no more totals were worth it, see `HostedNodes.failure`; empty otherwise
    off: float = np.nan  # proven bound of the distance to the optimum, in standard errors; NaN: there are none
    remark: str = ""  # sentences on the optimum: why there is none, which columns have no coefficient
    dropped: tuple[int, ...] = ()  # columns without a coefficient, because few rows have one of their two values
    curve: FoldCurve | None = (
        None  # what the folds have found, with the weight that was chosen; None: there are no folds
    )
    # what the totals at the end of a fit without a penalty say; None: there were none
    statistics: FitStatistics | None = None
    design: Design | None = None  # of the formula, with the levels of all sites; None: there is none
    said: tuple[str, ...] = ()  # sentences for people on rare levels
    left_out: tuple[int, int] | None = None  # rows of all sites, and those left out for missing values; None: not told

    @property
    def certificate(self) -> Certificate:
        """Return what is proven as a Certificate: number of totals, gap, and the range [objective - gap, objective].

        The optimum is in that range.
        """
        return Certificate(self.totals, self.gap, self.objective - self.gap, self.objective)

    @property
    def sentence(self) -> str:
        """Return sentences for people: how near the coefficients are, why there is no optimum, what has none."""
        said = [self.remark] if self.remark else []
        if self.certified and np.isfinite(self.off):
            said.insert(
                0, f"Each coefficient is within {rounded_up(self.off):.0e} standard errors of the exact estimate."
            )
        return " ".join(said)

    def to_bytes(self) -> bytes:
        """Return the answer as the bytes for which members vote: a line of JSON, then float64 (little-endian)."""
        arrays: dict[str, Array] = {"coef": self.coef, "intercept": np.asarray(self.intercept)}
        arrays["numbers"] = np.array([self.objective, self.gap, self.off])
        head: dict[str, object] = {
            "members": self.members,
            "totals": self.totals,
            "certified": self.certified,
            "failure": self.failure,
            "remark": self.remark,
            "dropped": self.dropped,
            "said": self.said,
            "left_out": self.left_out,
        }
        if self.design is not None:
            head["design"] = self.design.to_dict()
        if self.curve is not None:
            head["chosen"] = self.curve.chosen
            arrays |= {"weights": self.curve.weights, "losses": self.curve.losses}
        if self.statistics is not None:
            head["statistics"], own = packed_statistics(self.statistics)
            arrays |= own
        head["shapes"] = {name: list(array.shape) for name, array in arrays.items()}
        content = b"".join(np.ascontiguousarray(array, dtype="<f8").tobytes() for array in arrays.values())
        return json.dumps(head).encode() + b"\n" + content

    @staticmethod
    def of_bytes(content: bytes) -> Answer:
        """Return the Answer that `to_bytes` made bytes of; raise Violation for bytes that it did not make."""
        try:
            head, _, body = content.partition(b"\n")
            tree, numbers = json.loads(head), np.frombuffer(body, dtype="<f8").astype(np.float64)
            shapes = {str(name): tuple(int(n) for n in shape) for name, shape in tree["shapes"].items()}
            ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes.values())]).tolist()
            if ends[-1] != len(numbers):
                raise ValueError("numbers are missing")
            spans = zip(shapes.items(), ends[:-1], ends[1:], strict=True)
            arrays = {name: numbers[a:b].reshape(shape) for (name, shape), a, b in spans}
            curve = None
            if "chosen" in tree:
                curve = FoldCurve(arrays["weights"], arrays["losses"], int(tree["chosen"]))
            objective, gap, off = arrays["numbers"].tolist()
            return Answer(
                coef=arrays["coef"],
                intercept=arrays["intercept"] if arrays["intercept"].ndim else float(arrays["intercept"]),
                members=tuple(int(one) for one in tree["members"]),
                totals=int(tree["totals"]),
                objective=objective,
                gap=gap,
                certified=bool(tree["certified"]),
                failure=str(tree["failure"]),
                off=off,
                remark=str(tree["remark"]),
                dropped=tuple(int(one) for one in tree["dropped"]),
                curve=curve,
                statistics=unpacked_statistics(tree.get("statistics"), arrays),
                design=Design.of(tree["design"]) if "design" in tree else None,
                said=tuple(str(one) for one in tree["said"]),
                left_out=None if tree["left_out"] is None else (int(tree["left_out"][0]), int(tree["left_out"][1])),
            )
        except (ValueError, KeyError, TypeError, IndexError, GlmeshError) as error:
            raise Violation(f"a model of other sites that cannot be read ({error})") from None
