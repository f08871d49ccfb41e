"""Binding: from a JSON object that fits the schema to keyword arguments of the types that a function declares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

import pydantic
from pydantic_core import SchemaValidator
from pydantic_core.core_schema import ErrorType

from ..errors.exceptions import FsmEngineError
from ..errors.issue import Issue
from .words import offset_issue, readable

__all__ = ["NO_EXTRA", "BindError", "Parameters", "binding_issues", "is_plain_call", "make_binder"]

_STR_CHANGES: Final = frozenset({"strip_whitespace", "to_lower", "to_upper"})
NO_EXTRA: Final = object()
_PLAIN: Final = frozenset({"str", "bool", "none", "any", "list", "dict", "nullable", "union", "typed-dict"})


class BindError(FsmEngineError):
    """Arguments that fit the schema, but not the types that the function declares.

    `issues`: one for each place; they never hold a part of the arguments.
    """

    def __init__(self, issues: tuple[Issue, ...]) -> None:
        super().__init__(issues)
        self.issues = issues

    def __str__(self) -> str:
        return "; ".join(issue.message for issue in self.issues)


@dataclass
class Parameters:
    """The parameters that a call can give, as the fields of a `TypedDict`."""

    fields: dict[str, Any]
    extra: Any = NO_EXTRA
    context: str | None = None
    reserved: frozenset[str] = frozenset()
    plain_defaults: frozenset[str] = frozenset()


def is_plain_call(schema: Any, parameters: Parameters) -> bool:
    """Whether the JSON object can be the keyword arguments as it is.

    Numbers are not plain: JSON Schema takes 1.0 for an integer and 1 for a number, and some providers send all numbers
    as floats; what is declared an `int` shall be one.
    """
    if schema["type"] != "typed-dict" or (parameters.extra is not NO_EXTRA and parameters.reserved):
        return False
    plain = [_is_plain(schema.get("extras_schema", {"type": "any"}))]
    for name, field in schema["fields"].items():
        inner = field["schema"]
        with_default = inner["type"] == "default" and name in parameters.plain_defaults  # the function's own will do
        plain.append(_is_plain(inner["schema"] if with_default else inner))
    return all(plain)


def _is_plain(schema: Any) -> bool:
    kind = schema["type"]
    if kind == "literal":
        return all(type(value) in (str, bool, type(None)) for value in schema["expected"])
    if kind not in _PLAIN or not _STR_CHANGES.isdisjoint(schema):
        return False
    inner = [schema[key] for key in ("schema", "items_schema", "keys_schema", "values_schema") if key in schema]
    inner += [choice[0] if isinstance(choice, tuple) else choice for choice in schema.get("choices", ())]
    inner += [field["schema"] for field in schema.get("fields", {}).values()]
    return all(map(_is_plain, inner))


def make_binder(
    adapter: pydantic.TypeAdapter[Any], parameters: Parameters
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """A function from validated arguments to the values that the function is called with."""
    validate = SchemaValidator(_demand_offsets(adapter.core_schema)).validate_python
    names = parameters.fields.keys()

    def bind(arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound: dict[str, Any] = validate(arguments)
            return bound  # not through `cast`: it is a call, and this is on the way of every call of a tool
        except pydantic.ValidationError as exc:
            issues = binding_issues(exc, arguments, names)
        raise BindError(issues)  # outside of the handler: pydantic's error holds the values

    if parameters.extra is NO_EXTRA or not parameters.reserved:
        return bind

    def bind_unreserved(arguments: Mapping[str, Any]) -> dict[str, Any]:
        taken = sorted(parameters.reserved & arguments.keys())
        if taken:
            raise BindError(
                tuple(Issue("unknown_field", name, "reserved", f"{name}: is no known field") for name in taken)
            )
        return bind(arguments)

    return bind_unreserved


def _demand_offsets(schema: Any) -> Any:
    """A copy in which date-times must have an offset; models and dataclasses have validators of their own."""
    if isinstance(schema, list):
        return [_demand_offsets(each) for each in schema]
    if not isinstance(schema, dict) or schema.get("type") in {"model", "dataclass"}:
        return schema
    if schema.get("type") == "datetime":
        return {"tz_constraint": "aware", **schema}
    return {key: value if key == "metadata" else _demand_offsets(value) for key, value in schema.items()}


# What pydantic says for these contains parts of the value.
_TELLING: Final = frozenset(
    {
        "bytes_invalid_encoding",
        "date_from_datetime_parsing",
        "date_parsing",
        "datetime_from_date_parsing",
        "datetime_object_invalid",
        "datetime_parsing",
        "get_attribute_error",
        "iteration_error",
        "json_invalid",
        "mapping_type",
        "time_delta_parsing",
        "time_parsing",
        "timezone_offset",
        "union_tag_invalid",
        "url_parsing",
        "url_syntax_violation",
        "uuid_parsing",
    }
)
_PYDANTIC: Final = frozenset(get_args(ErrorType)) - {"value_error", "assertion_error"}
_REASONS: Final = {
    "missing": "missing_required",
    "extra_forbidden": "unknown_field",
    "timezone_aware": "missing_offset",
    "value_error": "invalid_value",
    "assertion_error": "invalid_value",
}


def binding_issues(exc: pydantic.ValidationError, value: Any = None, known: Collection[str] = ()) -> tuple[Issue, ...]:
    """The issues in an error of pydantic: its own words without parts of the value, or those of the author's check.

    `value`: what was validated, to tell the steps of a path from the names of alternatives that pydantic mixes in;
    `None` keeps every step. `known`: the names of fields that may be shown whatever they look like.
    """
    issues = []
    for error in exc.errors(include_url=False, include_input=False):
        kind = error["type"]
        path = readable(_steps(error["loc"], value, kind), known)
        if kind == "timezone_aware":
            issues.append(offset_issue(path))
            continue
        if kind in _TELLING:
            said = "does not fit the type that the tool declares"
        elif kind in _PYDANTIC:
            said = error["msg"].replace("Input should", "must")
        else:
            said = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        message = f"{path or 'top level'}: {said}"
        issues.append(Issue(reason=_REASONS.get(kind, kind), path=path, rule=kind, message=message, allowed=None))
    return tuple(issues)


def _steps(loc: Sequence[str | int], value: Any, kind: str) -> Iterator[str | int]:
    whole = value is None
    for index, key in enumerate(loc):
        if not whole:
            try:
                value = value[key]
            except (LookupError, TypeError):
                if kind != "missing" or index < len(loc) - 1:
                    continue
        yield key
