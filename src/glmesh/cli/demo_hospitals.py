"""`glmesh demo`: three hospitals fit one model as processes over TLS; one of them is killed meanwhile, and returns."""

from __future__ import annotations

import shutil
import tempfile
import time
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path

from glmesh.cli import demo_files
from glmesh.cli.coefficients import table
from glmesh.cli.demo_kill import trained
from glmesh.cli.demo_tables import Fits, alone, alone_text, beside_text, pooled
from glmesh.cli.options import OUT_OF_ROUNDS, REACHED
from glmesh.cli.output import can_plot, check_picture, check_writable
from glmesh.cli.up import cost_text
from glmesh.errors import InvalidInput
from glmesh.files.model_files import Model
from glmesh.formatting import duration, joined

TOL_SE = 1e-6  # [standard errors] that the table may differ from the pooled one, coefficients and standard errors
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
    print(_introduction(), flush=True)
    folder = Path(tempfile.mkdtemp(prefix="glmesh-demo-"))
    demo_files.write(str(folder))
    models = trained(folder)
    if models is None:
        print(f"\nNot as promised. The folder of the last try, with what each hospital logged: {folder}")
        return OUT_OF_ROUNDS
    together = table(next(iter(models.values())))
    assert together is not None  # a family without a penalty
    fits = Fits(together, alone(folder), pooled(folder))
    broken = broken_promises(models, fits)
    _tell(models, fits)
    if draws:
        broken += _drawn(fits, options.out)
    elif not options.no_plot:
        print(f"\nNo picture, because matplotlib is missing: {_NEEDS}")
    for why in broken:
        print(f"\nNot as promised: {why}. What each hospital logged is in {folder}")
    if not broken:
        shutil.rmtree(folder)
    print(_next_steps(time.time() - began))
    return OUT_OF_ROUNDS if broken else REACHED


def _introduction() -> str:
    """Return the text that is printed before the fit: who asks what, of which data, and how."""
    return (
        f"Three hospitals, {joined(list(demo_files.HOSPITALS))}, ask who comes back within a year. Each\n"
        "keeps its own table: text, gaps, columns in another order; bob has no present\n"
        "smokers. Three processes on this machine fit one logistic regression by masked\n"
        "sums, over TLS; none sees another's rows.\n\n"
        f"  {demo_files.FORMULA}\n"
    )


def _next_steps(seconds: float) -> str:
    """Return the text at the end: the `seconds` that the demo took, and the commands for files of one's own."""
    own = ["north", "south", "west"]
    commands = "\n".join(f"  {line}" for line in demo_files.commands(own, "ill ~ age + C(ward)"))
    return (
        f"\nAll of this took {duration(seconds)}. With files of your own,\n"
        f"{joined([f'{name}.csv' for name in own])}:\n{commands}\n"
        "The tables of this demo: glmesh demo --files hospitals"
    )


def _drawn(fits: Fits, path: str) -> list[str]:
    """Draw the fits into the file at `path`; return sentences on promises that were not kept: an empty file."""
    from glmesh.cli.demo_picture import draw

    draw(fits, path)
    print(f"\nThe same as a picture: {path}")
    return [] if Path(path).stat().st_size else [f"{path} is empty"]


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


def broken_promises(models: dict[str, Model], fits: Fits) -> list[str]:
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
