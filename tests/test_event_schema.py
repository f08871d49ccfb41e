"""The published schema of the events: it is what the classes say, and every event that the engine emits fits it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from copy import deepcopy
from importlib import resources
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fsm_engine import (
    Agent,
    Event,
    GapEvent,
    RetryPolicy,
    RunLog,
    ToolContext,
    ToolEngine,
    ToolError,
    ToolResponse,
    VirtualClock,
    tool,
)
from fsm_engine.events import wire_schema as event_schema
from fsm_engine.invocation.substitute import FallbackPolicy

from .support import play


def closed(schema: Any) -> Any:
    """The schema with no room for fields that it does not name."""
    schema = deepcopy(schema)
    for definition in schema["$defs"].values():
        definition["additionalProperties"] = False
    return schema


SCHEMA = event_schema.event_schema()
STRICT = jsonschema_rs.validator_for(closed(SCHEMA))


def assert_fits(events: list[Event]) -> None:
    for event in events:
        wire = json.loads(RunLog().text(event))
        problems = [(each.instance_path, each.message) for each in STRICT.iter_errors(wire)]
        assert not problems, (wire, problems)


def test_the_published_file_is_what_the_classes_say() -> None:
    assert event_schema.main(["--check"]) == 0, "run: python -m fsm_engine.events.wire_schema"
    published = resources.files("fsm_engine.events").joinpath("event_schema.json").read_text(encoding="utf-8")
    assert json.loads(published) == SCHEMA


def test_the_command_writes_the_file_and_says_when_it_is_old(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(event_schema, "FILE", tmp_path / "event_schema.json")
    assert event_schema.main(["--check"]) == 1
    assert "python -m fsm_engine.events.wire_schema" in capsys.readouterr().err
    assert event_schema.main([]) == 0
    assert event_schema.main(["--check"]) == 0


def test_the_command_runs() -> None:
    done = subprocess.run([sys.executable, "-m", "fsm_engine.events.wire_schema", "--check"], check=False)
    assert done.returncode == 0


def test_every_event_has_one_definition_under_its_own_name_and_is_explained() -> None:
    names = {reference["$ref"].rpartition("/")[2] for reference in SCHEMA["oneOf"]}
    assert names == {
        *("tool_arguments", "tool_call", "tool_execution", "tool_fallback", "tool_result", "tool_error"),
        *("thinking", "final_answer", "run_ended", "gap"),
    }
    for name in names:
        definition = SCHEMA["$defs"][name]
        assert definition["description"]
        unexplained = [field for field, said in definition["properties"].items() if not said.get("description")]
        assert set(unexplained) <= {"type", "name", "tool_name", "arguments", "result", "error", "reason", "content"}


def test_a_field_of_a_kind_that_the_schema_does_not_know_is_refused() -> None:
    with pytest.raises(TypeError):
        event_schema._of_type(bytes | None)


@pytest.mark.parametrize(
    "wire",
    [
        {"type": "tool_result", "seq": 1, "at": 0.0, "id": "a", "uid": "u", "status": "success"},
        {"type": "run_ended", "seq": 1, "at": 0.0},
        {"type": "thinking", "seq": "1", "at": 0.0, "content": ""},
        {"type": "gap", "seq": 1, "at": 0.0, "missed": 3, "reason": "whatever"},
        {"type": "no such event", "seq": 1, "at": 0.0},
    ],
)
def test_what_is_no_event_does_not_fit(wire: dict[str, Any]) -> None:
    assert not jsonschema_rs.validator_for(SCHEMA).is_valid(wire)


# -- every event that can be emitted -------------------------------------------------------------------------------

anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(0, 1),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.just(object()),
)
step = st.one_of(
    st.tuples(st.just("report"), anything, anything),
    st.tuples(
        st.just("emit"),
        st.one_of(anything, st.lists(anything, max_size=2), st.dictionaries(anything, anything, max_size=2)),
    ),
    st.tuples(st.just("sleep"), st.sampled_from([0.0, 1.0, 20.0])),
    st.tuples(st.just("return"), anything),
    st.tuples(st.just("answer"), st.sampled_from([ToolResponse.partial("p"), ToolResponse.error("MY_CODE", "m")])),
    st.tuples(
        st.just("raise"), st.sampled_from([ValueError("v"), ConnectionError(), TimeoutError(), ToolError("X", "m")])
    ),
)
script = st.lists(step, min_size=1, max_size=8)


NAMES = st.sampled_from(["robust", "robust", "robust", "asked", "asked", "nobody"])


def scripted(clock: VirtualClock) -> list[Any]:
    scripts: dict[str, list[Any]] = {}

    async def act(ctx: ToolContext, steps: list[Any]) -> Any:
        for name, *given_ in steps:
            if name == "report":
                ctx.report(*given_)
            elif name == "emit":
                ctx.emit(*given_)
            elif name == "sleep":
                await clock.sleep(*given_)
            elif name == "raise":
                raise given_[0]
            else:
                return given_[0]
        return "end"

    @tool(
        read_only=True,
        timeout=10,
        retry=RetryPolicy(max_retries=1),
        fallback=FallbackPolicy(value="stand-in", on_failure=True),
    )
    async def robust(which: str, ctx: ToolContext) -> Any:
        return await act(ctx, scripts[which])

    @tool(needs_approval=True, approval_timeout=5, sensitive=["password"])
    async def asked(which: str, ctx: ToolContext, password: str = "x") -> Any:
        return await act(ctx, scripts[which])

    return [scripts, robust, asked]


@settings(max_examples=60, deadline=None)
@example([("robust", [("report", True, None), ("report", 10**400, True), ("emit", {1: b""})], True)])
@given(st.lists(st.tuples(NAMES, script, st.integers(0, 5).map(bool)), min_size=1, max_size=3))
async def test_every_event_of_random_scripts_fits_the_schema(calls: list[tuple[str, list[Any], bool]]) -> None:
    clock = VirtualClock()
    scripts, *tools = scripted(clock)
    engine = ToolEngine(tools, clock=clock)
    made = []
    for number, (name, steps, is_valid) in enumerate(calls):
        scripts[str(number)] = steps
        made.append(
            {"name": name, "arguments": {"which": str(number)} if is_valid else {"which": None, "odd": object()}}
        )
    async with engine.stream(made) as run:

        async def read() -> list[Event]:
            events = []
            async for event in run:
                events.append(event)
                if getattr(event, "status", None) == "AWAITING_APPROVAL" and event.uid[-1] in "13":  # type: ignore[attr-defined]  # speaks of a call
                    run[event.uid].approve()  # type: ignore[attr-defined]  # the same
            return events

        assert_fits(await play(engine, read()))


async def test_the_events_of_a_conversation_and_of_slow_readers_fit_the_schema() -> None:
    async def model(messages: list[Any], tools: list[Any]) -> AsyncIterator[Any]:
        if len(messages) == 1:
            call = {"index": 0, "id": "c", "function": {"name": "add", "arguments": '{"a": 1}'}}
            yield {"choices": [{"delta": {"content": "Let me see.", "reasoning": "Hm.", "tool_calls": [call]}}]}
            yield {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
        else:
            yield {"choices": [{"delta": {"content": "1"}, "finish_reason": "stop"}]}

    def add(a: int) -> int:
        return a

    events = [event async for event in Agent(ToolEngine([add]), model).run("1?")]
    assert {event.type for event in events} >= {"thinking", "tool_arguments", "tool_call", "final_answer", "run_ended"}
    assert_fits([*events, GapEvent(3, 0.0, 2), GapEvent(0, 0.0, 0, "unknown_id"), GapEvent(1, 0.0, 9, "lost")])
