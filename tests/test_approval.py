"""A call that a person must agree to: asked, approved, denied, edited, expired."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import AwareDatetime

from fsm_engine import (
    ConfigurationError,
    Stages,
    ToolCall,
    ToolEngine,
    ToolError,
    ToolExecutionEvent,
    ToolInvocation,
    ToolSpec,
    on_enter,
    tool,
)

from .support import Watch, assert_ended, assert_told_in_full, idle, logged, now, play, virtual


def minimum(arguments: Mapping[str, Any]) -> Any:
    return arguments["amount"] >= 100 or (False, "amount must be at least 100")


@tool(needs_approval=True, approval_timeout=600.0, validator=minimum, sensitive=("account",))
async def transfer(amount: float, account: str = "own") -> str:
    """Move money."""
    return f"moved {amount:g} to {account}"


def waiting(engine: ToolEngine, arguments: Any = None, **settings: Any) -> ToolInvocation:
    return engine.start(ToolCall("transfer", arguments or {"amount": 500}), **settings)


async def test_an_approved_call_is_checked_again_and_runs() -> None:
    engine = virtual(transfer)
    invocation = waiting(engine)
    await idle()
    assert invocation.state == "AWAITING_APPROVAL"
    assert invocation.attempts == []
    assert invocation.approve()
    assert not invocation.approve()  # decided already
    assert not invocation.deny()
    await invocation
    assert_ended(invocation)
    assert invocation.result == "moved 500 to own"
    assert invocation.path == (
        *("PENDING", "VALIDATING", "AWAITING_APPROVAL", "VALIDATING", "ADMITTING", "EXECUTING", "COMPLETED"),
    )
    assert not invocation.approve()


async def test_what_is_not_valid_is_refused_before_a_person_is_asked() -> None:
    invocation = waiting(virtual(transfer), {"amount": 5})
    await invocation
    assert invocation.path == ("PENDING", "VALIDATING", "FAILED")


async def test_the_person_is_shown_the_arguments_without_what_is_sensitive() -> None:
    watch = Watch()
    engine = virtual(transfer, stages=Stages(publish=watch))
    invocation = waiting(engine, {"amount": 500, "account": "DE89"})
    await idle()
    asked = [each for each in watch.events if isinstance(each, ToolExecutionEvent) and each.arguments is not None]
    assert [(each.status, each.arguments) for each in asked] == [
        ("AWAITING_APPROVAL", {"amount": 500, "account": "***"})
    ]
    invocation.approve()
    await invocation
    assert invocation.result == "moved 500 to DE89"
    assert "DE89" not in str(invocation.response and invocation.response.context)
    assert_told_in_full(watch.events)


async def test_a_denied_call_is_not_run_and_the_model_is_told_why() -> None:
    invocation = waiting(virtual(transfer))
    await idle()
    assert invocation.deny("over the budget")
    assert not invocation.deny()
    await invocation
    assert_ended(invocation)
    assert invocation.attempts == []
    error = invocation.error
    assert error is not None
    assert (error.code, error.effect, error.counts) == ("APPROVAL_DENIED", "none", False)
    assert "over the budget" in error.message


async def test_a_call_that_nobody_decides_on_expires() -> None:
    engine = virtual(transfer)
    invocation = waiting(engine)
    await play(engine, _end(invocation))
    assert now(engine) == 600.0
    assert invocation.state == "FAILED"
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.effect) == ("APPROVAL_EXPIRED", "none")
    assert not invocation.approve()


async def _end(invocation: ToolInvocation) -> None:
    await invocation


async def test_the_wait_for_a_person_does_not_count_against_the_deadline() -> None:
    @tool(needs_approval=True, timeout=None)
    async def slow() -> str:
        await engine.clock.sleep(4.0)
        return "done"

    engine = virtual(slow)
    invocation = engine.start(ToolCall("slow"), deadline=5.0)
    await idle()
    engine.clock.advance(1_000.0)  # type: ignore[attr-defined]  # it is a VirtualClock
    invocation.approve()
    await play(engine, _end(invocation))
    assert invocation.result == "done"
    assert now(engine) == 1_004.0


async def test_a_person_may_change_the_arguments() -> None:
    invocation = waiting(virtual(transfer))
    await idle()
    assert invocation.approve(arguments={"amount": 200})
    await invocation
    assert invocation.result == "moved 200 to own"
    assert invocation.arguments == {"amount": 200, "account": "own"}
    assert invocation.path.count("AWAITING_APPROVAL") == 1


@pytest.mark.parametrize(
    ("edited", "code"),
    [
        ({"amount": 1}, "INVALID_PARAM"),
        ({"amount": "much"}, "INVALID_PARAM"),
        ({"amount": 200, "to": "x"}, "INVALID_PARAM"),
        ({}, "INVALID_PARAM"),
        ([], "INVALID_FORMAT"),
        ("{", "INVALID_FORMAT"),
    ],
)
async def test_edited_arguments_that_are_not_valid_go_back_to_the_person_and_the_call_waits_on(
    edited: Any, code: str
) -> None:
    invocation = waiting(virtual(transfer))
    await idle()
    with pytest.raises(ToolError) as caught:
        invocation.approve(arguments=edited)
    assert caught.value.code == code
    await idle()
    assert invocation.state == "AWAITING_APPROVAL"
    assert invocation.arguments == {"amount": 500, "account": "own"}
    assert invocation.approve()
    await invocation
    assert invocation.result == "moved 500 to own"


async def test_edited_arguments_that_do_not_fit_the_functions_types_go_back_as_well() -> None:
    @tool(
        needs_approval=True,
        parameters_schema={"type": "object", "properties": {"at": {"type": "string", "default": ""}}},
    )
    async def remind(at: AwareDatetime) -> str:
        return at.isoformat()

    invocation = virtual(remind).start(ToolCall("remind", {"at": "2024-05-20T00:00:00+08:00"}))
    await idle()
    assert invocation.state == "AWAITING_APPROVAL"
    with pytest.raises(ToolError, match="at"):
        invocation.approve(arguments={"at": "soon"})
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ToolError, match="nested"):
        invocation.approve(arguments={"at": deep})
    assert invocation.state == "AWAITING_APPROVAL"
    invocation.deny()
    await invocation


async def test_an_edit_is_read_like_the_models_own_arguments() -> None:
    @tool(needs_approval=True)
    async def order(items: list[int]) -> list[int]:
        return items

    invocation = virtual(order).start(ToolCall("order", {"items": [1]}))
    await idle()
    invocation.approve(arguments={"items": "[2, 3]"})
    await invocation
    assert invocation.result == [2, 3]


async def test_an_approval_holds_for_the_very_arguments_that_were_shown() -> None:
    """If they change between the decision and the check, the person is asked again."""
    engine = virtual(transfer)
    invocation = waiting(engine)
    await idle()
    invocation.approve()
    assert invocation.arguments is not None
    invocation.arguments["amount"] = 1_000_000
    await idle()
    assert invocation.state == "AWAITING_APPROVAL"
    assert invocation.attempts == []
    invocation.deny()
    await invocation


async def test_a_predicate_decides_which_calls_need_a_person() -> None:
    spec = transfer.replaced(needs_approval=lambda arguments: arguments["amount"] > 1_000)
    engine = virtual(spec)
    small = waiting(engine)
    large = waiting(engine, {"amount": 5_000})
    await idle()
    assert small.state == "COMPLETED"
    assert large.state == "AWAITING_APPROVAL"
    large.approve()
    await large
    assert large.result == "moved 5000 to own"


async def test_edited_arguments_need_no_second_approval_even_if_the_predicate_says_so() -> None:
    engine = virtual(transfer.replaced(needs_approval=lambda arguments: arguments["amount"] > 1_000))
    invocation = waiting(engine, {"amount": 5_000})
    await idle()
    invocation.approve(arguments={"amount": 6_000})
    await invocation
    assert invocation.result == "moved 6000 to own"


async def test_a_predicate_that_raises_fails_the_call_and_runs_nothing() -> None:
    with logged() as lines:
        engine = virtual(transfer.replaced(needs_approval=lambda arguments: arguments["nope"]))
        invocation = waiting(engine)
        await invocation
    assert invocation.error is not None
    assert invocation.error.reason == "broken_tool"
    assert invocation.attempts == []
    assert any(line["event"] == "validation is broken" for line in lines)


async def later(arguments: Mapping[str, Any]) -> bool:
    return False


@pytest.mark.parametrize("odd", ["yes", 1, None, later])
def test_a_flag_that_is_neither_bool_nor_plain_function_is_refused(odd: Any) -> None:
    with pytest.raises(ConfigurationError, match="needs_approval must be"):
        ToolSpec(name="t", func=later, needs_approval=odd)


async def test_a_waiting_call_can_be_cancelled_and_then_not_be_approved() -> None:
    invocation = waiting(virtual(transfer))
    await idle()
    assert invocation.cancel("no longer needed")
    assert not invocation.approve()
    await invocation
    assert invocation.state == "CANCELLED"
    assert invocation.error is not None
    assert invocation.error.effect == "none"


async def test_a_call_that_is_approved_and_then_cancelled_does_not_run() -> None:
    invocation = waiting(virtual(transfer))
    await idle()
    invocation.approve()
    assert invocation.cancel()
    await invocation
    assert (invocation.state, invocation.attempts) == ("CANCELLED", [])


async def test_a_decision_may_come_from_another_thread() -> None:
    invocation = waiting(virtual(transfer))
    await idle()
    thread = threading.Thread(target=invocation.approve)
    thread.start()
    await invocation
    thread.join()
    assert invocation.state == "COMPLETED"


async def test_a_decision_may_come_from_the_hook_that_asks() -> None:
    engine = virtual(transfer, hooks=[on_enter("AWAITING_APPROVAL", lambda event: event.model.approve())])
    assert (await engine.invoke("transfer", {"amount": 300})).text == "moved 300 to own"


async def test_a_call_that_does_not_wait_cannot_be_approved_in_advance() -> None:
    engine = virtual(transfer)
    invocation = waiting(engine)
    assert not invocation.approve()
    await idle()
    assert invocation.state == "AWAITING_APPROVAL"
    invocation.deny()
    await asyncio.gather(_end(invocation))
