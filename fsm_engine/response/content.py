"""Binary content in a result: where it is, what it is, and what the model reads in its place.

Base64 says nothing to a model and costs it a token for every character and a half. `data` keeps it as it was; in the
text stands how much of what it is. What counts as binary content:

- bytes, which are ``{"base64": ..., "size": n}`` in JSON,
- content blocks, as MCP and the providers write them: an object with base64 text in a field such as ``data`` or
  ``blob``, and beside it (or around it) a media type or a ``type`` such as ``image`` or ``audio``,
- ``data:`` addresses, alone or inside a text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..jsonable.strict import JsonValue, json_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Attachment", "attachments", "in_words", "is_address", "may_hold_binary", "read_data", "shown"]

_FIELDS: Final = ("data", "blob", "base64", "b64_json", "file_data", "bytes", "body")
_SAYS_SO: Final = frozenset({"base64", "blob", "b64_json"})  # fields whose very name says that it is base64
_TYPE_FIELDS: Final = ("mimeType", "mime_type", "media_type", "mediaType", "contentType", "content_type")
_KINDS: Final = frozenset(
    {"image", "audio", "video", "blob", "file", "document", "base64", "binary", "input_audio", "resource"}
)
_ABOUT: Final = frozenset({*_TYPE_FIELDS, "type", "format", "encoding", "size", "detail"})
_BYTES_FIELDS: Final = {"base64", "size"}
_SHORTEST: Final = 16
_UNKNOWN: Final = "application/octet-stream"

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_\-\s]+=*\s*")
_ADDRESS: Final = re.compile(
    r"data:([\w.+-]{1,60}/[\w.+-]{1,60})?(?:;[\w.+=-]{1,60}){0,5};base64,([A-Za-z0-9+/_%-]{16,}+=*)"
)
_MEDIA_TYPE: Final = re.compile(r"\s*([\w.+-]{1,60}/[\w.+-]{1,60})\s*(?:;|$)")
_MARKS: Final = ('"base64":"', '"data":"', '"blob":"', '"b64_json":"', '"file_data":"', '"bytes":"', '"body":"')
_IN_ADDRESS: Final = ";base64,"

# The first characters of the base64 text of common formats.
_BEGINNINGS: Final[Mapping[str, str]] = {
    "iVBORw0KGgo": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "Qk0": "image/bmp",
    "JVBERi": "application/pdf",
    "UEsDB": "application/zip",
    "H4sI": "application/gzip",
    "SUQz": "audio/mpeg",
    "T2dnUw": "audio/ogg",
}


@dataclass(frozen=True, slots=True)
class Attachment:
    """One piece of binary content in the data of a response.

    Attributes:
        media_type: such as ``image/png``; ``application/octet-stream`` where nothing is known.
        size: in bytes.
        base64: the content, in the standard alphabet or the one for addresses.
    """

    media_type: str
    size: int
    base64: str = field(repr=False)


def attachments(data: JsonValue) -> tuple[Attachment, ...]:
    """All binary content in the data of a response, in its order.

    >>> attachments([{"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgoAAAAA"}])
    (Attachment(media_type='image/png', size=12),)
    """
    return tuple(_Reading().walk(data))


def shown(data: JsonValue) -> JsonValue:
    """The data as the model reads it: words in the place of binary content. Shares nothing that was replaced."""
    return _Reading().replaced(data, "")


def in_words(text: str) -> str:
    """A text with words in the place of the `data:` addresses in it.

    >>> in_words("![plot](data:image/png;base64,iVBORw0KGgoAAAAA)")
    '![plot]((12 bytes of image/png, not shown))'
    """
    return _ADDRESS.sub(lambda match: _words(_of_address(match)), text) if _IN_ADDRESS in text else text


def is_address(text: str) -> bool:
    """Whether a text is one `data:` address and nothing else."""
    return _ADDRESS.fullmatch(text.strip()) is not None


def may_hold_binary(text: str) -> bool:
    """Whether it is worth looking closer at data with this JSON text."""
    return len(text) > _SHORTEST and (_IN_ADDRESS in text or any(mark in text for mark in _MARKS))


def read_data(data: JsonValue) -> tuple[str, bool]:
    """The text that the model reads of data without a text of its own, and whether it is words for binary content alone."""
    text = data if isinstance(data, str) else json_text(data)
    if not may_hold_binary(text):
        return text, False
    reading = _Reading()
    value = reading.replaced(data, "")
    if not reading.found:
        return text, False
    return value if isinstance(value, str) else json_text(value), not reading.holds_more


class _Reading:
    """One way through a JSON value. `found`: there was binary content; `holds_more`: there was something else, too."""

    def __init__(self) -> None:
        self.found = self.holds_more = False

    def walk(self, value: JsonValue, around: str = "") -> Iterator[Attachment]:
        if isinstance(value, str):
            yield from map(_of_address, _ADDRESS.finditer(value) if _IN_ADDRESS in value else ())
        elif isinstance(value, list):
            for item in value:
                yield from self.walk(item, around)
        elif isinstance(value, dict):
            name, piece = _of_object(value, around)
            if piece is not None:
                yield piece
            kind = _kind(value) or around
            for key, item in value.items():
                if key != name:
                    yield from self.walk(item, kind)

    def replaced(self, value: JsonValue, around: str) -> JsonValue:
        if isinstance(value, list):
            return [self.replaced(item, around) for item in value]
        if isinstance(value, dict):
            return self._replaced_object(value, around)
        if isinstance(value, str):
            text = in_words(value)
            self.found |= text != value
            self.holds_more |= text == value or len(text) > len(value) or not is_address(value)
            return text
        self.holds_more |= value is not None
        return value

    def _replaced_object(self, value: dict[str, JsonValue], around: str) -> JsonValue:
        name, piece = _of_object(value, around)
        if piece is None:
            kind = _kind(value) or around
            return {key: self._beside(key, item, kind) for key, item in value.items()}
        self.found = True
        if name == "base64" and set(value) == _BYTES_FIELDS:
            return _words(piece)
        return {key: _words(piece) if key == name else self._beside(key, item, "here") for key, item in value.items()}

    def _beside(self, key: str, item: JsonValue, kind: str) -> JsonValue:
        """A field that only says what the content beside it is holds nothing of its own."""
        if kind and key in _ABOUT and not isinstance(item, dict | list):
            return in_words(item) if isinstance(item, str) else item
        return self.replaced(item, kind)


def _kind(value: dict[str, JsonValue]) -> str:
    kind = value.get("type")
    return kind if isinstance(kind, str) and (kind in _KINDS or kind.removesuffix("_url") in _KINDS) else ""


def _of_object(value: dict[str, JsonValue], around: str) -> tuple[str, Attachment | None]:
    """The field of an object that holds base64, and what it holds."""
    is_bytes = set(value) == _BYTES_FIELDS and type(value["size"]) is int  # what bytes become in JSON
    media_type = next((each for key in _TYPE_FIELDS if (each := _media_type(value.get(key)))), None)
    says_so = media_type is not None or around or _kind(value) or value.get("encoding") == "base64"
    for name in _FIELDS:
        text = value.get(name)
        if not isinstance(text, str) or not (says_so or name in _SAYS_SO):
            continue
        if (is_bytes or len(text) >= _SHORTEST) and _BASE64.fullmatch(text) and not _is_prose(text):
            return name, _attachment(text, media_type)
    return "", None


def _media_type(value: JsonValue) -> str | None:
    """`image/png` of `image/png; charset=binary`; `None` for what is no media type."""
    found = _MEDIA_TYPE.match(value) if isinstance(value, str) else None
    return None if found is None else found[1]


def _is_prose(text: str) -> bool:
    """Words between spaces are no base64, which breaks its lines at one length."""
    return " " in text.strip()


def _of_address(match: re.Match[str]) -> Attachment:
    return _attachment(match[2], match[1])


def _attachment(text: str, media_type: str | None) -> Attachment:
    found = media_type or next((kind for start, kind in _BEGINNINGS.items() if text.startswith(start)), _UNKNOWN)
    characters = sum(map(len, text.split())) - text.count("=")
    return Attachment(found, characters * 3 // 4, text)


def _words(piece: Attachment) -> str:
    size, unit = float(piece.size), "bytes"
    for larger in ("kB", "MB"):
        if size >= 1000:
            size, unit = size / 1000, larger
    amount = f"{size:.0f}" if unit == "bytes" or size >= 10 else f"{size:.1f}"
    return f"({amount} {'byte' if piece.size == 1 else unit} of {piece.media_type}, not shown)"
