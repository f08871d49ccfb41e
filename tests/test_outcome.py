"""The responses that the engine itself gives."""

from __future__ import annotations

import pytest

from fsm_engine import Effect, ToolError, ToolResponse
from fsm_engine.invocation.outcomes import (
    broken_tool_response,
    cancelled_response,
    denied_response,
    error_response,
    timeout_response,
    unanswered_response,
)


@pytest.mark.parametrize(
    ("response", "code", "reason", "effect", "words"),
    [
        (cancelled_response("t", "", effect=Effect.NONE), "CANCELLED", "cancelled", "none", "t was cancelled."),
        (cancelled_response("t", "why", effect=Effect.UNKNOWN), "CANCELLED", "cancelled", "unknown", "cancelled: why."),
        (denied_response("t", ""), "APPROVAL_DENIED", "denied", "none", "as a person denied it."),
        (denied_response("t", "why"), "APPROVAL_DENIED", "denied", "none", "denied it: why."),
        (unanswered_response("t", 600.0), "APPROVAL_EXPIRED", "approval_expired", "none", "within 600 s"),
        (
            timeout_response("t", "was slow.", reason="idle", effect=Effect.UNKNOWN),
            "TIMEOUT",
            "idle",
            "unknown",
            "t was slow.",
        ),
        (
            broken_tool_response("t", "a gate", RuntimeError("x")),
            "INTERNAL_ERROR",
            "broken_tool",
            None,
            "a gate is broken",
        ),
        (error_response(ToolError("CONFLICT", "taken", reason="shipped")), "CONFLICT", "shipped", None, "taken"),
    ],
)
def test_each_says_what_happened_and_what_is_known_of_the_effect(
    response: ToolResponse, code: str, reason: str, effect: str | None, words: str
) -> None:
    info = response.error_info
    assert info is not None
    assert (info.code, info.reason, info.effect) == (code, reason, effect)
    assert words in info.message


def test_a_broken_part_is_told_to_the_operator_and_not_to_the_model() -> None:
    info = broken_tool_response("t", "a gate", RuntimeError("at line 5")).error_info
    assert info is not None
    assert "line 5" not in info.message
    assert "line 5" in info.detail
    assert info.counts is False


def test_a_date_in_retry_after_is_read_against_the_wall_time() -> None:
    class TooManyError(Exception):
        class response:  # noqa: N801 # as an HTTP client names it
            status_code = 429
            headers = {"Retry-After": "Tue, 14 Nov 2023 22:13:50 GMT"}  # noqa: RUF012 # a stand-in

    info = error_response(TooManyError(), wall=1_700_000_000.0).error_info
    assert info is not None
    assert (info.code, info.retry_after) == ("RATE_LIMIT", 30.0)
