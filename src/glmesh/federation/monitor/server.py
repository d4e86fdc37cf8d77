"""A node seen from outside: its figures as JSON and as Prometheus metrics, read-only on a loopback port."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from glmesh.errors import InvalidInput
from glmesh.federation.config import Site
from glmesh.federation.monitor.history import Figures, lines_since
from glmesh.files.archive import write_text

_AFTER = 15.0  # [s] after the end of a run within which its last lines and figures are written

_NUMBERS = {
    "round": ("gauge", "Rounds done, those that the node missed included."),
    "certificate": ("gauge", "The relative gap that is proven."),
    "standard_errors": ("gauge", "Standard errors that each coefficient may be off the exact estimate, proven."),
    "objective": ("gauge", "The objective, as last heard of."),
    "bytes_sent": ("counter", "Bytes sent to neighbours."),
    "bytes_received": ("counter", "Bytes received from neighbours."),
    "communications": ("counter", "Exchanges with the neighbours."),
    "missed": ("counter", "Rounds that the node was not there for."),
    "seconds": ("gauge", "Seconds since the process began."),
}


def metrics(figures: Figures) -> str:
    """Return the figures of a node as text in the exposition format of Prometheus."""
    node, lines = figures["node"], []
    for key, (kind, text) in _NUMBERS.items():
        value = dict(figures).get(key)
        if value is not None:
            name = f"glmesh_{key}{'_total' if kind == 'counter' else ''}"
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", f'{name}{{node="{node}"}} {value!r}']
    lines += ["# HELP glmesh_neighbour_up Whether a neighbour is heard.", "# TYPE glmesh_neighbour_up gauge"]
    for name, neighbour in figures["neighbours"].items():
        lines.append(f'glmesh_neighbour_up{{node="{node}",neighbour="{name}"}} {int(neighbour["state"] == "up")}')
    return "\n".join(lines) + "\n"


class Server:
    """HTTP server on loopback that answers GET /status (JSON) and /metrics (Prometheus) with a node's figures.

    Its port is written to the file status.port in the node's state folder.
    """

    def __init__(self, figures: Callable[[], Figures], site: Site) -> None:
        class Handler(BaseHTTPRequestHandler):
            """Handler of HTTP requests, which answers with the node's figures."""

            def do_GET(self) -> None:
                """Answer GET /status with JSON, /metrics with the text of Prometheus, other paths with 404."""
                if self.path not in ("/status", "/metrics"):
                    self.send_error(404)
                    return
                now = figures()
                text = metrics(now) if self.path == "/metrics" else json.dumps(now)
                kind = "text/plain; version=0.0.4" if self.path == "/metrics" else "application/json"
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing: requests are no events of the node."""

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", site.file.status), Handler)
        except OSError as error:
            raise InvalidInput(
                f"status = {site.file.status}: {error.strerror}; is the node running already? Else use another port"
            ) from None
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        write_text(site.state / "status.port", str(self.port))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="status", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the port at which figures are asked for, and end the thread that answers there."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(1.0)


def ask(site: Site) -> Figures | None:
    """Return the figures of this site's node, which runs on this machine, read from its status port.

    None: the node does not run.
    """
    path = site.state / "status.port"
    try:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever the environment says
        with direct.open(f"http://127.0.0.1:{int(path.read_text())}/status", timeout=5.0) as answer:
            figures: Figures = json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):
        return None
    return figures if figures.get("node") == site.file.name else None


def last_words(site: Site) -> Figures:
    """Return the last figures of a node that does not run, from its state folder, with `outcome` and `why` of its end.

    InvalidInput is raised if it never ran, or was killed before it could say how it ended.
    """
    name, events = site.file.name, lines_since(site.state / "log.jsonl")
    if not events:
        raise InvalidInput(f"{name} has not run yet; start it with `glmesh node`")
    last: Figures = [{"node": name}, *lines_since(site.state / "history.jsonl")][-1]
    ends = [event for event in events if event["event"] in ("end", "error")]
    if not ends or ends[-1]["time"] < last.get("time", 0.0) - _AFTER or events[-1]["time"] > ends[-1]["time"] + _AFTER:
        told = f"; its last entry is about round {last['round']:,}" if "round" in last else ""
        raise InvalidInput(f"{name} does not run, and did not say how it ended: was it killed?{told}; start it again")
    end = ends[-1]
    said: Figures = {"phase": "ended", "outcome": end.get("outcome", "refused"), "why": end["why"]}
    if "sites" in end:
        said |= {"sites": end["sites"], "without": end["without"]}
    return last | said
