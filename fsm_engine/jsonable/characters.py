r"""Text without halves of characters, made where text enters: no encoder, client or database takes a half.

Python's strings, and JSON's escapes, may hold one of the two surrogates that UTF-16 writes a character with. Two that
belong together are joined; one that is alone becomes U+FFFD, the character that stands for what could not be read.

>>> whole_characters("\ud83d\ude00 \ud83d") == "\U0001f600 \ufffd"
True
>>> print(whole_escapes(r'"\ud83d\ude00 \ud83d \\ud83d"'))
"\ud83d\ude00 \ufffd \\ud83d"
"""

from __future__ import annotations

import re

__all__ = ["CharacterJoiner", "whole_characters", "whole_escapes"]

# A pair; a half that is alone; any other escape, whose backslash begins nothing else.
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


def whole_characters(text: str) -> str:
    """`text` with the two halves of a character joined, and a half that is alone replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def whole_escapes(json_text: str) -> str:
    """The JSON text with each escape that is half a character replaced by that of U+FFFD."""
    return _ESCAPE.sub(lambda found: r"\ufffd" if found[1] else found[0], json_text)


class CharacterJoiner:
    r"""Text that comes in pieces, of which each is handed on whole: half a character waits for the other.

    >>> joiner = CharacterJoiner()
    >>> [joiner.add("a\ud83d"), joiner.add("\ude00b") == "\U0001f600b", joiner.rest()]
    ['a', True, '']
    """

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    def add(self, piece: str) -> str:
        """What is whole by now."""
        if self._half:
            piece, self._half = self._half + piece, ""
        if piece and "\ud800" <= piece[-1] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return whole_characters(piece)

    def rest(self) -> str:
        """No more comes: what stands for a half that nothing followed."""
        rest, self._half = whole_characters(self._half), ""
        return rest
