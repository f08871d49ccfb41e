"""OpenAI's chat completions, which many others imitate: an assistant message's calls, and the messages that follow.

>>> message = {"role": "assistant", "tool_calls": [
...     {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}]}
>>> calls_from_message(message)
[ToolCall(name='add', arguments='{"a": 1}', id='call_1', version=None)]

The form is that of OpenAI's API reference, "Chat": https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..calls import ToolCall, read_call
from ..errors import ConfigurationError
from ..invocation import ToolInvocation
from ..jsonable import JsonValue, json_text, to_jsonable

__all__ = ["HistoryMessage", "calls_from_message", "history_message", "response_to_message"]

_CALL_FIELDS = frozenset({"tool_calls", "function_call", "role"})


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
    `function_call` is read where there are no `tool_calls`; a message with both says the same thing twice.

    Args:
        message: a dictionary or the SDK's object.
    """
    return [_read_tool_call(call) for call in _written_calls(message)]


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
        {0: ToolCall(name='add', arguments='{"a": ', id='c1', version=None)}
    """
    written = _written_calls(message)
    plain: dict[str, JsonValue] = {"role": "assistant", "content": None, **_other_fields(message)}
    raw: dict[int, ToolCall] = {}
    calls: list[JsonValue] = []
    for place, each in enumerate(written):
        call = _read_tool_call(each)
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
    written = _read(message, "tool_calls")
    if isinstance(written, list | tuple) and written:
        return list(written)
    legacy = _read(message, "function_call")
    return [legacy] if legacy else []


def _read_tool_call(call: Any) -> ToolCall:
    custom = _read(call, "custom")
    if custom is not None:
        parts = {"name": _read(custom, "name"), "arguments": {"input": _read(custom, "input")}}
    else:
        function = _read(call, "function")
        owner = call if function is None else function
        parts = {"name": _read(owner, "name"), "arguments": _read(owner, "arguments")}
    return read_call({"id": _read(call, "id"), **parts})


def _other_fields(message: Any) -> dict[str, JsonValue]:
    """What the message says beside its calls; of an SDK's object what it would send."""
    fields: Mapping[str, Any] = {}
    try:
        if isinstance(message, Mapping):
            fields = dict(message)
        elif _read(message, "model_dump") is not None:
            fields = message.model_dump(exclude_none=True)
    except Exception:  # noqa: BLE001 # a foreign object: whatever it raises, it says nothing more
        fields = {}
    if not fields:
        fields = {"content": _read(message, "content")}
    made = {name: value for name, value in fields.items() if name not in _CALL_FIELDS and value is not None}
    plain = to_jsonable(made).value
    return plain if isinstance(plain, dict) else {}


def _stand_in(written: Any, call: ToolCall, call_id: str) -> tuple[JsonValue, bool]:
    """The call as it may be sent, and whether it says something else than the model did."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", call.name)[:64] or "unnamed"
    if _read(written, "custom") is not None:
        text = to_jsonable(call.arguments["input"]).value
        custom = text if isinstance(text, str) else ""
        changed = name != call.name or custom != call.arguments["input"]
        return {"id": call_id, "type": "custom", "custom": {"name": name, "input": custom}}, changed
    arguments = _as_object_text(call.arguments)
    stand_in: JsonValue = {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": "{}" if arguments is None else arguments},
    }
    return stand_in, name != call.name or arguments is None


def _as_object_text(arguments: Any) -> str | None:
    """The arguments as the JSON text of an object; `None`: they are none."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return "{}"
    if isinstance(arguments, Mapping):
        return json_text(to_jsonable(arguments).value)
    if not isinstance(arguments, str):
        return None
    value = _decode(arguments)
    if isinstance(value, str):  # doubly encoded
        arguments, value = value, _decode(value)
    if isinstance(value, dict):
        return arguments if _can_be_sent(arguments) else json_text(to_jsonable(value).value)
    return None


def _can_be_sent(text: str) -> bool:
    """It holds no half of a character, which no request can carry."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decode(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _read(owner: Any, name: str) -> Any:
    try:
        return owner.get(name) if isinstance(owner, Mapping) else getattr(owner, name, None)
    except Exception:  # noqa: BLE001 # a foreign object: whatever it raises, the field is not to be had
        return None
