"""Any Python value as a strict JSON value: total, bounded, and made of the exact built-in types.

One serialiser serves results, events, logs and traces. What becomes of a value:

=========================================  ============================================================
``str``, ``int``, ``float``, ``bool``      as it is; a lone surrogate becomes U+FFFD, NaN and the infinities
                                           become ``"NaN"``, ``"Infinity"``, ``"-Infinity"``
an ``int`` of more than 2,048 bits         text in scientific notation (lossy): Python itself refuses to print
                                           very long integers
``bytes``, ``bytearray``, ``memoryview``   text, if it is UTF-8 without control characters;
                                           else ``{"base64": ..., "size": n}``
enum                                       its value
dataclass, named tuple, pydantic model     an object of its fields (of a dataclass: save those whose metadata
                                           says ``{"jsonable": False}``)
mapping                                    an object; a key that is no text is written as its JSON text, and keys
                                           that would fall together are kept apart by ``#2``, ``#3`` (lossy)
sequence, view of values                   an array; a set is sorted, so that it looks the same in every process
date, time, ``timedelta``                  ISO 8601
``UUID``, ``Decimal``, path, IP address    text
pydantic's secrets                         ``"***"``
exception                                  ``{"type": ..., "message": ...}``, redacted
numpy scalar or array                      what its ``tolist()`` gives
anything else, or one that raises          ``"<module.Name>"`` (lossy): its ``repr`` may show a secret
=========================================  ============================================================

Integers above 2**53 stay integers: Python and JSON allow them, JavaScript rounds them.
"""

from __future__ import annotations

import re
from json.encoder import encode_basestring_ascii
from typing import Any, Final, NamedTuple, cast

from .characters import whole_characters
from .normalise import WIDE_INT, Normaliser
from .strict import JsonValue, json_text

__all__ = ["MAX_DEPTH", "MAX_SIZE", "JsonValue", "Jsonable", "json_text", "to_jsonable", "wire_text"]

MAX_DEPTH: Final = 64
"""Levels of nesting, unless told otherwise."""

MAX_SIZE: Final = 10_000_000
"""Characters of text and keys, plus one for each value, unless told otherwise."""

_LOWEST: Final = -WIDE_INT
_NO_CHARACTER: Final = "\ufffd"
_DEEPEST: Final = 200  # well inside Python's own limit of recursion, and that of every JSON parser


class Jsonable(NamedTuple):
    """A strict JSON `value` that shares no container with its source.

    `lossy`: the JSON paths at which something could not be represented or was left out; at most 100, then ``"..."``.
    `truncated`: a bound was reached.
    """

    value: JsonValue
    lossy: tuple[str, ...] = ()
    truncated: bool = False


def to_jsonable(value: Any, *, max_depth: int = MAX_DEPTH, max_size: int = MAX_SIZE) -> Jsonable:
    """Normalise any value by the table of this module; never raises for what the value is or does.

    Args:
        value: Anything. A `KeyboardInterrupt` during the work passes.
        max_depth: Levels of nesting that are kept, 1 to 200.
        max_size: Characters of text and keys, plus one for each value; what is beyond is left out.

    Raises:
        ValueError: A bound is out of its range.

    >>> import datetime
    >>> to_jsonable({"when": datetime.date(2024, 5, 20), "tags": {"b", "a"}, "raw": object()})
    Jsonable(value={'when': '2024-05-20', 'tags': ['a', 'b'], 'raw': '<builtins.object>'}, lossy=('$.raw',), truncated=False)
    """
    if not 1 <= max_depth <= _DEEPEST or max_size < 1:
        raise ValueError(f"max_depth must be 1 to {_DEEPEST} and max_size at least 1, not {max_depth} and {max_size}")
    try:
        return Jsonable(copy_plain(value, max_depth, max_size))
    except NOT_PLAIN:
        return normalise(value, max_depth, max_size)


def normalise(value: Any, max_depth: int = MAX_DEPTH, max_size: int = MAX_SIZE) -> Jsonable:
    """The long way of :func:`to_jsonable`, for a value that :func:`copy_plain` refused."""
    work = Normaliser(max_depth, max_size)
    return Jsonable(work.visit(value), tuple(work.lossy), work.truncated)


def clean_text(text: Any, name: str) -> str:
    """The text of a field as an exact `str` without lone surrogates and U+0000.

    Raises:
        TypeError: It is no text; `name` says which field.
    """
    if type(text) is str and text.isascii() and "\0" not in text:
        return text
    if not isinstance(text, str):
        raise TypeError(f"{name} must be text, not {type(text).__name__}")
    return whole_characters(str.__str__(text)).replace("\0", _NO_CHARACTER)


