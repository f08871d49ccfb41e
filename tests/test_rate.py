"""Rate limits: how often, in what order, and who is told to come back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine import BreakerPolicy, ConfigurationError, RateLimit, ToolCall, ToolSpec, VirtualClock
from fsm_engine.tools.rate import RateTokens

from .support import idle, now, play, virtual


async def nothing() -> str:
    return "done"


class Timed:
    """A tool that notes when each of its attempts began."""

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = clock
        self.began: list[tuple[float, int]] = []

    async def __call__(self, number: int) -> int:
        assert self.clock is not None
        self.began.append((round(self.clock.monotonic(), 3), number))
        return number


def limited(limit: int, per: float = 1.0, **settings: Any) -> tuple[Any, Timed]:
    timed = Timed()
    engine = virtual(ToolSpec(name="t", func=timed, rate_limit=RateLimit(limit, per), **settings))
    assert isinstance(engine.clock, VirtualClock)
    timed.clock = engine.clock
    return engine, timed


def call(number: int) -> ToolCall:
    return ToolCall("t", {"number": number})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": None}, "limit"),
        ({"limit": 1.5}, "limit"),
        ({"limit": 1, "per": 0}, "per"),
        ({"limit": 1, "per": None}, "per"),
        ({"limit": 1, "per": 0.0001}, "0.001 up"),
    ],
)
def test_a_rate_that_means_nothing_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        RateLimit(**settings)


@given(
    limit=st.integers(1, 5),
    per=st.sampled_from([0.001, 0.25, 1.0, 3.7]),
    pauses=st.lists(st.floats(0.0, 2.0), min_size=1, max_size=60),
)
def test_no_span_of_time_holds_more_than_the_limit_and_no_wait_is_longer_than_it_must_be(
    limit: int, per: float, pauses: list[float]
) -> None:
    clock = VirtualClock()
    tokens = RateTokens(RateLimit(limit, per), clock)
    taken: list[float] = []
    for pause in pauses:
        clock.advance(pause)
        while seconds := tokens.seconds_until_free():
            assert len(taken) >= limit
            assert clock.monotonic() - taken[-limit] <= per + 0.002
            clock.advance(seconds)
        assert tokens.try_take()
        assert tokens._bucket.count() <= limit
        taken.append(clock.monotonic())
    for first, last in zip(taken, taken[limit:], strict=False):
        assert last - first > per - 0.001  # the bucket counts in milliseconds


def test_what_is_counted_is_bounded_by_the_limit() -> None:
    clock = VirtualClock()
    tokens = RateTokens(RateLimit(3, per=1.0), clock)
    for _ in range(100):
        clock.advance(0.4)
        assert tokens.try_take()
        assert tokens._bucket.count() <= 4
    assert not all(tokens.try_take() for _ in range(3))


async def test_calls_that_come_too_early_wait_in_the_order_of_asking() -> None:
    engine, timed = limited(2, per=10.0)
    calls = [engine.start(call(number)) for number in range(5)]
    for each in calls:
        await play(engine, each)
    assert [number for _, number in timed.began] == [0, 1, 2, 3, 4]
    assert [round(at, 1) for at, _ in timed.began] == [0.0, 0.0, 10.0, 10.0, 20.0]


async def test_nobody_overtakes_the_line_even_when_a_token_is_there() -> None:
    engine, timed = limited(1, per=10.0)
    await engine.invoke("t", {"number": 0})
    waiting = engine.start(call(1))
    await idle()
    engine.clock.advance(10.1)
    late = await engine.invoke("t", {"number": 2}, deadline=5.0)
    assert late.error_info is not None
    assert late.error_info.reason == "rate_limited"
    assert (await waiting).result == 1
    assert [number for _, number in timed.began] == [0, 1]


async def test_one_tools_limit_is_not_anothers() -> None:
    engine, _ = limited(1, per=10.0)
    engine.register(ToolSpec(name="free", func=nothing))
    waiting = [engine.start(call(number)) for number in range(3)]
    await idle()
    assert (await engine.invoke("free")).text == "done"
    for each in waiting:
        each.cancel()
        await each


async def test_a_token_that_comes_after_the_deadline_is_not_waited_for() -> None:
    engine, _ = limited(1, per=10.0)
    await engine.invoke("t", {"number": 1})
    response = await engine.invoke("t", {"number": 2}, deadline=5.0)
    error = response.error_info
    assert error is not None
    assert (error.code, error.reason, error.transient, error.counts) == ("RATE_LIMIT", "rate_limited", False, False)
    assert error.retry_after == pytest.approx(10.0, abs=0.01)
    assert now(engine) == 0.0


@pytest.mark.parametrize("settings", [{}, {"max_concurrency": 1}, {"max_concurrency": 2}])
@pytest.mark.parametrize("limit", [1, 3])
async def test_everybody_in_line_is_told_at_once_when_there_is_no_token_before_the_deadline(
    limit: int, settings: dict[str, Any]
) -> None:
    """The first in line, and those behind it, by their place: one more span for each full round before them."""
    engine, timed = limited(limit, per=10.0, **settings)
    for number in range(limit):
        await engine.invoke("t", {"number": number})
    calls = [engine.start(call(limit + number), deadline=15.0) for number in range(3 * limit)]
    await idle()
    assert now(engine) == 0.0
    in_time, too_late = calls[:limit], calls[limit:]
    assert not any(each.is_final for each in in_time)
    for each in too_late:
        assert each.error is not None
        assert (each.error.code, each.error.reason) == ("RATE_LIMIT", "rate_limited")
        # Nobody who is refused stands before them, so all are told of the second round.
        assert each.error.retry_after == pytest.approx(20.0, abs=0.01)
    for each in in_time:
        assert (await play(engine, each)).error is None
    assert [number for _, number in timed.began] == list(range(2 * limit))


async def test_the_time_that_is_told_is_that_of_the_place_in_the_line() -> None:
    engine, _ = limited(2, per=10.0)
    patient = [engine.start(call(number)) for number in range(7)]
    await idle()
    told = await engine.invoke("t", {"number": 7}, deadline=5.0)
    assert told.error_info is not None
    assert told.error_info.retry_after == pytest.approx(30.0, abs=0.01)
    for each in patient:
        each.cancel()
        await each
    told = await engine.invoke("t", {"number": 8}, deadline=5.0)
    assert told.error_info is not None
    assert told.error_info.retry_after == pytest.approx(10.0, abs=0.01)


async def test_whoever_leaves_the_line_keeps_it_moving() -> None:
    engine, timed = limited(1, per=10.0)
    first, second, third = (engine.start(call(number)) for number in range(3))
    await first
    await idle()
    fourth = engine.start(call(3))
    await idle()
    for leaving in (third, second):  # one who waits in line, and the one who waits for the token
        leaving.cancel()
        await leaving
    assert (await play(engine, fourth)).result == 3
    assert [number for _, number in timed.began] == [0, 3]


async def test_tokens_are_of_the_time_of_the_attempt_even_if_a_slot_comes_late() -> None:
    """Calls that wait for a slot of the engine do not save up tokens and rush out together."""
    release = asyncio.Event()

    async def busy() -> None:
        await release.wait()

    timed = Timed()
    rate = RateLimit(1, per=10.0)
    engine = virtual(
        ToolSpec(name="busy", func=busy), ToolSpec(name="t", func=timed, rate_limit=rate), max_concurrency=1
    )
    assert isinstance(engine.clock, VirtualClock)
    timed.clock = engine.clock
    blocker = engine.start(ToolCall("busy"))
    await idle()
    calls = [engine.start(call(number)) for number in range(3)]
    await idle()
    engine.clock.advance(50.0)
    await idle()
    release.set()
    await blocker
    for each in calls:
        await play(engine, each)
    assert [round(at) for at, _ in timed.began] == [50, 60, 70]


async def test_no_slot_of_the_engine_is_kept_while_a_token_is_waited_for() -> None:
    timed = Timed()
    tools = (
        ToolSpec(name="t", func=timed, rate_limit=RateLimit(1, per=60.0)),
        ToolSpec(name="other", func=nothing),
    )
    engine = virtual(*tools, max_concurrency=1)
    assert isinstance(engine.clock, VirtualClock)
    timed.clock = engine.clock
    await engine.invoke("t", {"number": 0})
    waiting = engine.start(call(1))
    await idle()
    assert (await engine.invoke("other")).text == "done"
    waiting.cancel()
    await waiting


async def test_a_circuit_that_opens_wakes_the_call_that_waits_for_a_token() -> None:
    engine, _ = limited(1, per=1_000.0, breaker=BreakerPolicy())
    await engine.invoke("t", {"number": 0})
    waiting = [engine.start(call(number)) for number in (1, 2)]
    await idle()
    engine.circuits["t@1"].open()
    for each in waiting:
        await asyncio.wait_for(each, 5)
        assert each.error is not None
        assert each.error.code == "CIRCUIT_OPEN"
    assert now(engine) == 0.0
