"""Retries, waiting, fallbacks: what follows an attempt, and what comes before one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
from tenacity import wait_fixed, wait_none
from tenacity.wait import wait_base

from fsm_engine import (
    ConfigurationError,
    RetryPolicy,
    Stages,
    ToolCall,
    ToolContext,
    ToolEngine,
    ToolError,
    ToolExecutionEvent,
    ToolInvocation,
    ToolResponse,
    ToolSpec,
    ToolStatus,
    on_enter,
    tool,
)
from fsm_engine.invocation.substitute import FallbackPolicy

from .support import Stuck, Watch, assert_ended, assert_told_in_full, idle, logged, now, play, until, virtual

ONE_SECOND = RetryPolicy(max_retries=3, wait=wait_fixed(1.0))


class Script:
    """A tool that raises or returns one thing after the other, the last again and again."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.calls = 0

    async def __call__(self) -> Any:
        outcome = self.outcomes[min(self.calls, len(self.outcomes) - 1)]
        self.calls += 1
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def scripted(*outcomes: Any, **settings: Any) -> tuple[Script, ToolSpec]:
    script = Script(*outcomes)
    return script, ToolSpec(name="t", func=script, **settings)


async def run(spec: ToolSpec, **settings: Any) -> tuple[ToolEngine, ToolInvocation]:
    engine = virtual(spec, **settings)
    invocation = await play(engine, engine.execute_tool_call(ToolCall("t")))
    assert_ended(invocation)
    assert engine.running == ()
    return engine, invocation


# -- retries --------------------------------------------------------------------------------------------------------


async def test_an_error_that_may_pass_is_tried_again_and_the_wait_is_visible() -> None:
    watch = Watch()
    _, spec = scripted(ConnectionError("gone"), TimeoutError("slow"), "ok", idempotent=True, retry=ONE_SECOND)
    engine, invocation = await run(spec, stages=Stages(publish=watch))
    assert invocation.result == "ok"
    assert (len(invocation.attempts), invocation.retry_count) == (3, 2)
    assert [each.code for each in invocation.attempts] == ["NETWORK_ERROR", "TIMEOUT", None]
    assert [each.delay for each in invocation.attempts] == [1.0, 1.0, None]
    assert now(engine) == 2.0
    waits = [each for each in watch.events if isinstance(each, ToolExecutionEvent) and each.status == "RETRYING"]
    assert [(each.attempt, each.delay, each.at - watch.events[0].at) for each in waits] == [
        (1, 1.0, 0.0),
        (2, 1.0, 1.0),
    ]
    running = [each for each in watch.events if isinstance(each, ToolExecutionEvent) and each.status == "EXECUTING"]
    assert [each.attempt for each in running] == [1, 2, 3]
    assert invocation.response is not None
    assert invocation.response.stats["attempts"] == 3
    assert_told_in_full(watch.events)


async def test_attempts_end_with_their_number_and_the_last_error_stands() -> None:
    script, spec = scripted(
        ConnectionError("1"), ConnectionError("2"), ConnectionError("3"), read_only=True, max_retries=2
    )
    _, invocation = await run(spec)
    assert script.calls == 3
    assert invocation.error is not None
    assert "3" in invocation.error.message


UNSAFE = ToolError("NETWORK_ERROR", "cut off")
SAFE = ToolError("NETWORK_ERROR", "refused", effect="none")  # type: ignore[arg-type]  # its text is as good


@pytest.mark.parametrize(
    ("error", "settings", "calls"),
    [
        (ConnectionError("gone"), {"idempotent": True}, 4),
        (ConnectionError("gone"), {"read_only": True}, 4),
        (ConnectionError("gone"), {}, 1),
        (TimeoutError("slow"), {}, 1),
        (UNSAFE, {}, 1),
        (SAFE, {}, 4),
        (ValueError("bug"), {"idempotent": True}, 1),
        (ToolError("NOT_FOUND", "no"), {"idempotent": True}, 1),
        (ToolError("NOT_FOUND", "not yet", transient=True), {"idempotent": True}, 4),
        (ToolError("TIMEOUT", "for good", transient=False), {"idempotent": True}, 1),
        (ToolError("MY_OWN", "code"), {"idempotent": True}, 1),
        (asyncio.CancelledError(), {"idempotent": True}, 1),
    ],
    ids=repr,
)
async def test_only_what_may_pass_is_retried_and_only_where_that_is_safe(
    error: BaseException, settings: dict[str, Any], calls: int
) -> None:
    script, spec = scripted(error, retry=ONE_SECOND, **settings)
    _, invocation = await run(spec)
    assert script.calls == calls
    assert invocation.state == "FAILED"


