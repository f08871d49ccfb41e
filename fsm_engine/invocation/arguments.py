"""What the model wrote as a call's arguments, read as a JSON object; anything that is none is refused in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors.codes import ToolErrorCode
from ..errors.exceptions import ToolError
from ..errors.issue import Issue
from ..jsonable.strict import NotFiniteError, own_json, read_json
from ..tools.call import ToolCall
from ..tools.spec import ToolSpec

__all__ = ["MAX_ARGUMENT_CHARS", "MAX_ARGUMENT_DEPTH", "Parsed", "check_depth", "own_containers", "parse_arguments"]

MAX_ARGUMENT_CHARS = 1_000_000
MAX_ARGUMENT_DEPTH = 64
"""Deeper ones are a mistake or an attack; the validator would need a stack as deep as they are."""


class Parsed(NamedTuple):
    """Arguments as a JSON object, and what was done to them to make them one."""

    arguments: dict[str, Any]
    notes: tuple[str, ...] = ()


def parse_arguments(call: ToolCall, spec: ToolSpec) -> Parsed:
    """The arguments as a JSON object.

    Nothing at all (`None`, an empty text, `null`) is the empty object. A JSON text that is itself encoded as a JSON
    text is decoded once more. Anything else that is no object is refused. Half a character is joined with its other
    half, or becomes U+FFFD.

    Raises:
        ToolError: `INVALID_FORMAT` (not JSON, not an object) or `INVALID_PARAM` (too big, too deep, a number that is not
            finite).
    """
    raw = call.arguments
    if isinstance(raw, str):
        if len(raw) <= 2 * MAX_ARGUMENT_DEPTH:  # too short to be too deep
            try:
                value = read_json(raw)
            except ValueError:
                value = None
            if isinstance(value, dict):
                return Parsed(value)
        return _parse_text(raw, spec)
    if raw is None:
        return Parsed({}, ("empty_arguments",))
    if isinstance(raw, Mapping):
        check_depth(raw, MAX_ARGUMENT_DEPTH)
        # A copy, or the caller's later changes would reach the record of this call.
        try:
            return Parsed(own_json(dict(raw)))
        except NotFiniteError as error:
            raise _not_finite(error, spec) from None
    raise _not_an_object(spec)


def _parse_text(text: str, spec: ToolSpec) -> Parsed:
    if len(text) > MAX_ARGUMENT_CHARS:
        raise ToolError(
            ToolErrorCode.INVALID_PARAM,
            f"The arguments are {len(text):,} characters long; {MAX_ARGUMENT_CHARS:,} are allowed. Send less at a time.",
            reason="too_big",
        )
    value = _decode(text, spec)
    if value.__class__ is dict:
        if len(text) > MAX_ARGUMENT_DEPTH and text.count("{") + text.count("[") > MAX_ARGUMENT_DEPTH:
            check_depth(value, MAX_ARGUMENT_DEPTH)
        return Parsed(value)
    if value is None:
        return Parsed({}, ("empty_arguments",))
    if isinstance(value, str) and value.lstrip().startswith("{"):
        inner = _decode(value, spec)
        if isinstance(inner, dict):
            check_depth(inner, MAX_ARGUMENT_DEPTH)
            return Parsed(inner, ("doubly_encoded",))
    raise _not_an_object(spec)


def _decode(text: str, spec: ToolSpec) -> Any:
    try:
        return read_json(text)
    except NotFiniteError as error:
        raise _not_finite(error, spec) from None
    except ValueError as error:
        if not text or text.isspace():
            return None
        if "recursion limit" in str(error):
            raise _too_deep() from None
        raise ToolError(
            ToolErrorCode.INVALID_FORMAT,
            f"The arguments are not JSON: {error}. Nothing was run. Send one complete JSON object that fits this schema: "
            f"{_schema_hint(spec)}",
            reason="args_not_json",
        ) from None


def _not_finite(error: NotFiniteError, spec: ToolSpec) -> ToolError:
    message = f"{error.path or 'the arguments'}: must be a finite number, at most about 1.8e308"
    return ToolError(
        ToolErrorCode.INVALID_PARAM,
        f"{spec.name} was not called, as its arguments are not valid: {message}",
        reason="not_finite",
        issues=(Issue("not_finite", error.path, "finite", message),),
    )


def _not_an_object(spec: ToolSpec) -> ToolError:
    return ToolError(
        ToolErrorCode.INVALID_FORMAT,
        f"The arguments must be one JSON object. Nothing was run. The schema is: {_schema_hint(spec)}",
        reason="args_not_object",
    )


def _schema_hint(spec: ToolSpec) -> str:
    text = json.dumps(spec.parameters, separators=(",", ":"))
    return text if len(text) <= 2_000 else f"an object with {', '.join(spec.parameters.get('properties', {}))}"


def _too_deep() -> ToolError:
    return ToolError(
        ToolErrorCode.INVALID_PARAM,
        f"The arguments are nested more than {MAX_ARGUMENT_DEPTH} levels deep. Send a flatter value.",
        reason="too_deep",
    )


def check_depth(value: Any, left: int) -> None:
    """Raise a `ToolError` for a value of more than this many levels."""
    if left == 0:
        raise _too_deep()
    for inner in value.values() if isinstance(value, Mapping) else value:
        if isinstance(inner, Mapping | list | tuple):
            check_depth(inner, left - 1)


def own_containers(value: Any) -> Any:
    """The value with dictionaries and lists of its own."""
    if isinstance(value, dict):
        return {key: own_containers(inner) for key, inner in value.items()}
    return [own_containers(inner) for inner in value] if isinstance(value, list) else value
