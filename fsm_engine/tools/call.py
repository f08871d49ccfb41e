"""What the model asked for, as it arrived: `ToolCall`; its name in texts, its fingerprint, its made id."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NamedTuple

from ..errors.codes import ToolErrorCode
from ..errors.exceptions import ToolError
from ..jsonable.jsonable import to_jsonable

_NAME_ECHO_LIMIT = 64


class ToolCall(NamedTuple):
    """One request of the model.

    Attributes:
        name: the tool that it asks for.
        arguments: JSON text, a dictionary, or nothing; whatever the model or its SDK produced.
        id: the model's id of the call; `None` or empty: one is made.
        version: the version of the tool to use; `None`: the engine chooses.
        problem: why it cannot be told what is meant; the call is answered with that and not run. `None`: it can.
    """

    name: str
    arguments: Any = None
    id: str | None = None
    version: str | None = None
    problem: str | None = None


def printable_name(name: str) -> str:
    """A tool's name as the model wrote it, fit to be echoed: letters, digits, `_.-`, the rest as `?`, bounded.

    Example:
        >>> printable_name('fetch_report" />')
        'fetch_report????'
    """
    legal = re.sub(r"[^A-Za-z0-9_.-]", "?", name[: _NAME_ECHO_LIMIT + 1])
    return legal if len(legal) <= _NAME_ECHO_LIMIT else legal[:_NAME_ECHO_LIMIT] + "..."


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr).encode


def canonical_json(arguments: Any) -> str:
    r"""One text for equal arguments, whatever the order of their keys.

    Example:
        >>> print(canonical_json({"b": 1, "a": "é"}))
        {"a":"\u00e9","b":1}
    """
    return _encode(arguments)


def _one_form(value: Any) -> Any:
    """The value with whole numbers as integers, however they were written."""
    kind = type(value)
    if kind is float:
        return int(value) if value.is_integer() else value
    if kind is dict:
        return {key: _one_form(inner) for key, inner in value.items()}
    return [_one_form(inner) for inner in value] if kind is list or kind is tuple else value


def fingerprint(*parts: Any) -> str:
    """Thirty-two hexadecimal digits that equal parts share; to JSON, 2 and 2.0 are one number."""
    try:
        text = canonical_json(_one_form(parts))
    except Exception:  # noqa: BLE001 # keys of several types, a circle, a repr that raises: a caller may hand over anything
        text = canonical_json(_one_form(to_jsonable(parts).value))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def made_id(call: ToolCall, wall: float, uid: str) -> str:
    """An id for a call that came without one: time, fingerprint of the arguments, end of the uid.

    Identical calls share the middle part, so that they can be found in a log, and still differ.
    """
    return f"call_{int(wall * 1000):x}_{fingerprint(call.name, call.arguments)[:8]}_{uid[-6:]}"


def misread_error(problem: str) -> ToolError:
    """What a call is answered with of which nobody can tell what it means."""
    return ToolError(ToolErrorCode.INVALID_PARAM, problem, reason="unclear_call")


def duplicate_id_error() -> ToolError:
    """What every call of a batch is told that shares its id with another."""
    return ToolError(
        ToolErrorCode.INVALID_PARAM,
        "Another call of the same message has this id, so no answer could be told from the other's. "
        "Nothing was run; ask again with an id of its own for each call.",
        reason="duplicate_id",
    )
