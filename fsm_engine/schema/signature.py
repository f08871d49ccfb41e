"""What a function's signature says: the JSON Schema of its arguments, and how to give it what it declares.

The type hints are read by pydantic, as one `TypedDict` of the parameters: any name may be a parameter's, and what comes
out is the keyword arguments. A call's arguments are judged by the schema first, so binding never has to guess: there
"7" is no number and ``true`` no integer.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import pydantic
import typing_extensions
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import core_schema

from ..docstrings import read_docstring
from ..errors.exceptions import RegistrationError
from ..response.tool_response import ToolResponse
from .binding import NO_EXTRA, BindError, Parameters, is_plain_call, make_binder

__all__ = ["BindError", "FunctionKind", "FunctionSignature", "inspect_function"]

FunctionKind = Literal["async", "sync", "async_generator", "sync_generator"]

_FIX_TYPE: Final = "use types that have a JSON form, such as str, int, list, a pydantic model, a dataclass or an enum"


@dataclass(frozen=True)
class FunctionSignature:
    """What :func:`inspect_function` has found.

    `parameters_schema`: JSON Schema of the arguments, an object. `bind`: makes keyword arguments of a JSON object that
    fits the schema, with the declared types; raises :class:`BindError`. `needs_binding`: if not, the JSON object
    itself will do. `context_parameter`: the parameter that wants the context, if there is one; it is no part of the
    schema. `description`: the docstring's text before its sections. `kind`: what a call gives: a coroutine, a value,
    or a generator. A plain function may still return an awaitable, such as one that wraps a coroutine function.
    """

    parameters_schema: Mapping[str, Any]
    bind: Callable[[Mapping[str, Any]], dict[str, Any]]
    needs_binding: bool
    context_parameter: str | None
    description: str
    kind: FunctionKind
    return_annotation: Any

    @property
    def is_sync(self) -> bool:
        """Whether a call does its work in the calling thread."""
        return self.kind in {"sync", "sync_generator"}

    @functools.cached_property
    def return_schema(self) -> Mapping[str, Any] | None:
        """JSON Schema of what is returned; `None` if the annotation does not say, or has no JSON form."""
        annotation: Any = self.return_annotation
        nothing = (inspect.Signature.empty, None, type(None), Any)
        if (
            any(annotation is each for each in nothing)
            or self.kind not in {"async", "sync"}
            or ToolResponse in (annotation, *typing.get_args(annotation))
        ):
            return None
        try:
            return pydantic.TypeAdapter(annotation).json_schema(mode="serialization", schema_generator=_Schema)
        except (pydantic.PydanticUserError, RegistrationError):
            return None


class _Schema(GenerateJsonSchema):
    """Pydantic's schema, made strict and short: no unknown fields, no titles that only repeat a field's name."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """A default without a JSON form is the function's own affair: it is left out of the schema."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return self._close(super().model_schema(schema), schema["cls"].model_config)

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return self._close(super().dataclass_schema(schema), getattr(schema["cls"], "__pydantic_config__", None))

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        return self._close(super().typed_dict_schema(schema), getattr(schema.get("cls"), "__pydantic_config__", None))

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        if schema.get("tz_constraint") == "naive":
            raise RegistrationError("a date-time in JSON has an offset; declare datetime or AwareDatetime instead")
        return super().datetime_schema(schema)

    def _close(self, made: JsonSchemaValue, config: Mapping[str, Any] | None) -> JsonSchemaValue:
        """Refuse unknown fields, which pydantic drops in silence, unless the class says what becomes of them."""
        if self.mode == "validation" and "properties" in made and "extra" not in (config or {}):
            made.setdefault("additionalProperties", False)
        return made


