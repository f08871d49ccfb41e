"""What is legal in a schema, but not what its author means; and what would take too long to check."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import jsonschema

from .patterns import ambiguous_loop
from .reader import SchemaFacts, escape, refuse, schema_map, subschemas
from .shape import always_applied

__all__ = ["lint_schema", "lint_slow_rules"]

_REF_ALONE: Final = frozenset({jsonschema.Draft7Validator, jsonschema.Draft6Validator, jsonschema.Draft4Validator})
"""Dialects in which what stands beside ``$ref`` is ignored."""

_ANNOTATIONS: Final = frozenset(
    {"$ref", "$id", "id", "$schema", "$comment", "$defs", "definitions", "title", "description", "default", "examples"}
    | {"deprecated", "readOnly", "writeOnly"}
)
_SAFE_UNIQUE_ITEMS: Final = 200


def lint_schema(facts: SchemaFacts, *, any_root: bool, optional: bool) -> None:
    """Refuse what is legal, but never what its author means.

    Args:
        facts: the schema.
        any_root: the value may be anything, not only an object with the parameters.
        optional: refuse a field that is never required and has no default, too.

    Raises:
        SchemaError: with the place and what to change.
    """
    if not any_root:
        _lint_root(facts)
    for pointer, node in facts.nodes:
        beside = sorted(node.keys() - _ANNOTATIONS) if "$ref" in node and facts.dialect in _REF_ALONE else ()
        if beside:
            refuse(
                facts.name,
                pointer,
                f"{', '.join(beside)} beside $ref is ignored in this dialect; write "
                '"allOf": [{"$ref": …}] with the rest beside it, or leave $schema out for 2020-12',
            )
    _FieldLint(facts, optional).place(facts.schema)


def _lint_root(facts: SchemaFacts) -> None:
    if all(part.get("type") != "object" for part in always_applied(facts.schema, facts.targets)):
        refuse(facts.name, "#", 'the parameters are fields of an object; write "type": "object" and "properties"')


class _FieldLint:
    """Looks at the fields of each place of a value, over all the schemas that speak of that place."""

    def __init__(self, facts: SchemaFacts, optional: bool) -> None:
        self._facts = facts
        self._optional = optional
        self._pointers = {id(node): pointer for pointer, node in facts.nodes}
        self._seen: set[tuple[int, frozenset[str], frozenset[str]]] = set()

    def place(self, schema: Any, names: frozenset[str] = frozenset(), needed: frozenset[str] = frozenset()) -> None:
        """Check a place; `names` and `needed` are the fields that schemas around this one know and require."""
        if (key := (id(schema), names, needed)) in self._seen:
            return
        self._seen.add(key)
        names |= self._gather(schema, lambda part: part.get("properties", ()))
        needed |= self._gather(schema, _required_names)
        for part in always_applied(schema, self._facts.targets):
            self._check(part, names, needed)
            for inner in _branches(part):
                self.place(inner, names, needed)
            for _, inner in subschemas("", _below(part)):
                self.place(inner)

    def _gather(self, schema: Any, names_of: Callable[[Mapping[str, Any]], Iterable[str]]) -> frozenset[str]:
        found: set[str] = set()
        seen: set[int] = set()
        waiting = [schema]
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict) and id(part) not in seen:
                seen.add(id(part))
                found.update(names_of(part))
                waiting += [self._facts.targets.get(id(part)), *part.get("allOf", ()), *_branches(part)]
        return frozenset(found)

    def _check(self, part: Mapping[str, Any], names: frozenset[str], needed: frozenset[str]) -> None:
        pointer = self._pointers[id(part)]
        says_others = "patternProperties" in part or part.get("additionalProperties", False) is not False
        lost = [] if says_others else [name for name in part.get("required", ()) if name not in names]
        if lost:
            refuse(
                self._facts.name,
                f"{pointer}/required",
                f"{', '.join(map(repr, lost))} is required, but no property has that name; "
                "add it to properties or take it out of required",
            )
        if not self._optional:
            return
        for name, schema in part.get("properties", {}).items():
            if name not in needed and not self._has_default(schema):
                refuse(
                    self._facts.name,
                    f"{pointer}/properties/{escape(name)}",
                    f"{name!r} is never required and has no default, so that a call without it is taken for complete; "
                    'add it to "required", give it a "default", or switch this check off with lint=False',
                )

    def _has_default(self, schema: Any) -> bool:
        if isinstance(schema, bool):
            return not schema  # a field that is forbidden
        return any("default" in part for part in always_applied(schema, self._facts.targets))


def _required_names(part: Mapping[str, Any]) -> Iterator[str]:
    yield from part.get("required", ())
    for keyword in ("dependentRequired", "dependencies"):
        for needed in schema_map(part, keyword).values():
            yield from needed if isinstance(needed, list) else ()


def _branches(part: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas that may hold for the same value; not what `not` refuses, which says nothing about good values."""
    for keyword in ("anyOf", "oneOf"):
        yield from part.get(keyword, ())
    for keyword in ("if", "then", "else"):
        yield from (part[keyword],) if keyword in part else ()
    for keyword in ("dependentSchemas", "dependencies"):
        yield from (inner for inner in schema_map(part, keyword).values() if isinstance(inner, dict))


def _below(part: Mapping[str, Any]) -> dict[str, Any]:
    """What speaks of the fields and items of a value, not of the value itself."""
    words = ("properties", "patternProperties", "additionalProperties", "prefixItems", "items", "additionalItems")
    return {word: part[word] for word in words if word in part}


def lint_slow_rules(facts: SchemaFacts) -> None:
    """Refuse what Python would take too long for; only for schemas that `jsonschema` itself has to validate.

    Raises:
        SchemaError: with the place and what to change.
    """
    for pointer, node in facts.nodes:
        for where, pattern in _patterns(pointer, node):
            try:
                slow = ambiguous_loop(pattern)
            except re.error as exc:
                refuse(facts.name, where, f"the pattern cannot be read: {exc}; write it in the form of ECMA 262")
            if slow:
                refuse(
                    facts.name,
                    where,
                    "the pattern can run exponentially long on text that almost fits; let no repetition hold another "
                    "that can begin with what follows it, or write it without Python's own forms such as (?P<n>…) and \\Z",
                )
        most = node.get("maxItems")
        if node.get("uniqueItems") is True and (most is None or most > _SAFE_UNIQUE_ITEMS):
            refuse(
                facts.name,
                f"{pointer}/uniqueItems",
                f'compares every item with every other; add "maxItems" of at most {_SAFE_UNIQUE_ITEMS}, or write the '
                "patterns of this schema without Python's own forms such as (?P<n>…) and \\Z",
            )


def _patterns(pointer: str, node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "pattern" in node:
        yield f"{pointer}/pattern", node["pattern"]
    for pattern in node.get("patternProperties", ()):
        yield f"{pointer}/patternProperties/{escape(pattern)}", pattern
