"""The engine for code without an event loop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fsm_engine import ConfigurationError, EngineClosedError, ToolCall, ToolContext, ToolEngine, tool
from fsm_engine.sync import LoopThread

from .support import logged


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

    class Interrupted:
        def __init__(self, future: object) -> None:
            self.cancel = future.cancel  # type: ignore[attr-defined]  # a concurrent future

        def result(self) -> None:
            raise KeyboardInterrupt

    real = asyncio.run_coroutine_threadsafe
    started = threading.Event()

    def interrupted(coroutine: object, loop: asyncio.AbstractEventLoop) -> Interrupted:
        future = real(coroutine, loop)  # type: ignore[arg-type]  # a coroutine
        loop.call_soon_threadsafe(loop.call_soon, started.set)
        assert started.wait(10)
        return Interrupted(future)

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
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
