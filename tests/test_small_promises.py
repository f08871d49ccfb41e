"""Promises that a small change of the code would break unseen: leases, instants, sums and depths."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tenacity import wait_none

from fsm_engine import BreakerPolicy, FallbackPolicy, RateLimit, RetryPolicy, ToolCall, ToolSpec, on_enter, tool
from fsm_engine.invocation.arguments import MAX_ARGUMENT_DEPTH

from .support import idle, play, virtual


async def test_the_lease_is_given_back_before_the_fallback_starts() -> None:
    """A fallback may take long, and may call the very tool that it stands in for."""
    held: list[Any] = []

    async def fails() -> None:
        raise ConnectionError("gone")

    async def stand_in() -> str:
        (invocation,) = engine.running
        held.extend([invocation.slots, invocation.permit, engine._runtimes.of(spec).slots[0].held])
        return "instead"

    fallback = FallbackPolicy(function=stand_in, on_failure=True)
    spec = ToolSpec(name="t", func=fails, max_concurrency=1, breaker=BreakerPolicy(), fallback=fallback)
    engine = virtual(spec)
    assert (await engine.invoke("t")).text == "instead"
    assert held == [(), None, 0]


@pytest.mark.parametrize(("arguments", "is_asked"), [({}, True), ({"amount": 10}, True), ({"amount": 1}, False)])
async def test_whether_a_person_is_asked_is_decided_on_the_arguments_that_the_tool_gets(
    arguments: dict[str, Any], is_asked: bool
) -> None:
    seen: list[Any] = []

    def is_large(checked: Mapping[str, Any]) -> bool:
        seen.append(dict(checked))
        return bool(checked["amount"] > 5)

    @tool(needs_approval=is_large)
    async def pay(amount: int = 10) -> int:
        return amount

    engine = virtual(pay)
    invocation = engine.start(ToolCall("pay", arguments))
    await idle()
    assert invocation.state == ("AWAITING_APPROVAL" if is_asked else "COMPLETED")
    assert seen[0] == {"amount": 10} | arguments
    invocation.cancel()
    await invocation


async def test_a_permit_is_given_back_by_whoever_leaves_even_if_no_slot_is_held() -> None:
    async def ping() -> str:
        return "pong"

    spec = ToolSpec(name="ping", func=ping, breaker=BreakerPolicy())
    engine = virtual(spec)
    invocation = await engine.execute_tool_call(ToolCall("ping"))
    breaker = engine._runtimes.of(spec).breaker
    assert breaker is not None
    invocation.permit = breaker.try_acquire()
    assert invocation.permit is not None
    assert invocation.slots == ()
    engine._driver._leave(invocation)
    assert invocation.permit is None


@pytest.mark.parametrize("encodings", [0, 1, 2])
@pytest.mark.parametrize("is_too_deep", [False, True])
async def test_arguments_are_as_deep_as_allowed_however_often_they_are_encoded(
    encodings: int, is_too_deep: bool
) -> None:
    depth = MAX_ARGUMENT_DEPTH + 10 if is_too_deep else MAX_ARGUMENT_DEPTH - 10
    arguments: Any = {"value": json.loads("[" * depth + "]" * depth)}
    for _ in range(encodings):
        arguments = json.dumps(arguments)
    calls: list[Any] = []

    @tool
    async def take(value: list[Any]) -> str:
        calls.append(value)
        return "taken"

    response = await virtual(take).invoke("take", arguments)
    assert bool(calls) == (not is_too_deep)
    assert (response.error_info is None) == (not is_too_deep)


async def test_the_time_in_the_queue_is_that_of_all_attempts_together() -> None:
    async def fails() -> None:
        raise ConnectionError("gone")

    retry = RetryPolicy(max_retries=2, wait=wait_none())
    spec = ToolSpec(name="t", func=fails, idempotent=True, retry=retry, rate_limit=RateLimit(1, per=10.0))
    engine = virtual(spec)
    response = await play(engine, engine.invoke("t"))
    assert response.stats["attempts"] == 3
    assert response.stats["queue_ms"] == pytest.approx(20_000.0, abs=10.0)  # tokens are told to the millisecond


@pytest.mark.parametrize("place", ["ADMITTING", "FALLING_BACK"])
async def test_at_the_very_instant_of_the_deadline_nothing_new_is_begun(place: str) -> None:
    begun: list[str] = []

    async def fails() -> None:
        begun.append("tool")
        raise ConnectionError("gone")

    async def stand_in() -> str:
        begun.append("fallback")
        return "instead"

    def pass_time(event: Any) -> None:
        clock = event.model.clock
        clock.advance(event.model.deadline - clock.monotonic())

    spec = ToolSpec(name="t", func=fails, fallback=FallbackPolicy(function=stand_in, on_failure=True, timeout=60.0))
    engine = virtual(spec, hooks=[on_enter(place, pass_time)])
    response = await engine.invoke("t", deadline=5.0)
    assert begun == ([] if place == "ADMITTING" else ["tool"])
    assert response.error_info is not None
    assert response.error_info.code == ("TIMEOUT" if place == "ADMITTING" else "NETWORK_ERROR")


@pytest.mark.parametrize("is_too_deep", [False, True])
async def test_a_value_that_was_encoded_once_more_is_as_deep_as_allowed(is_too_deep: bool) -> None:
    depth = MAX_ARGUMENT_DEPTH + 10 if is_too_deep else MAX_ARGUMENT_DEPTH - 10
    calls: list[Any] = []

    @tool
    async def take(value: list[Any]) -> str:
        calls.append(value)
        return "taken"

    response = await virtual(take).invoke("take", {"value": "[" * depth + "]" * depth})
    assert bool(calls) == (not is_too_deep)
    assert response.error_info is None or response.error_info.reason == "too_deep"
