"""Every setting there is, as one table for each thing that takes settings, checked where the thing is made.

A row says what a value must be and what `None` means, if it may be that. Defaults stand where the setting is declared
and meanings in the docstring there; `describe` puts all of it together.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, Self

from ..docstrings import read_docstring
from ..errors.exceptions import ConfigurationError
from ..jsonable.truncation import MIN_LIMIT
from .kinds import (
    ANYTHING,
    FLAG,
    MAPPING,
    MOST_KEPT,
    MOST_SECONDS,
    NAME,
    SHARE,
    TEXT,
    VERSION,
    Kind,
    choice,
    count,
    either,
    function,
    instance_of,
    is_number,
    names,
    per_cent,
    seconds,
    shown,
    with_methods,
)


class Setting(NamedTuple):
    """A row: what a value must be, and what `None` means; without the latter it is refused."""

    kind: Kind
    none: str | None = None


_SECONDS: Final = seconds()
_SECONDS_OR_0: Final = seconds(zero=True)
_COUNT: Final = count()
_FLAG: Final = Setting(FLAG)
_NO_LIMIT: Final = "for no limit"
_A_FUNCTION: Final = Kind(
    "a function of the tool's arguments", lambda value: callable(value) and not isinstance(value, type)
)
_A_KEY: Final = function("a plain function of the arguments that answers something hashable", 1, plain=True)
_CODES: Final = Setting(names("codes", "{'RATE_LIMIT'}"))
_CLOCK: Final = with_methods("a clock", "monotonic", "wall", "sleep", "call_at")

TOOL: Final[Mapping[str, Setting]] = {
    "description": Setting(TEXT),
    "parameters_schema": Setting(MAPPING, "to make it from the signature"),
    "validator": Setting(
        # Each of them is judged by `as_validators`, which knows what else they must be.
        Kind(
            "a plain function of the arguments, or a list of such",
            lambda value: callable(value) or isinstance(value, list | tuple),
        ),
        "for no rules",
    ),
    "timeout": Setting(_SECONDS, _NO_LIMIT),
    "idle_timeout": Setting(_SECONDS, _NO_LIMIT),
    "deadline": Setting(_SECONDS, _NO_LIMIT),
    "max_retries": Setting(count(0), "for what retry says"),
    "retry": Setting(
        instance_of(
            "tools.retry:RetryPolicy", "RetryPolicy(max_retries=3); for a number of retries alone say max_retries=3"
        ),
        "for what max_retries says",
    ),
    "max_concurrency": Setting(_COUNT, "for the usual limit of its kind"),
    "max_queue": Setting(_COUNT, _NO_LIMIT),
    "rate_limit": Setting(instance_of("tools.rate:RateLimit", "RateLimit(10, per=1.0)"), _NO_LIMIT),
    "single_flight": _FLAG,
    "key": Setting(_A_KEY, "for the arguments alone"),
    "breaker": Setting(instance_of("breaker.policy:BreakerPolicy", "BreakerPolicy()"), "for no circuit"),
    "breaker_group": Setting(NAME, "for a circuit of its own"),
    "executor": Setting(
        either(
            choice("thread", "process"),
            Kind("a concurrent.futures.Executor", lambda value: isinstance(value, Executor)),
            allowed='"thread", "process" or a concurrent.futures.Executor',
        )
    ),
    "idempotent": _FLAG,
    "read_only": _FLAG,
    "destructive": _FLAG,
    "needs_approval": Setting(
        either(FLAG, function("a plain function of the arguments that answers one of them", 1, plain=True))
    ),
    "approval_timeout": Setting(_SECONDS, _NO_LIMIT),
    "fallback": Setting(
        either(
            choice("last_good"),
            _A_FUNCTION,
            instance_of("invocation.substitute:FallbackPolicy", "FallbackPolicy(value=...)"),
            allowed='"last_good", a function of the tool\'s arguments, or FallbackPolicy(value=...)',
        ),
        "for none",
    ),
    "output_schema": Setting(MAPPING, "to let every result pass"),
    "max_result_chars": Setting(count(MIN_LIMIT), _NO_LIMIT),
    "sensitive": Setting(names("names of arguments", "('password',)")),
    "health_check": Setting(
        either(
            function("a function without arguments", 0),
            MAPPING,
            allowed="a function without arguments or the arguments of a sample call",
        ),
        "for none",
    ),
    "version": Setting(VERSION),
    "canary": Setting(SHARE, "for the stable version"),
    "tags": Setting(names("names", "('web',)")),
    "lint": _FLAG,
}

RETRY: Final[Mapping[str, Setting]] = {
    "max_retries": Setting(count(0)),
    "wait": Setting(function("a tenacity wait strategy, such as wait_fixed(1)", 1, plain=True)),
    "max_retry_after": Setting(_SECONDS_OR_0),
}

BREAKER: Final[Mapping[str, Setting]] = {
    "sliding_window_size": Setting(count(most=MOST_KEPT)),
    "sliding_window_type": Setting(choice("count", "time")),
    "minimum_number_of_calls": Setting(count(most=MOST_KEPT)),
    "failure_rate_threshold": Setting(per_cent()),
    "slow_call_rate_threshold": Setting(per_cent()),
    "slow_call_duration_threshold": Setting(_SECONDS),
    "wait_duration_in_open_state": Setting(_SECONDS),
    "permitted_calls_in_half_open": Setting(count(most=MOST_KEPT)),
    "automatic_transition_from_open_to_half_open": _FLAG,
    "max_wait_duration_in_half_open": Setting(_SECONDS_OR_0),
    "recovery": Setting(choice("automatic", "manual")),
    "ignored_codes": _CODES,
    "counted_codes": _CODES,
    "initial": Setting(choice("closed", "metrics_only", "forced_open", "disabled")),
}

FALLBACK: Final[Mapping[str, Setting]] = {
    "value": Setting(ANYTHING, "to answer null"),
    "function": Setting(_A_FUNCTION, "for another kind"),
    "last_good": _FLAG,
    "on_failure": _FLAG,
    "timeout": Setting(_SECONDS),
    "max_age": Setting(_SECONDS),
    "max_entries": Setting(_COUNT),
    "key": Setting(_A_KEY, "for the tool's"),
}

RATE_LIMIT: Final[Mapping[str, Setting]] = {
    "limit": Setting(count(most=MOST_KEPT)),
    "per": Setting(
        Kind(
            f"a number of seconds from 0.001 up, at most {MOST_SECONDS:,.0f}",
            lambda value: is_number(value) and 0.001 <= value <= MOST_SECONDS,
            "seconds",
        )
    ),
}

ENGINE: Final[Mapping[str, Setting]] = {
    "lifecycle": Setting(instance_of("machine.lifecycle:Lifecycle", "INVOCATION.extended(...)")),
    "activities": Setting(MAPPING, "for the built-in ones"),
    "stages": Setting(instance_of("invocation.stages:Stages", "Stages(parse=...)"), "for the built-in ones"),
    "clock": Setting(_CLOCK, "for the system's"),
    "max_concurrency": Setting(_COUNT, _NO_LIMIT),
    "max_threads": Setting(_COUNT),
    "cancel_grace": Setting(_SECONDS_OR_0),
    "slow_step": Setting(_SECONDS, "for no warning"),
    "on_approval": Setting(function("a function of an invocation", 1), "for nobody"),
}

_STAGE_OF_2: Final = Setting(function("a plain function of two arguments", 2, plain=True))

STAGES: Final[Mapping[str, Setting]] = {
    "resolve": _STAGE_OF_2,
    "parse": _STAGE_OF_2,
    "validate": _STAGE_OF_2,
    "bind": _STAGE_OF_2,
    "execute": Setting(function("a function of tool, arguments and attempt that answers a coroutine", 3)),
    "standardise": _STAGE_OF_2,
    "publish": Setting(function("a plain function of an event", 1, plain=True)),
}

AGENT: Final[Mapping[str, Setting]] = {
    "max_turns": Setting(_COUNT),
    "max_calls": Setting(_COUNT),
    "max_seconds": Setting(_SECONDS, _NO_LIMIT),
    "max_same_failures": Setting(_COUNT),
}

TABLES: Final[Mapping[str, Mapping[str, Setting]]] = {
    "ToolSpec": TOOL,
    "RetryPolicy": RETRY,
    "BreakerPolicy": BREAKER,
    "FallbackPolicy": FALLBACK,
    "RateLimit": RATE_LIMIT,
    "ToolEngine": ENGINE,
    "Stages": STAGES,
    "Agent": AGENT,
}
"""By the name of what is made with them."""


class Declared:
    """A base for a frozen dataclass of settings: an unknown name is refused with the nearest that there is."""

    __slots__ = ()

    def __new__(cls, *_args: Any, **given: Any) -> Self:
        """Look at the names before the generated `__init__` does, which knows no near ones."""
        refuse_unknown(cls.__name__, given, settings_of(cls))
        return super().__new__(cls)


def settings_of(declared: Any) -> tuple[str, ...]:
    """The names of the settings of a dataclass, in order."""
    return tuple(name for name, field in declared.__dataclass_fields__.items() if field.init)


def refuse_unknown(
    where: str, given: Iterable[str], known: Iterable[str], error: type[ConfigurationError] = ConfigurationError
) -> None:
    """Refuse names that are no settings.

    Args:
        where: what would be made, for the message.
        error: what to raise.

    Raises:
        ConfigurationError: with the nearest names, or all of them if none is near.

    Example:
        >>> refuse_unknown("RetryPolicy", ["max_retry"], ["max_retries", "wait"])
        Traceback (most recent call last):
        fsm_engine.errors.exceptions.ConfigurationError: RetryPolicy: no setting is called 'max_retry'; did you mean max_retries?
    """
    known = tuple(known)
    unknown = [name for name in given if name not in known]
    if unknown:
        words = "; ".join(f"no setting is called {shown(name)}{did_you_mean(name, known)}" for name in unknown)
        raise error(f"{where}: {words}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that nothing has."""
    known = tuple(known)
    nearest = get_close_matches(name, known, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(nearest)}?" if nearest else f"; there are: {', '.join(known) or 'none'}"


