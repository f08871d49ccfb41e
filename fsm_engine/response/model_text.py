"""What the model reads of a response: plain words that let it change course instead of repeating the call."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ..errors.codes import Effect, ToolErrorCode
from ..jsonable.strict import json_text
from ..jsonable.truncation import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..errors.issue import Issue
    from ..jsonable.strict import JsonValue
    from .error_info import ErrorInfo

__all__ = ["LOSSY", "approval_text", "error_text", "partial_text"]

LOSSY: Final = "lossy"
"""The entry of `stats` with the JSON paths at which data could not be represented or was left out."""

_C = ToolErrorCode
_LIKELY_AGAIN: Final = "The same call is likely to fail again: choose another way, or tell the user."
_REFUSED: Final = (
    "The service refused it. See whether the arguments are the reason, choose another way, or tell the user."
)
_CHANGE_LIMIT: Final = 500
"""Characters of an argument in the line on what was changed."""
_LATER: Final = "Try again later, or use another tool."

_NEXT_STEP: Final[Mapping[str, str]] = {
    _C.NOT_FOUND: "Check the name, or look up what exists.",
    _C.ACCESS_DENIED: "Do not repeat the call: the credentials were not accepted. Tell the user.",
    _C.PERMISSION_DENIED: "Do not repeat the call: it is not allowed. Choose another way, or tell the user.",
    _C.IS_DIRECTORY: "Name a file, or list the directory.",
    _C.BINARY_FILE: "Do not read it as text: choose another file, or a tool for this kind of file.",
    _C.INVALID_PARAM: "Correct the arguments and call again.",
    _C.INVALID_FORMAT: "Correct the form of the arguments and call again.",
    _C.EXECUTION_ERROR: _LIKELY_AGAIN,
    _C.TIMEOUT: "Ask for less, or try again later.",
    _C.INTERNAL_ERROR: "The fault is not in the arguments. Go on without this tool, or tell the user.",
    _C.CONFLICT: "Look at the current state before you try again.",
    _C.CIRCUIT_OPEN: "The tool is out of service for now. Go on without it, or use another tool.",
    _C.NETWORK_ERROR: _LATER,
    _C.API_ERROR: _LATER,
    _C.RATE_LIMIT: "Wait before you call this tool again.",
    _C.CANCELLED: "Do not repeat the call unless the user asks for it.",
    _C.APPROVAL_DENIED: "Do not repeat the call. Ask the user how to go on.",
    _C.APPROVAL_EXPIRED: "Nobody answered in time. Ask the user before you call again.",
}

# What the model can put right by itself: then another call is what is wanted, whatever became of this one.
_ARGUMENTS: Final = frozenset({_C.INVALID_PARAM, _C.INVALID_FORMAT})
# That it was not run is what these say already.
_NOT_RUN: Final = frozenset({*_ARGUMENTS, _C.NOT_FOUND, _C.CIRCUIT_OPEN, _C.APPROVAL_DENIED, _C.APPROVAL_EXPIRED})
# Steps that lead to another call of the same tool.
_REPEATS: Final = frozenset({_LATER, *(_NEXT_STEP[code] for code in (_C.TIMEOUT, _C.RATE_LIMIT))})

_EFFECT_WORDS: Final[Mapping[Effect, str]] = {
    Effect.NONE: "The call had no effect.",
    Effect.DONE: "The call took effect before it failed: do not repeat it.",
    Effect.UNKNOWN: "It is unknown whether the call took effect: check before you call again.",
}


def partial_text(text: str, reason: str | None, stats: Mapping[str, JsonValue]) -> str:
    """The text of a partial result, after a line that says that it is incomplete, and why."""
    paths = stats.get(LOSSY)
    age = stats.get("age_s")
    old = f" It is {_duration(age)} old." if isinstance(age, int | float) else ""
    where = f" Left out or not representable: {', '.join(map(str, paths))}." if isinstance(paths, list) else ""
    return f"This result is incomplete. Reason: {reason}.{old}{where}\n{text}"


def error_text(info: ErrorInfo) -> str:
    """Code, message, each failed check, what is known of the effect, how long to wait, and what to do next."""
    return "\n".join(_error_lines(info))


def approval_text(approval: Mapping[str, JsonValue]) -> str:
    """A line on who decided, when, and what was changed; nothing, if somebody unnamed agreed to the call as it was."""
    by, at, changed = approval.get("by"), approval.get("at"), approval.get("changed")
    if not by and not changed:
        return ""
    when = f" at {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC" if isinstance(at, int | float) else ""
    line = f"\nThis call was {approval.get('verdict')} by {by or 'a person'}{when}"
    if not isinstance(changed, dict) or not changed:
        return f"{line}."
    return f"{line}, who changed the arguments: {'; '.join(_change(name, changed[name]) for name in changed)}."


def _change(name: str, change: JsonValue) -> str:
    old, new = (
        shorten(json_text(change[key]), _CHANGE_LIMIT) if isinstance(change, dict) and key in change else "left out"
        for key in ("from", "to")
    )
    return f"{name} is {new}, was {old}"


def _error_lines(info: ErrorInfo) -> Iterator[str]:
    yield f"Error {info.code}: {info.message}"
    # What the message says already is not said again: every line costs the model tokens.
    yield from (_issue_line(issue) for issue in info.issues if not issue.message or issue.message not in info.message)
    if info.effect is not None and not (info.effect is Effect.NONE and info.code in _NOT_RUN):
        yield _EFFECT_WORDS[info.effect]
    if info.retry_after is not None:
        yield f"Wait at least {_duration(info.retry_after)} before the next try."
    step = _next_step(info)
    # A call that may have taken effect is not to be made again just so: the line on the effect says what to do.
    if step not in _REPEATS or info.effect in (None, Effect.NONE):
        yield step


def _next_step(info: ErrorInfo) -> str:
    if info.code == _C.API_ERROR and not info.transient:
        return _REFUSED
    return _NEXT_STEP.get(info.code, _LATER if info.transient else _LIKELY_AGAIN)


def _issue_line(issue: Issue) -> str:
    rule = f" (rule: {issue.rule})" if issue.rule else ""
    allowed = f" Allowed: {json_text(issue.allowed)}." if issue.allowed is not None else ""
    path = f"{issue.path}: " if issue.path else ""
    return f"- {path}{issue.message or issue.reason}{rule}{allowed}"


def _duration(seconds: float) -> str:
    for unit, size in (("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size:
            return f"{math.ceil(seconds / size)} {unit}s"
    number = max(1, math.ceil(seconds))
    return f"{number} second{'s' if number > 1 else ''}"
