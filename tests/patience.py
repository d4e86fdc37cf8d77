"""Run the tests that wait for processes many times beside busy ones: `python -m tests.patience [RUNS] [BUSY]`.

A test that waits for other processes must wait for conditions, not for times, so that it passes on a machine that is
busy with other things. BUSY processes (8) do nothing but count while the tests marked `waits` run RUNS times (20). A
line says how each run ended; what a run that failed has printed follows it. The exit code is 1 unless all runs passed.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

COUNT = [sys.executable, "-c", "while True: pass"]
PYTEST = [sys.executable, "-m", "pytest", "-m", "waits", "-n", "2", "--dist", "worksteal", "-q"]


def files() -> list[str]:
    """Return the files that hold tests marked `waits`; all others need not be collected."""
    return sorted(str(path) for path in Path("tests").rglob("test_*.py") if "pytest.mark.waits" in path.read_text())


def say(text: str) -> None:
    """Write a line, at once also where standard output is a file."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(runs: int = 20, n_busy: int = 8) -> int:
    """Return 0 if the tests passed in all runs, else 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through `finally`
    passed, command = 0, [*PYTEST, *files()]
    busy = [subprocess.Popen(COUNT) for _ in range(n_busy)]
    try:
        for run in range(1, runs + 1):
            start = time.monotonic()
            ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            passed += ended.returncode == 0
            above, _, last = ended.stdout.rstrip().rpartition("\n")
            say(f"run {run}: {last.strip('= ')}; {time.monotonic() - start:.0f} s in all")
            if ended.returncode:
                say(above)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    say(f"{passed} of {runs} runs passed beside {n_busy} busy processes")
    return int(passed < runs)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
