"""The page as a whole: `body` for both, `report` for a file without script, `live` for a page that renews itself."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from glmesh.federation.monitor.page import sections
from glmesh.federation.monitor.page.charts import text
from glmesh.federation.monitor.page.record import SiteRecord

STYLE = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
SCRIPT = files(__package__).joinpath("live.js").read_text(encoding="utf-8")


def body(sites: Sequence[SiteRecord]) -> str:
    """Return all sections about the sites, as HTML."""
    parts = (
        sections.heading,
        sections.proof,
        sections.who,
        sections.coefficients,
        sections.table,
        sections.lanes,
        sections.traffic,
        sections.settings,
        sections.events,
        sections.footing,
    )
    return "\n".join(part(sites) for part in parts)


def policy(*, live: bool) -> str:
    """Return the content security policy of the page: its own style, of a live page its own script, nothing else."""
    rules = ["default-src 'none'", f"style-src '{_hash(STYLE)}'", "base-uri 'none'", "form-action 'none'"]
    if live:
        rules += [f"script-src '{_hash(SCRIPT)}'", "connect-src 'self'", "frame-ancestors 'none'"]
    return "; ".join(rules)


def _hash(content: str) -> str:
    """Return the hash of a style or script by which a content security policy allows it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def report(sites: Sequence[SiteRecord]) -> str:
    """Return the page about the sites as one file, without script."""
    return _page(body(sites), _title(sites), meta=policy(live=False), tail="")


def live(sites: Sequence[SiteRecord]) -> str:
    """Return the page about the sites with the script that renews it; its policy is in a header of the answer."""
    lost = "<p id='lost' role='status' hidden>The program has ended; this is what it said last.</p>"
    return _page(body(sites), _title(sites), meta="", tail=f"{lost}<script>{SCRIPT}</script>")


def _title(sites: Sequence[SiteRecord]) -> str:
    """Return the title of the page in a browser: "glmesh:" and the names of the sites."""
    return f"glmesh: {', '.join(site.name for site in sites)}"


def _page(content: str, title: str, *, meta: str, tail: str) -> str:
    """Return the HTML document with this content; `meta` is a content security policy, "" where a header has it."""
    allowed = f'<meta http-equiv="Content-Security-Policy" content="{meta}">' if meta else ""
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>{allowed}"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<meta name='color-scheme' content='light dark'>"
        f"<title>{text(title)}</title><style>{STYLE}</style></head>\n<body><main>{content}</main>{tail}</body></html>\n"
    )
