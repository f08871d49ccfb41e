"""What answers in a tool's place: its last good result, a fixed value, or a function."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from cachetools import TTLCache

from ..clock import Clock
from ..concurrency.slots import Slots
from ..concurrency.threads import run_in_thread
from ..errors.codes import ToolErrorCode
from ..errors.exceptions import ConfigurationError, ToolError
from ..jsonable.jsonable import to_jsonable
from ..response.error_info import ErrorInfo
from ..response.tool_response import ToolResponse
from ..settings.kinds import shown
from ..settings.table import FALLBACK, Declared, check_declared
from ..tools.call import fingerprint

_UNSET: Any = object()


@dataclass(frozen=True)
class FallbackPolicy(Declared):
    """A substitute for a tool whose circuit is open, whose queue is full or, if asked for, that has failed.

    Give one of `value`, `function` and `last_good`.

    Args:
        value: the answer itself.
        function: is called with the tool's arguments, as the tool would be; plain or coroutine function. A plain one
            runs in a thread, eight at once for each tool; beyond that the first error stands.
        last_good: the newest successful result for the same arguments; for read-only tools.
        on_failure: also stand in when attempts have failed (those that count against the circuit, by its `counted_codes` and `ignored_codes`) and no retry is left.
        timeout: seconds that the function may take.
        max_age: seconds after which a good result is not good any more.
        max_entries: how many results are kept, the newest; each for other arguments.
        key: what a last good result depends on beside the arguments; `None`: what the tool's own `key` says.

    Raises:
        ConfigurationError: none or several are given, or a setting cannot work.

    Example:
        >>> FallbackPolicy(value={"stock": None}, on_failure=True).kind
        'value'
    """

    value: Any = _UNSET
    function: Callable[..., Any] | None = None
    last_good: bool = False
    on_failure: bool = False
    timeout: float = 10.0
    max_age: float = 3600.0
    max_entries: int = 1000
    key: Callable[[Mapping[str, Any]], Hashable] | None = None

    def __post_init__(self) -> None:
        check_declared("FallbackPolicy.", FALLBACK, self)
        given = [self.value is not _UNSET, self.function is not None, self.last_good]
        if sum(given) != 1:
            raise ConfigurationError("a fallback is one of value, function and last_good; give exactly one")
        if self.value is not _UNSET:
            _check_value(self.value)

    @property
    def kind(self) -> Literal["value", "function", "last_good"]:
        """Which of the three it is."""
        if self.last_good:
            return "last_good"
        return "value" if self.function is None else "function"


def _check_value(value: Any) -> None:
    """Refuse what is given as a value and would not be one answer for every call."""
    if callable(value):
        meant = "FallbackPolicy(function=...), or the function alone as the tool's fallback"
    elif type(value) is str and value == "last_good":
        meant = "FallbackPolicy(last_good=True)"
    elif issubclass(type(value), Awaitable | Iterator | AsyncIterator):
        meant = "FallbackPolicy(function=...), which is called anew each time"
    else:
        return
    raise ConfigurationError(f"FallbackPolicy.value must be the answer itself, not {shown(value)}; write {meant}")


def as_fallback(given: Any, tool: str, *, read_only: bool) -> FallbackPolicy | None:
    """What `ToolSpec.fallback` may be, as a policy: `"last_good"`, a function, a policy, or `None`.

    Raises:
        ConfigurationError: a last good result would hide that nothing was done.
    """
    if given is None or isinstance(given, FallbackPolicy):
        policy = given
    else:
        policy = FallbackPolicy(last_good=True) if isinstance(given, str) else FallbackPolicy(function=given)
    if policy is not None and policy.last_good and not read_only:
        raise ConfigurationError(
            f"tool {tool!r}: last_good would answer with an old result as if the tool had acted again; mark the tool "
            "read_only=True if it changes nothing, or use a function"
        )
    return policy


class _Remembered(NamedTuple):
    """A good result, and when it was one (monotonic seconds)."""

    text: str
    data: Any
    at: float


class LastGood:
    """The good results of one tool, bounded in number and age."""

    def __init__(self, policy: FallbackPolicy, clock: Clock) -> None:
        self._clock = clock
        self._policy = policy
        self._kept = self._new()

    def _new(self) -> TTLCache[Hashable, _Remembered]:
        return TTLCache(self._policy.max_entries, self._policy.max_age, timer=self._clock.monotonic)

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Keep nothing: a process begins anew whose parent may have been about to keep something when it was forked."""
        self._kept = self._new()

    def remember(self, arguments: Mapping[str, Any], response: ToolResponse, whose: Hashable = None) -> None:
        """Keep a result for these arguments, safe from whoever changes the response.

        Args:
            whose: what it depends on beside the arguments.
        """
        kept = _Remembered(response.text, to_jsonable(response.data).value, self._clock.monotonic())
        self._kept[fingerprint(arguments), whose] = kept

    def recall(self, arguments: Mapping[str, Any], whose: Hashable = None) -> tuple[ToolResponse, float | None]:
        """The newest result for these arguments that is not too old, and its age in seconds; else an error."""
        kept = self._kept.get((fingerprint(arguments), whose))
        if kept is None:
            words = "There is no good result for these arguments, or it is too old."
            return ToolResponse.error(ToolErrorCode.NOT_FOUND, words, reason="nothing_remembered"), None
        return ToolResponse.success(kept.text, kept.data), self._clock.monotonic() - kept.at


