"""What callers hand over as a call, and the names that calls get."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine import ConfigurationError, ToolCall, ToolEngine
from fsm_engine.tools.call import canonical_json, duplicate_id_error, fingerprint, made_id, printable_name
from fsm_engine.tools.call_forms import read_call
from fsm_engine.tools.message_forms import calls_in, read_calls


@pytest.mark.parametrize(
    ("given_", "read"),
    [
        (ToolCall("add", "{}", "c"), ToolCall("add", "{}", "c")),
        ({"id": "c", "name": "add", "arguments": {"a": 1}}, ToolCall("add", {"a": 1}, "c")),
        ({"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}, ToolCall("add", "{}", "c")),
        (SimpleNamespace(id="c", function=SimpleNamespace(name="add", arguments="{}")), ToolCall("add", "{}", "c")),
        (SimpleNamespace(id="c", name="add", arguments=None), ToolCall("add", None, "c")),
        ({"name": "add", "version": "2"}, ToolCall("add", None, None, "2")),
        ({"name": "add", "id": ""}, ToolCall("add")),
        ({"name": "add", "id": 7, "version": 2}, ToolCall("add", None, "7", "2")),
        (ToolCall("add", None, 7), ToolCall("add", None, "7")),  # type: ignore[arg-type]  # on purpose
        (ToolCall(None), ToolCall("")),  # type: ignore[arg-type]  # on purpose
        ({}, ToolCall("")),
        ({"type": "tool_use", "id": "c", "name": "add", "input": {"a": 1}}, ToolCall("add", {"a": 1}, "c")),
        ({"type": "tool_call", "id": "c", "name": "add", "args": {"a": 1}}, ToolCall("add", {"a": 1}, "c")),
        ({"functionCall": {"name": "add", "args": {"a": 1}}, "thoughtSignature": "S"}, ToolCall("add", {"a": 1})),
        (
            SimpleNamespace(function_call=SimpleNamespace(name="add", args={"a": 1}, id="c")),
            ToolCall("add", {"a": 1}, "c"),
        ),
        (
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "c",
                "name": "add",
                "arguments": "{}",
                "status": "completed",
            },
            ToolCall("add", "{}", "c"),
        ),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "x"},
            ToolCall("sql", {"input": "x"}, "c"),
        ),
        (
            {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}}},
            ToolCall("add", {"a": 1}, "3"),
        ),
        ({"name": "add", "parameters": {"a": 1}}, ToolCall("add", {"a": 1})),
        ({"toolCallId": "c", "toolName": "add", "input": {"a": 1}}, ToolCall("add", {"a": 1}, "c")),
        ({"function": "add", "arguments": "{}"}, ToolCall("add", "{}")),
        ({"function": {"name": "add"}, "arguments": "{}"}, ToolCall("add", "{}")),
        ({"name": "add", "arguments": "{}", "their_own": 1}, ToolCall("add", "{}")),
        ({"name": "add", "id": "\ud83d\ude00"}, ToolCall("add", None, "\U0001f600")),
    ],
    ids=repr,
)
def test_calls_are_read_from_dictionaries_and_objects(given_: Any, read: ToolCall) -> None:
    assert read_call(given_) == read


@pytest.mark.parametrize(
    ("unclear", "said"),
    [
        ({"name": "add", "argument": {"a": 1}}, "did you mean 'arguments'"),
        ({"name": "add", "params": "x"}, "did you mean 'arguments'"),
        ({"name": "add", "payload": {"a": 1}}, "unknown field 'payload'"),
        ({"name": "add", "arguments": {}, "verison": "2"}, "did you mean 'version'"),
        ({"function": {"name": "add", "argumets": "{}"}}, "did you mean 'arguments'"),
        ({"name": "add", "arguments": {"a": 1}, "input": {"a": 2}}, "given twice"),
        ({"name": ["add"]}, "The name of the tool must be text"),
        ({"name": "add", "id": ["c"]}, "The id of a call must be text, not a list"),
        ({"name": "add", "id": True}, "The id of a call must be text"),
        ({"name": "add", "version": 1.5}, "The version of a call must be text, not a number"),
        (None, "must be an object, not null"),
        ([], "must be an object, not a list"),
        ("add", "must be an object, not text"),
    ],
    ids=repr,
)
async def test_a_call_of_which_nobody_can_tell_what_it_means_is_answered_and_not_run(unclear: Any, said: str) -> None:
    """First, a call in a form that was not known ran with the tool's defaults."""
    ran = []

    async def add(a: int = 0) -> int:
        ran.append(a)
        return a

    async with ToolEngine([add]) as engine:
        for invocation in (await engine.execute_tool_call(unclear), *await engine.execute_tool_calls([unclear])):
            assert invocation.error is not None
            assert (invocation.error.code, invocation.error.reason) == ("INVALID_PARAM", "unclear_call")
            assert said in invocation.error.message
            assert "Nothing was run" in invocation.error.message
    assert ran == []


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                [
                    "tool_calls",
                    "content",
                    "output",
                    "choices",
                    "message",
                    "parts",
                    "functionCall",
                    "function",
                    "name",
                    "id",
                    "arguments",
                    "args",
                    "input",
                    "type",
                    "role",
                    "candidates",
                    "version",
                    "params",
                ]
            )
            | st.text(max_size=3),
            inner,
        )
    ),
)


@given(anything)
def test_no_json_raises_anything_but_a_clear_error(value: Any) -> None:
    call = read_call(value)
    assert isinstance(call.name, str)
    for read in (calls_in, read_calls):
        try:
            found = read(value)
        except ConfigurationError as error:
            assert "give the assistant's message" in str(error)  # noqa: PT017 # not raising is as good
        else:
            assert all(isinstance(each, ToolCall) for each in found)


@pytest.mark.parametrize(
    ("name", "shown"),
    [("add", "add"), ("a b<c>", "a?b?c?"), ("ü\n", "??"), ("x" * 64, "x" * 64), ("x" * 90, "x" * 64 + "..."), ("", "")],
)
def test_a_name_is_echoed_without_what_could_do_harm(name: str, shown: str) -> None:
    assert printable_name(name) == shown


def test_equal_arguments_have_one_text_and_one_fingerprint() -> None:
    assert canonical_json({"b": [1, None], "a": "é"}) == canonical_json({"a": "é", "b": [1, None]})
    assert fingerprint({"a": 1}, "x") == fingerprint({"a": 1}, "x") != fingerprint({"a": "1"}, "x")
    assert len(fingerprint()) == 32


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "odd", [{1: "a", "b": 2}, {(1, 2): 3}, CIRCLE, Hostile(), {"a": {1, 2}}, "\ud800", float("nan"), b"\xff"]
)
def test_anything_has_a_fingerprint(odd: Any) -> None:
    assert len(fingerprint(odd)) == 32


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_a_fingerprint_does_not_depend_on_the_order_of_keys(value: Any) -> None:
    def turned(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: turned(inner) for key, inner in reversed(part.items())}
        return [turned(inner) for inner in part] if isinstance(part, list) else part

    assert fingerprint(value) == fingerprint(turned(value))


def test_a_made_id_tells_when_and_with_what_and_ends_like_the_uid() -> None:
    call = ToolCall("add", {"a": 1})
    first, second = made_id(call, 1.5, "inv_abc_000001"), made_id(call, 1.5, "inv_abc_000002")
    assert first.startswith("call_5dc_")
    assert first[:-6] == second[:-6]
    assert first.endswith("000001")


def test_a_duplicate_id_is_told_to_be_one() -> None:
    assert duplicate_id_error().reason == "duplicate_id"
