"""What a notebook shows of an object, found as IPython finds it: by the name of a method for each format."""

from typing import Any

# IPython's formatters (`print_method` in IPython.core.formatters): what is shown -> the method that is asked for it
PRINT_METHODS = {"text/html": "_repr_html_", "bundle": "_repr_mimebundle_"}


def shown(thing: object, format: str) -> Any:
    """Return what an object answers to a notebook that asks for a format; AttributeError: it has none."""
    return getattr(thing, PRINT_METHODS[format])()


def html_of(thing: object) -> str:
    """Return the HTML that a notebook shows of an object; AttributeError: it has none."""
    html: str = shown(thing, "text/html")
    return html


def bundle_of(thing: object) -> dict[str, str]:
    """Return {kind: text} of what an estimator gives a notebook to choose from."""
    bundle: dict[str, str] = shown(thing, "bundle")
    return bundle
