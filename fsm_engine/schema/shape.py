"""What a schema says about each place of a value: the types it admits, its fields, its defaults.

Validators answer yes or no. Filling in defaults, reading JSON text that was meant as an object, and dropping nulls that
stand for "not given" need to know what belongs where: that is a :class:`Shape`, made once per schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

__all__ = [
    "Path",
    "Shape",
    "Targets",
    "always_applied",
    "build_shape",
    "default_filler",
    "json_type",
    "rewrite",
]

Path = tuple[str | int, ...]
Targets = Mapping[int, Any]
"""From the `id` of a schema that holds a ``$ref`` to the schema that it refers to."""

_ALL_TYPES: Final = frozenset({"null", "boolean", "number", "string", "array", "object"})
_TYPE_NAMES: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def json_type(value: object) -> str:
    """The JSON name of a value's type; an `int` is an "integer"."""
    return _TYPE_NAMES.get(type(value), "value that is no JSON")


class Shape:
    """One place of a value. Shapes of a recursive schema refer to each other in a circle.

    `types`: the JSON types that may stand here ("integer" counts as "number"). `properties`, `extra`, `prefix`,
    `items`: the shapes of the fields, of all other fields, of the first items, of all other items; where the schema
    says nothing, or different things in different branches, there is none. `required`: fields that must be there.
    `defaults`: what a field has when it is not given; `containers`: those that have to be copied for each value.
    `fills`: there is a default here or further down; `fills_below`: further down.
    """

    __slots__ = (
        "containers",
        "defaults",
        "extra",
        "fills",
        "fills_below",
        "items",
        "prefix",
        "properties",
        "required",
        "types",
    )

    def __init__(self, types: frozenset[str]) -> None:
        self.types = types
        self.properties: dict[str, Shape] = {}
        self.extra: Shape | None = None
        self.prefix: list[Shape] = []
        self.items: Shape | None = None
        self.required: frozenset[str] = frozenset()
        self.defaults: dict[str, Any] = {}
        self.containers: tuple[str, ...] = ()
        self.fills = False
        self.fills_below = False

    @property
    def embeds(self) -> bool:
        """Text here can only be an object or array that was encoded once too often."""
        return "string" not in self.types and not self.types.isdisjoint(("object", "array"))

    @property
    def nulls(self) -> frozenset[str]:
        """The fields that may be missing but not null: a null there can only mean "not given"."""
        return frozenset(
            name for name, field in self.properties.items() if name not in self.required and "null" not in field.types
        )

    def child(self, key: str | int) -> Shape | None:
        """The shape at a field or an index, as far as the schema speaks of it."""
        if isinstance(key, str):
            return self.properties.get(key, self.extra)
        return self.prefix[key] if key < len(self.prefix) else self.items

    def children(self) -> Iterator[Shape]:
        """All shapes one step further down."""
        yield from self.properties.values()
        yield from self.prefix
        yield from (shape for shape in (self.extra, self.items) if shape is not None)


def always_applied(schema: Any, targets: Targets) -> list[Mapping[str, Any]]:
    """The schema and all those that hold with it for the same value, through ``$ref`` and ``allOf``; each once."""
    found: dict[int, Mapping[str, Any]] = {}
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict) and id(part) not in found:
            found[id(part)] = part
            waiting.extend(reversed(part.get("allOf", ())))
            if id(part) in targets:
                waiting.append(targets[id(part)])
    return list(found.values())


def _admitted_types(schema: Any, targets: Targets, known: dict[int, frozenset[str]]) -> frozenset[str]:
    """The JSON types that a schema admits, as far as its words about types go; "integer" counts as "number".

    `known` keeps what was found out, since references may lead to one schema in very many ways. In a circle of
    references the schema that is being looked at counts as one that admits everything.
    """
    if schema is False:
        return frozenset()
    if not isinstance(schema, dict):
        return _ALL_TYPES
    if id(schema) in known:
        return known[id(schema)]
    known[id(schema)] = types = _ALL_TYPES
    if "type" in schema:
        types &= _without_integer([schema["type"]] if isinstance(schema["type"], str) else schema["type"])
    if "enum" in schema:
        types &= _without_integer(map(json_type, schema["enum"]))
    if "const" in schema:
        types &= _without_integer([json_type(schema["const"])])
    for part in (*schema.get("allOf", ()), targets.get(id(schema), True)):
        types &= _admitted_types(part, targets, known)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            types &= frozenset().union(*(_admitted_types(branch, targets, known) for branch in schema[keyword]))
    known[id(schema)] = types
    return types


def _without_integer(names: Iterable[str]) -> frozenset[str]:
    return frozenset("number" if name == "integer" else name for name in names)


Fits = Callable[[Sequence[Any], Any], bool]
"""Whether a default fits the schemas of its field."""


