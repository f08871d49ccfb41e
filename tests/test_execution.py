"""How functions of every kind are called, limited, stopped, and what becomes of those that go on."""

from __future__ import annotations

import asyncio
import copy
import functools
import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fsm_engine import (
    RegistrationError,
    Stages,
    ToolCall,
    ToolContext,
    ToolEngine,
    ToolResponse,
    ToolSpec,
    ToolStatus,
    tool,
)
from fsm_engine.concurrency import eager, threads
from fsm_engine.concurrency.processes import Shipped
from fsm_engine.invocation.attempt import MAX_CHUNKS_KEPT

from .support import Stuck, Watch, assert_ended, idle, logged, now, play, until, virtual

# -- what is called, and where --------------------------------------------------------------------------------------


class Adds:
    def __call__(self, a: int) -> int:
        return a + 1

    async def later(self, a: int) -> int:
        return a + 1


async def async_add(a: int) -> int:
    return a + 1


def sync_add(a: int) -> int:
    return a + 1


def hands_out_a_coroutine(a: int) -> Any:
    return async_add(a)


def hands_out_an_async_generator(a: int) -> Any:
    async def pieces() -> AsyncIterator[int]:
        yield a + 1

    return pieces()


def sync_pieces(a: int) -> Iterator[int]:
    yield a + 1


async def async_pieces(a: int) -> AsyncIterator[int]:
    yield a + 1


def hands_out_a_generator(a: int) -> Any:
    return sync_pieces(a)


@functools.wraps(async_add)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return async_add(*args, **kwargs)


@pytest.mark.parametrize(
    ("function", "data"),
    [
        (async_add, 3),
        (sync_add, 3),
        (Adds(), 3),
        (Adds().later, 3),
        (functools.partial(async_add, a=2), 3),
        (hands_out_a_coroutine, 3),
        (wrapped, 3),
        (sync_pieces, [3]),
        (async_pieces, [3]),
        (hands_out_a_generator, [3]),
        (hands_out_an_async_generator, [3]),
    ],
    ids=[
        "coroutine function",
        "function",
        "object",
        "method",
        "partial",
        "hands out a coroutine",
        "wrapped",
        "generator",
        "async generator",
        "hands out a generator",
        "hands out an async generator",
    ],
)
async def test_functions_of_every_kind_are_called(function: Callable[..., Any], data: Any) -> None:
    engine = ToolEngine([ToolSpec(name="t", func=function)])
    arguments = {} if isinstance(function, functools.partial) else {"a": 2}
    response = await engine.invoke("t", arguments)
    assert (response.status, response.data) == (ToolStatus.SUCCESS, data)


async def test_a_plain_function_runs_in_a_daemon_thread_that_is_used_again() -> None:
    def where() -> list[Any]:
        return [threading.current_thread().name, threading.current_thread().daemon, threading.get_ident()]

    engine = ToolEngine([where])
    first: Any = (await engine.invoke("where")).data
    second = (await engine.invoke("where")).data
    assert first == second
    assert first[:2] == ["fsm_engine worker", True]
    assert first[2] != threading.get_ident()


