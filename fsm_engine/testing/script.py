"""Tools that do what a script says: return, raise, take time, hang, report progress, hand out chunks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

from ..errors.exceptions import ConfigurationError
from ..invocation.attempt import Attempt
from ..settings.table import refuse_unknown, settings_of
from ..tools.context import ToolContext
from ..tools.spec import ToolSpec, tool_of
from ..tools.tool_settings import ToolSettings
from .clock import PacedClock


@dataclass(frozen=True, slots=True)
class Returns:
    """The attempt ends with this value (a `ToolResponse`, say)."""

    value: Any = None


@dataclass(frozen=True, slots=True)
class Raises:
    """The attempt ends with this exception."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Delays:
    """It takes so many seconds, by the engine's clock."""

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds >= 0:  # NaN is neither
            raise ConfigurationError(f"a delay of {self.seconds} s cannot be; give 0 or more")


@dataclass(frozen=True, slots=True)
class Hangs:
    """It waits until `ScriptedTool.release` is called; in a thread, whatever becomes of the attempt."""


@dataclass(frozen=True, slots=True)
class Reports:
    """It says how far it is, as `ToolContext.report` does."""

    progress: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Emits:
    """It hands out a piece of its output, as `ToolContext.emit` does."""

    chunk: Any


Action = Returns | Raises | Delays | Hangs | Reports | Emits
"""One thing that a scripted tool does."""

_ACTIONS = Action.__args__


class Script:
    """What a scripted tool does, attempt by attempt, and what it was asked to do."""

    def __init__(self, attempts: Iterable[Action | Iterable[Action]]) -> None:
        self.attempts = tuple(_as_attempt(each) for each in attempts) or ((Returns(),),)
        self.calls: list[dict[str, Any]] = []
        self._gates: list[Callable[[], object]] = []

    async def in_loop(self, _ctx: ToolContext, **arguments: Any) -> Any:
        """The next attempt as a coroutine."""
        for action in self._next(arguments):
            match action:
                case Delays(seconds):
                    await _ctx._invocation.clock.sleep(seconds)
                case Hangs():
                    released: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._gates.append(partial(_settle, released))
                    await released
                case Returns(value):
                    return value
                case _:
                    _say(action, _ctx)
        return None

    def in_thread(self, _ctx: ToolContext, **arguments: Any) -> Any:
        """The next attempt in the calling thread."""
        for action in self._next(arguments):
            match action:
                case Delays(seconds):
                    self._wait_in_thread(_ctx._attempt, seconds)
                case Hangs():
                    self._wait_in_thread(_ctx._attempt, None)
                case Returns(value):
                    return value
                case _:
                    _say(action, _ctx)
        return None

    def release(self) -> None:
        """Let everything go on that hangs or waits now."""
        gates, self._gates = self._gates, []
        for let_go in gates:
            let_go()

    def _next(self, arguments: Mapping[str, Any]) -> tuple[Action, ...]:
        self.calls.append(dict(arguments))
        return self.attempts[min(len(self.calls), len(self.attempts)) - 1]

    def _wait_in_thread(self, attempt: Attempt, seconds: float | None) -> None:
        clock = attempt.invocation.clock
        woken = threading.Event()
        self._gates.append(woken.set)

        def begin() -> None:
            if isinstance(clock, PacedClock):
                clock.begin_wait(attempt)
            if seconds is not None:
                clock.call_at(clock.monotonic() + seconds, end)

        def end() -> None:
            # Before the thread goes on: until it has, time must not move past it.
            if isinstance(clock, PacedClock):
                clock.end_wait(attempt)
            woken.set()

        attempt.call_in_loop(begin)
        woken.wait()


class ScriptedTool(ToolSpec):
    """A tool whose function follows a script; made by `scripted`."""

    @property
    def script(self) -> Script:
        """What it does."""
        script: Script = self.func.__self__  # type: ignore[attr-defined]  # a bound method, as `scripted` made it
        return script

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The arguments of each attempt so far; a call that never reached the function is not among them."""
        return self.script.calls

    def release(self) -> None:
        """Let everything go on that hangs or waits now."""
        self.script.release()


def scripted(
    *attempts: Action | Iterable[Action],
    like: Callable[..., Any] | ToolSpec | None = None,
    thread: bool = False,
    **settings: Unpack[ToolSettings],
) -> ScriptedTool:
    """A tool that does one thing, or several in a row, in each of its attempts, counted over all calls.

    Args:
        attempts: what the first attempt does, the second, and so on; the last is repeated for ever. Without any, every
            attempt returns `None`, and so does one whose script runs out.
        like: a function or tool that it stands in for. It has all of that one's settings, approval, retries, circuit and
            rules among them, and another function. (A script runs in the test's own process, so one that stands in
            for a tool with an executor runs in a thread.)
        thread: it is a plain function, run in a thread.
        settings: those of `ToolSpec`, to say otherwise or more; it is called "scripted" if nothing says its name. Without `like` or a `parameters_schema`, any arguments will do.

    Raises:
        ConfigurationError: an attempt is no action, or a setting cannot work.

    Example:
        >>> flaky = scripted(Raises(ConnectionError("gone")), [Delays(2.0), Returns("here")], max_retries=1, read_only=True)
        >>> flaky.name, flaky.calls
        ('scripted', [])
    """
    script = Script(attempts)
    inherited: dict[str, Any] = {"name": "scripted"}
    if like is not None:
        original = tool_of(like)
        inherited = _settings_of(original)
        thread = thread or original.executor != "thread"
    refuse_unknown("scripted", settings, settings_of(ScriptedTool))
    return ScriptedTool(**{**inherited, **settings, "func": script.in_thread if thread else script.in_loop})


def _settings_of(original: ToolSpec) -> dict[str, Any]:
    """All that a tool was declared with, but for its function and where that runs."""
    kept = {name: getattr(original, name) for name in settings_of(ToolSpec) if name not in ("func", "executor")}
    if original.parameters_schema is None:
        # What was made from a signature was not held to the rules for what people write.
        kept |= {"parameters_schema": original.parameters, "lint": False}
    return kept


def _as_attempt(attempt: Any) -> tuple[Action, ...]:
    actions: tuple[Any, ...] = (
        (attempt,) if isinstance(attempt, _ACTIONS) or not isinstance(attempt, Iterable) else tuple(attempt)
    )
    for action in actions:
        if not isinstance(action, _ACTIONS):
            raise ConfigurationError(
                f"a script is made of {', '.join(kind.__name__ for kind in _ACTIONS)}, not of {type(action).__name__}; "
                "each argument is one attempt: an action, or a list of them"
            )
    return actions


def _say(action: Action, ctx: ToolContext) -> None:
    match action:
        case Reports(progress, message):
            ctx.report(progress, message)
        case Emits(chunk):
            ctx.emit(chunk)
        case Raises(error):
            raise error


def _settle(future: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):  # the loop that it hung in was closed
        if not future.done():
            future.set_result(None)
