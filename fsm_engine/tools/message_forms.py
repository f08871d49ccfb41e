"""Where the calls of a message are, in each provider's form of one.

>>> calls_in({"content": [{"type": "text", "text": "Adding."}, {"type": "tool_use", "id": "c1", "name": "add", "input": {}}]})
[ToolCall(name='add', arguments={}, id='c1', version=None, problem=None)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors.exceptions import ConfigurationError
from .call import ToolCall
from .call_forms import attribute, read_call

__all__ = ["calls_in", "message_in", "read_calls", "written_calls"]

_A_MESSAGE = (
    "give the assistant's message with its calls: choices[0].message of OpenAI chat, the output of OpenAI responses, the "
    "content of Anthropic or Gemini, or an AIMessage of LangChain"
)
_CALL_TYPES = frozenset(
    {"tool_use", "function_call", "custom_tool_call", "function", "tool_call", "tool-call", "custom"}
)
_OTHER_TYPES = frozenset({"text", "thinking", "redacted_thinking", "reasoning", "message", "output_text"})
_MESSAGE_FIELDS = ("role", "content", "tool_calls", "function_call", "refusal", "output", "parts", "choices")
_CALL_FIELDS = ("function", "functionCall", "custom", "name", "toolName", "arguments", "args", "input")
_DEEPEST = 8
"""Levels of nesting to look for calls in; forms have four at the most."""


def calls_in(message: Any) -> list[ToolCall]:
    """All calls of a message, in order; see `written_calls`."""
    return [read_call(call) for call in written_calls(message)]


def read_calls(calls: Any) -> list[ToolCall]:
    """The calls of an iterable of them, or of a message that was given in its place.

    Raises:
        ConfigurationError: it is neither.
    """
    if isinstance(calls, Iterable) and not isinstance(calls, str | bytes | Mapping) and not _is_message(calls):
        given = list(calls)
        return calls_in(given) if any(_is_of_message(each) for each in given) else [read_call(each) for each in given]
    return calls_in(calls)


def message_in(answer: Any) -> Any:
    """The message in a whole answer of the API; what is none is answered with as it is."""
    choices = attribute(answer, "choices")
    if isinstance(choices, list | tuple):
        first = next((each for each in choices if attribute(each, "index") in (None, 0)), None)
        return {"role": "assistant", "content": ""} if first is None else attribute(first, "message")
    candidates = attribute(answer, "candidates")
    if isinstance(candidates, list | tuple):
        return attribute(candidates[0], "content") if candidates else {"role": "model", "parts": []}
    return answer


def written_calls(message: Any, depth: int = _DEEPEST) -> list[Any]:
    """The calls of a message as they are written there.

    Args:
        message: an assistant's message in a provider's form, a whole answer with the message in it, a list of content
            blocks or output items, or one call; dictionaries or the SDK's objects.

    Raises:
        ConfigurationError: it is none of these; the message says what to give.
    """
    if not depth:
        raise ConfigurationError(f"the message is nested too deeply to hold calls; {_A_MESSAGE}")
    inner = message_in(message)
    if inner is not message:
        if inner is None:
            raise ConfigurationError(f"this answer has no message (is it a piece of a stream?); {_A_MESSAGE}")
        return written_calls(inner, depth - 1)
    if message is None or isinstance(message, str | bytes | int | float):
        kind = "nothing" if message is None else "text" if isinstance(message, str | bytes) else "a number"
        raise ConfigurationError(f"this is {kind} and no message; {_A_MESSAGE}")
    if isinstance(message, list | tuple) and not hasattr(message, "_fields"):
        return _in_items(message, depth)
    return _in_fields(message, depth)


def _in_fields(message: Any, depth: int) -> list[Any]:
    calls = attribute(message, "tool_calls")
    if calls or attribute(message, "invalid_tool_calls"):
        return [*_listed(calls), *_listed(attribute(message, "invalid_tool_calls"))]
    if legacy := attribute(message, "function_call"):
        return [legacy]
    for field in ("output", "parts", "content"):
        within = attribute(message, field)
        if field == "content" and isinstance(within, Mapping):  # a candidate of Gemini
            return written_calls(within, depth - 1)
        if isinstance(within, list | tuple):
            return _in_items(within, depth)
    if _is_call(message):
        return [message]
    if not _is_message(message):
        raise ConfigurationError(f"this holds neither a message nor a call; {_A_MESSAGE}")
    return []


def _in_items(items: Iterable[Any], depth: int) -> list[Any]:
    """The calls among content blocks, output items or parts; each of these is a call or says nothing here."""
    found: list[Any] = []
    messages = 0
    for place, item in enumerate(items):
        if isinstance(item, str):  # a block of plain text
            continue
        if item is None or isinstance(item, int | float | list | tuple):
            raise ConfigurationError(f"item {place} of the message is no object; {_A_MESSAGE}")
        if _is_call(item):
            found.append(item)
        elif attribute(item, "tool_calls") or attribute(item, "choices") or attribute(item, "role") is not None:
            messages += 1
            found.extend(written_calls(item, depth - 1))
            if messages > 1:
                raise ConfigurationError(
                    f"these are several messages, of which earlier ones may have run; {_A_MESSAGE}"
                )
    return found


def _is_call(item: Any) -> bool:
    kind = attribute(item, "type")
    if attribute(item, "method") == "tools/call":
        return True
    if isinstance(kind, str):
        return kind in _CALL_TYPES
    if attribute(item, "function_call") is not None:
        return True
    return attribute(item, "role") is None and any(attribute(item, field) is not None for field in _CALL_FIELDS)


def _is_message(item: Any) -> bool:
    return any(
        name in item if isinstance(item, Mapping) else attribute(item, name) is not None for name in _MESSAGE_FIELDS
    )


def _is_of_message(item: Any) -> bool:
    """It stands in a message or is one, so the list that holds it is no list of calls."""
    if isinstance(item, str):
        return False
    kind = attribute(item, "type")
    return (isinstance(kind, str) and kind in _OTHER_TYPES) or bool(attribute(item, "tool_calls"))


def _listed(calls: Any) -> list[Any]:
    if isinstance(calls, list | tuple):
        return list(calls)
    if calls is None:
        return []
    if isinstance(calls, Mapping):
        return [calls]
    raise ConfigurationError(f"the tool_calls of this message are no list; {_A_MESSAGE}")
