"""The live page: who may see it, bursts, no lock that a run could wait for, and what a real browser shows."""

from __future__ import annotations

import http.client
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from glmesh.federation.monitor.live import live_page
from glmesh.federation.monitor.page.record import Folder
from glmesh.page import server
from glmesh.page.server import Allowance, LivePage
from tests.cases import LIMIT
from tests.federation.monitor.pages import Page, entry, restarted, write

pytestmark = pytest.mark.waits

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0"),
]


@contextmanager
def opened(*folders: Folder) -> Iterator[LivePage]:
    with closing(live_page(folders)) as page:
        yield page


def ask(page: LivePage, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    """(status, headers, body) of the answer; the path is below the secret part unless it begins with a slash."""
    port, token = re.match(r"http://127\.0\.0\.1:(\d+)/([\w-]+)/", page.address).groups()  # type: ignore[union-attr]
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=LIMIT)
    with closing(connection):
        connection.request(method, path if path.startswith("/") else f"/{token}/{path}", headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_address_is_on_loopback_and_has_128_random_bits(tmp_path: Path) -> None:
    folder = Folder(Path(restarted(tmp_path)))
    with opened(folder) as one, opened(folder) as other:
        tokens = {page.address.split("/")[3] for page in (one, other)}
        assert len(tokens) == 2
        assert all(len(token) * 6 >= 128 for token in tokens)
        assert one.address.startswith("http://127.0.0.1:")


def test_without_the_token_a_request_is_refused_and_told_nothing(tmp_path: Path) -> None:
    with opened(Folder(Path(restarted(tmp_path)))) as page:
        token = page.address.split("/")[3]
        for path in ("/", "/now", f"/{token[:-1]}/", f"/{token}x/", f"/{token}", "//", f"/now/{token}/", "/%C3%A9/"):
            status, headers, body = ask(page, path)
            assert (status, body) == (403, ""), path
            assert "Server" not in headers
        assert ask(page, "")[0] == 200
        assert ask(page, "other")[0] == 404
        port = int(page.address.split(":")[2].split("/")[0])
        for line in (b"GET /\xc3\xa9\xff/ HTTP/1.1", b"GET / HTTP/9", b"nonsense", b"GET " + 70_000 * b"x"):
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as connection:
                connection.sendall(line + b"\r\n\r\n")
                told = _read(connection)
                assert told == b"" or (told.startswith(b"HTTP/1.1 4") and told.endswith(b"\r\n\r\n")), told


def _read(connection: socket.socket) -> bytes:
    """What comes until the other end closes the connection."""
    told = b""
    try:
        while part := connection.recv(1000):
            told += part
    except ConnectionResetError:
        pass
    return told


def test_a_request_for_another_host_is_refused_since_names_can_be_rebound(tmp_path: Path) -> None:
    with opened(Folder(Path(restarted(tmp_path)))) as page:
        port = page.address.split(":")[2].split("/")[0]
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""):
            assert ask(page, "", Host=host)[::2] == (403, ""), host
        assert ask(page, "", Host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PATCH"])
def test_only_get_is_answered(method: str, tmp_path: Path) -> None:
    with opened(Folder(Path(restarted(tmp_path)))) as page:
        status, headers, body = ask(page, "", method)
        assert (status, body) == (403, "")
        assert "Server" not in headers


def test_bursts_are_answered_429_and_those_without_the_token_do_not_lock_the_reader_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0  # stands still, since a busy machine may take so long over a burst that it is none
    monkeypatch.setattr(server, "Allowance", partial(Allowance, now=lambda: now))
    with opened(Folder(Path(restarted(tmp_path)))) as page:
        wrong = [ask(page, "/guess/")[0] for _ in range(60)]
        assert set(wrong) == {403, 429}
        assert ask(page, "")[0] == 200
        found = [ask(page, "now") for _ in range(60)]
        assert {status for status, _, _ in found} == {200, 429}
        assert next(headers for status, headers, _ in found if status == 429)["Retry-After"]
        now = 1.0
        assert ask(page, "now")[0] == 200


def test_an_allowance_is_a_burst_and_then_a_rate() -> None:
    now = 0.0
    allowance = Allowance(rate=2.0, burst=3.0, now=lambda: now)
    assert [allowance.take() for _ in range(4)] == [True, True, True, False]
    now = 1.0
    assert [allowance.take() for _ in range(3)] == [True, True, False]
    now = 100.0
    assert sum(allowance.take() for _ in range(9)) == 3


def test_more_connections_than_are_allowed_get_429_at_once(tmp_path: Path) -> None:
    with opened(Folder(Path(restarted(tmp_path)))) as page:
        port = int(page.address.split(":")[2].split("/")[0])
        held = [socket.create_connection(("127.0.0.1", port), timeout=LIMIT) for _ in range(server.CONNECTIONS + 1)]
        try:
            assert held[-1].recv(100).startswith(b"HTTP/1.1 429 ")
        finally:
            for one in held:
                one.close()
        until(lambda: _status(page) == 200)


def _status(page: LivePage) -> int:
    """The status of an answer; 0 if the connection was cut."""
    try:
        return ask(page, "")[0]
    except (OSError, http.client.HTTPException):
        return 0


def test_the_page_allows_only_its_own_script_and_style(tmp_path: Path) -> None:
    with opened(Folder(Path(restarted(tmp_path)))) as page:
        _, headers, text = ask(page, "")
        read = Page(text)
        assert read.outside == []
        assert read.count("script") == 1
        rules = dict(rule.strip().split(" ", 1) for rule in headers["Content-Security-Policy"].split(";"))
        assert rules["default-src"] == "'none'"
        assert rules["connect-src"] == "'self'"
        assert rules["script-src"].startswith("'sha256-")
        assert rules["style-src"].startswith("'sha256-")
        assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert not any("style" in attrs for _, attrs in read.tags)


def test_the_page_is_the_report_and_is_sent_again_only_if_it_has_changed(tmp_path: Path) -> None:
    path = restarted(tmp_path)
    with opened(Folder(Path(path))) as page:
        status, headers, content = ask(page, "now")
        assert status == 200
        assert Page(content).headings[0] == "Stopped"
        assert f"<main>{content}</main>" in ask(page, "")[2]
        assert ask(page, f"now?after={headers['X-Version']}")[0] == 204
        with (Path(path) / "log.jsonl").open("a") as stream:
            stream.write(
                '{"time": 1700000031.0, "node": "alice", "event": "violation", "peer": "bob", "why": "news"}\n'
            )
        until(lambda: "news" in ask(page, f"now?after={headers['X-Version']}")[2])


def test_a_run_that_holds_its_figures_does_not_hold_the_page_and_the_page_not_the_run(tmp_path: Path) -> None:
    """Requests are answered with the last snapshot while the thread that draws waits for a node."""
    folder, free, asked = Path(write(tmp_path, [entry("alice", 1, 0.0)], [])), threading.Event(), threading.Event()
    free.set()

    def newest() -> Any:
        asked.set()
        assert free.wait(LIMIT)
        return None

    page = live_page([Folder(folder, newest)])
    try:
        free.clear()
        asked.clear()
        assert ask(page, "")[0] == 200
        assert asked.wait(LIMIT)
        assert [ask(page, "now")[0] for _ in range(3)] == [200] * 3
    finally:
        free.set()
        page.close()


def test_the_last_page_is_waited_for_only_if_somebody_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FAREWELL", LIMIT)
    page = live_page([Folder(Path(restarted(tmp_path)))])
    page.close()  # at once
    page = live_page([Folder(Path(restarted(tmp_path)))])
    assert ask(page, "now")[0] == 200
    closing_page = threading.Thread(target=page.close, daemon=True)
    closing_page.start()
    while closing_page.is_alive():
        _status_now(page)
        time.sleep(0.1)
    closing_page.join(LIMIT)
    assert _status_now(page) == 0


def _status_now(page: LivePage) -> int:
    """The status of an answer about the content; 0 if nobody listens."""
    try:
        return ask(page, "now")[0]
    except (OSError, http.client.HTTPException):
        return 0


def browse(address: str, profile: Path, *options: str) -> tuple[str, str]:
    """(the page as a real browser has it after a while, what it wrote to its console)."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *QUIET, f"--user-data-dir={profile}", "--virtual-time-budget=2500", *options, address]
    seen = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    return seen.stdout, "\n".join(line for line in seen.stderr.splitlines() if "CONSOLE" in line)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium; CONTRIBUTING.md says how to install it")
def test_a_real_browser_shows_the_live_page_and_renews_it_without_an_error(tmp_path: Path) -> None:
    path = restarted(tmp_path)
    with opened(Folder(Path(path))) as page:
        seen, console = browse(page.address, tmp_path / "profile", "--dump-dom")
    assert console == ""
    assert "<h1>Stopped</h1>" in seen
    for heading in ("Proof", "Who is there", "Sites", "Presence", "Traffic", "Events", "Settings and versions"):
        assert f"<h2>{heading}</h2>" in seen
    assert '<p id="lost" role="status" hidden="">' in seen
    assert page.seen, "the script asked for news"


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium; CONTRIBUTING.md says how to install it")
def test_a_real_browser_renders_the_report_without_an_error_and_no_wider_than_a_phone(tmp_path: Path) -> None:
    from glmesh.federation.monitor.report import page

    file, probe = tmp_path / "report.html", tmp_path / "probe.html"
    file.write_text(page([restarted(tmp_path)]))
    measure = "document.title = f.contentDocument.documentElement.scrollWidth"
    probe.write_text(
        f"<iframe id='f' width='380' height='900' src='{file.name}' onload='{measure}'></iframe>", encoding="utf-8"
    )
    _, console = browse(file.as_uri(), tmp_path / "profile", "--dump-dom")
    assert console == ""
    seen, _ = browse(probe.as_uri(), tmp_path / "profile", "--dump-dom", "--allow-file-access-from-files")
    width = re.search(r"<title>(\d+)</title>", seen)
    assert width is not None
    assert int(width.group(1)) <= 380
