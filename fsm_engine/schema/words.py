"""How places and rules of a schema are put into words. A value never appears; what a schema says may."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..errors.issue import Issue
from .shape import Targets

__all__ = [
    "FORMAT_EXAMPLES",
    "RULES",
    "Rule",
    "describe",
    "in_words",
    "lacks_offset",
    "listed",
    "offset_issue",
    "readable",
    "shown_name",
]

FORMAT_EXAMPLES: Final[Mapping[str, str]] = {
    "date-time": "2024-05-20T00:00:00+08:00",
    "date": "2024-05-20",
    "time": "08:30:00+08:00",
    "duration": "PT15M",
    "email": "name@example.com",
    "idn-email": "name@example.com",
    "hostname": "example.com",
    "uri": "https://example.com/page",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "json-pointer": "/items/0",
    "regex": "^[a-z]+$",
}
_LOCAL_TIMES: Final[Mapping[str, re.Pattern[str]]] = {
    "date-time": re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?"),
    "time": re.compile(r"\d\d:\d\d(?::\d\d(?:\.\d+)?)?"),
}
_NAME_LIMIT: Final = 40
_LIST_LIMIT: Final = 30
_TEXT_LIMIT: Final = 200
_DEPTH: Final = 4
_INNER_BRANCHES: Final = 8


def shown_name(name: str, known: Collection[str]) -> str | None:
    """A field's name if it may be shown: the schema has it, or it is a short identifier; else `None`.

    A name that the model made up can hold anything, such as a value that went astray.
    """
    return name if name in known or (len(name) <= _NAME_LIMIT and name.isidentifier()) else None


def readable(path: Iterable[str | int], known: Collection[str] = ()) -> str:
    """A path as people write it; "" is the whole value, "?" stands for a name that is not shown.

    Example:
        >>> readable(["items", 0, "sku"]), readable(["first name"], {"first name"}), readable(["a b"])
        ('items[0].sku', '["first name"]', '["?"]')
    """
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif (name := shown_name(key, known)) is not None and name.isidentifier():
            text += f".{name}" if text else name
        else:
            text += f"[{json.dumps(name or '?', ensure_ascii=False)}]"
    return text


def listed(values: Iterable[Any], word: str = "or") -> str:
    """JSON values in words: '"a", "b" or 3'."""
    return in_words([_short(json.dumps(value, ensure_ascii=False)) for value in values], word)


def in_words(texts: Sequence[str], word: str = "or") -> str:
    """Texts joined as in a sentence: "a, b or c"; a long list is cut short."""
    if len(texts) > _LIST_LIMIT:
        return f"{', '.join(texts[:_LIST_LIMIT])} and {len(texts) - _LIST_LIMIT} more"
    return f"{', '.join(texts[:-1])} {word} {texts[-1]}" if len(texts) > 1 else "".join(texts)


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}…"


def lacks_offset(name: str, value: object) -> bool:
    """Whether a text would be in the format `name` if it said how far its clock is from UTC."""
    pattern = _LOCAL_TIMES.get(name)
    return pattern is not None and isinstance(value, str) and pattern.fullmatch(value) is not None


def describe(schema: Any, targets: Targets, depth: int = _DEPTH) -> str:
    """What a schema admits, in a few words.

    Example:
        >>> describe({"type": ["string", "null"], "format": "date"}, {})
        'string in the format date (such as 2024-05-20) or null'
    """
    if not isinstance(schema, dict) or depth == 0:
        return "nothing" if schema is False else "any value"
    texts: list[str] = []
    if "const" in schema or "enum" in schema:
        return listed([schema["const"]] if "const" in schema else schema["enum"])
    if id(schema) in targets:
        return describe(targets[id(schema)], targets, depth - 1)
    if branches := schema.get("anyOf", schema.get("oneOf")):
        if depth < _DEPTH and len(branches) > _INNER_BRANCHES:
            return "one of many alternatives"
        texts = [describe(branch, targets, depth - 1) for branch in branches]
    elif "type" in schema:
        types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        texts = [_describe_type(name, schema, targets, depth) for name in types]
    elif "allOf" in schema:
        texts = [describe(schema["allOf"][0], targets, depth - 1)]
    return in_words(list(dict.fromkeys(texts))) or ("what its rules allow" if schema else "any value")


def _describe_type(name: str, schema: Mapping[str, Any], targets: Targets, depth: int) -> str:
    if name == "string" and "format" in schema:
        return f"string {_in_format(schema['format'])}"
    if name == "array" and isinstance(schema.get("items"), dict):
        return f"array of {describe(schema['items'], targets, depth - 1)}"
    if name == "object" and schema.get("required"):
        return f"object with {in_words(list(map(str, schema['required'])), 'and')}"
    return name


def _in_format(name: str) -> str:
    return f"in the format {name}" + (f" (such as {FORMAT_EXAMPLES[name]})" if name in FORMAT_EXAMPLES else "")


@dataclass(frozen=True, slots=True)
class Rule:
    """A keyword of JSON Schema as an error: the machine-readable reason, and the sentence for its limit."""

    reason: str
    sentence: Callable[[Any], str]


def _count(number: Any, unit: str) -> str:
    return f"{number} {unit}" + ("" if number == 1 else "s")


def _types(limit: Any) -> str:
    return in_words([limit] if isinstance(limit, str) else list(limit))


RULES: Final[Mapping[str, Rule]] = {
    "type": Rule("wrong_type", lambda limit: f"must be {_types(limit)}"),
    "enum": Rule("not_allowed", lambda limit: f"must be {'one of ' if len(limit) > 1 else ''}{listed(limit)}"),
    "const": Rule("not_allowed", lambda limit: f"must be {listed([limit])}"),
    "minLength": Rule("too_short", lambda limit: f"must have at least {_count(limit, 'character')}"),
    "maxLength": Rule("too_long", lambda limit: f"must have at most {_count(limit, 'character')}"),
    "minItems": Rule("too_few_items", lambda limit: f"must have at least {_count(limit, 'item')}"),
    "maxItems": Rule("too_many_items", lambda limit: f"must have at most {_count(limit, 'item')}"),
    "minProperties": Rule("too_few_fields", lambda limit: f"must have at least {_count(limit, 'field')}"),
    "maxProperties": Rule("too_many_fields", lambda limit: f"must have at most {_count(limit, 'field')}"),
    "minimum": Rule("too_small", lambda limit: f"must be at least {limit}"),
    "maximum": Rule("too_large", lambda limit: f"must be at most {limit}"),
    "exclusiveMinimum": Rule("too_small", lambda limit: f"must be greater than {limit}"),
    "exclusiveMaximum": Rule("too_large", lambda limit: f"must be less than {limit}"),
    "multipleOf": Rule("not_a_multiple", lambda limit: f"must be a multiple of {limit}"),
    "pattern": Rule("bad_pattern", lambda limit: f"must match the pattern {_short(str(limit))}"),
    "format": Rule("bad_format", lambda limit: f"must be {_in_format(str(limit))}"),
    "uniqueItems": Rule("duplicate_items", lambda _: "must not hold the same item twice"),
    "contains": Rule("missing_item", lambda _: "lacks an item that it must contain"),
    "minContains": Rule("missing_item", lambda limit: f"must contain at least {_count(limit, 'such item')}"),
    "maxContains": Rule("too_many_items", lambda limit: f"must contain at most {_count(limit, 'such item')}"),
    "contentEncoding": Rule("bad_encoding", lambda limit: f"must be text in the encoding {limit}"),
    "contentMediaType": Rule("bad_encoding", lambda limit: f"must be text of the media type {limit}"),
    "additionalItems": Rule("too_many_items", lambda _: "has more items than are allowed"),
    "unevaluatedItems": Rule("too_many_items", lambda _: "has items that are not allowed"),
}


def offset_issue(path: str, name: str = "date-time") -> Issue:
    """The issue of a date and time, or a time, that does not say how far its clock is from UTC."""
    example = FORMAT_EXAMPLES[name]
    return Issue(
        reason="missing_offset",
        path=path,
        rule="format",
        message=f"{path or 'top level'}: the offset from UTC is missing; must be {name} with an offset, such as {example}",
        allowed=name,
    )
