"""Numbers as people read them."""


def size(n_bytes: float) -> str:
    """1234567 -> 1.23 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if not n_bytes >= 999.5:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} TB"
