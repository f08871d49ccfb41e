"""The engine from outside: what goes in, what comes out, and that every invocation ends."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Annotated, Any

import anyio
import pytest
from pydantic import Field

from fsm_engine import (
    INVOCATION,
    ConfigurationError,
    EngineClosedError,
    Firing,
    LifecycleError,
    RetryPolicy,
    Row,
    Stages,
    State,
    ToolCall,
    ToolContext,
    ToolEngine,
    ToolError,
    ToolInvocation,
    ToolResponse,
    ToolSpec,
    ToolStatus,
    VirtualClock,
    gate,
    named,
    on_enter,
    on_exit,
    on_transition,
    tool,
)
from fsm_engine.invocation.arguments import parse_arguments

from .support import Stuck, Watch, assert_ended, assert_told_in_full, idle, logged, now, play, until, virtual


@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(timeout=None)
async def wait(seconds: float, ctx: ToolContext) -> str:
    """Wait."""
    await ctx._attempt.invocation.clock.sleep(seconds)
    return "waited"


# -- the good path ------------------------------------------------------------------------------------------------


async def test_a_call_runs_through_the_states_and_answers_with_facts_about_itself() -> None:
    """Scenario: the model asks for a sum."""
    engine = virtual(add)
    invocation = await engine.execute_tool_call({"id": "c1", "name": "add", "arguments": '{"a": 2}'})
    assert_ended(invocation)
    assert invocation.path == ("PENDING", "VALIDATING", "ADMITTING", "EXECUTING", "COMPLETED")
    assert invocation.result == 3
    assert invocation.error is None
    response = invocation.response
    assert response is not None
    assert response.status is ToolStatus.SUCCESS
    assert response.stats == {"time_ms": 0.0, "attempts": 1}
    assert response.context == {"tool": "add", "arguments": {"a": 2, "b": 1}, "call_id": "c1", "version": "1"}
    assert [entry.trigger for entry in invocation.history] == ["validate", "accept", "admit", "succeed"]
    assert engine.running == ()


async def test_a_missing_id_is_made_and_identical_calls_share_its_middle_part_only() -> None:
    engine = virtual(add)
    first, second = await engine.execute_tool_calls([ToolCall("add", {"a": 1}), ToolCall("add", {"a": 1})])
    assert first.id != second.id
    assert first.uid != second.uid
    assert first.id.rsplit("_", 2)[0] == second.id.rsplit("_", 2)[0]
    assert first.id.startswith("call_")


async def test_calls_of_one_message_run_side_by_side_and_are_answered_in_call_order() -> None:
    """The quick call is not delayed by the slow one, and the unknown one harms nobody."""
    engine = virtual(add, wait)
    calls = [
        {"id": "slow", "name": "wait", "arguments": {"seconds": 5}},
        {"id": "none", "name": "wat", "arguments": {}},
        {"id": "fast", "name": "add", "arguments": {"a": 1}},
    ]
    slow, unknown, fast = await play(engine, engine.execute_tool_calls(calls))
    assert [slow.id, unknown.id, fast.id] == ["slow", "none", "fast"]
    assert (slow.result, fast.result) == ("waited", 2)
    assert unknown.error is not None
    assert unknown.error.code == "NOT_FOUND"
    assert "wait" in unknown.error.message
    assert slow.ended_at == 5.0
    assert fast.ended_at == 0.0


async def test_an_empty_batch_is_answered_with_an_empty_list() -> None:
    assert await virtual(add).execute_tool_calls([]) == []


async def test_calls_that_share_an_id_are_refused_before_anything_runs_and_the_others_proceed() -> None:
    ran: list[str] = []

    def note(which: str) -> str:
        ran.append(which)
        return which

    engine = ToolEngine([note])
    calls = [{"id": i, "name": "note", "arguments": {"which": w}} for i, w in (("x", "1"), ("y", "2"), ("x", "3"))]
    first, second, third = await engine.execute_tool_calls(calls)
    assert ran == ["2"]
    assert second.result == "2"
    for refused in (first, third):
        assert_ended(refused)
        assert refused.state == "FAILED"
        assert refused.error is not None
        assert (refused.error.code, refused.error.reason) == ("INVALID_PARAM", "duplicate_id")


async def test_empty_ids_are_no_duplicates_of_each_other() -> None:
    calls = [ToolCall("add", {"a": 1}, ""), ToolCall("add", {"a": 2}, "")]
    assert [each.result for each in await virtual(add).execute_tool_calls(calls)] == [2, 3]


async def test_a_started_call_can_be_awaited_by_several() -> None:
    engine = virtual(wait)
    invocation = engine.start(ToolCall("wait", {"seconds": 2}))
    assert engine.running == (invocation,)

    async def result() -> Any:
        return (await invocation).result

    assert await play(engine, asyncio.gather(result(), result())) == ["waited", "waited"]
    assert (await invocation) is invocation  # again, after its end


# -- bad input ----------------------------------------------------------------------------------------------------


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


CIRCLE: dict[str, Any] = {"a": 1}
CIRCLE["b"] = CIRCLE


class HasAHostileRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no")


BAD_INPUT: list[tuple[str, Any, str, str]] = [
    ("not JSON", '{"a": ', "INVALID_FORMAT", "args_not_json"),
    ("JSON with NaN", '{"a": NaN}', "INVALID_FORMAT", "args_not_json"),
    ("a number of 5,000 digits", '{"a": ' + "1" * 5_000 + "}", "INVALID_FORMAT", "args_not_json"),
    ("a list", "[1, 2]", "INVALID_FORMAT", "args_not_object"),
    ("a number", "7", "INVALID_FORMAT", "args_not_object"),
    ("a text", '"a"', "INVALID_FORMAT", "args_not_object"),
    ("a Python list", [1], "INVALID_FORMAT", "args_not_object"),
    ("bytes", b'{"a": 1}', "INVALID_FORMAT", "args_not_object"),
    ("an object of Python", object(), "INVALID_FORMAT", "args_not_object"),
    ("too big", '{"a": "' + "x" * 1_000_001 + '"}', "INVALID_PARAM", "too_big"),
    ("too deep, as text", '{"a": ' + "[" * 70 + "]" * 70 + "}", "INVALID_PARAM", "too_deep"),
    ("far too deep, as text", '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "INVALID_PARAM", "too_deep"),
    ("too deep, as a dictionary", {"a": deep(70)}, "INVALID_PARAM", "too_deep"),
    ("far too deep, as a dictionary", {"a": deep(100_000)}, "INVALID_PARAM", "too_deep"),
    ("a circle", CIRCLE, "INVALID_PARAM", "too_deep"),
    ("doubly encoded twice over", '"\\"{}\\""', "INVALID_FORMAT", "args_not_object"),
    ("doubly encoded, broken inside", '"{\\"a\\": "', "INVALID_FORMAT", "args_not_json"),
    ("nothing at all", None, "INVALID_PARAM", "missing_required"),
    ("an empty text", "  ", "INVALID_PARAM", "missing_required"),
    ("JSON null", "null", "INVALID_PARAM", "missing_required"),
    ("a missing field", {"b": 1}, "INVALID_PARAM", "missing_required"),
    ("a null field", {"a": None}, "INVALID_PARAM", "wrong_type"),
    ("a wrong type", {"a": "1"}, "INVALID_PARAM", "wrong_type"),
    ("an unknown field", {"a": 1, "c": 1}, "INVALID_PARAM", "unknown_field"),
    ("an encoded number where a number is meant", {"a": "{}"}, "INVALID_PARAM", "wrong_type"),
    ("an object of Python in a field", {"a": object()}, "INVALID_PARAM", "unvalidatable"),
    ("an object with a hostile repr", {"a": HasAHostileRepr()}, "INVALID_PARAM", "unvalidatable"),
    ("keys of several types", {"a": 1, 2: 3}, "INVALID_PARAM", "unvalidatable"),
    ("a lone surrogate, as text", '{"a": "\\ud800"}', "INVALID_PARAM", "wrong_type"),
    ("a lone surrogate", {"a": "\ud800"}, "INVALID_PARAM", "wrong_type"),
]


@pytest.mark.parametrize(
    ("arguments", "code", "reason"), [row[1:] for row in BAD_INPUT], ids=[row[0] for row in BAD_INPUT]
)
async def test_bad_arguments_are_answered_with_a_clear_error_and_never_reach_the_tool(
    arguments: Any, code: str, reason: str
) -> None:
    called: list[int] = []

    async def strict(a: int, b: int = 1) -> int:
        called.append(a)
        return a

    watch = Watch()
    engine = virtual(strict, stages=Stages(publish=watch))
    invocation = await engine.execute_tool_call(ToolCall("strict", arguments))
    assert_ended(invocation)
    assert_told_in_full(watch.events)
    assert invocation.state == "FAILED"
    assert invocation.path[:2] == ("PENDING", "VALIDATING")
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.reason) == (code, reason)
    assert len(invocation.error.message) < 3_000
    assert called == []
    for event in watch.events:
        json.dumps(event.to_dict(), allow_nan=False)
    assert invocation.response is not None
    assert ToolResponse.from_dict(invocation.response.to_dict()) == invocation.response


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ({"name": "nope"}, "NOT_FOUND"),
        ({"name": "ADD", "arguments": {"a": 1}}, "NOT_FOUND"),
        ({"name": "", "arguments": {}}, "INVALID_PARAM"),
        ({"arguments": {}}, "INVALID_PARAM"),
        ({"name": 5}, "INVALID_PARAM"),
        ({}, "INVALID_PARAM"),
        (None, "INVALID_PARAM"),
        (42, "INVALID_PARAM"),
        ("add", "INVALID_PARAM"),
        ({"function": {}}, "INVALID_PARAM"),
        ({"function": "add"}, "INVALID_PARAM"),
        (ToolCall(None), "INVALID_PARAM"),  # type: ignore[arg-type]  # what a careless caller does
        (ToolCall(["add"]), "INVALID_PARAM"),  # type: ignore[arg-type]  # likewise, see above
    ],
    ids=repr,
)
async def test_a_call_without_a_known_tool_is_an_error_response_and_no_exception(call: Any, code: str) -> None:
    watch = Watch()
    engine = virtual(add, stages=Stages(publish=watch))
    invocation = await engine.execute_tool_call(call)
    assert_ended(invocation)
    assert_told_in_full(watch.events)
    assert invocation.error is not None
    assert invocation.error.code == code


@pytest.mark.parametrize("name", [None, 5, [], {"a": 1}])
async def test_invoke_answers_a_name_that_is_no_text_with_an_error(name: Any) -> None:
    response = await virtual(add).invoke(name, {})
    assert response.error_info is not None
    assert response.error_info.code == "INVALID_PARAM"


async def test_json_that_is_encoded_twice_is_decoded_and_the_response_says_so() -> None:
    invocation = await virtual(add).execute_tool_call(ToolCall("add", '"{\\"a\\": 4}"'))
    assert invocation.result == 5
    assert invocation.response is not None
    assert invocation.response.context["notes"] == ["doubly_encoded"]


async def test_embedded_json_is_decoded_only_where_the_schema_takes_no_text() -> None:
    async def both(items: list[int], text: str) -> dict[str, Any]:
        return {"items": items, "text": text}

    response = await virtual(both).invoke("both", {"items": "[1, 2]", "text": "[1, 2]"})
    assert response.data == {"items": [1, 2], "text": "[1, 2]"}


async def test_arguments_may_be_missing_for_a_tool_that_needs_none() -> None:
    async def ping() -> str:
        return "pong"

    engine = virtual(ping)
    for nothing in (None, "", "{}", {}, "null"):
        assert (await engine.invoke("ping", nothing)).text == "pong"


@pytest.mark.parametrize("deadline", [0, -1, float("nan"), float("inf"), "5", True])
async def test_a_deadline_that_is_no_span_of_time_is_the_callers_mistake(deadline: Any) -> None:
    engine = virtual(add)
    with pytest.raises(ConfigurationError, match="deadline must be"):
        await engine.invoke("add", {"a": 1}, deadline=deadline)
    assert engine.running == ()


# -- everything that can raise --------------------------------------------------------------------------------------


class Unusual(BaseException):
    """Neither an `Exception` nor one that Python knows."""


RAISED: list[Callable[[], BaseException]] = [
    lambda: RuntimeError("broken"),
    lambda: ToolError("CONFLICT", "taken"),
    lambda: StopIteration("over"),
    lambda: StopAsyncIteration("over"),
    lambda: asyncio.CancelledError("not really"),
    lambda: GeneratorExit("closed"),
    lambda: SystemExit(3),
    lambda: Unusual("odd"),
    lambda: RecursionError("deep"),
    lambda: MemoryError("full"),
    lambda: BaseExceptionGroup("several", [RuntimeError("a"), SystemExit("b")]),
    lambda: TimeoutError("slow"),
]


def raiser(make: Callable[[], BaseException]) -> Callable[..., Any]:
    def broken(*_: Any, **__: Any) -> Any:
        raise make()

    return broken


def activity_at(state: str) -> Callable[[Callable[..., Any]], dict[str, Any]]:
    return lambda broken: {"activities": {state: broken}}


def async_activity(broken: Callable[..., Any]) -> dict[str, Any]:
    async def activity(invocation: ToolInvocation) -> str:
        await asyncio.sleep(0)
        return str(broken())

    return {"activities": {"EXECUTING": activity}}


def guard_of_accept(broken: Callable[..., Any]) -> dict[str, Any]:
    rows = [Row("VALIDATING", "accept", "FAILED", guard="broken")]
    return {"lifecycle": INVOCATION.extended(rows=rows, guards={"broken": broken})}


def guard_of_fail(broken: Callable[..., Any]) -> dict[str, Any]:
    rows = [Row("EXECUTING", "succeed", "AUDITING", guard="broken"), Row("AUDITING", "succeed", "COMPLETED")]
    lifecycle = INVOCATION.extended(states=[State("AUDITING")], rows=rows, guards={"broken": broken})
    return {"lifecycle": lifecycle, "activities": {"AUDITING": lambda invocation: "succeed"}}


PLACES: dict[str, Callable[[Callable[..., Any]], dict[str, Any]]] = {
    "activity of PENDING": activity_at("PENDING"),
    "activity of VALIDATING": activity_at("VALIDATING"),
    "activity of ADMITTING": activity_at("ADMITTING"),
    "activity of EXECUTING": activity_at("EXECUTING"),
    "activity that waits": async_activity,
    "guard before the attempt": guard_of_accept,
    "guard after the attempt": guard_of_fail,
    "gate of VALIDATING": lambda broken: {"hooks": [gate("VALIDATING", broken)]},
    "gate of ADMITTING": lambda broken: {"hooks": [gate("ADMITTING", broken)]},
    "gate of EXECUTING": lambda broken: {"hooks": [gate("EXECUTING", broken)]},
    "stage resolve": lambda broken: {"stages": Stages(resolve=broken)},
    "stage parse": lambda broken: {"stages": Stages(parse=broken)},
    "stage validate": lambda broken: {"stages": Stages(validate=broken)},
    "stage bind": lambda broken: {"stages": Stages(bind=broken)},
    "stage execute": lambda broken: {"stages": Stages(execute=broken)},
    "stage standardise": lambda broken: {"stages": Stages(standardise=broken)},
}

OBSERVERS: dict[str, Callable[[Callable[..., Any]], dict[str, Any]]] = {
    "stage publish": lambda broken: {"stages": Stages(publish=broken)},
    "on every transition": lambda broken: {"hooks": [broken]},
    "on_transition": lambda broken: {"hooks": [on_transition(broken)]},
    "on entering VALIDATING": lambda broken: {"hooks": [on_enter("VALIDATING", broken)]},
    "on entering COMPLETED": lambda broken: {"hooks": [on_enter("COMPLETED", broken)]},
    "on leaving PENDING": lambda broken: {"hooks": [on_exit("PENDING", broken)]},
    "on leaving EXECUTING": lambda broken: {"hooks": [on_exit("EXECUTING", broken)]},
    "an object's methods": lambda broken: {"hooks": [SimpleNamespace(on_enter=broken, on_exit=broken)]},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("make", RAISED, ids=lambda make: type(make()).__name__)
async def test_whatever_raises_where_it_should_not_the_invocation_ends_as_failed(
    place: str, make: Callable[[], BaseException]
) -> None:
    """And nothing comes out of the engine."""
    watch = Watch()
    settings = PLACES[place](raiser(make))
    settings["stages"] = Stages(
        **{name: getattr(settings.get("stages", Stages()), name) for name in Stages.__slots__ if name != "publish"},
        publish=watch,
    )
    with logged():
        engine = virtual(add, **settings)
        invocation = engine.start(ToolCall("add", {"a": 1}, "c1"))
        await invocation
    assert_ended(invocation)
    assert invocation.state == "FAILED"
    assert_told_in_full(watch.events)
    assert engine.running == ()
    response = await engine.invoke("add", {"a": 1})
    assert response.status is ToolStatus.ERROR


@pytest.mark.parametrize("place", OBSERVERS)
@pytest.mark.parametrize("make", RAISED, ids=lambda make: type(make()).__name__)
async def test_what_an_observer_raises_is_logged_and_changes_nothing(
    place: str, make: Callable[[], BaseException]
) -> None:
    with logged() as lines:
        engine = virtual(add, **OBSERVERS[place](raiser(make)))
        response = await engine.invoke("add", {"a": 1})
    assert response.data == 2
    errors = [line for line in lines if line["log_level"] == "error"]
    assert errors
    assert {line["exception_type"] for line in errors} == {type(make()).__name__}


@pytest.mark.parametrize("make", RAISED, ids=lambda make: type(make()).__name__)
@pytest.mark.parametrize("kind", ["async", "async late", "sync", "generator", "async generator"])
async def test_whatever_a_tool_raises_becomes_an_error_response(kind: str, make: Callable[[], BaseException]) -> None:
    broken = raiser(make)

    async def at_once() -> None:
        broken()

    async def late() -> None:
        await asyncio.sleep(0)
        broken()

    def sync() -> None:
        broken()

    def generator() -> Any:
        yield "a"
        broken()

    async def agenerator() -> AsyncIterator[str]:
        yield "a"
        broken()

    chosen = {"async": at_once, "async late": late, "sync": sync, "generator": generator, "async generator": agenerator}
    engine = ToolEngine([ToolSpec(name="t", func=chosen[kind])])
    invocation = await engine.execute_tool_call(ToolCall("t"))
    assert_ended(invocation)
    assert invocation.state == "FAILED"
    assert invocation.error is not None
    expected = {"ToolError": "CONFLICT", "TimeoutError": "TIMEOUT"}.get(type(make()).__name__, "EXECUTION_ERROR")
    assert invocation.error.code == expected


@pytest.mark.parametrize("answer", [None, 5, "no such trigger", "decide"])
async def test_an_activity_that_answers_nonsense_ends_the_invocation_as_failed(answer: Any) -> None:
    with logged():
        engine = virtual(add, activities={"VALIDATING": lambda invocation: answer})
        invocation = await engine.execute_tool_call(ToolCall("add", {"a": 1}))
    assert_ended(invocation)
    assert invocation.error is not None
    assert invocation.error.reason == "broken_tool"


async def test_a_validator_that_raises_is_the_authors_fault_in_the_log() -> None:
    def check(arguments: Any) -> None:
        raise KeyError("warehouse")

    with logged() as lines:
        engine = virtual(add.replaced(validator=check))
        response = await engine.invoke("add", {"a": 1})
    assert response.error_info is not None
    assert (response.error_info.code, response.error_info.reason) == ("INTERNAL_ERROR", "broken_tool")
    assert response.error_info.counts is False
    assert any(line["event"] == "validation is broken" and line["tool"] == "add" for line in lines)


def interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


INTERRUPTED = {
    **{place: make(interrupt) for place, make in PLACES.items()},
    **{place: make(interrupt) for place, make in OBSERVERS.items()},
}


@pytest.mark.parametrize("place", INTERRUPTED)
def test_a_keyboard_interrupt_passes_and_the_invocation_has_ended_all_the_same(place: str) -> None:
    kept: list[ToolInvocation] = []

    async def main() -> None:
        engine = virtual(add, **INTERRUPTED[place])
        kept.append(engine.start(ToolCall("add", {"a": 1})))
        await kept[0]

    with logged(), pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert kept[0].is_final
    assert kept[0].response is not None


@pytest.mark.parametrize("late", [False, True])
def test_a_keyboard_interrupt_in_a_tool_passes(late: bool) -> None:
    async def stop() -> None:
        if late:
            await asyncio.sleep(0)
        raise KeyboardInterrupt

    async def main() -> None:
        await ToolEngine([stop]).invoke("stop")

    with logged(), pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


async def test_a_logger_that_raises_changes_nothing() -> None:
    import structlog

    def broken(*_: Any) -> Any:
        raise RuntimeError("the disk is full")

    structlog.configure(processors=[broken])
    try:
        engine = virtual(add, hooks=[raiser(lambda: RuntimeError("hook"))])
        assert (await engine.invoke("add", {"a": 1})).data == 2
        assert (await engine.invoke("nope")).status is ToolStatus.ERROR
    finally:
        structlog.reset_defaults()


# -- set-ups that cannot work ---------------------------------------------------------------------------------------


async def observe_later(event: Firing) -> None:
    """An observer that came too late."""


class ObservesLater:
    async def __call__(self, event: Firing) -> None:
        """Likewise."""


class EntersLater:
    async def on_enter(self, event: Firing) -> None:
        """Likewise."""


def yields(event: Firing) -> Any:
    yield event


def nothing(event: Firing) -> None:
    """Watch."""


WRONG_SETUPS: list[tuple[str, dict[str, Any], str]] = [
    ("a tool twice", {"tools": [add, add]}, "rename one"),
    ("no tool", {"tools": [5]}, "a tool is a function or a ToolSpec, not 5"),
    ("an async observer", {"hooks": [observe_later]}, "coroutine"),
    ("an async callable object", {"hooks": [ObservesLater()]}, "coroutine"),
    ("an async method", {"hooks": [EntersLater()]}, "coroutine"),
    ("a generator", {"hooks": [yields]}, "generator"),
    ("no hook", {"hooks": [7]}, "a hook is a function"),
    ("a hook that is no function", {"hooks": [on_enter("VALIDATING", 7)]}, "must be a function, not int"),  # type: ignore[arg-type]  # on purpose
    ("a hook on no state", {"hooks": [on_enter("VALIDATE", nothing)]}, "it has PENDING"),
    ("a named hook that nobody names", {"hooks": [named("x", nothing)]}, "does not name: x"),
    ("the record hook replaced", {"hooks": [named("record", nothing)]}, "choose another name"),
    ("a gate on a final state", {"hooks": [gate("COMPLETED", nothing)]}, "hang it on the state before"),
    ("a gate on the initial state", {"hooks": [gate("PENDING", nothing)]}, "hang the hook on a later state"),
    ("an enter hook on the initial state", {"hooks": [on_enter("PENDING", nothing)]}, "use on_exit"),
    ("an exit hook on a final state", {"hooks": [on_exit("FAILED", nothing)]}, "use on_enter"),
    ("an activity for no state", {"activities": {"NOPE": lambda _: "x"}}, "there are PENDING"),
    ("no threads", {"max_threads": 0}, "max_threads must be a whole number from 1 up"),
    ("no concurrency", {"max_concurrency": 0}, "max_concurrency must be"),
    ("half a slot", {"max_concurrency": 1.5}, "max_concurrency must be"),
    ("a negative grace", {"cancel_grace": -1}, "cancel_grace must be a number of seconds from 0 up"),
    (
        "a state without an activity",
        {
            "lifecycle": INVOCATION.extended(
                states=[State("X")], rows=[Row("PENDING", "validate", "X"), Row("X", "go", "VALIDATING")]
            )
        },
        "nothing would ever lead out of X",
    ),
]


@pytest.mark.parametrize(
    ("settings", "message"), [row[1:] for row in WRONG_SETUPS], ids=[row[0] for row in WRONG_SETUPS]
)
def test_a_wrong_set_up_is_refused_when_it_is_made_and_the_message_says_what_to_change(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ToolEngine(**settings)


def test_a_lifecycle_that_could_leave_an_invocation_without_an_end_is_refused() -> None:
    from dataclasses import replace

    with pytest.raises(LifecycleError, match="must name 'record' first"):
        ToolEngine(lifecycle=replace(INVOCATION, on_transition=("publish", "record", "log")))
    rows = tuple(row for row in INVOCATION.rows if row.trigger != "abort")
    with pytest.raises(LifecycleError, match="must have one row from PENDING on 'abort'"):
        ToolEngine(lifecycle=replace(INVOCATION, rows=rows))
    guarded = Row("EXECUTING", "abort", "FAILED", guard="refused")  # what a guard raises would keep it from ending
    with pytest.raises(LifecycleError, match="must have one row from EXECUTING on 'abort'"):
        ToolEngine(lifecycle=INVOCATION.extended(rows=[guarded]))
    with pytest.raises(LifecycleError, match="names hooks that were not given: mine"):
        ToolEngine(lifecycle=INVOCATION.extended(on_transition=["mine"]))


# -- a lifecycle of one's own ---------------------------------------------------------------------------------------


async def test_a_state_of_ones_own_is_run_with_its_activity_and_named_gate() -> None:
    """Scenario: every result is written to a ledger first; calls of tool `secret` may not be."""

    def no_secrets(event: Firing) -> None:
        if event.model.tool_name == "secret":
            raise ToolError("PERMISSION_DENIED", "The ledger is public.")

    async def write(invocation: ToolInvocation) -> str:
        await asyncio.sleep(0)
        return "succeed"

    @tool
    async def secret() -> str:
        return "s"

    lifecycle = INVOCATION.extended(
        states=[State("AUDITING", gates=("no_secrets",))],
        rows=[Row("EXECUTING", "succeed", "AUDITING"), Row("AUDITING", "succeed", "COMPLETED")],
    )
    engine = virtual(
        add, secret, lifecycle=lifecycle, activities={"AUDITING": write}, hooks=[named("no_secrets", no_secrets)]
    )
    good = await engine.execute_tool_call(ToolCall("add", {"a": 1}))
    assert good.path[-2:] == ("AUDITING", "COMPLETED")
    bad = await engine.execute_tool_call(ToolCall("secret"))
    assert bad.path[-2:] == ("AUDITING", "FAILED")
    assert bad.error is not None
    assert bad.error.code == "PERMISSION_DENIED"


# -- cancellation ---------------------------------------------------------------------------------------------------


class Cleans:
    """A tool that is told of its cancellation."""

    def __init__(self) -> None:
        self.was_cancelled = False

    async def __call__(self, ctx: ToolContext) -> str:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.was_cancelled = ctx.cancelled
            raise
        return "never"


def waiting_tool(**settings: Any) -> tuple[Cleans, ToolSpec]:
    cleans = Cleans()
    return cleans, ToolSpec(name="cleans", func=cleans, timeout=None, **settings)


async def test_cancel_reaches_the_tool_and_the_effect_is_unknown() -> None:
    cleans, spec = waiting_tool()
    engine = virtual(spec)
    invocation = engine.start(ToolCall("cleans"))
    await idle()
    assert invocation.cancel("the user left")
    assert not invocation.cancel("again")
    await invocation
    assert_ended(invocation)
    assert invocation.state == "CANCELLED"
    assert cleans.was_cancelled
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.effect) == ("CANCELLED", "unknown")
    assert "the user left" in invocation.error.message
    assert not invocation.cancel()


async def test_cancelling_a_read_only_tool_has_no_effect() -> None:
    _, spec = waiting_tool(read_only=True)
    engine = virtual(spec)
    invocation = engine.start(ToolCall("cleans"))
    await idle()
    invocation.cancel()
    await invocation
    assert invocation.error is not None
    assert invocation.error.effect == "none"


async def test_cancel_before_the_first_step_calls_nothing() -> None:
    cleans, spec = waiting_tool()
    watch = Watch()
    engine = virtual(spec, stages=Stages(publish=watch))
    invocation = engine.start(ToolCall("cleans"))
    assert invocation.cancel()
    await invocation
    assert invocation.path == ("PENDING", "CANCELLED")
    assert invocation.error is not None
    assert invocation.error.effect == "none"
    assert not cleans.was_cancelled
    assert_told_in_full(watch.events)


async def test_a_result_that_is_in_wins_over_cancel() -> None:
    """`cancel` says so by answering `False`, whether or not the driver has seen the result yet."""
    gate_ = asyncio.Event()
    asked: list[bool] = []

    async def answer() -> str:
        await gate_.wait()
        return "done"

    engine = virtual(answer)
    invocation = engine.start(ToolCall("answer"))
    await idle()
    gate_.set()
    attempt = invocation.attempt
    assert attempt is not None
    assert attempt.run is not None
    attempt.run.when_ended(lambda: (asked.append(invocation.cancel()), invocation.wake()))
    await invocation
    assert asked == [False]
    assert (invocation.state, invocation.result) == ("COMPLETED", "done")


@pytest.mark.parametrize("waits", [False, True])
async def test_cancel_from_a_hook_after_the_attempt_comes_too_late(waits: bool) -> None:
    asked: list[bool] = []

    async def quick() -> str:
        if waits:
            await asyncio.sleep(0)
        return "done"

    engine = virtual(quick, hooks=[on_exit("EXECUTING", lambda event: asked.append(event.model.cancel()))])
    invocation = await engine.execute_tool_call(ToolCall("quick"))
    assert asked == [False]
    assert invocation.state == "COMPLETED"


async def test_cancel_from_a_hook_between_two_attempts_says_that_the_effect_is_unknown() -> None:
    @tool(idempotent=True, max_retries=3)
    async def flaky() -> None:
        raise ConnectionError("gone")

    engine = virtual(flaky, hooks=[on_enter("RETRYING", lambda event: event.model.cancel("enough"))])
    invocation = await play(engine, engine.execute_tool_call(ToolCall("flaky")))
    assert invocation.state == "CANCELLED"
    assert len(invocation.attempts) == 1
    assert invocation.error is not None
    assert invocation.error.effect == "unknown"


async def test_when_cancel_says_that_the_result_is_in_no_other_attempt_follows() -> None:
    gate_ = asyncio.Event()
    asked: list[bool] = []

    @tool(idempotent=True, max_retries=3)
    async def flaky() -> None:
        await gate_.wait()
        raise ConnectionError("gone")

    engine = virtual(flaky)
    invocation = engine.start(ToolCall("flaky"))
    await idle()
    attempt = invocation.attempt
    assert attempt is not None
    assert attempt.run is not None
    attempt.run.when_ended(lambda: (asked.append(invocation.cancel()), invocation.wake()))
    gate_.set()
    await invocation
    assert len(invocation.attempts) == 1
    assert asked == [False]
    assert invocation.state == "FAILED"
    assert invocation.error is not None
    assert invocation.error.code == "NETWORK_ERROR"


async def test_cancel_comes_too_late_when_the_time_is_up_and_the_tool_is_cleaning_up() -> None:
    @tool(timeout=1.0)
    async def cleans_up() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await engine.clock.sleep(0.5)

    engine = virtual(cleans_up)
    invocation = engine.start(ToolCall("cleans_up"))
    await idle()
    engine.clock.advance(1.0)  # type: ignore[attr-defined]  # it is a VirtualClock
    await idle()
    assert not invocation.cancel()
    await play(engine, _await(invocation))
    assert invocation.error is not None
    assert invocation.error.code == "TIMEOUT"
    assert now(engine) == 1.5


async def test_a_coroutine_that_ignores_its_cancellation_is_abandoned_and_reported() -> None:
    release = asyncio.Event()

    @tool(timeout=None)
    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    with logged() as lines:
        engine = virtual(stubborn, cancel_grace=2.0)
        invocation = engine.start(ToolCall("stubborn"))
        await idle()
        invocation.cancel()
        await play(engine, _await(invocation))
        assert invocation.state == "CANCELLED"
        assert now(engine) == 2.0
        assert any("left to itself" in line["event"] for line in lines)
        release.set()
        await idle()
        assert any(line["event"] == "late_result_discarded" for line in lines)
    assert_ended(invocation)


async def _await(invocation: ToolInvocation) -> ToolInvocation:
    return await invocation


async def test_cancelling_the_callers_task_reaches_the_tool_and_is_not_swallowed() -> None:
    cleans, spec = waiting_tool()
    engine = virtual(spec)
    task = asyncio.create_task(engine.invoke("cleans"))
    await idle()
    (invocation,) = engine.running
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleans.was_cancelled
    assert_ended(invocation)
    assert invocation.state == "CANCELLED"


async def test_cancelling_the_task_of_a_batch_reaches_all_its_calls() -> None:
    _, spec = waiting_tool()
    engine = virtual(spec, add)
    task = asyncio.create_task(
        engine.execute_tool_calls([ToolCall("cleans"), ToolCall("cleans"), ToolCall("add", {"a": 1})])
    )
    await idle()
    invocations = engine.running
    task.cancel()
    await idle()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [each.state for each in invocations] == ["CANCELLED", "CANCELLED"]
    assert engine.running == ()


async def test_cancelling_one_of_a_batch_leaves_the_others_alone() -> None:
    _, spec = waiting_tool()
    engine = virtual(spec, wait)
    task = asyncio.create_task(engine.execute_tool_calls([ToolCall("cleans"), ToolCall("wait", {"seconds": 3})]))
    await idle()
    engine.running[0].cancel()
    first, second = await play(engine, task)
    assert (first.state, second.result) == ("CANCELLED", "waited")


async def test_asyncio_timeout_around_invoke_works() -> None:
    cleans, spec = waiting_tool()
    engine = ToolEngine([spec])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await engine.invoke("cleans")
    assert cleans.was_cancelled
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(engine.invoke("cleans"), 0.001)
    assert engine.running == ()


@pytest.mark.parametrize("how", ["invoke", "batch", "start", "stream"])
async def test_a_cancel_scope_of_anyio_around_a_call_works(how: str) -> None:
    """Such a scope knows its own cancellation by the exception's text, so that very exception must come back."""
    _, spec = waiting_tool()
    engine = ToolEngine([spec])
    with anyio.move_on_after(0.001) as scope:
        if how == "invoke":
            await engine.invoke("cleans")
        elif how == "batch":
            await engine.execute_tool_calls([ToolCall("cleans"), ToolCall("cleans")])
        elif how == "start":
            await engine.start(ToolCall("cleans"))
        else:
            async with engine.stream([ToolCall("cleans")]) as run:
                async for _ in run:
                    pass
    assert scope.cancelled_caught
    await until(lambda: not engine.running)