def run_function(function: Callable[..., Any], arguments: Mapping[str, Any], slots: Slots) -> Coroutine[Any, Any, Any]:
    """A coroutine, not yet begun, that calls a fallback function: a plain one in a thread.

    Args:
        slots: of the threads; one that hangs keeps its slot.
    """

    async def call() -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(**arguments)
        result = await _in_thread(function, arguments, slots)
        return await result if inspect.isawaitable(result) else result

    return call()


async def _in_thread(function: Callable[..., Any], arguments: Mapping[str, Any], slots: Slots) -> Any:
    if not slots.try_acquire():
        words = "All threads of the fallback are busy."
        raise ToolError(ToolErrorCode.RATE_LIMIT, words, reason="threads_busy", transient=False, counts=False)
    # Whoever takes the ticket first decides: the thread begins the job, or the job is given up before it has begun.
    ticket = [None]
    has_begun = False

    def job() -> Any:
        nonlocal has_begun
        try:
            ticket.pop()
        except IndexError:
            return None
        has_begun = True
        return function(**arguments)

    def ended(_: BaseException | None) -> None:
        if has_begun:
            slots.release()

    try:
        return await run_in_thread(job, ended)
    finally:
        with suppress(IndexError):
            ticket.pop()
            slots.release()


def unanswered_fallback(tool: str) -> ToolResponse:
    """The error of a fallback function that took too long."""
    return ToolResponse.error(
        ToolErrorCode.TIMEOUT, f"The fallback of {tool} did not answer in time.", reason="fallback_timeout"
    )


def as_substitute(response: ToolResponse, reason: str, age: float | None, first_error: ErrorInfo) -> ToolResponse:
    """A substitute as a partial response that says why it stands there, how old it is, and what went wrong first."""
    about: dict[str, Any] = {"reason": reason}
    if age is not None:
        about["age_s"] = round(age, 3)
    about["error"] = _brief(first_error)
    stats = {} if age is None else {"age_s": round(age, 3)}
    return ToolResponse.partial(response.text, response.data, reason=reason, stats=stats, context={"fallback": about})


def without_substitute(first_error: ToolResponse, reason: str, failure: ErrorInfo) -> ToolResponse:
    """The first error, with what became of the substitute beside it."""
    return first_error.with_facts(context={"fallback": {"reason": reason, "failure": _brief(failure)}})


def _brief(error: ErrorInfo) -> dict[str, Any]:
    return {"code": error.code, "message": error.message}
