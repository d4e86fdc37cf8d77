"""Takes into the site what stands outside of docs/: measured reports, the changelog, files of code, MathJax.

Pages link to such files as they are in the repository, so that links work there, too. Here the linked Markdown and code
is copied into docs/generated/, as pages, and the links are turned to the copies; those to scripts of the gallery, and
to their folder, are turned to the gallery's pages.
"""

import os
import re
import shutil
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
COPIES = DOCS / "generated" / "outside"
EXAMPLES, GALLERY = ROOT / "examples", DOCS / "generated" / "gallery"
_LINK = re.compile(r"(\]\()([^)#\s]+?)((?:#[^)\s]*)?\))")
_LANGUAGES = {".py": "python", ".service": "ini", ".toml": "toml", "Dockerfile": "docker"}


def setup(app: Sphinx) -> dict[str, Any]:
    """Copy MathJax, let linked files be copied before Sphinx looks for pages, and links be turned as it reads them."""
    mathjax = distribution("sphinx-mathjax-offline").locate_file("sphinx-mathjax-offline/static/mathjax/tex-svg.js")
    target = DOCS / "generated" / "static" / "mathjax"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(str(mathjax), target / "tex-svg.js")
    app.connect("builder-inited", _copy)
    app.connect("source-read", _turn)
    return {"parallel_read_safe": True}


def _copy(app: Sphinx) -> None:
    """Write the copies of all files outside of docs/ that a page links to, those that copies link to as well."""
    waiting = [page for page in DOCS.rglob("*.md") if not {"generated", "_build"} & set(page.relative_to(DOCS).parts)]
    copied: set[Path] = set()
    while waiting:
        page = waiting.pop()
        for _, link, _ in _LINK.findall(page.read_text()):
            file = (page.parent / link).resolve()
            copy = _copy_of(file) if file.is_file() else None
            if copy and COPIES in copy.parents and file not in copied:
                copied.add(file)
                waiting += [file] if file.suffix == ".md" else []
    for file in copied:
        _write(_copy_of(file), _page_text(file))
    for old in [old for old in COPIES.rglob("*.md") if old not in {_copy_of(file) for file in copied}]:
        old.unlink()


def _copy_of(file: Path) -> Path | None:
    """Return where the page of a file outside is, or None if it is a page or picture of the site itself."""
    if file == EXAMPLES:
        return GALLERY / "index.rst"
    if file.parent == EXAMPLES and file.name.startswith("plot_"):
        return GALLERY / f"{file.stem}.rst"
    inside = file.is_relative_to(DOCS) and not file.is_relative_to(DOCS / "deploy")
    if inside or not file.is_relative_to(ROOT):
        return None
    place = COPIES / file.relative_to(ROOT)
    return place if file.suffix == ".md" else place.with_name(place.name + ".md")


def _page_text(file: Path) -> str:
    """Return the text of the page that a copy is: Markdown with its links turned, code in a block under its name."""
    if file.suffix == ".md":
        return "---\norphan: true\n---\n\n" + _turned(file.read_text(), file, _copy_of(file))
    language = _LANGUAGES.get(file.suffix or file.name, "text")
    return f"---\norphan: true\n---\n\n# {file.name}\n\n````{language}\n{file.read_text().rstrip()}\n````\n"


def _turned(text: str, source: Path, place: Path) -> str:
    """Return `text`, written for `source`, for a page at `place`: links outside lead to copies."""

    def turn(match: re.Match[str]) -> str:
        """Return a link that leads from `place` to where the linked file, or its copy, is."""
        file = (source.parent / match[2]).resolve()
        if not file.exists():
            return match[0]
        return match[1] + os.path.relpath(_copy_of(file) or file, place.parent) + match[3]

    return _LINK.sub(turn, text)


def _turn(app: Sphinx, name: str, source: list[str]) -> None:
    """Turn the links of a page of docs/ as it is read."""
    page = DOCS / f"{name}.md"
    if page.is_file() and not name.startswith("generated"):
        source[0] = _turned(source[0], page, page)


def _write(path: Path | None, text: str) -> None:
    """Write a file unless it holds the text already, so that Sphinx reads changed pages only."""
    if path and not (path.is_file() and path.read_text() == text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
