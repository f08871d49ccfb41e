"""What callers hand over as a call, and the names that calls get."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine import ToolCall
from fsm_engine.calls import canonical_json, duplicate_id_error, fingerprint, made_id, printable_name, read_call


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
        ({"name": "add", "id": 7, "version": 2}, ToolCall("add")),
        (ToolCall("add", None, 7), ToolCall("add")),  # type: ignore[arg-type]  # on purpose
        (ToolCall(None), ToolCall("")),  # type: ignore[arg-type]  # on purpose
        ({}, ToolCall("")),
        (None, ToolCall("")),
        ([], ToolCall("")),
    ],
    ids=repr,
)
def test_calls_are_read_from_dictionaries_and_objects(given_: Any, read: ToolCall) -> None:
    assert read_call(given_) == read


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
