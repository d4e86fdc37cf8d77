"""Round numbers for the axes of plots."""

import math


def ticks(low: float, high: float, *, whole: bool = False, parts: int = 5) -> list[float]:
    """Return at most `parts` + 1 round numbers from `low` to `high`, 1, 2 or 5 times a power of ten apart.

    `whole` makes them integers.
    """
    raw = (high - low) / parts
    ten = 10.0 ** math.floor(math.log10(raw))
    step = next(ten * factor for factor in (1, 2, 5, 10) if ten * factor >= raw * (1 - 1e-9))
    step = max(step, 1.0) if whole else step
    return [step * k for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
