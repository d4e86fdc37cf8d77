"""The gallery's order, and its pictures: found among a script's variables, since scripts draw without pyplot."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

# first what people come for, then what it is like in practice, then methods; others follow by name
ORDER = (
    *("three_hospitals", "ten_hospitals", "swap_a_lasso", "reading_the_proof", "visits_and_exposure", "survival"),
    *("three_registries", "karate_club", "which_network", "bad_week", "new_patients", "wrong_units"),
    *("cross_validated_path", "quantile_bands", "digits_by_pixel_columns", "group_lasso", "slow_site"),
)
_SHOWN = "__figures_shown__"  # name in a script's namespace: the figures that its earlier blocks have shown


class Order:
    """Sort key of scripts in the gallery, as sphinx-gallery makes it: one for each folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        """Return the place of a script such as plot_survival.py."""
        stem = Path(name).stem.removeprefix("plot_")
        return (ORDER.index(stem) if stem in ORDER else len(ORDER)), stem

    def __repr__(self) -> str:
        return "Order"


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
