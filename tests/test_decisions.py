"""One question has one decision: who may give it, from where, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine import (
    Approve,
    ConfigurationError,
    Deny,
    Stages,
    ToolCall,
    ToolContext,
    ToolEngine,
    ToolErrorEvent,
    ToolExecutionEvent,
    ToolInvocation,
    Verdict,
    tool,
)
from fsm_engine.jsonable.visible import visible_json

from .support import Watch, assert_snippets_print_what_stands_below_them, idle, logged, until, virtual


@tool(needs_approval=True, sensitive=("pin",))
async def transfer(amount: int, to: str = "Ann", pin: str = "0000") -> str:
    """Move money."""
    return f"{amount} to {to}"


async def asked(engine: ToolEngine, name: str = "transfer", **arguments: Any) -> ToolInvocation:
    invocation = engine.start(ToolCall(name, arguments or {"amount": 500}, "c1"))
    await until(lambda: invocation.state == "AWAITING_APPROVAL")
    return invocation


RIVALS: Mapping[str, tuple[Callable[[ToolInvocation], bool], str]] = {
    "approve": (lambda call: call.approve(by="rival"), "COMPLETED"),
    "edit": (lambda call: call.approve({"amount": 7}, by="rival"), "COMPLETED"),
    "deny": (lambda call: call.deny(by="rival"), "FAILED"),
    "cancel": (lambda call: call.cancel(), "CANCELLED"),
    "expire": (lambda call: call.approval is not None and call.approval.expire(), "FAILED"),
}


class SlowCheck:
    """A rule that takes its time over one edit, until it is let go."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, arguments: Mapping[str, Any]) -> bool:
        if arguments["amount"] == 1:
            self.has_begun.set()
            assert self.may_end.wait(20)
        return True


@pytest.mark.parametrize("rival", RIVALS)
async def test_decision_that_comes_while_an_edit_is_checked_is_the_one_that_counts(rival: str) -> None:
    check = SlowCheck()
    invocation = await asked(virtual(transfer.replaced(validator=check)))
    told: list[bool] = []
    slow = threading.Thread(target=lambda: told.append(invocation.approve({"amount": 1}, by="slow")))
    slow.start()
    assert check.has_begun.wait(20)
    decide, end = RIVALS[rival]
    assert decide(invocation)
    check.may_end.set()
    slow.join()
    assert told == [False]
    invocation.wake()  # what `expire` does not do, as it is the engine's own
    await invocation
    assert invocation.state == end
    assert invocation.approval is not None
    decision = invocation.approval.decision
    assert decision is not None
    assert decision.by != "slow"
    if end == "COMPLETED":
        assert invocation.result == ("7 to Ann" if rival == "edit" else "500 to Ann")


@pytest.mark.parametrize("second", ["approve", "edit", "deny"])
@pytest.mark.parametrize("first", RIVALS)
async def test_of_two_who_decide_at_once_one_is_told_true_and_that_is_what_runs(first: str, second: str) -> None:
    engine = virtual(transfer)
    for _ in range(20):
        invocation = await asked(engine)
        told: dict[int, bool] = {}
        gate = threading.Barrier(2)

        def decide(
            number: int, how: str, invocation: ToolInvocation = invocation, told: Any = told, gate: Any = gate
        ) -> None:
            gate.wait()
            told[number] = RIVALS[how][0](invocation)

        threads = [threading.Thread(target=decide, args=each) for each in enumerate((first, second))]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        invocation.wake()
        await invocation
        winners = [how for number, how in enumerate((first, second)) if told[number]]
        if (
            winners == ["cancel", second] and second != "deny"
        ):  # agreed to, and cancelled after that: both have happened
            winners = ["cancel"]
        assert len(winners) == 1
        assert invocation.state == RIVALS[winners[0]][1]
        if invocation.state == "COMPLETED":
            assert invocation.result == ("7 to Ann" if winners[0] == "edit" else "500 to Ann")


async def test_edit_is_what_it_was_when_it_was_given_whatever_becomes_of_the_object() -> None:
    invocation = await asked(virtual(transfer))
    edited = {"amount": 7}
    assert invocation.approve(edited)
    edited["amount"] = 1_000_000
    await invocation
    assert invocation.result == "7 to Ann"
    assert invocation.approval is not None
    assert invocation.approval.told()["arguments"]["amount"] == 7


