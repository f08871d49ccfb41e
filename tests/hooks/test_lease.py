"""What an attempt holds comes back on every way out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tenacity import wait_fixed

from fsm_engine import RetryPolicy, ToolCall, ToolContext, ToolEngine, ToolError, gate, tool

from ..support import idle, logged, play, virtual


@tool(max_concurrency=1, timeout=1.0, idempotent=True, retry=RetryPolicy(max_retries=1, wait=wait_fixed(1.0)))
async def one_at_a_time(how: str, ctx: ToolContext) -> str:
    if how == "fail" or (how == "retry" and ctx.attempt == 1):
        raise ConnectionError("gone")
    if how == "hang":
        await asyncio.get_running_loop().create_future()
    if how == "interrupt":
        raise KeyboardInterrupt
    return "done"


def refuse(event: Any) -> None:
    if event.model.arguments["how"] == "refuse":
        raise ToolError("CONFLICT", "no")


def break_(event: Any) -> None:
    if event.model.arguments["how"] == "break":
        raise RuntimeError


WAYS: list[tuple[str, dict[str, Any]]] = [
    ("succeed", {}),
    ("fail", {}),
    ("retry", {}),
    ("hang", {}),
    ("refuse", {"hooks": [gate("EXECUTING", refuse)]}),
    ("refuse", {"hooks": [gate("ADMITTING", refuse)]}),
    ("break", {"hooks": [gate("EXECUTING", break_)]}),
]


@pytest.mark.parametrize(("how", "settings"), WAYS)
async def test_after_every_ending_the_next_call_has_the_slot(how: str, settings: dict[str, Any]) -> None:
    with logged():
        engine = virtual(one_at_a_time, max_concurrency=1, **settings)
        for _ in range(3):
            invocation = await play(engine, engine.execute_tool_call(ToolCall("one_at_a_time", {"how": how})))
            assert invocation.slots == ()
        good = await play(engine, engine.execute_tool_call(ToolCall("one_at_a_time", {"how": "succeed"})))
    assert good.result == "done"


async def _cancelled(engine: ToolEngine) -> None:
    invocation = engine.start(ToolCall("one_at_a_time", {"how": "hang"}))
    await idle()
    invocation.cancel()
    await invocation


async def _caller_cancelled(engine: ToolEngine) -> None:
    task = asyncio.create_task(engine.invoke("one_at_a_time", {"how": "hang"}))
    await idle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("cancel", [_cancelled, _caller_cancelled])
async def test_a_cancelled_call_gives_its_slot_back(cancel: Callable[[ToolEngine], Any]) -> None:
    engine = virtual(one_at_a_time, max_concurrency=1)
    for _ in range(3):
        await cancel(engine)
    assert (await engine.invoke("one_at_a_time", {"how": "succeed"})).text == "done"


async def test_no_slot_is_held_while_waiting_for_the_next_attempt() -> None:
    engine = virtual(one_at_a_time)
    first = engine.start(ToolCall("one_at_a_time", {"how": "retry"}))
    await idle()
    assert (first.state, first.slots) == ("RETRYING", ())
    assert (await engine.invoke("one_at_a_time", {"how": "succeed"})).text == "done"
    first.cancel()
    await first


def test_an_interrupted_attempt_gives_its_slot_back() -> None:
    engine = virtual(one_at_a_time)

    async def main() -> None:
        kept.append(engine.start(ToolCall("one_at_a_time", {"how": "interrupt"})))
        await kept[0]

    kept: list[Any] = []
    with logged(), pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert kept[0].slots == ()
