"""JSON for a person who is to agree to it: nothing in it is invisible, and nothing changes how the rest is seen."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import lru_cache
from typing import Any, Final

from .jsonable import to_jsonable

_UNSEEN_KINDS: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
# Letters, marks and symbols by their kind, and blank or nothing at all on the screen.
_UNSEEN: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
_NOT_ASCII: Final = re.compile(r"[^\x20-\x7e]")


def visible_json(value: Any, *, indent: int | None = None) -> str:
    r"""The exact JSON text of a value, on one line unless it is indented, with an escape for every character that cannot be seen as such.

    Escaped are control characters, those that change the direction of writing, spaces other than the plain one, and
    whatever shows nothing. The text is JSON all the same: read back, it is the value. Numbers are written in full.

    Example:
        >>> print(visible_json({"to": "Ann\u202e", "id": 9007199254740993, "note": "a\nb é"}))
        {"to": "Ann\u202e", "id": 9007199254740993, "note": "a\nb é"}
    """
    text = json.dumps(to_jsonable(value).value, ensure_ascii=False, indent=indent)
    # Within its texts JSON has no line ends of its own: those that are there lay it out.
    return "\n".join(_NOT_ASCII.sub(lambda found: _shown(found[0]), line) for line in text.split("\n"))


@lru_cache(4096)
def _shown(character: str) -> str:
    if unicodedata.category(character) not in _UNSEEN_KINDS and not _UNSEEN.match(character):
        return character
    return json.dumps(character)[1:-1] if ord(character) != 0x7F else "\\u007f"