async def test_after_an_unsafe_failure_the_response_says_that_the_effect_is_unknown() -> None:
    for settings, effect in (({}, "unknown"), ({"idempotent": True}, "unknown"), ({"read_only": True}, "none")):
        _, invocation = await run(scripted(ConnectionError("gone"), **settings)[1])
        assert invocation.error is not None
        assert invocation.error.effect == effect


async def test_a_tool_that_has_spoken_is_not_retried_unless_it_may_be_repeated() -> None:
    cases: list[tuple[dict[str, Any], int]] = [({}, 1), ({"idempotent": True}, 4)]
    for settings, attempts in cases:

        async def speaks(ctx: ToolContext) -> None:
            ctx.emit("half of it")
            raise SAFE

        _, invocation = await run(ToolSpec(name="t", func=speaks, retry=ONE_SECOND, **settings))
        assert len(invocation.attempts) == attempts


async def test_a_servers_retry_after_is_obeyed() -> None:
    error = ToolError("RATE_LIMIT", "slow down", retry_after=7.0)
    engine, invocation = await run(scripted(error, "ok", idempotent=True, retry=ONE_SECOND)[1])
    assert invocation.result == "ok"
    assert now(engine) == 7.0


async def test_a_retry_after_that_is_too_long_ends_the_invocation_and_is_told() -> None:
    error = ToolError("RATE_LIMIT", "slow down", retry_after=61.0)
    script, spec = scripted(error, "ok", idempotent=True, retry=ONE_SECOND)
    _, invocation = await run(spec)
    assert script.calls == 1
    assert invocation.error is not None
    assert invocation.error.retry_after == 61.0


async def test_no_retry_is_begun_that_would_come_after_the_deadline() -> None:
    script, spec = scripted(ConnectionError("gone"), idempotent=True, deadline=1.0, retry=ONE_SECOND)
    engine, invocation = await run(spec)
    assert (script.calls, now(engine)) == (1, 0.0)
    assert invocation.error is not None
    assert invocation.error.code == "NETWORK_ERROR"


@pytest.mark.parametrize(("own", "callers", "calls"), [(2.5, 10.0, 3), (10.0, 1.5, 2), (None, 1.5, 2), (2.5, None, 3)])
async def test_of_the_tools_deadline_and_the_callers_the_shorter_holds(
    own: float | None, callers: float | None, calls: int
) -> None:
    script, spec = scripted(ConnectionError("gone"), idempotent=True, deadline=own, retry=ONE_SECOND)
    engine = virtual(spec)
    await play(engine, engine.invoke("t", deadline=callers))
    assert script.calls == calls


async def test_a_timed_out_attempt_is_followed_by_another_where_that_is_safe() -> None:
    durations = [5.0, 0.5]

    @tool(name="t", timeout=1.0, idempotent=True, retry=RetryPolicy(max_retries=1, wait=wait_none()))
    async def slow(ctx: ToolContext) -> str:
        await ctx._attempt.invocation.clock.sleep(durations[ctx.attempt - 1])
        return f"attempt {ctx.attempt}"

    engine, invocation = await run(slow)
    assert invocation.result == "attempt 2"
    assert now(engine) == 1.5


async def test_no_second_attempt_is_made_while_a_thread_of_the_first_still_runs() -> None:
    stuck = Stuck()

    @tool(name="t", timeout=1.0, idempotent=True, retry=ONE_SECOND)
    def hang() -> None:
        stuck()

    engine = virtual(hang)
    try:
        invocation = await play(engine, engine.execute_tool_call(ToolCall("t")), stuck)
        assert len(invocation.attempts) == 1
    finally:
        stuck.let_go()


async def test_the_time_spent_waiting_for_a_retry_can_be_cut_short() -> None:
    script, spec = scripted(ConnectionError("gone"), idempotent=True, retry=ONE_SECOND)
    engine = virtual(spec)
    invocation = engine.start(ToolCall("t"))
    await idle()
    assert invocation.state == "RETRYING"
    invocation.cancel("enough")
    await invocation
    assert (invocation.state, script.calls, now(engine)) == ("CANCELLED", 1, 0.0)


