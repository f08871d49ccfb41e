"""Public bug reports about schemas and the binding of arguments, turned into tests.

=====  =============================================================================================
row    test
=====  =============================================================================================
110    test_case_110_a_tool_with_other_keywords_can_be_called_with_them
110    test_case_110_keywords_that_say_nothing_of_their_values_are_refused_when_the_tool_is_made
113    test_case_113_what_stands_beside_a_reference_holds_together_with_it
114    test_case_114_a_null_that_stands_for_not_given_is_left_out
117    test_case_117_the_function_gets_the_model_that_its_schema_promises
118    test_case_118_to_have_a_default_and_to_admit_null_are_two_facts
121    test_case_121_nothing_is_coerced_and_nothing_unknown_is_dropped_in_silence
122    test_case_122_a_schema_that_was_written_by_hand_is_held_to
=====  =============================================================================================
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pydantic import BaseModel

from fsm_engine import RegistrationError, SchemaError, ToolInvocation, ToolSpec, tool

from ..support import virtual


async def called(function: Any, arguments: Any, **settings: Any) -> ToolInvocation:
    spec = tool(**settings)(function)
    return await virtual(spec).execute_tool_call({"name": spec.name, "arguments": arguments})


def reasons(invocation: ToolInvocation) -> list[tuple[str, str]]:
    assert invocation.path == ("PENDING", "VALIDATING", "FAILED")
    assert invocation.attempts == []
    assert invocation.error is not None
    assert invocation.error.code == "INVALID_PARAM"
    return [(issue.path, issue.reason) for issue in invocation.error.issues]


def notes(invocation: ToolInvocation) -> Any:
    assert invocation.response is not None
    return invocation.response.context.get("notes")


async def label(x: int, **others: str) -> dict[str, Any]:
    return {"x": x, **others}


async def test_case_110_a_tool_with_other_keywords_can_be_called_with_them() -> None:
    assert (await called(label, {"x": 1})).result == {"x": 1}
    assert (await called(label, {"x": 1, "colour": "red"})).result == {"x": 1, "colour": "red"}
    assert reasons(await called(label, {"x": 1, "colour": 7})) == [("colour", "wrong_type")]


def test_case_110_keywords_that_say_nothing_of_their_values_are_refused_when_the_tool_is_made() -> None:
    async def anything(**others) -> None:  # the missing annotation is the point
        """Never called."""

    async def in_order(*values: int) -> None:
        """Never called."""

    for function in (anything, in_order):
        with pytest.raises(RegistrationError, match=r"annotate it|take a list"):
            tool(function)


BESIDE = {
    "type": "object",
    "properties": {"age": {"$ref": "#/$defs/whole", "minimum": 5}},
    "required": ["age"],
    "$defs": {"whole": {"type": "integer", "maximum": 10}},
}


@pytest.mark.parametrize(("age", "right"), [(7, True), (4, False), (11, False), ("7", False), (5.5, False)])
async def test_case_113_what_stands_beside_a_reference_holds_together_with_it(age: Any, right: bool) -> None:
    async def check(age: Any) -> Any:
        return age

    invocation = await called(check, {"age": age}, parameters_schema=BESIDE)
    assert (invocation.state == "COMPLETED") == right


def test_case_113_a_dialect_that_ignores_what_stands_beside_is_refused() -> None:
    async def check(age: Any) -> Any:
        return age

    with pytest.raises(SchemaError, match="beside"):
        tool(parameters_schema={"$schema": "http://json-schema.org/draft-07/schema#", **BESIDE})(check)


OPTIONAL = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "since": {"type": ["string", "null"], "default": "today"},
        "page": {"type": "integer"},
    },
    "required": ["query"],
}


async def find(query: str, limit: int = 10, since: str | None = "today", page: int = 1) -> list[Any]:
    return [query, limit, since, page]


@pytest.mark.parametrize("settings", [{}, {"parameters_schema": OPTIONAL, "lint": False}], ids=["signature", "by hand"])
async def test_case_114_a_null_that_stands_for_not_given_is_left_out(settings: dict[str, Any]) -> None:
    """A provider's strict mode makes the model give every field; the response says what became of the nulls."""
    given = {"query": "a", "limit": None, "since": None, "page": None}
    invocation = await called(find, given, **settings)
    assert invocation.result == ["a", 10, None, 1]
    assert notes(invocation) == ["nulls_left_out"]
    assert reasons(await called(find, {"query": None}, **settings)) == [("query", "wrong_type")]
    assert reasons(await called(find, {"query": "a", "limit": "null"}, **settings)) == [("limit", "wrong_type")]


