"""How well predictions fit what was measured."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glmesh.files.model_files import Model
    from glmesh.types import Vector


def score(model: "Model", predictions: "Vector", y: "Vector") -> tuple[str, str] | None:
    """(name, value): the accuracy of a classifier, R2 and error of a regression; None if y has other labels."""
    import numpy as np

    if model.classes is not None:
        if not np.isin(y, model.classes).all():
            return None
        right = int(np.sum(predictions == y))
        return "accuracy", f"{100 * right / len(y):.2f} % ({right:,} of {len(y):,})"
    errors, spread = float(np.sum((predictions - y) ** 2)), float(np.sum((y - y.mean()) ** 2))
    root = f"root mean squared error {np.sqrt(errors / len(y)):.4g}"
    return "R2", f"{1 - errors / spread:.4f} ({root})" if spread > 0 else f"undefined, y is constant ({root})"
