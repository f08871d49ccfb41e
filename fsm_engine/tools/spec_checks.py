"""What can be known of a tool's settings once its function and schema have been read."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ..errors.exceptions import RegistrationError
from ..settings.table import did_you_mean

_COMBINED = ("anyOf", "oneOf", "allOf")


def property_names(schema: Mapping[str, Any]) -> set[str]:
    """The names of all properties that a schema mentions, at any depth."""
    found: set[str] = set()
    todo: list[Any] = [schema]
    while todo:
        node = todo.pop()
        if isinstance(node, Mapping):
            if isinstance(properties := node.get("properties"), Mapping):
                found.update(str(name) for name in properties)
            todo.extend(node.values())
        elif isinstance(node, list | tuple):
            todo.extend(node)
    return found


def check_sensitive(tool: str, given: Collection[str], schema: Mapping[str, Any], func: Any) -> frozenset[str]:
    """The names of arguments that nobody may see, if arguments can have them.

    A name may be that of a field at any depth. Where a schema leaves open what fields there are, any name may come.

    Raises:
        RegistrationError: there is none of this name, so that what was meant to be hidden would be shown.
    """
    names, known = frozenset(given), property_names(schema)
    unknown = sorted(names - known)
    if unknown and not _takes_any_keyword(func) and not any(map(_is_open, _nodes(schema))):
        raise RegistrationError(
            f"tool {tool!r}: sensitive names {unknown[0]!r}, and no argument is called that"
            f"{did_you_mean(unknown[0], sorted(known))}"
        )
    return names


def _takes_any_keyword(func: Any) -> bool:
    return any(each.kind is each.VAR_KEYWORD for each in inspect.signature(func).parameters.values())


def _nodes(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every subschema but the root, whose unknown fields the function's signature decides on."""
    todo: list[tuple[Any, bool]] = [(schema, True)]
    while todo:
        node, is_root = todo.pop()
        if not isinstance(node, Mapping):
            continue
        if not is_root:
            yield node
        for key, inner in node.items():
            if key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(inner, Mapping):
                todo.extend((each, False) for each in inner.values())
            elif key in (*_COMBINED, "prefixItems") and isinstance(inner, list | tuple):
                todo.extend((each, is_root) for each in inner)
            elif key in ("items", "additionalProperties", "not", "if", "then", "else", "contains"):
                todo.append((inner, False))


def _is_open(node: Mapping[str, Any]) -> bool:
    """An object of fields that are not written down would fit."""
    if "enum" in node or "const" in node or "$ref" in node:
        return False
    kinds = node.get("type")
    if kinds is None:
        return not any(key in node for key in (*_COMBINED, "properties"))
    is_object = kinds == "object" or (isinstance(kinds, list | tuple) and "object" in kinds)
    return is_object and node.get("additionalProperties", True) is not False


def check_fallback_function(
    tool: str, function: Callable[..., Any], func: Callable[..., Any], context_parameter: str | None
) -> None:
    """Refuse a fallback that could not be called with what the tool is called with.

    Raises:
        RegistrationError: with the argument that it does not take, or wants and does not get.
    """
    fixed = {context_parameter}
    inner: Any = func
    while isinstance(inner, functools.partial):
        fixed |= inner.keywords.keys()
        inner = inner.func
    parameters = inspect.signature(func).parameters.values()
    wanted = [each for each in parameters if each.name not in fixed and each.kind is not each.VAR_KEYWORD]
    required = [each.name for each in wanted if each.default is each.empty]
    try:
        readable = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in function does not always tell
        return
    for names in ([each.name for each in wanted], required):
        try:
            readable.bind(**dict.fromkeys(names))
        except TypeError as error:
            raise RegistrationError(
                f"tool {tool!r}: fallback is called with the tool's arguments by name "
                f"({', '.join(names) or 'none'}), and its function does not fit: {error}"
            ) from None


SIGNATURE_OF_A_WRAPPER = (
    "functools.wraps hands on the signature of the function within; say what the wrapper itself takes, by "
    "wrapper.__signature__ = inspect.signature(...), or leave functools.wraps out"
)
_TWICE = re.compile(r"got multiple values for (?:keyword )?argument '(\w+)'")


def check_wrapper(tool: str, func: Callable[..., Any]) -> None:
    """Refuse a wrapper that does not take what its signature offers, as one does that supplies an argument itself.

    Raises:
        RegistrationError: no call could ever be bound to it.
    """
    if not hasattr(func, "__wrapped__"):
        return
    offered = [each for each in inspect.signature(func).parameters.values() if each.kind is not each.VAR_KEYWORD]
    try:
        own = inspect.signature(func, follow_wrapped=False)
    except ValueError:  # written in C, as that of functools.cache is
        return
    try:
        own.bind(**{each.name: None for each in offered})
    except TypeError as error:
        raise RegistrationError(f"tool {tool!r}: its wrapper: {error}. {SIGNATURE_OF_A_WRAPPER}") from None


def argument_given_twice(func: Any, error: BaseException) -> str | None:
    """The argument that a wrapper supplies itself although its signature offers it: the model's is one too many.

    A wrapper of `*args` and `**kwargs` does not tell before it is called. `None`: the error is another one.
    """
    said = _TWICE.search(str(error)) if isinstance(error, TypeError) and hasattr(func, "__wrapped__") else None
    if said is None or said[1] not in inspect.signature(func).parameters:
        return None
    wrappers, trace = set(), error.__traceback__
    while hasattr(func, "__wrapped__"):
        wrappers.add(getattr(func, "__code__", None))
        func = func.__wrapped__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return said[1] if trace is not None and trace.tb_frame.f_code in wrappers else None
