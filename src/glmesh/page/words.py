"""Numbers and lengths of time as a page writes them, and the words for who is there."""

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


def duration(seconds: float) -> str:
    """Return a length of time as text: "0.8 s", "3 min 20 s" or "2 h 5 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