async def test_who_decided_when_and_what_was_changed_is_told_everywhere() -> None:
    watch = Watch()
    with logged() as lines:
        engine = virtual(transfer, stages=Stages(publish=watch))
        invocation = await asked(engine, amount=500, pin="4711")
        at = engine.clock.wall()
        assert invocation.approve({"amount": 7, "to": "Ann", "pin": "0815"}, by="ann@example.org")
        await invocation
    told = {
        "verdict": "approved",
        "by": "ann@example.org",
        "at": at,
        "arguments": {"amount": 7, "to": "Ann", "pin": "***"},
        "changed": {"amount": {"from": 500, "to": 7}, "pin": {"from": "***", "to": "***"}},
    }
    assert [each.approval for each in watch.events if isinstance(each, ToolExecutionEvent) and each.approval] == [told]
    decisions = [each.decision for each in invocation.history if each.decision is not None]
    assert [(each.verdict, each.by, each.at) for each in decisions] == [(Verdict.APPROVED, "ann@example.org", at)]
    [line] = [each for each in lines if each["event"] == "approval decided"]
    assert (line["by"], line["at"], sorted(line["changed"])) == ("ann@example.org", at, ["amount", "pin"])
    assert invocation.response is not None
    assert invocation.response.context["approval"] == told
    message = invocation.response.for_model()
    assert message.startswith("7 to Ann\nThis call was approved by ann@example.org at ")
    assert "amount is 7, was 500" in message
    assert not [text for text in ("4711", "0815") if text in f"{watch.events}{lines}{message}"]


async def test_denial_says_who_and_when_everywhere() -> None:
    watch = Watch()
    engine = virtual(transfer, stages=Stages(publish=watch))
    invocation = await asked(engine)
    assert invocation.deny("too much", by="ann")
    await invocation
    [told] = [each.approval for each in watch.events if isinstance(each, ToolErrorEvent)]
    assert told == {"verdict": "denied", "by": "ann", "reason": "too much", "at": engine.clock.wall()}
    assert invocation.response is not None
    assert invocation.response.context["approval"] == told
    assert "ann denied it: too much" in invocation.response.for_model()
    assert "This call was denied by ann at " in invocation.response.for_model()


async def test_call_that_somebody_unnamed_approves_as_it_is_reads_as_it_would_without_approval() -> None:
    invocation = await asked(virtual(transfer))
    invocation.approve()
    await invocation
    assert invocation.response is not None
    assert invocation.response.for_model() == "500 to Ann"


async def test_whether_a_person_is_wanted_is_asked_once() -> None:
    seen: list[Mapping[str, Any]] = []

    def wanted(arguments: Mapping[str, Any]) -> bool:
        seen.append(arguments)
        if len(seen) > 1:
            raise RuntimeError("asked again")
        return True

    invocation = await asked(virtual(transfer.replaced(needs_approval=wanted)))
    invocation.approve()
    await invocation
    assert (invocation.state, len(seen)) == ("COMPLETED", 1)


@pytest.mark.parametrize("kind", ["plain", "coroutine", "object"])
@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (True, "500 to Ann"),
        (Approve(by="bot"), "500 to Ann"),
        (Approve({"amount": 7}), "7 to Ann"),
        (False, None),
        (Deny("no", by="bot"), None),
    ],
)
async def test_engine_asks_whom_it_was_given_to_ask(kind: str, answer: Any, result: Any) -> None:
    async def later(invocation: ToolInvocation) -> Any:
        assert invocation.arguments == {"amount": 500, "to": "Ann", "pin": "0000"}
        return answer

    class Desk:
        async def __call__(self, invocation: ToolInvocation) -> Any:
            return answer

    handlers: dict[str, Any] = {"plain": lambda invocation: answer, "coroutine": later, "object": Desk()}
    engine = ToolEngine([transfer], on_approval=handlers[kind])
    response = await engine.invoke("transfer", {"amount": 500})
    assert (response.text if response.error_info is None else None) == result
    if isinstance(answer, Approve | Deny) and answer.by:
        told: Any = response.context["approval"]
        assert told["by"] == "bot"


def test_synchronous_form_asks_too_and_a_plain_function_may_take_its_time() -> None:
    is_free = threading.Event()

    def ask(invocation: ToolInvocation) -> bool:
        assert is_free.wait(20)  # the loop goes on meanwhile: the second call lets the first one go
        return True

    @tool
    async def free() -> str:
        is_free.set()
        return "freed"

    engine = ToolEngine([transfer, free], on_approval=ask)
    try:
        done = engine.execute_tool_calls_sync([ToolCall("transfer", {"amount": 5}), ToolCall("free")])
        assert [each.result for each in done] == ["5 to Ann", "freed"]
    finally:
        engine.close()


