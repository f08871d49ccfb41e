"""The gate of `VALIDATING`: schema, rules, binding, approval."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from pydantic import AwareDatetime, BaseModel, Field

from fsm_engine import Invalid, Stages, ToolCall, ToolSpec, gate, tool

from ..support import logged, virtual


class Colour(enum.Enum):
    RED = "red"


class Item(BaseModel):
    sku: Annotated[str, Field(min_length=2)]
    count: int = 1


async def test_the_function_receives_the_types_that_it_declares() -> None:
    seen: list[Any] = []

    async def order(item: Item, colour: Colour, at: AwareDatetime, note: str | None = None) -> str:
        seen.extend([item, colour, at.utcoffset(), note])
        return "ok"

    arguments = {"item": {"sku": "ab"}, "colour": "red", "at": "2024-05-20T00:00:00+08:00"}
    assert (await virtual(order).invoke("order", arguments)).text == "ok"
    assert seen[0] == Item(sku="ab")
    assert seen[1] is Colour.RED
    assert seen[2].total_seconds() == 8 * 3600


async def test_all_issues_are_reported_and_none_repeats_a_value() -> None:
    async def order(item: Item, limit: int) -> str:
        return "ok"

    response = await virtual(order).invoke("order", {"item": {"sku": "Q"}, "limit": "secret-value", "extra": 1})
    info = response.error_info
    assert info is not None
    assert {issue.path for issue in info.issues} >= {"item.sku", "limit"}
    assert "secret-value" not in response.to_json().replace('"arguments"', "", 1).split('"context"')[0]
    assert info.reason == info.issues[0].reason


async def test_rules_come_after_the_schema_and_all_their_issues_are_reported() -> None:
    calls: list[Any] = []

    def rule(arguments: Mapping[str, Any]) -> Any:
        calls.append(dict(arguments))
        return [Invalid("too_small", "a", "a must be larger"), Invalid("odd", "b")]

    @tool(validator=rule)
    async def add(a: int, b: int = 7) -> int:
        return a + b

    engine = virtual(add)
    response = await engine.invoke("add", {"a": "x"})
    assert calls == []
    response = await engine.invoke("add", {"a": 1})
    assert calls == [{"a": 1, "b": 7}]
    assert response.error_info is not None
    assert [issue.reason for issue in response.error_info.issues] == ["too_small", "odd"]


async def test_more_than_ten_issues_are_counted_and_not_all_put_into_the_message() -> None:
    @tool(validator=lambda arguments: [Invalid(f"r{number}", message=f"wrong {number}") for number in range(15)])
    async def add() -> int:
        return 1

    response = await virtual(add).invoke("add")
    assert response.error_info is not None
    assert response.error_info.message.endswith("wrong 9 (and 5 more)")
    assert len(response.error_info.issues) == 15


@pytest.mark.parametrize("answer", [5, "no", object(), (1, 2)])
async def test_a_rule_that_answers_nonsense_is_its_authors_fault(answer: Any) -> None:
    @tool(validator=lambda arguments: answer)
    async def add() -> int:
        return 1

    with logged() as lines:
        response = await virtual(add).invoke("add")
    assert response.error_info is not None
    assert (response.error_info.code, response.error_info.reason) == ("INTERNAL_ERROR", "broken_tool")
    assert any(line["event"] == "validation is broken" for line in lines)


async def test_what_fits_the_schema_but_not_the_type_is_the_calls_fault() -> None:
    async def at(when: AwareDatetime) -> str:
        return "ok"

    schema = {"type": "object", "properties": {"when": {"type": "string"}}, "required": ["when"]}
    invocation = await virtual(ToolSpec(name="at", func=at, parameters_schema=schema)).execute_tool_call(
        ToolCall("at", {"when": "soon"})
    )
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.issues[0].path) == ("INVALID_PARAM", "when")
    assert invocation.attempts == []


async def test_a_users_gate_runs_after_the_built_in_one_and_not_on_what_it_has_refused() -> None:
    seen: list[Any] = []

    async def add(a: int, b: int = 2) -> int:
        return a + b

    engine = virtual(add, hooks=[gate("VALIDATING", lambda event: seen.append(event.model.arguments))])
    await engine.invoke("add", {"a": "x"})
    assert seen == []
    await engine.invoke("add", {"a": 1})
    assert seen == [{"a": 1, "b": 2}]


async def test_validation_can_be_bypassed_alone() -> None:
    async def add(a: Any) -> str:
        return repr(a)

    engine = virtual(add, stages=Stages(validate=lambda spec, arguments: dict(arguments)))
    assert (await engine.invoke("add", {"a": 1})).text == "1"
