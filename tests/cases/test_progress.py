"""Public bug reports about progress and parallel calls, turned into tests.

=====  =============================================================================================
row    test
=====  =============================================================================================
124    test_case_124_what_is_said_just_before_the_return_comes_before_the_result
125    test_case_125_a_call_that_reports_lives_as_long_as_its_whole_limit_allows
125    test_case_125_silence_and_the_whole_are_two_limits_and_the_error_says_which_one
126    test_case_126_every_event_says_which_call_it_speaks_of
129    test_case_129_a_limit_on_concurrency_holds_however_the_calls_come
=====  =============================================================================================
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from fsm_engine import Event, ToolCall, ToolContext, ToolEngine, ToolExecutionEvent, ToolInvocation, ToolSpec, tool

from ..support import assert_told_in_full, now, play, virtual


async def watched(engine: ToolEngine, *calls: ToolCall) -> list[Event]:
    async with engine.stream(calls) as run:
        return [event async for event in run]


async def coroutine(ctx: ToolContext) -> str:
    ctx.report(1.0, "done")
    return "result"


def thread(ctx: ToolContext) -> str:
    ctx.report(1.0, "done")
    return "result"


@pytest.mark.parametrize("function", [coroutine, thread])
async def test_case_124_what_is_said_just_before_the_return_comes_before_the_result(
    function: Callable[..., Any],
) -> None:
    engine = virtual(function)
    for _ in range(20):
        events = await watched(engine, ToolCall(function.__name__))
        assert_told_in_full(events)
        progress = events[-2]
        assert isinstance(progress, ToolExecutionEvent)
        assert (progress.progress, progress.message) == (1.0, "done")


def stepping(steps: int, every: float, **settings: Any) -> ToolEngine:
    """A tool that reports so many times, so many seconds apart, and then falls silent for as long as that."""

    async def work(ctx: ToolContext) -> str:
        for step in range(steps):
            await engine.clock.sleep(every)
            ctx.report(step / steps)
        await engine.clock.sleep(every)
        return "done"

    engine = virtual(ToolSpec(name="work", func=work, **settings))
    return engine


async def test_case_125_a_call_that_reports_lives_as_long_as_its_whole_limit_allows() -> None:
    engine = stepping(30, 3.0, idle_timeout=10.0, timeout=120.0)
    assert (await play(engine, engine.invoke("work"))).text == "done"
    assert now(engine) == 93.0


@pytest.mark.parametrize(
    ("steps", "every", "reason", "at"),
    [(2, 12.0, "idle", 10.0), (100, 3.0, "timeout", 60.0)],
    ids=["silent", "too long in all"],
)
async def test_case_125_silence_and_the_whole_are_two_limits_and_the_error_says_which_one(
    steps: int, every: float, reason: str, at: float
) -> None:
    engine = stepping(steps, every, idle_timeout=10.0, timeout=60.0)
    response = await play(engine, engine.invoke("work"))
    assert response.error_info is not None
    assert (response.error_info.code, response.error_info.reason) == ("TIMEOUT", reason)
    assert f"{10 if reason == 'idle' else 60} s" in response.error_info.message
    assert now(engine) == at


async def test_case_126_every_event_says_which_call_it_speaks_of() -> None:
    async def work(n: int, ctx: ToolContext) -> int:
        for step in range(3):
            ctx.report(step, f"call {n}")
            await asyncio.sleep(0)
        return n

    engine = virtual(work)
    calls = [ToolCall("work", {"n": n}, f"c{n}") for n in (1, 2)]
    async with engine.stream(calls) as run:
        events = [event async for event in run]
        uids = [invocation.uid for invocation in run.invocations]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    said = [event for event in events if isinstance(event, ToolExecutionEvent) and event.message]
    assert {event.uid for event in said} == set(uids)
    for event in said:
        assert event.message == f"call {uids.index(event.uid) + 1}"
    assert any(one.uid != next_one.uid for one, next_one in itertools.pairwise(said)), "they are interleaved"


@pytest.mark.parametrize("how", ["batch", "stream", "started", "invoked", "synchronous"])
@pytest.mark.parametrize("where", ["tool", "engine"])
def test_case_129_a_limit_on_concurrency_holds_however_the_calls_come(how: str, where: str) -> None:
    at_work = peak = 0

    @tool(max_concurrency=2 if where == "tool" else None)
    async def work(n: int) -> int:
        nonlocal at_work, peak
        at_work += 1
        peak = max(peak, at_work)
        for _ in range(5):
            await asyncio.sleep(0)
        at_work -= 1
        return n

    engine = ToolEngine([work], max_concurrency=2 if where == "engine" else None)
    calls = [ToolCall("work", {"n": n}) for n in range(8)]

    async def run() -> list[Any]:
        if how == "batch":
            return [each.result for each in await engine.execute_tool_calls(calls)]
        if how == "stream":
            async with engine.stream(calls) as stream:
                async for _ in stream:
                    pass
            return [each.result for each in stream.invocations]
        if how == "started":
            started: list[ToolInvocation] = [engine.start(call) for call in calls]
            return [(await each).result for each in started]
        return [each.data for each in await asyncio.gather(*(engine.invoke("work", {"n": n}) for n in range(8)))]

    if how == "synchronous":
        results = [each.result for each in engine.execute_tool_calls_sync(calls)]
        engine.close()
    else:
        results = asyncio.run(run())
    assert results == list(range(8))
    assert peak == 2
