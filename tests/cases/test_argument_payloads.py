"""Public bug reports about the arguments of calls, turned into tests.

=====  =============================================================================================
row    test
=====  =============================================================================================
1      test_case_001_arguments_that_are_none_at_all_are_the_empty_object_and_the_response_says_so
1      test_case_001_no_arguments_are_still_validated
3      test_case_003_the_four_characters_null_are_no_invalid_call
4, 5   test_case_004_005_an_empty_text_is_the_empty_object_whoever_sends_it
7      test_case_007_one_malformed_payload_fails_alone_and_its_siblings_go_on
8      test_case_008_json_in_json_is_unwrapped_once_and_only_if_it_is_an_object
9      test_case_009_text_that_holds_json_stays_text_where_the_schema_takes_text
9      test_case_009_what_was_decoded_by_the_schema_is_noted_with_its_place
10     test_case_010_corrupt_arguments_in_a_stored_history_never_raise
11     test_case_011_arguments_that_cannot_be_read_are_never_run_as_no_arguments
12     test_case_012_the_history_always_carries_a_valid_object
13     test_case_013_every_payload_ends_in_one_final_state_and_one_final_event
=====  =============================================================================================

Row 2 (a delta of a stream without arguments) belongs to what assembles streams.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from fsm_engine import ToolCall, ToolEngine, ToolInvocation, ToolResponse
from fsm_engine.providers.openai_chat import calls_from_message, history_message

from ..support import assert_ended, assert_told_in_full, play, virtual


async def ping() -> str:
    return "pong"


async def search(query: str, limit: int = 3) -> str:
    return f"{query} x {limit}"


def message(*arguments: Any, name: str = "ping") -> dict[str, Any]:
    """An assistant message of OpenAI's chat completions with one call for each of the arguments."""
    calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": each}}
        for number, each in enumerate(arguments)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


async def only(engine: ToolEngine, name: str, arguments: Any) -> ToolInvocation:
    [invocation] = await engine.execute_tool_calls(calls_from_message(message(arguments, name=name)))
    return invocation


def answer(invocation: ToolInvocation) -> ToolResponse:
    assert invocation.response is not None
    return invocation.response


@pytest.mark.parametrize("nothing", [None, "", " \n\t", "null", " null "], ids=repr)
async def test_case_001_arguments_that_are_none_at_all_are_the_empty_object_and_the_response_says_so(
    nothing: Any,
) -> None:
    invocation = await only(virtual(ping), "ping", nothing)
    assert (invocation.arguments, invocation.result) == ({}, "pong")
    assert answer(invocation).context["notes"] == ["empty_arguments"]


@pytest.mark.parametrize("nothing", [None, "", "null"], ids=repr)
async def test_case_001_no_arguments_are_still_validated(nothing: Any) -> None:
    invocation = await only(virtual(search), "search", nothing)
    assert invocation.path == ("PENDING", "VALIDATING", "FAILED")
    assert invocation.error is not None
    assert [(issue.reason, issue.path) for issue in invocation.error.issues] == [("missing_required", "query")]


async def test_case_001_an_empty_object_that_was_written_is_nothing_to_note() -> None:
    assert "notes" not in answer(await only(virtual(ping), "ping", "{}")).context


async def test_case_003_the_four_characters_null_are_no_invalid_call() -> None:
    [call] = calls_from_message(message("null"))
    assert call == ToolCall("ping", "null", "c0")
    assert (await virtual(ping).execute_tool_call(call)).state == "COMPLETED"


@pytest.mark.parametrize(
    "call",
    [
        {"id": "c0", "name": "ping", "arguments": ""},
        {"id": "c0", "function": {"name": "ping", "arguments": ""}},
        {"id": "c0", "function": {"name": "ping"}},
        ToolCall("ping", "", "c0"),
    ],
    ids=["flat", "openai", "left out", "ToolCall"],
)
async def test_case_004_005_an_empty_text_is_the_empty_object_whoever_sends_it(call: Any) -> None:
    invocation = await virtual(ping).execute_tool_call(call)
    assert (invocation.id, invocation.arguments, invocation.result) == ("c0", {}, "pong")


async def test_case_007_one_malformed_payload_fails_alone_and_its_siblings_go_on() -> None:
    engine = virtual(search)
    payloads = ('{"query": "a"}', '{"{"query": "b"}', '{"query": "c"}')
    first, broken, last = await engine.execute_tool_calls(calls_from_message(message(*payloads, name="search")))
    assert [first.result, last.result] == ["a x 3", "c x 3"]
    assert broken.path == ("PENDING", "VALIDATING", "FAILED")
    assert broken.error is not None
    assert (broken.error.code, broken.error.reason) == ("INVALID_FORMAT", "args_not_json")
    assert "not JSON" in answer(broken).for_model()