async def test_the_waits_come_from_tenacity_with_jitter() -> None:
    random.seed(1)
    delays = [RetryPolicy(max_retries=5).delay(number) for number in (1, 2, 3, 10)]
    assert all(0 <= delay <= limit for delay, limit in zip(delays, (1, 1, 2, 30), strict=True))
    assert RetryPolicy(wait=wait_fixed(3)).delay(1) == 3.0


class Broken(wait_base):
    def __call__(self, retry_state: Any) -> float:
        raise ArithmeticError("no")


async def test_a_wait_strategy_that_raises_ends_the_invocation() -> None:
    with logged():
        _, invocation = await run(
            scripted(ConnectionError("gone"), idempotent=True, retry=RetryPolicy(max_retries=1, wait=Broken()))[1]
        )
    assert invocation.state == "FAILED"


# -- admission ------------------------------------------------------------------------------------------------------


class Door:
    """A tool whose calls wait until each is let through; it counts how many are inside at once."""

    def __init__(self) -> None:
        self.inside = self.peak = 0
        self.order: list[int] = []
        self.doors: dict[int, asyncio.Event] = {}

    async def __call__(self, number: int) -> int:
        self.inside += 1
        self.peak = max(self.peak, self.inside)
        self.order.append(number)
        try:
            await self.doors.setdefault(number, asyncio.Event()).wait()
        finally:
            self.inside -= 1
        return number


def door_call(number: int) -> ToolCall:
    return ToolCall("door", {"number": number})


@pytest.mark.parametrize("where", ["tool", "engine"])
async def test_no_more_attempts_run_at_once_than_are_allowed_and_they_begin_in_the_order_of_asking(where: str) -> None:
    """Case 129."""
    door = Door()
    limits: dict[str, Any] = {"max_concurrency": 2}
    spec = ToolSpec(name="door", func=door, **(limits if where == "tool" else {}))
    engine = virtual(spec, **(limits if where == "engine" else {}))
    calls = [engine.start(door_call(number)) for number in range(8)]
    await idle()
    assert [each.state for each in calls].count("EXECUTING") == 2
    while door.inside:
        for event in door.doors.values():
            event.set()
        await idle()
    assert door.peak == 2
    assert door.order == list(range(8))
    assert [each.result for each in calls] == list(range(8))
    assert [bool(each.queue_seconds) for each in calls] == [False] * 8  # no time has passed


@pytest.mark.parametrize("where", ["tool", "engine"])
def test_the_limit_holds_on_the_synchronous_path_too(where: str) -> None:
    """Case 129."""
    stuck = Stuck()
    limits: dict[str, Any] = {"max_concurrency": 2}
    peak: list[int] = []

    def work() -> None:
        stuck()

    spec = ToolSpec(name="work", func=work, timeout=None, **(limits if where == "tool" else {}))
    engine = ToolEngine([spec], **(limits if where == "engine" else {}))

    async def watch() -> None:
        calls = [engine.start(ToolCall("work")) for _ in range(8)]
        await until(lambda: stuck.count == 2)
        await idle()
        peak.append(stuck.count)
        stuck.let_go()
        for call in calls:
            await call

    asyncio.run(watch())
    assert peak == [2]


async def test_the_time_in_the_queue_is_in_the_stats() -> None:
    door = Door()
    engine = virtual(ToolSpec(name="door", func=door, max_concurrency=1))
    first, second = engine.start(door_call(1)), engine.start(door_call(2))
    await idle()
    engine.clock.advance(2.5)  # type: ignore[attr-defined]  # it is a VirtualClock
    door.doors[1].set()
    await first
    await idle()
    door.doors[2].set()
    await second
    assert second.response is not None
    assert second.response.stats["queue_ms"] == 2500.0
    assert first.response is not None
    assert "queue_ms" not in first.response.stats


async def test_the_deadline_counts_the_wait_for_a_slot() -> None:
    door = Door()
    engine = virtual(ToolSpec(name="door", func=door, max_concurrency=1, timeout=None))
    first = engine.start(door_call(1))
    second = engine.start(door_call(2), deadline=3.0)
    await idle()
    await play(engine, _end(second))
    assert second.error is not None
    assert (second.error.code, second.error.reason, second.error.effect) == ("TIMEOUT", "deadline_in_queue", "none")
    assert second.attempts == []
    assert now(engine) == 3.0
    door.doors[1].set()
    await first


async def _end(invocation: ToolInvocation) -> None:
    await invocation


