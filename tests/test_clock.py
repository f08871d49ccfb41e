"""Time as a parameter: the machine's own, and one that is moved by hand."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine.clock import Clock, SystemClock, VirtualClock


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# -- the machine's own ----------------------------------------------------------------------------------------------


def test_system_clock_tells_the_machines_time() -> None:
    clock: Clock = SystemClock()
    before, after = time.monotonic(), time.time()
    assert before <= clock.monotonic() <= time.monotonic()
    assert after <= clock.wall() <= time.time()


async def test_system_clock_sleeps_by_turns_of_the_loop() -> None:
    """Zero seconds give way once; nothing else is waited for here."""
    turned: list[int] = []
    asyncio.get_running_loop().call_soon(turned.append, 1)
    await SystemClock().sleep(0)
    assert turned == [1]


@pytest.mark.parametrize("ago", [0.0, 5.0, math.inf])
async def test_system_clock_calls_back_at_once_for_what_is_due(ago: float) -> None:
    clock, rung = SystemClock(), asyncio.Event()
    clock.call_at(clock.monotonic() - ago, rung.set)
    await rung.wait()


async def test_system_clock_asks_the_loop_for_the_seconds_that_are_left() -> None:
    """Even where the loop counts from another zero than the machine does."""
    loop, clock, rung = asyncio.get_running_loop(), SystemClock(), []
    loop_time = loop.time
    loop.time = lambda: loop_time() + 1e6  # a loop of another zero, as uvloop's is
    try:
        timer = clock.call_at(clock.monotonic() + 60.0, rung.append, "late")
        assert timer.when() - loop.time() == pytest.approx(60.0, abs=1.0)
        timer.cancel()
        await turns()
    finally:
        loop.time = loop_time
    assert (timer.cancelled(), rung) == (True, [])


async def test_a_timer_and_the_time_come_from_one_source_whatever_is_done_to_the_time_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a test library does that freezes time: else each wait would be over at once, and begin anew for ever."""
    clock = SystemClock()
    monkeypatch.setattr(time, "monotonic", lambda: 1e12)
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda: 0.0)
    timer = clock.call_at(clock.monotonic() + 60.0, print)
    assert timer.when() == pytest.approx(60.0, abs=1.0)
    timer.cancel()


def test_timers_of_loops_in_several_threads_may_ring_at_the_same_time() -> None:
    """Each of them rings although another thread's is in the midst of its own."""
    both, rung = threading.Barrier(2, timeout=10), []

    async def main() -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        errors: list[object] = []
        loop.set_exception_handler(lambda _, context: (errors.append(context), done.set()))

        def ring() -> None:
            with suppress(threading.BrokenBarrierError):
                both.wait()
            rung.append(1)
            done.set()

        SystemClock.call_at(SystemClock.monotonic(), ring)
        await done.wait()
        if errors:
            both.abort()
        assert errors == []

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(asyncio.run, main()) for _ in range(2)]:
            future.result(20)
    assert rung == [1, 1]


def test_system_clock_needs_a_running_loop_to_call_back() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        SystemClock().call_at(0.0, print)


# -- moved by hand --------------------------------------------------------------------------------------------------


def test_virtual_clock_stands_still_until_it_is_advanced() -> None:
    clock: Clock = VirtualClock(start=5.0, wall=1_000.0)
    assert isinstance(clock, VirtualClock)
    assert (clock.monotonic(), clock.wall()) == (5.0, 1_000.0)
    clock.advance(2.5)
    clock.advance(0)
    assert (clock.monotonic(), clock.wall()) == (7.5, 1_002.5)


def test_virtual_clock_begins_at_zero_on_a_day_of_this_century() -> None:
    clock = VirtualClock()
    assert (clock.monotonic(), time.gmtime(clock.wall()).tm_year) == (0.0, 2023)


@pytest.mark.parametrize("seconds", [-0.001, -math.inf, math.nan])
def test_virtual_time_never_goes_back(seconds: float) -> None:
    clock, rung = VirtualClock(), []
    clock.call_at(-1.0, rung.append, "due")
    with pytest.raises(ValueError, match=f"time cannot go back, but seconds is {seconds}; give 0 or more"):
        clock.advance(seconds)
    assert (clock.monotonic(), rung) == (0.0, [])


