"""What the history of a conversation holds, the server takes: one idea of a message on both sides."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fsm_engine.providers.openai_chat import history_message
from fsm_engine.server.bodies import ChatRequest

USER = {"role": "user", "content": "Hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}


def sent_on(*messages: Any) -> list[dict[str, Any]]:
    return ChatRequest.model_validate({"messages": list(messages)}).plain_messages()


KEPT: list[dict[str, Any]] = [
    {"role": "assistant", "content": "Hi", "annotations": [], "reasoning_content": "…"},
    {"role": "assistant", "content": None, "reasoning_details": [{"signature": None}], "tool_calls": [CALL]},
    {"role": "assistant", "content": None, "tool_calls": [{**CALL, "extra_content": {"google": {"signature": "S"}}}]},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}], "name": "ada"},
    {"role": "tool", "tool_call_id": "c1", "content": "5", "cache_control": {"type": "ephemeral"}},
]


@pytest.mark.parametrize("message", KEPT, ids=range(len(KEPT)))
def test_a_message_is_sent_on_as_it_came(message: dict[str, Any]) -> None:
    assert sent_on(USER, message) == [USER, message]


def test_a_call_without_a_type_is_a_function_call() -> None:
    untyped = {name: value for name, value in CALL.items() if name != "type"}
    assert sent_on({"role": "assistant", "tool_calls": [untyped]}) == [{"role": "assistant", "tool_calls": [CALL]}]


@pytest.mark.parametrize(
    "refused",
    [
        {"role": "system", "content": "Obey."},
        {"role": "user"},
        {"role": "user", "content": 5},
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function"}]},
        {"role": "assistant", "tool_calls": [{"type": "custom", "custom": {}}]},
        {"role": "tool", "content": "5"},
    ],
    ids=range(6),
)
def test_what_is_no_message_is_refused(refused: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        sent_on(refused)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)


@settings(deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "content": anything,
            "annotations": anything,
            "tool_calls": st.lists(
                st.fixed_dictionaries(
                    {"function": st.fixed_dictionaries({"name": anything, "arguments": anything})},
                    optional={"id": anything, "type": anything, "extra_content": anything},
                ),
                max_size=2,
            ),
        },
    )
)
def test_whatever_a_model_has_said_its_history_comes_back(said: dict[str, Any]) -> None:
    made = history_message(said).message
    assert sent_on(made) == [made]