def inspect_function(
    func: Callable[..., Any], *, context_type: type | None = None, schema_given: bool = False
) -> FunctionSignature:
    """Read what a function wants to be called with. Functions, bound methods, partials and callable objects will do.

    A parameter without annotation takes any JSON value. Parameters that a `functools.partial` has set by name are not
    part of the schema. ``**kwargs: T`` admits unknown fields of the type `T`. An unknown field of a model, dataclass
    or TypedDict is refused, unless its configuration says something about ``extra``. A date-time needs an offset.

    Args:
        func: the function.
        context_type: the class of the context; a parameter annotated with it (or it and None) is given by the engine.
        schema_given: the schema of the parameters is written by hand, so that ``**kwargs`` needs no annotation.

    Raises:
        RegistrationError: the function cannot be called by name with JSON values; the message says what to change.

    Example:
        >>> def weather(city: str, days: int = 1) -> str:
        ...     return f"{city}: rain for {days} days"
        >>> inspect_function(weather).parameters_schema["required"]
        ['city']
    """
    name = getattr(func, "__name__", None) or type(func).__name__
    function = _plain_function(func)
    hints = _resolve_hints(function, name, context_type)
    parameters = _read_parameters(func, name, hints, context_type, schema_given=schema_given)
    adapter = _adapter(parameters, name)
    doc = read_docstring(inspect.getdoc(function))
    return FunctionSignature(
        parameters_schema=_describe(_json_schema(adapter, parameters, name), doc.parameters),
        bind=make_binder(adapter, parameters),
        needs_binding=not is_plain_call(adapter.core_schema, parameters),
        context_parameter=parameters.context,
        description=doc.description,
        kind=_kind(func),
        return_annotation=hints.get("return", inspect.Signature.empty),
    )


def _plain_function(func: Any) -> Any:
    """The function that was written with `def`: where the annotations and the docstring are."""
    while isinstance(func, functools.partial):
        func = func.func
    if not (inspect.isroutine(func) or inspect.isclass(func)):
        func = type(func).__call__
    return inspect.unwrap(getattr(func, "__func__", func))


def _kind(func: Any) -> FunctionKind:
    while isinstance(func, functools.partial):
        func = func.func
    called = func if inspect.isroutine(func) else type(func).__call__
    if inspect.isasyncgenfunction(called):
        return "async_generator"
    if inspect.iscoroutinefunction(called):
        return "async"
    return "sync_generator" if inspect.isgeneratorfunction(called) else "sync"


def _resolve_hints(function: Any, name: str, context_type: type | None) -> dict[str, Any]:
    """The annotations, those written as strings evaluated where the function was defined."""
    names = dict(_locals_around(function))
    if context_type is not None and context_type.__name__ not in getattr(function, "__globals__", {}):
        # A module may import the context for type checkers only; its parameter is recognised all the same.
        names.setdefault(context_type.__name__, context_type)
    try:
        return typing.get_type_hints(function, localns=names, include_extras=True)
    except Exception as exc:  # evaluating text may raise anything
        raise RegistrationError(
            f"tool {name!r}: an annotation cannot be resolved ({exc}); define or import its type where the function "
            "is defined, before the tool is registered, and not under TYPE_CHECKING"
        ) from exc


def _locals_around(function: Any) -> Mapping[str, Any]:
    """The local names of the function that defined this one, if that one is still running."""
    outer, inside, _ = getattr(function, "__qualname__", "").rpartition(".<locals>.")
    frame = inspect.currentframe() if inside else None
    while frame is not None:
        code = frame.f_code
        if code.co_qualname == outer and code.co_filename == function.__code__.co_filename:
            return frame.f_locals
        frame = frame.f_back
    return {}


def _read_parameters(
    func: Any, name: str, hints: Mapping[str, Any], context_type: type | None, *, schema_given: bool
) -> Parameters:
    if inspect.isclass(func):
        raise RegistrationError(f"tool {name!r}: a class is no tool; give a function or a method of an object")
    try:
        signature = inspect.signature(func)
    except (TypeError, ValueError) as exc:
        raise RegistrationError(f"tool {name!r}: has no signature to read; wrap it in a function of your own") from exc
    fixed = _fixed_keywords(func)
    found = Parameters(fields={}, reserved=frozenset(fixed))
    for parameter in signature.parameters.values():
        if parameter.name in fixed:
            continue
        annotation = hints.get(parameter.name, Any)
        if _is_context(annotation, context_type):
            if found.context is not None:
                raise RegistrationError(f"tool {name!r}: two parameters want the context; keep one")
            found.context = parameter.name
            found.reserved |= {parameter.name}
            continue
        _refuse_unfit(parameter, name, annotated=parameter.name in hints, first=not found.fields)
        if parameter.kind is parameter.VAR_KEYWORD:
            found.extra = _extra(parameter, name, annotation, annotated=schema_given or parameter.name in hints)
        elif isinstance(parameter.default, FieldInfo):
            found.fields[parameter.name] = Annotated[annotation, parameter.default]
        elif parameter.default is parameter.empty:
            found.fields[parameter.name] = annotation
        else:
            found.fields[parameter.name] = Annotated[annotation, pydantic.Field(default=parameter.default)]
            found.plain_defaults |= {parameter.name}
    return found


