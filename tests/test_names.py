"""A tool is offered, called, found and kept in history under one name that the provider takes."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_engine import (
    Agent,
    RegistrationError,
    ToolArgumentsEvent,
    ToolCall,
    ToolCallEvent,
    ToolEngine,
    ToolRegistry,
    ToolSpec,
)
from fsm_engine.providers.definitions import openai_definitions, openai_problem
from fsm_engine.providers.openai_chat import calls_from_message, history_message
from fsm_engine.tools.names import ANTHROPIC, GEMINI, OPENAI, NameRule, spellings

from .support import logged

TAKEN = {
    OPENAI: r"[a-zA-Z0-9_-]{1,64}",
    ANTHROPIC: r"[a-zA-Z0-9_-]{1,64}",
    GEMINI: r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}",
}
names = st.text(alphabet="ab1_-.", min_size=1, max_size=64)


async def read(path: str = "/") -> str:
    return path


def spec_of(name: str, **settings: Any) -> ToolSpec:
    return ToolSpec(name=name, func=read, **settings)


@pytest.mark.parametrize("rule", TAKEN, ids=lambda rule: rule.provider)
@settings(deadline=None)
@given(names)
def test_every_name_is_offered_as_one_that_the_provider_takes_and_leads_back_to_its_tool(
    rule: NameRule, name: str
) -> None:
    offered = rule.legal(name)
    assert re.fullmatch(TAKEN[rule], offered)
    spec = spec_of(name)
    registry = ToolRegistry([spec])
    assert registry.get(offered) is registry.choose(ToolCall(offered)) is registry.get(name) is spec
    assert offered in registry
    assert registry.own_name(offered) == name


@settings(deadline=None)
@given(st.lists(names, min_size=2, max_size=3, unique=True))
def test_two_tools_that_a_provider_would_call_alike_are_refused_in_any_order(several: list[str]) -> None:
    for order in itertools.permutations(several):
        registry = ToolRegistry()
        held: set[str] = set()
        for name in order:
            if spellings(name) & held:
                with pytest.raises(RegistrationError, match="rename one"):
                    registry.register(spec_of(name))
            else:
                registry.register(spec_of(name))
                held |= spellings(name)
        assert {spec.name for spec in registry} <= set(order)


async def test_what_the_history_calls_a_tool_is_found_again() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "fs.read", "arguments": '{"path": "/a"}'}}
    spec = spec_of("fs.read")
    async with ToolEngine([spec]) as engine:
        first = await engine.execute_tool_call(call)
        written = history_message({"tool_calls": [call]}, [first]).message
        [again] = await engine.execute_tool_calls(calls_from_message(written))
    assert again.call.name == spec.to_openai_function()["function"]["name"] == "fs_read"
    assert again.result == "/a"
    assert again.tool_name == "fs.read", "people are told the tool's own name"


async def test_an_agent_calls_a_tool_by_the_name_that_it_was_offered() -> None:
    asked: list[Any] = []

    async def model(messages: Any, tools: Any) -> Any:
        asked.append((messages, tools))
        if len(asked) > 1:
            yield {"choices": [{"delta": {"content": "done"}, "finish_reason": "stop"}]}
            return
        function = {"name": tools[0]["function"]["name"], "arguments": '{"path": "/a"}'}
        call = {"index": 0, "id": "c1", "function": function}
        yield {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}

    async with ToolEngine([spec_of("fs.read")]) as engine:
        run = Agent(engine, model).run("Read /a")
        shown = [event async for event in run if isinstance(event, ToolArgumentsEvent | ToolCallEvent)]
    assert [event.name for event in shown] == ["fs.read"] * 2, "people are told the tool's own name"
    assert asked[1][0][-1]["content"] == "/a"
    assert asked[1][0][1]["tool_calls"][0]["function"]["name"] == "fs_read"


REFUSED = {
    "anyOf": [{"required": ["path"]}],
    "oneOf": [{"required": ["path"]}],
    "allOf": [{"required": ["path"]}],
    "$ref": "#/$defs/Path",
}


@pytest.mark.parametrize("word", REFUSED)
async def test_a_schema_that_openai_refuses_costs_no_other_tool(word: str) -> None:
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "$defs": {"Path": {"type": "object"}},
        word: REFUSED[word],
    }
    refused = spec_of("refused", parameters_schema=schema, lint=False)
    problem = openai_problem(refused)
    assert problem is not None
    assert word in problem
    made = openai_definitions([refused, spec_of("good")])
    assert [each["function"]["name"] for each in made.offered] == ["good"]
    assert made.left_out == {"refused": problem}
    offered: list[Any] = []

    async def model(messages: Any, tools: Any) -> Any:
        offered.extend(tools)
        yield {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}

    with logged() as lines:
        async with ToolEngine([refused, spec_of("good")]) as engine:
            await Agent(engine, model).run("Hi").wait()
    assert [each["function"]["name"] for each in offered] == ["good"]
    assert [line["reason"] for line in lines if line["event"] == "tool is not offered"] == [problem]


async def test_the_wrapper_that_models_invent_for_parallel_calls_is_answered_with_what_to_do() -> None:
    async with ToolEngine([spec_of("parallel")]) as engine:
        response = await engine.invoke("multi_tool_use.parallel", {"tool_uses": []})
    assert response.error_info is not None
    assert response.error_info.code == "NOT_FOUND"
    assert "Call each tool by its own name" in response.error_info.message
    assert "Did you mean" not in response.error_info.message