async def test_in_a_task_group_one_failure_cancels_the_other_call() -> None:
    cleans, spec = waiting_tool()
    engine = ToolEngine([spec])

    async def fail() -> None:
        await idle()
        raise LookupError

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(engine.invoke("cleans"))
            group.create_task(fail())

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    assert caught.group_contains(LookupError)
    assert cleans.was_cancelled


async def test_a_cancelled_error_of_the_tools_own_is_an_execution_error() -> None:
    async def confused() -> None:
        raise asyncio.CancelledError

    response = await virtual(confused).invoke("confused")
    assert response.error_info is not None
    assert (response.error_info.code, response.error_info.exception_type) == ("EXECUTION_ERROR", "CancelledError")


async def test_cancelling_whoever_awaits_an_invocation_cancels_it() -> None:
    _, spec = waiting_tool()
    engine = virtual(spec)
    invocation = engine.start(ToolCall("cleans"))
    task = asyncio.create_task(_await(invocation))
    await idle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: invocation.is_final)
    assert invocation.state == "CANCELLED"


async def test_cancel_works_from_another_thread() -> None:
    _, spec = waiting_tool()
    engine = virtual(spec)
    invocation = engine.start(ToolCall("cleans"))
    await idle()
    thread = threading.Thread(target=invocation.cancel)
    thread.start()
    await invocation
    thread.join()
    assert invocation.state == "CANCELLED"


