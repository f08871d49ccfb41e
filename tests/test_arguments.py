"""What the model wrote as arguments reaches the tool as whole text and finite numbers, in every way that it can come."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine import ToolCall, ToolEngine, ToolSpec
from fsm_engine.jsonable.characters import CharacterJoiner, whole_characters
from fsm_engine.jsonable.strict import NotFiniteError, own_json, read_json

SMILE, HIGH, LOW = "\U0001f600", "\ud83d", "\ude00"


async def received(arguments: Any) -> tuple[Any, Any]:
    """What a tool without any demands is given, and the error if it is given nothing."""
    got: list[Any] = []

    async def take(**kwargs: Any) -> str:
        got.append(kwargs)
        return "taken"

    schema = {"type": "object", "properties": {"text": {}, "inner": {"type": "object"}}}
    async with ToolEngine([ToolSpec(name="take", func=take, parameters_schema=schema, lint=False)]) as engine:
        invocation = await engine.execute_tool_call(ToolCall("take", arguments, "c1"))
    return got[0] if got else None, invocation.error


def as_text(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False)


WAYS: dict[str, Callable[[Any], Any]] = {
    "a dictionary": lambda value: value,
    "text": as_text,
    "text with escapes": json.dumps,
    "text in text": lambda value: json.dumps(json.dumps(value)),
    "text where an object is meant": lambda value: {"inner": json.dumps(value)},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("written", "whole"),
    [
        (HIGH + LOW, SMILE),
        (f"a{HIGH}b", "a\ufffdb"),
        (LOW, "\ufffd"),
        (LOW + HIGH, "\ufffd\ufffd"),
        ("\\ud83d", "\\ud83d"),
        (SMILE, SMILE),
    ],
    ids=ascii,
)
async def test_characters_are_whole_however_they_were_written(way: str, written: str, whole: str) -> None:
    got, error = await received(WAYS[way]({"text": [written]}))
    assert error is None
    assert got in ({"text": [whole]}, {"inner": {"text": [whole]}})


async def test_a_key_is_whole_too() -> None:
    schema_free = {"inner": {HIGH + LOW: 1}}
    assert (await received(schema_free))[0] == {"inner": {SMILE: 1}}


@pytest.mark.parametrize("number", ["1e400", "-1E+999", "9" * 400 + ".0"])
@pytest.mark.parametrize("place", ['{"text": %s}', '{"text": [0, {"x": %s}]}', '"{\\"text\\": %s}"'])
async def test_a_number_beyond_all_floats_reaches_no_tool(number: str, place: str) -> None:
    got, error = await received(place % number)
    assert got is None
    assert (error.code, error.reason) == ("INVALID_PARAM", "not_finite")
    assert error.issues[0].path in {"text", "text[1].x"}
    assert "must be a finite number" in error.message
    assert number not in error.message


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
async def test_nor_does_one_that_a_caller_has_put_into_a_dictionary(number: float) -> None:
    got, error = await received({"text": {"deep": [number]}})
    assert got is None
    assert error.issues[0].path == "text.deep[0]"


async def test_text_that_would_be_no_finite_number_stays_text() -> None:
    got, error = await received({"inner": '{"x": 1e400}'})
    assert got is None
    assert error.reason == "wrong_type" or "object" in error.message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet=st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_what_is_read_can_be_sent_anywhere_or_is_refused(value: Any) -> None:
    for read in (lambda: own_json(value), lambda: read_json(json.dumps(value)), lambda: read_json(as_text(value))):
        try:
            found = read()
        except ValueError:
            continue
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()


@given(st.recursive(st.floats(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_an_infinite_number_is_found_wherever_it_stands(value: Any) -> None:
    is_finite = all(sign not in json.dumps(value) for sign in ("NaN", "Infinity"))
    try:
        assert own_json(value) == value
    except NotFiniteError:
        assert not is_finite
    else:
        assert is_finite


@given(st.text(alphabet=st.sampled_from([HIGH, LOW, "a", SMILE, "é"])), st.lists(st.integers(0, 20)))
def test_a_text_in_pieces_comes_to_the_same_as_the_whole(text: str, places: list[int]) -> None:
    ends = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    joiner = CharacterJoiner()
    pieces = [joiner.add(text[start:end]) for start, end in itertools.pairwise(ends)]
    assert "".join([*pieces, joiner.rest()]) == whole_characters(text)
    for piece in pieces:
        piece.encode()