def check_setting(
    name: str, setting: Setting, value: object, error: type[ConfigurationError] = ConfigurationError
) -> None:
    """Refuse a value that a setting may not have.

    Args:
        name: of the setting, with whatever says where it stands.
        error: what to raise.

    Raises:
        ConfigurationError: with the name, what was given, and what is allowed.
    """
    kind, hint = setting.kind, ""
    if value is None:
        if setting.none is not None:
            return
    else:
        # A value may be hostile in whatever it is asked; then it is none of ours.
        with suppress(Exception):
            if kind.accepts(value):
                return
        with suppress(Exception):
            hint = kind.hint(value)
    none = "" if setting.none is None else f", or None {setting.none}"
    raise error(f"{name} must be {kind.allowed}{none}, not {shown(value)}{f'; {hint}' if hint else ''}")


def check_settings(
    where: str,
    table: Mapping[str, Setting],
    values: Mapping[str, object],
    error: type[ConfigurationError] = ConfigurationError,
) -> None:
    """Refuse the first value that its setting may not have.

    Args:
        where: goes before the name of the setting.
        values: of every setting of the table.
        error: what to raise.

    Raises:
        ConfigurationError: as of `check_setting`.
    """
    for name, setting in table.items():
        check_setting(f"{where}{name}", setting, values[name], error)