async def test_a_call_whose_task_is_cancelled_before_its_first_step_has_an_end_all_the_same() -> None:
    _, spec = waiting_tool()
    engine = virtual(spec)
    async with engine.stream([ToolCall("cleans")]) as run:
        (task,) = (each for each in asyncio.all_tasks() if each.get_name() == run.invocations[0].uid)
        task.cancel()
        events = [event async for event in run]
    assert_ended(run.invocations[0])
    assert run.invocations[0].path == ("PENDING", "CANCELLED")
    assert_told_in_full(events)
    assert engine.running == ()


async def test_when_both_tasks_of_a_call_are_cancelled_at_once_it_is_cancelled() -> None:
    """As a loop does that shuts down; the tool's CancelledError is not its own then."""
    _, spec = waiting_tool()
    engine = virtual(spec)
    task = asyncio.create_task(engine.execute_tool_call(ToolCall("cleans")))
    await idle()
    (invocation,) = engine.running
    assert invocation.attempt is not None
    assert invocation.attempt.run is not None
    invocation.attempt.run.task.cancel()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert invocation.state == "CANCELLED"


def test_an_interrupt_after_the_end_leaves_the_response_as_it_is() -> None:
    kept: list[ToolInvocation] = []

    def interrupts_at_the_end(event: Firing) -> None:
        if event.model.is_final:
            kept.append(event.model)
            raise KeyboardInterrupt

    with logged(), pytest.raises(KeyboardInterrupt):
        asyncio.run(virtual(add, hooks=[interrupts_at_the_end]).invoke("add", {"a": 1}))
    assert (kept[0].state, kept[0].result) == ("COMPLETED", 2)


