"""What an invocation keeps of its way, and what its response says of it."""

from __future__ import annotations

from typing import Any

import pytest
from tenacity import wait_fixed

from fsm_engine import Firing, HistoryEntry, RetryPolicy, ToolCall, on_transition, tool

from ..support import play, virtual


@tool(idempotent=True, retry=RetryPolicy(max_retries=1, wait=wait_fixed(2.0)))
async def flaky(outcomes: list[str]) -> str:
    """Fail as often as is said."""
    flaky_calls.append(1)
    if outcomes[len(flaky_calls) - 1] == "fail":
        raise ConnectionError("gone")
    return "ok"


flaky_calls: list[int] = []


async def test_each_transition_is_kept_with_its_guard_and_time() -> None:
    flaky_calls.clear()
    engine = virtual(flaky)
    invocation = await play(engine, engine.execute_tool_call(ToolCall("flaky", {"outcomes": ["fail", "ok"]})))
    assert invocation.history == (
        HistoryEntry("PENDING", "validate", None, "VALIDATING", 0.0),
        HistoryEntry("VALIDATING", "accept", None, "ADMITTING", 0.0),
        HistoryEntry("ADMITTING", "admit", "permitted", "EXECUTING", 0.0),
        HistoryEntry("EXECUTING", "fail", "may_retry", "RETRYING", 0.0),
        HistoryEntry("RETRYING", "retry", None, "ADMITTING", 2.0),
        HistoryEntry("ADMITTING", "admit", "permitted", "EXECUTING", 2.0),
        HistoryEntry("EXECUTING", "succeed", None, "COMPLETED", 2.0),
    )
    assert invocation.response is not None
    assert invocation.response.stats == {"time_ms": 2000.0, "attempts": 2}


async def test_the_path_of_an_invocation_that_has_not_moved_is_its_state() -> None:
    engine = virtual(flaky)
    invocation = engine.start(ToolCall("flaky", {"outcomes": []}))
    assert (invocation.path, invocation.history, invocation.attempt) == (("PENDING",), (), None)
    assert (invocation.result, invocation.error, invocation.retry_count) == (None, None, 0)
    assert repr(invocation) == f"<ToolInvocation flaky {invocation.uid} PENDING>"
    invocation.cancel()
    await invocation


async def test_an_observer_of_transitions_sees_the_history_and_the_complete_response() -> None:
    seen: list[Any] = []

    def watch(event: Firing) -> None:
        invocation = event.model
        assert invocation.history[-1].dest == event.dest == invocation.state
        assert (event.source, event.trigger) == (invocation.history[-1].source, invocation.history[-1].trigger)
        if invocation.is_final:
            seen.append(invocation.response.context["call_id"])

    await virtual(flaky, hooks=[on_transition(watch)]).invoke("flaky", "{}", call_id="c9")
    assert seen == ["c9"]


async def test_the_context_masks_what_is_secret() -> None:
    @tool(sensitive=("pin",))
    async def pay(pin: str, token: str, amount: int) -> str:
        return "paid"

    response = await virtual(pay).invoke("pay", {"pin": "1234", "token": "abcd", "amount": 5})
    assert response.context["arguments"] == {"pin": "***", "token": "***", "amount": 5}
    assert "1234" not in response.to_json()


@pytest.mark.parametrize("changes", ["the caller", "the reader"])
async def test_a_response_is_frozen_whatever_becomes_of_the_arguments(changes: str) -> None:
    async def count(items: list[int]) -> int:
        return len(items)

    given: dict[str, Any] = {"items": [1, 2]}
    engine = virtual(count)
    invocation = await engine.execute_tool_call(ToolCall("count", given))
    assert invocation.response is not None
    if changes == "the caller":
        given["items"].append(3)
    else:
        assert invocation.arguments == {"items": [1, 2]}
    assert invocation.response.context["arguments"] == {"items": [1, 2]}
