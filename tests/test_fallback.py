"""What answers in a tool's place."""

from __future__ import annotations

from typing import Any

import pytest

from fsm_engine import ConfigurationError, ToolResponse, ToolStatus, VirtualClock
from fsm_engine.fallback import FallbackPolicy, LastGood, as_fallback, as_substitute, run_function


def function() -> str:
    return "x"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "give exactly one"),
        ({"value": 1, "last_good": True}, "give exactly one"),
        ({"function": 5}, "must be callable"),
        ({"value": 1, "timeout": None}, "timeout must be a number of seconds above 0"),
        ({"value": 1, "timeout": 0}, "timeout must be"),
        ({"value": 1, "max_age": None}, "max_age must be"),
        ({"last_good": True, "max_age": -1}, "max_age must be"),
        ({"last_good": True, "max_entries": 0}, "max_entries must be"),
        ({"last_good": True, "max_entries": None}, "max_entries must be"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        FallbackPolicy(**settings)


def test_a_policy_is_of_one_kind() -> None:
    assert FallbackPolicy(value=None).kind == "value"
    assert FallbackPolicy(function=function).kind == "function"
    assert FallbackPolicy(last_good=True).kind == "last_good"


def test_a_spec_may_say_it_in_short() -> None:
    assert as_fallback(None, "t", read_only=False) is None
    assert as_fallback("last_good", "t", read_only=True) == FallbackPolicy(last_good=True)
    assert as_fallback(function, "t", read_only=False) == FallbackPolicy(function=function)
    with pytest.raises(ConfigurationError, match=r"FallbackPolicy\(value=...\)"):
        as_fallback({"stock": 1}, "t", read_only=False)


def test_good_results_are_kept_for_their_arguments_for_a_while_and_in_bounded_number() -> None:
    clock = VirtualClock()
    kept = LastGood(FallbackPolicy(last_good=True, max_age=10.0, max_entries=2), clock)
    for number in range(3):
        kept.remember({"n": number}, ToolResponse.success(data=number))
    assert len(kept) == 2
    assert kept.recall({"n": 0}) is None
    clock.advance(9.9)
    found = kept.recall({"n": 2})
    assert found is not None
    assert (found.response.data, found.at) == (2, 0.0)
    clock.advance(0.2)
    assert kept.recall({"n": 2}) is None


async def test_an_awaitable_that_a_plain_function_hands_out_is_awaited() -> None:
    async def later() -> str:
        return "later"

    assert await run_function(lambda: later(), {}) == "later"
    assert await run_function(later, {}) == "later"
    assert await run_function(function, {}) == "x"


def test_a_substitute_says_why_how_old_and_what_went_wrong() -> None:
    error = ToolResponse.error("TIMEOUT", "slow")
    made = as_substitute(ToolResponse.success("old"), "timeout", 1.23456, error)
    assert (made.status, made.text, made.reason) == (ToolStatus.PARTIAL, "old", "timeout")
    assert made.context["fallback"] == {
        "reason": "timeout",
        "age_s": 1.235,
        "error": {"code": "TIMEOUT", "message": "slow"},
    }
    assert as_substitute(ToolResponse.success("old"), "x", None, None).context["fallback"] == {"reason": "x"}