def check_declared(where: str, table: Mapping[str, Setting], declared: object) -> None:
    """`check_settings` of the attributes of an object.

    Raises:
        ConfigurationError: as of `check_setting`.
    """
    check_settings(where, table, {name: getattr(declared, name) for name in table})


def check_seconds(name: str, value: object, *, zero_allowed: bool = False, none: str | None = _NO_LIMIT) -> None:
    """Refuse what is no span of time.

    Args:
        none: what `None` means; `None`: it is refused.

    Raises:
        ConfigurationError: with the name of the setting and what it takes.
    """
    check_setting(name, Setting(_SECONDS_OR_0 if zero_allowed else _SECONDS, none), value)


def check_count(name: str, value: object, *, none: str | None = _NO_LIMIT) -> None:
    """Refuse what is no number of things from 1 up.

    Args:
        none: what `None` means; `None`: it is refused.

    Raises:
        ConfigurationError: with the name of the setting and what it takes.
    """
    check_setting(name, Setting(_COUNT, none), value)


class Described(NamedTuple):
    """A setting in full.

    Attributes:
        name: of it.
        allowed: what it must be.
        none: what `None` means; `None`: it may not be that.
        unit: of a number; empty: none.
        default: as it is written.
        meaning: what it is for.
    """

    name: str
    allowed: str
    none: str | None
    unit: str
    default: str
    meaning: str


def describe(declared: Callable[..., Any]) -> Iterator[Described]:
    """The settings of a class as its signature, its docstring and the table here have them.

    Example:
        >>> from fsm_engine import RateLimit
        >>> [(row.name, row.default, row.meaning) for row in describe(RateLimit)]
        [('limit', '', 'attempts.'), ('per', '1.0', 'seconds, to the millisecond.')]
    """
    defaults = inspect.signature(declared).parameters
    meanings = read_docstring(declared.__doc__).parameters
    for name, setting in TABLES[declared.__name__].items():
        default = defaults[name].default
        written = "" if default is inspect.Parameter.empty else _default_text(default)
        kind = setting.kind
        yield Described(name, kind.allowed, setting.none, kind.unit, written, meanings.get(name, ""))


def _default_text(default: object) -> str:
    plain = default is None or isinstance(default, bool | int | float | str | tuple | frozenset)
    if inspect.isfunction(default):
        return default.__name__
    return repr(default) if plain else "made for it"
