"""OpenAI's chat messages: all calls are found, all are answered, and the history can always be sent back."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage

from fsm_engine import ConfigurationError, ToolCall, ToolEngine, tool
from fsm_engine.providers.openai_chat import calls_from_message, history_message, response_to_message


def sent_back(odd: Any, *more: Any) -> Any:
    """The message of the history, as JSON."""
    return history_message(odd, *more).message


def written(name: str = "add", arguments: Any = "{}", call_id: Any = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def message(*calls: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **fields}


def as_objects(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{name: as_objects(each) for name, each in value.items()})
    return [as_objects(each) for each in value] if isinstance(value, list) else value


THREE = message(written("a", '{"x": 1}', "1"), written("b", "", "2"), written("c", "not json", ""))


@pytest.mark.parametrize("given_message", [THREE, as_objects(THREE)], ids=["dictionary", "object"])
def test_every_call_is_found_in_order(given_message: Any) -> None:
    assert calls_from_message(given_message) == [
        ToolCall("a", '{"x": 1}', "1"),
        ToolCall("b", "", "2"),
        ToolCall("c", "not json", None),
    ]


@pytest.mark.parametrize(
    ("given_message", "calls"),
    [
        ({"function_call": {"name": "add", "arguments": "{}"}}, [ToolCall("add", "{}")]),
        (message(written(), function_call={"name": "add", "arguments": "{}"}), [ToolCall("add", "{}", "c1")]),
        (message(function_call={"name": "add", "arguments": "{}"}), [ToolCall("add", "{}")]),
        (
            message({"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}),
            [ToolCall("sql", {"input": "SELECT 1"}, "c1")],
        ),
        (message({"id": "c1", "name": "add", "arguments": {"a": 1}}), [ToolCall("add", {"a": 1}, "c1")]),
        (message(), []),
        ({"role": "assistant", "content": "done", "tool_calls": None, "function_call": None}, []),
    ],
    ids=[
        "legacy",
        "both forms",
        "empty new form",
        "custom tool",
        "flat",
        "none",
        "nulls",
    ],
)
def test_forms_of_a_call(given_message: Any, calls: list[ToolCall]) -> None:
    assert calls_from_message(given_message) == calls


ADD = ToolCall("add", {"a": 1}, "c1")
MESSAGES: dict[str, Any] = {
    "a whole completion": {"choices": [{"index": 0, "message": message(written(arguments={"a": 1}))}]},
    "responses": {
        "output": [
            {"type": "reasoning", "id": "r", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Adding."}]},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": {"a": 1}},
        ]
    },
    "Anthropic": {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Adding."},
            {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
        ],
    },
    "Anthropic's content": [{"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}],
    "Gemini": {
        "candidates": [
            {"content": {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "add", "args": {"a": 1}}}]}}
        ]
    },
    "LangChain": {"content": "", "tool_calls": [{"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}]},
    "a list of one message": [message(written(arguments={"a": 1}))],
    "a call": {"id": "c1", "name": "add", "arguments": {"a": 1}},
    "calls": [{"id": "c1", "name": "add", "arguments": {"a": 1}}],
}


@pytest.mark.parametrize("form", MESSAGES)
@pytest.mark.parametrize("of", [lambda given_message: given_message, as_objects], ids=["dictionary", "object"])
async def test_calls_are_found_in_the_messages_of_all_providers(form: str, of: Any) -> None:
    given_message = of(MESSAGES[form])
    if of is as_objects:
        expected = [ADD._replace(arguments=SimpleNamespace(a=1))]
        assert calls_from_message(given_message) == expected
        return
    assert calls_from_message(given_message) == [ADD]
    async with ToolEngine() as engine:
        invocations = await engine.execute_tool_calls(given_message)
    assert [each.id for each in invocations] == ["c1"], "a message in place of the calls is read like one"


@pytest.mark.parametrize(
    "odd",
    [
        *(None, "text", 3, {}, {"x": 1}, [None], [3], {"tool_calls": "add"}, {"choices": [{"delta": {}}]}),
        [message(written()), message(written())],
    ],
    ids=repr,
)
def test_what_holds_no_message_is_refused_with_what_to_give(odd: Any) -> None:
    """First, the answer was an empty list, and calls were dropped in silence."""
    with pytest.raises(ConfigurationError, match=r"give the assistant's message"):
        calls_from_message(odd)


def test_what_nobody_here_knows_goes_back_with_the_call_and_the_message_it_came_with() -> None:
    extra = {"google": {"thought_signature": "SIG", "null": None}}
    call = {**written(arguments="{"), "extra_content": extra}
    call["function"]["thought"] = [1]
    made = sent_back(message(call, reasoning_details=[{"signature": None, "text": "x"}], annotations=[]))
    assert made["tool_calls"] == [
        {
            "extra_content": extra,
            "id": "c1",
            "type": "function",
            "function": {"thought": [1], "name": "add", "arguments": "{}"},
        }
    ]
    assert made["reasoning_details"] == [{"signature": None, "text": "x"}]
    assert made["annotations"] == []


async def test_response_answers_the_call_with_what_the_model_reads() -> None:
    async with ToolEngine([tool(max_result_chars=200)(long_text)]) as engine:
        good, bad = await engine.execute_tool_calls(
            calls_from_message(message(written("long_text"), written("x", "{}", "")))
        )
    answer, refusal = response_to_message(good), response_to_message(bad)
    assert (answer["role"], answer["tool_call_id"]) == ("tool", "c1")
    assert len(str(answer["content"])) < 400, "the tool's own limit holds"
    assert refusal["tool_call_id"] == bad.id
    assert str(refusal["content"]).startswith("Error NOT_FOUND")


def long_text() -> str:
    return "word " * 1_000


async def test_a_call_under_way_has_no_answer_yet() -> None:
    async with ToolEngine([tool(needs_approval=True)(long_text)]) as engine:
        invocation = engine.start({"name": "long_text"})
        with pytest.raises(ConfigurationError, match="await it first"):
            response_to_message(invocation)


CHANGED = None
HISTORY = [
    ('{"a": 1}', '{"a": 1}'),
    ('{"ä": "你好"}', '{"ä": "你好"}'),
    ("", "{}"),
    (None, "{}"),
    ("  \n", "{}"),
    ({"a": 1}, '{"a":1}'),
    ('"{\\"a\\": 1}"', '{"a": 1}'),
    ('{"a": 1', CHANGED),
    ('{"a": NaN}', CHANGED),
    ("[1]", CHANGED),
    ("null", CHANGED),
    ('"text"', CHANGED),
    ("[" * 100_000, CHANGED),
    (["a"], CHANGED),
    (7, CHANGED),
]


@pytest.mark.parametrize(("arguments", "sent"), HISTORY)
def test_history_holds_json_objects_only(arguments: Any, sent: str | None) -> None:
    made, raw = history_message(message(written(arguments=arguments)))
    calls: Any = made["tool_calls"]
    assert calls == [written(arguments="{}" if sent is CHANGED else sent)]
    assert raw == ({0: ToolCall("add", arguments, "c1")} if sent is CHANGED else {})


def test_half_a_character_does_not_reach_the_history() -> None:
    made = sent_back(message(written(arguments='{"a": "\ud835"}'), content="\ud835"))
    json.dumps(made, ensure_ascii=False).encode()
    assert json.loads(made["tool_calls"][0]["function"]["arguments"]) == {"a": "\ufffd"}


def test_a_name_that_no_provider_takes_is_replaced_and_kept_aside() -> None:
    given_message = message(written('fetch" />'), written(""), written("n" * 65))
    made, raw = sent_back(given_message), history_message(given_message).raw
    assert [call["function"]["name"] for call in made["tool_calls"]] == ["fetch____", "unnamed", "n" * 64]
    assert [raw[place].name for place in range(3)] == ['fetch" />', "", "n" * 65]


async def test_a_call_without_an_id_gets_the_one_that_it_is_answered_by() -> None:
    given_message = {"role": "assistant", "content": "", "function_call": {"name": "nothing", "arguments": "{}"}}
    async with ToolEngine() as engine:
        invocations = await engine.execute_tool_calls(calls_from_message(given_message))
    made = sent_back(given_message, invocations)
    assert made["tool_calls"][0]["id"] == response_to_message(invocations[0])["tool_call_id"]
    assert "function_call" not in made
    assert sent_back(given_message)["tool_calls"][0]["id"] == "call_0"


def test_custom_calls_keep_their_form() -> None:
    call = {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    assert history_message(message(call)) == ({"role": "assistant", "content": None, "tool_calls": [call]}, {})
    call["custom"] = {"name": "sql", "input": None}
    made, raw = history_message(message(call))
    assert made["tool_calls"] == [{"id": "c1", "type": "custom", "custom": {"name": "sql", "input": ""}}]
    assert 0 in raw


class Model:
    """Like an object of the SDK."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__ = fields

    def model_dump(self, *, exclude_unset: bool) -> dict[str, Any]:
        assert exclude_unset
        return dict(vars(self))


