"""The live page of sites, drawn from their state folders and, of a node of this process, its figures."""

from collections.abc import Sequence

from glmesh.federation.monitor.page.document import body, title
from glmesh.federation.monitor.page.record import Folder
from glmesh.page.server import LivePage


def live_page(folders: Sequence[Folder]) -> LivePage:
    """Return a live page, which is open until its `close`, about the sites with these state folders."""

    def draw() -> tuple[str, str]:
        """Return the title and the content of the page as the folders have it now."""
        records = [folder.look() for folder in folders]
        return title(records), body(records)

    return LivePage(draw)
