"""Public bug reports about the names and ids of calls, turned into tests.

=====  =============================================================================================
row    test
=====  =============================================================================================
17     test_case_017_an_unknown_tool_is_answered_with_the_nearest_names
19     test_case_019_an_unknown_name_stops_neither_its_siblings_nor_the_next_turn
21     test_case_021_a_name_with_trailing_markup_is_not_found_and_nothing_like_it_is_run
22     test_case_022_arguments_fused_into_the_name_are_shown_in_a_legal_alphabet_only
32     test_case_032_an_empty_id_counts_as_missing
35     test_case_035_an_id_that_comes_back_in_the_next_turn_is_another_call
36     test_case_036_identical_calls_that_are_under_way_together_share_one_run, and eight about its limits
37     test_case_037_calls_that_share_an_id_are_refused_and_the_others_keep_their_order
40     test_case_040_nothing_of_a_call_comes_after_its_end
43     test_case_043_asking_for_a_tool_and_running_it_are_events_of_two_kinds
=====  =============================================================================================

Rows 23 to 31 speak of the deltas of a stream and belong to what assembles streams.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

import pytest

from fsm_engine import (
    BreakerPolicy,
    FallbackPolicy,
    RetryPolicy,
    Stages,
    ToolCall,
    ToolCallEvent,
    ToolContext,
    ToolEngine,
    ToolExecutionEvent,
    ToolInvocation,
    ToolSpec,
    on_enter,
    tool,
)
from fsm_engine.providers.openai_chat import calls_from_message

from ..support import Stuck, Watch, assert_ended, assert_told_in_full, idle, logged, play, until, virtual


class Reports:
    """A tool that remembers how often it ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def fetch_report(self, day: str = "today") -> str:
        """The report of a day."""
        self.ran.append(day)
        return f"report of {day}"


def reports(**settings: Any) -> tuple[Reports, ToolSpec]:
    owner = Reports()
    return owner, ToolSpec(name="fetch_report", func=owner.fetch_report, **settings)


async def test_case_017_an_unknown_tool_is_answered_with_the_nearest_names() -> None:
    invocation = await virtual(reports()[1]).execute_tool_call({"name": "fetch_reports", "arguments": "{}"})
    assert invocation.path == ("PENDING", "VALIDATING", "FAILED")
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.transient) == ("NOT_FOUND", False)
    assert "Did you mean fetch_report?" in invocation.error.message
    assert invocation.response is not None
    assert invocation.response.data == {"nearest": ["fetch_report"]}


@pytest.mark.parametrize("name", ["nope", "FETCH_REPORT", "fetch_report ", "функция", "x" * 10_000])
async def test_case_019_an_unknown_name_stops_neither_its_siblings_nor_the_next_turn(name: str) -> None:
    engine = virtual(reports()[1])
    for _turn in range(2):
        unknown, known = await engine.execute_tool_calls([{"name": name}, {"name": "fetch_report"}])
        assert (unknown.state, known.state) == ("FAILED", "COMPLETED")
        assert unknown.error is not None
        assert unknown.error.code == "NOT_FOUND"
        assert len(unknown.error.message) < 300


async def test_case_021_a_name_with_trailing_markup_is_not_found_and_nothing_like_it_is_run() -> None:
    owner, spec = reports()
    invocation = await virtual(spec).execute_tool_call({"name": 'fetch_report" />', "arguments": "{}"})
    assert owner.ran == []
    assert invocation.error is not None
    assert invocation.error.code == "NOT_FOUND"
    assert "Did you mean fetch_report?" in invocation.error.message


@pytest.mark.parametrize("name", ['{"k":3} | fetch_report', "fetch\r\nlevel=info report", "\x1b[31mfetch\u202e"])
async def test_case_022_arguments_fused_into_the_name_are_shown_in_a_legal_alphabet_only(name: str) -> None:
    watch = Watch()
    with logged() as lines:
        engine = virtual(reports()[1], stages=Stages(publish=watch))
        invocation = await engine.execute_tool_call({"id": "c1", "name": name})
    assert invocation.error is not None
    assert invocation.error.code == "NOT_FOUND"
    assert invocation.call.name == name, "the call itself is kept as it arrived"
    assert invocation.response is not None
    shown = [event.to_dict() for event in watch.events]
    names = {
        str(invocation.response.context["tool"]),
        *(str(event[key]) for event in shown for key in ("name", "tool_name") if key in event),
        *(str(line["tool"]) for line in lines),
    }
    assert len(names) == 1, "all of them show the same"
    assert re.fullmatch(r"[\w.?-]+", names.pop(), re.ASCII)
    assert name not in invocation.response.for_model()


