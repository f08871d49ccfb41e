"""The pipeline's stages, each alone."""

from __future__ import annotations

from collections import UserDict
from types import MappingProxyType
from typing import Any

import pytest

from fsm_engine import Invalid, ToolCall, ToolError, ToolRegistry, ToolResponse, ToolSpec
from fsm_engine.invocation.arguments import MAX_ARGUMENT_CHARS, MAX_ARGUMENT_DEPTH, Parsed, parse_arguments
from fsm_engine.invocation.stages import bind_arguments, resolve_tool, standardise_result, validate_arguments


async def add(a: int, items: list[Any] | None = None) -> int:
    return a


SPEC = ToolSpec(name="add", func=add)


def test_a_tool_is_resolved_by_its_name_and_version() -> None:
    registry = ToolRegistry([SPEC])
    assert resolve_tool(ToolCall("add"), registry) is SPEC
    assert resolve_tool(ToolCall("add", version="1"), registry) is SPEC
    for call, code, reason in (
        (ToolCall("ad"), "NOT_FOUND", "unknown_tool"),
        (ToolCall(""), "INVALID_PARAM", "missing_name"),
        (ToolCall("add", version="9"), "NOT_FOUND", "unknown_version"),
    ):
        with pytest.raises(ToolError) as caught:
            resolve_tool(call, registry)
        assert (caught.value.code, caught.value.reason) == (code, reason)


def test_an_unknown_tool_is_answered_with_names_that_there_are() -> None:
    with pytest.raises(ToolError, match="There are: none"):
        resolve_tool(ToolCall("zzz"), ToolRegistry())
    registry = ToolRegistry([ToolSpec(name=f"tool_{number:02}", func=add) for number in range(25)])
    with pytest.raises(ToolError, match="and 5 more"):
        resolve_tool(ToolCall("zzz"), registry)
    with pytest.raises(ToolError, match="Did you mean tool_24 or ") as caught:
        resolve_tool(ToolCall("tool_2O"), registry)
    assert caught.value.data == {"nearest": list(registry.nearest("tool_2O"))}


def nested(levels: int) -> str:
    return '{"a": ' + "[" * levels + "]" * levels + "}"


@pytest.mark.parametrize(
    ("raw", "parsed"),
    [
        ('{"a": 1}', Parsed({"a": 1})),
        (' \n{"a": 1} ', Parsed({"a": 1})),
        ({"a": 1}, Parsed({"a": 1})),
        (UserDict(a=1), Parsed({"a": 1})),
        (MappingProxyType({"a": 1}), Parsed({"a": 1})),
        (None, Parsed({}, ("empty_arguments",))),
        ("", Parsed({}, ("empty_arguments",))),
        ("\t", Parsed({}, ("empty_arguments",))),
        ("null", Parsed({}, ("empty_arguments",))),
        ('"{\\"a\\": 1}"', Parsed({"a": 1}, ("doubly_encoded",))),
        ('{"a": 1, "a": 2}', Parsed({"a": 2})),
    ],
)
def test_arguments_come_in_many_forms(raw: Any, parsed: Parsed) -> None:
    assert parse_arguments(ToolCall("add", raw), SPEC) == parsed


def test_depth_and_size_are_allowed_up_to_the_limit() -> None:
    parse_arguments(ToolCall("add", nested(MAX_ARGUMENT_DEPTH - 1)), SPEC)
    with pytest.raises(ToolError, match="nested more than 64"):
        parse_arguments(ToolCall("add", nested(MAX_ARGUMENT_DEPTH)), SPEC)
    parse_arguments(ToolCall("add", '{"a": [' + "[]," * 100 + "[]]}"), SPEC)  # wide is not deep
    fits = '{"a": "' + "x" * (MAX_ARGUMENT_CHARS - 9) + '"}'
    assert len(fits) == MAX_ARGUMENT_CHARS
    parse_arguments(ToolCall("add", fits), SPEC)
    with pytest.raises(ToolError, match="1,000,001 characters"):
        parse_arguments(ToolCall("add", fits + " "), SPEC)


def test_the_schema_stands_in_the_message_if_it_is_short() -> None:
    with pytest.raises(ToolError, match='"properties"'):
        parse_arguments(ToolCall("add", "["), SPEC)
    fields = {f"field_{number}": {"type": "string", "description": "x" * 100, "default": ""} for number in range(30)}

    async def many(**fields: str) -> None: ...

    spec = ToolSpec(name="many", func=many, parameters_schema={"type": "object", "properties": fields})
    with pytest.raises(ToolError, match="an object with field_0, field_1, ") as caught:
        parse_arguments(ToolCall("many", "["), spec)
    assert len(caught.value.message) < 1_000


def test_embedded_json_that_is_too_deep_is_refused() -> None:
    with pytest.raises(ToolError, match="nested"):
        validate_arguments(SPEC, {"a": 1, "items": "[" * 80 + "]" * 80})


def test_a_rules_issues_are_an_error_and_defaults_are_filled_in() -> None:
    spec = SPEC.replaced(validator=lambda arguments: Invalid("odd", "a") if arguments["a"] % 2 else None)
    assert validate_arguments(spec, {"a": 2}) == {"a": 2, "items": None}
    with pytest.raises(ToolError) as caught:
        validate_arguments(spec, {"a": 1})
    assert caught.value.reason == "odd"


def test_what_is_bound_is_the_functions_own() -> None:
    arguments: dict[str, Any] = {"a": 1.0, "items": [{"deep": [1]}]}
    bound = bind_arguments(SPEC, arguments)
    assert bound == {"a": 1, "items": [{"deep": [1]}]}
    assert type(bound["a"]) is int
    bound["items"][0]["deep"].append(2)
    assert arguments["items"] == [{"deep": [1]}]


def test_a_result_is_standardised_and_held_to_the_output_schema() -> None:
    assert standardise_result(5, SPEC).data == 5
    own = ToolResponse.success("x")
    assert standardise_result(own, SPEC) == own
    strict = SPEC.replaced(output_schema={"type": "object", "properties": {"n": {}}, "required": ["n"]})
    assert standardise_result({"n": 1}, strict).error_info is None
    for odd in ({"m": 1}, "text", None):
        info = standardise_result(odd, strict).error_info
        assert info is not None
        assert (info.reason, info.counts) == ("output_schema", False)
    error = ToolResponse.error("CONFLICT", "no")
    assert standardise_result(error, strict) == error