def test_when_the_loop_is_shut_down_every_invocation_has_an_end() -> None:
    """Even one whose task never came to its first step, and one that waits in its own way."""
    _, spec = waiting_tool()
    started: list[ToolInvocation] = []

    async def in_its_own_way(invocation: ToolInvocation) -> str:
        await asyncio.get_running_loop().create_future()
        return "accept"

    engine = virtual(spec)
    custom = virtual(spec, activities={"VALIDATING": in_its_own_way})

    async def main() -> None:
        started.extend([engine.start(ToolCall("cleans")), custom.start(ToolCall("cleans"))])
        await idle()
        started.append(engine.start(ToolCall("cleans")))

    asyncio.run(main())
    for invocation in started:
        assert_ended(invocation)
        assert invocation.state == "CANCELLED"
    assert engine.running == custom.running == ()


# -- life of an engine ----------------------------------------------------------------------------------------------


async def test_aclose_cancels_what_runs_and_says_what() -> None:
    _, spec = waiting_tool()
    async with virtual(spec, add) as engine:
        invocation = engine.start(ToolCall("cleans"))
        await engine.invoke("add", {"a": 1})
        await idle()
        assert await engine.aclose() == [invocation]
        assert invocation.state == "CANCELLED"
        assert await engine.aclose() == []
    with pytest.raises(EngineClosedError, match="make another one"):
        await engine.invoke("add", {"a": 1})
    with pytest.raises(EngineClosedError):
        engine.start(ToolCall("add"))
    with pytest.raises(EngineClosedError):
        async with engine.stream([ToolCall("add")]):
            pass