async def test_a_generator_runs_wholly_in_one_thread() -> None:
    def idents() -> Iterator[int]:
        yield threading.get_ident()
        yield threading.get_ident()

    data: Any = (await ToolEngine([idents]).invoke("idents")).data
    assert len(set(data)) == 1
    assert data[0] != threading.get_ident()


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("slow_step", "is_told"), [(0.25, True), (5.0, False), (None, False)])
async def test_a_coroutine_that_keeps_everybody_waiting_is_named(
    first: bool, slow_step: float | None, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it does in its first step or a later one, be it that it sleeps without awaiting."""
    ticks = [0.0]
    monkeypatch.setattr(eager, "perf_counter", lambda: ticks[-1])

    async def sleepy() -> None:
        if not first:
            await asyncio.sleep(0)
        ticks.append(1.0)  # as time.sleep(1) would do
        await asyncio.sleep(0)

    with logged() as lines:
        engine = ToolEngine([sleepy], slow_step=slow_step)
        assert (await engine.invoke("sleepy")).error_info is None
    told = [line for line in lines if "held up" in line["event"]]
    assert [(line["tool"], line["seconds"]) for line in told] == ([("sleepy", 1.0)] if is_told else [])


@pytest.mark.parametrize("on_executor", [False, True])
async def test_a_thread_tells_of_its_end_and_its_result_at_once(
    on_executor: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two messages time could pass, and a tool that has answered would have timed out."""
    loop = asyncio.get_running_loop()
    told: list[object] = []
    real = loop.call_soon_threadsafe
    monkeypatch.setattr(
        loop, "call_soon_threadsafe", lambda *args, **named: (told.append(args[0]), real(*args, **named))
    )
    with ThreadPoolExecutor(1) as pool:
        spec = ToolSpec(name="t", func=sync_add, executor=pool if on_executor else "thread")
        assert (await ToolEngine([spec]).invoke("t", {"a": 1})).data is not None
    assert len(told) == 1


async def test_an_idle_thread_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.001)
    worker = threads._Worker()
    threads._idle.append(worker)
    worker.start()
    await until(lambda: not worker.is_alive())
    assert worker not in threads._idle


async def test_an_idle_thread_that_is_taken_in_its_last_moment_does_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.001)
    worker = threads._Worker()
    worker.start()  # not in the list, as if it had just been taken out of it
    done = threading.Event()
    worker.jobs.put(lambda: done.set)
    assert done.wait(10)
    await until(lambda: not worker.is_alive())


