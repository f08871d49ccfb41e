"""Runs tests in forked processes, so that what was imported once need not be imported for every mutant."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Mutant:
    """One change.

    Args:
        place: the table or file that is changed.
        change: what is changed, in words.
        tests: the files that should notice, those most likely to first.
        apply: makes the change, in a process of its own; what it raises is how the change is noticed at once.
    """

    place: str
    change: str
    tests: tuple[str, ...]
    apply: Callable[[], object]


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant; `caught_by` is empty if no test has noticed."""

    mutant: Mutant
    caught_by: str


class _FirstFailure:
    """A plugin of pytest that remembers the first test that failed."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.name:
            self.name = f"{report.nodeid} (when it is imported)"


def judge(mutants: Iterable[Mutant], *, jobs: int = 2, limit: float = 60.0) -> Iterator[Verdict]:
    """Apply every mutant in a process of its own and run its tests up to the first failure.

    Args:
        mutants: to be judged.
        jobs: how many at once.
        limit: seconds for each; one that takes longer hangs, and is noticed by that.
    """
    waiting = iter(mutants)
    running: dict[int, tuple[Mutant, Path, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        while True:
            while len(running) < jobs and (mutant := next(waiting, None)) is not None:
                file = Path(folder, f"{mutant.place.replace('/', '.')}-{time.monotonic_ns()}")
                running[_start(mutant, file)] = mutant, file, time.monotonic()
            if not running:
                return
            for process, (mutant, file, began) in list(running.items()):
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    del running[process]
                    said = file.read_text(encoding="utf-8") if file.exists() else f"the end of the process ({status})"
                    yield Verdict(mutant, said)
                elif time.monotonic() - began > limit:
                    os.kill(process, signal.SIGKILL)
                    os.waitpid(process, 0)
                    del running[process]
                    yield Verdict(mutant, f"its time: it took more than {limit:g} s")
            time.sleep(0.01)


def _start(mutant: Mutant, file: Path) -> int:
    process = os.fork()
    if process:
        return process
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        os.environ["CI"] = "1"  # Hypothesis then draws the same cases every time, and keeps none
        sys.dont_write_bytecode = True
        file.write_text(_run(mutant), encoding="utf-8")
    except BaseException:  # noqa: BLE001 # nothing of this process may go on in the parent's code
        file.write_text(f"an error outside the tests: {traceback.format_exc()}", encoding="utf-8")
    finally:
        os._exit(0)


def _run(mutant: Mutant) -> str:
    try:
        mutant.apply()
    except Exception as error:  # noqa: BLE001 # however it is noticed
        return f"{type(error).__name__}, when it is declared"
    first = _FirstFailure()
    options = ["-x", "-q", "-p", "no:cacheprovider", "--assert=plain", "--timeout=20", f"--rootdir={ROOT}"]
    code = pytest.main([*options, *(str(ROOT / test) for test in mutant.tests)], plugins=[first])
    if code == pytest.ExitCode.OK:
        return ""
    return first.name or f"pytest ({pytest.ExitCode(code).name})"
