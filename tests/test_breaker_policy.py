"""The settings of a circuit breaker: what is refused, and what the shorthands mean."""

from __future__ import annotations

from typing import Any

import pytest

from fsm_engine import VirtualClock
from fsm_engine.breaker import BreakerPolicy, CircuitBreaker
from fsm_engine.errors import ConfigurationError, ToolErrorCode

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        *((name, value, "a whole number from 1 up")
          for name in ("sliding_window_size", "minimum_number_of_calls", "permitted_calls_in_half_open")
          for value in (0, -1, 1.5, True, "5", None)),
        *((name, value, "a per cent from 1 to 100")
          for name in ("failure_rate_threshold", "slow_call_rate_threshold")
          for value in (0, -1, 0.5, 100.1, NAN, INF, True, "50")),
        *((name, value, "seconds above 0")
          for name in ("slow_call_duration_threshold", "wait_duration_in_open_state")
          for value in (0, -1.0, NAN, INF, False, None)),
        *(("max_wait_duration_in_half_open", value, "seconds from 0 up") for value in (-0.1, NAN, INF, True, "1")),
        ("sliding_window_type", "calls", '"count" or "time"'),
        ("recovery", "never", '"automatic" or "manual"'),
        ("initial", "open", '"closed", "metrics_only", "forced_open" or "disabled"'),
        ("automatic_transition_from_open_to_half_open", 1, "True or False"),
        *((name, value, "a tuple, list or set of codes")
          for name in ("ignored_codes", "counted_codes")
          for value in ("TIMEOUT", 5, {404})),
    ],
)  # fmt: skip
def test_a_setting_out_of_range_is_refused_with_what_is_allowed(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        BreakerPolicy(**{name: value})
    assert f"BreakerPolicy.{name} must be" in str(refused.value)
    assert allowed in str(refused.value)


def test_the_edges_of_the_ranges_are_allowed() -> None:
    BreakerPolicy(
        sliding_window_size=1,
        minimum_number_of_calls=1,
        permitted_calls_in_half_open=1,
        failure_rate_threshold=100,
        slow_call_rate_threshold=1,
        max_wait_duration_in_half_open=0,
    )


def test_a_code_cannot_be_ignored_and_counted() -> None:
    with pytest.raises(ConfigurationError, match="names CONFLICT in ignored_codes and in counted_codes"):
        BreakerPolicy(ignored_codes=frozenset({"CONFLICT", "TIMEOUT"}), counted_codes=frozenset({"CONFLICT"}))


@pytest.mark.parametrize(
    ("code", "by_default", "counts"),
    [
        ("TIMEOUT", True, True),
        ("NOT_FOUND", False, False),
        ("RATE_LIMIT", True, False),
        ("CONFLICT", False, True),
        ("CONFLICT", True, True),
        ("RATE_LIMIT", False, False),
    ],
)
def test_the_policy_overrides_what_an_error_says_of_itself(code: str, by_default: bool, counts: bool) -> None:
    policy = BreakerPolicy(
        ignored_codes=frozenset({ToolErrorCode.RATE_LIMIT}), counted_codes=frozenset({ToolErrorCode.CONFLICT})
    )
    assert policy.counts(code, by_default=by_default) is counts


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (BreakerPolicy(), "after 3 failures in the first 5 calls, later 5 among the last 10; or 5 and 10 calls longer"),
        (BreakerPolicy.consecutive(3), "after 3 failures in a row, or 3 calls in a row longer than 60 s"),
        (BreakerPolicy.resilience4j(), "after 10 failures in the first 20 calls, later 50 among the last 100; or 20"),
        (
            BreakerPolicy(sliding_window_type="time", sliding_window_size=10, minimum_number_of_calls=500),
            "when 50 % of the calls of the last 10 s have failed, or 100 % took longer than 60 s, if there were at least 500",
        ),
        (BreakerPolicy(initial="metrics_only"), "never by itself, since it begins metrics only"),
        (BreakerPolicy(initial="forced_open"), "open until a person closes it"),
    ],
)
def test_a_policy_says_what_it_takes_to_open(policy: BreakerPolicy, words: str) -> None:
    assert policy.opens.startswith(words)


@pytest.mark.parametrize("good", [0, 3, 10, 1_000])
def test_the_default_protects_a_tool_that_is_called_a_few_times_a_minute(good: int) -> None:
    """Three calls a minute: within two minutes of the first failure nothing is called any more, whatever was before."""
    clock = VirtualClock()
    breaker = CircuitBreaker(BreakerPolicy(), clock=clock)
    for outcome in ["good"] * good + ["bad"] * 6:
        clock.advance(20.0)
        permit = breaker.try_acquire()
        if permit is None:
            break
        if outcome == "good":
            permit.success(1.0)
        else:
            permit.failure("NETWORK_ERROR", 1.0)
    assert breaker.circuit_state == "OPEN"


@pytest.mark.parametrize("pause", [20.0, 60.0, 90.0])
def test_a_circuit_of_the_default_closes_again_when_the_tool_is_well(pause: float) -> None:
    clock = VirtualClock()
    breaker = CircuitBreaker(BreakerPolicy(), clock=clock)
    breaker.open()
    for _ in range(10):
        clock.advance(pause)
        if permit := breaker.try_acquire():
            permit.success(1.0)
    assert breaker.circuit_state == "CLOSED"


def test_the_figures_of_resilience4j_have_a_name() -> None:
    policy = BreakerPolicy.resilience4j(wait_duration_in_open_state=5)
    assert (policy.sliding_window_size, policy.minimum_number_of_calls, policy.failure_rate_threshold) == (100, 20, 50)
    assert (policy.permitted_calls_in_half_open, policy.wait_duration_in_open_state) == (10, 5)


def test_consecutive_takes_other_settings_too() -> None:
    policy = BreakerPolicy.consecutive(4, wait=5, permitted_calls_in_half_open=2)
    assert (policy.sliding_window_size, policy.minimum_number_of_calls, policy.failure_rate_threshold) == (4, 4, 100.0)
    assert (policy.wait_duration_in_open_state, policy.permitted_calls_in_half_open) == (5, 2)
