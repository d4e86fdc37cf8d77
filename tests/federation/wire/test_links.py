"""Links between sites of one process: what is left when they are closed."""

from __future__ import annotations

import gc
import logging
import threading
from pathlib import Path

import pytest

import glmesh
from glmesh.federation.config import Site
from glmesh.federation.wire import Hello, PeerLinks
from tests.cases import LIMIT
from tests.loopback import Loopback

NAMES = ("ann", "ben", "cleo", "dan", "eve", "fay")


class SlowDisk(logging.Handler):
    """Takes its time over every line that says that a link is down: so the thread of the links has no time to spare."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() == "down":
            threading.Event().wait(0.3)


def _links(site: Site) -> PeerLinks:
    hello = Hello(site.file.name, site.federation.entries(), version=glmesh.__version__)
    log = logging.Logger(site.file.name)
    log.addHandler(SlowDisk())
    return PeerLinks(site, log, hello, lambda peer, hello: None)


@pytest.mark.waits
def test_links_that_are_closed_at_the_same_time_leave_no_tasks_of_which_asyncio_complains(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Fifteen streams end at once; asyncio complains on standard error, where commands say what is wrong."""
    Loopback.make(tmp_path, dict.fromkeys(NAMES, ""))
    made = [_links(Site.read(tmp_path / f"{name}.toml")) for name in NAMES]
    for one in made:
        one.start()
    for one in made:
        for _ in range(len(NAMES) - 1):
            message = one.inbox.get(LIMIT)
            assert message is not None
            assert message.up
    closing = [threading.Thread(target=one.close) for one in made]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join(LIMIT)
    made.clear()
    del one, closing, thread
    gc.collect()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
