"""The type of a strict JSON value, its text, and how it is read from one."""

from __future__ import annotations

from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from .characters import whole_characters, whole_escapes

__all__ = ["JsonValue", "NotFiniteError", "json_text", "own_json", "read_json"]

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"


def json_text(value: JsonValue) -> str:
    """The JSON text of a strict value, on one line; four times as fast as `json.dumps`.

    >>> json_text({"n": [1, None]})
    '{"n":[1,null]}'
    """
    return to_json(value, inf_nan_mode="strings").decode()


class NotFiniteError(ValueError):
    """A number that JSON has no way to write, or that is too large for a float. `path` says where it stands."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path or 'the value'} is no finite number")
        self.path = path


def read_json(text: str) -> Any:
    r"""The value of a JSON text, with whole characters and finite numbers only.

    Raises:
        ValueError: it is no JSON; `NotFiniteError`: a number in it is too large.

    >>> read_json('{"n": [1, null]}')
    {'n': [1, None]}
    """
    try:
        value = from_json(text, allow_inf_nan=False, cache_strings="keys")
    except TypeError:  # half a character in the text itself
        return read_json(whole_characters(text))
    except ValueError as error:
        if "hex escape" not in str(error) or (mended := whole_escapes(text)) == text:
            raise
        return read_json(mended)
    kind = value.__class__
    if kind is dict or kind is list or kind is float:
        _check_finite(value)
    return value


def own_json(value: Any) -> Any:
    """A copy of a value of JSON's types with whole characters; what is of another type stays as it is.

    Raises:
        NotFiniteError: a number in it is infinite or NaN.
        RecursionError: it is too deep; look before.
    """
    _check_finite(value)
    return _own(value)


def _own(value: Any) -> Any:
    if value.__class__ is str:
        return whole_characters(value)
    if isinstance(value, dict):
        return {whole_characters(key) if key.__class__ is str else key: _own(inner) for key, inner in value.items()}
    return [_own(inner) for inner in value] if isinstance(value, list) else value


def _check_finite(value: Any) -> None:
    """Raise for the first number that is not finite; most values are looked at and no more, as this is done for each call."""
    path = _not_finite(value)
    if path is not None:
        raise NotFiniteError(path)


def _not_finite(value: Any) -> str | None:
    kind = value.__class__
    if kind is float:
        return None if value - value == 0.0 else ""
    if kind is dict:
        for key, inner in value.items():
            kind = inner.__class__
            if (kind is float or kind is dict or kind is list) and (below := _not_finite(inner)) is not None:
                return f"{key}{below}" if below.startswith("[") or not below else f"{key}.{below}"
    elif kind is list:
        for place, inner in enumerate(value):
            kind = inner.__class__
            if (kind is float or kind is dict or kind is list) and (below := _not_finite(inner)) is not None:
                return f"[{place}]{below}" if below.startswith("[") or not below else f"[{place}].{below}"
    return None