async def test_after_a_retry_the_last_real_error_says_more_than_the_deadline_in_the_queue() -> None:
    """Scenario: the slot that an attempt gave back is taken while it waits for the next one."""
    door = Door()

    async def flaky_door(number: int) -> int:
        if number == 0:
            raise ConnectionError("gone")
        return await door(number)

    spec = ToolSpec(name="door", func=flaky_door, max_concurrency=1, timeout=None, idempotent=True, retry=ONE_SECOND)
    engine = virtual(spec)
    first = engine.start(door_call(0), deadline=5.0)
    await idle()
    assert first.state == "RETRYING"
    second = engine.start(door_call(1))
    await play(engine, _end(first))
    assert first.error is not None
    assert first.error.code == "NETWORK_ERROR"
    assert now(engine) == 5.0
    door.doors[1].set()
    await second


async def test_whoever_leaves_the_queue_loses_no_slot() -> None:
    door = Door()
    engine = virtual(ToolSpec(name="door", func=door, max_concurrency=1, timeout=None), max_concurrency=1)
    calls = [engine.start(door_call(number)) for number in range(4)]
    await idle()
    calls[1].cancel()
    await idle()
    assert calls[1].path == ("PENDING", "VALIDATING", "ADMITTING", "CANCELLED")
    door.doors[0].set()
    calls[2].cancel()  # in the very moment in which it is granted the slot
    await idle()
    assert [each.state for each in calls] == ["COMPLETED", "CANCELLED", "CANCELLED", "EXECUTING"]
    door.doors[3].set()
    await calls[3]


async def test_a_slot_granted_to_a_cancelled_call_goes_on_to_the_next() -> None:
    door = Door()
    engine = virtual(ToolSpec(name="door", func=door, max_concurrency=1, timeout=None))
    calls = [engine.start(door_call(number)) for number in range(3)]
    await idle()
    door.doors[0].set()
    await until(lambda: calls[0].is_final)
    calls[1].cancel()
    await until(lambda: calls[2].state == "EXECUTING")
    assert calls[1].state == "CANCELLED"
    assert door.order == [0, 2]
    door.doors[2].set()
    await calls[2]


async def test_a_slow_tool_does_not_delay_another() -> None:
    door = Door()

    async def quick() -> str:
        return "done"

    engine = virtual(ToolSpec(name="door", func=door, max_concurrency=1), quick)
    waiting = [engine.start(door_call(number)) for number in range(3)]
    await idle()
    assert (await engine.invoke("quick")).text == "done"
    for each in waiting:
        each.cancel()
        await each


# -- fallbacks ------------------------------------------------------------------------------------------------------


async def test_a_value_stands_in_after_a_failure_that_counts() -> None:
    watch = Watch()
    fallback = FallbackPolicy(value={"stock": None}, on_failure=True)
    _, spec = scripted(ConnectionError("gone"), fallback=fallback)
    _, invocation = await run(spec, stages=Stages(publish=watch))
    response = invocation.response
    assert response is not None
    assert (response.status, response.data) == (ToolStatus.PARTIAL, {"stock": None})
    assert response.reason == "network_error"
    about: Any = response.context["fallback"]
    assert about["error"]["code"] == "NETWORK_ERROR"
    assert invocation.path[-2:] == ("FALLING_BACK", "COMPLETED")
    assert [event.reason for event in watch.events if event.type == "tool_fallback"] == ["network_error"]  # type: ignore[attr-defined]  # its type says so
    assert_told_in_full(watch.events)


async def test_retries_come_before_the_fallback() -> None:
    fallback = FallbackPolicy(value="old", on_failure=True)
    script, spec = scripted(ConnectionError("gone"), idempotent=True, retry=ONE_SECOND, fallback=fallback)
    _, invocation = await run(spec)
    assert script.calls == 4
    assert invocation.result == "old"


@pytest.mark.parametrize("error", [ToolError("NOT_FOUND", "no"), ToolError("INVALID_PARAM", "no")])
async def test_an_error_that_does_not_count_needs_no_substitute(error: ToolError) -> None:
    _, invocation = await run(scripted(error, fallback=FallbackPolicy(value="x", on_failure=True))[1])
    assert invocation.state == "FAILED"


async def test_only_the_last_failure_decides_on_the_fallback() -> None:
    fallback = FallbackPolicy(value="x", on_failure=True)
    outcomes = (ConnectionError("gone"), ToolError("NOT_FOUND", "no"))
    _, invocation = await run(scripted(*outcomes, idempotent=True, retry=ONE_SECOND, fallback=fallback)[1])
    assert invocation.path[-2:] == ("EXECUTING", "FAILED")
    assert invocation.error is not None
    assert invocation.error.code == "NOT_FOUND"


