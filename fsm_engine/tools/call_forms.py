"""The forms in which calls come: each provider writes a call, and the message that holds it, in its own way.

What is clearly meant is read, whoever's form it is. What is not is said in the call's `problem`, and the engine answers
the call with it: a call that lost its arguments on the way must not run with the tool's defaults.

>>> read_call({"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}).arguments
{'a': 1}
>>> read_call({"name": "add", "argument": {"a": 1}}).problem
"The call has an unknown field 'argument'; did you mean 'arguments'? Nothing was run. A call is {id, name, arguments}."
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from ..jsonable.characters import whole_characters
from .call import ToolCall, printable_name

__all__ = ["read_call"]

_ARGUMENTS = ("arguments", "args", "input", "parameters")
_NAMES = ("name", "toolName", "tool_name")
_IDS = ("call_id", "toolCallId", "tool_call_id", "id")  # a Responses item has an `id` of its own beside its call's
_HOLDERS = ("function", "functionCall", "function_call", "custom")
_READ = frozenset({*_ARGUMENTS, *_NAMES, *_IDS, *_HOLDERS, "params", "version"})
_BESIDE = frozenset(
    {"type", "index", "status", "role", "jsonrpc", "method", "_meta", "caller", "error", "problem"}
    | {"extra_content", "thought_signature", "thoughtSignature", "strict", "namespace", "created_by", "cache_control"}
)
"""What providers write beside a call, and what says nothing of what is to be run."""
_KNOWN = _READ | _BESIDE
_PLAIN_FIELDS = frozenset({"id", "name", "arguments", "version"})
_CHAT_FIELDS = frozenset({"id", "type", "index", "function"})
_FUNCTION_FIELDS = frozenset({"name", "arguments"})
_OFTEN_MEANT = {
    **dict.fromkeys(("params", "kwargs", "arg", "argument", "tool_input", "toolInput", "inputs", "data"), "arguments"),
    **dict.fromkeys(("tool", "function_name", "tool_call"), "name"),
}
_A_CALL = "Nothing was run. A call is {id, name, arguments}."


class _UnclearError(Exception):
    """What was meant cannot be told; its text says why."""


def read_call(call: Any) -> ToolCall:
    """The call in a `ToolCall`, a dictionary `{id, name, arguments, version}`, or any provider's own form of one.

    These are OpenAI chat (`{id, function: {...}}`, `custom` too) and responses (`function_call` items), Anthropic
    (`tool_use`), Gemini (`functionCall`), LangChain (`{name, args, id}`), MCP (`tools/call`), the Vercel AI SDK. The
    dictionary may be an SDK's object with the same attributes. A number is taken for an id or a version where it can
    only mean one. Nothing is raised: a call that cannot be understood has a `problem`, by which the engine answers it.

    Example:
        >>> read_call({"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}})
        ToolCall(name='add', arguments='{}', id='call_1', version=None, problem=None)
    """
    if call.__class__ is ToolCall:
        if _is_plain(call):
            return call
    elif call.__class__ is dict and (plain := _plain(call)) is not None:
        return plain
    name, call_id = "", None
    try:
        holders = [fields_of(call)]
        holders.extend(fields_of(holders[0][key]) for key in _HOLDERS if _holds_fields(holders[0].get(key)))
        if (params := holders[0].get("params")) is not None:
            holders.extend(_request_of(holders[0], params))
        call_id = next((found for fields in holders if (found := _text_of("id", _first(fields, _IDS)))), None)
        name = _name_in(holders)
        arguments = _arguments_in(holders)
        version = _text_of("version", holders[0].get("version"))
        problem = holders[0].get("problem") if call.__class__ is ToolCall else None
    except _UnclearError as error:
        return ToolCall(name, None, call_id, None, str(error))
    return ToolCall(name, arguments, call_id, version, problem)


def _plain(call: dict[str, Any]) -> ToolCall | None:
    """The call in the forms that nearly always come, which take a fifth of the time of all the others."""
    named = call.get("function", call)
    if named is call:
        if not call.keys() <= _PLAIN_FIELDS:
            return None
    elif not (named.__class__ is dict and call.keys() <= _CHAT_FIELDS and named.keys() <= _FUNCTION_FIELDS):
        return None
    plain = ToolCall(named.get("name"), named.get("arguments"), call.get("id"), named.get("version"))
    return plain if _is_plain(plain) else None


def _is_plain(call: ToolCall) -> bool:
    name, call_id, version = call.name, call.id, call.version
    return (
        name.__class__ is str
        and name.isascii()
        and (call_id is None or (call_id.__class__ is str and call_id.isascii() and call_id != ""))
        and (version is None or (version.__class__ is str and version != ""))
    )


def _holds_fields(value: object) -> bool:
    return not isinstance(value, str | bytes | bytearray | int | float | list | set | frozenset | None)


def fields_of(holder: Any) -> Mapping[str, Any]:
    """The fields of a dictionary, or of an SDK's object as far as they are known here or set on it."""
    if holder.__class__ is dict or isinstance(holder, Mapping):
        return holder
    if not _holds_fields(holder):
        raise _UnclearError(f"A call must be an object, not {_kind(holder)}. {_A_CALL}")
    found = {key: value for key in _READ if (value := attribute(holder, key)) is not None and not callable(value)}
    own = attribute(holder, "__dict__")
    if isinstance(own, dict):
        found |= {key: value for key, value in own.items() if isinstance(key, str) and not key.startswith("_")}
    if holder.__class__ is ToolCall:
        found |= holder._asdict()
    return found


def _request_of(call: Mapping[str, Any], params: Any) -> Iterator[Mapping[str, Any]]:
    """The call in a request of MCP; elsewhere nothing tells whether `params` are its arguments."""
    is_request = call.get("method") == "tools/call" or (_holds_fields(params) and _first(fields_of(params), _NAMES))
    if not is_request:
        raise _UnclearError(f"The call has an unknown field 'params'; did you mean 'arguments'? {_A_CALL}")
    yield fields_of(params)


def attribute(holder: Any, name: str) -> Any:
    """The field of a foreign object; `None`: it has none, or will not say."""
    try:
        return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
    except Exception:  # noqa: BLE001 # a foreign object: whatever it raises, the field is not to be had
        return None


def _name_in(holders: list[Mapping[str, Any]]) -> str:
    outer = holders[0].get("function")
    named: Any = outer if isinstance(outer, str) else None
    for fields in holders:
        named = _first(fields, _NAMES) or named
    if named is None:
        return ""
    if not isinstance(named, str):
        raise _UnclearError(f"The name of the tool must be text, not {_kind(named)}. {_A_CALL}")
    return whole_characters(named)


def _arguments_in(holders: list[Mapping[str, Any]]) -> Any:
    given = [(key, fields[key]) for fields in holders for key in _ARGUMENTS if fields.get(key) is not None]
    for field, _ in given[1:]:
        if not _are_same(given):
            raise _UnclearError(f"The arguments are given twice, as {given[0][0]!r} and as {field!r}. {_A_CALL}")
    _refuse_unknown(holders, is_complete=any(key in fields for fields in holders for key in _ARGUMENTS))
    if not given:
        return None
    field, value = given[0]
    is_custom = "custom" in holders[0] or holders[0].get("type") == "custom_tool_call"
    return {"input": value} if is_custom and field == "input" else value


def _are_same(given: list[tuple[str, Any]]) -> bool:
    try:
        return all(bool(value == given[0][1]) for _, value in given)
    except Exception:  # noqa: BLE001 # whatever a comparison of foreign values raises, they are not the same
        return False


def _refuse_unknown(holders: list[Mapping[str, Any]], *, is_complete: bool) -> None:
    """Raise for a field that may have been meant as another; where there are no arguments, any unknown one may."""
    for field in _unknown(holders):
        near = _OFTEN_MEANT.get(field) or next(iter(get_close_matches(field.lower(), _READ, n=1, cutoff=0.75)), None)
        if near is not None or not is_complete:
            meant = f"; did you mean {near!r}?" if near else "."
            raise _UnclearError(f"The call has an unknown field {printable_name(field)!r}{meant} {_A_CALL}")


def _unknown(holders: list[Mapping[str, Any]]) -> Iterator[str]:
    for fields in holders:
        for key in fields:
            if key not in _KNOWN:
                yield str(key)


def _first(fields: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    for key in keys:
        if (value := fields.get(key)) is not None and value != "":
            return value
    return None


def _text_of(field: str, value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return whole_characters(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        return str(value)
    raise _UnclearError(f"The {field} of a call must be text, not {_kind(value)}. {_A_CALL}")


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "true or false", str: "text", list: "a list", dict: "an object"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else "something else")
