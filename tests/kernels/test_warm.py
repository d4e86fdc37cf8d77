"""Kernels are compiled, or loaded, before the first round, for the types that rounds use."""

import subprocess
import sys

import numpy as np
from numba import njit

from glmesh.kernels.jit import told_of_compiling

PROGRAM = """
import numpy as np
import scipy.sparse as sp
from glmesh import Problem, solve
from glmesh.kernels import cholesky, face_path, faces, gram, interior, smooth, units
from glmesh.kernels.warm import warm_up_totals

warm_up_totals()
modules = (cholesky, face_path, faces, gram, interior, smooth, units)
kernels = {one for module in modules for one in vars(module).values() if hasattr(one, "signatures")}
before = {kernel: set(kernel.signatures) for kernel in kernels}
assert len(before) > 10
rng = np.random.default_rng(0)
X, y = rng.normal(size=(60, 8)), np.sign(rng.normal(size=60))
for rows in (X, sp.csr_array(X * (rng.random(X.shape) < 0.2))):
    pairs = ("logistic", "l1"), ("squared_hinge", "l2"), ("squared", "l2"), ("hinge", "l2"), ("quantile", "l2")
    for loss, penalty in (*pairs, ("epsilon_insensitive", "l2")):
        solve(Problem.glm(rows, y, loss=loss, penalty=penalty, alpha=1.0, split="samples"), n_nodes=3, tol=1e-4)
print({kernel.__name__ for kernel in kernels if set(kernel.signatures) != before[kernel]} or "none")
"""


def test_methods_on_totals_compile_no_kernel_after_it_was_warmed_up() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "none", run.stdout + run.stderr


def test_who_wants_to_know_is_told_once_that_kernels_are_compiled_and_not_that_they_are_loaded() -> None:
    told: list[str] = []
    own = njit(lambda x: x + 1)
    with told_of_compiling(lambda: told.append("compiling")):
        assert own(1) == 2
        assert own(1.5) == 2.5
    assert told == ["compiling"]
    with told_of_compiling(lambda: told.append("again")):
        assert own(2) == 3
    assert own(np.float32(1.0)) == 2.0  # nobody listens any more
    assert told == ["compiling"]
