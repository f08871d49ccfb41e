"""States of users' own: whatever is done in them hears cancellation and deadline, and every end is told alike."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fsm_engine import (
    INVOCATION,
    Effect,
    FallbackPolicy,
    Row,
    Stages,
    State,
    ToolCall,
    ToolEngine,
    ToolError,
    ToolErrorEvent,
    ToolInvocation,
    ToolResponse,
    ToolResultEvent,
    ToolSpec,
    on_enter,
    on_exit,
    tool,
)
from fsm_engine.response.tool_response import ToolStatus

from .support import Watch, idle, logged, now, play, virtual

AUDITED = INVOCATION.extended(
    name="audited",
    states=[State("AUDITING", activity="write it down")],
    rows=[Row("EXECUTING", "succeed", "AUDITING"), Row("AUDITING", "noted", "COMPLETED")],
)


@tool
async def add(a: int) -> int:
    return a + 1


ADD = ToolCall("add", {"a": 1})


def audited(activity: Callable[[ToolInvocation], Any], **settings: Any) -> ToolEngine:
    return virtual(add, lifecycle=AUDITED, activities={"AUDITING": activity}, **settings)


# -- cancellation and deadline --------------------------------------------------------------------------------------


async def waits_on_an_event(invocation: ToolInvocation) -> str:
    await asyncio.Event().wait()
    return "noted"


async def waits_in_a_task_group(invocation: ToolInvocation) -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.Event().wait())
    return "noted"


async def waits_by_the_engines_clock(invocation: ToolInvocation) -> str:
    await invocation.clock.sleep(1e6)
    return "noted"


async def waits_as_the_engine_does(invocation: ToolInvocation) -> str:
    await invocation.pause(None)
    return "noted"


def answers_a_future(invocation: ToolInvocation) -> Awaitable[str]:
    return invocation.loop.create_future()


async def ignores_its_cancellation(invocation: ToolInvocation) -> str:
    while not invocation.is_final:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue
    return "noted"


WAYS_TO_WAIT = pytest.mark.parametrize(
    "activity",
    [
        waits_on_an_event,
        waits_in_a_task_group,
        waits_by_the_engines_clock,
        waits_as_the_engine_does,
        answers_a_future,
        ignores_its_cancellation,
    ],
)


@WAYS_TO_WAIT
@pytest.mark.parametrize("how", ["cancel", "awaiter", "caller", "batch", "stream", "aclose"])
async def test_a_cancellation_reaches_an_activity_however_it_waits(activity: Any, how: str) -> None:
    with logged():
        engine = audited(activity)
        if how in ("caller", "batch"):
            work: Any = engine.execute_tool_call(ADD) if how == "caller" else engine.execute_tool_calls([ADD, ADD])
            task = asyncio.ensure_future(work)
            await idle()
            (invocation, *_) = engine.running
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await play(engine, task)
        elif how == "stream":

            async def leave() -> ToolInvocation:
                async with engine.stream([ADD]) as run:
                    for _ in range(5):
                        await asyncio.sleep(0)
                return run.invocations[0]

            invocation = await play(engine, leave())
        else:
            invocation = engine.start(ADD)
            await idle()
            if how == "cancel":
                assert invocation.cancel("enough")
            elif how == "aclose":
                assert await play(engine, engine.aclose()) == [invocation]
            else:
                waiting = asyncio.ensure_future(_ended(invocation))
                await idle()
                waiting.cancel()
            await play(engine, _ended(invocation))
    assert invocation.path[-2:] == ("AUDITING", "CANCELLED")
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.effect) == ("CANCELLED", Effect.DONE)
    assert now(engine) <= 1.0
    assert engine.running == ()


async def _ended(invocation: ToolInvocation) -> ToolInvocation:
    return await invocation


@WAYS_TO_WAIT
async def test_the_deadline_ends_an_activity_however_it_waits(activity: Any) -> None:
    with logged():
        engine = audited(activity)
        invocation = await play(engine, engine.execute_tool_call(ADD, deadline=5.0))
    assert invocation.path[-2:] == ("AUDITING", "FAILED")
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.reason) == ("TIMEOUT", "deadline")
    assert invocation.error.effect == Effect.DONE
    assert now(engine) == 5.0


async def test_an_earlier_error_stands_when_the_deadline_passes_in_a_state_of_ones_own() -> None:
    lifecycle = INVOCATION.extended(
        states=[State("UNDOING")],
        rows=[Row("EXECUTING", "fail", "UNDOING"), Row("UNDOING", "undone", "FAILED")],
    )

    @tool
    async def fails() -> None:
        raise ToolError("CONFLICT", "taken")

    engine = virtual(fails, lifecycle=lifecycle, activities={"UNDOING": waits_on_an_event})
    invocation = await play(engine, engine.execute_tool_call(ToolCall("fails"), deadline=5.0))
    assert invocation.error is not None
    assert invocation.error.code == "CONFLICT"
    assert invocation.response is not None
    assert invocation.response.context["unfinished"] == {"state": "UNDOING", "reason": "deadline"}


async def test_a_cancelled_activity_has_a_moment_to_clean_up_and_one_that_goes_on_is_reported() -> None:
    steps: list[str] = []

    async def cleans(invocation: ToolInvocation) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            await invocation.clock.sleep(0.5)
            steps.append("clean")
        return "noted"

    for activity, reported, seconds in ((cleans, False, 0.5), (ignores_its_cancellation, True, 1.0)):
        alerts: list[Any] = []
        with logged() as lines:
            engine = audited(activity)
            engine.on_alert(alerts.append)
            invocation = engine.start(ADD)
            await idle()
            invocation.cancel()
            await play(engine, _ended(invocation))
        assert now(engine) == seconds
        told = [line["part"] for line in lines if line["event"] == "part of a call was left to itself"]
        assert told == (["what is done in AUDITING"] if reported else [])
        assert [alert.kind for alert in alerts] == (["tool_abandoned"] if reported else [])
    assert steps == ["clean"]


async def test_a_fallback_that_ignores_its_cancellation_is_reported_like_a_tool() -> None:
    release = asyncio.Event()

    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    async def fails() -> None:
        raise ConnectionError("gone")

    spec = ToolSpec(name="t", func=fails, fallback=FallbackPolicy(function=stubborn, timeout=2.0, on_failure=True))
    alerts: list[Any] = []
    with logged() as lines:
        engine = virtual(spec, cancel_grace=0.5)
        engine.on_alert(alerts.append)
        invocation = await play(engine, engine.execute_tool_call(ToolCall("t")))
        assert now(engine) == 2.5
        release.set()
        await idle()
    assert invocation.error is not None
    assert invocation.error.code == "NETWORK_ERROR"
    about = {line["event"]: line.get("part") for line in lines}
    assert about["part of a call was left to itself"] == about["late_result_discarded"] == "its fallback"
    assert [alert.kind for alert in alerts] == ["tool_abandoned"]


@pytest.mark.parametrize(
    ("settings", "limits", "ended"),
    [
        ({"timeout": 0.5}, {"deadline": 0.7}, 0.7),
        ({"timeout": 0.5}, {"deadline": 0.5}, 0.5),
        ({"timeout": 0.5, "deadline": 0.6}, {}, 0.6),
        ({"timeout": 0.5}, {}, 1.5),
        ({"timeout": None}, {"deadline": 0.5}, 0.5),
    ],
)
async def test_the_grace_of_a_cancelled_tool_never_goes_past_the_deadline(
    settings: dict[str, Any], limits: dict[str, float], ended: float
) -> None:
    async def stubborn() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if leave:
                    raise

    leave: list[bool] = []
    with logged():
        engine = virtual(ToolSpec(name="t", func=stubborn, **settings))
        invocation = await play(engine, engine.execute_tool_call(ToolCall("t"), **limits))
        assert invocation.error is not None
        assert invocation.error.code == "TIMEOUT"
        assert now(engine) == ended
        leave.append(True)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await idle()


async def test_cleaning_up_without_waiting_is_in_time_even_with_no_grace_at_all() -> None:
    async def cleans() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.Event().wait())
        finally:
            await asyncio.sleep(0)

    with logged() as lines:
        engine = virtual(ToolSpec(name="t", func=cleans, timeout=1.0), cancel_grace=0)
        await play(engine, engine.invoke("t"))
    assert not [line for line in lines if "left to itself" in line["event"]]


@pytest.mark.parametrize("how", ["cancel", "deadline"])
async def test_a_cycle_that_never_waits_leaves_the_loop_to_others_and_can_be_ended(how: str) -> None:
    round_and_round = INVOCATION.extended(
        states=[State("PING"), State("PONG")],
        rows=[
            Row("EXECUTING", "succeed", "PING"),
            Row("PING", "go", "PONG"),
            Row("PONG", "go", "PING"),
            Row("PONG", "enough", "COMPLETED"),
        ],
    )

    def go(invocation: ToolInvocation) -> str:
        return "go"

    engine = virtual(add, lifecycle=round_and_round, activities={"PING": go, "PONG": go})
    invocation = engine.start(ADD, deadline=1.0)
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(invocation.moves) > 100
    assert not invocation.is_final
    if how == "cancel":
        assert invocation.cancel()
    else:
        engine.clock.advance(2.0)  # type: ignore[attr-defined]  # it is a VirtualClock
    await invocation
    assert invocation.state == ("CANCELLED" if how == "cancel" else "FAILED")
    assert invocation.error is not None
    assert invocation.error.code == ("CANCELLED" if how == "cancel" else "TIMEOUT")


async def test_what_an_activity_sets_in_its_context_is_there_for_the_tool() -> None:
    trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace", default="none")

    @tool
    async def read() -> str:
        return trace.get()

    async def begin(invocation: ToolInvocation) -> str:
        await asyncio.sleep(0)
        trace.set("span 7")
        return "validate"

    original = virtual(read)._driver._by_state["PENDING"]

    def pending(invocation: ToolInvocation) -> Awaitable[str]:
        original(invocation)
        return begin(invocation)

    assert (await virtual(read, activities={"PENDING": pending}).invoke("read")).text == "span 7"


# -- how an activity says no, and what it may answer -------------------------------------------------------------------


@pytest.mark.parametrize("waits", [False, True])
async def test_a_tool_error_of_an_activity_is_its_no(waits: bool) -> None:
    def refuses(invocation: ToolInvocation) -> str:
        raise ToolError("CONFLICT", "The ledger is closed.", reason="closed")

    async def refuses_later(invocation: ToolInvocation) -> str:
        await asyncio.sleep(0)
        return refuses(invocation)

    invocation = await audited(refuses_later if waits else refuses).execute_tool_call(ADD)
    assert invocation.path[-2:] == ("AUDITING", "FAILED")
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.reason) == ("CONFLICT", "closed")
    assert invocation.error.effect == Effect.DONE


@pytest.mark.parametrize("answer", [None, 5, "nope"])
@pytest.mark.parametrize("waits", [False, True])
async def test_an_answer_that_is_no_trigger_ends_the_call_as_broken(answer: Any, waits: bool) -> None:
    async def later(invocation: ToolInvocation) -> Any:
        await asyncio.sleep(0)
        return answer

    with logged():
        invocation = await audited(later if waits else lambda _: answer).execute_tool_call(ADD)
    assert invocation.state == "FAILED"
    assert invocation.error is not None
    assert invocation.error.code == "INTERNAL_ERROR"


# -- state, response, event and log agree -----------------------------------------------------------------------------

RESPONSES: dict[str, ToolResponse | None] = {
    "a result": ToolResponse.success("fine"),
    "a partial result": ToolResponse.partial("half"),
    "an error": ToolResponse.error("CONFLICT", "taken"),
    "a cancellation": ToolResponse.error("CANCELLED", "stopped"),
    "nothing": None,
}


@pytest.mark.parametrize("given", RESPONSES)
@pytest.mark.parametrize("dest", ["COMPLETED", "FAILED", "CANCELLED", "GOOD", "BAD", "EITHER"])
@pytest.mark.parametrize("by_hook", [False, True])
async def test_whatever_row_leads_to_an_end_state_response_event_and_log_agree(
    given: str, dest: str, by_hook: bool
) -> None:
    lifecycle = INVOCATION.extended(
        states=[
            State("ENDING"),
            State("GOOD", final=True, outcome="result"),
            State("BAD", final=True, outcome="error"),
            State("EITHER", final=True),
        ],
        rows=[
            Row("EXECUTING", "succeed", "ENDING"),
            *(
                Row("ENDING", f"to_{name}", name)
                for name in ("COMPLETED", "FAILED", "CANCELLED", "GOOD", "BAD", "EITHER")
            ),
        ],
    )

    def put(invocation: ToolInvocation) -> str:
        invocation.response = RESPONSES[given]
        return f"to_{dest}"

    watch = Watch()
    hooks = [on_enter(dest, lambda event: put(event.model) and None)] if by_hook else []
    with logged() as lines:
        engine = virtual(
            add,
            lifecycle=lifecycle,
            activities={"ENDING": (lambda _: f"to_{dest}") if by_hook else put},
            hooks=hooks,
            stages=Stages(publish=watch),
        )
        invocation = await engine.execute_tool_call(ADD)
    response = invocation.response
    assert response is not None
    assert invocation.state == dest
    is_good = response.error_info is None
    if dest != "EITHER":
        assert is_good == (dest in ("COMPLETED", "GOOD"))
    if dest == "CANCELLED":
        assert response.error_info is not None
        assert response.error_info.code == "CANCELLED"
    assert watch.events[-1].type == ("tool_result" if is_good else "tool_error")
    assert isinstance(watch.events[-1], ToolResultEvent | ToolErrorEvent)
    assert watch.events[-1].result is response
    assert lines[-1]["event"] == ("tool call ended" if is_good else "tool call failed")
    assert (response.status is ToolStatus.ERROR) == (not is_good)
    if given == "an error" and dest in ("COMPLETED", "GOOD", "CANCELLED"):
        assert response.context["error"] == {"code": "CONFLICT", "message": "taken"}


# -- what `cancel` answers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "leads_on"),
    [
        ("exit EXECUTING", False),
        ("exit EXECUTING", True),
        ("enter COMPLETED", False),
        ("enter COMPLETED", True),
        ("exit AUDITING", True),
    ],
)
async def test_what_cancel_answers_a_hook_is_what_happens(place: str, leads_on: bool) -> None:
    asked: list[bool] = []
    kind, state = place.split()
    hang = on_exit if kind == "exit" else on_enter
    hooks = [hang(state, lambda event: asked.append(event.model.cancel()))]
    engine = audited(lambda _: "noted", hooks=hooks) if leads_on else virtual(add, hooks=hooks)
    invocation = await engine.execute_tool_call(ADD)
    assert asked == [invocation.state == "CANCELLED"]
    assert asked == [place == "exit EXECUTING" and leads_on]


async def test_a_cancellation_that_was_refused_does_not_come_back_in_a_later_state() -> None:
    """The result was in, so `cancel` answered `False`; a state of the user's that follows ends as if nobody had asked."""
    release = asyncio.Event()
    asked: list[bool] = []

    @tool
    async def add(a: int) -> int:
        await release.wait()
        return a

    engine = virtual(add, lifecycle=AUDITED, activities={"AUDITING": lambda _: "noted"})
    invocation = engine.start(ADD)
    await idle()
    attempt = invocation.attempt
    assert attempt is not None
    assert attempt.run is not None
    attempt.run.when_ended(lambda: (asked.append(invocation.cancel()), invocation.wake()))
    release.set()
    await invocation
    assert asked == [False]
    assert invocation.path[-2:] == ("AUDITING", "COMPLETED")


