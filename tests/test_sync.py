"""The engine for code without an event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fsm_engine import ConfigurationError, EngineClosedError, ToolCall, ToolContext, ToolEngine, ToolInvocation, tool
from fsm_engine.concurrency import loop_thread as sync
from fsm_engine.concurrency.loop_thread import LoopThread

from .support import logged, until


@tool
async def add(a: int, b: int = 1) -> int:
    return a + b


@tool
def add_sync(a: int, b: int = 1) -> int:
    return a + b


@tool(timeout=None)
async def forever() -> None:
    await asyncio.get_running_loop().create_future()


def test_calls_are_run_one_after_the_other_by_the_same_loop() -> None:
    engine = ToolEngine([add, add_sync])
    for number in range(3):
        assert engine.execute_tool_call_sync({"name": "add", "arguments": {"a": number}}).result == number + 1
        assert engine.execute_tool_call_sync({"name": "add_sync", "arguments": {"a": number}}).result == number + 1
    assert engine.close() == []


def test_a_batch_is_run_side_by_side() -> None:
    engine = ToolEngine([add])
    results = engine.execute_tool_calls_sync([ToolCall("add", {"a": number}) for number in range(5)])
    assert [each.result for each in results] == [1, 2, 3, 4, 5]
    assert engine.execute_tool_calls_sync([]) == []
    engine.close()


def test_threads_share_one_background_loop() -> None:
    engine = ToolEngine([add])
    start = threading.Barrier(8)

    def call(number: int) -> int:
        start.wait(10)
        result: int = engine.execute_tool_call_sync(ToolCall("add", {"a": number})).result
        return result

    before = threading.active_count()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(8))) == list(range(1, 9))
    assert threading.active_count() == before + 1
    engine.close()
    assert threading.active_count() == before


def test_inside_a_running_loop_it_is_refused_and_the_message_says_what_to_do() -> None:
    engine = ToolEngine([add])

    async def main() -> None:
        with pytest.raises(ConfigurationError, match=r"await execute_tool_call\(\)"):
            engine.execute_tool_call_sync(ToolCall("add", {"a": 1}))
        with pytest.raises(ConfigurationError, match="await"):
            engine.execute_tool_calls_sync([])
        with pytest.raises(ConfigurationError, match=r"await aclose\(\)"):
            engine.close()

    asyncio.run(main())


def test_a_tools_thread_may_call_the_engine_again() -> None:
    def nested(a: int) -> int:
        result: int = engine.execute_tool_call_sync(ToolCall("add_sync", {"a": a})).result
        return result

    engine = ToolEngine([nested, add_sync])
    assert engine.execute_tool_call_sync(ToolCall("nested", {"a": 1})).result == 2
    engine.close()


def test_close_cancels_and_reports_and_then_no_call_is_taken() -> None:
    engine = ToolEngine([forever])
    states: list[str] = []
    caller = threading.Thread(target=lambda: states.append(engine.execute_tool_call_sync(ToolCall("forever")).state))
    caller.start()
    waiter = threading.Event()
    while not any(each.state == "EXECUTING" for each in engine.running):
        waiter.wait(0.001)
    assert [each.state for each in engine.close()] == ["CANCELLED"]
    caller.join(10)
    assert states == ["CANCELLED"]
    assert engine.close() == []
    with pytest.raises(EngineClosedError):
        engine.execute_tool_call_sync(ToolCall("forever"))
    assert asyncio.run(engine.aclose()) == []


def test_an_engine_that_was_never_used_can_be_closed() -> None:
    engine = ToolEngine([add])
    assert engine.close() == []
    with pytest.raises(EngineClosedError):
        engine.execute_tool_call_sync(ToolCall("add", {"a": 1}))


def test_aclose_ends_the_background_loop_from_another_loop() -> None:
    engine = ToolEngine([add])
    before = threading.active_count()
    engine.execute_tool_call_sync(ToolCall("add", {"a": 1}))
    assert asyncio.run(engine.aclose()) == []
    waiter = threading.Event()
    while threading.active_count() > before + 1:  # the thread that ended it may be idle still
        waiter.wait(0.001)


def test_closing_does_not_wait_for_a_coroutine_that_ignores_its_cancellation() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    @tool(timeout=0.01)
    async def stubborn() -> None:
        loops.append(asyncio.get_running_loop())
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                if len(loops) > 5:  # or Python warns of a task that was never finished
                    return
                loops.append(loops[0])

    with logged():
        engine = ToolEngine([stubborn], cancel_grace=0.01)
        invocation = engine.execute_tool_call_sync(ToolCall("stubborn"))
        assert invocation.error is not None
        assert invocation.error.code == "TIMEOUT"
        engine.close()
    assert loops[0].is_closed()


def test_interrupting_the_wait_cancels_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = LoopThread()
    ended = threading.Event()

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    started = threading.Event()
    loop: Any = thread.loop  # two turns of the loop, which has no type for a callback that takes a callback
    loop.call_soon_threadsafe(loop.call_soon, loop.call_soon, started.set)

    def interrupted(*_: object, **__: object) -> None:
        assert started.wait(10)
        raise KeyboardInterrupt

    monkeypatch.setattr(sync, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        thread.run(work())
    assert ended.wait(10)
    thread.stop()
    thread.stop()


def test_progress_of_a_sync_call_is_dropped_without_harm() -> None:
    def talks(ctx: ToolContext) -> str:
        ctx.report(0.5, "half")
        return "done"

    engine = ToolEngine([talks])
    assert engine.execute_tool_call_sync(ToolCall("talks")).result == "done"
    engine.close()


# -- every form, from every thread without a loop ---------------------------------------------------------------------


def by_stream(engine: ToolEngine) -> object:
    run = engine.stream_sync([ToolCall("add", {"a": 1})])
    assert [event.type for event in run][-1] == "tool_result"
    return run.invocations[0].result


async def in_a_coroutine(engine: ToolEngine) -> object:
    return (await engine.invoke("add", {"a": 1})).data


FORMS: dict[str, Callable[[ToolEngine], object]] = {
    "invoke_sync": lambda engine: engine.invoke_sync("add", {"a": 1}).data,
    "execute_tool_call_sync": lambda engine: engine.execute_tool_call_sync(ToolCall("add", {"a": 1})).result,
    "execute_tool_calls_sync": lambda engine: engine.execute_tool_calls_sync([ToolCall("add", {"a": 1})])[0].result,
    "stream_sync": by_stream,
    "health_check_sync": lambda engine: 2 if engine.health_check_sync().is_healthy else 0,
    "run_sync": lambda engine: engine.run_sync(in_a_coroutine(engine)),
}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@every_form
def test_every_form_works_where_no_loop_runs(form: Callable[[ToolEngine], object]) -> None:
    engine = ToolEngine([add])
    assert form(engine) == 2
    engine.close()
    with pytest.raises(EngineClosedError):
        form(engine)


@every_form
def test_every_form_works_in_a_tools_thread_while_the_engine_works_in_another_loop(
    form: Callable[[ToolEngine], object],
) -> None:
    """The call is handed to that loop, so the engine's limits hold for it as for any other, and no further loop begins."""

    async def main() -> None:
        def asks() -> object:
            return form(engine)

        async with ToolEngine([add, asks]) as engine:
            assert (await engine.invoke("asks")).data == 2
            assert await asyncio.get_running_loop().run_in_executor(None, form, engine) == 2
            assert "fsm_engine loop" not in {thread.name for thread in threading.enumerate()}

    asyncio.run(main())