async def test_aclose_reports_what_does_not_end_in_time() -> None:
    release = asyncio.Event()

    async def never_mind(invocation: ToolInvocation) -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "accept"

    with logged() as lines:
        engine = virtual(add, activities={"VALIDATING": never_mind}, cancel_grace=10.0)
        invocation = engine.start(ToolCall("add", {"a": 1}))
        await idle()
        assert await play(engine, engine.aclose(grace=3.0)) == [invocation]
        assert now(engine) == 3.0
        assert not invocation.is_final
        assert any(line["event"] == "invocation did not end" and line["uid"] == invocation.uid for line in lines)
        release.set()
        await invocation


async def test_a_cancelled_aclose_leaves_nothing_behind() -> None:
    release = asyncio.Event()

    async def slow(invocation: ToolInvocation) -> str:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        return "accept"

    engine = virtual(add, activities={"VALIDATING": slow})
    invocation = engine.start(ToolCall("add", {"a": 1}))
    await idle()
    closing = asyncio.create_task(engine.aclose())
    await idle()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    release.set()
    await invocation
    await idle()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_an_engine_may_be_used_in_one_loop_after_the_other() -> None:
    """Slots of a loop that is gone do not count, not even one that a hanging thread still holds."""
    stuck = Stuck()

    @tool(timeout=1.0, max_concurrency=1)
    def hang(really: bool) -> str:
        if really:
            stuck()
        return "done"

    engine = virtual(hang, max_threads=1)

    async def main(really: bool) -> ToolResponse:
        return await play(engine, engine.invoke("hang", {"really": really}), stuck if really else None)

    try:
        assert asyncio.run(main(really=True)).status is ToolStatus.ERROR
        assert asyncio.run(main(really=False)).text == "done"
    finally:
        stuck.let_go()