@pytest.mark.parametrize("missing", ["", None])
async def test_case_032_an_empty_id_counts_as_missing(missing: str | None) -> None:
    [call] = calls_from_message(
        {"tool_calls": [{"id": missing, "function": {"name": "fetch_report", "arguments": "{}"}}]}
    )
    engine = virtual(reports()[1])
    first, second = await engine.execute_tool_calls([call, call])
    assert (first.call.id, second.call.id) == (None, None)
    assert (first.state, second.state) == ("COMPLETED", "COMPLETED"), "two calls without an id share none"
    assert first.id.startswith("call_")
    assert first.id != second.id
    assert first.response is not None
    assert first.response.context["call_id"] == first.id


async def test_case_035_an_id_that_comes_back_in_the_next_turn_is_another_call() -> None:
    owner, spec = reports()
    engine = virtual(spec)
    turns = [await engine.execute_tool_call(ToolCall("fetch_report", {"day": day}, "call_0")) for day in ("mon", "tue")]
    assert owner.ran == ["mon", "tue"]
    assert [turn.result for turn in turns] == ["report of mon", "report of tue"]
    assert [turn.id for turn in turns] == ["call_0", "call_0"]
    assert turns[0].uid != turns[1].uid


class Orders:
    """A tool with an effect, which waits until it is told to go on."""

    def __init__(self, hooks: Iterable[Any] = (), **settings: Any) -> None:
        self.placed: list[str] = []
        self.go_on: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.error: Exception | None = None
        spec = ToolSpec(name="order", func=self.order, **{"single_flight": True, "timeout": None, **settings})
        self.engine = virtual(spec, hooks=hooks)

    async def order(self, sku: str, count: int = 1) -> dict[str, Any]:
        self.placed.append(sku)
        await asyncio.shield(self.go_on)
        if self.error is not None:
            raise self.error
        return {"order": len(self.placed)}

    def start(self, call_id: str, sku: str = "a", **more: Any) -> ToolInvocation:
        return self.engine.start(ToolCall("order", {"sku": sku, **more}, call_id))


@pytest.mark.parametrize("settings", [{}, {"max_concurrency": 1}, {"max_queue": 1}])
@pytest.mark.parametrize("waits", [True, False])
async def test_case_036_identical_calls_that_are_under_way_together_share_one_run(
    settings: dict[str, Any], waits: bool
) -> None:
    """Each has its own id, events and response; the order of keys and a default that is written out say nothing."""
    orders = Orders(**settings)
    if waits:
        asyncio.get_running_loop().call_later(0, orders.go_on.set_result, None)
    else:
        orders.go_on.set_result(None)
    calls = [
        ToolCall("order", '{"sku": "a", "count": 1}', "c1"),
        ToolCall("order", {"count": 1, "sku": "a"}, "c2"),
        ToolCall("order", {"sku": "a"}, "c3"),
    ]
    async with orders.engine.stream(calls) as run:
        events = [event async for event in run]
    assert orders.placed == ["a"]
    first, *others = run.invocations
    for invocation in run.invocations:
        assert_ended(invocation)
        assert_told_in_full([event for event in events if getattr(event, "uid", "") == invocation.uid])
        assert invocation.response is not None
        assert (invocation.state, invocation.result) == ("COMPLETED", {"order": 1})
        assert invocation.response.context["call_id"] == invocation.id
        assert invocation.response.stats["attempts"] == len(invocation.attempts) == (invocation is first)
    for other in others:
        assert other.response is not None
        assert other.response.context["notes"] == [f"shared: {first.uid}"]


async def test_case_036_only_those_that_ask_for_it_share_and_only_what_is_identical_and_at_the_same_time() -> None:
    apart = Orders(single_flight=False)
    apart.go_on.set_result(None)
    await asyncio.gather(*(finished(apart.start(call_id)) for call_id in ("c1", "c2")))
    assert apart.placed == ["a", "a"]
    orders = Orders()
    orders.go_on.set_result(None)
    await asyncio.gather(*(finished(orders.start(f"c{count}", count=count)) for count in (1, 2)))
    assert orders.placed == ["a", "a"]
    for _turn in range(3):  # without a turn of the loop in between
        await orders.engine.invoke("order", {"sku": "later"})
    assert orders.placed[2:] == ["later"] * 3


