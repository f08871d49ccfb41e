"""A stop that was accepted is heard everywhere: nothing begins after it, what was begun is closed, what was said is kept."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from fsm_engine import (
    Agent,
    AgentRun,
    CallStream,
    LiveRun,
    RunEnd,
    RunFailedError,
    RunStore,
    ToolContext,
    ToolEngine,
    VirtualClock,
    tool,
)

from .support import idle, logged, play, until, virtual

Chunk = dict[str, Any]


def piece(index: int, call_id: str, name: str, arguments: str) -> Chunk:
    function = {"name": name, "arguments": arguments}
    return {"choices": [{"delta": {"tool_calls": [{"index": index, "id": call_id, "function": function}]}}]}


END: Chunk = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
SAID: Chunk = {"choices": [{"delta": {"content": "done"}, "finish_reason": "stop"}]}
ran: list[int] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


@tool
async def pay(number: int) -> int:
    ran.append(number)
    return number


@tool(timeout=None)
async def forever() -> None:
    await asyncio.get_running_loop().create_future()


def assert_history_is_valid(messages: list[Any]) -> None:
    """Each call that the model has asked for has its answer, right behind it."""
    for place, message in enumerate(messages):
        asked = [each["id"] for each in message.get("tool_calls") or ()]
        answers = messages[place + 1 : place + 1 + len(asked)]
        assert [each.get("tool_call_id") for each in answers] == asked


async def by_task(run: AgentRun, engine: ToolEngine) -> None:
    assert run.cancel()


async def by_thread(run: AgentRun, engine: ToolEngine) -> None:
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(run.cancel()))
    thread.start()
    thread.join()
    assert answers == [True]


async def by_signal(run: AgentRun, engine: ToolEngine) -> None:
    before = signal.signal(signal.SIGUSR1, lambda *_: run.cancel())
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


async def by_closing(run: AgentRun, engine: ToolEngine) -> None:
    engine._door.close()  # as another thread leaves it that has just begun to close


async def by_limit(run: AgentRun, engine: ToolEngine) -> None:
    assert isinstance(engine.clock, VirtualClock)
    engine.clock.advance(60)


@pytest.mark.parametrize("swallows", [False, True])
@pytest.mark.parametrize("stop", [by_task, by_thread, by_signal, by_closing, by_limit])
async def test_after_a_stop_no_call_begins_and_no_turn_is_asked_for(stop: Callable[..., Any], swallows: bool) -> None:
    """However it comes, with twenty calls lying ready, and whether the model listens or not."""
    turns = []
    engine = virtual(pay)

    async def model(messages: Any, tools: Any) -> AsyncIterator[Chunk]:
        turns.append(len(messages))
        yield piece(0, "c0", "pay", '{"number": 0}')
        await until(lambda: ran)
        await stop(run, engine)
        for number in range(1, 20):
            try:
                if number == 10:
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                if not swallows:
                    raise
            yield piece(number, f"c{number}", "pay", f'{{"number": {number}}}')
        yield END

    run = Agent(engine, model, max_seconds=60).run("Pay.")
    reason = await run.wait()
    assert reason == (RunEnd.MAX_SECONDS if stop is by_limit else RunEnd.CANCELLED)
    assert ran == [0]
    assert turns == [1]
    assert [each["role"] for each in run.messages][:3] == ["user", "assistant", "tool"]
    assert run.messages[2]["content"] == "0"
    assert_history_is_valid(run.messages)


async def test_a_tool_that_stops_the_run_as_the_first_call_of_its_message_is_the_last_to_run() -> None:
    @tool
    async def halt() -> str:
        run.cancel("halted")
        ran.append(-1)
        return "halted"

    async def model(messages: Any, tools: Any) -> AsyncIterator[Chunk]:
        yield piece(0, "h", "halt", "{}")
        await asyncio.sleep(0)
        for number in range(1, 5):
            yield piece(number, f"c{number}", "pay", f'{{"number": {number}}}')
        yield END

    run = Agent(virtual(halt, pay), model).run("Go.")
    assert await run.wait() == "halted"
    assert ran == [-1]
    assert_history_is_valid(run.messages)


async def test_calls_of_one_chunk_after_the_stop_are_answered_and_not_run() -> None:
    async def work(run: LiveRun) -> None:
        run.start_call({"name": "pay", "arguments": {"number": 1}})
        await idle()
        run.cancel()
        run.start_call({"name": "pay", "arguments": {"number": 2}})

    run = LiveRun(virtual(pay), work)
    await run.wait()
    assert ran == [1]
    assert [each.state for each in run.invocations] == ["COMPLETED", "CANCELLED"]
    assert run.invocations[1].attempts == []


async def test_a_stream_that_was_stopped_before_it_is_entered_runs_nothing() -> None:
    stream = virtual(pay).stream([{"name": "pay", "arguments": {"number": 1}}])
    assert isinstance(stream, CallStream)
    assert stream.cancel()
    assert not stream.cancel()
    async with stream:
        assert [event.type async for event in stream] == ["tool_call", "tool_error"]
    assert ran == []


@pytest.mark.parametrize("kind", ["stream", "run"])
async def test_a_cancelled_reader_gets_nothing_of_what_lies_ready(kind: str) -> None:
    got = []

    async def talks(ctx: ToolContext) -> None:
        for number in range(200):
            ctx.emit(number)

    engine = virtual(talks)
    calls = [{"name": "talks"}]

    async def read() -> None:
        async with engine.stream(calls) if kind == "stream" else LiveRun.of_calls(engine, calls) as group:
            await until(lambda: group.invocations and group.invocations[0].is_final)
            async for event in group:
                got.append(event)
                if len(got) == 3:
                    reader.cancel()

    reader = asyncio.create_task(read())
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert len(got) == 3


async def test_a_model_that_does_not_listen_is_left_behind_when_the_time_is_up() -> None:
    """After the engine's grace, and the reason is the time, not the model."""
    gate = asyncio.Event()

    async def deaf(messages: Any, tools: Any) -> AsyncIterator[Chunk]:
        yield piece(0, "c", "pay", '{"number": 1')
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        yield SAID

    engine = ToolEngine([pay], clock=VirtualClock(), cancel_grace=2.0)
    run = Agent(engine, deaf, max_seconds=10).run("Go.")
    with logged():
        assert await play(engine, run.wait()) == RunEnd.MAX_SECONDS
    assert engine.clock.monotonic() == pytest.approx(12.0)
    types = [event.type async for event in run]
    gate.set()
    await idle()
    assert types[-2:] == ["tool_error", "run_ended"]
    assert_history_is_valid(run.messages)


