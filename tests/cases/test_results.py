"""Public bug reports about what tools answer, turned into tests.

=====  =============================================================================================
row    test
=====  =============================================================================================
97     test_case_097_one_serialiser_makes_json_of_every_value_in_result_event_and_trace
99     test_case_099_a_number_that_is_not_finite_is_named_where_the_schema_wants_a_number
100    test_case_100_without_a_schema_a_number_that_is_not_finite_is_text_in_strict_json
102    test_case_102_what_cannot_be_represented_is_no_success
102    test_case_102_what_does_not_fit_the_output_schema_is_an_error
104    test_case_104_an_error_is_not_held_to_the_schema_of_a_result
106    test_case_106_a_long_result_keeps_its_ends_and_says_how_long_it_was_and_data_is_whole
106    test_case_106_a_cut_goes_through_no_character_and_no_token
107    test_case_107_half_a_character_does_no_harm_anywhere
108    test_case_108_a_generator_is_progress_and_a_result
109    test_case_109_a_secret_in_an_exception_reaches_nobody
109    test_case_109_an_argument_error_names_path_and_rule_but_never_the_value
=====  =============================================================================================
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NoReturn
from uuid import UUID

import pytest
from pydantic import BaseModel

from fsm_engine import (
    ConfigurationError,
    Stages,
    ToolCall,
    ToolError,
    ToolExecutionEvent,
    ToolInvocation,
    ToolResponse,
    ToolSpec,
)
from fsm_engine.diagram.trace import trace_of

from ..support import Watch, logged, virtual


async def answered(value: Any, **settings: Any) -> tuple[ToolInvocation, Watch]:
    """A tool that answers with this value, or raises it, and what was heard of it."""
    watch = Watch()

    async def answer() -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    engine = virtual(ToolSpec(name="answer", func=answer, **settings), stages=Stages(publish=watch))
    return await engine.execute_tool_call(ToolCall("answer", {}, "c1")), watch


def response_of(invocation: ToolInvocation) -> ToolResponse:
    assert invocation.response is not None
    return invocation.response


def no_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is no JSON")


def strict(text: str) -> Any:
    """What strict JSON means."""
    text.encode()  # no half of a character
    return json.loads(text, parse_constant=no_constant)


class Colour(enum.Enum):
    RED = "red"


class Model(BaseModel):
    at: date = date(2024, 5, 20)


@dataclasses.dataclass
class Point:
    x: int = 1


class Array:
    """What a numpy array is to whoever has no numpy: a class of that module with `tolist`."""

    size = 2

    def tolist(self) -> list[float]:
        return [1.0, 2.0]


Array.__module__ = "numpy"

MOMENT = datetime(2024, 5, 20, 12, 30, tzinfo=timezone(timedelta(hours=8)))
VALUES: list[tuple[Any, Any]] = [
    (MOMENT, "2024-05-20T12:30:00+08:00"),
    (date(2024, 5, 20), "2024-05-20"),
    (b"abc", "abc"),
    (b"\xff\x00", {"base64": "/wA=", "size": 2}),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Decimal("1.10"), "1.10"),
    (Colour.RED, "red"),
    ({2, 1}, [1, 2]),
    ((1, 2), [1, 2]),
    (Point(), {"x": 1}),
    (Model(), {"at": "2024-05-20"}),
    (ValueError("odd"), {"type": "ValueError", "message": "odd"}),
    (PurePosixPath("/tmp/a"), "/tmp/a"),
    (Array(), [1.0, 2.0]),
]


@pytest.mark.parametrize(("value", "json_value"), VALUES, ids=[type(row[0]).__name__ for row in VALUES])
async def test_case_097_one_serialiser_makes_json_of_every_value_in_result_event_and_trace(
    value: Any, json_value: Any
) -> None:
    invocation, watch = await answered({"t": value})
    response = response_of(invocation)
    is_binary = isinstance(json_value, dict) and "base64" in json_value
    assert (response.status, response.data) == ("partial" if is_binary else "success", {"t": json_value})
    assert strict(response.text) == {
        "t": "(2 bytes of application/octet-stream, not shown)" if is_binary else json_value
    }
    assert strict(response.to_json())["data"] == {"t": json_value}
    assert strict(json.dumps(watch.events[-1].to_dict()))["result"]["data"] == {"t": json_value}
    strict(json.dumps(trace_of(invocation)))


NUMBER = {"type": "number"}
LOST = [float("inf"), float("-inf"), float("nan")]


@pytest.mark.parametrize("number", LOST)
@pytest.mark.parametrize(
    ("wrap", "schema", "path"),
    [
        (lambda number: number, NUMBER, ""),
        (lambda number: {"m": [1.0, number]}, {"type": "object", "properties": {"m": {"items": NUMBER}}}, "m[1]"),
    ],
    ids=["root", "inside"],
)
async def test_case_099_a_number_that_is_not_finite_is_named_where_the_schema_wants_a_number(
    number: float, wrap: Callable[[float], Any], schema: dict[str, Any], path: str
) -> None:
    invocation, _ = await answered(wrap(number), output_schema=schema)
    error = invocation.error
    assert error is not None
    assert (error.code, error.reason, error.counts) == ("EXECUTION_ERROR", "result_not_finite", False)
    assert [(issue.path, issue.reason) for issue in error.issues] == [(path, "result_not_finite")]
    assert "not finite" in response_of(invocation).for_model()


@pytest.mark.parametrize(("number", "text"), [*zip(LOST, ["Infinity", "-Infinity", "NaN"], strict=True)])
async def test_case_100_without_a_schema_a_number_that_is_not_finite_is_text_in_strict_json(
    number: float, text: str
) -> None:
    invocation, watch = await answered({"m": number})
    response = response_of(invocation)
    assert strict(response.text) == {"m": text}
    assert strict(response.to_json())["data"] == {"m": text}
    strict(json.dumps(watch.events[-1].to_dict()))


async def test_case_102_what_cannot_be_represented_is_no_success() -> None:
    invocation, _ = await answered({"handle": object(), "n": 1})
    response = response_of(invocation)
    assert (response.status, response.reason, response.stats["lossy"]) == ("partial", "unserialisable", ["$.handle"])
    assert "0x" not in response.text, "no repr"
    assert "$.handle" in response.for_model()


async def test_case_102_what_does_not_fit_the_output_schema_is_an_error() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    invocation, _ = await answered({"n": "many"}, output_schema=schema)
    assert invocation.state == "FAILED"
    assert invocation.error is not None
    assert (invocation.error.reason, [issue.path for issue in invocation.error.issues]) == ("output_schema", ["n"])


async def test_case_102_a_text_is_held_to_the_output_schema_as_the_text_that_it_is() -> None:
    fits, _ = await answered("abc", output_schema={"type": "string", "maxLength": 3})
    assert fits.result == "abc"
    long, _ = await answered("abcd", output_schema={"type": "string", "maxLength": 3})
    assert long.error is not None
    assert long.error.reason == "output_schema"


@pytest.mark.parametrize("how", ["raised", "returned"])
async def test_case_104_an_error_is_not_held_to_the_schema_of_a_result(how: str) -> None:
    words = "Order 7 is shipped."
    given: Any = ToolError("CONFLICT", words) if how == "raised" else ToolResponse.error("CONFLICT", words)
    invocation, _ = await answered(
        given, output_schema={"type": "object", "properties": {"n": NUMBER}, "required": ["n"]}
    )
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.message) == ("CONFLICT", words)


PAGE = "begin " + "x" * 200_000 + " end"


async def test_case_106_a_long_result_keeps_its_ends_and_says_how_long_it_was_and_data_is_whole() -> None:
    invocation, _ = await answered(PAGE, max_result_chars=1_000)
    response = response_of(invocation)
    assert (response.status, response.reason) == ("partial", "truncated")
    assert len(response.text) <= 1_000
    assert response.text.startswith("begin ")
    assert response.text.endswith(" end")
    assert str(len(PAGE)) in response.text
    assert response.stats["full_size"] == len(PAGE)
    assert response.data == invocation.result == PAGE
    read = response.for_model()
    assert "Reason: truncated." in read
    assert len(read) < 1_100


async def test_case_106_data_loses_values_in_the_models_text_and_nothing_in_itself() -> None:
    rows = [{"row": number} for number in range(1_000)]
    invocation, _ = await answered(rows, max_result_chars=500)
    response = response_of(invocation)
    assert response.data == rows
    shown, note = response.text.rsplit("\n", 1)
    kept = strict(shown)
    assert kept[:-1] == rows[: len(kept) - 1], (
        "whole values, from the beginning; the last may have lost some of its own"
    )
    assert len(response.text) <= 500
    assert str(response.stats["full_size"]) in note


async def test_case_106_what_is_short_enough_is_left_alone() -> None:
    invocation, _ = await answered("x" * 1_000, max_result_chars=1_000)
    assert response_of(invocation).status == "success"
    assert "full_size" not in response_of(invocation).stats
    unlimited, _ = await answered(PAGE, max_result_chars=None)
    assert response_of(unlimited).text == PAGE


async def test_case_106_a_tools_own_partial_keeps_its_reason_and_its_own_error_its_code() -> None:
    stale, _ = await answered(ToolResponse.partial(PAGE, reason="stale", stats={"tokens": 9}), max_result_chars=500)
    response = response_of(stale)
    assert (response.reason, len(response.text) <= 500) == ("stale", True)
    assert response.stats["tokens"] == 9
    failed, _ = await answered(ToolResponse.error("CONFLICT", PAGE), max_result_chars=500)
    assert failed.error is not None
    assert (failed.error.code, len(failed.error.message) <= 500) == ("CONFLICT", True)
    assert len(response_of(failed).for_model()) < 700


@pytest.mark.parametrize("text", ["\U0001f600" * 1_000, "é" * 1_000, "\\ud83d" * 1_000, '"' * 1_000])
async def test_case_106_a_cut_goes_through_no_character_and_no_token(text: str) -> None:
    as_text, _ = await answered(text, max_result_chars=101)
    kept = response_of(as_text).text
    kept.encode()
    assert "truncated" in kept
    as_json, _ = await answered([text, text], max_result_chars=101)
    strict(response_of(as_json).text.rsplit("\n", 1)[0])


def test_case_106_a_limit_that_leaves_no_room_to_say_so_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_result_chars must be a whole number from 100"):
        ToolSpec(name="answer", func=strict, max_result_chars=99)


@pytest.mark.parametrize("value", ["a\ud835b", {"k": "\ud835"}, {"\udc00": 1}, ["\ud835" * 3]], ids=ascii)
async def test_case_107_half_a_character_does_no_harm_anywhere(value: Any) -> None:
    with logged() as lines:
        invocation, watch = await answered(value)
    response = response_of(invocation)
    assert invocation.state == "COMPLETED"
    assert "\ufffd" in response.text
    for text in (response.text, response.to_json(), response.for_model(), *(str(e.to_dict()) for e in watch.events)):
        text.encode()
    str(lines).encode()


async def test_case_107_half_a_character_in_arguments_harms_no_hash_either() -> None:
    async def echo(text: str) -> str:
        return text

    engine = virtual(echo)
    first, second = await engine.execute_tool_calls([ToolCall("echo", {"text": "\ud835"}), {"name": "\ud835"}])
    for invocation in (first, second):
        assert invocation.is_final
        json.dumps(response_of(invocation).to_dict(), ensure_ascii=False).encode()
        invocation.id.encode()


def sync_pieces() -> Any:
    yield "a"
    yield "b"


async def async_pieces() -> Any:
    yield "a"
    yield "b"


def returns_a_generator() -> Any:
    return (piece for piece in "ab")


@pytest.mark.parametrize("function", [sync_pieces, async_pieces, returns_a_generator])
async def test_case_108_a_generator_is_progress_and_a_result(function: Callable[..., Any]) -> None:
    watch = Watch()
    response = await virtual(function, stages=Stages(publish=watch)).invoke(function.__name__)
    assert response.text == "ab"
    chunks = [event.chunk for event in watch.events if isinstance(event, ToolExecutionEvent) and event.chunk]
    assert chunks == ["a", "b"]


async def test_case_109_a_secret_in_an_exception_reaches_nobody() -> None:
    secret = "hunter2hunter2"
    with logged() as lines:
        invocation, watch = await answered(RuntimeError(f"login failed: password={secret}"))
    response = response_of(invocation)
    assert "login failed" in response.for_model()
    assert "Traceback" not in response.for_model()
    assert "test_results.py" not in response.for_model(), "where it happened is for the operator"
    assert any("test_results.py" in str(line.get("detail")) for line in lines)
    told = [response.for_model(), response.to_json(), str(lines), *(str(event.to_dict()) for event in watch.events)]
    assert not any(secret in text for text in told)


async def test_case_109_an_argument_error_names_path_and_rule_but_never_the_value() -> None:
    watch, value = Watch(), "4111-1111-1111-1111"

    async def pay(card: int, note: dict[str, int]) -> None:
        """Never run."""

    with logged() as lines:
        engine = virtual(pay, stages=Stages(publish=watch))
        invocation = await engine.execute_tool_call(ToolCall("pay", {"card": value, "note": {"a": value}}))
    read = response_of(invocation).for_model()
    assert "card: must be integer" in read
    assert "note" in read
    assert value not in read
    assert value not in str(lines)
    error = watch.events[-1].to_dict()
    assert (error["type"], value in str(error)) == ("tool_error", False)
