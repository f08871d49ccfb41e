"""What a tool call gives back: one frozen form for success, partial result and error, always strict JSON.

:class:`ToolResponse` is made by its factories :meth:`~ToolResponse.success`, :meth:`~ToolResponse.partial` and
:meth:`~ToolResponse.error`, by :meth:`~ToolResponse.from_exception` of what a tool raised, and by :func:`standardise`
of what it returned.
"""

from __future__ import annotations

from typing import Any, Final

from ._error_info import ErrorInfo
from ._issue import Issue
from ._model_text import LOSSY
from ._tool_response import Facts, ToolResponse, ToolStatus, build, complete_later, completed, fill, text_of
from .jsonable import NOT_PLAIN, copy_plain, json_text, to_jsonable

__all__ = ["ErrorInfo", "Facts", "Issue", "ToolResponse", "ToolStatus", "complete_later", "completed", "standardise"]

_DONE: Final = "Done. The tool returned nothing."
_SUCCESS: Final = ToolStatus.SUCCESS


def standardise(value: Any, *, stats: Facts | None = None, context: Facts | None = None) -> ToolResponse:
    """Make a response of whatever a tool returned; never raises for what the value is or does.

    A `ToolResponse` keeps its content and gets the missing `stats` and `context`. Text is a success with that text,
    ``None`` one that says so; any other value becomes `data`.

    >>> standardise({"sum": 5}, stats={"time_ms": 0.2}).to_dict()["data"]
    {'sum': 5}
    >>> standardise({"handle": object()}).reason
    'unserialisable'
    """
    try:
        data = copy_plain(value)
    except NOT_PLAIN:
        response = _of_object(value)
    else:
        if type(data) is str:
            response = fill(_SUCCESS, data, None, None, {}, {}, None)
        elif data is None:
            response = fill(_SUCCESS, _DONE, None, None, {}, {}, None)
        else:
            response = fill(_SUCCESS, json_text(data), data, None, {}, {}, None)
    return response.with_facts(stats=stats, context=context) if stats or context else response


def _of_object(value: Any) -> ToolResponse:
    kind = type(value)
    if issubclass(kind, ToolResponse):
        return _own(value)
    if issubclass(kind, str):
        text, lossy, _ = to_jsonable(value)
        stats = {LOSSY: list(lossy)} if lossy else None
        return build(
            ToolStatus.PARTIAL if lossy else _SUCCESS,
            text_of(text),
            None,
            None,
            stats,
            None,
            "truncated" if lossy else None,
        )
    return build(_SUCCESS, "", value)


def _own(response: ToolResponse) -> ToolResponse:
    """The same content in new containers: the tool may go on changing those that it was given."""
    return build(
        response.status,
        response.text,
        response.data,
        response.error_info,
        response.stats,
        response.context,
        response.reason,
    )
