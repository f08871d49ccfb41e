"""What a tool knows of its own call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fsm_engine import RegistrationError, RetryPolicy, ToolCall, ToolContext, ToolEngine, ToolSpec, tool

from .support import idle, play, virtual


async def test_a_tool_knows_its_attempt_its_limits_and_a_key_that_stays_the_same() -> None:
    seen: list[tuple[int, float | None, float | None, str]] = []

    @tool(timeout=5.0, idempotent=True, retry=RetryPolicy(max_retries=1))
    async def asks(ctx: ToolContext) -> str:
        await ctx._attempt.invocation.clock.sleep(1.0)
        seen.append((ctx.attempt, ctx.deadline, round(ctx.remaining or 0.0, 6), ctx.idempotency_key))
        if ctx.attempt == 1:
            raise ConnectionError
        return "ok"

    engine = virtual(asks)
    invocation = await play(engine, engine.execute_tool_call(ToolCall("asks")))
    (first, second) = seen
    assert first == (1, 5.0, 4.0, invocation.uid)
    assert second[0] == 2
    assert second[1] is not None
    assert second[2] == 4.0
    assert second[3] == invocation.uid


async def test_without_a_limit_there_is_no_deadline() -> None:
    @tool(timeout=None)
    async def asks(ctx: ToolContext) -> Any:
        return [ctx.deadline, ctx.remaining, ctx.cancelled]

    assert (await virtual(asks).invoke("asks")).data == [None, None, False]


async def test_the_callers_deadline_shows() -> None:
    async def asks(ctx: ToolContext) -> Any:
        return ctx.remaining

    assert (await virtual(asks).invoke("asks", deadline=3.0)).data == 3.0


async def test_a_tool_sees_that_it_is_cancelled() -> None:
    seen: list[bool] = []

    @tool(timeout=None)
    async def waits(ctx: ToolContext) -> None:
        seen.append(ctx.cancelled)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            seen.append(ctx.cancelled)

    invocation = virtual(waits).start(ToolCall("waits"))
    await idle()
    invocation.cancel()
    await invocation
    assert seen == [False, True]


async def test_a_context_that_is_kept_too_long_answers_still() -> None:
    kept: list[ToolContext] = []

    async def leaks(ctx: ToolContext) -> str:
        kept.append(ctx)
        return "done"

    engine = virtual(leaks)
    invocation = await engine.execute_tool_call(ToolCall("leaks"))
    (ctx,) = kept
    assert (ctx.attempt, ctx.idempotency_key) == (1, invocation.uid)
    assert ctx.remaining == 60.0
    assert ctx.log is ctx.log
    ctx.log.info("late")
    ctx.report(1.0)
    ctx.emit("late")


async def test_the_context_is_no_part_of_the_schema_and_may_have_any_name() -> None:
    async def asks(a: int, please: ToolContext | None = None) -> Any:
        assert please is not None
        return [a, please.attempt]

    engine = ToolEngine([asks])
    spec = engine.registry.get("asks")
    assert spec is not None
    assert list(spec.parameters["properties"]) == ["a"]
    assert (await engine.invoke("asks", {"a": 1})).data == [1, 1]
    assert (await engine.invoke("asks", {"a": 1, "please": None})).error_info is not None


def test_two_contexts_are_one_too_many() -> None:
    async def asks(a: ToolContext, b: ToolContext) -> None: ...

    with pytest.raises(RegistrationError, match="keep one"):
        ToolSpec(name="asks", func=asks)


async def test_a_tool_knows_how_many_attempts_may_follow() -> None:
    left: list[int] = []

    @tool(read_only=True, max_retries=2)
    async def ask(ctx: ToolContext) -> str:
        left.append(ctx.attempts_left)
        raise TimeoutError

    engine = virtual(ask)
    await play(engine, engine.invoke("ask"))
    assert left == [2, 1, 0]
