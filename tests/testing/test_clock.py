"""Virtual time that moves by itself: at once when nothing else can happen, and never before."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from fsm_engine import ConfigurationError, ToolContext, ToolEngine, tool
from fsm_engine.breaker.policy import BreakerPolicy
from fsm_engine.invocation.substitute import FallbackPolicy
from fsm_engine.testing import Delays, Hangs, PacedClock, Raises, Returns, scripted
from fsm_engine.testing.plugin import EngineFactory


async def test_time_passes_at_once(virtual_clock: PacedClock) -> None:
    began = time.perf_counter()
    await virtual_clock.sleep(3600)
    assert virtual_clock.monotonic() == 3600
    assert time.perf_counter() - began < 5


async def test_timers_ring_in_order_and_each_sees_its_own_time(virtual_clock: PacedClock) -> None:
    rung: list[tuple[str, float]] = []

    async def wait(name: str, seconds: float) -> None:
        await virtual_clock.sleep(seconds)
        rung.append((name, virtual_clock.monotonic()))

    await asyncio.gather(wait("late", 5.0), wait("early", 1.0), wait("late again", 5.0))
    assert rung == [("early", 1.0), ("late", 5.0), ("late again", 5.0)]


async def test_time_stands_still_while_anything_can_go_on(virtual_clock: PacedClock) -> None:
    virtual_clock.call_at(1.0, lambda: None)
    for _ in range(1_000):
        await asyncio.sleep(0)
    assert virtual_clock.monotonic() == 0.0


async def test_time_stands_still_when_it_is_to_settle(virtual_clock: PacedClock) -> None:
    """What happens now has happened; what happens later has not, even if two wait for that."""
    done: list[str] = []

    async def now() -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        done.append("now")

    async def later() -> None:
        await virtual_clock.sleep(1.0)
        done.append("later")

    tasks = [asyncio.create_task(now()), asyncio.create_task(later())]
    await asyncio.gather(virtual_clock.settle(), virtual_clock.settle())
    assert done == ["now"]
    await asyncio.gather(*tasks)
    assert done == ["now", "later"]


async def test_time_moved_by_hand_rings_what_is_due(virtual_clock: PacedClock) -> None:
    rung: list[float] = []
    virtual_clock.call_at(2.0, lambda: rung.append(virtual_clock.monotonic()))
    virtual_clock.advance(3.0)
    assert (rung, virtual_clock.monotonic()) == ([2.0], 3.0)


async def test_a_timer_that_raises_does_not_stop_time(virtual_clock: PacedClock) -> None:
    caught: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: caught.append(context["exception"]))

    def fail() -> None:
        raise ValueError("a timer")

    virtual_clock.call_at(1.0, fail)
    await virtual_clock.sleep(2.0)
    assert [str(error) for error in caught] == ["a timer"]


def test_a_clock_goes_from_one_loop_to_the_next() -> None:
    clock = PacedClock()
    for hour in (1, 2):
        asyncio.run(clock.sleep(3600))
        assert clock.monotonic() == hour * 3600


def test_a_timer_can_be_set_without_a_loop_and_rings_in_one() -> None:
    clock, rung = PacedClock(), []
    clock.call_at(1.0, rung.append, "rung")
    assert not rung
    asyncio.run(clock.sleep(2.0))
    assert rung == ["rung"]


def test_a_loop_that_hides_whether_it_is_idle_is_refused() -> None:
    class Foreign:
        pass

    with pytest.raises(ConfigurationError, match="loop of asyncio's own"):
        PacedClock()._look_soon(Foreign())  # type: ignore[arg-type]  # a stand-in for a loop of another library


async def test_time_stands_still_while_a_thread_works(engine_factory: EngineFactory) -> None:
    """A thread takes longer, in real time, than any timer needs; its time limit does not pass."""

    def work() -> str:
        time.sleep(0.02)  # real time is what is tested
        return "done"

    engine = engine_factory(tool(timeout=1.0)(work))
    assert (await engine.invoke("work")).text == "done"
    assert engine.clock.monotonic() == 0.0


async def test_time_passes_while_a_scripted_thread_waits_and_stands_still_while_it_works(
    engine_factory: EngineFactory,
) -> None:
    slow = scripted([Delays(5.0), Delays(5.0), Returns("slow")], thread=True, timeout=20.0)
    engine = engine_factory(slow)
    assert (await engine.invoke("scripted")).text == "slow"
    assert engine.clock.monotonic() == 10.0


async def test_time_passes_beside_an_abandoned_thread_but_not_beside_a_working_one(
    engine_factory: EngineFactory,
) -> None:
    hanging = scripted(Hangs(), name="hanging", thread=True, timeout=3.0)
    at_work = threading.Event()

    def busy() -> str:
        at_work.set()
        time.sleep(0.02)
        return "busy"

    engine = engine_factory(hanging, tool(busy))
    assert (await engine.invoke("hanging")).error_info is not None
    assert engine.clock.monotonic() == 3.0
    assert (await engine.invoke("busy")).text == "busy"
    assert at_work.is_set()
    assert engine.clock.monotonic() == 3.0
    hanging.release()


async def test_a_plain_function_that_hands_out_a_coroutine_may_wait(engine_factory: EngineFactory) -> None:
    clock = PacedClock()

    async def nap() -> str:
        await clock.sleep(2.0)
        return "rested"

    def hand_out() -> Any:
        return nap()

    engine = engine_factory(hand_out, clock=clock)
    assert (await engine.invoke("hand_out")).text == "rested"
    assert clock.monotonic() == 2.0


async def test_time_stands_still_while_a_fallback_works_in_a_thread(engine_factory: EngineFactory) -> None:
    def substitute() -> str:
        time.sleep(0.02)
        return "instead"

    broken = scripted(
        Raises(ConnectionError("gone")),
        fallback=FallbackPolicy(function=lambda **_: substitute(), on_failure=True),
    )
    engine = engine_factory(broken)
    response = await engine.invoke("scripted")
    assert (response.status, response.text) == ("partial", "instead")
    assert engine.clock.monotonic() == 0.0


def test_time_passes_in_a_background_loop_too(engine_factory: EngineFactory) -> None:
    engine = engine_factory(scripted([Delays(30.0), Returns(1)]))
    invocation = engine.execute_tool_call_sync({"name": "scripted"})
    assert invocation.result == 1
    assert engine.clock.monotonic() == 30.0


async def test_a_breaker_that_waits_a_minute_is_tested_in_no_time(
    engine_factory: EngineFactory, virtual_clock: PacedClock
) -> None:
    """The circuit opens, refuses, half-opens after 60 s, and closes after a good probe."""
    policy = BreakerPolicy.consecutive(2, wait=60.0)
    flaky = scripted(Raises(ConnectionError()), Raises(ConnectionError()), Returns("well"), breaker=policy)
    engine = engine_factory(flaky)
    [breaker] = engine.circuits.values()
    for _ in range(2):
        await engine.invoke("scripted")
    assert breaker.circuit_state == "OPEN"
    refused = await engine.invoke("scripted")
    assert refused.error_info is not None
    assert refused.error_info.code == "CIRCUIT_OPEN"
    await virtual_clock.sleep(60.0)
    assert breaker.circuit_state == "HALF_OPEN"
    assert (await engine.invoke("scripted")).text == "well"
    assert breaker.circuit_state == "CLOSED"
    assert len(flaky.calls) == 3


async def test_an_engine_of_ones_own_is_watched_when_the_clock_is_told(virtual_clock: PacedClock) -> None:
    def work(ctx: ToolContext) -> float | None:
        time.sleep(0.02)
        return ctx.remaining

    engine = ToolEngine([tool(timeout=1.0)(work)], clock=virtual_clock)
    virtual_clock.watch(engine)
    assert (await engine.invoke("work")).data == 1.0
    assert virtual_clock.monotonic() == 0.0
