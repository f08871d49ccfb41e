"""The situations of a circuit as objects: each begins with its own window and, half-open, its own permits.

They derive from pybreaker's states, so that a `pybreaker.CircuitBreakerListener` is told of what it knows. A permit
belongs to the object that gave it, which is how a late result is recognised: its object is no longer the breaker's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final

import pybreaker

from ..clock import Clock
from ..states.circuit import CircuitState
from .events import ChangeReason
from .policy import BreakerPolicy
from .window import Counts, CountWindow, TimeWindow, Window


@dataclass(frozen=True, slots=True)
class BreakerMetrics:
    """What a circuit has counted, all of one moment.

    Args:
        state: the state.
        failure_rate: per cent; -1.0 while the window holds too few calls to judge.
        slow_call_rate: per cent; -1.0 likewise.
        buffered: calls in the window.
        failed: those of them that failed.
        slow: those of them that were slow.
        refused: calls refused since the breaker was made.
    """

    state: CircuitState
    failure_rate: float
    slow_call_rate: float
    buffered: int
    failed: int
    slow: int
    refused: int


class BreakerState(pybreaker.CircuitBreakerState):
    """One stay of a circuit in a state. Whoever calls a method or touches `free` holds the breaker's lock.

    Args:
        breaker: whose state it is.
        policy: the breaker's.
        clock: the breaker's.
        since: when the stay began, seconds on that clock.
        earlier: the state before, if there was one.

    Attributes:
        circuit: which state it is.
        admits_freely: every call is let through, and nobody counts the permits.
        refuses: no call is let through.
        deadline: when the stay ends by itself, seconds on the clock; `None`: never.
        rings: a timer ends the stay at the deadline; otherwise the next caller does.
        window: the outcomes so far.
        minimum: how many outcomes the window must hold before they say anything.
        free: permits left; half-open only.
    """

    circuit: ClassVar[CircuitState]
    admits_freely: ClassVar[bool] = False
    refuses: ClassVar[bool] = False
    rings = True
    deadline: float | None = None
    window: Window = CountWindow(0)
    minimum = 1
    free = 0

    def __init__(
        self,
        breaker: pybreaker.CircuitBreaker,
        policy: BreakerPolicy,
        clock: Clock,
        since: float,
        earlier: BreakerState | None,
    ) -> None:
        # Not super(): the constructors of pybreaker's own states tell the listeners, and the lock is held.
        pybreaker.CircuitBreakerState.__init__(self, breaker, NAMES[self.circuit])
        self.policy = policy
        self.slow_after = policy.slow_call_duration_threshold
        self.since = since
        self._begin(clock, earlier)

    def _begin(self, clock: Clock, earlier: BreakerState | None) -> None:
        """Set up what the state needs beyond its name."""

    def record(self, outcome: int) -> ChangeReason | None:
        """Take an outcome in; the answer is what it decides, if it decides something."""
        self.window.record(outcome)
        return None

    def counts(self) -> Counts:
        """What the window holds."""
        return self.window.counts()

    def is_over(self, now: float, *, asked: bool) -> bool:
        """Whether the stay has ended by itself; `asked`: somebody wants to call, and does not only look."""
        if self.deadline is None:
            return False
        return now >= self.deadline if self.rings else asked and now > self.deadline

    def call(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call through the breaker, as pybreaker's own way would pass the permits by."""
        return self._breaker.call(func, *args, **kwargs)

    def _excess(self, window: Window) -> ChangeReason | None:
        """The rate that has reached its threshold, if one has."""
        total = window.total
        if total < self.minimum:
            return None
        # Multiplied out, a rate that is exactly at its threshold is never lost in the rounding of a quotient.
        if window.failed * 100.0 >= self.policy.failure_rate_threshold * total:
            return ChangeReason.FAILURE_RATE
        if window.slow * 100.0 >= self.policy.slow_call_rate_threshold * total:
            return ChangeReason.SLOW_CALL_RATE
        return None


class _CountingState(BreakerState):
    """A state that lets every call through and has the window of the policy."""

    admits_freely = True

    def _begin(self, clock: Clock, earlier: BreakerState | None) -> None:
        del earlier
        size = self.policy.sliding_window_size
        self.minimum = self.policy.minimum_number_of_calls
        if self.policy.sliding_window_type == "count":
            self.window = CountWindow(size)
            self.minimum = min(self.minimum, size)
        else:
            self.window = TimeWindow(size, clock.monotonic)


class ClosedState(_CountingState, pybreaker.CircuitClosedState):
    """Every call is let through and counted."""

    circuit = CircuitState.CLOSED

    def record(self, outcome: int) -> ChangeReason | None:
        """Take an outcome in; the answer is the rate that opens the circuit."""
        window = self.window
        window.record(outcome)
        # Nearly always a window holds neither, and no threshold is 0.
        if window.failed or window.slow:
            return self._excess(window)
        return None


class MetricsOnlyState(_CountingState):
    """Every call is let through and counted, with no effect."""

    circuit = CircuitState.METRICS_ONLY


class OpenState(BreakerState, pybreaker.CircuitOpenState):
    """No call is let through until the wait is over; the window shows what opened the circuit."""

    circuit = CircuitState.OPEN
    refuses = True

    def _begin(self, clock: Clock, earlier: BreakerState | None) -> None:
        del clock
        self.rings = self.policy.automatic_transition_from_open_to_half_open
        self.deadline = _after(self.since, self.policy.wait_duration_in_open_state)
        assert earlier is not None, "a circuit begins closed"
        self.window, self.minimum = earlier.window, earlier.minimum


class HalfOpenState(BreakerState, pybreaker.CircuitHalfOpenState):
    """A few calls are let through; together they decide."""

    circuit = CircuitState.HALF_OPEN

    def _begin(self, clock: Clock, earlier: BreakerState | None) -> None:
        del clock, earlier
        self.free = self.policy.permitted_calls_in_half_open
        self.window = CountWindow(self.free)
        self.minimum = min(self.policy.minimum_number_of_calls, self.free)
        if self.policy.max_wait_duration_in_half_open:
            self.deadline = _after(self.since, self.policy.max_wait_duration_in_half_open)

    def record(self, outcome: int) -> ChangeReason | None:
        """Take an outcome in; the answer is the rate that opens the circuit again, or that the probes went well."""
        window = self.window
        window.record(outcome)
        excess = self._excess(window)
        if excess is None and window.total == self.minimum:
            return ChangeReason.PROBES_PASSED
        return excess


class ForcedOpenState(BreakerState):
    """No call is let through until a person says so."""

    circuit = CircuitState.FORCED_OPEN
    refuses = True


class DisabledState(BreakerState):
    """Every call is let through, none is counted."""

    circuit = CircuitState.DISABLED
    admits_freely = True

    def record(self, outcome: int) -> ChangeReason | None:
        """Nothing is counted."""
        del outcome
        return None


NAMES: Final[Mapping[CircuitState, str]] = MappingProxyType(
    {state: state.lower().replace("_", "-") for state in CircuitState}
)
"""How pybreaker, its listeners and its storages spell each state: `half-open`."""

STATES: Final[Mapping[str, type[BreakerState]]] = MappingProxyType(
    {
        str(kind.circuit): kind
        for kind in (ClosedState, OpenState, HalfOpenState, ForcedOpenState, DisabledState, MetricsOnlyState)
    }
)
"""The class of each state, by the name that the lifecycle has for it."""


def _after(since: float, seconds: float) -> float:
    # To the microsecond, so that "exactly at the wait" is not decided by the last bit of a sum of floats.
    return round(since + seconds, 6)