@given(
    whens=st.lists(st.integers(-2, 12), max_size=12),
    cancelled=st.sets(st.integers(0, 11)),
    steps=st.lists(st.integers(0, 5), max_size=6),
)
def test_timers_ring_once_in_their_order_each_at_its_own_time(
    whens: list[int], cancelled: set[int], steps: list[int]
) -> None:
    """Those of one moment in the order in which they were set; the overdue at the time that it is."""
    clock = VirtualClock()
    rung: list[tuple[int, float]] = []
    timers = [clock.call_at(when, lambda n: rung.append((n, clock.monotonic())), n) for n, when in enumerate(whens)]
    for number in cancelled & set(range(len(timers))):
        timers[number].cancel()
    alive = sorted((when, n) for n, when in enumerate(whens) if n not in cancelled)
    assert rung == []
    for step in steps:
        clock.advance(step)
    now = sum(steps)
    assert clock.monotonic() == now
    assert rung == [(n, max(when, 0)) for when, n in alive if steps and when <= now]
    assert clock.next_timer == next((when for when, _ in alive if not steps or when > now), None)


def test_a_timer_set_by_a_timer_rings_on_the_same_way_if_it_falls_due() -> None:
    clock, rung = VirtualClock(), []

    def again() -> None:
        rung.append(clock.monotonic())
        clock.call_at(clock.monotonic() + 2.0, again)

    clock.call_at(1.0, again)
    clock.advance(6.0)
    assert rung == [1.0, 3.0, 5.0]
    assert clock.next_timer == 7.0


def test_a_timer_may_cancel_the_next_one() -> None:
    clock, rung = VirtualClock(), []
    second = clock.call_at(2.0, rung.append, "second")
    clock.call_at(1.0, second.cancel)
    clock.advance(5.0)
    assert rung == []
    second.cancel()
    assert clock.next_timer is None


def test_a_timer_may_advance_the_clock_and_time_does_not_go_back_after_it() -> None:
    clock, seen = VirtualClock(), []
    clock.call_at(1.0, clock.advance, 10.0)
    clock.call_at(5.0, lambda: seen.append(clock.monotonic()))
    clock.advance(2.0)
    assert (seen, clock.monotonic()) == ([5.0], 11.0)


def test_a_timer_that_raises_is_over_and_the_others_can_still_ring() -> None:
    clock, rung = VirtualClock(), []
    clock.call_at(1.0, [].pop)
    clock.call_at(2.0, rung.append, "second")
    with pytest.raises(IndexError):
        clock.advance(5.0)
    assert (clock.monotonic(), rung) == (1.0, [])
    clock.advance(1.0)
    assert rung == ["second"]


async def test_virtual_sleep_ends_when_the_clock_has_come_that_far() -> None:
    clock = VirtualClock()
    sleepers = [asyncio.ensure_future(clock.sleep(seconds)) for seconds in (2.0, 1.0)]
    await turns()
    assert clock.next_timer == 1.0
    clock.advance(1.0)
    await turns()
    assert [sleeper.done() for sleeper in sleepers] == [False, True]
    clock.advance(1.0)
    await turns()
    assert sleepers[0].done()


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_virtual_sleep_of_no_time_gives_way_once(seconds: float) -> None:
    clock, turned = VirtualClock(), []
    asyncio.get_running_loop().call_soon(turned.append, 1)
    await clock.sleep(seconds)
    assert (turned, clock.next_timer) == ([1], None)


async def test_a_cancelled_virtual_sleep_takes_its_timer_along() -> None:
    clock = VirtualClock()
    sleeper = asyncio.ensure_future(clock.sleep(1.0))
    await turns()
    sleeper.cancel()
    await turns()
    assert (sleeper.cancelled(), clock.next_timer) == (True, None)


async def test_a_virtual_sleep_that_is_cancelled_as_it_falls_due_stays_cancelled() -> None:
    clock = VirtualClock()
    sleeper = asyncio.ensure_future(clock.sleep(1.0))
    await turns()
    sleeper.cancel()
    clock.advance(1.0)
    await turns()
    assert sleeper.cancelled()
