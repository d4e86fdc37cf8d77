"""The page as a whole: its style, its script, what a browser may do, and the document around its content."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from glmesh.page.charts import text

STYLE = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
SCRIPT = files(__package__).joinpath("live.js").read_text(encoding="utf-8")
ABOUT = "What is proven is about the optimiser on these rows, not about the data."  # at the foot of every page


def section(title: str, content: str, kind: str = "") -> str:
    """Return a section with a heading; "" if it has no content. `kind` "wide" takes the whole width."""
    return f"<section class='{kind}'><h2>{text(title)}</h2>{content}</section>" if content else ""


def policy(*, live: bool) -> str:
    """Return the content security policy of the page: its own style, of a live page its own script, nothing else."""
    rules = ["default-src 'none'", f"style-src '{_hash(STYLE)}'", "base-uri 'none'", "form-action 'none'"]
    if live:
        rules += [f"script-src '{_hash(SCRIPT)}'", "connect-src 'self'", "frame-ancestors 'none'"]
    return "; ".join(rules)


def _hash(content: str) -> str:
    """Return the hash of a style or script by which a content security policy allows it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def frozen(title: str, content: str) -> str:
    """Return the document with this content as one file, without script."""
    return _document(title, content, meta=policy(live=False), tail="")


def live(title: str, content: str) -> str:
    """Return the document with this content and the script that renews it; its policy is in a header of the answer."""
    lost = "<p id='lost' role='status' hidden>The program has ended; this is what it said last.</p>"
    return _document(title, content, meta="", tail=f"{lost}<script>{SCRIPT}</script>")


def _document(title: str, content: str, *, meta: str, tail: str) -> str:
    """Return the HTML document with this content; `meta` is a content security policy, "" where a header has it."""
    allowed = f'<meta http-equiv="Content-Security-Policy" content="{meta}">' if meta else ""
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>{allowed}"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<meta name='color-scheme' content='light dark'>"
        f"<title>{text(title)}</title><style>{STYLE}</style></head>\n<body><main>{content}</main>{tail}</body></html>\n"
    )