async def test_a_model_that_holds_up_the_loop_past_the_time_ends_by_the_time() -> None:
    async def blocks(messages: Any, tools: Any) -> AsyncIterator[Chunk]:
        clock.advance(20)
        yield SAID

    clock = VirtualClock()
    run = Agent(virtual(pay), blocks, max_seconds=10)
    run.engine.clock = clock
    assert await run.run("Go.").wait() == RunEnd.MAX_SECONDS


@pytest.mark.parametrize("how", ["cancelled", "raises", "broken off", "time is up"])
async def test_arguments_that_were_being_written_have_an_end_and_the_history_its_answer(how: str) -> None:
    engine = virtual(pay)

    async def model(messages: Any, tools: Any) -> AsyncIterator[Chunk]:
        yield {"choices": [{"delta": {"content": "Let me pay."}}]}
        yield piece(0, "c", "pay", '{"number": ')
        if how == "raises":
            raise ConnectionError
        if how == "cancelled":
            run.cancel()
        if how != "broken off":
            await asyncio.get_running_loop().create_future()

    run = Agent(engine, model, max_seconds=5).run("Go.")
    with logged():
        await play(engine, run.wait())
    events = [event async for event in run]
    about = [event.type for event in events if getattr(event, "id", None) == "c"]
    assert [about[0], about[1], about[-1], about.count("tool_error")] == [
        "tool_arguments",
        "tool_call",
        "tool_error",
        1,
    ]
    assert [event.content for event in events if event.type == "thinking"] == ["Let me pay.", "Let me pay."]  # type: ignore[attr-defined]  # it has
    assert [each["role"] for each in run.messages] == ["user", "assistant", "tool"]
    assert_history_is_valid(run.messages)
    assert ran == []


# -- who began it ----------------------------------------------------------------------------------------------------


async def by_async_for(run: LiveRun) -> None:
    async for _ in run:
        pass


async def by_wait(run: LiveRun) -> None:
    await run.wait()


async def by_await(run: LiveRun) -> None:
    await run


async def by_block(run: LiveRun) -> None:
    async with run:
        await run.wait()


async def in_a_child_task(run: LiveRun) -> None:
    await asyncio.create_task(by_wait(run))