@pytest.mark.parametrize("leaves_by", ["cancel", "deadline"])
@pytest.mark.parametrize("sync", [False, True])
async def test_case_036_each_caller_keeps_its_own_end_and_the_work_goes_on_while_somebody_waits(
    leaves_by: str, sync: bool
) -> None:
    placed: list[str] = []
    ended = threading.Event()
    go_on = asyncio.Event()

    async def order(sku: str) -> str:
        placed.append(sku)
        await go_on.wait()
        return sku

    def order_in_thread(sku: str) -> str:
        placed.append(sku)
        assert ended.wait(20)
        return sku

    spec = ToolSpec(name="order", func=order_in_thread if sync else order, single_flight=True, timeout=None)
    engine = ToolEngine([spec.replaced(breaker=BreakerPolicy.consecutive(1))])
    call = ToolCall("order", {"sku": "a"})
    first = engine.start(call, deadline=0.05 if leaves_by == "deadline" else None)
    others = [engine.start(call) for _ in range(3)]
    await until(lambda: placed and len(first.sharers or ()) == 3)
    if leaves_by == "cancel":
        first.cancel()
    await first
    assert (first.state, first.error.code if first.error else "") == (
        ("CANCELLED", "CANCELLED") if leaves_by == "cancel" else ("FAILED", "TIMEOUT")
    )
    others[1].cancel()  # one of those that wait leaves alone as well, and so does the next who has inherited the run
    others[0].cancel()
    assert [(await each).state for each in others[:2]] == ["CANCELLED"] * 2
    ended.set()
    go_on.set()
    assert (await others[2]).result == "a"
    assert placed == ["a"]
    assert others[2].path[-2:] == ("EXECUTING", "COMPLETED")
    assert engine.threads.busy == 0
    assert engine.circuits["order@1"].circuit_state == "CLOSED"


async def test_case_036_when_the_last_one_leaves_the_work_is_stopped() -> None:
    orders = Orders()
    calls = [orders.start("c1"), orders.start("c2")]
    await idle()
    for call in calls:
        call.cancel()
        await call
    assert {call.state for call in calls} == {"CANCELLED"}
    assert not orders.engine.running
    orders.go_on.set_result(None)


user: ContextVar[str] = ContextVar("user")


def by_user(_: Any) -> str:
    return user.get()


@pytest.mark.parametrize("key", [by_user, lambda _: [user.get()], lambda _: 1 / 0], ids=["by user", "a list", "raises"])
async def test_case_036_calls_of_different_callers_share_nothing_that_depends_on_who_asks(key: Any) -> None:
    """A key that fails makes nobody another."""
    engine = ToolEngine()
    is_down = False

    @tool(single_flight=True, read_only=True, key=key, fallback=FallbackPolicy(last_good=True, on_failure=True))
    async def mine() -> str:
        await asyncio.sleep(0)
        if is_down:
            raise ConnectionError
        return user.get()

    engine.register(mine)

    def ask(name: str) -> ToolInvocation:
        user.set(name)
        return engine.start(ToolCall("mine"))

    asked = [ask(name) for name in ("ann", "bob", "ann")]
    assert [(await each).result for each in asked] == ["ann", "bob", "ann"]
    is_down = True
    for name in ("bob", "ann", "eve"):
        answer = await ask(name)
        assert answer.result in (name, None)
        assert (answer.result is None) == (name == "eve" or key is not by_user)


async def test_case_036_a_failure_is_shared_too_and_the_calls_of_the_next_message_run_again() -> None:
    orders = Orders(retry=RetryPolicy(max_retries=1), idempotent=True)
    orders.error = RuntimeError("sold out")
    calls = [orders.start("c1"), orders.start("c2")]
    await idle()
    orders.go_on.set_result(None)
    for call in calls:
        await call
        assert call.path[-2:] == ("EXECUTING", "FAILED")
        assert call.error is not None
        assert call.error.message == "RuntimeError: sold out"
    assert orders.placed == ["a"]
    await finished(orders.start("c1"))
    assert orders.placed == ["a", "a"]