async def test_the_last_one_who_leaves_cancels() -> None:
    engine = audited(waits_on_an_event)
    invocation = engine.start(ADD)
    waiting = [asyncio.ensure_future(_ended(invocation)) for _ in range(3)]
    await idle()
    for task in waiting:
        assert not invocation.is_cancel_requested
        task.cancel()
        await idle()
    assert invocation.state == "CANCELLED"


# -- interruptions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place", [on_exit("EXECUTING", print), on_enter("COMPLETED", print), on_enter("FAILED", print)]
)
def test_an_interrupted_hook_leaves_an_invocation_whose_end_everybody_is_told_of(place: Any) -> None:
    def interrupt(event: Any) -> None:
        raise KeyboardInterrupt

    watch = Watch()
    hook = {"on_exit": on_exit, "on_enter": on_enter}[place.place](place.state, interrupt)

    @tool
    async def add(a: int) -> int:
        if place.state == "FAILED":
            raise ToolError("CONFLICT", "taken")
        return a

    made: list[ToolInvocation] = []

    async def main() -> None:
        engine = virtual(add, hooks=[hook], stages=Stages(publish=watch))
        task = asyncio.ensure_future(engine.execute_tool_call(ADD))
        made.extend(engine.running)
        await asyncio.sleep(0)
        made.extend(engine.running)
        await task

    with logged(), pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    last = watch.events[-1]
    is_good = place.state == "COMPLETED"
    assert last.type == ("tool_result" if is_good else "tool_error")
