"""What is said of the effect of every failure, and what a tool may not pretend."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fsm_engine import Effect, FallbackPolicy, Stages, ToolEngine, ToolError, ToolResponse, tool

from .support import Watch, play, virtual


def _raising(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


FAILURES: dict[str, Callable[[], Any]] = {
    "an exception": _raising(RuntimeError("lost after paying")),
    "a fault of the tool": _raising(KeyError("id")),
    "a refused connection": _raising(ConnectionError("reset")),
    "an exit": _raising(SystemExit(1)),
    "a cancellation of its own": _raising(asyncio.CancelledError()),
    "no memory": _raising(MemoryError()),
    "a group": _raising(ExceptionGroup("both", [ValueError("a"), ValueError("b")])),
    "its own code": _raising(ToolError("CLOSED", "Closed.")),
    "a returned error": lambda: ToolResponse.error("CONFLICT", "Taken."),
}


@pytest.mark.parametrize("form", ["async", "thread"])
@pytest.mark.parametrize("fail", FAILURES.values(), ids=FAILURES)
async def test_every_failure_of_a_tool_that_acts_says_that_its_effect_is_unknown(
    fail: Callable[[], Any], form: str
) -> None:
    async def pay() -> Any:
        return fail()

    settings: dict[str, Any] = {"name": "pay", "breaker": None}
    function = pay if form == "async" else fail
    async with ToolEngine(
        [tool(**settings)(function), tool(**settings | {"name": "ask", "read_only": True})(function)]
    ) as engine:
        acted, asked = await engine.invoke("pay"), await engine.invoke("ask")
    assert acted.error_info is not None
    assert asked.error_info is not None
    assert (acted.error_info.effect, asked.error_info.effect) == (Effect.UNKNOWN, Effect.NONE)
    assert "check before you call again" in acted.for_model()
    assert "arguments" not in acted.for_model()


async def test_what_the_tool_knows_of_its_effect_stands() -> None:
    @tool
    async def pay() -> str:
        raise ToolError("CLOSED", "The bank is closed.", effect=Effect.NONE)

    response = await virtual(pay).invoke("pay")
    assert response.error_info is not None
    assert response.error_info.effect is Effect.NONE


async def test_a_call_that_was_refused_before_it_ran_had_no_effect() -> None:
    @tool
    async def pay(cents: int) -> str:
        return "paid"

    engine = virtual(pay)
    for call in ({"name": "pay", "arguments": {"cents": "x"}}, {"name": "pay", "arguments": "{"}, {"name": "nobody"}):
        error = (await engine.execute_tool_call(call)).error
        assert error is not None
        assert error.effect is Effect.NONE


@pytest.mark.parametrize("code", ["CANCELLED", "APPROVAL_DENIED", "APPROVAL_EXPIRED"])
@pytest.mark.parametrize("way", ["raised", "returned", "by a fallback"])
async def test_a_tool_cannot_pretend_an_ending_that_only_the_engine_gives(code: str, way: str) -> None:
    async def pay() -> Any:
        if way == "returned":
            return ToolResponse.error(code, "The other side gave up.")
        raise ToolError(code, "The other side gave up.")

    async def broken() -> Any:
        raise TimeoutError

    spec = tool(name="pay")(pay)
    if way == "by a fallback":
        spec = tool(name="pay", fallback=FallbackPolicy(function=pay, on_failure=True))(broken)
    engine = virtual(spec)
    invocation = await play(engine, engine.execute_tool_call({"name": "pay"}))
    assert invocation.state == "FAILED"
    assert invocation.error is not None
    assert invocation.error.code != code
    if way != "by a fallback":
        assert (invocation.error.code, invocation.error.reason) == ("EXECUTION_ERROR", code.lower())
        assert (invocation.error.message, invocation.error.counts) == ("The other side gave up.", False)


@pytest.mark.parametrize("pin", ["7", "77", "hunter2", 4321, {"code": ["99"]}], ids=str)
@pytest.mark.parametrize("way", ["tool", "rule"])
async def test_no_error_repeats_a_hidden_value_however_short(pin: Any, way: str) -> None:
    said = pin if not isinstance(pin, dict) else "99"

    def rule(arguments: Any) -> None:
        if way == "rule":
            raise ValueError(f"the pin {said} is wrong")

    @tool(sensitive={"pin"}, validator=rule)
    async def pay(pin: Any) -> str:
        raise RuntimeError(f"the pin {said} is wrong")

    response = await virtual(pay).invoke("pay", {"pin": pin})
    assert response.error_info is not None
    text = response.for_model() + response.error_info.detail.splitlines()[0] + str(response.error_info.issues)
    assert "the pin *** is wrong" in text
    assert f"pin {said}" not in text


async def test_a_piece_of_output_hides_fields_of_hidden_names() -> None:
    @tool(sensitive={"pin"})
    async def pay(pin: str) -> Any:
        yield {"pin": pin, "step": 1}

    watch = Watch()
    engine = virtual(pay, stages=Stages(publish=watch))
    await engine.invoke("pay", {"pin": "4321"})
    chunks = [chunk for event in watch.events if (chunk := getattr(event, "chunk", None)) is not None]
    assert chunks == [{"pin": "***", "step": 1}]
