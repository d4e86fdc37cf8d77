"""What a notebook shows of an object, by the names that IPython asks for."""

from typing import Any


def html_of(shown: Any) -> Any:
    """Return the HTML that a notebook shows of an object; AttributeError: it has none."""
    return shown._repr_html_()


def bundle_of(shown: Any) -> dict[str, str]:
    """Return {kind: text} of what an estimator gives a notebook to choose from."""
    bundle: dict[str, str] = shown._repr_mimebundle_()
    return bundle
