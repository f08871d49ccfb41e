"""What a circuit tells those who look at it: whether it admits, what it has refused, and since when it is open."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pybreaker
import pytest

from fsm_engine.breaker import BreakerPolicy, ChangeReason, CircuitBreaker
from fsm_engine.clock import VirtualClock

WALL = 1_700_000_000.0


def breaker_at(clock: VirtualClock, **policy: Any) -> CircuitBreaker:
    settings: dict[str, Any] = {"permitted_calls_in_half_open": 1, "minimum_number_of_calls": 1, **policy}
    return CircuitBreaker(BreakerPolicy(**settings), clock=clock)


def test_the_figures_of_the_system_that_it_follows_are_there_by_its_name() -> None:
    """Resilience4j's `CircuitBreakerConfig`, save the lost permits, which it never gets back."""
    policy = BreakerPolicy.resilience4j()
    assert (policy.sliding_window_type, policy.sliding_window_size, policy.permitted_calls_in_half_open) == (
        "count",
        100,
        10,
    )
    assert (policy.failure_rate_threshold, policy.slow_call_rate_threshold) == (50.0, 100.0)
    assert (policy.slow_call_duration_threshold, policy.wait_duration_in_open_state) == (60.0, 60.0)


@pytest.mark.parametrize(
    ("move", "admits"),
    [
        ("close", True),
        ("disable", True),
        ("observe", True),
        ("half_open", True),
        ("open", False),
        ("force_open", False),
    ],
)
def test_it_says_whether_a_call_would_be_let_through(move: str, admits: bool) -> None:
    breaker = breaker_at(VirtualClock())
    getattr(breaker, move)()
    assert breaker.admits is admits


def test_a_half_open_circuit_whose_probes_are_all_out_admits_nothing() -> None:
    breaker = breaker_at(VirtualClock())
    breaker.half_open()
    permit = breaker.try_acquire()
    assert permit is not None
    assert breaker.admits is False
    permit.release()
    assert breaker.admits is True


def test_every_refusal_is_counted_once() -> None:
    breaker = breaker_at(VirtualClock())
    breaker.force_open()
    breaker.count_refusal()
    assert breaker.metrics().refused == 1
    breaker.count_refusal()
    assert breaker.metrics().refused == 2


def test_a_change_that_a_caller_brings_about_is_told_at_once() -> None:
    clock = VirtualClock()
    breaker = breaker_at(clock, automatic_transition_from_open_to_half_open=False)
    breaker.open()
    heard: list[ChangeReason] = []
    breaker.on_event(lambda event: heard.append(event.reason))
    clock.advance(61.0)
    assert breaker.state.circuit == "OPEN"  # who merely looks is no caller
    assert not heard
    assert breaker.is_open is False
    assert heard == [ChangeReason.WAIT_OVER]


def test_a_circuit_is_open_since_its_probes_expired_not_since_somebody_looked() -> None:
    """Another process that shares the storage counts its wait from there."""
    clock, storage = VirtualClock(wall=WALL), pybreaker.CircuitMemoryStorage(pybreaker.STATE_CLOSED)
    breaker = CircuitBreaker(BreakerPolicy.resilience4j(), clock=clock, state_storage=storage)
    breaker.half_open()
    breaker.stop_timer()
    clock.advance(90.0)
    assert breaker.is_open
    assert storage.opened_at == datetime.fromtimestamp(WALL + 60.0, UTC)


@pytest.mark.parametrize("late", [False, True], ids=["settled already", "of an earlier state"])
def test_what_is_not_taken_in_is_not_told_to_listeners(late: bool) -> None:
    told: list[str] = []

    class Listener(pybreaker.CircuitBreakerListener):
        def success(self, cb: object) -> None:
            told.append("success")

        def failure(self, cb: object, exc: object) -> None:
            told.append("failure")

    breaker = CircuitBreaker(BreakerPolicy(), clock=VirtualClock(), listeners=[Listener()])
    permit = breaker.try_acquire()
    assert permit is not None
    if late:
        breaker.reset()
    else:
        permit.success(0.1)
        told.clear()
    permit.success(0.1)
    permit.failure("TIMEOUT", 0.1)
    assert told == []


def test_what_another_process_has_decided_is_told_as_soon_as_somebody_looks() -> None:
    storage = pybreaker.CircuitMemoryStorage(pybreaker.STATE_CLOSED)
    breaker = CircuitBreaker(BreakerPolicy(), clock=VirtualClock(), state_storage=storage)
    heard: list[ChangeReason] = []
    breaker.on_event(lambda event: heard.append(event.reason))
    storage.state = pybreaker.STATE_OPEN
    assert breaker.circuit_state == "OPEN"
    assert heard == [ChangeReason.SHARED]