OBJECT = '{"query": "a"}'


@pytest.mark.parametrize(
    ("payload", "result"),
    [
        (json.dumps(OBJECT), "a x 3"),
        (json.dumps(json.dumps(OBJECT)), None),
        (json.dumps('["query"]'), None),
        (json.dumps("query"), None),
    ],
    ids=["once", "twice", "a list inside", "a text inside"],
)
async def test_case_008_json_in_json_is_unwrapped_once_and_only_if_it_is_an_object(
    payload: str, result: str | None
) -> None:
    invocation = await only(virtual(search), "search", payload)
    assert invocation.result == result
    if result is None:
        assert invocation.error is not None
        assert (invocation.error.code, invocation.attempts) == ("INVALID_FORMAT", [])
    else:
        assert answer(invocation).context["notes"] == ["doubly_encoded"]


async def test_case_009_text_that_holds_json_stays_text_where_the_schema_takes_text() -> None:
    async def store(data: str, either: str | dict[str, int] = "") -> list[Any]:
        return [data, either]

    text = '{"message": "hello"}'
    invocation = await only(virtual(store), "store", {"data": text, "either": text})
    assert invocation.result == [text, text]
    assert "notes" not in answer(invocation).context


async def test_case_009_what_was_decoded_by_the_schema_is_noted_with_its_place() -> None:
    async def order(items: list[dict[str, int]], options: dict[str, str] | None = None) -> Any:
        return [items, options]

    invocation = await only(virtual(order), "order", {"items": ['{"sku": 1}', {"sku": 2}], "options": '{"a": "b"}'})
    assert invocation.result == [[{"sku": 1}, {"sku": 2}], {"a": "b"}]
    assert answer(invocation).context["notes"] == ["decoded: items[0]", "decoded: options"]


CORRUPT = ['{"a": ', "nonsense", "[1]", "7", b"\xff", 7, [1], object(), "{" * 100_000, '{"a": NaN}', '"\\ud800"']


@pytest.mark.parametrize("arguments", CORRUPT, ids=[str(number) for number in range(len(CORRUPT))])
async def test_case_010_corrupt_arguments_in_a_stored_history_never_raise(arguments: Any) -> None:
    rendered = history_message(message('{"a": 1}', arguments))
    sent = json.loads(json.dumps(rendered.message, allow_nan=False))
    assert [json.loads(call["function"]["arguments"]) for call in sent["tool_calls"]] == [{"a": 1}, {}]
    assert list(rendered.raw) == [1]
    assert rendered.raw[1].arguments is arguments


TRUNCATED = ['{"path": "/tmp", "force": tr', '{"path": "/tm', "{", '{"path": "/tmp"', '{"path"']


@pytest.mark.parametrize("arguments", TRUNCATED)
async def test_case_011_arguments_that_cannot_be_read_are_never_run_as_no_arguments(arguments: str) -> None:
    ran: list[str] = []

    async def delete(path: str = "/", force: bool = False) -> str:
        ran.append(path)
        return "gone"

    invocation = await only(virtual(delete), "delete", arguments)
    assert ran == []
    assert invocation.arguments is None
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.reason) == ("INVALID_FORMAT", "args_not_json")
    assert '"force":{"default":false' in answer(invocation).for_model(), "the schema comes with the error"


async def test_case_012_the_history_always_carries_a_valid_object() -> None:
    engine = virtual(search)
    asked = message('{"query": "a', "null", '{"query": "b"}', name="search")
    invocations = await engine.execute_tool_calls(calls_from_message(asked))
    rendered = history_message(asked, invocations)
    sent: Any = rendered.message["tool_calls"]
    assert [call["function"]["arguments"] for call in sent] == ["{}", "{}", '{"query": "b"}']
    assert [call["id"] for call in sent] == [invocation.id for invocation in invocations]
    assert rendered.raw[0].arguments == '{"query": "a'


PAYLOADS = [*CORRUPT, *TRUNCATED, None, "", "null", {}, "{}", {"query": 7}, '{"query": "a", "x": 1}', '{"query": "a"}']


@pytest.mark.parametrize("arguments", PAYLOADS, ids=[str(number) for number in range(len(PAYLOADS))])
async def test_case_013_every_payload_ends_in_one_final_state_and_one_final_event(arguments: Any) -> None:
    """Nothing stays behind either: no timer, no call under way."""
    engine = virtual(search)

    async def watched() -> list[Any]:
        async with engine.stream(calls_from_message(message(arguments, name="search"))) as run:
            events = [event async for event in run]
        assert_ended(run.invocations[0])
        return events

    assert_told_in_full(await play(engine, watched()))
    assert engine.running == ()
    assert engine.clock.next_timer is None  # type: ignore[attr-defined]  # it is a VirtualClock
