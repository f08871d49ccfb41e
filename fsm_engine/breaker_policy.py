"""The settings of a circuit breaker."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeGuard, get_args

from .errors import ConfigurationError

SlidingWindowType = Literal["count", "time"]
Recovery = Literal["automatic", "manual"]
InitialMode = Literal["closed", "metrics_only", "forced_open", "disabled"]

_Rule = tuple[Callable[[object], bool], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """When a circuit opens, how long it stays open, and how it closes again.

    Names and meaning are those of Resilience4j's `CircuitBreakerConfig`; durations are seconds, rates per cent. A
    circuit opens as soon as the window holds `minimum_number_of_calls` outcomes and one of the two rates is *at or
    above* its threshold; that is looked at after every outcome, good ones included.

    How to size the window:

    - A tool called a thousand times a second fills a window of 100 calls in a tenth of a second, so one hiccup opens the
      circuit. Judge it by time: `sliding_window_type="time"`, `sliding_window_size=10` (seconds) and a
      `minimum_number_of_calls` that a healthy second easily reaches, 500 say; a wait of a few seconds is enough, and
      50 probes in half-open state are nothing.
    - A tool called three times a day never has 20 calls in any window of time worth judging. Judge it by count, and by
      few: `BreakerPolicy.consecutive(3, wait=600)` opens after three failures in a row, whatever the days between
      them. Say `automatic_transition_from_open_to_half_open=False` as well: the circuit then stays open until a call
      asks, instead of changing between `OPEN` and `HALF_OPEN` (with an alert each) while nobody calls.

    Args:
        sliding_window_size: in calls or in seconds, by the window's type.
        sliding_window_type: `"count"`, the last so many calls; `"time"`, the calls of the last so many whole seconds.
        minimum_number_of_calls: fewer outcomes than this decide nothing. A count window smaller than it, or fewer
            permitted calls in half-open state, decide when they are full.
        failure_rate_threshold: above 0, at most 100.
        slow_call_rate_threshold: above 0, at most 100.
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
        20
        >>> BreakerPolicy(failure_rate_threshold=0)
        Traceback (most recent call last):
        fsm_engine.errors.ConfigurationError: BreakerPolicy.failure_rate_threshold is 0; give a per cent above 0, at most 100
    """

    sliding_window_size: int = 100
    sliding_window_type: SlidingWindowType = "count"
    minimum_number_of_calls: int = 20
    failure_rate_threshold: float = 50.0
    slow_call_rate_threshold: float = 100.0
    slow_call_duration_threshold: float = 60.0
    wait_duration_in_open_state: float = 60.0
    permitted_calls_in_half_open: int = 10
    automatic_transition_from_open_to_half_open: bool = True
    max_wait_duration_in_half_open: float = 60.0
    recovery: Recovery = "automatic"
    ignored_codes: frozenset[str] = frozenset()
    counted_codes: frozenset[str] = frozenset()
    initial: InitialMode = "closed"

    def __post_init__(self) -> None:
        for name, (is_right, allowed) in _RULES.items():
            if not is_right(value := getattr(self, name)):
                raise ConfigurationError(f"BreakerPolicy.{name} is {value!r}; give {allowed}")
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


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_rate(value: object) -> bool:
    return _is_number(value) and 0 < value <= 100


def _is_duration(value: object) -> bool:
    return _is_number(value) and value > 0


def _is_duration_or_zero(value: object) -> bool:
    return _is_number(value) and value >= 0


def _are_codes(value: object) -> bool:
    # A bare string would pass for a collection of letters, none of which is a code.
    return isinstance(value, Collection) and not isinstance(value, str) and all(isinstance(code, str) for code in value)


def _choice(values: tuple[str, ...]) -> _Rule:
    return lambda value: value in values, "one of " + ", ".join(map(repr, values))


_COUNT: Final[_Rule] = (_is_count, "a whole number from 1 on")
_RATE: Final[_Rule] = (_is_rate, "a per cent above 0, at most 100")
_DURATION: Final[_Rule] = (_is_duration, "seconds above 0")
_CODES: Final[_Rule] = (_are_codes, "a set of codes, such as {'RATE_LIMIT'}")

_RULES: Final[Mapping[str, _Rule]] = {
    "sliding_window_size": _COUNT,
    "sliding_window_type": _choice(get_args(SlidingWindowType)),
    "minimum_number_of_calls": _COUNT,
    "failure_rate_threshold": _RATE,
    "slow_call_rate_threshold": _RATE,
    "slow_call_duration_threshold": _DURATION,
    "wait_duration_in_open_state": _DURATION,
    "permitted_calls_in_half_open": _COUNT,
    "automatic_transition_from_open_to_half_open": (lambda value: isinstance(value, bool), "True or False"),
    "max_wait_duration_in_half_open": (_is_duration_or_zero, "seconds above 0, or 0 to wait for ever"),
    "recovery": _choice(get_args(Recovery)),
    "ignored_codes": _CODES,
    "counted_codes": _CODES,
    "initial": _choice(get_args(InitialMode)),
}
