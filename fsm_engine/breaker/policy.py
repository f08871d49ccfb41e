"""The settings of a circuit breaker."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from ..errors.exceptions import ConfigurationError
from ..settings.table import BREAKER, Declared, check_declared

SlidingWindowType = Literal["count", "time"]
Recovery = Literal["automatic", "manual"]
InitialMode = Literal["closed", "metrics_only", "forced_open", "disabled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy(Declared):
    """When a circuit opens, how long it stays open, and how it closes again.

    Names and meaning are those of Resilience4j's `CircuitBreakerConfig`; durations are seconds, rates per cent. The
    figures are not: those suit a service that answers hundreds of requests a second, and an agent's tool is called a few
    times a minute. `BreakerPolicy()` opens after five failures at most; `BreakerPolicy.resilience4j()` has the others. A
    circuit opens as soon as the window holds `minimum_number_of_calls` outcomes and one of the two rates is *at or
    above* its threshold; that is looked at after every outcome, good ones included.

    How to size the window:

    - A tool called a thousand times a second fills a window of 100 calls in a tenth of a second, so one hiccup opens the
      circuit. Judge it by time: `sliding_window_type="time"`, `sliding_window_size=10` (seconds) and a
      `minimum_number_of_calls` that a healthy second easily reaches, 500 say; a wait of a few seconds is enough, and
      50 probes in half-open state are nothing.
    - A tool called a few times a minute, as most of an agent's are, is what the defaults are for: five of the last ten
      calls. A window of 100 would remember half an hour of good calls, and need fifty bad ones to forget them.
    - A tool called three times a day never has 20 calls in any window of time worth judging. Judge it by count, and by
      few: `BreakerPolicy.consecutive(3, wait=600)` opens after three failures in a row, whatever the days between
      them. Say `automatic_transition_from_open_to_half_open=False` as well: the circuit then stays open until a call
      asks, instead of changing between `OPEN` and `HALF_OPEN` (with an alert each) while nobody calls.

    Args:
        sliding_window_size: in calls or in seconds, by the window's type.
        sliding_window_type: `"count"`, the last so many calls; `"time"`, the calls of the last so many whole seconds.
        minimum_number_of_calls: fewer outcomes than this decide nothing. A count window smaller than it, or fewer
            permitted calls in half-open state, decide when they are full.
        failure_rate_threshold: from 1 to 100.
        slow_call_rate_threshold: from 1 to 100.
        slow_call_duration_threshold: a call that takes longer than this is slow.
        wait_duration_in_open_state: how long an open circuit refuses every call.
        permitted_calls_in_half_open: how many probes may be under way or counted at a time.
        automatic_transition_from_open_to_half_open: move when the wait is over; otherwise when the next caller asks.
        max_wait_duration_in_half_open: a half-open circuit that has not decided by then opens again, which frees the
            permits of probes that never came back. 0: it waits for ever, and lost probes block it for good.
        recovery: `"automatic"`, good probes close the circuit; `"manual"`, probes run and bad ones open it again, but
            only a person's `reset()` closes it.
        ignored_codes: error codes that never count, whatever the table of codes says.
        counted_codes: error codes that always count, whatever the table of codes says.
        initial: the mode that a breaker begins in. `"metrics_only"` counts without ever refusing.

    Raises:
        ConfigurationError: a setting is out of range; the message says which, and what is allowed.

    Example:
        >>> BreakerPolicy(failure_rate_threshold=25).minimum_number_of_calls
        5
        >>> BreakerPolicy(failure_rate_threshold=0)
        Traceback (most recent call last):
        fsm_engine.errors.exceptions.ConfigurationError: BreakerPolicy.failure_rate_threshold must be a per cent from 1 to 100, not 0
    """

    sliding_window_size: int = 10
    sliding_window_type: SlidingWindowType = "count"
    minimum_number_of_calls: int = 5
    failure_rate_threshold: float = 50.0
    slow_call_rate_threshold: float = 100.0
    slow_call_duration_threshold: float = 60.0
    wait_duration_in_open_state: float = 60.0
    permitted_calls_in_half_open: int = 3
    automatic_transition_from_open_to_half_open: bool = True
    max_wait_duration_in_half_open: float = 300.0
    recovery: Recovery = "automatic"
    ignored_codes: frozenset[str] = frozenset()
    counted_codes: frozenset[str] = frozenset()
    initial: InitialMode = "closed"

    def __post_init__(self) -> None:
        check_declared("BreakerPolicy.", BREAKER, self)
        for name in ("ignored_codes", "counted_codes"):
            # Members of the enum become plain strings, so that messages and equal policies read the same.
            object.__setattr__(self, name, frozenset(str(code) for code in getattr(self, name)))
        if both := self.ignored_codes & self.counted_codes:
            raise ConfigurationError(
                f"BreakerPolicy names {', '.join(sorted(both))} in ignored_codes and in counted_codes; keep one of them"
            )

    @classmethod
    def consecutive(cls, failures: int, wait: float = 60.0, **others: Any) -> BreakerPolicy:
        """The simple mode: open after so many failures in a row, and let one probe decide after the wait.

        It is a count window of that size which must be full and fail altogether, so there is no second mechanism.

        Args:
            failures: how many in a row.
            wait: seconds that the circuit stays open.
            others: any other setting.

        Example:
            >>> policy = BreakerPolicy.consecutive(3, wait=30, recovery="manual")
            >>> policy.sliding_window_size, policy.failure_rate_threshold, policy.permitted_calls_in_half_open
            (3, 100.0, 1)
        """
        settings: dict[str, Any] = {
            "sliding_window_size": failures,
            "minimum_number_of_calls": failures,
            "failure_rate_threshold": 100.0,
            "permitted_calls_in_half_open": 1,
            "wait_duration_in_open_state": wait,
        }
        return cls(**{**settings, **others})

    @classmethod
    def resilience4j(cls, **others: Any) -> BreakerPolicy:
        """The figures that users of Resilience4j know: 50 per cent of the last 100 calls, judged from 20 on, 10 probes.

        For a tool with the traffic of a service: it takes ten failures at the least to open such a circuit, and fifty in a
        row once a hundred calls have gone well.

        Args:
            others: any other setting, or another figure for one of these.

        Example:
            >>> BreakerPolicy.resilience4j(wait_duration_in_open_state=5).minimum_number_of_calls
            20
        """
        settings: dict[str, Any] = {
            "sliding_window_size": 100,
            "minimum_number_of_calls": 20,
            "permitted_calls_in_half_open": 10,
            "max_wait_duration_in_half_open": 60.0,
        }
        return cls(**{**settings, **others})

    @property
    def opens(self) -> str:
        """When such a circuit opens, in words.

        Example:
            >>> BreakerPolicy().opens
            'after 3 failures in the first 5 calls, later 5 among the last 10; or 5 and 10 calls longer than 60 s'
            >>> BreakerPolicy.consecutive(3).opens
            'after 3 failures in a row, or 3 calls in a row longer than 60 s'
        """
        if self.initial == "forced_open":
            return "open until a person closes it"
        if self.initial != "closed":
            return f"never by itself, since it begins {self.initial.replace('_', ' ')}"
        slow = f"longer than {self.slow_call_duration_threshold:g} s"
        size, minimum = self.sliding_window_size, self.minimum_number_of_calls
        if self.sliding_window_type == "time":
            return (
                f"when {self.failure_rate_threshold:g} % of the calls of the last {size} s have failed, or "
                f"{self.slow_call_rate_threshold:g} % took {slow}, if there were at least {minimum}"
            )
        first = min(size, minimum)
        failed, slowed = (
            (_at_least(rate, first), _at_least(rate, size))
            for rate in (self.failure_rate_threshold, self.slow_call_rate_threshold)
        )
        if first == size:
            row = " in a row" if failed[1] == size else f" among the last {size} calls"
            slow_row = " in a row" if slowed[1] == size else f" among the last {size}"
            return f"after {failed[1]} failures{row}, or {slowed[1]} calls{slow_row} {slow}"
        return (
            f"after {failed[0]} failures in the first {first} calls, later {failed[1]} among the last {size}; or "
            f"{slowed[0]} and {slowed[1]} calls {slow}"
        )

    def counts(self, code: str, *, by_default: bool) -> bool:
        """Whether an error counts against the circuit.

        Args:
            code: the error's code.
            by_default: what the error says of itself (`ErrorInfo.counts`).

        Example:
            >>> BreakerPolicy(counted_codes={"CONFLICT"}).counts("CONFLICT", by_default=False)
            True
        """
        if code in self.counted_codes:
            return True
        return by_default and code not in self.ignored_codes


def _at_least(rate: float, calls: int) -> int:
    """How many of these calls reach a rate."""
    return math.ceil(rate * calls / 100)
