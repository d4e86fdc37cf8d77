"""Run the tests that wait for processes many times beside busy ones: `python -m tests.patience [RUNS] [BUSY]`.

A test that waits for other processes must wait for conditions, not for times, so that it passes on a machine that is
busy with other things. BUSY processes (8) do nothing but count while the tests marked `waits` run RUNS times (20). A
line says how each run ended; what a run that failed has printed follows it. The exit code is 1 unless all runs passed.
benchmarks/reports/patience.md has the runs of the last call.
"""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

COUNT = [sys.executable, "-c", "while True: pass"]
# Six processes, since most of what these tests do is to wait. Modules are compiled once, not in each process.
PYTEST = [sys.executable, "-m", "pytest", "-m", "waits", "-n", "6", "--dist", "worksteal", "-q"]
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
REPORT = Path(__file__).parent.parent / "benchmarks" / "reports" / "patience.md"


def files() -> list[str]:
    """Return the files that hold tests marked `waits`; all others need not be collected."""
    return sorted(str(path) for path in Path("tests").rglob("test_*.py") if "pytest.mark.waits" in path.read_text())


def say(text: str) -> None:
    """Write a line, at once also where standard output is a file."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def count(what: str, last: str) -> int:
    """Return the number before a word, such as "passed", in pytest's last line."""
    found = re.search(rf"(\d+) {what}", last)
    return int(found[1]) if found else 0


def report(rows: list[str], passed: int, n_busy: int) -> None:
    """Write the report with these rows of its table, one for each run so far."""
    git = ["git", "-C", str(REPORT.parent), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    REPORT.write_text(
        "# Patience: the tests that wait for processes, again and again beside busy ones (`make patience`)\n\n"
        f"{os.cpu_count()} cores, Python {platform.python_version()}, commit {commit}; beside {n_busy} processes that "
        f"count.\nLoad is the mean of the last five minutes, of all that ran on the machine.\n\n"
        f"{passed} of {len(rows)} runs passed.\n\n"
        "| run | passed | failed | seconds | load |\n|---|---|---|---|---|\n" + "".join(rows),
        encoding="utf-8",
    )


def main(runs: int = 20, n_busy: int = 8) -> int:
    """Return 0 if the tests passed in all runs, else 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # through `finally`
    passed, command, rows = 0, [*PYTEST, *files()], []
    busy = [subprocess.Popen(COUNT) for _ in range(n_busy)]
    try:
        for run in range(1, runs + 1):
            start = time.monotonic()
            ended = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=ENVIRONMENT
            )
            seconds = time.monotonic() - start
            passed += ended.returncode == 0
            above, _, last = ended.stdout.rstrip().rpartition("\n")
            say(f"run {run}: {last.strip('= ')}; {seconds:.0f} s in all")
            if ended.returncode:
                say(above)
            failed = count("failed", last) + count("error", last)
            rows.append(f"| {run} | {count('passed', last)} | {failed} | {seconds:.0f} | {os.getloadavg()[1]:.0f} |\n")
            report(rows, passed, n_busy)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    say(f"{passed} of {runs} runs passed beside {n_busy} busy processes")
    return int(passed < runs)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
