"""A scripted tool does what its script says, attempt by attempt, in the loop and in a thread alike."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_engine import ConfigurationError, RetryPolicy, Stages, ToolEngine, ToolExecutionEvent, ToolInvocation
from fsm_engine.testing import (
    Delays,
    Emits,
    EventLog,
    Hangs,
    PacedClock,
    Raises,
    Reports,
    Returns,
    assert_path,
    scripted,
)
from fsm_engine.testing.plugin import EngineFactory, ScriptedToolFactory
from fsm_engine.testing.script import Action
from fsm_engine.testing.strategies import scripts

from ..support import assert_ended, assert_told_in_full

CALL = {"id": "c1", "name": "scripted", "arguments": {"a": 1}}
both = pytest.mark.parametrize("thread", [False, True], ids=["loop", "thread"])


def executions(log: EventLog, invocation: ToolInvocation) -> list[ToolExecutionEvent]:
    events = [event for event in log.of(invocation) if isinstance(event, ToolExecutionEvent)]
    return [event for event in events if not event.is_state_change]


@both
async def test_each_attempt_follows_its_own_part_and_the_last_is_repeated(
    engine_factory: EngineFactory, scripted_tool: ScriptedToolFactory, thread: bool
) -> None:
    flaky = scripted_tool(Raises(ConnectionError("gone")), Returns(1), thread=thread, read_only=True, max_retries=1)
    engine = engine_factory(flaky)
    first, second = await engine.execute_tool_call(CALL), await engine.execute_tool_call({**CALL, "arguments": {}})
    assert_path(first, "... > EXECUTING > RETRYING > ADMITTING > EXECUTING > COMPLETED")
    assert_path(second, "... > ADMITTING > EXECUTING > COMPLETED")
    assert (first.result, second.result) == (1, 1)
    assert flaky.calls == [{"a": 1}, {"a": 1}, {}]


@both
async def test_it_reports_emits_and_takes_its_time(
    engine_factory: EngineFactory,
    scripted_tool: ScriptedToolFactory,
    event_log: EventLog,
    virtual_clock: PacedClock,
    thread: bool,
) -> None:
    talking = scripted_tool(
        [Reports(0.5, "half"), Delays(2.0), Emits("piece"), Delays(3.0), Returns("whole")], thread=thread
    )
    invocation = await engine_factory(talking).execute_tool_call(CALL)
    assert invocation.result == "whole"
    started = event_log.events[0].at
    said = [
        (round(each.at - started, 3), each.progress, each.message, each.chunk)
        for each in executions(event_log, invocation)
    ]
    assert said == [(0.0, 0.5, "half", None), (2.0, None, None, "piece")]
    assert virtual_clock.monotonic() == 5.0


@both
async def test_it_hangs_until_its_time_limit(
    engine_factory: EngineFactory, scripted_tool: ScriptedToolFactory, virtual_clock: PacedClock, thread: bool
) -> None:
    invocation = await engine_factory(scripted_tool(Hangs(), thread=thread, timeout=7.0)).execute_tool_call(CALL)
    assert invocation.error is not None
    assert invocation.error.code == "TIMEOUT"
    assert virtual_clock.monotonic() == 7.0


@both
async def test_what_hangs_goes_on_when_it_is_released(
    engine_factory: EngineFactory, scripted_tool: ScriptedToolFactory, virtual_clock: PacedClock, thread: bool
) -> None:
    hanging = scripted_tool([Hangs(), Returns("released")], thread=thread, timeout=None)
    invocation = engine_factory(hanging).start(CALL)
    await virtual_clock.settle()
    assert invocation.state == "EXECUTING"
    hanging.release()
    assert (await invocation).result == "released"
    assert virtual_clock.monotonic() == 0.0


@both
async def test_a_script_that_runs_out_returns_nothing(
    engine_factory: EngineFactory, scripted_tool: ScriptedToolFactory, thread: bool
) -> None:
    for tool in (scripted_tool(thread=thread), scripted_tool([Reports(1.0)], thread=thread)):
        invocation = await engine_factory(tool).execute_tool_call(CALL)
        assert (invocation.state, invocation.result) == ("COMPLETED", "Done. The tool returned nothing.")


async def test_it_stands_in_for_a_tool_with_that_one_s_name_description_and_schema(
    engine_factory: EngineFactory, scripted_tool: ScriptedToolFactory
) -> None:
    def search(query: str, limit: int = 10) -> str:
        """Search the web."""
        return f"{limit} hits for {query}"

    double = scripted_tool(Returns("hits"), like=search)
    assert (double.name, double.description) == ("search", "Search the web.")
    engine = engine_factory(double)
    good, bad = await engine.execute_tool_calls(
        [{"name": "search", "arguments": {"query": "AI"}}, {"name": "search", "arguments": {"limit": 3}}]
    )
    assert good.result == "hits"
    assert_path(bad, "PENDING > VALIDATING > FAILED [refused]")
    assert double.calls == [{"query": "AI", "limit": 10}]


@both
def test_what_hangs_is_let_go_though_its_loop_is_closed(
    engine_factory: EngineFactory, virtual_clock: PacedClock, thread: bool
) -> None:
    """As the fixture does it after the test; twice is nothing."""
    hanging = scripted(Hangs(), thread=thread, timeout=None)
    engine = engine_factory(hanging)

    async def leave_it_hanging() -> None:
        engine.start(CALL)
        await virtual_clock.settle()

    asyncio.run(leave_it_hanging())
    hanging.release()
    hanging.release()
    assert len(hanging.calls) == 1


@pytest.mark.parametrize("script", [(5,), ([Returns(1), "x"],), (Returns,)], ids=["value", "in a list", "class"])
def test_a_script_of_anything_else_is_refused(script: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError, match="each argument is one attempt"):
        scripted(*script)


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_a_delay_that_cannot_be_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="give 0 or more"):
        Delays(seconds)


@settings(max_examples=60, deadline=None)
@given(script=scripts(), thread=st.booleans(), retries=st.integers(0, 3))
async def test_every_script_ends_in_one_response_and_in_time(
    script: list[list[Action]], thread: bool, retries: int
) -> None:
    """Whatever the tool does, and however often."""
    clock, log = PacedClock(), EventLog()
    tool = scripted(
        *script, thread=thread, timeout=50.0, deadline=500.0, idempotent=True, retry=RetryPolicy(max_retries=retries)
    )
    engine = ToolEngine([tool], clock=clock, stages=Stages(publish=log))
    clock.watch(engine)
    invocation = await engine.execute_tool_call(CALL)
    assert_ended(invocation)
    assert_told_in_full(log.of(invocation))
    assert len(tool.calls) == len(invocation.attempts) <= retries + 1
    assert clock.monotonic() <= 501.0
    tool.release()