async def left_early(run: LiveRun) -> None:
    async for _ in run:
        break
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("end", ["cancel", "time"])
@pytest.mark.parametrize("form", [by_async_for, by_wait, by_await, by_block, in_a_child_task, left_early])
async def test_a_run_that_is_begun_in_a_tool_ends_with_the_tools_call(form: Callable[..., Any], end: str) -> None:
    inner = virtual(forever)
    runs = []

    @tool(timeout=30)
    async def outer() -> None:
        runs.append(LiveRun.of_calls(inner, [{"name": "forever"}]))
        await form(runs[0])

    engine = virtual(outer)
    invocation = engine.start({"name": "outer"})
    await until(lambda: runs and inner.running)
    if end == "cancel":
        invocation.cancel()
    await play(engine, invocation)
    await runs[0].wait()
    assert invocation.state == ("CANCELLED" if end == "cancel" else "FAILED")
    assert (runs[0].reason, inner.running) == ("cancelled", ())


async def test_a_run_that_is_begun_in_a_tools_thread_ends_with_the_tools_call() -> None:
    runs: list[LiveRun] = []

    @tool(timeout=None)
    def outer() -> str:
        async def main() -> str:
            runs.append(LiveRun.of_calls(ToolEngine([forever]), [{"name": "forever"}]))
            return await runs[0].wait()

        return asyncio.run(main())

    engine = ToolEngine([outer])
    invocation = engine.start({"name": "outer"})
    await until(lambda: runs and runs[0].invocations)
    invocation.cancel()
    await invocation
    await until(lambda: runs[0].is_over)
    assert runs[0].message == "the call that began it is over"


@pytest.mark.parametrize("form", ["call", "calls", "invoke", "agent"])
async def test_what_a_tools_thread_has_begun_by_a_synchronous_form_ends_with_the_tools_call(form: str) -> None:
    async def asks(messages: Any, tools: Any) -> AsyncIterator[Chunk]:
        yield piece(0, "c", "forever", "{}")
        yield END

    inner = ToolEngine([forever])
    left = threading.Event()

    @tool(timeout=None)
    def outer() -> None:
        try:
            if form == "call":
                inner.execute_tool_call_sync({"name": "forever"})
            elif form == "calls":
                inner.execute_tool_calls_sync([{"name": "forever"}, {"name": "forever"}])
            elif form == "invoke":
                inner.invoke_sync("forever")
            else:
                Agent(inner, asks).run_sync("Go.")
        finally:
            left.set()

    async with ToolEngine([outer]) as engine:
        invocation = engine.start({"name": "outer"})
        await until(lambda: inner.running and inner.running[0].attempts)
        invocation.cancel()
        await invocation
        await until(left.is_set)
        await until(lambda: not inner.running)
    await inner.aclose()


async def test_a_run_in_a_store_outlives_the_tool_that_began_it() -> None:
    inner = virtual(forever)
    store = RunStore(inner)

    @tool
    async def outer() -> str:
        return store.start(LiveRun.of_calls(inner, [{"name": "forever"}])).id

    async with virtual(outer) as engine:
        begun = store.find((await engine.invoke("outer")).text)
    await idle()
    assert begun is not None
    assert not begun.is_over
    await store.aclose()


# -- what a tool can wait for ----------------------------------------------------------------------------------------


async def test_a_tool_in_a_thread_can_wait_for_its_cancellation() -> None:
    heard: list[bool] = []

    @tool(timeout=None)
    def waits(ctx: ToolContext) -> None:
        heard.append(ctx.wait_cancelled(0.0))
        heard.append(ctx.wait_cancelled())

    engine = ToolEngine([waits])
    invocation = engine.start({"name": "waits"})
    await until(lambda: heard == [False])
    invocation.cancel()
    await invocation
    await until(lambda: len(heard) == 2)
    assert heard == [False, True]


async def test_what_a_coroutine_has_beside_it_can_wait_for_its_cancellation() -> None:
    steps = []

    @tool(timeout=None)
    async def waits(ctx: ToolContext) -> None:
        async def beside() -> None:
            await ctx.when_cancelled()
            steps.append(ctx.cancelled)

        task = asyncio.create_task(beside())
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await task

    engine = virtual(waits)
    invocation = engine.start({"name": "waits"})
    await idle()
    invocation.cancel()
    await invocation
    assert steps == [True]