def test_an_engine_that_runs_calls_in_one_loop_refuses_another() -> None:
    _, spec = waiting_tool()
    engine = virtual(spec, add)

    async def main() -> None:
        invocation = engine.start(ToolCall("cleans"))
        await idle()

        def elsewhere() -> None:
            with pytest.raises(ConfigurationError, match="make one engine a loop"):
                asyncio.run(engine.invoke("add", {"a": 1}))

        await asyncio.to_thread(elsewhere)
        invocation.cancel()
        await invocation

    asyncio.run(main())


def test_what_a_loop_left_behind_when_it_was_closed_does_not_disturb_the_next() -> None:
    _, spec = waiting_tool()
    with logged() as lines:
        engine = virtual(spec, add)
        loop = asyncio.new_event_loop()

        async def leave() -> ToolInvocation:
            invocation = engine.start(ToolCall("cleans"))
            await idle()
            return invocation

        left = loop.run_until_complete(leave())
        tasks = asyncio.all_tasks(loop)
        loop.close()  # without cancelling its tasks

        async def main() -> list[ToolInvocation]:
            assert (await engine.invoke("add", {"a": 1})).data == 2
            return await engine.aclose(grace=0.001)

        assert asyncio.run(main()) == []
        assert any(line["event"] == "invocation did not end" and line["uid"] == left.uid for line in lines)
    assert not left.is_final
    assert left.cancel()
    task: Any
    for task in tasks:  # or they complain that nobody awaited them
        task._log_destroy_pending = False
        task.get_coro().close()


