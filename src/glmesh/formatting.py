"""Numbers as people read them, for messages, tables and axes."""

import math
from collections.abc import Sequence


def size(n_bytes: float) -> str:
    """Return a number of bytes as text, three digits and a unit: B, kB (1,000 bytes), MB, GB or TB.

    Examples
    --------
    >>> from glmesh.formatting import size
    >>> size(1234567), size(12)
    ('1.23 MB', '12 B')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if not n_bytes >= 999.5:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"


def duration(seconds: float) -> str:
    """Return a length of time as text, rounded: milliseconds, seconds, minutes and seconds, or hours and minutes.

    Examples
    --------
    >>> from glmesh.formatting import duration
    >>> duration(0.0004), duration(3.21), duration(59.96), duration(7500.0)
    ('0.4 ms', '3.2 s', '1 min 0 s', '2 h 5 min')
    """
    if seconds < 0.1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {left} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min"


def rounded_up(number: float) -> float:
    """Return the smallest float with one decimal digit that is at least `number` >= 0; 0 for 0.

    Examples
    --------
    >>> from glmesh.formatting import rounded_up
    >>> rounded_up(3.1e-7)
    4e-07
    """
    if not number:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(number))
    return float(f"{math.ceil(number / unit) * unit:.0e}")


def rows_text(rows: int, left_out: int) -> str:
    """Return "1,204, of which 37 were left out because of missing values": rows in all, and those left out."""
    if not left_out:
        return f"{rows:,}, none of which lacks a value"
    return f"{rows:,}, of which {left_out:,} {'was' if left_out == 1 else 'were'} left out because of missing values"


def joined(names: Sequence[str]) -> str:
    """Return names as a sentence has them.

    Examples
    --------
    >>> from glmesh.formatting import joined
    >>> joined(["alice", "bob", "carol"]), joined(["alice"])
    ('alice, bob and carol', 'alice')
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