async def test_waiting_for_the_cancellation_in_the_loop_is_refused_with_the_other_word() -> None:
    @tool
    async def waits(ctx: ToolContext) -> None:
        ctx.wait_cancelled()

    with logged():
        response = await virtual(waits).invoke("waits")
    assert "when_cancelled" in (response.error_info.detail if response.error_info else "")


def test_a_loop_that_ends_by_itself_cancels_a_coroutine_once_and_tells_a_thread() -> None:
    cancellations: list[int] = []
    told = threading.Event()
    begun = threading.Event()

    @tool(timeout=None)
    async def cleans() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancellations.append(1)
            try:
                for _ in range(5):
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                cancellations.append(2)
            raise

    @tool(timeout=None)
    def thread(ctx: ToolContext) -> None:
        begun.set()
        if ctx.wait_cancelled(60):
            told.set()

    async def main() -> None:
        engine = ToolEngine([cleans, thread])
        engine.start({"name": "cleans"})
        engine.start({"name": "thread"})
        await until(begun.is_set)

    asyncio.run(main())
    assert cancellations == [1]
    assert told.wait(10)


# -- a run that is awaited -------------------------------------------------------------------------------------------


async def answers(messages: Any, tools: Any) -> AsyncIterator[Chunk]:
    yield SAID


async def wants_more(messages: Any, tools: Any) -> AsyncIterator[Chunk]:
    yield piece(0, "c", "pay", '{"number": 1}')
    yield END


async def test_a_run_can_be_awaited() -> None:
    run = await Agent(virtual(pay), answers).run("Go.")
    assert (run.answer, run.reason, run.message) == ("done", RunEnd.FINAL_ANSWER, None)


async def test_a_run_that_has_failed_raises_what_happened_and_keeps_the_conversation() -> None:
    with pytest.raises(RunFailedError, match=r"max_turns \(the model wanted more than 2 turns\)") as raised:
        await Agent(virtual(pay), wants_more, max_turns=2).run("Go.")
    assert raised.value.reason == RunEnd.MAX_TURNS
    assert isinstance(raised.value.run, AgentRun)
    assert_history_is_valid(raised.value.run.messages)


async def test_cancelling_the_last_who_awaits_a_run_cancels_it() -> None:
    run = LiveRun.of_calls(virtual(forever), [{"name": "forever"}])

    async def wait() -> None:
        await run

    first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
    await idle()
    first.cancel()
    await idle()
    assert not run.is_over
    second.cancel()
    assert await run.wait() == RunEnd.CANCELLED
    assert run.message == "whoever awaited it was cancelled"


async def test_closing_the_engine_stops_a_run_whose_model_is_writing() -> None:
    async def writes(messages: Any, tools: Any) -> AsyncIterator[Chunk]:
        yield {"choices": [{"delta": {"content": "It"}}]}
        await asyncio.get_running_loop().create_future()

    async with virtual(pay) as engine:
        run = Agent(engine, writes).run("Go.")
        run.begin()
        await idle()
    assert await run.wait() == RunEnd.CANCELLED
    assert run.messages[-1] == {"role": "assistant", "content": "It"}


@pytest.mark.parametrize("kind", ["run", "call"])
async def test_a_stop_is_heard_by_a_loop_that_sleeps(kind: str) -> None:
    """Nothing but the signal wakes it."""
    engine = ToolEngine([forever])
    invocation = engine.start({"name": "forever"}) if kind == "call" else None
    run = LiveRun.of_calls(engine, [{"name": "forever"}])
    run.begin()
    stopped = run if invocation is None else invocation
    ended = run.wait() if invocation is None else invocation
    before = signal.signal(signal.SIGALRM, lambda *_: stopped.cancel())
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        began = time.monotonic()
        await asyncio.wait_for(ended, 20)
        assert time.monotonic() - began < 10
    finally:
        signal.signal(signal.SIGALRM, before)
    await engine.aclose()


async def test_an_endless_model_that_never_waits_is_stopped_by_the_time_and_lets_others_work() -> None:
    worked = []

    async def endless(messages: Any, tools: Any) -> AsyncIterator[Chunk]:
        while True:
            yield {"choices": [{"delta": {"content": "x"}}]}

    async def works() -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        worked.append(True)

    engine = virtual(pay)
    run = Agent(engine, endless, max_seconds=10).run("Go.")
    run.begin()
    await works()
    assert isinstance(engine.clock, VirtualClock)
    engine.clock.advance(10)
    assert await run.wait() == RunEnd.MAX_SECONDS
    assert worked