async def test_without_on_failure_a_failure_stands() -> None:
    _, invocation = await run(scripted(ConnectionError("gone"), fallback=lambda: "x")[1])
    assert invocation.state == "FAILED"


async def test_the_last_good_result_stands_in_with_its_age() -> None:
    fallback = FallbackPolicy(last_good=True, on_failure=True)
    _, spec = scripted({"n": 1}, ConnectionError("gone"), read_only=True, fallback=fallback)
    engine = virtual(spec)
    await engine.invoke("t")
    engine.clock.advance(30.0)  # type: ignore[attr-defined]  # it is a VirtualClock
    response = await engine.invoke("t")
    assert (response.status, response.data) == (ToolStatus.PARTIAL, {"n": 1})
    about: Any = response.context["fallback"]
    assert about["age_s"] == 30.0
    engine.clock.advance(3_600.0)  # type: ignore[attr-defined]  # likewise, see above
    response = await engine.invoke("t")
    assert response.error_info is not None
    assert response.error_info.code == "NETWORK_ERROR"


async def test_a_partial_result_is_not_remembered_as_a_good_one() -> None:
    fallback = FallbackPolicy(last_good=True, on_failure=True)
    outcomes = (ToolResponse.partial("half", reason="truncated"), ConnectionError("gone"))
    engine = virtual(scripted(*outcomes, read_only=True, fallback=fallback)[1])
    await engine.invoke("t")
    assert (await engine.invoke("t")).status is ToolStatus.ERROR


def plain_substitute(sku: str) -> str:
    return f"plain {sku}"


async def async_substitute(sku: str) -> str:
    return f"async {sku}"


@pytest.mark.parametrize(("function", "text"), [(plain_substitute, "plain a"), (async_substitute, "async a")])
async def test_a_function_stands_in_with_the_same_arguments(function: Callable[..., Any], text: str) -> None:
    async def stock(sku: str) -> str:
        raise ConnectionError("gone")

    engine = ToolEngine(
        [ToolSpec(name="stock", func=stock, fallback=FallbackPolicy(function=function, on_failure=True))]
    )
    response = await engine.invoke("stock", {"sku": "a"})
    assert (response.status, response.text) == (ToolStatus.PARTIAL, text)


async def raises() -> None:
    raise LookupError("nothing there either")


async def exits() -> None:
    raise SystemExit(1)


async def hangs() -> None:
    await asyncio.get_running_loop().create_future()


def answers_with_an_error() -> ToolResponse:
    return ToolResponse.error("CONFLICT", "no")


@pytest.mark.parametrize("function", [raises, exits, hangs, answers_with_an_error])
async def test_a_substitute_that_fails_leaves_the_first_error_standing(function: Callable[..., Any]) -> None:
    with logged() as lines:
        fallback = FallbackPolicy(function=function, on_failure=True, timeout=4.0)
        engine = virtual(scripted(ConnectionError("gone"), fallback=fallback)[1])
        stuck = Stuck()
        invocation = (
            await play(engine, engine.execute_tool_call(ToolCall("t")), stuck)
            if function is not (answers_with_an_error)
            else await engine.execute_tool_call(ToolCall("t"))
        )
    assert_ended(invocation)
    assert invocation.path[-2:] == ("FALLING_BACK", "FAILED")
    assert invocation.error is not None
    assert invocation.error.code == "NETWORK_ERROR"
    assert now(engine) == (4.0 if function is hangs else 0.0)
    assert any(line["event"] == "fallback failed" for line in lines)


async def test_a_value_that_does_not_fit_the_output_schema_is_no_substitute() -> None:
    fallback = FallbackPolicy(value={"stock": None}, on_failure=True)
    schema = {"type": "object", "properties": {"stock": {"type": "integer"}}}
    _, invocation = await run(scripted(ConnectionError("gone"), fallback=fallback, output_schema=schema)[1])
    assert invocation.state == "FAILED"
    assert invocation.error is not None
    assert invocation.error.code == "NETWORK_ERROR"


async def test_a_standardise_stage_that_cannot_read_the_substitute_leaves_the_first_error_standing() -> None:
    def only_texts(value: Any, spec: ToolSpec) -> ToolResponse:
        raise TypeError("no")

    with logged():
        fallback = FallbackPolicy(value=5, on_failure=True)
        _, invocation = await run(
            scripted(ConnectionError("gone"), fallback=fallback)[1], stages=Stages(standardise=only_texts)
        )
    assert invocation.error is not None
    assert invocation.error.code == "NETWORK_ERROR"