class _Builder:
    """Makes shapes, one for each set of schemas that holds at a place."""

    def __init__(self, targets: Targets, fits: Fits) -> None:
        self._targets = targets
        self._fits = fits
        self._known: dict[int, frozenset[str]] = {}
        self.made: dict[frozenset[int], Shape] = {}

    def shape(self, schemas: Sequence[Any]) -> Shape:
        key = frozenset(map(id, schemas))
        if key not in self.made:
            types = _ALL_TYPES.intersection(*map(self._types, schemas))
            made = self.made[key] = Shape(types)  # known before its children are made: they may refer to it
            self._add_fields(made, [part for schema in schemas for part in self._parts(schema, "object")])
            self._add_items(made, [part for schema in schemas for part in self._parts(schema, "array")])
        return self.made[key]

    def _types(self, schema: Any) -> frozenset[str]:
        return _admitted_types(schema, self._targets, self._known)

    def _parts(self, schema: Any, kind: str) -> list[Mapping[str, Any]]:
        """What holds for every value of the type `kind`; a branch does if it alone admits that type."""
        found: dict[int, Mapping[str, Any]] = {}
        waiting = [schema]
        while waiting:
            for part in always_applied(waiting.pop(0), self._targets):
                if id(part) in found:
                    continue
                found[id(part)] = part
                for keyword in ("anyOf", "oneOf"):
                    fitting = [branch for branch in part.get(keyword, ()) if kind in self._types(branch)]
                    waiting += fitting if len(fitting) == 1 else []
        return list(found.values())

    def _add_fields(self, made: Shape, parts: Sequence[Mapping[str, Any]]) -> None:
        fields: dict[str, list[Any]] = {}
        for part in parts:
            for name, schema in part.get("properties", {}).items():
                fields.setdefault(name, []).append(schema)
        made.required = frozenset(name for part in parts for name in part.get("required", ()))
        for name, schemas in fields.items():
            made.properties[name] = self.shape(schemas)
            spoken = [part for schema in schemas for part in always_applied(schema, self._targets)]
            defaults = [part["default"] for part in spoken if "default" in part]
            if defaults and self._fits(schemas, defaults[0]):
                made.defaults[name] = defaults[0]
        made.containers = tuple(name for name, value in made.defaults.items() if isinstance(value, dict | list))
        others = [part["additionalProperties"] for part in parts if isinstance(part.get("additionalProperties"), dict)]
        made.extra = self.shape(others) if others else None

    def _add_items(self, made: Shape, parts: Sequence[Mapping[str, Any]]) -> None:
        # Before 2020-12 a list in `items` was what `prefixItems` is now, and `additionalItems` spoke of the others.
        lists = [part[word] for part in parts for word in ("prefixItems", "items") if isinstance(part.get(word), list)]
        rests = [
            part[word] for part in parts for word in ("items", "additionalItems") if isinstance(part.get(word), dict)
        ]
        if len(lists) == 1:
            made.prefix = [self.shape([schema]) for schema in lists[0]]
        made.items = self.shape(rests) if rests and len(lists) <= 1 else None


def build_shape(schema: Any, targets: Targets, fits: Fits) -> tuple[Shape, tuple[Shape, ...]]:
    """The shape of a schema's root, and all shapes that there are.

    A default that `fits` refuses is left out: it would only turn a call that is right into one that is wrong.
    """
    builder = _Builder(targets, fits)
    root = builder.shape([schema])
    shapes = tuple(builder.made.values())
    for shape in shapes:
        shape.fills = bool(shape.defaults)
    changed = True
    while changed:  # shapes may refer to each other in a circle, so this is a search for a fixed point
        changed = False
        for shape in shapes:
            if not shape.fills_below and any(child.fills for child in shape.children()):
                shape.fills = shape.fills_below = changed = True
    return root, shapes


def default_filler(shape: Shape) -> Callable[[Any], Any]:
    """A function that gives a copy with the missing defaults, each a copy of its own; the value itself if none is.

    A default is taken as it is written: what is missing inside of it is not filled in.
    """
    if not shape.fills:
        return _unchanged
    if shape.fills_below:
        return lambda value: rewrite(value, shape, _fill, descend=_fills)
    defaults = shape.defaults
    if shape.containers:
        return lambda value: _fill(value, shape)
    names = defaults.keys()
    return lambda value: value if names <= value.keys() else {**defaults, **value}


def _unchanged(value: Any) -> Any:
    return value


def _fill(value: Any, shape: Shape, _path: Path = ()) -> Any:
    defaults = shape.defaults
    if not isinstance(value, dict) or defaults.keys() <= value.keys():
        return value
    filled = {**defaults, **value}
    for name in shape.containers:
        if name not in value:
            filled[name] = deepcopy(defaults[name])
    return filled


def _fills(shape: Shape) -> bool:
    return shape.fills


def _always(_shape: Shape) -> bool:
    return True


def rewrite(
    value: Any,
    shape: Shape,
    change: Callable[[Any, Shape, Path], Any],
    path: Path = (),
    descend: Callable[[Shape], bool] = _always,
) -> Any:
    """The value with `change` made at every place that has a shape, the innermost first; nothing is changed in place.

    `change` gets the value, the shape and the path, and returns the same object to leave the place alone.
    Places whose shape `descend` refuses are left alone, and all below them.
    """
    keys: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        keys = value.items()
    elif isinstance(value, list):
        keys = enumerate(value)
    changed: Any = None
    for key, old in keys:
        place = shape.child(key)
        if place is None or not descend(place):
            continue
        if (new := rewrite(old, place, change, (*path, key), descend)) is not old:
            changed = value.copy() if changed is None else changed
            changed[key] = new
    return change(value if changed is None else changed, shape, path)
