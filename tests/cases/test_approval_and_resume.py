"""Public bug reports about approval and resume, turned into tests, as far as they concern one process.

=====  =============================================================================================
row    test
=====  =============================================================================================
86     test_case_086_each_of_two_calls_gets_its_own_answer
89     test_case_089_a_sibling_that_is_done_is_not_run_again_when_a_person_has_decided
90     test_case_090_however_often_it_is_decided_a_call_has_one_result
92     test_case_092_after_the_approval_the_rules_are_asked_again
92     test_case_092_a_call_that_is_changed_after_its_approval_goes_back_to_the_person
94     test_case_094_an_approval_holds_for_the_arguments_that_were_shown_and_no_others
=====  =============================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fsm_engine import Invalid, Stages, ToolCall, ToolExecutionEvent, ToolInvocation, ToolSpec, on_exit

from ..support import Watch, assert_ended, assert_told_in_full, idle, virtual


class Bank:
    """A tool that needs approval and one that does not, and what they have done."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.limit = 1000

    async def transfer(self, amount: int) -> str:
        self.done.append(("transfer", amount))
        return f"moved {amount}"

    async def send_email(self, to: str) -> str:
        self.done.append(("email", to))
        return f"sent to {to}"

    def within_limit(self, arguments: Mapping[str, Any]) -> Invalid | None:
        return (
            None
            if arguments["amount"] <= self.limit
            else Invalid("over_limit", "amount", f"must be at most {self.limit}")
        )

    def tools(self) -> tuple[ToolSpec, ToolSpec]:
        return (
            ToolSpec(name="transfer", func=self.transfer, needs_approval=True, validator=self.within_limit),
            ToolSpec(name="send_email", func=self.send_email),
        )


async def test_case_086_each_of_two_calls_gets_its_own_answer() -> None:
    """The answers come in the other order, by the uid that the events carry."""
    bank = Bank()
    engine = virtual(*bank.tools())
    asked: dict[int, str] = {}
    async with engine.stream([ToolCall("transfer", {"amount": 1}), ToolCall("transfer", {"amount": 2})]) as run:
        async for event in run:
            if isinstance(event, ToolExecutionEvent) and event.arguments is not None:
                asked[event.arguments["amount"]] = event.uid
            if len(asked) == 2 and not bank.done and not run[asked[1]].is_final:
                run[asked[2]].approve()
                run[asked[1]].deny("not this one")
    denied, approved = run.invocations
    assert (denied.uid, approved.uid) == (asked[1], asked[2])
    assert approved.result == "moved 2"
    assert denied.error is not None
    assert denied.error.code == "APPROVAL_DENIED"
    assert bank.done == [("transfer", 2)]


async def test_case_089_a_sibling_that_is_done_is_not_run_again_when_a_person_has_decided() -> None:
    bank = Bank()
    engine = virtual(*bank.tools())
    waiting = engine.start(ToolCall("transfer", {"amount": 5}))
    sibling = engine.start(ToolCall("send_email", {"to": "ann"}))
    await sibling
    assert waiting.state == "AWAITING_APPROVAL"
    assert bank.done == [("email", "ann")]
    waiting.approve()
    await waiting
    assert bank.done == [("email", "ann"), ("transfer", 5)]


async def test_case_090_however_often_it_is_decided_a_call_has_one_result() -> None:
    watch, bank = Watch(), Bank()
    engine = virtual(*bank.tools(), stages=Stages(publish=watch))
    invocation = engine.start(ToolCall("transfer", {"amount": 5}, "c1"))
    await idle()
    assert [invocation.approve(), invocation.approve(), invocation.deny()] == [True, False, False]
    await invocation
    response = invocation.response
    assert [invocation.approve(), invocation.deny(), invocation.cancel()] == [False, False, False]
    await idle()
    assert_ended(invocation)
    assert invocation.response is response
    assert_told_in_full(watch.events)
    assert bank.done == [("transfer", 5)]


@pytest.mark.parametrize("limit", [1000, 10])
async def test_case_092_after_the_approval_the_rules_are_asked_again(limit: int) -> None:
    bank = Bank()
    invocation = virtual(*bank.tools()).start(ToolCall("transfer", {"amount": 500}))
    await idle()
    bank.limit = limit  # while the person thinks
    invocation.approve()
    await invocation
    if limit == 1000:
        assert bank.done == [("transfer", 500)]
    else:
        assert invocation.path[-3:] == ("AWAITING_APPROVAL", "VALIDATING", "FAILED")
        assert invocation.error is not None
        assert (invocation.error.reason, bank.done) == ("over_limit", [])


async def _changed(invocation: ToolInvocation, bank: Bank) -> None:
    """Approved for 500; on its way back to the check a hook makes 900 of it."""
    await idle()
    assert invocation.state == "AWAITING_APPROVAL"
    assert invocation.approve()
    await idle()
    assert bank.done == []


def changes_amounts() -> Any:
    amounts = [900]

    def change(event: Any) -> None:
        if amounts:
            event.model.arguments = {"amount": amounts.pop()}

    return on_exit("AWAITING_APPROVAL", change)


async def test_case_092_a_call_that_is_changed_after_its_approval_goes_back_to_the_person() -> None:
    bank, watch = Bank(), Watch()
    engine = virtual(*bank.tools(), hooks=[changes_amounts()], stages=Stages(publish=watch))
    invocation = engine.start(ToolCall("transfer", {"amount": 500}))
    await _changed(invocation, bank)
    assert invocation.state == "AWAITING_APPROVAL"
    shown = [event.arguments for event in watch.events if isinstance(event, ToolExecutionEvent) and event.arguments]
    assert shown == [{"amount": 500}, {"amount": 900}]
    assert invocation.approve()
    await invocation
    assert bank.done == [("transfer", 900)]


async def test_case_094_an_approval_holds_for_the_arguments_that_were_shown_and_no_others() -> None:
    bank = Bank()
    engine = virtual(*bank.tools(), hooks=[changes_amounts()])
    invocation = engine.start(ToolCall("transfer", {"amount": 500}))
    await _changed(invocation, bank)
    assert invocation.deny("I agreed to 500")
    await invocation
    assert bank.done == []
    assert invocation.path == (
        *("PENDING", "VALIDATING", "AWAITING_APPROVAL", "VALIDATING", "AWAITING_APPROVAL", "FAILED"),
    )


async def test_case_094_an_approval_is_of_one_tool_version_and_arguments() -> None:
    """The order of the keys makes no difference; everything else does."""
    bank = Bank()
    spec, _ = bank.tools()
    keys = []
    for version, amount in (("1", 5), ("1", 5), ("2", 5), ("1", 6)):
        engine = virtual(spec.replaced(version=version))
        invocation = engine.start(ToolCall("transfer", {"amount": amount}))
        await idle()
        keys.append(invocation.approval_key())
        invocation.deny()
        await invocation
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