def without_nul(value: JsonValue) -> JsonValue:
    r"""A JSON value with U+FFFD in the place of every U+0000, which PostgreSQL, for one, cannot keep.

    >>> without_nul({"a\0": ["\0"]})
    {'a�': ['�']}
    """
    if isinstance(value, str):
        return value.replace("\0", _NO_CHARACTER)
    if isinstance(value, list):
        return [without_nul(item) for item in value]
    if isinstance(value, dict):
        # Two keys may become one; the longer name of the second keeps it.
        clean: dict[str, JsonValue] = {}
        for key, item in value.items():
            name = key.replace("\0", _NO_CHARACTER)
            while name in clean:
                name += _NO_CHARACTER
            clean[name] = without_nul(item)
        return clean
    return value


def wire_text(value: Any) -> str:
    r"""The JSON text of any value as it leaves the process: strict, one line, ASCII alone.

    >>> print(wire_text({"answer": "na\u00efve", "rate": float("nan")}))
    {"answer":"na\u00efve","rate":"NaN"}
    """
    try:
        text = json_text(value)
    except ValueError:  # what a caller gave as Python values, or half a character
        text = json_text(to_jsonable(value).value)
    # Outside of its texts JSON is ASCII, and inside of them each character may be written as an escape.
    return text if text.isascii() else _BEYOND_ASCII.sub(lambda found: encode_basestring_ascii(found[0])[1:-1], text)


_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]+")


class _NotPlainError(Exception):
    """The value needs the long way."""


# Beside our own: a lone surrogate, and a container that changes while it is read.
NOT_PLAIN: Final = (_NotPlainError, UnicodeEncodeError, RuntimeError)


def copy_plain(value: Any, max_depth: int = MAX_DEPTH, max_size: int = MAX_SIZE) -> JsonValue:
    """Copy a value that is strict JSON already, as most are; else raise one of `NOT_PLAIN`.

    Exact types only: a subclass may do anything. Written for speed, since every result comes through here.
    """
    kind = type(value)
    if kind is dict:
        return _copy_dict(value, max_depth, [max_size])
    if kind is list:
        return _copy_list(value, max_depth, [max_size])
    if kind is str and value.isascii() and len(value) <= max_size:
        return cast("str", value)
    return _copy_list([value], max_depth, [max_size])[0]


# Both functions look at each value in place: a call for each would double the cost.
def _copy_dict(source: dict[Any, Any], depth: int, left: list[int]) -> dict[str, JsonValue]:  # noqa: C901 # see above
    if not depth:
        raise _NotPlainError
    copy = source.copy()
    size = len(copy)
    for key, value in copy.items():
        if type(key) is not str:
            raise _NotPlainError
        if not key.isascii():
            key.encode()
        size += len(key)
        kind = type(value)
        if kind is str:
            if not value.isascii():
                value.encode()
            size += len(value)
        elif kind is dict:
            copy[key] = _copy_dict(value, depth - 1, left)
        elif kind is list:
            copy[key] = _copy_list(value, depth - 1, left)
        elif kind is int:
            if not (-1_000_000_000 < value < 1_000_000_000 or _LOWEST < value < WIDE_INT):
                raise _NotPlainError
        elif kind is not bool and value is not None and not (kind is float and value - value == 0.0):
            raise _NotPlainError
    left[0] -= size
    if left[0] < 0:
        raise _NotPlainError
    return copy


def _copy_list(source: list[Any], depth: int, left: list[int]) -> list[JsonValue]:  # noqa: C901 # see above
    if not depth:
        raise _NotPlainError
    copy: list[JsonValue] = []
    size = len(source)
    for value in source:
        kind = type(value)
        if kind is str:
            if not value.isascii():
                value.encode()
            size += len(value)
        elif kind is dict:
            value = _copy_dict(value, depth - 1, left)  # noqa: PLW2901 # its copy takes its place
        elif kind is list:
            value = _copy_list(value, depth - 1, left)  # noqa: PLW2901 # as for a dict
        elif kind is int:
            if not (-1_000_000_000 < value < 1_000_000_000 or _LOWEST < value < WIDE_INT):
                raise _NotPlainError
        elif kind is not bool and value is not None and not (kind is float and value - value == 0.0):
            raise _NotPlainError
        copy.append(value)
    left[0] -= size
    if left[0] < 0:
        raise _NotPlainError
    return copy
