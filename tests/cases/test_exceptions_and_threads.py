"""Public bug reports about exceptions, cancellation, timeouts and threads, turned into tests.

=====  =============================================================================================
row    test
=====  =============================================================================================
45     test_case_045_a_cancelled_caller_gets_a_recorded_end_and_its_cancellation
45     test_case_045_a_cancelled_error_that_a_tool_raises_is_a_failure_of_the_tool
46     test_case_046_a_stream_ends_when_its_call_is_cancelled_in_the_middle
49     test_case_049_a_call_that_fails_costs_its_siblings_nothing
53     test_case_053_a_time_limit_ends_the_wait_for_a_blocking_tool
54     test_case_054_a_time_limit_does_not_leak_into_the_tools_that_a_tool_calls
55     test_case_055_threads_are_bounded_whatever_comes_and_can_be_counted
56     test_case_056_blocking_tools_run_side_by_side
57     test_case_057_a_blocking_tool_that_ends_too_late_is_reported_and_changes_nothing
60     test_case_060_every_one_of_several_calls_sees_the_callers_context
61     test_case_061_what_a_tool_sets_in_its_context_reaches_no_sibling
62     test_case_062_the_synchronous_way_works_again_and_again_whatever_loop_was_closed
65     test_case_065_what_a_watcher_raises_never_hangs_a_call
=====  =============================================================================================
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from fsm_engine import Stages, ToolCall, ToolContext, ToolEngine, ToolInvocation, ToolSpec, on_enter, tool

from ..support import Stuck, assert_ended, assert_told_in_full, idle, logged, now, play, until, virtual


async def finished(invocation: ToolInvocation) -> ToolInvocation:
    return await invocation


class Endless:
    """A coroutine tool that waits for ever, and remembers whether it was cancelled."""

    def __init__(self) -> None:
        self.was_cancelled = False

    async def wait(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


async def test_case_045_a_cancelled_caller_gets_a_recorded_end_and_its_cancellation() -> None:
    endless = Endless()
    engine = virtual(ToolSpec(name="wait", func=endless.wait))
    caller = asyncio.create_task(engine.execute_tool_calls([ToolCall("wait", {}, "c1")]))
    await idle()
    [invocation] = engine.running
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert endless.was_cancelled
    assert_ended(invocation)
    assert invocation.state == "CANCELLED"
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.effect) == ("CANCELLED", "unknown")


async def test_case_045_a_cancelled_error_that_a_tool_raises_is_a_failure_of_the_tool() -> None:
    async def raises() -> None:
        raise asyncio.CancelledError

    async def awaits_a_cancelled_task() -> None:
        task = asyncio.ensure_future(asyncio.sleep(0))
        task.cancel()
        await task

    engine = virtual(raises, awaits_a_cancelled_task)
    for invocation in await engine.execute_tool_calls([ToolCall("raises"), ToolCall("awaits_a_cancelled_task")]):
        assert invocation.path[-2:] == ("EXECUTING", "FAILED")
        assert invocation.error is not None
        assert (invocation.error.code, invocation.error.exception_type) == ("EXECUTION_ERROR", "CancelledError")


async def test_case_046_a_stream_ends_when_its_call_is_cancelled_in_the_middle() -> None:
    engine = virtual(ToolSpec(name="wait", func=Endless().wait))
    async with engine.stream([ToolCall("wait")]) as run:
        events = []
        async for event in run:  # ends by itself
            events.append(event)
            if getattr(event, "status", "") == "EXECUTING":
                await idle()
                assert run.invocations[0].cancel("enough")
    assert_told_in_full(events)
    assert events[-1].type == "tool_error"
    assert engine.running == ()


async def test_case_049_a_call_that_fails_costs_its_siblings_nothing() -> None:
    async def good(n: int) -> int:
        return n

    async def bad() -> None:
        raise RuntimeError("no")

    async def worse() -> None:
        raise SystemExit(3)

    engine = virtual(good, bad, worse)
    calls = [
        ToolCall("good", {"n": 1}),
        ToolCall("bad"),
        ToolCall("worse"),
        ToolCall("nope"),
        ToolCall("good", {"n": 2}),
    ]
    invocations = await engine.execute_tool_calls(calls)
    assert [invocation.result for invocation in invocations] == [1, None, None, None, 2]
    for invocation in invocations:
        assert_ended(invocation)


async def test_case_053_a_time_limit_ends_the_wait_for_a_blocking_tool() -> None:
    stuck = Stuck()
    engine = virtual(ToolSpec(name="block", func=stuck.__call__, timeout=0.2))
    invocation = await play(engine, engine.execute_tool_call(ToolCall("block")), stuck)
    assert now(engine) <= 0.2 + 1.0, "the limit, and the grace of a cancelled attempt"
    assert invocation.state == "FAILED"
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.effect) == ("TIMEOUT", "unknown")
    assert stuck.count == 1, "the thread itself cannot be stopped"
    assert engine.threads.abandoned == 1
    stuck.let_go()
    await until(lambda: engine.threads.busy == 0)


async def test_case_054_a_time_limit_does_not_leak_into_the_tools_that_a_tool_calls() -> None:
    seen: list[tuple[float | None, float | None]] = []

    @tool(timeout=None)
    def inner(ctx: ToolContext) -> str:
        seen.append((ctx.deadline, ctx.remaining))
        return "whole"

    @tool(timeout=5.0)
    async def outer(ctx: ToolContext) -> str:
        seen.append((ctx.deadline, ctx.remaining))
        return (await engine.invoke("inner")).text

    engine = virtual(inner, outer)
    assert (await engine.invoke("outer")).text == "whole"
    assert seen == [(5.0, 5.0), (None, None)]


async def test_case_055_threads_are_bounded_whatever_comes_and_can_be_counted() -> None:
    stuck, peak = Stuck(), 0
    lock, at_work = threading.Lock(), 0

    def work(n: int) -> int:
        nonlocal at_work, peak
        with lock:
            at_work += 1
            peak = max(peak, at_work)
        stuck()
        with lock:
            at_work -= 1
        return n

    engine = ToolEngine([tool(max_concurrency=100)(work)], max_threads=4)
    batch = asyncio.create_task(engine.execute_tool_calls([ToolCall("work", {"n": n}) for n in range(40)]))
    await until(lambda: stuck.count == 4 and engine.threads.waiting == 36)
    assert (engine.threads.limit, engine.threads.busy, engine.threads.abandoned) == (4, 4, 0)
    stuck.let_go()
    assert [invocation.result for invocation in await batch] == list(range(40))
    assert peak == 4
    assert (engine.threads.busy, engine.threads.waiting) == (0, 0)


async def test_case_056_blocking_tools_run_side_by_side() -> None:
    """Each waits for the other; one after the other they would wait for ever."""
    meeting = threading.Barrier(2)

    def meet() -> str:
        meeting.wait(30)
        return "met"

    engine = ToolEngine([meet])
    invocations = await engine.execute_tool_calls([ToolCall("meet"), ToolCall("meet")])
    assert [invocation.result for invocation in invocations] == ["met", "met"]


async def test_case_057_a_blocking_tool_that_ends_too_late_is_reported_and_changes_nothing() -> None:
    stuck = Stuck()

    def block() -> str:
        stuck()
        return "much too late"

    with logged() as lines:
        engine = virtual(ToolSpec(name="block", func=block, timeout=0.2))
        alerts: list[Any] = []
        engine.on_alert(alerts.append)
        invocation = await play(engine, engine.execute_tool_call(ToolCall("block")), stuck)
        answer = invocation.response
        stuck.let_go()
        await until(lambda: any(alert.kind == "late_result" for alert in alerts))
    assert invocation.response is answer
    assert "much too late" not in str(answer)
    assert [line["uid"] for line in lines if line["event"] == "late_result_discarded"] == [invocation.uid]


span: ContextVar[str] = ContextVar("span", default="orphaned")


async def spoken() -> str:
    await asyncio.sleep(0)
    return span.get()


def blocking() -> str:
    return span.get()


def pieces() -> Any:
    yield span.get()


@pytest.mark.parametrize("function", [spoken, blocking, pieces])
async def test_case_060_every_one_of_several_calls_sees_the_callers_context(function: Callable[..., Any]) -> None:
    span.set("parent")
    invocations = await ToolEngine([function]).execute_tool_calls([ToolCall(function.__name__) for _ in range(3)])
    assert [invocation.result for invocation in invocations] == ["parent"] * 3


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
async def test_case_061_what_a_tool_sets_in_its_context_reaches_no_sibling(kind: str) -> None:
    meeting = threading.Barrier(2)

    def blocks(name: str) -> str:
        span.set(name)
        meeting.wait(30)  # both have set theirs
        return span.get()

    async def waits(name: str) -> str:
        span.set(name)
        await asyncio.sleep(0)
        return span.get()

    span.set("caller")
    function = blocks if kind == "thread" else waits
    calls = [ToolCall(function.__name__, {"name": name}) for name in ("a", "b")]
    invocations = await ToolEngine([function]).execute_tool_calls(calls)
    assert [invocation.result for invocation in invocations] == ["a", "b"]
    assert span.get() == "caller"


def test_case_062_the_synchronous_way_works_again_and_again_whatever_loop_was_closed() -> None:
    async def add(a: int) -> int:
        await asyncio.sleep(0)
        return a + 1

    closed = asyncio.new_event_loop()
    asyncio.set_event_loop(closed)
    closed.close()
    try:
        engine = ToolEngine([add])
        assert [engine.execute_tool_call_sync(ToolCall("add", {"a": a})).result for a in range(3)] == [1, 2, 3]
        assert [each.result for each in engine.execute_tool_calls_sync([ToolCall("add", {"a": 9})])] == [10]
        engine.close()
    finally:
        asyncio.set_event_loop(None)


def raises(error: BaseException) -> Callable[..., None]:
    def watch(*_: object) -> None:
        raise error

    return watch


@pytest.mark.parametrize("error", [asyncio.CancelledError(), RuntimeError("no"), SystemExit(1)], ids=repr)
@pytest.mark.parametrize("where", ["publish", "hook", "alert"])
async def test_case_065_what_a_watcher_raises_never_hangs_a_call(where: str, error: BaseException) -> None:
    settings: dict[str, Any] = {
        "publish": {"stages": Stages(publish=raises(error))},
        "hook": {"hooks": [on_enter("EXECUTING", raises(error)), on_enter("COMPLETED", raises(error))]},
        "alert": {},
    }[where]

    async def ping() -> str:
        return "pong"

    with logged():
        engine = virtual(ping, **settings)
        engine.on_alert(raises(error))
        async with engine.stream([ToolCall("ping"), ToolCall("ping")]) as run:
            events = [event async for event in run]
    assert [invocation.result for invocation in run.invocations] == ["pong", "pong"]
    for invocation in run.invocations:
        assert_told_in_full([event for event in events if getattr(event, "uid", "") == invocation.uid])
