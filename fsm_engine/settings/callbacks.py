"""What can be known of a function that users hand in before it is ever called: whether it waits, and what it takes."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from ..errors.exceptions import ConfigurationError

_WAITING = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)


def callback_problem(function: Any, kind: str) -> str | None:
    """Why a function cannot be a guard or hook, in words that follow its name; `None`: nothing is known against it.

    Args:
        kind: what it is to be ("guard", "hook"), for the words.
    """
    if not callable(function):
        return f"must be a function, not {type(function).__name__}"
    if _is_any(function, _WAITING):
        return (
            f"is a coroutine or generator function, but a transition waits for nothing, and what a {kind} answers is taken "
            "as it is; make it a plain function, and do what takes time in an activity"
        )
    return (
        None
        if _takes_one(function)
        else f"cannot be called with one argument, the event; give the {kind} that parameter"
    )


def refuse_awaitable(answer: object) -> None:
    """Raise if a function that looked plain has answered something to await (a lambda around a coroutine, say)."""
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()  # else Python warns of one that was never awaited
        raise ConfigurationError(f"answered {type(answer).__name__}, which nothing awaits; decide at once")


def activity_problem(function: Any) -> str | None:
    """Why a function cannot be an activity, in words that follow its name; `None`: nothing is known against it."""
    if not callable(function):
        return f"must be a function, not {type(function).__name__}"
    if _is_any(function, _WAITING[1:]):
        return "is a generator function; it answers one trigger, so let it return that"
    return (
        None if _takes_one(function) else "cannot be called with one argument, the invocation; give it that parameter"
    )


def _is_any(function: Any, kinds: tuple[Any, ...]) -> bool:
    called = function if inspect.isroutine(function) or isinstance(function, partial) else type(function).__call__
    return any(is_kind(called) for is_kind in kinds)


def _takes_one(function: Any) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C do not tell
        return True
    try:
        signature.bind(None)
    except TypeError:
        return False
    return True
