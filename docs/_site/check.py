"""Checks a built site: nothing is loaded from outside, all that is loaded is there, and no picture is blank.

python docs/_site/check.py build/docs
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from PIL import Image

# tag -> attributes whose address a browser fetches by itself; of <link> those with one of FETCHED
LOADS = {
    **dict.fromkeys(("script", "iframe", "embed", "audio", "track", "input", "frame"), ("src",)),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
    "object": ("data",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
    "link": ("href",),
    "base": ("href",),
}
FETCHED = {
    "stylesheet",
    "icon",
    "shortcut",
    "preload",
    "modulepreload",
    "prefetch",
    "dns-prefetch",
    "preconnect",
    "manifest",
}
_IN_STYLE = re.compile(r"""url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""")
_SCRIPT_TAGS = re.compile(r"""<(?:script|link|img|iframe)[^>]*(?:src|href)=\\?["'](?:https?:)?//""")


class Loaded(HTMLParser):
    """Collects the addresses that a page loads (`loaded`) and those that it links to (`linked`)."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self._in_style = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what a tag loads: by its attributes, and by its inline style."""
        values = {name: value or "" for name, value in attributes}
        self._in_style = tag == "style"
        self.loaded += in_style(values.get("style", ""))
        if tag == "a":
            self.linked.append(values.get("href", ""))
        if tag != "link" or FETCHED & set(values.get("rel", "").lower().split()):
            for name in LOADS.get(tag, ()):
                parts = values.get(name, "").split(",") if name == "srcset" else [values.get(name, "")]
                self.loaded += [part.split()[0] for part in parts if part.strip()]

    def handle_data(self, text: str) -> None:
        """Note what a <style> element loads."""
        if self._in_style:
            self.loaded += in_style(text)


def in_style(text: str) -> list[str]:
    """Return the addresses in a text of CSS."""
    return [one or other for one, other in _IN_STYLE.findall(text)]


def wrong(site: Path) -> Iterator[str]:
    """Yield a line for everything that is wrong with a site."""
    pages = sorted(page for page in site.rglob("*.html") if "_static" not in page.parts)  # there are templates
    if not pages:
        yield f"{site}: no page"
    for page in pages:
        found = Loaded()
        found.feed(page.read_text())
        for address in found.loaded:
            yield from _wrong_address(page, address, "loads")
        for address in found.linked:
            if not urlsplit(address).scheme:
                yield from _wrong_address(page, address, "links to")
    for sheet in site.rglob("*.css"):
        for address in in_style(sheet.read_text()):
            yield from _wrong_address(sheet, address, "loads")
    for script in site.rglob("*.js"):
        if _SCRIPT_TAGS.search(script.read_text()):
            yield f"{script}: writes a tag that loads from outside"
    for picture in sorted((site / "_images").glob("*.png")):
        with Image.open(picture) as image:
            if len(image.convert("RGB").getcolors(maxcolors=1 << 24) or ()) < 2:
                yield f"{picture}: blank"


def _wrong_address(page: Path, address: str, verb: str) -> Iterator[str]:
    """Yield a line if an address is outside of the site, or of a file that does not exist."""
    parts = urlsplit(address)
    if parts.scheme == "data" or address.startswith("#") or not address:
        return
    if parts.scheme or parts.netloc:
        yield f"{page}: {verb} {address}"
    elif parts.path and not (page.parent / unquote(parts.path)).exists():
        yield f"{page}: {verb} {address}, which is not there"


def main(site: Path) -> int:
    """Print what is wrong with a site; return 1 if anything is, else 0."""
    lines = list(wrong(site))
    for line in lines:
        print(line)
    pictures = len(list((site / "_images").glob("*.png")))
    print(f"{len(list(site.rglob('*.html')))} pages, {pictures} pictures, {len(lines)} things wrong")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
