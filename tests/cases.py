"""How many cases a property test tries: a tenth by default, all of them with GLMESH_SOAK=1."""

import os

from hypothesis import HealthCheck, settings

SOAK = os.environ.get("GLMESH_SOAK") == "1"
# [s] of waiting for a condition, also on a busy machine; below the timeouts of pytest, so that what was seen is told
LIMIT = 3000.0 if SOAK else 280.0


def cases(full: int) -> int:
    """`full` in a soak run, else a tenth of it and at least one."""
    return full if SOAK else max(1, full // 10)


def prop(full: int) -> settings:
    """Settings of a property test with `full` cases, to be used as a decorator above `given`."""
    return settings(
        max_examples=cases(full),
        deadline=None,
        derandomize=not SOAK,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )
