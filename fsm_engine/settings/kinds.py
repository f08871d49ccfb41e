"""Kinds of settings: what a value must be, in a function that says so and in words for whoever gave another one."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from types import FunctionType
from typing import Any, Final, TypeGuard, cast

MOST_SECONDS: Final = 1e9
"""Some thirty years: what is longer is a slip of the pen, and timers and threads cannot be asked for it."""
MOST_THINGS: Final = 1_000_000_000
MOST_KEPT: Final = 1_000_000
"""Of what takes memory before anything has happened, such as the places of a window."""

_LONGEST_SHOWN: Final = 40


def _no_hint(value: Any) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a setting may be.

    Args:
        allowed: in words that follow "must be".
        accepts: whether a value is one; an exception is a no.
        unit: of a number.
        hint: what to write instead of a value that was refused; empty if that cannot be known.
    """

    allowed: str
    accepts: Callable[[Any], bool]
    unit: str = ""
    hint: Callable[[Any], str] = _no_hint


def shown(value: object) -> str:
    """A value in a few characters, or what it is: it may be anything, a secret or a hostile object among the rest."""
    kind = type(value)
    if kind is int and abs(cast("int", value)) >= 10**18:
        return "a number of more than 18 digits"
    if kind is str and len(cast("str", value)) > _LONGEST_SHOWN:
        return "a long text"
    if value is None or kind in (bool, int, float, str):
        return repr(value)
    if kind is FunctionType and inspect.iscoroutinefunction(value):
        return "a coroutine function"
    if issubclass(kind, type):
        return f"the class {cast('type', value).__name__}"
    return f"{'an' if kind.__name__[:1].lower() in 'aeiou' else 'a'} {kind.__name__}"


def is_number(value: object) -> TypeGuard[int | float]:
    """A finite number that is no flag."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def is_count(value: object) -> TypeGuard[int]:
    """A whole number that is no flag."""
    return isinstance(value, int) and not isinstance(value, bool)


def _without_quotes(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    try:
        return f"write {float(value):g}, without quotes" if math.isfinite(float(value)) else ""
    except ValueError:
        return ""


def seconds(*, zero: bool = False) -> Kind:
    """A span of time."""
    least = "from 0 up" if zero else "above 0"
    return Kind(
        f"a number of seconds {least}, at most {MOST_SECONDS:,.0f}",
        lambda value: is_number(value) and (value >= 0 if zero else value > 0) and value <= MOST_SECONDS,
        "seconds",
        _without_quotes,
    )


def count(least: int = 1, most: int = MOST_THINGS) -> Kind:
    """A number of things."""
    return Kind(
        f"a whole number from {least} up, at most {most:,}",
        lambda value: is_count(value) and least <= value <= most,
        hint=_without_quotes,
    )


def per_cent() -> Kind:
    """A rate. One below a whole per cent is refused: 0.5 is written by somebody who means a half."""

    def hint(value: Any) -> str:
        if is_number(value) and 0 < value < 1:
            return f"{value:g} would be less than one in a hundred; for {value:g} of all calls write {value * 100:g}"
        return _without_quotes(value)

    return Kind("a per cent from 1 to 100", lambda value: is_number(value) and 1 <= value <= 100, "per cent", hint)


SHARE: Final = Kind(
    "a per cent from 0 to 100", lambda value: is_number(value) and 0 <= value <= 100, "per cent", _without_quotes
)


def _flag_hint(value: Any) -> str:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return f"write {value.strip().capitalize()}, without quotes"
    return ""


FLAG: Final = Kind("True or False", lambda value: isinstance(value, bool), hint=_flag_hint)
TEXT: Final = Kind("a text", lambda value: isinstance(value, str))
NAME: Final = Kind("a text of 1 to 200 characters", lambda value: isinstance(value, str) and 0 < len(value) <= 200)
VERSION: Final = Kind(
    "a text of 1 to 64 characters or a whole number",
    lambda value: 0 < len(value) <= 64 if isinstance(value, str) else is_count(value) and abs(value) < 10**18,
    hint=lambda value: f"write {str(value)!r}" if type(value) is float else "",
)
MAPPING: Final = Kind("a dictionary", lambda value: isinstance(value, Mapping))
ANYTHING: Final = Kind("anything", lambda value: True)


def choice(*values: str) -> Kind:
    """One of these words."""
    quoted = [f'"{value}"' for value in values]
    return Kind(
        " or ".join([", ".join(quoted[:-1]), quoted[-1]]), lambda value: isinstance(value, str) and value in values
    )


def names(what: str, example: str) -> Kind:
    """Several texts. A bare one would pass for a collection of letters."""
    return Kind(
        f"a tuple, list or set of {what}, such as {example}",
        lambda value: (
            isinstance(value, Collection)
            and not isinstance(value, str | bytes | Mapping)
            and all(isinstance(each, str) for each in value)
        ),
        hint=lambda value: f"write ({value!r},)" if type(value) is str and len(value) <= _LONGEST_SHOWN else "",
    )


def instance_of(place: str, example: str) -> Kind:
    """An object of a class, found when it is first asked for: the classes import this module.

    Args:
        place: where the class is, as `module:name` within the package.
        example: how one is made.
    """
    name = place.rpartition(":")[2]
    found = functools.cache(lambda: resolve_name(f"fsm_engine.{place}"))
    return Kind(
        f"{'an' if name[0] in 'AEIOU' else 'a'} {name}",
        lambda value: isinstance(value, found()),
        hint=lambda value: f"write {example}",
    )


def with_methods(what: str, *methods: str) -> Kind:
    """An object that has these methods."""
    return Kind(
        f"{what}, which has {', '.join(methods)}",
        lambda value: not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in methods),
        hint=lambda value: f"write {value.__name__}()" if isinstance(value, type) else "",
    )


def called_function(function: Any) -> Any:
    """What runs when this is called: of a partial its function, of a callable object its `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def takes(function: Any, arguments: int) -> bool:
    """Whether it can be called with so many arguments by position; one whose signature cannot be read may."""
    try:
        inspect.signature(function).bind(*range(arguments))
    except ValueError:  # a built-in function does not always tell
        return True
    except TypeError:
        return False
    return True


def function(what: str, arguments: int, *, plain: bool = False) -> Kind:
    """A function of the user's.

    Args:
        what: in words.
        arguments: how many it is called with.
        plain: it answers at once, so that a coroutine function or a generator is none.
    """

    def accepts(value: Any) -> bool:
        if not callable(value) or isinstance(value, type) or not takes(value, arguments):
            return False
        run = called_function(value)
        is_late = (
            inspect.iscoroutinefunction(run) or inspect.isgeneratorfunction(run) or inspect.isasyncgenfunction(run)
        )
        return not (plain and is_late)

    def hint(value: Any) -> str:
        if isinstance(value, type):
            return f"write an object of it, {value.__name__}(...)"
        return (
            f"it is called with {arguments or 'no'} argument{'' if arguments == 1 else 's'}" if callable(value) else ""
        )

    return Kind(what, accepts, hint=hint)


def either(*kinds: Kind, allowed: str = "") -> Kind:
    """A value of one of several kinds."""

    def hint(value: Any) -> str:
        return next((said for kind in kinds if (said := kind.hint(value))), "")

    def accepts(value: Any) -> bool:
        return any(kind.accepts(value) for kind in kinds)

    return Kind(allowed or " or ".join(kind.allowed for kind in kinds), accepts, hint=hint)