async def test_case_036_who_waits_for_an_identical_call_can_leave_alone() -> None:
    orders = Orders()
    first, second, third = (
        orders.start("c1"),
        orders.start("c2"),
        orders.engine.start(ToolCall("order", {"sku": "a"}), deadline=5.0),
    )
    await idle()
    assert second.cancel()
    await second
    orders.engine.clock.advance(5.0)  # type: ignore[attr-defined]  # it is a VirtualClock
    await third
    assert third.error is not None
    assert (second.state, third.error.code, third.error.effect) == ("CANCELLED", "TIMEOUT", "none")
    orders.go_on.set_result(None)
    assert (await first).result == {"order": 1}
    assert orders.placed == ["a"]


@pytest.mark.parametrize("read_only", [True, False])
async def test_case_036_when_the_one_that_runs_is_cancelled_its_run_goes_on_for_the_other(read_only: bool) -> None:
    orders = Orders(read_only=read_only)
    first, second = orders.start("c1"), orders.start("c2")
    await idle()
    first.cancel()
    await first
    orders.go_on.set_result(None)
    await second
    assert (second.result, orders.placed) == ({"order": 1}, ["a"])
    assert first.error is not None
    assert first.error.effect == ("none" if read_only else "unknown")


async def test_case_036_a_call_that_comes_at_the_very_end_of_a_cancelled_one_runs_itself() -> None:
    waiting: list[ToolInvocation] = []
    orders = Orders(
        read_only=True,
        needs_approval=True,
        hooks=[on_enter("CANCELLED", lambda event: waiting[0].approve())],
    )
    first, second = orders.start("c1"), orders.start("c2")
    waiting.append(second)
    await idle()
    first.approve()
    await idle()
    assert orders.placed == ["a"]
    first.cancel()
    orders.go_on.set_result(None)
    assert (await second).result == {"order": 2}


async def finished(invocation: ToolInvocation) -> ToolInvocation:
    return await invocation


async def test_case_037_calls_that_share_an_id_are_refused_and_the_others_keep_their_order() -> None:
    owner, spec = reports()
    calls = [ToolCall("fetch_report", {"day": day}, call_id) for call_id, day in zip("bsas", "1234", strict=True)]
    invocations = await virtual(spec).execute_tool_calls(calls)
    assert [invocation.id for invocation in invocations] == ["b", "s", "a", "s"]
    assert [invocation.result for invocation in invocations] == ["report of 1", None, "report of 3", None]
    assert owner.ran == ["1", "3"]
    for refused in invocations[1::2]:
        assert refused.error is not None
        assert (refused.error.code, refused.error.reason) == ("INVALID_PARAM", "duplicate_id")


async def test_case_040_nothing_of_a_call_comes_after_its_end() -> None:
    """What a thread says after its time limit is dropped, not added to a call that has been answered."""
    stuck, said = Stuck(), []

    @tool(timeout=5.0)
    def slow(ctx: ToolContext) -> str:
        stuck()
        ctx.report(1.0, "late")
        ctx.emit("late")
        said.append("late")
        return "late"

    engine = virtual(slow)
    async with engine.stream([ToolCall("slow", {}, "c1")]) as run:
        invocation = run.invocations[0]

        async def ended() -> None:
            await invocation

        await play(engine, ended(), stuck)
        stuck.let_go()
        await until(lambda: said and engine.threads.busy == 0)
        events = [event async for event in run]
    assert_told_in_full(events)
    assert events[-1].type == "tool_error"
    assert not any("late" in str(event.to_dict()) for event in events)


async def test_case_043_asking_for_a_tool_and_running_it_are_events_of_two_kinds() -> None:
    before: list[type] = []
    watch = Watch()

    async def look() -> str:
        before.extend(type(event) for event in watch.events)
        return "seen"

    engine = virtual(look, stages=Stages(publish=watch))
    await engine.invoke("look")
    await idle()
    assert before[0] is ToolCallEvent
    assert set(before[1:]) == {ToolExecutionEvent}
    statuses = [event.status for event in watch.events if isinstance(event, ToolExecutionEvent)]
    assert statuses == ["VALIDATING", "ADMITTING", "EXECUTING"]
