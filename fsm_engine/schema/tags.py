"""The field that tells the alternatives of a schema apart, such as "kind", and the values that it may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .shape import Targets, always_applied

__all__ = ["Tag", "wrong_tag"]


@dataclass(frozen=True, slots=True)
class Tag:
    """A field that every alternative fixes: its name, the values that the alternatives allow, whether all require it."""

    name: str
    values: list[Any]
    is_required: bool


def wrong_tag(schema: Any, alternatives: Any, value: Mapping[str, Any], targets: Targets) -> Tag | None:
    """The tag of `anyOf` or `oneOf` alternatives that a value lacks, or gives a value that none of them has.

    An alternative fixes a field by `const`, or by `enum`. What OpenAPI's `discriminator` names comes first, then a
    field that is given, then one that is missing.

    Args:
        schema: the schema that holds the alternatives.

    Example:
        >>> card = {"properties": {"kind": {"const": "card"}}, "required": ["kind"]}
        >>> cash = {"properties": {"kind": {"enum": ["cash"]}}, "required": ["kind"]}
        >>> wrong_tag({}, [card, cash], {"kind": "bank"}, {})
        Tag(name='kind', values=['card', 'cash'], is_required=True)
    """
    objects = [fields for fields in map(_Fields, _flat(alternatives, targets)) if fields.are_known]
    if len(objects) < 2:
        return None
    wanted = _discriminator(schema)
    tags = [
        Tag(name, _once(each for fields in objects for each in fields.fixed(name, targets)), is_required)
        for name in objects[0].properties
        if all(fields.fixed(name, targets) for fields in objects)
        for is_required in [name == wanted or all(name in fields.required for fields in objects)]
    ]
    wrong = [tag for tag in tags if (tag.is_required if tag.name not in value else value[tag.name] not in tag.values)]
    return min(wrong, key=lambda tag: (tag.name != wanted, tag.name not in value), default=None)


class _Fields:
    """The fields of one alternative, with all that holds beside it."""

    def __init__(self, parts: list[Mapping[str, Any]]) -> None:
        self.properties: dict[str, Any] = {}
        self.required: set[str] = set()
        for part in parts:
            self.properties.update(part.get("properties", {}))
            self.required.update(part.get("required", ()))

    @property
    def are_known(self) -> bool:
        return bool(self.properties)

    def fixed(self, name: str, targets: Targets) -> list[Any]:
        """The values that a field is held to; none: it is not held to any."""
        for part in always_applied(self.properties.get(name), targets):
            if "const" in part:
                return [part["const"]]
            if isinstance(values := part.get("enum"), list):
                return values
        return []


def _flat(alternatives: Any, targets: Targets) -> Iterator[list[Mapping[str, Any]]]:
    """The parts of each alternative; those of an alternative that has alternatives itself, one by one."""
    seen: set[int] = set()
    waiting = list(alternatives or ())
    while waiting:
        alternative = waiting.pop(0)
        if id(alternative) in seen:
            continue
        seen.add(id(alternative))
        parts = always_applied(alternative, targets)
        inner = [each for part in parts for each in (*part.get("anyOf", ()), *part.get("oneOf", ()))]
        if inner and not any("properties" in part for part in parts):
            waiting[:0] = inner
        else:
            yield parts


def _discriminator(schema: Any) -> str | None:
    said = schema.get("discriminator") if isinstance(schema, dict) else None
    name = said.get("propertyName") if isinstance(said, dict) else None
    return name if isinstance(name, str) else None


def _once(values: Iterator[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found
