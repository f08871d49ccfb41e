"""Long texts are cut for the model, never in silence."""

from __future__ import annotations

import doctest
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine.jsonable import truncation as text_module
from fsm_engine.jsonable.strict import JsonValue, json_text
from fsm_engine.jsonable.truncation import MIN_LIMIT, shorten, shorten_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)  # fmt: skip
LIMITS = st.integers(MIN_LIMIT, 300)


@given(st.text(max_size=1000), LIMITS)
def test_a_text_keeps_head_and_tail_within_the_limit_and_tells_its_size(text: str, limit: int) -> None:
    short = shorten(text, limit)
    if len(text) <= limit:
        assert short == text
    else:
        assert len(short) == limit
        head, marker, tail = (
            short.split("\n[... ", 1)[0],
            f"{len(text)} characters in full",
            short.rsplit(" ...]\n", 1)[1],
        )
        assert marker in short
        assert text.startswith(head)
        assert text.endswith(tail)


@given(JSON, LIMITS)
def test_json_is_cut_between_values_within_the_limit_and_tells_its_size(value: JsonValue, limit: int) -> None:
    whole, short = json_text(value), shorten_json(value, limit)
    assert len(short) <= limit
    if len(whole) <= limit:
        assert short == whole
    else:
        body, note = short.rsplit("\n", 1)
        json.loads(body)
        assert note == f"[truncated: {len(whole)} characters in full]"


@pytest.mark.parametrize("value", ["\x00" * 1000, '"' * 1000, {"k" * 1000: 1}, [[[]]] * 1000, [10**600] * 5])
def test_json_that_grows_when_it_is_written_is_cut_all_the_same(value: JsonValue) -> None:
    short = shorten_json(value, 100)
    assert len(short) <= 100
    json.loads(short.rsplit("\n", 1)[0])


@pytest.mark.parametrize("cut", [lambda: shorten("x", 99), lambda: shorten_json(1, 99)])
def test_a_limit_too_small_for_the_marker_is_refused(cut: object) -> None:
    with pytest.raises(ValueError, match="at least 100 characters, not 99"):
        cut()  # type: ignore[operator] # a function


def test_examples_in_the_documentation_are_true() -> None:
    assert doctest.testmod(text_module).failed == 0