def _fixed_keywords(func: Any) -> set[str]:
    """What a partial has set by name: the author's choice, not the model's, and maybe a secret."""
    fixed: set[str] = set()
    while isinstance(func, functools.partial):
        fixed |= func.keywords.keys()
        func = func.func
    return fixed


def _is_context(annotation: Any, context_type: type | None) -> bool:
    if typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        wanted = [each for each in typing.get_args(annotation) if each is not type(None)]
        annotation = wanted[0] if len(wanted) == 1 else None
    return context_type is not None and annotation is context_type


def _refuse_unfit(parameter: inspect.Parameter, name: str, *, annotated: bool, first: bool) -> None:
    problem = None
    if parameter.kind is parameter.VAR_POSITIONAL:
        problem = f"*{parameter.name} cannot be given by name; take a list instead: {parameter.name}: list[str]"
    elif parameter.kind is parameter.POSITIONAL_ONLY:
        problem = f"{parameter.name} cannot be given by name; take the '/' out of the signature"
    elif parameter.name in {"self", "cls"} and first and not annotated:
        problem = f"{parameter.name} is missing; register the method of an object, not that of the class"
    if problem is not None:
        raise RegistrationError(f"tool {name!r}: {problem}")


def _extra(parameter: inspect.Parameter, name: str, annotation: Any, *, annotated: bool) -> Any:
    if not annotated:
        raise RegistrationError(
            f"tool {name!r}: **{parameter.name} does not say which values it takes; annotate it, as in "
            f"**{parameter.name}: str, or name the parameters one by one"
        )
    if typing.get_origin(annotation) in (typing.Unpack, typing_extensions.Unpack):
        raise RegistrationError(
            f"tool {name!r}: **{parameter.name}: Unpack[…] is not read; name the parameters instead"
        )
    return annotation


def _adapter(parameters: Parameters, name: str) -> pydantic.TypeAdapter[Any]:
    try:
        return _adapter_of(parameters.fields, parameters.extra)
    except Exception as exc:
        raise _unfit_type(parameters, name, exc) from exc


def _adapter_of(fields: Mapping[str, Any], extra: Any = NO_EXTRA) -> pydantic.TypeAdapter[Any]:
    typed_dict: Any = typing_extensions.TypedDict  # made at run time, which type checkers do not follow
    if extra is NO_EXTRA:
        made = typed_dict("Arguments", dict(fields))
        made.__pydantic_config__ = pydantic.ConfigDict(extra="forbid")
    else:
        made = typed_dict("Arguments", dict(fields), extra_items=extra)
    return pydantic.TypeAdapter(made)


def _json_schema(adapter: pydantic.TypeAdapter[Any], parameters: Parameters, name: str) -> dict[str, Any]:
    try:
        schema = adapter.json_schema(schema_generator=_Schema)
    except Exception as exc:
        raise _unfit_type(parameters, name, exc) from exc
    made = {"type": "object", "properties": {}, **schema}
    return {keyword: value for keyword, value in made.items() if keyword not in {"title", "description"}}


def _unfit_type(parameters: Parameters, name: str, exc: Exception) -> RegistrationError:
    """The error for a type that pydantic cannot read, with the name of its parameter."""
    said = str(exc).partition("\n")[0]
    for parameter, annotation in parameters.fields.items():
        try:
            _adapter_of({parameter: annotation}).json_schema(schema_generator=_Schema)
        except Exception:  # noqa: BLE001 - the very error that is being looked for
            return RegistrationError(f"tool {name!r}: parameter {parameter!r} has an unfit type: {said}; {_FIX_TYPE}")
    return RegistrationError(f"tool {name!r}: the parameters have an unfit type: {said}; {_FIX_TYPE}")


def _describe(schema: dict[str, Any], descriptions: Mapping[str, str]) -> dict[str, Any]:
    """The schema with what the docstring says of parameters that say nothing themselves."""
    for name, field in schema["properties"].items():
        if name in descriptions:
            field.setdefault("description", descriptions[name])
    return schema