def test_the_interpreter_does_not_wait_for_a_hanging_thread() -> None:
    program = """
        import asyncio, threading
        from fsm_engine import ToolEngine, tool

        @tool(timeout=0.05)
        def hang() -> None:
            threading.Event().wait()

        print(ToolEngine([hang]).execute_tool_call_sync({"name": "hang"}).error.code)
        async def once():
            async with ToolEngine([hang]) as engine:
                print((await engine.invoke("hang")).error_info.code)
        asyncio.run(once())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["TIMEOUT", "TIMEOUT"]), done.stderr


# -- arguments ------------------------------------------------------------------------------------------------------


async def test_context_variables_reach_the_tool_and_its_changes_stay_with_it() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")

    async def who() -> str:
        found = user.get()
        user.set("changed")
        return found

    def who_sync() -> str:
        found = user.get()
        user.set("changed")
        return found

    engine = ToolEngine([who, who_sync])
    user.set("ada")
    for name in ("who", "who_sync", "who"):
        assert (await engine.invoke(name)).text == "ada"
    assert user.get() == "ada"


async def test_a_tool_that_changes_its_arguments_changes_neither_the_record_nor_the_next_attempt_nor_the_callers() -> (
    None
):
    seen: list[list[str]] = []

    @tool(idempotent=True, retry=RetryPolicy(max_retries=1))
    async def consume(items: list[str]) -> str:
        seen.append(list(items))
        items.clear()
        if len(seen) == 1:
            raise ConnectionError("gone")
        return "ok"

    given = {"items": ["a", "b"]}
    engine = virtual(consume)
    invocation = await play(engine, engine.execute_tool_call(ToolCall("consume", given)))
    assert seen == [["a", "b"], ["a", "b"]]
    assert invocation.response is not None
    assert invocation.response.context["arguments"] == {"items": ["a", "b"]}
    assert given == {"items": ["a", "b"]}


async def test_numbers_and_texts_arrive_as_the_types_that_are_declared() -> None:
    async def typed(count: int, ratio: Annotated[float, Field(ge=0)]) -> str:
        return f"{count!r} {ratio!r}"

    assert (await virtual(typed).invoke("typed", {"count": 2.0, "ratio": 1})).text == "2 1.0"


async def test_stages_can_be_replaced_one_by_one() -> None:
    def noted(call: ToolCall, spec: ToolSpec) -> Any:
        return parse_arguments(call, spec)._replace(notes=("looked_at",))

    engine = virtual(add, stages=Stages(parse=noted, bind=lambda spec, arguments: {**arguments, "b": 10}))
    response = await engine.invoke("add", {"a": 1})
    assert response.data == 11
    assert response.context["notes"] == ["looked_at"]


async def test_a_response_that_a_stage_answers_with_again_and_again_is_not_changed() -> None:
    always = ToolResponse.success("always")
    engine = virtual(add, stages=Stages(standardise=lambda value, spec: always))
    for call_id in ("first", "second"):
        response = await engine.invoke("add", {"a": 1}, call_id=call_id)
        assert response.context["call_id"] == call_id
    assert always == ToolResponse.success("always")


async def test_a_response_that_a_tool_answers_with_again_and_again_is_not_changed() -> None:
    always = ToolResponse.success("always", stats={"tokens": 3})

    async def answer() -> ToolResponse:
        return always

    engine = virtual(answer)
    for call_id in ("first", "second"):
        response = await engine.invoke("answer", call_id=call_id)
        assert (response.context["call_id"], response.stats["tokens"]) == (call_id, 3)
    assert always == ToolResponse.success("always", stats={"tokens": 3})


def test_the_clock_is_the_machines_own_unless_another_is_given() -> None:
    clock = VirtualClock()
    assert ToolEngine(clock=clock).clock is clock
    assert type(ToolEngine().clock).__name__ == "SystemClock"
