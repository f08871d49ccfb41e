"""Cuts long texts for the model, and says so."""

from __future__ import annotations

from typing import Final

from .jsonable import to_jsonable
from .strict import JsonValue, json_text

__all__ = ["MIN_LIMIT", "shorten", "shorten_json"]

MIN_LIMIT: Final = 100
"""Characters; below it the marker that tells of the cut would leave no room for the text."""


def shorten(text: str, limit: int) -> str:
    r"""`text` in at most `limit` characters: its head and its tail, and between them a line with the full size.

    Raises:
        ValueError: `limit` is below `MIN_LIMIT`.

    >>> shorten("x" * 1000, 100).replace("x", "")
    '\n[... truncated: 1000 characters in full ...]\n'
    """
    _check(limit)
    if len(text) <= limit:
        return text
    marker = f"\n[... truncated: {len(text)} characters in full ...]\n"
    tail = (limit - len(marker)) // 3
    return text[: limit - len(marker) - tail] + marker + text[len(text) - tail :]


def shorten_json(value: JsonValue, limit: int) -> str:
    """The JSON text of `value` in at most `limit` characters; what is too long loses values, never half a token.

    The JSON is followed by a line with the full size when something was left out.

    Raises:
        ValueError: `limit` is below `MIN_LIMIT`.

    >>> print(shorten_json(list(range(1000)), 100))
    [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]
    [truncated: 3891 characters in full]
    """
    _check(limit)
    text = json_text(value)
    if len(text) <= limit:
        return text
    note = f"\n[truncated: {len(text)} characters in full]"
    room = size = limit - len(note)
    while True:
        text = json_text(to_jsonable(value, max_size=size).value)
        if len(text) <= room:
            return text + note
        # Quotes, commas and escapes are not in the size; fewer values than before remain, so that this ends.
        size = max(1, size * room // len(text))


def _check(limit: int) -> None:
    if limit < MIN_LIMIT:
        raise ValueError(f"limit must be at least {MIN_LIMIT} characters, not {limit}")
