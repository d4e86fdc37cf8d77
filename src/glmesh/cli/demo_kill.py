"""The processes of `glmesh demo`: three hospitals train over TLS, one is killed meanwhile and started again."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from glmesh.cli import demo_files
from glmesh.cli.local_sites import LocalSites
from glmesh.cli.options import REACHED
from glmesh.cli.watch import SitesDisplay
from glmesh.errors import GlmeshError
from glmesh.files.model_files import Model
from glmesh.formatting import joined

if TYPE_CHECKING:
    from glmesh.federation.monitor.history import Figures

VICTIM = "carol"  # the hospital that is killed
LIMIT = 120.0  # [s] that each part of the demo may take, on a machine that is busy with other things
_SOON = 0.01  # [s] between two looks at the hospital that is to be killed; a message takes some 50 ms
_PORTS = range(20_000, 30_000, 3)  # [ports] first ones to try; above are those that systems hand out by themselves


def trained(folder: Path) -> dict[str, Model] | None:
    """Return the models of all hospitals, by name, after a fit in which one was killed while it ran; None without one.

    If the fit was over before the kill, it is made once more, in another folder inside `folder`, with an earlier kill.
    """
    moments: list[Callable[[Figures], bool]] = [
        lambda now: now.get("objective") is not None,  # after the first total of the fit itself
        lambda now: now.get("communications", 0) > 0,  # after the first message of all, about levels
    ]
    for number, moment in enumerate(moments):
        sites = set_up(folder / f"try{number + 1}")
        watch = SitesDisplay()
        try:
            sites.start()
            if killed_meanwhile(sites, watch, moment):
                return ended(sites, watch)
            watch.say(f"{VICTIM} was to be killed while the fit ran, but the fit was over before.")
        finally:
            sites.end()
            watch.clear()
        if number + 1 < len(moments):
            print("Once more, with an earlier kill.", flush=True)
    return None


def set_up(folder: Path) -> LocalSites:
    """Write keys, federation file and node files into a folder by the commands of `glmesh`; return the sites.

    The hospitals' tables are in the folder above.
    """
    from glmesh.cli.app import main
    from glmesh.federation.config import Federation

    path, names = folder / "fed.toml", list(demo_files.HOSPITALS)
    files = [f"{name}=../{name}.csv" for name in names]
    steps = [
        ["keys", str(folder / "keys"), *names],  # which makes the folder
        ["federation", "init", str(path), "--family", "binomial", "--formula", demo_files.FORMULA],
        ["federation", "add", str(path), *files, "--port", str(_free_ports(len(names)))],
    ]
    for step in steps:
        with redirect_stdout(io.StringIO()):
            code = main(step)
        if code != REACHED:
            raise GlmeshError(f"`glmesh {' '.join(step)}` ended with code {code}")
    federation = Federation.read(path)
    federation.check()
    return LocalSites.of(path, federation)


def _free_ports(n: int) -> int:
    """Return the first of `n` ports in a row on loopback that nobody listens on."""
    for first in _PORTS:
        with suppress(OSError), ExitStack() as taken:
            for port in range(first, first + n):
                taken.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise GlmeshError(f"no {n} ports in a row are free on 127.0.0.1 from {_PORTS[0]} to {_PORTS[-1]}")


def killed_meanwhile(sites: LocalSites, watch: SitesDisplay, moment: Callable[[Figures], bool]) -> bool:
    """Kill a hospital by SIGKILL once its figures say that it is the moment, and wait until the others miss it.

    Return False if they needed it no more, because the fit was over.
    """
    at: Figures = {}

    def is_time() -> bool:
        """Return whether the hospital has come to the moment, or has ended."""
        nonlocal at
        at = sites.look(VICTIM) or at
        return VICTIM not in sites.running or moment(at)

    _until(is_time, sites, watch, f"{VICTIM} began to train")
    if VICTIM not in sites.running:
        return False
    sites.kill(VICTIM)
    others = [name for name in sites.sites if name != VICTIM]

    def is_missed() -> bool:
        """Return whether another hospital waits for the one that was killed."""
        seen = [sites.look(name) for name in others]
        return any(one is not None and VICTIM in (one.get("waiting") or {"names": ()})["names"] for one in seen)

    def is_over() -> bool:
        """Return whether another hospital holds the model, or has ended."""
        ended = any(name not in sites.running for name in others)
        return ended or any(event["event"] == "certified" for name in others for event in sites.events(name))

    _until(lambda: is_over() or is_missed(), sites, watch, f"the others missed {VICTIM}")
    if is_over():
        return False
    watch.remark(sites)
    watch.say(
        f"\n{VICTIM} was killed (SIGKILL) after {at['communications']} of its messages; {joined(others)} wait.\n"
        "It is started again.\n"
    )
    return True


def ended(sites: LocalSites, watch: SitesDisplay) -> dict[str, Model] | None:
    """Start the killed hospital again and wait until all have ended; return their models, None if one has none."""
    returned = time.time()
    sites.start([VICTIM])
    _until(lambda: not sites.running, sites, watch, "all hospitals had ended")
    models = {name: model for name in sites.sites if (model := sites.model(name)) is not None}
    failures = {name: sites.failure(name) for name in sites.sites if name not in models}
    for name, why in failures.items():
        watch.say(f"{name} {why}")
    early = [
        name
        for name in sites.sites
        if any(event["event"] == "certified" and event["time"] < returned for event in sites.events(name))
    ]
    for name in early:
        watch.say(f"{name} had its model before {VICTIM} was back")
    return None if failures or early else models


def _until(condition: Callable[[], bool], sites: LocalSites, watch: SitesDisplay, what: str) -> None:
    """Wait until the condition holds, and show the sites meanwhile; raise GlmeshError if it takes too long.

    `what` is the condition as words in the past tense.
    """
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise GlmeshError(f"{LIMIT:g} s were over before {what}")
        watch(sites)
        time.sleep(_SOON)