class Address(BaseModel):
    street: str
    since: dt.date = dt.date(2000, 1, 1)


async def test_case_117_the_function_gets_the_model_that_its_schema_promises() -> None:
    async def move(to: Address, others: list[Address], maybe: Address | None = None) -> list[str]:
        assert isinstance(to, Address)
        assert all(isinstance(each, Address) for each in others)
        assert isinstance(to.since, dt.date)
        return [to.street, *(each.street for each in others), type(maybe).__name__]

    given = {"to": {"street": "a", "since": "2024-05-20"}, "others": [{"street": "b"}], "maybe": {"street": "c"}}
    assert (await called(move, given)).result == ["a", "b", "Address"]
    assert sorted(reasons(await called(move, {"to": {"streat": "a"}, "others": []}))) == [
        ("to.streat", "unknown_field"),
        ("to.street", "missing_required"),
    ]


async def weather(celsius: bool = False, place: str | None = "here", day: str | None = None) -> list[Any]:
    return [celsius, place, day]


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ({}, [False, "here", None]),
        ({"celsius": True}, [True, "here", None]),
        ({"celsius": None}, [False, "here", None]),
        ({"place": None}, [False, None, None]),
        ({"day": None}, [False, "here", None]),
    ],
)
async def test_case_118_to_have_a_default_and_to_admit_null_are_two_facts(arguments: Any, result: list[Any]) -> None:
    """Null reaches the function only where the type admits it, and is kept there although there is a default."""
    assert (await called(weather, arguments)).result == result


async def test_case_118_a_field_that_admits_null_may_still_be_required() -> None:
    async def place(name: str | None) -> str:
        return repr(name)

    assert (await called(place, {"name": None})).result == "None"
    assert reasons(await called(place, {})) == [("name", "missing_required")]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"x": True}, [("x", "wrong_type")]),
        ({"x": "7"}, [("x", "wrong_type")]),
        ({"x": 7.5}, [("x", "wrong_type")]),
        ({"x": 1, "flag": 1}, [("flag", "wrong_type")]),
        ({"x": 1, "flag": "true"}, [("flag", "wrong_type")]),
        ({"x": 1, "text": 7}, [("text", "wrong_type")]),
        ({"x": 1, "bogus": 2}, [("bogus", "unknown_field")]),
        ({"X": 1}, [("x", "missing_required"), ("X", "unknown_field")]),
    ],
)
async def test_case_121_nothing_is_coerced_and_nothing_unknown_is_dropped_in_silence(
    arguments: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    async def strict(x: int, flag: bool = False, text: str = "") -> list[Any]:
        return [x, flag, text]

    assert sorted(reasons(await called(strict, arguments))) == sorted(expected)


async def test_case_121_a_whole_number_written_as_a_float_is_the_integer_that_json_schema_takes_it_for() -> None:
    async def strict(x: int) -> str:
        return repr(x)

    assert (await called(strict, {"x": 7.0})).result == "7"


BY_HAND = {
    "type": "object",
    "properties": {"x": {"type": "integer", "minimum": 1}},
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "missing_required"),
        ({"x": "1"}, "wrong_type"),
        ({"x": 0}, "too_small"),
        ({"x": 1, "y": 2}, "unknown_field"),
    ],
)
async def test_case_122_a_schema_that_was_written_by_hand_is_held_to(arguments: dict[str, Any], reason: str) -> None:
    """As the tools of a server arrive: the schema is all there is, and the function takes whatever comes."""
    ran: list[Any] = []

    async def forward(**arguments: Any) -> None:
        ran.append(arguments)

    spec = ToolSpec(name="forward", func=forward, parameters_schema=BY_HAND)
    engine = virtual(spec)
    invocation = await engine.execute_tool_call({"name": "forward", "arguments": arguments})
    assert [each for _, each in reasons(invocation)] == [reason]
    assert ran == []
    await engine.invoke("forward", {"x": 1})
    assert ran == [{"x": 1}]
