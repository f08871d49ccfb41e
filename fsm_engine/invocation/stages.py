"""The pipeline on the machine: resolve, parse, validate, bind, execute, standardise, publish.

Each stage is one callable that does one thing and says no by raising `ToolError`. The machine says *when* a stage
runs; a stage says *how*. Replace, wrap or bypass any of them alone:

    >>> from fsm_engine import ToolEngine
    >>> def without_repeats(call, spec):
    ...     parsed = parse_arguments(call, spec)
    ...     return parsed._replace(notes=(*parsed.notes, "looked_at"))
    >>> engine = ToolEngine([], stages=Stages(parse=without_repeats))
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors.codes import Effect, ToolErrorCode
from ..errors.exceptions import ToolError
from ..errors.issue import Issue
from ..events.types import Event
from ..response.returned import standardise
from ..response.tool_response import ToolResponse
from ..schema.answers import run_validators
from ..schema.binding import BindError
from ..schema.results import shortened, unfit_result
from ..settings.table import STAGES, Declared, check_declared
from ..tools.call import ToolCall, printable_name
from ..tools.registry import ToolRegistry
from ..tools.spec import ToolSpec
from .arguments import MAX_ARGUMENT_DEPTH, Parsed, check_depth, own_containers, parse_arguments
from .attempt import Attempt
from .calling import call_function

if TYPE_CHECKING:
    from ..schema.compiled import CompiledSchema


def resolve_tool(call: ToolCall, registry: ToolRegistry) -> ToolSpec:
    """The tool of exactly that name, in the version that the registry chooses for the call.

    Raises:
        ToolError: `NOT_FOUND`, with the nearest names; `INVALID_PARAM` if the call has no name.
    """
    spec = registry.choose(call)
    if spec is not None:
        return spec
    if call.version is not None and call.name in registry:
        raise ToolError(
            ToolErrorCode.NOT_FOUND,
            f"There is no version {printable_name(call.version)} of {call.name}; there are "
            f"{', '.join(registry.versions(call.name))}.",
            reason="unknown_version",
        )
    if not call.name:
        raise ToolError(
            ToolErrorCode.INVALID_PARAM,
            "The call names no tool. Ask again with the name of one.",
            reason="missing_name",
        )
    if (
        "multi_tool_use" in call.name
    ):  # a wrapper that OpenAI's models have been trained to use, and now and then invent
        raise ToolError(
            ToolErrorCode.NOT_FOUND,
            f"{printable_name(call.name)} is no tool here. Call each tool by its own name; one message may hold several "
            "calls, and they run side by side.",
            reason="unknown_tool",
        )
    nearest = registry.nearest(call.name)
    hint = f"Did you mean {' or '.join(nearest)}?" if nearest else f"There are: {_some_names(registry)}."
    raise ToolError(
        ToolErrorCode.NOT_FOUND,
        f"There is no tool called {printable_name(call.name)}. {hint}",
        reason="unknown_tool",
        data={"nearest": list(nearest)},
    )


def validate_arguments(spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any] | Parsed:
    """The arguments with their defaults, if the schema and then the business rules have nothing against them.

    Arguments that do not fit are read once more, as they may have been meant: text that holds JSON is decoded where the
    schema wants an object or a list and does not take text, and a null is left out where the field may be missing but
    not null (a provider's strict mode makes models fill in every field). What was done is noted in a `Parsed`.

    Raises:
        ToolError: `INVALID_PARAM`, with an issue for each thing that is wrong; `INTERNAL_ERROR` if a rule is broken.
    """
    schema = spec.schema
    checked: dict[str, Any] = arguments  # type: ignore[assignment]  # parse makes a dict; only reading is done here
    notes: tuple[str, ...] = ()
    if not _is_valid(schema, checked):
        checked, notes = _reread(schema, checked)
        issues = schema.issues(checked)
        if issues:
            raise invalid_arguments(spec, issues)
    checked = schema.apply_defaults(checked)
    if spec.validators:
        issues = run_validators(spec.validators, checked)
        if issues:
            raise invalid_arguments(spec, issues)
    return Parsed(checked, notes) if notes else checked


def _reread(schema: CompiledSchema, arguments: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    decoded, places = schema.decode_embedded(arguments)
    if places:
        check_depth(decoded, MAX_ARGUMENT_DEPTH)
    kept = schema.drop_nulls(decoded)
    notes = tuple(f"decoded: {place}" for place in places)
    return kept, notes if kept is decoded else (*notes, "nulls_left_out")


def _is_valid(schema: CompiledSchema, value: Any) -> bool:
    try:
        return schema.is_valid(value)
    except Exception:  # noqa: BLE001 # whatever it raises, it could not read the value
        # The validator cannot read a value that is no JSON, an object of Python in a dictionary, say.
        return False


def bind_arguments(spec: ToolSpec, arguments: dict[str, Any]) -> Mapping[str, Any]:
    """The arguments as the types that the function declares: models, enums, aware datetimes.

    Raises:
        ToolError: `INVALID_PARAM`; a value fits the schema but not the type.
    """
    for value in arguments.values():
        if value.__class__ is dict or value.__class__ is list:
            # The function may change what it is given: neither the record nor the caller's own object.
            arguments = own_containers(arguments)
            break
    if spec.bind is None:
        return arguments
    try:
        return spec.bind(arguments)
    except BindError as error:
        raise invalid_arguments(spec, error.issues) from None


def invalid_arguments(spec: ToolSpec, issues: tuple[Issue, ...]) -> ToolError:
    """The error for arguments that are not valid: all issues, and the first one's reason."""
    first, *_ = issues
    listing = "; ".join(issue.message for issue in issues[:10])
    more = f" (and {len(issues) - 10} more)" if len(issues) > 10 else ""
    return ToolError(
        ToolErrorCode.INVALID_PARAM,
        f"{spec.name} was not called, as its arguments are not valid: {listing}{more}",
        reason=first.reason,
        issues=issues,
    )


def standardise_result(value: Any, spec: ToolSpec) -> ToolResponse:
    """The response for whatever the function returned; held to the output schema, if there is one, and to a length."""
    response = standardise(value)
    schema, limit = spec.result_schema, spec.max_result_chars
    if schema is not None and response.error_info is None:
        data = response.text if isinstance(value, str) else response.data
        if not _is_valid(schema, data):
            return unfit_result(spec.name, data, schema, _done(spec))
    if response.error_info is not None and not (isinstance(value, ToolResponse) and value.error_info is not None):
        return response.with_effect(_done(spec))  # it has run to its end, and answered with nothing of use
    return response if limit is None or len(response.text) <= limit else shortened(response, limit)


def _done(spec: ToolSpec) -> Effect:
    """The effect of a function that has run to its end."""
    return Effect.NONE if spec.read_only else Effect.DONE


def _some_names(registry: ToolRegistry) -> str:
    names = sorted(spec.name for spec in registry)
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "") if names else "none"


