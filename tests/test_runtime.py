"""What an engine keeps of its tools: circuits, threads, guesses, and what becomes of all that when tools or loops change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fsm_engine import (
    BreakerPolicy,
    ConfigurationError,
    RateLimit,
    RegistrationError,
    ToolCall,
    ToolEngine,
    ToolSpec,
    VirtualClock,
)
from fsm_engine.clock import SystemClock
from fsm_engine.concurrency.slots import Slots
from fsm_engine.engine.runtimes import SharedSlots, ToolRuntime

from .support import Stuck, idle, logged, play, until, virtual


async def answer() -> str:
    return "done"


async def fail() -> str:
    raise ConnectionError("gone")


def spec(name: str = "t", func: Any = answer, **settings: Any) -> ToolSpec:
    return ToolSpec(name=name, func=func, **settings)


ONE = BreakerPolicy.consecutive(1)
TWO = BreakerPolicy.consecutive(2)


# -- circuits -----------------------------------------------------------------------------------------------------------


def test_a_circuit_belongs_to_a_tool_and_version_or_to_a_group() -> None:
    engine = virtual(
        spec("a", breaker=ONE, version="2"),
        spec("b", breaker=ONE, breaker_group="upstream"),
        spec("c", breaker=ONE, breaker_group="upstream"),
        spec("d"),
    )
    assert sorted(engine.circuits) == ["a@2", "upstream"]


async def test_the_tools_of_a_group_share_one_circuit_and_others_are_left_alone() -> None:
    engine = virtual(
        spec("broken", fail, breaker=ONE, breaker_group="upstream"),
        spec("beside", breaker=ONE, breaker_group="upstream"),
        spec("apart", breaker=ONE),
    )
    await engine.invoke("broken")
    responses = [await engine.invoke(name) for name in ("broken", "beside", "apart")]
    codes = [None if response.error_info is None else response.error_info.code for response in responses]
    assert codes == ["CIRCUIT_OPEN", "CIRCUIT_OPEN", None]


def test_a_tool_with_another_policy_than_its_group_is_refused_and_not_registered() -> None:
    engine = virtual(spec("a", breaker=ONE, breaker_group="upstream"))
    with pytest.raises(ConfigurationError, match="'upstream' exists with another BreakerPolicy"):
        engine.register(spec("b", breaker=TWO, breaker_group="upstream"))
    assert "b" not in engine.registry
    with pytest.raises(ConfigurationError, match="another BreakerPolicy"):
        virtual(spec("a", breaker=ONE, breaker_group="x"), spec("b", breaker=TWO, breaker_group="x"))


async def test_a_policy_that_came_in_past_the_engine_ends_the_call_and_nothing_else() -> None:
    engine = virtual(spec("a", breaker=ONE, breaker_group="upstream"))
    engine.registry.register(spec("b", breaker=TWO, breaker_group="upstream"))
    with logged():
        response = await engine.invoke("b")
    assert response.error_info is not None
    assert response.error_info.code == "INTERNAL_ERROR"
    assert (await engine.invoke("a")).text == "done"


@pytest.mark.parametrize("version", ["1", "2"])
def test_the_only_tool_of_a_group_may_be_replaced_by_one_with_another_policy(version: str) -> None:
    engine = virtual(spec("a", breaker=ONE, breaker_group="upstream"))
    before = engine.circuits["upstream"]
    engine.register(spec("a", version=version, breaker=TWO, breaker_group="upstream"), replace=True)
    assert engine.circuits["upstream"] is not before
    assert engine.circuits["upstream"].policy == TWO


def test_a_refused_registration_changes_nothing() -> None:
    engine = virtual(spec("a", breaker=ONE))
    before = engine.circuits["a@1"]
    with pytest.raises(RegistrationError, match="is registered"):
        engine.register(spec("a", breaker=TWO))
    assert engine.circuits == {"a@1": before}


async def test_a_tool_that_is_replaced_keeps_its_circuit_if_the_policy_is_the_same() -> None:
    engine = virtual(spec("a", fail, breaker=ONE))
    await engine.invoke("a")
    engine.register(spec("a", breaker=ONE), replace=True)
    response = await engine.invoke("a")
    assert response.error_info is not None
    assert response.error_info.code == "CIRCUIT_OPEN"


@pytest.mark.parametrize("past_the_engine", [False, True])
async def test_a_tool_that_is_replaced_begins_anew_with_another_policy(past_the_engine: bool) -> None:
    engine = virtual(spec("a", fail, breaker=ONE))
    await engine.invoke("a")
    register = engine.registry.register if past_the_engine else engine.register
    register(spec("a", breaker=TWO), replace=True)
    assert (await engine.invoke("a")).text == "done"
    assert engine.circuits["a@1"].policy == TWO


async def test_a_circuit_that_no_tool_has_any_more_rings_no_alarm() -> None:
    alerts: list[Any] = []
    engine = virtual(spec("a", fail, breaker=ONE))
    await engine.invoke("a")
    engine.on_alert(alerts.append)
    gone = engine.circuits["a@1"]
    engine.register(spec("a", version="2"), replace=True)
    assert engine.circuits == {}
    assert isinstance(engine.clock, VirtualClock)
    assert engine.clock.next_timer is None
    gone.reset()
    assert alerts == []


async def test_a_closed_engine_leaves_no_timer_in_the_loop() -> None:
    """Or the loop would hold the engine, and turn its open circuit to and fro, for ever."""
    async with virtual(spec("a", fail, breaker=ONE)) as engine:
        await engine.invoke("a")
        assert isinstance(engine.clock, VirtualClock)
        assert engine.clock.next_timer == 60.0
    assert engine.clock.next_timer is None
    engine.clock.advance(61.0)
    assert str(engine.circuits["a@1"].circuit_state) == "HALF_OPEN"  # whoever looks makes the move


# -- how long until there is room ---------------------------------------------------------------------------------------


def runtime(threads: int | None = 32, engine_limit: int | None = None, **settings: Any) -> ToolRuntime:
    return ToolRuntime(spec(**settings), None, SharedSlots(Slots(engine_limit), Slots(threads)), SystemClock())


@pytest.mark.parametrize(
    ("settings", "seconds", "wait"),
    [
        ({"max_concurrency": 1}, [], 1.0),
        ({"max_concurrency": 1}, [4.0], 4.0),
        ({"max_concurrency": 1}, [4.0, 9.0], 5.0),
        ({"max_concurrency": 4}, [4.0], 1.0),
        ({"max_concurrency": 4, "engine_limit": 2}, [4.0], 2.0),
        ({"engine_limit": 2}, [4.0], 2.0),
        ({"rate_limit": RateLimit(1, per=30.0)}, [4.0], 30.0),
        ({"max_concurrency": 1}, [0.001], 0.1),
    ],
)
def test_the_time_to_come_back_follows_what_attempts_take_and_what_may_run_at_once(
    settings: dict[str, Any], seconds: list[float], wait: float
) -> None:
    made = runtime(**settings)
    for each in seconds:
        made.took(each)
    assert made.seconds_until_free == wait


@pytest.mark.parametrize(("threads", "slots"), [(32, 8), (9, 8), (8, 7), (2, 1), (1, 1), (None, 8)])
def test_a_plain_function_leaves_a_thread_to_the_others_unless_told_otherwise(threads: int | None, slots: int) -> None:
    def plain() -> None: ...

    assert [each.limit for each in runtime(threads, func=plain).own] == [slots]
    assert [each.limit for each in runtime(threads, func=plain, max_concurrency=20).own] == [20]


# -- threads ------------------------------------------------------------------------------------------------------------


async def test_the_use_of_the_threads_can_be_asked_for() -> None:
    stuck = Stuck()
    engine = virtual(spec(func=stuck, timeout=1.0, max_concurrency=5), max_threads=2)
    calls = [engine.start(ToolCall("t")) for _ in range(3)]
    await until(lambda: stuck.count == 2)
    await idle()
    use = engine.threads
    assert (use.limit, use.busy, use.abandoned, use.waiting) == (2, 2, 0, 1)
    calls[2].cancel()
    with logged():
        for each in calls:
            await play(engine, each, stuck)
    use = engine.threads
    assert (use.busy, use.abandoned, use.waiting) == (2, 2, 0)
    stuck.let_go()
    await until(lambda: engine.threads.busy == 0)
    assert engine.threads.abandoned == 0


def test_in_another_loop_an_engine_begins_anew() -> None:
    stuck = Stuck()
    alerts: list[str] = []
    engine = virtual(spec(func=stuck, timeout=1.0, max_concurrency=1), spec("quick"), max_threads=1)
    engine.register(spec("other", lambda: "other"))
    engine.on_alert(lambda alert: alerts.append(str(alert.kind)))

    async def hang() -> None:
        await play(engine, engine.invoke("t"), stuck)
        waiting = engine.start(ToolCall("other"))
        await idle()
        waiting.cancel()
        await waiting
        assert (engine.threads.busy, engine.threads.abandoned) == (1, 1)

    async def again() -> None:
        assert (await engine.invoke("quick")).text == "done"
        assert (engine.threads.busy, engine.threads.abandoned) == (0, 0)

    try:
        with logged():
            asyncio.run(hang())
            assert alerts == ["tool_abandoned", "threads_exhausted"]
            asyncio.run(again())
        assert alerts[2:] == ["threads_free"]
    finally:
        stuck.let_go()


def test_a_tool_that_is_replaced_leaves_nothing_behind() -> None:
    engine = ToolEngine([spec(breaker=ONE, health_check=answer)])
    for number in range(5):
        engine.register(spec(breaker=ONE, health_check=answer, version=str(number)), replace=True)
        asyncio.run(engine.health_check())
    runtimes = engine._runtimes
    # The tool, and its probe.
    assert (len(runtimes._by_spec), len(runtimes._probes), sorted(engine.circuits)) == (2, 1, ["t@4"])
