"""What a tool is: `ToolSpec`, and `@tool`, which makes one from a function."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, Unpack, cast, overload

from typing_extensions import ParamSpec, TypeVar

from ..breaker.policy import BreakerPolicy
from ..concurrency.processes import named
from ..errors.exceptions import ConfigurationError, RegistrationError
from ..invocation.substitute import FallbackPolicy, as_fallback
from ..jsonable.redaction import is_secret_key, redact_mapping
from ..schema.answers import Validator, as_validators
from ..schema.signature import FunctionSignature, inspect_function
from ..settings.kinds import shown
from ..settings.table import TOOL, Declared, check_settings, refuse_unknown, settings_of
from .context import ToolContext
from .names import OPENAI
from .rate import RateLimit
from .retry import RetryPolicy
from .spec_checks import check_fallback_function, check_sensitive, check_wrapper, property_names
from .tool_settings import HealthProbe, NeedsApproval, ToolChanges, ToolSettings

if TYPE_CHECKING:
    from ..response.error_info import ErrorInfo
    from ..schema.compiled import CompiledSchema
else:
    CompiledSchema = Any  # for who reads annotations; importing it takes as long as all the rest together

DEFAULT_TIMEOUT = 60.0
DEFAULT_APPROVAL_TIMEOUT = 600.0
"""Seconds; long enough for a person to be found, and short enough that nobody waits for ever for one who is not there."""
MAX_NAME = 64
SYNC_CONCURRENCY = 8
"""A hanging sync tool keeps a thread for each call; eight of them leave the pool (32) to the others."""

P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)
P2 = ParamSpec("P2")
R2 = TypeVar("R2")


# Compared by identity: two tools of the same settings are still two tools, and the engine looks them up at every call.
@dataclass(frozen=True, eq=False, kw_only=True)
class ToolSpec(Declared, Generic[P, R]):
    """Everything that the engine knows of a tool. Checked when made; calling it calls the function.

    Args:
        name: what the model calls it by: letters, digits, `_`, `-`, `.`, at most 64 of them.
        description: what the model reads of it; the function's docstring by default.
        func: a function, coroutine function or generator function of either kind.
        parameters_schema: JSON Schema of the arguments, an object; made from the signature by default.
        validator: business rules that the schema cannot say, one function or several; see `validators`.
        timeout: seconds that one attempt may take; `None`: any time.
        idle_timeout: seconds that an attempt may go without `ToolContext.report` or `emit`; `None`: any time.
        deadline: seconds for the whole invocation, waiting and retries included, approval not; `None`: any time.
        max_retries: how many attempts may follow the first, for errors that may pass.
        retry: the same with its waits in your hands; give one of the two.
        max_concurrency: how many attempts of it may run at once; by default 8 for sync functions, of the engine's own
            threads at most all but one; else any number.
        max_queue: how many calls may wait for it; more are refused with the time to come back. `None`: any number.
        rate_limit: how many attempts may begin in a span of time.
        single_flight: calls with the same arguments that are under way at the same time share one run and its result; each
            keeps its own id, events and response. Models ask twice for the same thing in one message now and then.
        key: what a result depends on beside the arguments, for `single_flight` and `last_good`: a function of the arguments,
            called in the caller's context, that answers something hashable (the user, the tenant). Without it a result
            of one caller is another's for the same arguments.
        breaker: when its circuit opens; `None`: it has no circuit.
        breaker_group: share one circuit with the tools of the same group, those of one upstream; else it is the
            tool's and version's own.
        executor: where a sync function runs: `"thread"` (of the engine's pool), `"process"` (one that is killed when
            the time is up), or any `concurrent.futures.Executor`.
        idempotent: calling it twice is like calling it once, so it may be retried whatever the first attempt did.
        read_only: it changes nothing, so it may be retried, and nothing is unclear after a time-out.
        destructive: it destroys something; for whoever decides on approvals.
        needs_approval: a person must agree to each call, or to those whose arguments the function answers `True` for.
        approval_timeout: seconds to wait for that person, ten minutes if nothing is said; `None`: any time.
        fallback: what answers in its place when it cannot be called: `"last_good"` (for read-only tools), a function
            of the same arguments, or a `FallbackPolicy`, which can also stand in after failures.
        output_schema: JSON Schema of the result's `data`; a result that does not fit is an error.
        max_result_chars: of a longer text the model reads the beginning and the end (of JSON, as many values as fit), and
            that it is not all; the response is partial, and its `data` has the whole. At least 100; `None`: no limit.
        sensitive: names of arguments that no log and no event may show, beside those that look like secrets. Their values
            are masked in texts of errors, too, and fields of these names in pieces of output. A result is shown as it
            is, since the model is to read it: leave out of it what nobody may see.
        health_check: how to find out whether the tool is well: a function without arguments, plain or coroutine (an
            exception or `False` says no), or the arguments of a harmless sample call.
        version: of the tool, for circuits, approvals, logs and events.
        canary: per cent of the calls that go to this version, beside the stable version of the same name; 0: only calls
            that name the version. `None`: this is the stable one.
        tags: for your own use.
        lint: refuse a schema that is legal but most likely wrong (a property never required and without default).

    Raises:
        ConfigurationError: something cannot work; the message says what to change.

    Example:
        >>> def add(a: int, b: int = 0) -> int:
        ...     '''Add two numbers.'''
        ...     return a + b
        >>> spec = ToolSpec(name="add", func=add, read_only=True)
        >>> spec.description, sorted(spec.parameters["properties"])
        ('Add two numbers.', ['a', 'b'])
    """

    name: str
    func: Callable[P, R]
    description: str = ""
    parameters_schema: Mapping[str, Any] | None = None
    validator: Validator | list[Validator] | tuple[Validator, ...] | None = ()
    timeout: float | None = DEFAULT_TIMEOUT
    idle_timeout: float | None = None
    deadline: float | None = None
    max_retries: int | None = None
    retry: RetryPolicy | None = None
    max_concurrency: int | None = None
    max_queue: int | None = 1_000
    rate_limit: RateLimit | None = None
    single_flight: bool = False
    key: Callable[[Mapping[str, Any]], Hashable] | None = None
    breaker: BreakerPolicy | None = None
    breaker_group: str | None = None
    executor: Literal["thread", "process"] | Executor = "thread"
    idempotent: bool = False
    read_only: bool = False
    destructive: bool = False
    needs_approval: NeedsApproval = False
    approval_timeout: float | None = DEFAULT_APPROVAL_TIMEOUT
    fallback: Literal["last_good"] | Callable[..., Any] | FallbackPolicy | None = None
    output_schema: Mapping[str, Any] | None = None
    max_result_chars: int | None = 100_000
    sensitive: frozenset[str] | set[str] | tuple[str, ...] | list[str] = frozenset()
    health_check: HealthProbe | None = None
    version: str = "1"
    canary: float | None = None
    tags: tuple[str, ...] = ()
    lint: bool = True

    # What follows from the above.
    signature: FunctionSignature = field(init=False, repr=False)
    schema: CompiledSchema = field(init=False, repr=False)
    result_schema: CompiledSchema | None = field(init=False, repr=False)
    validators: tuple[Validator, ...] = field(init=False, repr=False)
    fallback_policy: FallbackPolicy | None = field(init=False, repr=False)
    retry_policy: RetryPolicy = field(init=False, repr=False)
    bind: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = field(init=False, repr=False)
    hides: frozenset[str] = field(init=False, repr=False)
    is_plain_coroutine: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Not at the top: the validators take a third of the time that the package takes to import.
        from ..schema.compiled import CompiledSchema

        _check_name(self.name)
        check_settings(f"tool {self.name!r}: ", TOOL, {name: getattr(self, name) for name in TOOL}, RegistrationError)
        self._check_combinations()
        signature = inspect_function(
            self.func, context_type=ToolContext, schema_given=self.parameters_schema is not None
        )
        parameters = signature.parameters_schema if self.parameters_schema is None else self.parameters_schema
        derived = {
            "signature": signature,
            "schema": CompiledSchema(parameters, name=self.name, lint=self.lint and self.parameters_schema is not None),
            "result_schema": None
            if self.output_schema is None
            else CompiledSchema(self.output_schema, name=f"{self.name} (output)", lint=False, any_root=True),
            "validators": _validators_of(self),
            "version": str(self.version),
            "tags": tuple(self.tags),
            "fallback_policy": as_fallback(self.fallback, self.name, read_only=self.read_only),
            "retry_policy": self.retry or RetryPolicy(max_retries=self.max_retries or 0),
            # A schema written by hand may admit what the function does not take: only binding finds that out.
            "bind": signature.bind if signature.needs_binding or self.parameters_schema is not None else None,
            "description": self.description or signature.description,
            "sensitive": check_sensitive(self.name, self.sensitive, parameters, self.func),
            "is_plain_coroutine": signature.kind == "async" and signature.context_parameter is None,
            "hides": frozenset(self.sensitive) | {key for key in property_names(parameters) if is_secret_key(key)},
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)
        self._check_function()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, past the engine."""
        return self.func(*args, **kwargs)

    def __reduce__(self) -> Any:
        module, name = getattr(self.func, "__module__", None), getattr(self.func, "__qualname__", "")
        if module is not None and named(module, name) is self:  # where it is known by the name of its function
            return named, (module, name)
        raise TypeError(
            f"tool {self.name!r} cannot be pickled, since no module has it under its function's name; import the tool on "
            "the other side, or send the call and its response, which can be"
        )

    def __copy__(self) -> Self:
        return self  # nothing in it changes

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        return self.schema.schema

    @property
    def is_repeatable(self) -> bool:
        """Another attempt does no harm, whatever the one before did."""
        return self.idempotent or self.read_only

    @property
    def runs_in_thread(self) -> bool:
        """An attempt needs one of the engine's threads."""
        return self.executor == "thread" and self.signature.kind in ("sync", "sync_generator")

    @property
    def slots(self) -> int | None:
        """How many attempts may run at once; `None`: any number."""
        if self.max_concurrency is None and (self.runs_in_thread or self.executor == "process"):
            return SYNC_CONCURRENCY
        return self.max_concurrency

    @property
    def breaker_scope(self) -> str:
        """The name of its circuit: the group's, or `name@version`."""
        return self.breaker_group or f"{self.name}@{self.version}"

    @property
    def unexplained(self) -> tuple[str, ...]:
        """What its definition leaves the model to guess: the description, and the parameters without a type."""
        properties: Mapping[str, Any] = self.parameters.get("properties", {})
        silent = [name for name, schema in properties.items() if not schema or schema.keys() <= {"default", "title"}]
        described = () if self.description.strip() else ("description",)
        return (*described, *(f"type of {name}" for name in silent))

    def counts_as_failure(self, error: ErrorInfo) -> bool:
        """Whether an error says that the tool is not well: it counts against the circuit, and a fallback is for it."""
        if self.breaker is None:
            return error.counts
        return self.breaker.counts(error.code, by_default=error.counts)

    def shown(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments as logs and events may show them."""
        return cast("Mapping[str, Any]", redact_mapping(dict(arguments), self.hides)) if self.hides else arguments

    def replaced(self, **changes: Unpack[ToolChanges]) -> Self:
        """A tool with other settings.

        Raises:
            ConfigurationError: a setting cannot work, or there is none of that name.
        """
        refuse_unknown(f"tool {self.name!r}", changes, settings_of(ToolSpec), RegistrationError)
        return replace(self, **changes)

    def to_openai_function(self) -> dict[str, Any]:
        """The definition for the `tools` of OpenAI's chat completions.

        Under a name that OpenAI takes: `fs.read` is offered, and may be called, as `fs_read`. See
        `providers.definitions` for what it takes beside that.

        Example:
            >>> ToolSpec(name="now", func=lambda: "12:00", description="The time.").to_openai_function()["type"]
            'function'
        """
        return {
            "type": "function",
            "function": {
                "name": OPENAI.legal(self.name),
                "description": self.description,
                "parameters": dict(self.parameters),
            },
        }

    def _check_combinations(self) -> None:
        if self.max_retries is not None and self.retry is not None:
            raise ConfigurationError(f"tool {self.name!r}: max_retries is part of retry; give one of the two")
        own_timeout = None if self.timeout == DEFAULT_TIMEOUT else self.timeout
        if own_timeout is not None and self.deadline is not None and own_timeout > self.deadline:
            raise ConfigurationError(
                f"tool {self.name!r}: a timeout of {own_timeout:g} s cannot be kept within a deadline of "
                f"{self.deadline:g} s; shorten the timeout or lengthen the deadline"
            )
        if self.breaker_group is not None and self.breaker is None:
            raise ConfigurationError(
                f"tool {self.name!r}: breaker_group names a circuit, but there is no breaker; add breaker=BreakerPolicy()"
            )
        if self.idle_timeout is not None and self.timeout is not None and self.idle_timeout > self.timeout:
            raise ConfigurationError(
                f"tool {self.name!r}: idle_timeout ({self.idle_timeout:g} s) is longer than timeout "
                f"({self.timeout:g} s) and would never come into play; shorten it"
            )

    def _check_function(self) -> None:
        signature = self.signature
        check_wrapper(self.name, self.func)
        probe = self.health_check
        if isinstance(probe, Mapping):
            issues = self.schema.issues(dict(probe))
            if issues:
                raise ConfigurationError(
                    f"tool {self.name!r}: the sample call of health_check would be refused: {issues[0].message}"
                )
        if self.fallback_policy is not None and self.fallback_policy.function is not None:
            check_fallback_function(self.name, self.fallback_policy.function, self.func, signature.context_parameter)
        if self.executor != "thread":
            if signature.kind != "sync":
                raise RegistrationError(f"tool {self.name!r}: only a plain function can run on an executor of its own")
            if signature.context_parameter is not None:
                raise RegistrationError(
                    f"tool {self.name!r}: a function on an executor of its own cannot have a ToolContext parameter, "
                    "as it may run in another process; take the parameter out or leave the executor out"
                )


def _validators_of(spec: ToolSpec) -> tuple[Validator, ...]:
    try:
        return as_validators(spec.validator)
    except ConfigurationError as error:
        raise RegistrationError(f"tool {spec.name!r}: validator: {error}") from None


def _check_name(name: object) -> None:
    legal = issubclass(type(name), str) and 0 < len(str(name)) <= MAX_NAME
    if not (legal and all(letter.isascii() and (letter.isalnum() or letter in "_-.") for letter in str(name))):
        raise RegistrationError(
            f"{shown(name)} cannot be a tool's name: models call tools by 1 to 64 letters, digits, '_', '-' and '.'"
        )


@overload
def tool(func: ToolSpec[P2, R2], /, **settings: Unpack[ToolSettings]) -> ToolSpec[P2, R2]: ...


@overload
def tool(func: Callable[P2, R2], /, **settings: Unpack[ToolSettings]) -> ToolSpec[P2, R2]: ...


@overload
def tool(**settings: Unpack[ToolSettings]) -> Callable[[Callable[P2, R2]], ToolSpec[P2, R2]]: ...


def tool(func: Callable[..., Any] | None = None, /, **settings: Unpack[ToolSettings]) -> Any:
    """Make a `ToolSpec` of a function: name, description and schema come from the function.

    It is a decorator with or without parentheses, and a function that takes a function; in each form it takes the same
    settings.

    Args:
        settings: any argument of `ToolSpec`, to say otherwise or more.

    Raises:
        ConfigurationError: the function or a setting cannot work.

    Example:
        >>> @tool(timeout=15.0, read_only=True)
        ... async def search_web(query: str, limit: int = 10) -> list[dict[str, str]]:
        ...     '''Search the web.'''
        ...     return [{"title": query}] * limit
        >>> search_web.name, search_web.timeout
        ('search_web', 15.0)
    """
    if func is None:
        refuse_unknown("@tool", settings, settings_of(ToolSpec), RegistrationError)
        return lambda function: tool_of(function, **settings)
    return tool_of(func, **settings)


def tool_of(func: Any, **settings: Unpack[ToolSettings]) -> ToolSpec:
    """The `ToolSpec` of a function, or a `ToolSpec` itself; with settings, if there are any.

    Raises:
        RegistrationError: it is neither, or a setting cannot work.
    """
    if isinstance(func, ToolSpec):
        return func.replaced(**settings) if settings else func
    if not callable(func):
        hint = f"; write @tool(name={func!r})" if type(func) is str and len(func) <= MAX_NAME else ""
        raise RegistrationError(f"a tool is a function or a ToolSpec, not {shown(func)}{hint}")
    own_name = getattr(func, "__name__", type(func).__name__)
    refuse_unknown(f"tool {own_name!r}", settings, _SETTINGS_OF_A_FUNCTION, RegistrationError)
    given: dict[str, Any] = {"name": own_name, **settings, "func": func}
    return ToolSpec(**given)


_SETTINGS_OF_A_FUNCTION = tuple(name for name in settings_of(ToolSpec) if name != "func")

__all__ = ["DEFAULT_TIMEOUT", "ToolSpec", "tool", "tool_of"]
