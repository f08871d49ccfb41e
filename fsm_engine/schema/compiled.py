"""Schemas of parameters and results, checked when a tool is registered and ready to judge a call.

`jsonschema` judges the schema; `jsonschema-rs` judges the values, in well under a microsecond. Only a schema that the
latter cannot read (its patterns are in Python's own form) is left to `jsonschema` for both, and is then looked through
for the rules on which Python could hang.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import jsonschema
import jsonschema_rs
import referencing
from jsonschema.exceptions import FormatError

from ..errors.issue import Issue
from ..jsonable.strict import read_json
from .issues import Explainer, Failure, from_python, from_rust, unvalidatable
from .lint import lint_schema, lint_slow_rules
from .reader import SchemaFacts, read_schema, refuse
from .shape import Path, Shape, build_shape, default_filler, json_type, rewrite
from .words import describe, readable

__all__ = ["CompiledSchema", "python_validator", "rust_validator"]

_EMBEDDED_DEPTH: Final = 100


class CompiledSchema:
    """A schema that has been found sound, with everything prepared that a call needs of it.

    Args:
        schema: a JSON Schema; the dialect is what ``$schema`` says, or 2020-12. It is copied.
        name: whose schema it is, for messages.
        lint: refuse a field that is never required and has no default, and a default that does not fit its field.
            Without it the one is let pass, and the other counts as no default.
        any_root: the value may be anything, as a result may; otherwise it must be an object, as parameters are.

    Attributes:
        schema: the copy; do not change it.
        engine: which library judges the values.
        is_valid: the library's own function, for speed: the verdict on a value. It raises for what is no JSON (an
            object of Python, text with half a surrogate pair), where :meth:`issues` has an answer; so ask that one
            when it raises, too.
        apply_defaults: gives an object with all defaults that were missing, those of objects inside it too, each a
            copy of its own; or the very same object, if there is nothing to fill in. A default is taken as written.
        may_embed: there are places where text can only be an object or array encoded once too often; if not,
            :meth:`decode_embedded` has nothing to do.

    Raises:
        SchemaError: the schema is wrong or cannot be checked safely; the message says where and what to change.

    Example:
        >>> city = {"type": "string", "minLength": 2}
        >>> schema = CompiledSchema({"type": "object", "properties": {"city": city}, "required": ["city"]}, name="weather")
        >>> schema.is_valid({"city": "Oslo"})
        True
        >>> [issue.message for issue in schema.issues({"city": "O"})]
        ['city: must have at least 2 characters']
    """

    __slots__ = (
        "_explainer",
        "_facts",
        "_failures",
        "_shape",
        "apply_defaults",
        "engine",
        "is_valid",
        "may_embed",
        "name",
        "schema",
    )

    def __init__(self, schema: Mapping[str, Any], *, name: str, lint: bool = True, any_root: bool = False) -> None:
        facts = self._facts = read_schema(schema, name)
        lint_schema(facts, any_root=any_root, optional=lint)
        self.name = name
        self.schema: Mapping[str, Any] = facts.schema
        self.engine: Literal["jsonschema-rs", "jsonschema"] = "jsonschema-rs"
        self.is_valid: Callable[[Any], bool]
        self._failures: Callable[[Any], Iterable[Failure]]
        try:
            rust = rust_validator(facts)
        except ValueError:
            self.engine = "jsonschema"
            lint_slow_rules(facts)
            slow = python_validator(facts)
            self.is_valid = slow.is_valid
            self._failures = lambda value: (from_python(error, value) for error in slow.iter_errors(value))
        else:
            self.is_valid = rust.is_valid
            self._failures = lambda value: (from_rust(error, facts, value) for error in rust.iter_errors(value))
        self._explainer = Explainer(facts)
        self._shape, shapes = build_shape(
            facts.schema, facts.targets, _DefaultCheck(facts, self.engine, refuse_unfit=lint)
        )
        self.may_embed = any(shape.embeds for shape in shapes if shape is not self._shape)
        self.apply_defaults: Callable[[dict[str, Any]], dict[str, Any]]
        self.apply_defaults = default_filler(self._shape)

    def __repr__(self) -> str:
        return f"CompiledSchema(name={self.name!r}, engine={self.engine!r})"

    def issues(self, value: Any) -> tuple[Issue, ...]:
        """Everything that is wrong with a value, in words that a model can act on; empty if nothing is.

        Each has the path (``items[0].sku``), the rule (the keyword) and what is allowed; never a part of the value,
        save the name of a field where it is a short identifier. Never raises: a value that the library cannot judge
        is an issue with the reason "unvalidatable".
        """
        try:
            issues = self._explainer.issues(self._failures(value), value)
            return issues if issues or self.is_valid(value) else (unvalidatable(),)
        except Exception as exc:  # noqa: BLE001 - whatever a validator raises on odd data must not end the invocation
            return (unvalidatable(f" ({type(exc).__name__})"),)

    def admits_string(self, path: Path) -> bool:
        """Whether text may stand at a place; where the schema says nothing, it may."""
        shape: Shape | None = self._shape
        for key in path:
            shape = shape.child(key) if shape is not None else None
        return shape is None or "string" in shape.types

    def decode_embedded(self, value: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Decode JSON text where an object or array belongs, and text does not; and say where that was.

        Models encode nested arguments twice. One level is decoded, and only where the schema leaves no doubt: what
        may be text stays text. The result is to be validated, and its size checked, like any other arguments.

        Example:
            >>> schema = CompiledSchema(
            ...     {"type": "object", "properties": {"to": {"type": "array"}, "note": {"type": "string"}}},
            ...     name="send", lint=False)
            >>> schema.decode_embedded({"to": '["Ann"]', "note": '["Ann"]'})
            ({'to': ['Ann'], 'note': '["Ann"]'}, ('to',))
        """
        repaired: list[str] = []

        def decode(inner: Any, shape: Shape, path: Path) -> Any:
            if not isinstance(inner, str) or not shape.embeds:
                return inner
            decoded = _loads(inner)
            if json_type(decoded) not in shape.types & {"object", "array"}:
                return inner
            repaired.append(readable(path, self._facts.field_names))
            return decoded

        return rewrite(value, self._shape, decode), tuple(repaired)

    def drop_nulls(self, value: dict[str, Any]) -> dict[str, Any]:
        """Leave out the nulls of fields that may be missing but not null; the same object if there are none.

        In a provider's strict mode every field must be given, and null stands for "not given". A field that has a
        default and also admits null keeps its null: these are two facts.
        """

        def drop(inner: Any, shape: Shape, _path: Path) -> Any:
            if not isinstance(inner, dict):
                return inner
            nulls = [name for name in shape.nulls if name in inner and inner[name] is None]
            return {name: field for name, field in inner.items() if name not in nulls} if nulls else inner

        dropped: dict[str, Any] = rewrite(value, self._shape, drop)
        return dropped


