"""Numbers as a page writes them, and the words for who is there."""

from __future__ import annotations

import math

HERE, AWAY, UNKNOWN, DONE = "here", "away", "unknown", "done"  # presence of a member


def number(value: float) -> str:
    """Return a small number as people write it: 3·10⁻⁷ rather than 3e-07; numbers from 0.001 on as they are."""
    if value == 0 or 1e-3 <= abs(value) < 1e4 or not math.isfinite(value):
        return f"{value:.4g}"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits.removesuffix('.0')}·{ten(int(exponent))}"


def ten(exponent: int) -> str:
    """Return a power of ten as text, such as 10⁻⁷."""
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
