"""A batch that is watched while it runs: what its reader gets, in which order, and when the reader is slow or gone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fsm_engine import Event, GapEvent, RetryPolicy, Stages, ToolCall, ToolContext, ToolEngine, ToolExecutionEvent, tool
from fsm_engine.engine.stream import CHUNKS_KEPT, MAX_BACKLOG, MAX_BACKLOG_CHARS, EventBuffer

from .support import Watch, assert_ended, assert_told_in_full, idle, logged, play, until, virtual


@tool
async def echo(text: str) -> str:
    return text


@tool(timeout=None)
async def forever(ctx: ToolContext) -> None:
    ctx.report(0.1)
    await asyncio.get_running_loop().create_future()


@tool
async def steps(count: int, ctx: ToolContext) -> str:
    for number in range(count):
        ctx.report(number / count, f"step {number}")
        await ctx._attempt.invocation.clock.sleep(1.0)
    return "done"


async def read(run: Any) -> list[Event]:
    return [event async for event in run]


async def test_events_are_numbered_without_holes_and_each_call_has_one_end() -> None:
    engine = virtual(echo, steps)
    calls = [
        {"id": "a", "name": "steps", "arguments": {"count": 3}},
        {"id": "b", "name": "echo", "arguments": {"text": "hi"}},
        {"id": "c", "name": "nope"},
    ]
    async with engine.stream(calls) as run:
        events = await play(engine, read(run))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for invocation in run.invocations:
        assert_ended(invocation)
        assert run[invocation.uid] is invocation
        assert_told_in_full([event for event in events if event.uid == invocation.uid])  # type: ignore[attr-defined]  # all speak of calls
    ends = [(event.id, event.type) for event in events if event.type in ("tool_result", "tool_error")]  # type: ignore[attr-defined]  # the same
    assert ends == [("b", "tool_result"), ("c", "tool_error"), ("a", "tool_result")]


async def test_progress_arrives_while_the_tool_runs() -> None:
    engine = virtual(steps)
    async with engine.stream([ToolCall("steps", {"count": 5})]) as run:
        iterator = aiter(run)
        event = await anext(iterator)
        while not (isinstance(event, ToolExecutionEvent) and event.progress is not None):
            event = await anext(iterator)
        assert (event.message, run.invocations[0].is_final) == ("step 0", False)
        await play(engine, read(run))


async def test_the_stream_of_no_calls_ends_at_once() -> None:
    async with virtual(echo).stream([]) as run:
        assert await read(run) == []


async def test_leaving_the_block_early_cancels_what_runs_and_waits_for_it() -> None:
    engine = virtual(forever, echo)
    async with engine.stream([ToolCall("forever"), ToolCall("echo", {"text": "x"})]) as run:
        async for event in run:
            if event.type == "tool_result":
                break
    assert [each.state for each in run.invocations] == ["CANCELLED", "COMPLETED"]
    assert engine.running == ()
    rest = await read(run)
    assert rest[-1].type == "tool_error"


async def test_an_exception_in_the_block_cleans_up_and_passes() -> None:
    engine = virtual(forever)
    run = engine.stream([ToolCall("forever")])
    with pytest.raises(LookupError):
        async with run:
            raise LookupError
    assert run.invocations[0].state == "CANCELLED"


async def test_a_cancelled_reader_cleans_up() -> None:
    engine = virtual(forever)

    async def watch() -> None:
        async with engine.stream([ToolCall("forever")]) as run:
            await read(run)

    task = asyncio.create_task(watch())
    await idle()
    (invocation,) = engine.running
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert_ended(invocation)


async def test_one_call_of_a_stream_can_be_cancelled() -> None:
    engine = virtual(forever, echo)
    async with engine.stream([ToolCall("forever")]) as run:
        async for event in run:
            if getattr(event, "progress", None):
                run[event.uid].cancel("seen enough")  # type: ignore[attr-defined]  # progress speaks of a call
    assert "seen enough" in str(run.invocations[0].error)


async def test_a_stream_that_was_not_entered_or_is_entered_twice_says_so() -> None:
    """It would otherwise wait for ever, or run every call again."""
    run = virtual(echo).stream([ToolCall("echo", {"text": "x"})])
    with pytest.raises(RuntimeError, match="async with"):
        async for _ in run:
            pass
    async with run:
        await read(run)
    with pytest.raises(RuntimeError, match="entered once"):
        async with run:
            pass
    with pytest.raises(KeyError):
        run["no such uid"]


async def test_duplicate_ids_are_refused_in_a_stream_too() -> None:
    calls = [{"id": "a", "name": "echo", "arguments": {"text": str(number)}} for number in range(2)]
    async with virtual(echo).stream(calls) as run:
        events = await read(run)
    assert [event.type for event in events].count("tool_error") == 2


async def test_the_publish_stage_sees_the_events_of_a_stream_with_their_numbers() -> None:
    watch = Watch()
    async with virtual(echo, stages=Stages(publish=watch)).stream([ToolCall("echo", {"text": "x"})]) as run:
        events = await read(run)
    assert watch.events == events


async def test_a_publish_stage_that_raises_does_not_disturb_the_reader() -> None:
    def broken(event: Event) -> None:
        raise RuntimeError

    with logged():
        async with virtual(echo, stages=Stages(publish=broken)).stream([ToolCall("echo", {"text": "x"})]) as run:
            assert (await read(run))[-1].type == "tool_result"


async def test_a_vanished_reader_does_not_slow_the_tools_and_memory_is_bounded() -> None:
    """Scenario: 20,000 reports and as many chunks, and nobody reads until the end."""

    async def floods(ctx: ToolContext) -> str:
        for number in range(20_000):
            ctx.report(number)
            ctx.emit(number)
        return "done"

    engine = virtual(floods)
    async with engine.stream([ToolCall("floods")]) as run:
        await until(lambda: run.invocations[0].is_final)
        assert len(run._buffer) <= MAX_BACKLOG + CHUNKS_KEPT
        events = await read(run)
    assert events[0].type == "tool_call"
    assert events[-1].type == "tool_result"
    numbers = [event.seq for event in events]
    assert numbers == sorted(numbers)
    gaps = [event for event in events if isinstance(event, GapEvent)]
    assert sum(gap.missed for gap in gaps) == events[-1].seq - (len(events) - len(gaps))
    assert {event.status for event in events if isinstance(event, ToolExecutionEvent) and event.is_state_change} == {
        *("VALIDATING", "ADMITTING", "EXECUTING"),
    }


def state(seq: int) -> ToolExecutionEvent:
    return ToolExecutionEvent(seq, 0.0, "i", "u", "EXECUTING", 1)


def progress(seq: int, uid: str = "u") -> ToolExecutionEvent:
    return ToolExecutionEvent(seq, 0.0, "i", uid, "EXECUTING", 1, seq / 100)


def chunk(seq: int) -> ToolExecutionEvent:
    return ToolExecutionEvent(seq, 0.0, "i", "u", "EXECUTING", 1, chunk=str(seq))


async def drain(buffer: EventBuffer) -> list[Event]:
    buffer.close()
    events = []
    while (event := await buffer.get()) is not None:
        events.append(event)
    return events


async def test_progress_is_reduced_to_the_newest_of_each_call_and_a_gap_stands_where_the_rest_was() -> None:
    buffer = EventBuffer(limit=6)
    for event in (state(1), progress(2), progress(3, "v"), progress(4), state(5), progress(6), progress(7, "v")):
        buffer.put(event)
    events = await drain(buffer)
    assert [(event.type, event.seq) for event in events] == [
        ("tool_execution", 1),
        ("gap", 2),
        ("tool_execution", 5),
        ("tool_execution", 6),
        ("tool_execution", 7),
    ]
    assert [event.missed for event in events if isinstance(event, GapEvent)] == [3]


async def test_state_changes_are_never_dropped_however_many_there_are() -> None:
    buffer = EventBuffer(limit=3)
    for seq in range(1, 51):
        buffer.put(state(seq))
    assert [event.seq for event in await drain(buffer)] == list(range(1, 51))


async def test_a_second_thinning_adds_to_the_gap_of_the_first() -> None:
    buffer = EventBuffer(limit=2)
    for seq in range(1, 40):
        buffer.put(progress(seq))
    events = await drain(buffer)
    kept = [event for event in events if not isinstance(event, GapEvent)]
    gaps = [event for event in events if isinstance(event, GapEvent)]
    assert [gap.seq for gap in gaps] == [1]
    assert gaps[0].missed + len(kept) == 39
    assert kept[-1].seq == 39


async def test_the_newest_chunks_survive() -> None:
    buffer = EventBuffer(limit=CHUNKS_KEPT + 1)
    for seq in range(1, CHUNKS_KEPT + 3):
        buffer.put(chunk(seq))
    events = await drain(buffer)
    assert [event.seq for event in events] == [1, *range(3, CHUNKS_KEPT + 3)]
    assert isinstance(events[0], GapEvent)


async def test_a_report_that_says_nothing_is_a_sign_of_life_and_no_event() -> None:
    """It could not be told from a change of state, and would never be thinned out."""

    async def beats(ctx: ToolContext) -> str:
        for _ in range(5):
            ctx.report()
            ctx.emit(None)
        return "done"

    async with virtual(beats).stream([ToolCall("beats")]) as run:
        events = await read(run)
    assert [getattr(event, "status", event.type) for event in events].count("EXECUTING") == 1


async def test_what_a_tool_says_is_made_strict_json() -> None:
    import json

    async def odd(ctx: ToolContext) -> str:
        ctx.report(float("nan"), "words")
        ctx.report("half", object())  # type: ignore[arg-type]  # what a careless tool does
        ctx.report(10**400)
        ctx.report(0.5, "\ud800")
        ctx.emit({"when": {1, 2}, "nan": float("inf")})
        ctx.emit(object())
        return "done"

    async with virtual(odd).stream([ToolCall("odd")]) as run:
        events = await read(run)
    for event in events:
        json.dumps(event.to_dict(), allow_nan=False).encode()
    assert events[-1].type == "tool_result"


async def test_each_attempts_chunks_carry_its_number() -> None:
    @tool(idempotent=True, retry=RetryPolicy(max_retries=1))
    async def twice(ctx: ToolContext) -> str:
        ctx.emit(f"from {ctx.attempt}")
        if ctx.attempt == 1:
            raise ConnectionError
        return "done"

    engine = virtual(twice)
    async with engine.stream([ToolCall("twice")]) as run:
        events = await play(engine, read(run))
    chunks = [(event.attempt, event.chunk) for event in events if isinstance(event, ToolExecutionEvent) and event.chunk]
    assert chunks == [(1, "from 1"), (2, "from 2")]


async def test_threads_of_two_calls_may_talk_at_once() -> None:
    barrier = threading.Barrier(2)

    def talks(name: str, ctx: ToolContext) -> str:
        barrier.wait(10)
        for number in range(100):
            ctx.report(number, name)
        return name

    calls = [ToolCall("talks", {"name": name}) for name in "ab"]
    async with ToolEngine([talks]).stream(calls) as run:
        events = await read(run)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for name in "ab":
        said = [event.progress for event in events if getattr(event, "message", None) == name]  # type: ignore[attr-defined]  # just looked at
        assert said == list(range(100))


@pytest.mark.parametrize("piece", ["x" * 100_000, ["x" * 1_000] * 100], ids=["text", "list"])
async def test_pieces_that_nobody_reads_are_bounded_by_their_size(piece: Any) -> None:
    """Far fewer of them than the backlog allows."""
    buffer = EventBuffer()
    for number in range(1, 501):
        buffer.put(ToolExecutionEvent(number, 0.0, "i", "u", "EXECUTING", 1, chunk=piece))
        if number == 250:
            buffer.put(ToolExecutionEvent(number, 0.0, "i", "u", "RETRYING", 1))
    buffer.close()
    left = [event async for event in aiter_of(buffer)]
    chunks = [event for event in left if isinstance(event, ToolExecutionEvent) and event.chunk is not None]
    assert 0 < len(chunks) * 100_000 <= MAX_BACKLOG_CHARS
    assert [event for event in left if isinstance(event, ToolExecutionEvent) and event.status == "RETRYING"]


async def aiter_of(buffer: EventBuffer) -> AsyncIterator[Event]:
    while (event := await buffer.get()) is not None:
        yield event
