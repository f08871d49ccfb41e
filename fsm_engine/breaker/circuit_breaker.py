"""`CircuitBreaker`: pybreaker with permits."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, ParamSpec, TypeVar, cast, overload

import pybreaker

from ..errors.codes import ToolErrorCode
from ..errors.exceptions import ConfigurationError, ToolError, classify
from ..logs import log_fault
from ..states.circuit import CircuitState
from .circuit import Circuit
from .events import BreakerEvent, BreakerEventKind, ChangeReason, isolated
from .permits import Permit, Settlement
from .policy import BreakerPolicy
from .states import BreakerMetrics, BreakerState

__all__ = [
    "BreakerEvent",
    "BreakerEventKind",
    "BreakerMetrics",
    "BreakerPolicy",
    "BreakerState",
    "ChangeReason",
    "CircuitBreaker",
    "CircuitOpenError",
    "CircuitState",
    "Permit",
]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_UNFINISHED: Final = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
"""Results of a call whose outcome is not known yet."""


class CircuitOpenError(ToolError, pybreaker.CircuitBreakerError):
    """The circuit refused the call; nothing was called. `retry_after`: seconds, or `None` if nobody knows."""


def _set_by_policy(name: str, setting: str) -> ConfigurationError:
    return ConfigurationError(f"{name} cannot be changed; make a breaker with BreakerPolicy({setting}=...)")


def _label(func: Callable[..., object]) -> str:
    return getattr(func, "__qualname__", type(func).__qualname__)


class CircuitBreaker(Circuit):
    """Refuses calls to what keeps failing, and finds out carefully when it works again.

    Args:
        policy: when it opens and closes; `None`: the defaults.
        name: for events and messages.
        clock: the time. With the default a timer makes automatic moves if a loop runs; otherwise, whoever looks does.
        exclude: exception classes, or predicates on an exception, that never count (`pybreaker`).
        listeners: objects in the form of `pybreaker.CircuitBreakerListener`.
        state_storage: where state and opening time are kept, for breakers that share them; windows and permits are
            each breaker's own. It is read at every look: one that waits for a network belongs behind a cache.
        history: how many events `recent_events` keeps.

    Example:
        >>> breaker = CircuitBreaker(BreakerPolicy.consecutive(2, wait=30), name="search")
        >>> for _ in range(2):
        ...     permit = breaker.try_acquire()
        ...     permit.failure(ConnectionError(), duration=0.2)
        >>> breaker.circuit_state, breaker.try_acquire()
        (<CircuitState.OPEN: 'OPEN'>, None)
        >>> breaker.reset()
        >>> breaker.call(max, 1, 2)
        2
    """

    _refused = 0

    @property
    def fail_max(self) -> int:
        """`BreakerPolicy.minimum_number_of_calls`."""
        return self.policy.minimum_number_of_calls

    @fail_max.setter
    def fail_max(self, number: int) -> None:
        del number
        raise _set_by_policy("fail_max", "minimum_number_of_calls")

    @property
    def reset_timeout(self) -> float:
        """`BreakerPolicy.wait_duration_in_open_state`, seconds."""
        return self.policy.wait_duration_in_open_state

    @reset_timeout.setter
    def reset_timeout(self, timeout: float) -> None:
        del timeout
        raise _set_by_policy("reset_timeout", "wait_duration_in_open_state")

    @property
    def success_threshold(self) -> int:
        """`BreakerPolicy.permitted_calls_in_half_open`."""
        return self.policy.permitted_calls_in_half_open

    @success_threshold.setter
    def success_threshold(self, threshold: int) -> None:
        del threshold
        raise _set_by_policy("success_threshold", "permitted_calls_in_half_open")

    @property
    def fail_counter(self) -> int:
        """Failures in the window (pybreaker: failures in a row)."""
        return self.metrics().failed

    @property
    def success_counter(self) -> int:
        """Successes in the window (pybreaker: successes in a row while half-open)."""
        metrics = self.metrics()
        return metrics.buffered - metrics.failed

    def try_acquire(self) -> Permit | None:
        """Take a permit for one call, at once and without waiting; `None`: the call must not be made."""
        state = self._stay
        if state.admits_freely and self._said() == self._agreed:
            return Permit(self, state)
        self._catch_up(asked=True)
        with self._lock:
            state = self._stay
            if not state.admits_freely:
                if not state.free:
                    self._refused += 1
                    return None
                state.free -= 1
            return Permit(self, state)

    @property
    def is_open(self) -> bool:
        """Whether a call would be refused because the circuit is open (by itself or by force); takes no permit.

        It asks as a caller does: an open circuit whose wait is over becomes half-open, and is then not open.
        """
        if self._stay.admits_freely and self._said() == self._agreed:
            return False
        return self._catch_up(asked=True).refuses

    @property
    def admits(self) -> bool:
        """Whether a call would be let through now; takes no permit, so that another caller may be faster."""
        return not self.is_open and (self._stay.admits_freely or self._stay.free > 0)

    def count_refusal(self) -> None:
        """A call was not made because `is_open` said so; `metrics()` counts it among the refused."""
        with self._lock:
            self._refused += 1

    def metrics(self) -> BreakerMetrics:
        """What the circuit has counted. An open circuit goes on showing the window that opened it."""
        self._catch_up(asked=False)
        with self._lock:
            state = self._stay
            total, failed, slow = state.counts()
            is_judged = total >= state.minimum
            return BreakerMetrics(
                state=state.circuit,
                failure_rate=failed * 100.0 / total if is_judged else -1.0,
                slow_call_rate=slow * 100.0 / total if is_judged else -1.0,
                buffered=total,
                failed=failed,
                slow=slow,
                refused=self._refused,
            )

    def counts(self, error: BaseException) -> bool:
        """Whether an exception counts against the circuit, by its class, its code and the policy."""
        if not isinstance(error, Exception) or not self.is_system_error(error):
            return False
        classified = classify(error)
        return self.policy.counts(classified.code, by_default=classified.counts)

    def is_system_error(self, exception: BaseException) -> bool:
        """Whether an exception is not excluded (pybreaker's name for it).

        Unlike pybreaker's own, it knows an abstract class for the class it is; a predicate that raises excludes nothing.
        """
        for exclusion in self._excluded_exceptions:
            if isinstance(exclusion, type):
                if isinstance(exception, exclusion):
                    return False
            else:
                try:
                    if exclusion(exception):
                        return False
                except BaseException as raised:  # noqa: BLE001 - a predicate may raise anything, and must not decide by it
                    log_fault("circuit breaker predicate failed", raised, breaker=self.name)
        return True

    def call(self, func: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Call a function if the circuit permits, and count how it went. A generator counts when it ends.

        Raises:
            CircuitOpenError: the circuit refuses the call.
            TypeError: the function is asynchronous: use `acall`.
        """
        permit = self._admit(func, args, kwargs)
        with Settlement(self, permit) as settlement:
            result = func(*args, **kwargs)
            if isinstance(result, _UNFINISHED):
                if isinstance(result, types.GeneratorType):
                    settlement.postpone()
                    return cast("_T", self._follow(permit, result))
                permit.release()
                if isinstance(result, types.CoroutineType):
                    result.close()  # else it warns that it was never awaited
                raise TypeError(f"{_label(func)} is asynchronous, so its outcome is not known yet; use acall()")
            return result

    async def acall(self, func: Callable[..., Awaitable[_T]], *args: Any, **kwargs: Any) -> _T:
        """Call a coroutine function if the circuit permits, and count how it went.

        Raises:
            CircuitOpenError: the circuit refuses the call.
            TypeError: the function returns nothing to wait for: use `call`.
        """
        permit = self._admit(func, args, kwargs)
        with Settlement(self, permit):
            pending: object = func(*args, **kwargs)
            if not isinstance(pending, Awaitable):
                permit.release()
                raise TypeError(f"{_label(func)} returned nothing to wait for; use call()")
            return cast("_T", await pending)

    def call_async(self, func: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        """The same as `acall`, by the name that pybreaker has for Tornado's coroutines."""
        return self.acall(func, *args, **kwargs)

    @contextmanager
    def calling(self) -> Generator[None]:
        """Take a permit for a `with` block, and count how the block ends.

        Raises:
            CircuitOpenError: the circuit refuses the block.

        Example:
            >>> breaker = CircuitBreaker()
            >>> with breaker.calling():
            ...     pass
            >>> breaker.metrics().buffered
            1
        """
        with Settlement(self, self._admit(self.calling, (), {})):
            yield

    @overload
    def __call__(self, func: Callable[_P, _T], /) -> Callable[_P, _T]: ...

    @overload
    def __call__(self) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]: ...

    @overload
    def __call__(self, *call_args: Any, **call_kwargs: bool) -> Callable[..., Any]: ...  # pybreaker's own signature

    def __call__(self, *call_args: Any, **call_kwargs: bool) -> Any:
        """Decorate a function, coroutine functions included: `@breaker` or `@breaker()`.

        Example:
            >>> @CircuitBreaker(name="search")
            ... def search(query: str) -> str:
            ...     return query.upper()
            >>> search("a")
            'A'
        """
        if call_kwargs or len(call_args) > 1:
            raise TypeError("decorate with @breaker or @breaker(); a coroutine function is known by itself")
        if not call_args:
            return self.__call__
        [func] = call_args
        if inspect.iscoroutinefunction(func):

            @functools.wraps(func)
            async def acalled(*args: Any, **kwargs: Any) -> Any:
                return await self.acall(func, *args, **kwargs)

            return acalled

        @functools.wraps(func)
        def called(*args: Any, **kwargs: Any) -> Any:
            return self.call(func, *args, **kwargs)

        return called

    def _admit(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Permit:
        permit = self.try_acquire()
        if permit is None:
            raise self.refusal()
        for listener in self._listeners:
            isolated("before_call", self.name, listener.before_call, self, func, *args, **kwargs)
        return permit

    def refusal(self) -> CircuitOpenError:
        """The error that says that the circuit refuses calls now, and until when."""
        seconds = self.retry_after
        until = "it is not known until when" if seconds is None else f"try again in {seconds:.1f} s"
        message = f"The circuit {self.name or 'breaker'} is {self._stay.circuit}; no call was made, {until}."
        return CircuitOpenError(ToolErrorCode.CIRCUIT_OPEN, message, retry_after=seconds)

    def _follow(self, permit: Permit, generator: Generator[Any, Any, _T]) -> Generator[Any, Any, _T]:
        with Settlement(self, permit):
            return (yield from generator)
