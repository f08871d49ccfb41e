"""What a provider says that nobody here knows: kept as it came, and sent back with the message or call it came with.

Providers put things beside a call or a text that they want back unchanged (thought signatures, reasoning), and refuse
the next request without them. In a stream they come in pieces, like everything else.

>>> held = {}
>>> gather(held, {"reasoning_details": [{"index": 0, "type": "reasoning.text", "text": "2 and "}]})
>>> gather(held, {"reasoning_details": [{"index": 0, "type": "reasoning.text", "text": "3"}], "role": "assistant"}, ("role",))
>>> held
{'reasoning_details': [{'index': 0, 'type': 'reasoning.text', 'text': '2 and 3'}]}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

__all__ = ["gather"]

_SAID_AGAIN = frozenset({"type", "id", "format", "name", "role", "index", "status", "object"})
"""Fields whose text is whole in each piece; every other text is appended to."""


def gather(held: dict[str, Any], piece: Mapping[str, Any], known: Collection[str] = ()) -> None:
    """Add to what is held whatever a piece has beside the known fields.

    Texts are appended, objects merged, lists extended (an item with an `index` goes on with the one that has it), and
    of everything else the newest stays. `None` says nothing.
    """
    for name, value in piece.items():
        if name not in known and value is not None:
            held[name] = _merged(name, held.get(name), value)


def _merged(name: str, held: Any, piece: Any) -> Any:
    if isinstance(piece, Mapping):
        merged = dict(held) if isinstance(held, Mapping) else {}
        gather(merged, piece)
        return merged | {key: None for key, value in piece.items() if value is None and key not in merged}
    if isinstance(piece, list | tuple):
        return _extended(held if isinstance(held, list) else [], piece)
    if isinstance(piece, str) and isinstance(held, str) and not (name in _SAID_AGAIN and piece == held):
        return held + piece
    return piece


def _extended(held: list[Any], items: Collection[Any]) -> list[Any]:
    extended = list(held)
    for item in items:
        index = _index_of(item)
        same = (place for place, each in enumerate(extended) if index is not None and _index_of(each) == index)
        place = next(same, None)
        if place is None:
            extended.append(_merged("", None, item))
        else:
            extended[place] = _merged("", extended[place], item)
    return extended


def _index_of(item: Any) -> Any:
    return item.get("index") if isinstance(item, Mapping) else None
