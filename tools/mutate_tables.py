"""Changes the tables of the invocation and the circuit, one row at a time, and shows that some test notices.

The table in the module's docstring is changed alike, as somebody would who means the change, so what notices must know
what the engine is to do.
"""

from __future__ import annotations

import argparse
import gc
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import ModuleType

from _forks import ROOT, Mutant, Verdict, judge

sys.path.insert(0, str(ROOT))

import fsm_engine.breaker.circuit_breaker
from fsm_engine.machine.lifecycle import Guard, Lifecycle, Row
from fsm_engine.machine.machine import LifecycleMachine
from fsm_engine.states import circuit, invocation

TESTS = {
    "invocation": (
        "tests/states/test_invocation.py",
        "tests/test_acceptance.py",
        "tests/test_activities.py",
        "tests/test_approval.py",
        "tests/test_engine.py",
    ),
    "circuit": (
        "tests/states/test_circuit.py",
        "tests/test_breaker.py",
        "tests/test_breaker_rules.py",
        "tests/test_breaker_golden.py",
    ),
}
TABLE = re.compile(r"(\| from .*\n\|---.*\n)(?:\|.*\n)+")


def changes(lifecycle: Lifecycle) -> Iterator[tuple[str, tuple[Row, ...], dict[str, Guard]]]:
    """Every change: in words, and the rows and guards that it leaves."""
    rows, guards = lifecycle.rows, dict(lifecycle.guards)
    for number, row in enumerate(rows):
        before, after = rows[:number], rows[number + 1 :]
        yield f"drop {row}", (*before, *after), guards
        for state in lifecycle.states:
            if state.name != row.dest:
                yield f"retarget {row} to {state.name}", (*before, replace(row, dest=state.name), *after), guards
        for later, other in enumerate(after, start=number + 1):
            if (other.source, other.trigger) == (row.source, row.trigger):
                swapped = list(rows)
                swapped[number], swapped[later] = other, row
                yield f"swap {row} and {other}", tuple(swapped), guards
    for name, guard in guards.items():
        yield f"negate {name}", rows, {**guards, name: _negated(guard)}


def _negated(guard: Guard) -> Guard:
    return lambda event: not guard(event)


def mutants(module: ModuleType, lifecycle: Lifecycle) -> Iterator[Mutant]:
    """Every change of a lifecycle as something to be judged."""
    for change, rows, guards in changes(lifecycle):
        apply = partial(_change, module, lifecycle, rows, guards)
        yield Mutant(lifecycle.name, change, TESTS[lifecycle.name], apply)


def _change(module: ModuleType, lifecycle: Lifecycle, rows: tuple[Row, ...], guards: dict[str, Guard]) -> None:
    """Put the changed lifecycle in the place of the declared one, wherever that is held already."""
    changed = replace(lifecycle, rows=rows, guards=guards)
    vars(lifecycle).clear()
    vars(lifecycle).update(vars(changed))
    lines = "".join(f"| {row.source} | {row.trigger} | {row.guard or ''} | {row.dest} |\n" for row in rows)
    lines = lines.replace("|  |", "| |")
    module.__doc__ = TABLE.sub(lambda match: match[1] + lines, module.__doc__ or "")
    for machine in [each for each in gc.get_objects() if type(each) is LifecycleMachine]:
        if machine.lifecycle is lifecycle:
            machine.__init__(lifecycle)  # the circuit's, made when its module was imported


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument(
        "words", nargs="?", default="", help="try the changes alone that are described with these words"
    )
    options = parser.parse_args()
    assert fsm_engine.breaker, "imported once, for all mutants"
    began = time.monotonic()
    everything = [
        *mutants(invocation, invocation.INVOCATION),
        *mutants(circuit, circuit.CIRCUIT),
    ]
    for name, tests in TESTS.items():
        for verdict in judge([Mutant(name, "nothing", tests, lambda: None)]):
            if verdict.caught_by:
                sys.exit(f"the tests of the unchanged {name} fail: {verdict.caught_by}")
    chosen = [mutant for mutant in everything if options.words in mutant.change]
    verdicts: list[Verdict] = []
    for verdict in judge(chosen, jobs=options.jobs):
        verdicts.append(verdict)
        if not verdict.caught_by:
            print(f"NOT NOTICED {verdict.mutant.place}: {verdict.mutant.change}", flush=True)
    report(verdicts, time.monotonic() - began)
    return 0 if all(verdict.caught_by for verdict in verdicts) else 1


def report(verdicts: list[Verdict], seconds: float) -> None:
    for place in TESTS:
        mine = [verdict for verdict in verdicts if verdict.mutant.place == place]
        tests = Counter(
            verdict.caught_by.partition("::")[0] for verdict in mine if verdict.caught_by.startswith("tests")
        )
        refused = sum(verdict.caught_by.startswith("LifecycleError") for verdict in mine)
        noticed = sum(bool(verdict.caught_by) for verdict in mine)
        print(f"{place}: {noticed} of {len(mine)} changes noticed, {refused} of them by the declaration itself")
        print("".join(f"    {count} by {name}\n" for name, count in tests.most_common()), end="")
    print(f"{seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
