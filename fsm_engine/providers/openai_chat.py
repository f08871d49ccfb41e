"""OpenAI's chat completions, which many others imitate: an assistant message's calls, and the messages that follow.

>>> message = {"role": "assistant", "tool_calls": [
...     {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}]}
>>> calls_from_message(message)
[ToolCall(name='add', arguments='{"a": 1}', id='call_1', version=None, problem=None)]

The form is that of OpenAI's API reference, "Chat": https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..errors.exceptions import ConfigurationError
from ..invocation.invocation import ToolInvocation
from ..jsonable.characters import whole_characters, whole_escapes
from ..jsonable.jsonable import to_jsonable
from ..jsonable.strict import JsonValue, json_text
from ..tools.call import ToolCall
from ..tools.call_forms import attribute, read_call
from ..tools.message_forms import calls_in, message_in, written_calls
from ..tools.names import OPENAI

__all__ = ["HistoryMessage", "calls_from_message", "history_message", "response_to_message"]

_MESSAGE_FIELDS = frozenset({"tool_calls", "function_call", "role"})
_CALL_FIELDS = frozenset({"id", "type", "function", "custom", "index", "name", "arguments", "args", "input"})
_FUNCTION_FIELDS = frozenset({"name", "arguments"})


class HistoryMessage(NamedTuple):
    """An assistant message that can be sent back to any provider, and what had to be changed for that.

    Attributes:
        message: the message, strict JSON; the arguments of its calls are JSON objects.
        raw: the calls that were changed, as the model wrote them, by their place in the message.
    """

    message: dict[str, JsonValue]
    raw: dict[int, ToolCall]


def calls_from_message(message: Any) -> list[ToolCall]:
    """All tool calls of an assistant message, in order.

    A custom tool's call, whose input is plain text, becomes a call with that text as the argument `input`. The old
    `function_call` is read where there are no `tool_calls`; a message with both says the same thing twice. The messages
    of other providers are read too, and a whole answer of the API gives the calls of the message in it.

    Args:
        message: a dictionary or the SDK's object.

    Raises:
        ConfigurationError: it is no message; the error says what to give.
    """
    return calls_in(message)


def response_to_message(invocation: ToolInvocation) -> dict[str, JsonValue]:
    """The `tool` message that answers a call, with what the model reads of the response.

    Raises:
        ConfigurationError: the invocation has not ended.
    """
    response, spec = invocation.response, invocation.spec
    if response is None or not invocation.is_final:
        raise ConfigurationError(f"{invocation!r} has not ended, so there is no answer yet; await it first")
    text = response.for_model(None if spec is None else spec.max_result_chars)
    return {"role": "tool", "tool_call_id": invocation.id, "content": text}


def history_message(message: Any, invocations: Sequence[ToolInvocation] = ()) -> HistoryMessage:
    """The assistant message as it may stand in the history of a conversation. Never raises for what the message is.

    A model now and then writes arguments that are no JSON object, or a name that no tool can have; sent back as they
    are, they make the provider refuse the whole conversation from then on. They are replaced by `{}` and by a legal
    name; `raw` keeps what was written. An old `function_call` takes the form of a tool call.

    Args:
        message: a dictionary or the SDK's object.
        invocations: what became of the message's calls, in call order: a call without an id gets the one by which
            `response_to_message` answers it.

    Example:
        >>> history_message({"tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": '{"a": '}}]}).raw
        {0: ToolCall(name='add', arguments='{"a": ', id='c1', version=None, problem=None)}
    """
    message = message_in(message)
    written = _written_calls(message)
    plain: dict[str, JsonValue] = {"role": "assistant", "content": None, **_other_fields(message)}
    raw: dict[int, ToolCall] = {}
    calls: list[JsonValue] = []
    for place, each in enumerate(written):
        call = read_call(each)
        call_id = call.id or (invocations[place].id if place < len(invocations) else f"call_{place}")
        stand_in, is_changed = _stand_in(each, call, call_id)
        calls.append(stand_in)
        if is_changed:
            raw[place] = call
    if calls:
        plain["tool_calls"] = calls
    elif plain["content"] is None:
        plain["content"] = ""  # the API wants content or calls
    return HistoryMessage(plain, raw)


def _written_calls(message: Any) -> list[Any]:
    try:
        return written_calls(message)
    except ConfigurationError:
        return []


def _other_fields(message: Any) -> dict[str, JsonValue]:
    """What the message says beside its calls; of an SDK's object what it would send."""
    fields = _plain_fields(message, _MESSAGE_FIELDS)
    content = fields.get("content", attribute(message, "content"))
    if content is None:
        return fields
    is_sendable = isinstance(content, str) or (
        isinstance(content, list) and bool(content) and all(isinstance(part, dict) for part in content)
    )
    plain = to_jsonable(content).value
    return {**fields, "content": plain if is_sendable else json_text(plain)}


def _plain_fields(holder: Any, known: frozenset[str]) -> dict[str, JsonValue]:
    """The fields that nobody here reads, as strict JSON; they go back as they came."""
    fields: Mapping[str, Any] = {}
    try:
        if isinstance(holder, Mapping):
            fields = dict(holder)
        elif attribute(holder, "model_dump") is not None:
            fields = holder.model_dump(exclude_unset=True)
    except Exception:  # noqa: BLE001 # a foreign object: whatever it raises, it says nothing more
        return {}
    plain = to_jsonable(
        {name: value for name, value in fields.items() if name not in known and value is not None}
    ).value
    return plain if isinstance(plain, dict) else {}


def _stand_in(written: Any, call: ToolCall, call_id: str) -> tuple[JsonValue, bool]:
    """The call as it may be sent, and whether it says something else than the model did."""
    name = OPENAI.legal(call.name)
    beside = _plain_fields(written, _CALL_FIELDS)
    if attribute(written, "custom") is not None:
        given = call.arguments["input"] if isinstance(call.arguments, Mapping) else None
        custom = whole_characters(given) if isinstance(given, str) else ""
        changed = name != call.name or custom != given
        return {**beside, "id": call_id, "type": "custom", "custom": {"name": name, "input": custom}}, changed
    arguments = None if call.problem is not None else _as_object_text(call.arguments)
    function: dict[str, JsonValue] = {
        **_plain_fields(attribute(written, "function"), _FUNCTION_FIELDS),
        "name": name,
        "arguments": "{}" if arguments is None else arguments,
    }
    stand_in: JsonValue = {**beside, "id": call_id, "type": "function", "function": function}
    return stand_in, name != call.name or arguments is None


def _as_object_text(arguments: Any) -> str | None:
    """The arguments as the JSON text of an object; `None`: they are none."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return "{}"
    if isinstance(arguments, Mapping):
        return json_text(to_jsonable(arguments).value)
    if not isinstance(arguments, str):
        return None
    arguments = whole_escapes(whole_characters(arguments))
    value = _decode(arguments)
    if isinstance(value, str):  # doubly encoded
        arguments = whole_escapes(whole_characters(value))
        value = _decode(arguments)
    return arguments if isinstance(value, dict) else None


def _decode(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")
