"""When a failed attempt is followed by another, and how long after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, SupportsFloat

from tenacity import Future, RetryCallState, Retrying, wait_random_exponential
from tenacity.wait import wait_base

from ..errors.exceptions import ConfigurationError
from ..settings.kinds import MOST_SECONDS, shown
from ..settings.table import RETRY, Declared, check_declared


def _default_wait() -> wait_base:
    return wait_random_exponential(multiplier=0.5, max=30.0)


@dataclass(frozen=True, slots=True)
class RetryPolicy(Declared):
    """When a failed attempt is followed by another.

    Only errors that may pass (`ToolErrorCode.transient`) are retried, and only where it is safe: the tool is
    idempotent or read-only, or the error says that nothing has happened (`effect="none"`).

    Args:
        max_retries: how many attempts may follow the first.
        wait: a tenacity wait strategy, or a function of a `tenacity.RetryCallState`; it answers the seconds to wait. The
            state has the attempt's number and outcome (what was raised, or the error response that was returned), the
            seconds since the first attempt began, and those spent waiting. A strategy that raises or answers something
            else is logged, and the default one takes its place.
        max_retry_after: seconds; a server's Retry-After above it ends the invocation instead of waiting.

    Raises:
        ConfigurationError: a setting cannot work; the message says what is allowed.

    Example:
        >>> from tenacity import wait_fixed
        >>> RetryPolicy(max_retries=2, wait=wait_fixed(1.0)).delay(1)
        1.0
    """

    max_retries: int = 0
    wait: wait_base | Callable[[RetryCallState], float] = field(default_factory=_default_wait)
    max_retry_after: float = 60.0

    def __post_init__(self) -> None:
        check_declared("RetryPolicy.", RETRY, self)

    def delay(
        self,
        attempt: int,
        outcome: BaseException | Any = None,
        *,
        seconds_since_start: float = 0.0,
        idle_for: float = 0.0,
    ) -> float:
        """Seconds to wait after an attempt that has failed.

        Args:
            attempt: its number, from 1.
            outcome: what it raised, or what it returned instead.
            seconds_since_start: since the first attempt began.
            idle_for: seconds that were spent waiting between attempts so far.

        Raises:
            ConfigurationError: the strategy answered something that is no number of seconds.
            Exception: whatever the strategy itself raised.
        """
        state = RetryCallState(retry_object=Retrying(wait=self.wait), fn=None, args=(), kwargs={})
        state.attempt_number = attempt
        state.idle_for = idle_for
        ended = Future(attempt)
        if isinstance(outcome, BaseException):
            ended.set_exception(outcome)
        else:
            ended.set_result(outcome)
        state.outcome = ended
        state.outcome_timestamp = state.start_time + seconds_since_start
        return _seconds(self.wait(state))


def _seconds(answer: object) -> float:
    # Other numbers than Python's own are welcome (a library's 32-bit float, say), texts and flags are not.
    if isinstance(answer, SupportsFloat) and not isinstance(answer, bool):
        seconds = float(answer)
        if 0 <= seconds <= MOST_SECONDS:
            return seconds
    raise ConfigurationError(
        f"RetryPolicy.wait must answer a number of seconds from 0 up, at most {MOST_SECONDS:,.0f}, not {shown(answer)}"
    )


def usual_delay(attempt: int) -> float:
    """Seconds to wait after an attempt of this number, by the default strategy."""
    return RetryPolicy().delay(attempt)
