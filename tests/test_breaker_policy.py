"""The settings of a circuit breaker: what is refused, and what the shorthands mean."""

from __future__ import annotations

from typing import Any

import pytest

from fsm_engine.breaker import BreakerPolicy
from fsm_engine.errors import ConfigurationError, ToolErrorCode

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        *((name, value, "a whole number from 1 on")
          for name in ("sliding_window_size", "minimum_number_of_calls", "permitted_calls_in_half_open")
          for value in (0, -1, 1.5, True, "5", None)),
        *((name, value, "a per cent above 0, at most 100")
          for name in ("failure_rate_threshold", "slow_call_rate_threshold")
          for value in (0, -1, 100.1, NAN, INF, True, "50")),
        *((name, value, "seconds above 0")
          for name in ("slow_call_duration_threshold", "wait_duration_in_open_state")
          for value in (0, -1.0, NAN, INF, False, None)),
        *(("max_wait_duration_in_half_open", value, "or 0 to wait for ever") for value in (-0.1, NAN, INF, True, "1")),
        ("sliding_window_type", "calls", "'count', 'time'"),
        ("recovery", "never", "'automatic', 'manual'"),
        ("initial", "open", "'closed', 'metrics_only', 'forced_open', 'disabled'"),
        ("automatic_transition_from_open_to_half_open", 1, "True or False"),
        *((name, value, "a set of codes")
          for name in ("ignored_codes", "counted_codes")
          for value in ("TIMEOUT", 5, {404})),
    ],
)  # fmt: skip
def test_a_setting_out_of_range_is_refused_with_what_is_allowed(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        BreakerPolicy(**{name: value})
    assert f"BreakerPolicy.{name} is {value!r}" in str(refused.value)
    assert allowed in str(refused.value)


def test_the_edges_of_the_ranges_are_allowed() -> None:
    BreakerPolicy(
        sliding_window_size=1,
        minimum_number_of_calls=1,
        permitted_calls_in_half_open=1,
        failure_rate_threshold=100,
        slow_call_rate_threshold=0.1,
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


def test_consecutive_takes_other_settings_too() -> None:
    policy = BreakerPolicy.consecutive(4, wait=5, permitted_calls_in_half_open=2)
    assert (policy.sliding_window_size, policy.minimum_number_of_calls, policy.failure_rate_threshold) == (4, 4, 100.0)
    assert (policy.wait_duration_in_open_state, policy.permitted_calls_in_half_open) == (5, 2)