def _loads(text: str) -> Any:
    """The value of a JSON text that is strict and of sane depth; else `None`."""
    try:
        value = read_json(text)
    except (ValueError, RecursionError):
        return None
    level = [value]
    for _ in range(_EMBEDDED_DEPTH):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return value
    return None


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


class _Formats(jsonschema.FormatChecker):
    """Formats as jsonschema-rs judges them, so that both libraries say the same; jsonschema's own know fewer."""

    def check(self, instance: object, format: str) -> None:  # noqa: A002 - the name that jsonschema gave it
        if not _format_check(format)(instance):
            raise FormatError(f"is not in the format {format}")


@functools.cache
def _format_check(name: str) -> Callable[[Any], bool]:
    return jsonschema_rs.Draft202012Validator({"format": name}, validate_formats=True, offline=True).is_valid


def rust_validator(facts: SchemaFacts) -> jsonschema_rs.Validator:
    """The validator that jsonschema-rs has for a schema: nothing is fetched, formats are checked, values are hidden.

    Raises:
        ValueError: it cannot read the schema.
    """
    return jsonschema_rs.validator_for(facts.schema, offline=True, validate_formats=True, mask="value")


def python_validator(facts: SchemaFacts) -> Any:
    """The validator that jsonschema has for a schema: nothing is fetched, and formats are checked."""
    return facts.dialect(facts.schema, format_checker=_Formats(), registry=referencing.Registry())


class _DefaultCheck:
    """Whether a default fits its field; the validators for it are made when the first one comes up."""

    def __init__(self, facts: SchemaFacts, engine: str, *, refuse_unfit: bool) -> None:
        self._facts = facts
        self._engine = engine
        self._refuse_unfit = refuse_unfit
        self._pointers = {id(node): pointer for pointer, node in facts.nodes}

    def __call__(self, schemas: Sequence[Any], default: Any) -> bool:
        for schema in schemas:
            pointer = self._pointers.get(id(schema))
            if pointer is None or self._fits(pointer, schema, default):  # a schema `true` has no pointer
                continue
            if self._refuse_unfit:
                wanted = describe(schema, self._facts.targets)
                refuse(
                    self._facts.name,
                    f"{pointer}/default",
                    f"does not fit its own field, which must be {wanted}; change the default, or let the field admit it",
                )
            return False
        return True

    def _fits(self, pointer: str, schema: Any, default: Any) -> bool:
        try:
            if self._engine == "jsonschema":
                return bool(self._slow.evolve(schema=schema).is_valid(default))
            validator = self._fast.get(pointer)
            return validator is None or validator.is_valid(default)  # none: reached through an anchor
        except RecursionError:
            return False

    @functools.cached_property
    def _slow(self) -> Any:
        return python_validator(self._facts)

    @functools.cached_property
    def _fast(self) -> jsonschema_rs.ValidatorMap:
        return jsonschema_rs.validator_map_for(self._facts.schema, offline=True, validate_formats=True)
