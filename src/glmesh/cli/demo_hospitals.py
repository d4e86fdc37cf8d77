"""`glmesh demo`: three hospitals fit one model as processes over TLS; one of them is killed meanwhile, and returns."""

from __future__ import annotations

import io
import shutil
import socket
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from glmesh.cli import demo_files
from glmesh.cli.coefficients import table
from glmesh.cli.demo_tables import Fits, alone, alone_text, beside_text, pooled
from glmesh.cli.local_sites import LocalSites
from glmesh.cli.options import OUT_OF_ROUNDS, REACHED
from glmesh.cli.output import can_plot, check_picture, check_writable, duration
from glmesh.cli.up import cost_text
from glmesh.cli.watch import Watch
from glmesh.errors import GlmeshError, InvalidInput
from glmesh.files.model_files import Model
from glmesh.formatting import joined

if TYPE_CHECKING:
    from glmesh.federation.monitor.history import Figures

VICTIM = "carol"  # the hospital that is killed
LIMIT = 120.0  # [s] that each part of the demo may take, on a machine that is busy with other things
TOL_SE = 1e-6  # [standard errors] that the table may differ from the pooled one, coefficients and standard errors
_SOON = 0.01  # [s] between two looks at the hospital that is to be killed; a message takes some 50 ms
_PORTS = range(20_000, 30_000, 3)  # [ports] first ones to try; above are those that systems hand out by themselves
_EXTRAS = {  # packages of the extras that the demo needs: {extra: {package: module}}
    "peers": {"grpcio": "grpc", "cryptography": "cryptography", "tomli-w": "tomli_w"},
    "formulas": {"formulaic": "formulaic", "pandas": "pandas"},
}
_NEEDS = "pip install 'glmesh[plot]' for the picture"


def run(options: Namespace) -> int:
    """Fit one model at three hospitals, kill one of them meanwhile, print what it is worth; return the exit code."""
    _check_extras()
    draws = not options.no_plot and can_plot()
    if draws:
        check_picture("--out", options.out)
        check_writable({"--out": options.out})
    began = time.time()
    names = list(demo_files.HOSPITALS)
    print(
        f"Three hospitals, {joined(names)}, ask who comes back within a year. Each\n"
        "keeps its own table: text, gaps, columns in another order; bob has no present\n"
        "smokers. Three processes on this machine fit one logistic regression by masked\n"
        "sums, over TLS; none sees another's rows.\n\n"
        f"  {demo_files.FORMULA}\n",
        flush=True,
    )
    folder = Path(tempfile.mkdtemp(prefix="glmesh-demo-"))
    demo_files.write(str(folder))
    models = _trained(folder)
    if models is None:
        print(f"\nNot as promised. The folder of the last try, with what each hospital logged: {folder}")
        return OUT_OF_ROUNDS
    together = table(models[names[0]])
    assert together is not None  # a family without a penalty
    fits = Fits(together, alone(folder), pooled(folder))
    broken = _broken(models, fits)
    _tell(models, fits)
    if draws:
        from glmesh.cli.demo_picture import draw

        draw(fits, options.out)
        if not Path(options.out).stat().st_size:
            broken.append(f"{options.out} is empty")
        print(f"\nThe same as a picture: {options.out}")
    elif not options.no_plot:
        print(f"\nNo picture, because matplotlib is missing: {_NEEDS}")
    for why in broken:
        print(f"\nNot as promised: {why}. What each hospital logged is in {folder}")
    if not broken:
        shutil.rmtree(folder)
    own = ["north", "south", "west"]
    commands = "\n".join(f"  {line}" for line in demo_files.commands(own, "ill ~ age + C(ward)"))
    print(
        f"\nAll of this took {duration(time.time() - began)}. With files of your own,\n"
        f"{joined([f'{name}.csv' for name in own])}:\n{commands}\n"
        "The tables of this demo: glmesh demo --files hospitals"
    )
    return OUT_OF_ROUNDS if broken else REACHED


