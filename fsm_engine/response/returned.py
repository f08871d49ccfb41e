"""What a tool call gives back: one frozen form for success, partial result and error, always strict JSON.

:class:`ToolResponse` is made by its factories :meth:`~ToolResponse.success`, :meth:`~ToolResponse.partial` and
:meth:`~ToolResponse.error`, by :meth:`~ToolResponse.from_exception` of what a tool raised, and by :func:`standardise`
of what it returned.
"""

from __future__ import annotations

from asyncio import Future, Task
from collections.abc import Mapping
from types import AsyncGeneratorType, CoroutineType, FunctionType
from typing import Any, Final

from ..errors.codes import ToolErrorCode
from ..errors.issue import Issue
from ..jsonable.jsonable import MAX_DEPTH, MAX_SIZE, NOT_PLAIN, copy_plain, to_jsonable
from ..jsonable.normalise import Normaliser
from ..jsonable.strict import json_text
from .content import Attachment, may_hold_binary
from .error_info import ErrorInfo
from .model_text import LOSSY
from .tool_response import ESCAPED_NUL, Facts, ToolResponse, ToolStatus, build, complete_later, completed, fill

__all__ = [
    "Attachment",
    "ErrorInfo",
    "Facts",
    "Issue",
    "ToolResponse",
    "ToolStatus",
    "complete_later",
    "completed",
    "standardise",
]

_DONE: Final = "Done. The tool returned nothing."
_SUCCESS: Final = ToolStatus.SUCCESS
_RETURN_THIS: Final = "Return text, numbers, lists, dictionaries, a dataclass, a pydantic model, or a ToolResponse."
_NOT_AWAITED: Final = "It was never awaited: put `await` before the call, or return what it gives."
_ADVICE: Final[Mapping[type, str]] = {
    CoroutineType: _NOT_AWAITED,
    Future: _NOT_AWAITED,
    Task: _NOT_AWAITED,
    AsyncGeneratorType: "Read it first: `[item async for item in ...]`.",
    FunctionType: "Call it, and return what it gives.",
    type: "Make an object of it, and return what that holds.",
}


def standardise(value: Any, *, stats: Facts | None = None, context: Facts | None = None) -> ToolResponse:
    """Make a response of whatever a tool returned; never raises for what the value is or does.

    A `ToolResponse` keeps its content and gets the missing `stats` and `context`. Text is a success with that text,
    ``None`` one that says so; any other value becomes `data`, an iterator the list of its first 10,000 items. A value
    of which nothing but the name of its type is left is an error that tells the tool's author what to return.

    >>> standardise({"sum": 5}, stats={"time_ms": 0.2}).to_dict()["data"]
    {'sum': 5}
    >>> standardise({"id": 7, "handle": object()}).reason
    'unserialisable'
    >>> standardise(object()).error_info.reason
    'unusable_result'
    """
    try:
        data = copy_plain(value)
    except NOT_PLAIN:
        response = _of_object(value)
    else:
        if type(data) is str:
            is_easy = "\0" not in data and ";base64," not in data
            response = fill(_SUCCESS, data, None, None, {}, {}, None) if is_easy else build(_SUCCESS, data, None)
        elif data is None:
            response = fill(_SUCCESS, _DONE, None, None, {}, {}, None)
        else:
            text = json_text(data)
            is_easy = ESCAPED_NUL not in text and not may_hold_binary(text)
            response = fill(_SUCCESS, text, data, None, {}, {}, None) if is_easy else build(_SUCCESS, "", data)
    return response.with_facts(stats=stats, context=context) if stats or context else response


def _of_object(value: Any) -> ToolResponse:
    kind = type(value)
    if issubclass(kind, ToolResponse):
        return _own(value)
    if issubclass(kind, str):
        text, lossy, _ = to_jsonable(value)
        stats = {LOSSY: list(lossy)} if lossy else None
        status = ToolStatus.PARTIAL if lossy else _SUCCESS
        return build(status, str(text), None, None, stats, None, "truncated" if lossy else None)
    work = Normaliser(MAX_DEPTH, MAX_SIZE, reads_iterators=True)
    data = work.visit(value)
    if not work.lossy:
        return build(_SUCCESS, "", data)
    if not work.is_usable and (isinstance(data, str) or not work.truncated):
        return _unusable(value)
    reason = "truncated" if work.truncated else "unserialisable"
    # It was cut to size once; marks of what was left out come on top of the size.
    return build(ToolStatus.PARTIAL, "", data, None, {LOSSY: work.lossy}, None, reason, 2 * MAX_SIZE)


def _unusable(value: Any) -> ToolResponse:
    """The error of a result that holds nothing but names of types."""
    is_container = isinstance(value, dict | list | tuple | set | frozenset)
    name = f"a {type(value).__name__} of such values" if is_container else str(Normaliser(1, 1_000).visit(value))
    inner = next(iter(value.values() if isinstance(value, dict) else value), None) if is_container else value
    return _unusable_named(name, _ADVICE.get(type(inner), _RETURN_THIS))


def _unusable_named(name: str, advice: str = _RETURN_THIS) -> ToolResponse:
    """What it was is told to the model, what to return instead to the tool's author."""
    return ToolResponse.error(
        ToolErrorCode.EXECUTION_ERROR,
        f"The tool answered with {name}, of which nothing can be read; this is a fault of the tool, and asking again "
        "will not help.",
        reason="unusable_result",
        detail=f"A tool returned {name}. {advice}",
        counts=False,
    )


def _own(response: ToolResponse) -> ToolResponse:
    """The same content in new containers: the tool may go on changing those that it was given."""
    if response.reason == "unserialisable" and response.stats.get(LOSSY) == ["$"]:
        data = response.data
        if isinstance(data, str) and data.startswith("<") and response.text == data:  # `data=` was such a value
            return _unusable_named(data)
    return build(
        response.status,
        response.text,
        response.data,
        response.error_info,
        response.stats,
        response.context,
        response.reason,
    )
