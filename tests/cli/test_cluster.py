"""`train` on the ranks of a cluster: what is said when a rank was ended from outside."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cases import LIMIT

pytestmark = pytest.mark.waits

_RANK = """
import os, signal
from argparse import Namespace
from glmesh.cli.cluster import Sentinel
with Sentinel(Namespace(checkpoint={checkpoint!r}), on=True):
    {end}
"""


@pytest.mark.parametrize(
    ("checkpoint", "advice"),
    [("saved", "The same command goes on from saved/run.ckpt"), (None, "With --checkpoint DIR the same command would")],
)
def test_a_killed_rank_leaves_advice_on_how_to_go_on(checkpoint, advice):
    script = _RANK.format(checkpoint=checkpoint, end="os.kill(os.getpid(), signal.SIGKILL)")
    # stderr ends only when the small process beside the rank has spoken too: it holds the same pipe
    ended = subprocess.run(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False
    )
    assert ended.returncode == -9
    assert ended.stderr.startswith(f"glmesh: error: a rank has died, and the run with it. {advice}")


@pytest.mark.parametrize("end", ["pass", "raise SystemExit(0)"])
def test_a_rank_that_ends_by_itself_leaves_no_advice(end):
    script = _RANK.format(checkpoint="saved", end=end)
    ended = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=True)
    assert ended.stderr == ""
