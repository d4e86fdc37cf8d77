"""The methods of docs/how-to/add-a-method.md and add-a-method-on-totals.md, as their reader would have them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent.parent / "docs" / "how-to"


def first_block(page: str) -> str:
    """The first block of code of a page."""
    found = re.search(r"^```python\n(.*?)^```", (PAGES / page).read_text(), flags=re.M | re.S)
    assert found is not None
    return found.group(1)


GRADIENT_DESCENT = first_block("add-a-method.md")


def gradient_descent() -> Any:
    """The class GradientDescent(step) of the page's first block."""
    namespace: dict[str, Any] = {"__name__": "stranger"}
    exec(compile(GRADIENT_DESCENT, "add-a-method.md", "exec"), namespace)
    return namespace["GradientDescent"]


def normal_equations() -> Any:
    """The class NormalEquations() of the page on totals, without what the page runs it on."""
    namespace: dict[str, Any] = {"__name__": "stranger"}
    code = first_block("add-a-method-on-totals.md").partition("X = np.random")[0]
    exec(compile(code, "add-a-method-on-totals.md", "exec"), namespace)
    return namespace["NormalEquations"]
