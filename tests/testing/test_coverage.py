"""What is exercised is noted in every machine, in the one that exists already too, and nothing is noted when it is off."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from fsm_engine import INVOCATION, LifecycleMachine
from fsm_engine.breaker import CircuitBreaker
from fsm_engine.states.circuit import CIRCUIT
from fsm_engine.testing import Returns, every_row, scripted
from fsm_engine.testing.coverage import LifecycleCoverage, Recorder, shown
from fsm_engine.testing.plugin import EngineFactory

from .test_cases import DOOR


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    recorder.start()
    yield recorder
    recorder.stop()


def door_machine() -> LifecycleMachine:
    return LifecycleMachine(DOOR, {"creak": lambda event: None, "click": lambda event: None})


def missing(coverage: LifecycleCoverage) -> list[str]:
    return [item.name for item in coverage.missing]


def test_everything_is_missing_until_it_is_exercised(recorder: Recorder) -> None:
    machine, model = door_machine(), SimpleNamespace(state="OPEN", key=True)
    coverage = recorder.of(DOOR)
    assert missing(coverage) == [
        "OPEN --push--> SHUT",
        "OPEN --pull--> SHUT",
        "SHUT --turn_key [has_key]--> LOCKED",
        "SHUT --turn_key [has_code]--> LOCKED",
        "SHUT --turn_key [has_key]--> LOCKED: has_key passes",
        "SHUT --turn_key [has_key]--> LOCKED: has_key does not pass",
        "SHUT --turn_key [has_code]--> LOCKED: has_code passes",
        "SHUT --turn_key [has_code]--> LOCKED: has_code does not pass",
        "SHUT entry: creak",
        "SHUT exit: click",
    ]
    assert coverage.percent == 0.0
    machine.fire(model, "push")
    machine.fire(model, "turn_key")
    assert missing(coverage) == [
        "OPEN --pull--> SHUT",
        "SHUT --turn_key [has_code]--> LOCKED",
        "SHUT --turn_key [has_key]--> LOCKED: has_key does not pass",
        "SHUT --turn_key [has_code]--> LOCKED: has_code passes",
        "SHUT --turn_key [has_code]--> LOCKED: has_code does not pass",
    ]
    assert coverage.percent == 50.0


def test_a_machine_that_exists_already_is_followed_by_whoever_drives_it(recorder: Recorder) -> None:
    """The breaker's machine was made when its module was imported, long before."""
    recorder.seen["circuit"].clear()
    CircuitBreaker().force_open()
    assert "CLOSED --force_open--> FORCED_OPEN" not in missing(recorder.of(CIRCUIT))


def test_a_fire_that_was_taken_from_a_machine_before_is_followed() -> None:
    machine, model = door_machine(), SimpleNamespace(state="OPEN")
    fire, recorder = machine.fire, Recorder()
    recorder.follow(machine)
    fire(model, "pull")
    assert "OPEN --pull--> SHUT" not in missing(recorder.of(DOOR))


async def test_an_engine_with_hooks_of_its_own_counts_for_the_declared_lifecycle(
    recorder: Recorder, engine_factory: EngineFactory
) -> None:
    engine = engine_factory(scripted(Returns(1)), hooks=[lambda event: None])
    await engine.invoke("scripted")
    left = missing(recorder.of(INVOCATION))
    assert "EXECUTING --succeed--> COMPLETED" not in left
    assert "every transition: record" not in left
    assert "VALIDATING gate: check_arguments" not in left
    assert "EXECUTING --fail--> FAILED" in left


def test_nothing_is_noted_when_it_is_off() -> None:
    recorder = Recorder()
    recorder.start()
    recorder.stop()
    recorder.stop()
    recorder.seen.clear()
    door_machine().fire(SimpleNamespace(state="OPEN"), "push")
    assert not recorder.seen


def test_a_followed_machine_refuses_and_moves_as_before(recorder: Recorder) -> None:
    """The notes change nothing of what it does."""
    for case in every_row(DOOR):
        [row] = case.values
        model = SimpleNamespace(state=row.source, key=row.guard == "has_key")
        if row.guard != "has_code":
            door_machine().fire(model, row.trigger)
            assert model.state == row.dest


def test_one_hundred_is_said_only_when_nothing_is_missing() -> None:
    assert [shown(percent) for percent in (100.0, 99.99, 66.666, 0.0)] == ["100", "99.9", "66.6", "0"]


def test_a_lifecycle_that_is_complete_says_so_in_one_line() -> None:
    coverage = LifecycleCoverage(DOOR)
    coverage.seen.update(coverage.items)
    assert list(coverage.report()) == ["door: 10 of 10 (100 %)"]