def publish_nothing(event: Event) -> None:
    """The default `publish` stage: an event goes to its stream and nowhere else."""


@dataclass(frozen=True, slots=True)
class Stages(Declared):
    """The stages that an engine runs; the defaults are the functions of this module.

    Args:
        resolve: the tool that a call asks for.
        parse: raw arguments to a JSON object.
        validate: schema and business rules; the arguments with their defaults, as a `Parsed` if there is something to note.
        bind: JSON values to the function's types.
        execute: a coroutine, not yet begun, that runs one attempt.
        standardise: whatever it returned to a `ToolResponse`.
        publish: is given every event of every invocation, beside the streams. May not wait; what it raises is logged.

    Raises:
        ConfigurationError: a stage cannot be called as it would be.
    """

    resolve: Callable[[ToolCall, ToolRegistry], ToolSpec] = resolve_tool
    parse: Callable[[ToolCall, ToolSpec], Parsed] = parse_arguments
    validate: Callable[[ToolSpec, Mapping[str, Any]], dict[str, Any] | Parsed] = validate_arguments
    bind: Callable[[ToolSpec, dict[str, Any]], Mapping[str, Any]] = bind_arguments
    execute: Callable[[ToolSpec, Mapping[str, Any], Attempt], Coroutine[Any, Any, Any]] = call_function
    standardise: Callable[[Any, ToolSpec], ToolResponse] = standardise_result
    publish: Callable[[Event], None] = publish_nothing

    def __post_init__(self) -> None:
        check_declared("Stages.", STAGES, self)

    def check_edit(self, call: ToolCall, spec: ToolSpec) -> dict[str, Any]:
        """The arguments that a person has written in place of the model's, checked as those are.

        Raises:
            ToolError: they are not valid.
        """
        checked = self.validate(spec, self.parse(call, spec).arguments)
        if isinstance(checked, Parsed):
            checked = checked.arguments
        self.bind(spec, checked)
        return checked
