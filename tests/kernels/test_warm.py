"""Kernels are compiled, or loaded, before the first round, for the types that rounds use."""

import subprocess
import sys

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
