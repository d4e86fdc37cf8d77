"""Finds the pictures of a gallery script among its variables, since scripts draw without pyplot."""

from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

_SHOWN = "__figures_shown__"  # name in a script's namespace: the figures that its earlier blocks have shown


def figures(block: tuple[Any, ...], block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figures that a block of a script made; return the reStructuredText that shows them.

    They are those of its list `figures` if it has one, else the last `matplotlib.figure.Figure` that it gave a name.
    """
    namespace = block_vars["example_globals"]
    shown = namespace.setdefault(_SHOWN, [])
    listed = namespace.get("figures")
    found = list(listed) if isinstance(listed, list | tuple) else list(namespace.values())
    new = [one for one in found if isinstance(one, Figure) and not any(one is old for old in shown)]
    shown += new
    paths = []
    for figure in new if listed is not None else new[-1:]:
        path = next(block_vars["image_path_iterator"])
        figure.savefig(path, dpi=144)
        paths.append(path)
    return figure_rst(paths, gallery_conf["src_dir"])