async def test_a_thread_that_cannot_be_started_is_an_error_response(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_idle", type(threads._idle)())
    monkeypatch.setattr(threads._Worker, "start", refuse)
    engine = ToolEngine([ToolSpec(name="t", func=sync_add, max_concurrency=1)])
    for _ in range(2):  # its slot came back
        response = await engine.invoke("t", {"a": 1})
        assert response.error_info is not None
        assert "new thread" in response.error_info.message


# -- executors ------------------------------------------------------------------------------------------------------


@tool(executor="process", timeout=None)
def in_process(number: int) -> int:
    return number * 2


@tool(executor="process", timeout=None)
def hang_in_process() -> None:
    threading.Event().wait()


async def test_a_process_runs_the_function_of_a_decorated_tool() -> None:
    assert (await ToolEngine([in_process]).invoke("in_process", {"number": 21})).data == 42


async def test_a_process_is_killed_when_nobody_wants_its_result() -> None:
    engine = ToolEngine([hang_in_process.replaced(timeout=0.2), in_process])
    await engine.invoke("in_process", {"number": 1})  # a worker that runs already, however slow the machine is
    response = await engine.invoke("hang_in_process")
    assert response.error_info is not None
    assert response.error_info.code == "TIMEOUT"
    assert engine.running == ()


class PickyError(Exception):
    """Cannot be made again of its pickle."""

    def __init__(self, *, what: str) -> None:
        super().__init__(what)


@tool(executor="process")
def raises_in_process(kind: str) -> None:
    if kind == "dies":
        os._exit(9)
    raise {"exit": SystemExit(3), "interrupt": KeyboardInterrupt(), "picky": PickyError(what="cheese")}[kind]


@pytest.mark.parametrize("kind", ["exit", "interrupt", "picky", "dies"])
async def test_whatever_ends_a_process_is_an_error_in_words_and_the_next_call_has_one_that_works(kind: str) -> None:
    engine = ToolEngine([raises_in_process, in_process])
    error = (await engine.invoke("raises_in_process", {"kind": kind})).error_info
    assert error is not None
    assert error.code == "EXECUTION_ERROR"
    words = {"exit": "SystemExit", "interrupt": "KeyboardInterrupt", "picky": "cheese", "dies": "ended before it had"}
    assert words[kind] in error.message
    assert (error.effect, error.transient) == ("unknown", kind == "dies")
    assert (await engine.invoke("in_process", {"number": 2})).error_info is None


def test_a_script_without_a_main_guard_is_told_so(tmp_path: Path) -> None:
    """Its worker would run it again, and that one's worker again."""
    script = tmp_path / "script.py"
    script.write_text(
        "from fsm_engine import ToolEngine, tool\n"
        "@tool(executor='process')\n"
        "def seven() -> int:\n    return 7\n"
        "engine = ToolEngine([seven])\n"
        "print(engine.invoke_sync('seven').error_info.detail)\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=50, check=True)
    assert "if __name__ == '__main__':" in done.stdout


def test_a_function_finds_its_way_into_another_process_by_its_name() -> None:
    shipped = pickle.loads(pickle.dumps(Shipped(in_process.func)))
    assert shipped(number=4) == 8
    assert pickle.loads(pickle.dumps(Shipped(sync_add)))(a=1) == 2
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(Shipped(lambda: 1))
    bound = pickle.loads(pickle.dumps(Shipped(functools.partial(sync_add, a=1))))
    assert bound() == 2


def test_what_cannot_be_sent_elsewhere_says_what_can() -> None:
    @tool
    async def local() -> None: ...

    assert pickle.loads(pickle.dumps(in_process)) is in_process  # found by its name
    assert copy.deepcopy(local) is copy.copy(local) is local
    with pytest.raises(TypeError, match="send the call and its response"):
        pickle.dumps(local)
    with pytest.raises(TypeError, match="send calls, responses and events"):
        pickle.dumps(ToolEngine([local]))


async def test_any_executor_will_do() -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as pool:

        def where() -> str:
            return threading.current_thread().name

        engine = ToolEngine([ToolSpec(name="t", func=where, executor=pool)])
        assert (await engine.invoke("t")).text.startswith("mine")
    response = await engine.invoke("t")
    assert response.error_info is not None
    assert "shutdown" in response.error_info.message


async def test_what_a_function_raises_on_an_executor_is_an_error_response() -> None:
    def broken() -> None:
        raise LookupError("nothing there")

    with ThreadPoolExecutor(1) as pool:
        response = await ToolEngine([ToolSpec(name="t", func=broken, executor=pool)]).invoke("t")
    assert response.error_info is not None
    assert response.error_info.exception_type == "LookupError"


class Queued(Executor):
    """An executor that never gets round to anything."""

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.futures.append(Future())
        return self.futures[-1]


async def test_a_job_that_waits_on_an_executor_is_taken_back_and_is_no_late_result() -> None:
    queued = Queued()
    with logged() as lines:
        engine = virtual(ToolSpec(name="t", func=sync_add, executor=queued, timeout=1.0, max_concurrency=1))
        for _ in range(2):  # the slot came back
            response = await play(engine, engine.invoke("t", {"a": 1}), stuck=_all_stuck())
            assert response.error_info is not None
            assert response.error_info.code == "TIMEOUT"
        await idle()
    assert all(future.cancelled() for future in queued.futures)
    assert not [line for line in lines if line["event"] == "late_result_discarded"]


def _all_stuck() -> Stuck:
    stuck = Stuck()
    stuck.count = 100
    return stuck


async def test_a_job_that_runs_on_an_executor_keeps_its_slot_until_it_ends_and_is_reported() -> None:
    queued = Queued()
    with logged() as lines:
        engine = virtual(ToolSpec(name="t", func=sync_add, executor=queued, timeout=1.0, max_concurrency=1))
        task = asyncio.ensure_future(engine.invoke("t", {"a": 1}))
        await idle()
        queued.futures[0].set_running_or_notify_cancel()
        await play(engine, task, stuck=_all_stuck())
        second = engine.start(ToolCall("t", {"a": 1}))
        await idle()
        assert second.state == "ADMITTING"
        queued.futures[0].set_result(2)
        await until(lambda: len(queued.futures) == 2)
        queued.futures[1].set_result(5)
        await second
    assert second.result == 5
    assert [line["exception_type"] for line in lines if line["event"] == "late_result_discarded"] == [None]


@pytest.mark.parametrize("kind", [async_add, sync_pieces, async_pieces])
def test_only_a_plain_function_can_run_on_an_executor(kind: Callable[..., Any]) -> None:
    with pytest.raises(RegistrationError, match="only a plain function"):
        ToolSpec(name="t", func=kind, executor="process")


def test_a_function_on_an_executor_cannot_have_the_context() -> None:
    def talks(ctx: ToolContext) -> None: ...

    with pytest.raises(RegistrationError, match="ToolContext"):
        ToolSpec(name="t", func=talks, executor="process")


# -- generators -----------------------------------------------------------------------------------------------------


def text_pieces() -> Iterator[str]:
    yield "a"
    yield "b"


async def async_text_pieces() -> AsyncIterator[str]:
    yield "a"
    yield "b"


def returns_a_value() -> Any:
    yield "working"
    return {"total": 2}


def ends_with_a_response() -> Iterator[Any]:
    yield "working"
    yield ToolResponse.partial("half", reason="truncated")


async def async_ends_with_a_response() -> AsyncIterator[Any]:
    yield "working"
    yield ToolResponse.partial("half", reason="truncated")


def a_response_in_the_middle() -> Iterator[Any]:
    yield ToolResponse.success("early")
    yield "a"
    yield "b"


def mixed() -> Iterator[Any]:
    yield "a"
    yield 1


def no_pieces() -> Iterator[str]:
    yield from ()


@pytest.mark.parametrize(
    ("function", "text", "data", "chunks"),
    [
        (text_pieces, "ab", None, ["a", "b"]),
        (async_text_pieces, "ab", None, ["a", "b"]),
        (returns_a_value, '{"total":2}', {"total": 2}, ["working"]),
        (ends_with_a_response, "half", None, ["working"]),
        (async_ends_with_a_response, "half", None, ["working"]),
        (a_response_in_the_middle, "ab", None, ["a", "b"]),
        (mixed, '["a",1]', ["a", 1], ["a", 1]),
        (no_pieces, "[]", [], []),
    ],
)
async def test_a_generators_pieces_are_handed_out_and_come_to_a_result(
    function: Callable[..., Any], text: str, data: Any, chunks: list[Any]
) -> None:
    engine = ToolEngine([ToolSpec(name="t", func=function)])
    async with engine.stream([ToolCall("t")]) as run:
        said = [getattr(event, "chunk", None) async for event in run]
    seen = [chunk for chunk in said if chunk is not None]
    response = run.invocations[0].response
    assert response is not None
    assert (response.text, response.data, seen) == (text, data if data is not None else response.data, chunks)


@pytest.mark.parametrize("texts", [True, False])
async def test_a_generator_without_end_of_its_pieces_keeps_a_bounded_number(texts: bool) -> None:
    def flood() -> Iterator[Any]:
        for number in range(MAX_CHUNKS_KEPT + 5):
            yield "x" if texts else number

    response = await ToolEngine([flood]).invoke("flood")
    assert response.status is ToolStatus.PARTIAL
    assert response.reason == "only the first 1,000 of 1,005 pieces were kept"
    kept: Any = response.text if texts else response.data
    assert len(kept) == MAX_CHUNKS_KEPT


async def test_a_generator_that_is_not_wanted_any_more_is_closed() -> None:
    closed = threading.Event()
    hangs, go_on = threading.Event(), threading.Event()

    @tool(timeout=1.0)
    def endless() -> Iterator[str]:
        try:
            while True:
                yield "more"
                hangs.set()
                go_on.wait(10)
        finally:
            closed.set()

    engine = virtual(endless)
    task = asyncio.ensure_future(engine.invoke("endless"))
    await until(hangs.is_set)
    response = await play(engine, task, stuck=_all_stuck())
    assert response.error_info is not None
    assert response.error_info.code == "TIMEOUT"
    go_on.set()
    await until(closed.is_set)


@pytest.mark.parametrize("ends_by", ["timeout", "cancel"])
async def test_a_generator_that_never_waits_hears_its_limits_and_keeps_nobody_from_running(ends_by: str) -> None:
    closed: list[bool] = []

    async def endless() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    engine = ToolEngine([ToolSpec(name="t", func=endless, timeout=0.05 if ends_by == "timeout" else None), async_add])
    invocation = engine.start(ToolCall("t"))
    await until(lambda: invocation.attempts)
    assert (await engine.invoke("async_add", {"a": 1})).error_info is None
    if ends_by == "cancel":
        invocation.cancel()
    await invocation
    assert invocation.error is not None
    assert (invocation.error.code, closed) == ("TIMEOUT" if ends_by == "timeout" else "CANCELLED", [True])


async def test_an_async_generator_that_is_cancelled_is_closed() -> None:
    closed: list[bool] = []

    @tool(timeout=1.0)
    async def endless() -> AsyncIterator[str]:
        try:
            yield "one"
            await asyncio.get_running_loop().create_future()
        finally:
            closed.append(True)

    engine = virtual(endless)
    response = await play(engine, engine.invoke("endless"))
    assert response.error_info is not None
    assert (response.error_info.code, closed) == ("TIMEOUT", [True])


# -- limits ---------------------------------------------------------------------------------------------------------


def hanging(kind: str, stuck: Stuck, **settings: Any) -> ToolSpec:
    """A tool that never answers."""

    async def coroutine() -> None:
        await asyncio.get_running_loop().create_future()

    async def agenerator() -> AsyncIterator[str]:
        yield "a"
        await asyncio.get_running_loop().create_future()

    def function() -> str:
        stuck()
        return "late"

    def generator() -> Iterator[str]:
        yield "a"
        stuck()

    chosen = {"coroutine": coroutine, "async generator": agenerator, "function": function, "generator": generator}
    return ToolSpec(name="t", func=chosen[kind], **settings)


KINDS = ["coroutine", "async generator", "function", "generator"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("settings", "deadline", "reason", "at"),
    [
        ({"timeout": 2.0}, None, "timeout", 2.0),
        ({"timeout": None, "idle_timeout": 3.0}, None, "idle", 3.0),
        ({"timeout": 10.0, "idle_timeout": 3.0}, None, "idle", 3.0),
        ({"timeout": None, "deadline": 4.0}, None, "deadline", 4.0),
        ({"timeout": 10.0}, 5.0, "deadline", 5.0),
        ({"deadline": 50.0}, 5.0, "deadline", 5.0),
    ],
)
async def test_every_limit_holds_for_functions_of_every_kind(
    kind: str, settings: dict[str, Any], deadline: float | None, reason: str, at: float
) -> None:
    stuck = Stuck()
    engine = virtual(hanging(kind, stuck, **settings))
    try:
        call = engine.execute_tool_call(ToolCall("t"), deadline=deadline)
        invocation = await play(engine, call, stuck)
        assert_ended(invocation)
        assert invocation.state == "FAILED"
        assert invocation.error is not None
        assert (invocation.error.code, invocation.error.reason) == ("TIMEOUT", reason)
        assert invocation.error.effect == "unknown"
        assert now(engine) == at
        assert not engine.running
    finally:
        stuck.let_go()


@pytest.mark.parametrize("kind", KINDS)
async def test_cancellation_ends_functions_of_every_kind(kind: str) -> None:
    stuck = Stuck()
    engine = virtual(hanging(kind, stuck, timeout=None))
    try:
        invocation = engine.start(ToolCall("t"))
        await until(lambda: stuck.count or "function" not in kind)
        await idle()
        assert invocation.cancel()
        await invocation
        assert_ended(invocation)
        assert invocation.state == "CANCELLED"
        assert now(engine) == 0.0
    finally:
        stuck.let_go()


async def test_signs_of_life_put_the_idle_limit_off() -> None:
    @tool(timeout=None, idle_timeout=2.0)
    async def slow(ctx: ToolContext) -> str:
        clock = ctx._attempt.invocation.clock
        for _ in range(3):
            await clock.sleep(1.5)
            ctx.report()
        await clock.sleep(10)
        return "never"

    engine = virtual(slow)
    response = await play(engine, engine.invoke("slow"))
    assert response.error_info is not None
    assert response.error_info.reason == "idle"
    assert now(engine) == 6.5


async def test_a_hanging_thread_keeps_its_slot_until_it_ends_and_its_late_result_is_logged() -> None:
    stuck = Stuck()
    with logged() as lines:
        engine = virtual(hanging("function", stuck, timeout=1.0, max_concurrency=1))
        first = await play(engine, engine.execute_tool_call(ToolCall("t")), stuck)
        assert first.error is not None
        second = engine.start(ToolCall("t"))
        await idle()
        assert second.state == "ADMITTING"
        stuck.let_go()
        await until(lambda: second.is_final)
        late = [line for line in lines if line["event"] == "late_result_discarded"]
    assert second.result == "late"
    assert [(line["tool"], line["uid"], line["attempt"]) for line in late] == [("t", first.uid, 1)]


async def test_what_a_thread_raises_too_late_is_logged_and_disturbs_nobody() -> None:
    stuck = Stuck()

    @tool(timeout=1.0)
    def breaks_late() -> None:
        stuck()
        raise LookupError("too late")

    with logged() as lines:
        engine = virtual(breaks_late)
        invocation = await play(engine, engine.execute_tool_call(ToolCall("breaks_late")), stuck)
        assert repr(invocation.attempts) == "[Attempt(number=1, started_at=0.0, ended_at=1.0, code=TIMEOUT)]"
        stuck.let_go()
        await until(lambda: any(line["event"] == "late_result_discarded" for line in lines))
        await idle()
    assert [line["exception_type"] for line in lines if line["event"] == "late_result_discarded"] == ["LookupError"]
    assert invocation.state == "FAILED"


async def test_a_hanging_thread_keeps_no_place_that_another_tool_could_use() -> None:
    """Only the tool's own slots and its thread are taken, not one of the engine's attempts."""
    stuck = Stuck()
    engine = virtual(hanging("function", stuck, timeout=1.0), ToolSpec(name="other", func=async_add), max_concurrency=1)
    try:
        await play(engine, engine.invoke("t"), stuck)
        assert stuck.count == 1
        assert (await play(engine, engine.invoke("other", {"a": 1}, deadline=5.0), stuck)).data == 2
    finally:
        stuck.let_go()


async def test_threads_are_bounded_and_one_hanging_tool_cannot_take_them_all() -> None:
    stuck = Stuck()
    quick = ToolSpec(name="quick", func=sync_add)
    engine = virtual(hanging("function", stuck, timeout=None), quick, max_threads=10)
    hung = [engine.start(ToolCall("t")) for _ in range(20)]
    try:
        await until(lambda: stuck.count == 8)
        assert (await engine.invoke("quick", {"a": 1})).data == 2
        assert stuck.count == 8
        assert [each.state for each in hung].count("EXECUTING") == 8
    finally:
        stuck.let_go()
        await asyncio.gather(*(_end(each) for each in hung))


async def _end(invocation: Any) -> None:
    await invocation


async def test_no_more_threads_run_than_the_engine_allows() -> None:
    stuck = Stuck()
    engine = virtual(hanging("function", stuck, timeout=None, max_concurrency=8), max_threads=3)
    calls = [engine.start(ToolCall("t")) for _ in range(6)]
    await until(lambda: stuck.count == 3)
    await idle()
    assert [each.state for each in calls] == ["EXECUTING"] * 3 + ["ADMITTING"] * 3
    stuck.let_go()
    await asyncio.gather(*(_end(each) for each in calls))


async def test_a_call_that_was_cancelled_before_its_thread_began_is_never_run(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[Any] = []
    ran: list[int] = []

    class Lazy:
        def __init__(self) -> None:
            self.jobs = SimpleNamespace(put=jobs.append)

        def start(self) -> None: ...

    monkeypatch.setattr(threads, "_idle", type(threads._idle)())
    monkeypatch.setattr(threads, "_Worker", Lazy)

    def note() -> None:
        ran.append(1)

    engine = virtual(ToolSpec(name="t", func=note, timeout=None, max_concurrency=1))
    for _ in range(2):  # the slot came back
        invocation = engine.start(ToolCall("t"))
        await idle()
        invocation.cancel()
        await invocation
    for job in jobs:
        job()()
    await idle()
    assert (len(jobs), ran) == (2, [])


async def test_what_a_thread_says_comes_in_order_and_before_the_result() -> None:
    """Case 124: progress that is sent just before returning must not get lost."""

    def talks(ctx: ToolContext) -> str:
        for number in range(50):
            ctx.report(number)
            ctx.emit(str(number))
        return "done"

    watch = Watch()
    engine = ToolEngine([talks], stages=Stages(publish=watch))
    await engine.invoke("talks")
    said = [event for event in watch.events if getattr(event, "progress", None) is not None]
    chunks = [event.chunk for event in watch.events if getattr(event, "chunk", None) is not None]  # type: ignore[attr-defined]  # looked at
    assert [event.progress for event in said] == list(range(50))  # type: ignore[attr-defined]  # looked at
    assert chunks == [str(number) for number in range(50)]
    assert watch.events[-1].type == "tool_result"


async def test_what_is_said_after_the_end_is_dropped() -> None:
    kept: list[ToolContext] = []

    async def leaks(ctx: ToolContext) -> str:
        kept.append(ctx)
        return "done"

    watch = Watch()
    engine = virtual(leaks, stages=Stages(publish=watch))
    await engine.invoke("leaks")
    count = len(watch.events)
    kept[0].report(0.5, "still here")
    kept[0].emit("x")
    thread = threading.Thread(target=kept[0].emit, args=("y",))
    thread.start()
    thread.join()
    await idle()
    assert len(watch.events) == count


def test_a_thread_that_outlives_its_loop_disturbs_nobody() -> None:
    stuck = Stuck()
    said: list[bool] = []

    @tool(timeout=1.0)
    def outlives(ctx: ToolContext) -> None:
        stuck()
        ctx.report(1.0)
        said.append(True)

    async def main() -> None:
        engine = virtual(outlives)
        await play(engine, engine.invoke("outlives"), stuck)

    asyncio.run(main())
    stuck.let_go()
    deadline = threading.Event()
    while not said:
        deadline.wait(0.001)


async def test_a_finished_invocation_is_freed_without_the_garbage_collector() -> None:
    import gc

    engine = virtual(async_add)
    invocation = await engine.execute_tool_call(ToolCall("async_add", {"a": 1}))
    gone = weakref.ref(invocation)
    gc.disable()
    try:
        del invocation
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_pieces_of_a_generator_are_kept_up_to_the_size_of_a_result(kind: str) -> None:
    """Few pieces may be large; what is kept is bounded by characters as by number, and the response says so."""

    async def pieces() -> AsyncIterator[str]:
        for _ in range(60):
            yield "x" * 500_000

    def sync_pieces() -> Iterator[str]:
        for _ in range(60):
            yield "x" * 500_000

    response = await ToolEngine([ToolSpec(name="t", func=pieces if kind == "async" else sync_pieces)]).invoke("t")
    assert response.status == "partial"
    assert response.reason == "only the first 20 of 60 pieces were kept"
