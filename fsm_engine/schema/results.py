"""What a tool's result is held to before anybody reads it: the output schema, and the length of the model's text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..errors.codes import Effect, ToolErrorCode
from ..errors.issue import Issue
from ..jsonable.truncation import shorten, shorten_json
from ..response.content import read_data, shown
from ..response.tool_response import ToolResponse
from .shape import Path
from .words import readable

if TYPE_CHECKING:
    from .compiled import CompiledSchema

__all__ = ["shortened", "unfit_result"]

_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
"""What strict JSON has in place of the numbers that it lacks."""


def unfit_result(tool: str, data: Any, schema: CompiledSchema, effect: Effect) -> ToolResponse:
    """The error for a result that does not fit the tool's own output schema; it never counts against the circuit.

    Args:
        effect: what the call has done, since its function has run to its end.

    A number that is not finite is named as what it was, not as the text that stands for it in JSON.
    """
    lost = tuple(_lost_numbers(data, schema))
    problem = "a number that is not finite" if lost else "something that does not fit its own output schema"
    return ToolResponse.error(
        ToolErrorCode.EXECUTION_ERROR,
        f"{tool} answered with {problem}; this is a fault of the tool, and asking again will not help.",
        reason="result_not_finite" if lost else "output_schema",
        issues=lost or schema.issues(data),
        effect=effect,
        counts=False,
    )


def _lost_numbers(value: Any, schema: CompiledSchema, path: Path = ()) -> Iterator[Issue]:
    if isinstance(value, str):
        if value in _NOT_FINITE and not schema.admits_string(path):
            where = readable(path)
            yield Issue("result_not_finite", where, "type", f"{where or 'top level'}: must be a finite number")
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _lost_numbers(inner, schema, (*path, key))


def shortened(response: ToolResponse, limit: int) -> ToolResponse:
    """The response with a text of at most `limit` characters; `data` has the whole of it, `full_size` its length.

    Text loses its middle, JSON loses values, never half a token. A full success becomes partial.
    """
    text, data, info = response.text, response.data, response.error_info
    stats = {"full_size": len(text), **response.stats}
    if info is not None:
        info = replace(info, message=shorten(info.message, limit))
        return replace(response, text=info.message, data=text if data is None else data, error_info=info, stats=stats)
    return ToolResponse.partial(
        shorten_json(shown(data), limit) if data is not None and text == read_data(data)[0] else shorten(text, limit),
        text if data is None else data,
        reason=response.reason or "truncated",
        stats=stats,
        context=response.context,
    )
