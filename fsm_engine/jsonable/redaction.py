"""Takes secrets out of texts and of JSON values, before a model, a log or an event can see them.

Best effort, on the safe side: it knows keys that announce a secret (``password=``, ``"api_key":``,
``Authorization:``), passwords in URLs, and the shapes of common tokens. Every pattern takes time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic_core import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from .strict import JsonValue

__all__ = [
    "MASK",
    "exception_text",
    "hidden_values",
    "is_secret_key",
    "mask_values",
    "note_texts",
    "qualified_name",
    "redact",
    "redact_mapping",
    "short_name",
]

MASK: Final = "***"

_MAX_DEPTH: Final = 100
_MOST_NOTES: Final = 5
_SHORTEST_ANYWHERE: Final = 4
_T = TypeVar("_T")

# `token` must end the key: a token count or a limit of tokens is no secret.
_SECRET_KEY: Final = re.compile(
    r"passw(?:or)?d|passphrase|pwd|secret(?!ar)|token$|apikey|accesskey|privatekey|signingkey|authorization|cookie"
    r"|credential"
)

_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"
)
_URL_USERINFO: Final = re.compile(r"""(?<=://)[^\s/?#"'<>]{1,512}@""")

# Quoted (an open quote runs to the end), also inside a quoted text. Possessive, so that nothing is tried twice.
_QUOTED: Final = r"""b?"(?:[^"\\]|\\[\s\S])*+"?|b?'(?:[^'\\]|\\[\s\S])*+'?|\\"[^"]*+"?"""
_SEPARATOR: Final = r"""(?:\\?["'])?\s{0,4}(?:=>|=|:)\s{0,4}"""

# The value of a header is the rest of its line: a scheme and a token, or a row of cookies.
_HEADER: Final = re.compile(
    rf"""((?:authorization|cookie){_SEPARATOR})(?:{_QUOTED}|[^\r\n"'}}]++)""",
    re.IGNORECASE,
)
_KEY: Final = (
    r"(?:(?:passw(?:or)?d|passphrase|pwd|secret(?!ar)|api[_-]?key|(?:access|private|signing)[_-]?key|credential)[\w-]{0,20}"
    r"|token)"
)
_ASSIGNMENT: Final = re.compile(
    rf"""({_KEY}{_SEPARATOR})(?:{_QUOTED}|\[[^\]]*+\]?|\{{[^}}]*+\}}?|[^\s,;&"'}}\])]++)""",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(r"(?<![\w-])(Bearer\s{1,4})[\w.~+/=-]{8,}+", re.IGNORECASE)
_TOKEN: Final = re.compile(
    r"(?<![\w-])(?:sk-[\w-]{16,}+|gh[pousr]_\w{20,}+|github_pat_\w{20,}+|glpat-[\w-]{16,}+|xox[abeprs]-[\w-]{10,}+"
    r"|hf_\w{20,}+|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}+|eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+)?)"
)

_TRACEBACK: Final = "Traceback (most recent call last)"


def redact(text: str) -> str:
    """`text` with every secret that can be recognised replaced by ``***``.

    >>> redact("GET https://bob:hunter2@example.org/?token=abc&page=2")
    'GET https://***@example.org/?token=***&page=2'
    """
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(MASK, text)
    if "://" in text:
        text = _URL_USERINFO.sub(MASK + "@", text)
    if ":" in text or "=" in text:
        text = _HEADER.sub(rf"\1{MASK}", text)
        text = _ASSIGNMENT.sub(rf"\1{MASK}", text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    return _TOKEN.sub(MASK, text)


@lru_cache(maxsize=2048)
def is_secret_key(key: str) -> bool:
    """Whether a field of this name holds a secret, in whatever style it is written.

    >>> is_secret_key("X-Api-Key"), is_secret_key("refreshToken"), is_secret_key("max_tokens")
    (True, True, False)
    """
    return _SECRET_KEY.search(key.lower().replace("_", "").replace("-", "").replace(" ", "")) is not None


def redact_mapping(value: JsonValue, marked: Collection[str] = frozenset()) -> JsonValue:
    """A copy of a JSON value without its secrets: fields by their name, texts by :func:`redact`.

    `marked`: further names of fields to hide, at any depth, as they are written. A null stays visible: that a secret
    is missing is worth knowing. What is nested deeper than 100 levels is masked whole.

    >>> redact_mapping({"user": "bob", "login": {"password": "hunter2"}, "note": "x"}, {"note"})
    {'user': 'bob', 'login': {'password': '***'}, 'note': '***'}
    """
    return _redact_value(value, marked, _MAX_DEPTH)


def _redact_value(value: JsonValue, marked: Collection[str], depth: int) -> JsonValue:
    if isinstance(value, str):
        return redact(value)
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return MASK
    if isinstance(value, list):
        return [_redact_value(item, marked, depth - 1) for item in value]
    return {
        key: MASK
        if item is not None and (key in marked or is_secret_key(key))
        else _redact_value(item, marked, depth - 1)
        for key, item in value.items()
    }


def restore_masked(edited: Any, original: Any, shown: Any) -> Any:
    """What somebody has edited who was shown a masked copy: what was masked and left so is the original again.

    Example:
        >>> restore_masked({"to": "Cy", "pin": MASK}, {"to": "Ann", "pin": "4711"}, {"to": "Ann", "pin": MASK})
        {'to': 'Cy', 'pin': '4711'}
    """
    if edited == shown == MASK:
        return original
    if isinstance(edited, dict) and isinstance(original, Mapping) and isinstance(shown, Mapping):
        return {key: restore_masked(value, original.get(key), shown.get(key)) for key, value in edited.items()}
    if (
        isinstance(edited, list)
        and isinstance(original, list)
        and isinstance(shown, list)
        and len(edited) == len(shown)
    ):
        return [restore_masked(*each) for each in zip(edited, original, shown, strict=True)]
    return edited


def masked_names(value: Any, hides: Collection[str]) -> Iterator[str]:
    """The hidden fields that hold a mask in place of a value."""
    if isinstance(value, dict):
        yield from (key for key, inner in value.items() if key in hides and inner == MASK)
        for inner in value.values():
            yield from masked_names(inner, hides)
    elif isinstance(value, list):
        for inner in value:
            yield from masked_names(inner, hides)


def hidden_values(arguments: object, hides: Collection[str]) -> list[str]:
    """The texts of the values of arguments that nobody may see, at any depth, the longest first."""
    return sorted(set(_hidden_texts(arguments, hides)), key=len, reverse=True)


def mask_values(text: str, values: Iterable[str]) -> str:
    """`text` without these values. One of fewer than four characters is masked where it stands alone.

    Inside other words it is found everywhere, and masking it there would leave nothing to read.

    >>> mask_values("pin 77 of card 4477 is wrong", ["77"])
    'pin *** of card 4477 is wrong'
    """
    for value in values:
        if len(value) >= _SHORTEST_ANYWHERE:
            text = text.replace(value, MASK)
        elif value in text:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", MASK, text)
    return text


def _hidden_texts(value: object, hides: Collection[str], is_hidden: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _hidden_texts(inner, hides, is_hidden or key in hides)
    elif isinstance(value, list):
        for inner in value:
            yield from _hidden_texts(inner, hides, is_hidden)
    elif is_hidden and value is not None and not isinstance(value, bool) and (text := str(value)).strip():
        yield text


def exception_text(exc: BaseException, limit: int = 500) -> str:
    """The words of an exception on one line of at most `limit` characters: redacted, no traceback; never raises."""
    return _one_line(_total(lambda: _words(exc), ""), limit)


def note_texts(exc: BaseException, limit: int = 500) -> list[str]:
    """What was noted on an exception (`add_note`), in the same form; the first few notes."""
    nothing: list[object] = []
    notes = _total(lambda: list(getattr(exc, "__notes__", ()))[:_MOST_NOTES], nothing)
    return [_one_line(note, limit) for note in notes if type(note) is str]


def _one_line(text: str, limit: int) -> str:
    # Far more than is shown, so that a secret is seen whole, yet bounded, so that a huge text costs little.
    text = text[: limit * 8]
    before, traceback, after = text.partition(_TRACEBACK)
    if traceback:
        text = f"{before} {(after.strip().splitlines() or [''])[-1]}"
    text = " ".join(redact(text).encode("utf-8", "replace").decode().split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def short_name(exc: BaseException) -> str:
    """The bare name of the exception's type, such as ``ConnectTimeout``."""
    return _total(lambda: _plain(type(exc).__name__), "Exception")


def qualified_name(exc: BaseException) -> str:
    """The name of the exception's type with its module, such as ``httpx.ConnectTimeout``."""
    return _total(lambda: _plain(f"{type(exc).__module__}.{type(exc).__qualname__}"), "Exception")


def _words(exc: BaseException) -> str:
    if isinstance(exc, ValidationError):  # whose own text repeats the input
        errors = exc.errors(include_url=False, include_context=False, include_input=False)
        return "; ".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in errors)
    return str.__str__(str(exc))


def _plain(name: str) -> str:
    return str.__str__(name)[:200].encode("utf-8", "replace").decode()


def _total(read: Callable[[], _T], default: _T) -> _T:
    try:
        return read()
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 # a hostile __str__ or metaclass may raise anything, SystemExit included
        return default