def broken(invocation: ToolInvocation) -> bool:
    raise RuntimeError("no desk")


def quits(invocation: ToolInvocation) -> bool:
    raise SystemExit


@pytest.mark.parametrize(
    ("ask", "line"),
    [
        (broken, "on_approval is broken, the call waits on"),
        (quits, "on_approval is broken, the call waits on"),
        (lambda call: "yes", "on_approval is broken, the call waits on"),
        (lambda call: 1, "on_approval is broken, the call waits on"),
        (lambda call: Approve({"amount": "much"}), "edit of on_approval was refused, the call waits on"),
        (lambda call: None, None),
    ],
)
async def test_answer_that_is_none_agrees_to_nothing_and_leaves_the_call_to_others(ask: Any, line: str | None) -> None:
    with logged() as lines:
        invocation = await asked(virtual(transfer, on_approval=ask))
        if line is not None:
            await until(lambda: line in [each["event"] for each in lines])
        assert invocation.state == "AWAITING_APPROVAL"
        assert invocation.deny("nobody there")
        await invocation
    assert invocation.attempts == []


async def test_whoever_is_asked_is_let_go_when_the_call_is_decided_elsewhere() -> None:
    ended = asyncio.Event()

    async def ask(invocation: ToolInvocation) -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return True

    invocation = await asked(virtual(transfer, on_approval=ask))
    await idle()
    assert invocation.approve(by="the page")
    await invocation
    await ended.wait()
    assert invocation.result == "500 to Ann"


def test_something_that_cannot_be_asked_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="on_approval must be a function"):
        ToolEngine([], on_approval=True)  # type: ignore[arg-type] # the mistake itself


@pytest.mark.parametrize(("watched", "level"), [(False, "warning"), (True, "info")])
async def test_call_that_waits_says_so_once_in_the_log(watched: bool, level: str) -> None:
    stages = Stages(publish=Watch()) if watched else None
    with logged() as lines:
        invocation = await asked(virtual(transfer, **({} if stages is None else {"stages": stages})))
        invocation.deny()
        await invocation
    [line] = [each for each in lines if each["event"].startswith("tool call waits for approval")]
    assert (line["log_level"], line["tool"], line["approval_timeout"]) == (level, "transfer", 600.0)
    assert "500" not in str(line)


async def test_call_that_nobody_decides_on_ends_by_itself_though_nothing_was_said_of_a_time() -> None:
    engine = virtual(transfer)
    invocation = await asked(engine)
    engine.clock.advance(600.0)  # type: ignore[attr-defined] # it is a VirtualClock
    await invocation
    assert invocation.error is not None
    assert invocation.error.code == "APPROVAL_EXPIRED"
    assert [each.decision.verdict for each in invocation.history if each.decision] == [Verdict.EXPIRED]


async def test_tool_sees_the_models_id_of_its_call_beside_the_engines_key() -> None:
    seen: list[tuple[str | None, str]] = []

    @tool
    async def look(context: ToolContext) -> None:
        seen.append((context.call_id, context.idempotency_key))

    engine = virtual(look)
    calls = [await engine.execute_tool_call(ToolCall("look", {}, call_id)) for call_id in ("c1", "c1", None)]
    assert [each for each, _ in seen] == ["c1", "c1", None]
    assert [key for _, key in seen] == [each.uid for each in calls]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_text_that_is_shown_is_json_reads_back_as_the_value_and_hides_nothing(value: dict[str, Any]) -> None:
    text = visible_json(value)
    assert json.loads(text) == value
    assert all(each == " " or each.isprintable() for each in text)


@pytest.mark.parametrize(
    "character",
    "\u202e\u2066\u200b\u200d\ufeff\u00ad\u00a0\u2003\u3000\u034f\u3164\u115f\u2800\ufe0f\U000e0041\U000e0100\x00\x1b\x7f\x85\n\u2028",
)
def test_character_that_cannot_be_seen_is_shown_as_an_escape(character: str) -> None:
    text = visible_json([f"a{character}b"])
    assert text.isascii()
    assert "\\" in text
    assert json.loads(text) == [f"a{character}b"]


def test_every_snippet_of_the_guide_runs_and_prints_what_stands_below_it() -> None:
    assert_snippets_print_what_stands_below_them(
        Path(__file__).resolve().parents[1] / "docs" / "approval.md", more_than=3
    )