class Hostile:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class HostileDump:
    content = "said"

    def model_dump(self, **settings: Any) -> dict[str, Any]:
        raise RuntimeError("no")


def test_messages_of_the_sdk_are_read_and_sent_back() -> None:
    given_message = ChatCompletionMessage.model_validate(message(written("a", '{"x": 1}', "1"), written("b", "{", "2")))
    assert calls_from_message(given_message) == [ToolCall("a", '{"x": 1}', "1"), ToolCall("b", "{", "2")]
    made, raw = history_message(given_message)
    assert made == message(written("a", '{"x": 1}', "1"), written("b", "{}", "2"))
    assert raw == {1: ToolCall("b", "{", "2")}


def test_other_fields_stay() -> None:
    fields = {"content": "I look it up.", "refusal": None, "name": "bot"}
    assert history_message({"role": "assistant", **fields}).message == {
        "role": "assistant",
        "content": "I look it up.",
        "name": "bot",
    }
    made, _ = history_message(Model(role="assistant", **fields, tool_calls=[written()]))
    assert made == {"role": "assistant", "content": "I look it up.", "name": "bot", "tool_calls": [written()]}


@pytest.mark.parametrize(
    "odd", [None, 3, "text", [], Hostile(), HostileDump(), SimpleNamespace(content="said")], ids=range(7)
)
def test_history_of_anything_is_a_message(odd: Any) -> None:
    made, raw = history_message(odd)
    assert made["role"] == "assistant"
    assert made["content"] in {"", "said"}
    assert raw == {}


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_history_never_raises_and_is_strict_json(anything: Any) -> None:
    for odd in (anything, message(anything), message(written(anything, anything, anything)), message(content=anything)):
        made = sent_back(odd)
        text = json.dumps(made, allow_nan=False, ensure_ascii=False)
        text.encode()
        for call in made.get("tool_calls", []):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