def has_nothing_more() -> None:
    raise StopIteration("over")


async def test_a_substitute_that_raises_stop_iteration_in_its_thread_has_failed() -> None:
    fallback = FallbackPolicy(function=has_nothing_more, on_failure=True)
    with logged() as lines:
        response = await ToolEngine([scripted(ConnectionError("gone"), fallback=fallback)[1]]).invoke("t")
    assert response.error_info is not None
    assert response.error_info.code == "NETWORK_ERROR"
    assert any("StopIteration" in str(line.get("detail")) for line in lines)


async def test_arguments_that_cannot_be_bound_for_the_substitute_leave_the_first_error_standing() -> None:
    bound: list[int] = []

    def bind_once(spec: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
        bound.append(1)
        if len(bound) > 1:
            raise ToolError("INVALID_PARAM", "no longer")
        return arguments

    fallback = FallbackPolicy(function=lambda: "x", on_failure=True)
    with logged():
        _, invocation = await run(
            scripted(ConnectionError("gone"), fallback=fallback)[1], stages=Stages(bind=bind_once)
        )
    assert invocation.error is not None
    assert invocation.error.code == "NETWORK_ERROR"


async def test_the_deadline_limits_the_substitute_too() -> None:
    fallback = FallbackPolicy(function=hangs, on_failure=True)
    engine = virtual(scripted(ConnectionError("gone"), fallback=fallback)[1])
    await play(engine, engine.invoke("t", deadline=2.0))
    assert now(engine) == 2.0


async def test_a_substitute_can_be_cancelled() -> None:
    engine = virtual(scripted(ConnectionError("gone"), fallback=FallbackPolicy(function=hangs, on_failure=True))[1])
    invocation = engine.start(ToolCall("t"))
    await idle()
    assert invocation.state == "FALLING_BACK"
    assert invocation.cancel()
    await invocation
    assert_ended(invocation)
    assert invocation.state == "CANCELLED"


def test_a_keyboard_interrupt_in_a_substitute_passes() -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    engine = virtual(
        scripted(ConnectionError("gone"), fallback=FallbackPolicy(function=interrupted, on_failure=True))[1]
    )
    with logged(), pytest.raises(KeyboardInterrupt):
        asyncio.run(engine.invoke("t"))


async def test_a_substitute_is_a_copy_that_nobody_can_spoil() -> None:
    value = {"items": [1]}
    engine = virtual(scripted(ConnectionError("gone"), fallback=FallbackPolicy(value=value, on_failure=True))[1])
    first = await engine.invoke("t")
    first.data["items"].append(2)  # type: ignore[index,union-attr,call-overload]  # what a careless reader does
    assert (await engine.invoke("t")).data == {"items": [1]}


def test_the_last_good_result_of_a_tool_that_writes_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="read_only=True"):
        scripted("x", fallback="last_good")


# -- results --------------------------------------------------------------------------------------------------------


async def test_a_tools_own_response_passes_through_with_facts_added() -> None:
    own = ToolResponse.partial("half", data=[1], reason="truncated")
    _, invocation = await run(scripted(own)[1])
    response = invocation.response
    assert response is not None
    assert (response.status, response.text, response.data, response.reason) == (own.status, "half", [1], "truncated")
    assert response.context["tool"] == "t"


async def test_a_result_that_does_not_fit_the_output_schema_is_an_error_that_does_not_count() -> None:
    _, invocation = await run(
        scripted({"n": "x"}, output_schema={"type": "object", "properties": {"n": {"type": "integer"}}})[1]
    )
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.reason, invocation.error.counts) == (
        "EXECUTION_ERROR",
        "output_schema",
        False,
    )


async def test_error_responses_are_not_held_to_the_output_schema() -> None:
    _, invocation = await run(scripted(ToolResponse.error("CONFLICT", "no"), output_schema={"type": "string"})[1])
    assert invocation.error is not None
    assert invocation.error.code == "CONFLICT"


async def test_what_hooks_see_on_entering_a_state_is_settled() -> None:
    seen: list[tuple[str, int]] = []
    _, spec = scripted(ConnectionError("gone"), "ok", idempotent=True, retry=ONE_SECOND)
    await run(
        spec,
        hooks=[on_enter("RETRYING", lambda event: seen.append((event.model.error.code, len(event.model.attempts))))],
    )
    assert seen == [("NETWORK_ERROR", 1)]
