"""Reading a schema when a tool is registered: is it one, and does it stand alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import jsonschema
import referencing.exceptions
import referencing.jsonschema
from jsonschema.validators import validator_for

from ..errors.exceptions import SchemaError
from .shape import Targets

__all__ = ["SchemaFacts", "escape", "pointer_to", "read_schema", "refuse", "schema_map", "subschemas"]

_DIALECTS: Final = (
    jsonschema.Draft202012Validator,
    jsonschema.Draft201909Validator,
    jsonschema.Draft7Validator,
    jsonschema.Draft6Validator,
    jsonschema.Draft4Validator,
)
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLES: Final = (
    "not",
    "if",
    "then",
    "else",
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "contentSchema",
)
_TEXT_LIMIT: Final = 300


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """A schema that has been read. `schema` is a copy of pure JSON that nobody else holds.

    `dialect`: jsonschema's validator class. `nodes`: every schema in it with its JSON pointer. `targets`: what each
    ``$ref`` refers to. `field_names`: all names of fields that it mentions.
    """

    name: str
    schema: dict[str, Any]
    dialect: Any
    nodes: tuple[tuple[str, dict[str, Any]], ...]
    targets: Targets
    field_names: frozenset[str]


def refuse(name: str, pointer: str, problem: str) -> NoReturn:
    """Raise the error of a schema that cannot be used: whose it is, where, what is wrong and what to do."""
    raise SchemaError(f"schema of {name}, at {pointer}: {problem}")


def read_schema(schema: Mapping[str, Any], name: str) -> SchemaFacts:
    """Check that a schema is one by its own meta-schema, and that every reference leads to a place inside of it.

    Raises:
        SchemaError: it is not; with the place and what to change.
    """
    own = _as_json(schema, name)
    dialect = _dialect(own, name)
    try:
        # Formats are left out: there "regex" would be Python's, and that of JSON Schema is ECMA 262.
        dialect.check_schema(own, format_checker=jsonschema.FormatChecker(formats=()))
    except jsonschema.SchemaError as exc:
        problem = exc.message if len(exc.message) <= _TEXT_LIMIT else f"does not fit the rule {exc.validator!r}"
        refuse(name, pointer_to(exc.absolute_path), f"{problem}; the dialect is {dialect.META_SCHEMA.get('$schema')}")
    except RecursionError:
        refuse(name, "#", "is nested too deeply; make it flatter")
    specification = referencing.jsonschema.specification_with(str(dialect.META_SCHEMA["$schema"]))
    # The registry is empty on purpose: jsonschema's own would fetch what it does not have, from the web or from a file.
    resolver = referencing.Registry().resolver_with_root(specification.create_resource(own))
    nodes, targets = _explore(own, resolver, specification, name)
    return SchemaFacts(
        name=name,
        schema=own,
        dialect=dialect,
        nodes=tuple(nodes),
        targets=targets,
        field_names=frozenset(field for _, node in nodes for field in node.get("properties", ())),
    )


def _explore(
    schema: dict[str, Any], resolver: Any, specification: Any, name: str
) -> tuple[list[tuple[str, dict[str, Any]]], dict[int, Any]]:
    """Every schema inside of a schema, and what each reference leads to."""
    nodes: list[tuple[str, dict[str, Any]]] = []
    targets: dict[int, Any] = {}
    seen: set[int] = set()
    waiting = [("#", schema, resolver)]
    while waiting:
        pointer, node, resolver = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        nodes.append((pointer, node))
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword not in node:
                continue
            target = _resolve(node[keyword], resolver, name, f"{pointer}/{keyword}")
            if isinstance(target.contents, dict):  # it may be in a place where no schema is looked for
                waiting.insert(0, (node[keyword], target.contents, target.resolver))
            if keyword == "$ref":
                targets[id(node)] = target.contents
        for below, inner in subschemas(pointer, node):
            waiting.append((below, inner, resolver.in_subresource(specification.create_resource(inner))))
    return nodes, targets


def _as_json(schema: Any, name: str) -> dict[str, Any]:
    if not isinstance(schema, Mapping):
        refuse(name, "#", f"must be an object, not {type(schema).__name__}")
    try:
        own: dict[str, Any] = json.loads(json.dumps(dict(schema), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exc:
        refuse(name, "#", f"is not JSON: {str(exc)[:_TEXT_LIMIT]}")
    return own


def _dialect(schema: Mapping[str, Any], name: str) -> Any:
    if "$schema" not in schema:
        return _DIALECTS[0]
    dialect: Any = validator_for(schema, default=jsonschema.Draft3Validator)
    if dialect not in _DIALECTS:
        known = ", ".join(str(each.META_SCHEMA["$schema"]) for each in _DIALECTS)
        refuse(name, "#/$schema", f"is no dialect that can be checked; leave it out for 2020-12, or use one of {known}")
    return dialect


def _resolve(reference: str, resolver: Any, name: str, pointer: str) -> Any:
    try:
        return resolver.lookup(reference)
    except (referencing.exceptions.Unresolvable, ValueError):
        refuse(
            name,
            pointer,
            f"{reference!r} leads nowhere inside the schema, and nothing is fetched from elsewhere; "
            "put what is meant under $defs and refer to it as #/$defs/…",
        )


def subschemas(pointer: str, node: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """All schemas one step inside of a schema, each with its pointer; those that are `true` or `false` say nothing."""
    for keyword in _SINGLES:
        yield from _if_schema(f"{pointer}/{keyword}", node.get(keyword))
    for keyword in _LISTS:
        if isinstance(inner := node.get(keyword), list):
            for index, each in enumerate(inner):
                yield from _if_schema(f"{pointer}/{keyword}/{index}", each)
    for keyword in _MAPS:
        for key, each in schema_map(node, keyword).items():
            yield from _if_schema(f"{pointer}/{keyword}/{escape(key)}", each)


def _if_schema(pointer: str, schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        yield pointer, schema


def schema_map(node: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    """The keyword's map; a keyword that the dialect does not know may hold anything."""
    value = node.get(keyword)
    return value if isinstance(value, dict) else {}


def escape(key: object) -> str:
    """One step of a JSON pointer (RFC 6901)."""
    return str(key).replace("~", "~0").replace("/", "~1")


def pointer_to(path: Iterable[str | int]) -> str:
    """A JSON pointer in the form of a URI's fragment, as references are written.

    Example:
        >>> pointer_to(["properties", "a/b", "items", 0])
        '#/properties/a~1b/items/0'
    """
    return "/".join(("#", *map(escape, path)))
