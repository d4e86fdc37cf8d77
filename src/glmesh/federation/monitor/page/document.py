"""The page about sites as a whole: its content, and with it the report, a file without script."""

from __future__ import annotations

from collections.abc import Sequence

from glmesh.federation.monitor.page import sections
from glmesh.federation.monitor.page.record import SiteRecord
from glmesh.page.document import frozen


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


def report(sites: Sequence[SiteRecord]) -> str:
    """Return the page about the sites as one file, without script."""
    return frozen(title(sites), body(sites))


def title(sites: Sequence[SiteRecord]) -> str:
    """Return the title of the page."""
    return f"glmesh: {', '.join(site.name for site in sites)}"