def _check_extras() -> None:
    """Raise InvalidInput, which says what to install, if packages of the extras `peers` or `formulas` are missing."""
    lacks = {
        extra: [package for package, module in parts.items() if not find_spec(module)]
        for extra, parts in _EXTRAS.items()
    }
    missing = [package for packages in lacks.values() for package in packages]
    if missing:
        raise InvalidInput(
            f"the demo needs {joined(missing)}: pip install 'glmesh[peers,formulas,plot]'; `glmesh demo --ring` needs "
            "no extras"
        )


# training


def _trained(folder: Path) -> dict[str, Model] | None:
    """Return the models of all hospitals after a fit in which one was killed while it ran; None without one.

    If the fit was over before the kill, it is made once more, in another folder inside `folder`, with an earlier kill.
    """
    moments: list[Callable[[Figures], bool]] = [
        lambda now: now.get("objective") is not None,  # after the first total of the fit itself
        lambda now: now.get("communications", 0) > 0,  # after the first message of all, about levels
    ]
    for number, moment in enumerate(moments):
        sites = _set_up(folder / f"try{number + 1}")
        watch = Watch()
        try:
            sites.start()
            if _killed_meanwhile(sites, watch, moment):
                return _ended(sites, watch)
            watch.say(f"{VICTIM} was to be killed while the fit ran, but the fit was over before.")
        finally:
            sites.end()
            watch.clear()
        if number + 1 < len(moments):
            print("Once more, with an earlier kill.", flush=True)
    return None


def _set_up(folder: Path) -> LocalSites:
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


def _killed_meanwhile(sites: LocalSites, watch: Watch, moment: Callable[[Figures], bool]) -> bool:
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


def _ended(sites: LocalSites, watch: Watch) -> dict[str, Model] | None:
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


def _until(condition: Callable[[], bool], sites: LocalSites, watch: Watch, what: str) -> None:
    """Wait until the condition holds, and show the sites meanwhile; raise GlmeshError if it takes too long.

    `what` is the condition as words in the past tense.
    """
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise GlmeshError(f"{LIMIT:g} s were over before {what}")
        watch(sites)
        time.sleep(_SOON)


# what it is worth


def _broken(models: dict[str, Model], fits: Fits) -> list[str]:
    """Return sentences on promises that were not kept: equal models, the proof, and the pooled table."""
    broken = []
    if len({model.coef.tobytes() for model in models.values()}) > 1:
        broken.append("the hospitals hold different models")
    if not fits.together.accuracy.worst <= TOL_SE:
        broken.append(f"{fits.together.proof}, and {TOL_SE:.0e} were asked for")
    off, errors_off = fits.differences()
    if not off <= TOL_SE:
        broken.append(f"coefficients differ from the pooled fit by {off:.1e} standard errors")
    if not errors_off <= TOL_SE:
        broken.append(f"standard errors differ from the pooled fit by {errors_off:.1e} of each")
    return broken


def _tell(models: dict[str, Model], fits: Fits) -> None:
    """Print the two tables, and in words what is proven and what it took."""
    summary, (rows, left_out) = fits.together, fits.together.rows or (0, 0)
    off, errors_off = fits.differences()
    print(f"\n{beside_text(fits)}\n")
    print(
        f"{summary.proof[0].upper()}{summary.proof[1:]}:\n"
        f"all three proved that from sums over {rows - left_out:,} rows; nobody pooled any.\n"
        f"scikit-learn, which did, has coefficients within {off:.0e} standard errors of these,\n"
        f"and standard errors within {errors_off:.0e} of each. The proof is about the optimiser on\n"
        "these rows, not about the data.\n"
        f"{joined(list(models))} hold the same model, to the last bit:\n"
        f"{cost_text(next(iter(models.values())))}.\n"
    )
    print(alone_text(fits))
