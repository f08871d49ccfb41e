"""The way into an attempt: what is waited for, in what order, and what makes waiting pointless."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fsm_engine import (
    BreakerPolicy,
    FallbackPolicy,
    RateLimit,
    Stages,
    ToolCall,
    ToolEngine,
    ToolInvocation,
    ToolSpec,
    VirtualClock,
    on_exit,
)

from .support import Stuck, Watch, idle, logged, now, play, until, virtual


class Door:
    """A tool whose attempts wait until they are let through, one at a time or all."""

    def __init__(self) -> None:
        self.inside: list[tuple[Any, asyncio.Future[Any]]] = []

    async def __call__(self, who: str = "") -> str:
        opened = asyncio.get_running_loop().create_future()
        self.inside.append((who, opened))
        await opened
        return who

    def let_one_out(self, error: BaseException | None = None) -> None:
        _, opened = self.inside.pop(0)
        if error is None:
            opened.set_result(None)
        else:
            opened.set_exception(error)

    @property
    def names(self) -> list[Any]:
        return [who for who, _ in self.inside]


async def quick() -> str:
    return "quick"


def door_engine(*, of_engine: int | None = None, **settings: Any) -> tuple[ToolEngine, Door]:
    """An engine with a door of these settings; `of_engine`: how many attempts the engine runs at once."""
    door = Door()
    for_engine = {key: settings.pop(key) for key in ("hooks", "stages") if key in settings}
    return virtual(ToolSpec(name="door", func=door, **settings), max_concurrency=of_engine, **for_engine), door


def knock(engine: ToolEngine, who: str = "", **settings: Any) -> ToolInvocation:
    return engine.start(ToolCall("door", {"who": who}), **settings)


def why(invocation: ToolInvocation) -> tuple[str, str | None]:
    assert invocation.error is not None
    return invocation.error.code, invocation.error.reason


OPEN = ("CIRCUIT_OPEN", "circuit_breaker_open")


# -- a circuit that lets nobody through ----------------------------------------------------------------------------------------------------


async def test_an_open_circuit_never_queues_behind_hung_calls() -> None:
    engine, door = door_engine(max_concurrency=1, breaker=BreakerPolicy(), timeout=None)
    hung = knock(engine)
    await idle()
    engine.circuits["door@1"].open()
    refused = await engine.invoke("door")
    assert refused.error_info is not None
    assert (refused.error_info.code, refused.error_info.retry_after) == ("CIRCUIT_OPEN", 60.0)
    assert "Wait at least 60 seconds" in refused.for_model()
    assert hung.state == "EXECUTING"
    door.let_one_out()
    await hung


async def test_a_call_that_an_open_circuit_refuses_costs_no_rate_token() -> None:
    engine, door = door_engine(rate_limit=RateLimit(1, per=1_000.0), breaker=BreakerPolicy())
    engine.circuits["door@1"].open()
    assert why(await knock(engine)) == OPEN
    engine.circuits["door@1"].reset()
    call = knock(engine)
    await idle()
    assert call.state == "EXECUTING"
    door.let_one_out()
    await call


@pytest.mark.parametrize(
    "settings",
    [{"max_concurrency": 1}, {"of_engine": 1}, {"rate_limit": RateLimit(1, per=1_000.0)}],
    ids=["the tool's slots", "the engine's slots", "the rate"],
)
@pytest.mark.parametrize("how", ["open", "force_open"])
async def test_a_circuit_that_opens_wakes_everybody_who_waits(settings: dict[str, Any], how: str) -> None:
    engine, door = door_engine(breaker=BreakerPolicy(), timeout=None, **settings)
    first = knock(engine)
    await idle()
    waiting = [knock(engine) for _ in range(3)]
    await idle()
    assert [each.state for each in waiting] == ["ADMITTING"] * 3
    getattr(engine.circuits["door@1"], how)()
    for each in waiting:
        await asyncio.wait_for(each, 5)
        assert why(each) == OPEN
    assert now(engine) == 0.0
    assert engine.circuits["door@1"].metrics().refused == 3
    door.let_one_out()
    assert (await first).result == ""


async def test_the_failure_that_opens_the_circuit_wakes_those_who_wait_behind_it() -> None:
    policy = BreakerPolicy.consecutive(1)
    engine, door = door_engine(max_concurrency=1, breaker=policy, timeout=None)
    first, second = knock(engine), knock(engine)
    await idle()
    door.let_one_out(ConnectionError("gone"))
    await first
    await asyncio.wait_for(second, 5)
    assert (why(first)[0], why(second)) == ("NETWORK_ERROR", OPEN)
    assert door.names == []


async def test_a_circuit_opened_from_another_thread_wakes_those_who_wait() -> None:
    engine, door = door_engine(max_concurrency=1, breaker=BreakerPolicy(), timeout=None)
    first, second = knock(engine), knock(engine)
    await idle()
    loop = asyncio.get_running_loop()
    began = loop.time()
    threading.Thread(target=engine.circuits["door@1"].force_open).start()
    await asyncio.wait_for(second, 10)
    assert why(second) == OPEN
    assert loop.time() - began < 5  # the loop, which sleeps, was woken by this
    door.let_one_out()
    await first


async def test_the_permit_is_taken_last() -> None:
    """Calls that wait for a slot hold no permit, so the probes of a half-open circuit are those that run."""
    policy = BreakerPolicy(permitted_calls_in_half_open=2)
    engine, door = door_engine(max_concurrency=1, breaker=policy, timeout=None)
    circuit = engine.circuits["door@1"]
    circuit.open()
    circuit.half_open()
    first, second, third = (knock(engine, name) for name in "abc")
    await idle()
    assert (first.permit is not None, second.permit, third.permit) == (True, None, None)
    third.cancel()
    await third
    fourth = knock(engine, "d")
    await idle()
    door.let_one_out()
    await idle()
    assert door.names == ["b"]
    door.let_one_out()
    await second
    assert str(circuit.circuit_state) == "CLOSED"
    await idle()
    door.let_one_out()
    assert (await fourth).result == "d"


async def test_no_more_probes_are_admitted_than_permitted_and_the_others_are_refused_at_once() -> None:
    engine, door = door_engine(breaker=BreakerPolicy(permitted_calls_in_half_open=3), timeout=None)
    circuit = engine.circuits["door@1"]
    circuit.open()
    circuit.half_open()
    calls = [knock(engine) for _ in range(50)]
    await idle()
    assert len(door.inside) == 3
    refused = [each for each in calls if each.is_final]
    assert [why(each) for each in refused] == [OPEN] * 47
    assert refused[0].error is not None
    assert refused[0].error.retry_after is None
    while door.inside:
        door.let_one_out()
    for each in calls:
        await each
    assert str(circuit.circuit_state) == "CLOSED"


async def test_nobody_waits_behind_a_probe_that_hangs() -> None:
    policy = BreakerPolicy(permitted_calls_in_half_open=1)
    engine, door = door_engine(max_concurrency=1, breaker=policy, timeout=None)
    circuit = engine.circuits["door@1"]
    circuit.open()
    circuit.half_open()
    probe = knock(engine)
    await idle()
    refused = await engine.execute_tool_call(ToolCall("door"))
    assert why(refused) == OPEN
    assert circuit.metrics().refused == 1
    door.let_one_out()
    await probe


async def test_of_those_who_waited_for_slots_only_the_permitted_run() -> None:
    engine, door = door_engine(of_engine=2, breaker=BreakerPolicy(permitted_calls_in_half_open=1), timeout=None)
    blocker = Door()
    engine.register(ToolSpec(name="blocker", func=blocker))
    blocking = [engine.start(ToolCall("blocker")) for _ in range(2)]
    await idle()
    circuit = engine.circuits["door@1"]
    circuit.open()
    circuit.half_open()
    first, second = knock(engine), knock(engine)
    await idle()
    assert [each.state for each in (first, second)] == ["ADMITTING"] * 2
    for each in blocking:
        blocker.let_one_out()
        await each
    await second
    assert (first.state, why(second)) == ("EXECUTING", OPEN)
    assert circuit.metrics().refused == 1
    door.let_one_out()
    await first


async def test_a_probe_that_is_cancelled_gives_its_permit_back() -> None:
    engine, door = door_engine(breaker=BreakerPolicy(permitted_calls_in_half_open=1), timeout=None)
    circuit = engine.circuits["door@1"]
    circuit.open()
    circuit.half_open()
    probe = knock(engine)
    await idle()
    probe.cancel()
    await probe
    second = knock(engine)
    await idle()
    assert second.state == "EXECUTING"
    door.inside.pop(0)
    door.let_one_out()
    await second
    assert str(circuit.circuit_state) == "CLOSED"


# -- the queue ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{"max_concurrency": 1}, {"of_engine": 1}],
    ids=["the tool's slots", "the engine's slots"],
)
async def test_a_full_queue_refuses_and_says_when_to_come_back(settings: dict[str, Any]) -> None:
    engine, door = door_engine(max_queue=2, timeout=None, **settings)
    assert isinstance(engine.clock, VirtualClock)
    first = knock(engine)
    await idle()
    engine.clock.advance(6.0)
    door.let_one_out()
    await first
    calls = [knock(engine) for _ in range(3)]
    await idle()
    refused = await knock(engine)
    assert why(refused) == ("RATE_LIMIT", "queue_full")
    assert refused.error is not None
    # Two wait for one slot, and an attempt takes six seconds: the third would wait for three of them.
    assert (refused.error.retry_after, refused.error.transient, refused.error.counts) == (18.0, False, False)
    assert refused.response is not None
    assert "Wait at least 18 seconds" in refused.response.for_model()
    for _ in calls:
        await idle()
        door.let_one_out()
    for each in calls:
        assert (await each).error is None
    later = [knock(engine) for _ in range(3)]
    await idle()
    assert [each.is_final for each in later] == [False] * 3  # there is room again
    for each in later:
        each.cancel()
        await each


async def test_before_anything_has_ended_the_time_to_come_back_is_a_guess() -> None:
    engine, _ = door_engine(max_concurrency=1, max_queue=1, timeout=None)
    calls = [knock(engine) for _ in range(2)]
    await idle()
    refused = await knock(engine)
    assert refused.error is not None
    assert refused.error.retry_after == 2.0
    for each in calls:
        each.cancel()
        await each


async def test_a_fallback_stands_in_where_the_queue_is_full() -> None:
    watch = Watch()
    fallback = FallbackPolicy(value="busy")
    engine, _ = door_engine(max_concurrency=1, max_queue=1, fallback=fallback, stages=Stages(publish=watch))
    calls = [knock(engine) for _ in range(2)]
    await idle()
    response = await engine.invoke("door")
    assert (response.text, response.reason) == ("busy", "queue_full")
    assert [event.reason for event in watch.events if event.type == "tool_fallback"] == ["queue_full"]  # type: ignore[attr-defined]  # its type says so
    for each in calls:
        each.cancel()
        await each


async def test_the_tools_take_turns_where_they_wait_for_the_engine() -> None:
    """A hundred calls of one tool do not stand before the first call of another."""
    engine, door = door_engine(of_engine=1, timeout=None)
    engine.register(ToolSpec(name="quick", func=quick))
    crowd = [knock(engine) for _ in range(100)]
    await idle()
    other = engine.start(ToolCall("quick"))
    await idle()
    for _ in range(2):
        door.let_one_out()
        await idle()
    assert other.is_final
    assert sum(each.is_final for each in crowd) == 2
    for each in crowd:
        each.cancel()
    for each in crowd:
        await each


async def test_a_circuit_that_opens_before_a_retry_calls_in_the_fallback_with_the_first_error_beside_it() -> None:
    settings = {"idempotent": True, "max_retries": 3, "timeout": None, "fallback": FallbackPolicy(value="x")}
    engine, door = door_engine(breaker=BreakerPolicy.consecutive(2), **settings)
    first, second = knock(engine), knock(engine)
    await idle()
    door.let_one_out(ConnectionError("gone"))
    await idle()
    assert first.state == "RETRYING"
    door.let_one_out(ConnectionError("gone"))
    await second
    assert second.response is not None
    # The failure that opened the circuit allows no retry, and no fallback was asked for after failures.
    assert why(second)[0] == "NETWORK_ERROR"
    await play(engine, first)
    assert first.response is not None
    assert (first.response.text, first.response.reason) == ("x", "circuit_breaker_open")
    about: Any = first.response.context["fallback"]
    assert about["error"]["code"] == "NETWORK_ERROR"
    assert len(first.attempts) == 1


async def test_a_retry_that_meets_an_open_circuit_ends_with_the_last_real_error() -> None:
    engine, door = door_engine(breaker=BreakerPolicy(), idempotent=True, max_retries=3, timeout=None)
    first = knock(engine)
    await idle()
    door.let_one_out(ConnectionError("gone"))
    await idle()
    engine.circuits["door@1"].open()
    await play(engine, first)
    assert first.path[-3:] == ("RETRYING", "ADMITTING", "FAILED")
    assert why(first)[0] == "NETWORK_ERROR"


# -- two things at once -------------------------------------------------------------------------------------------------


async def _cancel(engine: ToolEngine, waiting: ToolInvocation) -> None:
    waiting.cancel()


async def _let_time_pass(engine: ToolEngine, waiting: ToolInvocation) -> None:
    assert isinstance(engine.clock, VirtualClock)
    engine.clock.advance(10.0)


@pytest.mark.parametrize(
    ("happens", "state", "code"), [(_cancel, "CANCELLED", "CANCELLED"), (_let_time_pass, "FAILED", "TIMEOUT")]
)
async def test_a_slot_that_comes_together_with_a_reason_to_leave_is_given_back_and_nothing_runs(
    happens: Callable[..., Any], state: str, code: str
) -> None:
    engine, door = door_engine(max_concurrency=1, timeout=None)
    first, second = knock(engine), knock(engine, deadline=10.0)
    await idle()
    door.let_one_out()
    await until(lambda: first.is_final)
    await happens(engine, second)
    await second
    assert (second.state, why(second)[0]) == (state, code)
    assert "EXECUTING" not in second.path
    assert not second.attempts
    third = knock(engine)
    await idle()
    assert third.state == "EXECUTING"
    door.let_one_out()
    await third


async def test_the_time_in_the_queue_is_told_however_the_wait_ends() -> None:
    engine, door = door_engine(max_concurrency=1, timeout=None)
    first, late = knock(engine), knock(engine, deadline=3.0)
    await idle()
    await play(engine, late)
    assert late.response is not None
    assert late.response.stats["queue_ms"] == 3_000.0
    door.let_one_out()
    await first


async def test_a_deadline_that_has_passed_admits_nobody() -> None:
    def dawdle(event: Any) -> None:
        event.model.clock.advance(5.0)

    engine, door = door_engine(hooks=[on_exit("VALIDATING", dawdle)])
    invocation = await knock(engine, deadline=2.0)
    assert why(invocation) == ("TIMEOUT", "deadline_in_queue")
    assert invocation.error is not None
    assert invocation.error.effect == "none"
    assert door.inside == []


async def test_a_clock_that_breaks_while_a_call_waits_costs_no_slot() -> None:
    class Breaking(VirtualClock):
        broken = False

        def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> Any:
            if self.broken:
                raise RuntimeError("out of order")
            return super().call_at(when, callback, *args)

    door, clock = Door(), Breaking()
    with logged():
        engine = ToolEngine([ToolSpec(name="door", func=door, max_concurrency=1, timeout=None)], clock=clock)
        first = knock(engine)
        await idle()
        clock.broken = True
        second = await knock(engine, deadline=5.0)
        clock.broken = False
    assert why(second)[0] == "INTERNAL_ERROR"
    door.let_one_out()
    await first
    third = knock(engine)
    await idle()
    door.let_one_out()
    assert (await third).error is None


# -- functions that go on -------------------------------------------------------------------------------------------------


async def test_a_coroutine_that_ignores_its_cancellation_keeps_its_slot_and_is_not_retried() -> None:
    release = asyncio.Event()
    alerts: list[Any] = []

    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    engine = virtual(
        ToolSpec(name="t", func=stubborn, timeout=1.0, max_concurrency=1, read_only=True, max_retries=3),
        max_concurrency=1,
    )
    engine.register(ToolSpec(name="quick", func=quick))
    engine.on_alert(lambda alert: alerts.append((str(alert.kind), alert.tool, alert.reason)))
    with logged():
        first = await play(engine, engine.execute_tool_call(ToolCall("t")))
        assert (why(first)[0], len(first.attempts)) == ("TIMEOUT", 1)
        second = engine.start(ToolCall("t"))
        await idle()
        assert second.state == "ADMITTING"
        # It keeps what is its tool's, and nothing that other tools need.
        assert (await engine.invoke("quick")).text == "quick"
        release.set()
        assert (await second).result == "late"
    assert alerts == [("tool_abandoned", "t", "ignores_cancellation"), ("late_result", "t", "success")]


async def test_a_hung_thread_keeps_its_slot_and_an_open_circuit_refuses_at_once() -> None:
    stuck = Stuck()

    def hang() -> str:
        stuck()
        return "late"

    policy = BreakerPolicy.consecutive(1)
    with logged() as lines:
        engine = virtual(ToolSpec(name="t", func=hang, timeout=1.0, max_concurrency=1, breaker=policy))
        first = await play(engine, engine.execute_tool_call(ToolCall("t")), stuck)
        assert why(first)[0] == "TIMEOUT"
        assert (await engine.execute_tool_call(ToolCall("t"))).path[-2:] == ("ADMITTING", "FAILED")
        assert (engine.threads.busy, engine.threads.abandoned) == (1, 1)
        stuck.let_go()
        await until(lambda: engine.threads.busy == 0)
    assert engine.threads.abandoned == 0
    assert [line["version"] for line in lines if line["event"] == "late_result_discarded"] == ["1"]
    # Its late success is no news of the circuit: the permit was settled by the time-out.
    assert str(engine.circuits["t@1"].circuit_state) == "OPEN"