@every_form
async def test_every_form_is_refused_where_a_loop_runs(form: Callable[[ToolEngine], object]) -> None:
    with pytest.raises(ConfigurationError, match="await"):
        form(ToolEngine([add]))


@pytest.mark.parametrize(
    "ask",
    [
        lambda engine: engine.invoke_sync("forever"),
        lambda engine: engine.execute_tool_call_sync(ToolCall("forever")),
        lambda engine: engine.execute_tool_calls_sync([ToolCall("forever"), ToolCall("forever")]),
        lambda engine: list(engine.stream_sync([ToolCall("forever")])),
    ],
    ids=["invoke_sync", "execute_tool_call_sync", "execute_tool_calls_sync", "stream_sync"],
)
async def test_what_a_tools_thread_asks_for_is_cancelled_with_that_tool(ask: Callable[[ToolEngine], object]) -> None:
    ended = threading.Event()

    def asks() -> None:
        try:
            ask(engine)
        finally:
            ended.set()

    engine = ToolEngine([forever, asks])
    outer = engine.start(ToolCall("asks"))
    await until(lambda: any(each.tool_name == "forever" and each.attempts for each in engine.running))
    inner = [each for each in engine.running if each.tool_name == "forever"]
    outer.cancel()
    await outer
    await until(ended.is_set)
    await until(lambda: not engine.running)
    assert {each.state for each in [outer, *inner]} == {"CANCELLED"}


def test_leaving_a_stream_cancels_what_is_under_way() -> None:
    engine = ToolEngine([forever])
    with engine.stream_sync([ToolCall("forever"), ToolCall("forever")]) as run:
        first = next(run)
        assert run[first.uid] is run.invocations[0]  # type: ignore[union-attr]  # the first event is of a call
    assert [each.state for each in run.invocations] == ["CANCELLED"] * 2
    assert list(run) == []
    dropped = engine.stream_sync([ToolCall("forever")])
    next(dropped)
    left = dropped.invocations[0]
    del dropped
    engine.run_sync(_end_of(left))
    assert left.state == "CANCELLED"
    engine.close()


async def _end_of(invocation: ToolInvocation) -> None:
    await invocation


def test_whoever_waits_for_a_loop_that_ends_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "LOOK_SECONDS", 0.001)
    loop = asyncio.new_event_loop()  # never runs
    with pytest.raises(EngineClosedError, match="has ended"):
        sync.run_in(loop, asyncio.sleep(0))
    for _ in range(3):  # what was handed over is cancelled, and not forgotten
        loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    with pytest.raises(EngineClosedError):
        sync.run_in(loop, asyncio.sleep(0))


def test_an_engine_that_is_dropped_unclosed_says_so_and_leaves_no_thread() -> None:
    engine = ToolEngine([add, add_sync])
    assert engine.invoke_sync("add", {"a": 1}).data == 2
    background = next(thread for thread in threading.enumerate() if thread.name == "fsm_engine loop")
    del engine
    with pytest.warns(ResourceWarning, match=r"ToolEngine was dropped without close\(\)"):
        gc.collect()
    background.join(10)
    assert not background.is_alive()


def test_an_engine_that_is_closed_or_never_needed_a_thread_is_dropped_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine = ToolEngine([add])
        engine.invoke_sync("add", {"a": 1})
        engine.close()
        engine = ToolEngine([add])
        del engine
        gc.collect()
