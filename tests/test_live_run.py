"""Work in a task of its own: it ends with one `run_ended`, whatever happens, and not before its calls have."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fsm_engine import Ending, Event, LiveRun, RunEnd, RunEndedEvent, Stages, ToolErrorCode, tool

from .support import Watch, assert_told_in_full, idle, logged, virtual


@tool
async def echo(text: str) -> str:
    return text


@tool(timeout=None)
async def forever() -> None:
    await asyncio.get_running_loop().create_future()


async def read(run: LiveRun) -> list[Event]:
    return [event async for event in run]


def last(events: list[Event]) -> RunEndedEvent:
    assert [event.type for event in events].count("run_ended") == 1
    end = events[-1]
    assert isinstance(end, RunEndedEvent)
    return end


async def test_calls_run_side_by_side_and_any_number_of_readers_see_the_same() -> None:
    run = LiveRun.of_calls(virtual(echo), [{"id": i, "name": "echo", "arguments": {"text": i}} for i in "abc"])
    first, second = await asyncio.gather(read(run), read(run))
    assert first == second
    assert [event.seq for event in first] == list(range(1, len(first) + 1))
    assert last(first).reason == run.reason == RunEnd.DONE
    for invocation in run.invocations:
        assert run.invocation(invocation.uid) is invocation
        assert_told_in_full([event for event in first if getattr(event, "uid", None) == invocation.uid])
    with pytest.raises(KeyError):
        run.invocation("no such uid")


async def test_the_engines_publish_stage_sees_the_same_events_with_their_numbers() -> None:
    watch = Watch()
    run = LiveRun.of_calls(virtual(echo, stages=Stages(publish=watch)), [{"name": "echo", "arguments": {"text": "x"}}])
    assert watch.events == (await read(run))[:-1]
    assert watch.events


async def test_calls_that_share_an_id_are_refused() -> None:
    calls = [{"id": i, "name": "echo", "arguments": {"text": "x"}} for i in ("a", "a", "b", None, None)]
    run = LiveRun.of_calls(virtual(echo), calls)
    await run.wait()
    assert [each.state for each in run.invocations] == ["FAILED", "FAILED", "COMPLETED", "COMPLETED", "COMPLETED"]
    assert all(each.attempts == [] for each in run.invocations[:2])


async def test_nothing_runs_before_it_begins_and_nobody_need_read() -> None:
    run = LiveRun.of_calls(virtual(echo), [{"name": "echo", "arguments": {"text": "x"}}])
    await idle()
    assert (run.invocations, run.is_over) == ((), False)
    assert await run.wait() == RunEnd.DONE
    assert run.is_over


async def test_leaving_the_block_cancels_what_runs_and_waits_for_it() -> None:
    engine = virtual(forever)
    async with LiveRun.of_calls(engine, [{"name": "forever"}]) as run:
        async for event in run:
            if getattr(event, "status", None) == "EXECUTING":
                break
    assert engine.running == ()
    end = last(await read(run))
    assert (end.reason, end.message) == ("cancelled", "its block was left")
    assert run.invocations[0].state == "CANCELLED"


async def test_a_reader_that_leaves_does_not_end_the_run() -> None:
    run = LiveRun.of_calls(virtual(echo), [{"name": "echo", "arguments": {"text": "x"}}])
    waiting = asyncio.create_task(run.wait())
    async for _ in run:
        break
    waiting.cancel()
    assert await run.wait() == RunEnd.DONE


@pytest.mark.parametrize("begun", [False, True])
async def test_a_run_can_be_cancelled_once_with_a_reason(begun: bool) -> None:
    """Before its first step, too: its readers would otherwise wait for ever."""
    run = LiveRun.of_calls(virtual(forever), [{"name": "forever"}])
    if begun:
        run.begin()
        await idle()
    assert run.cancel("user_left", "the page was closed")
    assert not run.cancel("again")
    end = last(await read(run))
    assert (end.reason, end.message) == ("user_left", "the page was closed")
    assert not run.cancel()
    assert [each.state for each in run.invocations] == ["CANCELLED"] * begun


async def test_calls_of_work_that_has_ended_are_waited_for_and_can_be_cancelled() -> None:
    run = LiveRun.of_calls(virtual(forever), [{"name": "forever"}])
    run.begin()
    await idle()
    (invocation,) = run.invocations
    assert not run.is_over
    invocation.cancel("enough")
    assert await run.wait() == RunEnd.DONE


def test_a_loop_that_shuts_down_ends_the_run_and_is_not_held_up() -> None:
    runs = []

    async def main() -> None:
        for begun in (True, False):
            run = LiveRun.of_calls(virtual(forever), [{"name": "forever"}])
            run.begin()
            runs.append(run)
            if begun:
                await idle()

    asyncio.run(main())
    assert [run.reason for run in runs] == ["cancelled", "cancelled"]
    assert all(run.log.is_closed for run in runs)
    assert runs[0]._task is not None
    assert runs[0]._task.cancelled()


async def test_a_second_cancellation_does_not_leave_calls_running() -> None:
    @tool(timeout=None)
    async def cleans_up() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    run = LiveRun.of_calls(virtual(cleans_up), [{"name": "cleans_up"}])
    run.begin()
    await idle()
    run.cancel()
    await asyncio.sleep(0)
    assert run._task is not None
    run._task.cancel()
    assert await run.wait() == RunEnd.CANCELLED
    assert run._task.cancelled()
    assert run.invocations[0].is_final


async def failing(run: LiveRun) -> None:
    run.start_call({"name": "forever"})
    await idle()
    raise ValueError("password=hunter2")


async def uncalled_for(run: LiveRun) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize(("work", "name"), [(failing, "ValueError"), (uncalled_for, "CancelledError")])
async def test_work_that_raises_ends_the_run_and_its_calls_and_tells_nobody_a_secret(
    work: Callable[[LiveRun], Awaitable[Ending | None]], name: str
) -> None:
    with logged() as lines:
        run = LiveRun(virtual(forever), work)
        end = last(await read(run))
    assert (end.reason, end.message) == ("error", f"{ToolErrorCode.EXECUTION_ERROR} ({name})")
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["run failed"]
    assert all(each.state == "CANCELLED" for each in run.invocations)


def test_an_interrupt_ends_the_log_and_passes_through_the_loop() -> None:
    async def work(run: LiveRun) -> None:
        raise KeyboardInterrupt

    runs = []

    async def main() -> None:
        runs.append(LiveRun(virtual(), work))
        await runs[0].wait()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert runs[0].reason == "cancelled"
    assert runs[0].log.is_closed
