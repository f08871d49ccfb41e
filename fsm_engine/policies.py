"""Settings of one resilience concern each, frozen and checked when they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tenacity import RetryCallState, wait_random_exponential
from tenacity.wait import wait_base

from .errors import ConfigurationError


def _default_wait() -> wait_base:
    return wait_random_exponential(multiplier=0.5, max=30.0)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a failed attempt is followed by another.

    Only errors that may pass (`ToolErrorCode.transient`) are retried, and only where it is safe: the tool is
    idempotent or read-only, or the error says that nothing has happened (`effect="none"`).

    Args:
        max_retries: how many attempts may follow the first.
        wait: a tenacity wait strategy; the delay before attempt n + 1 is asked with `attempt_number` n.
        max_retry_after: seconds; a server's Retry-After above it ends the invocation instead of waiting.

    Example:
        >>> from tenacity import wait_fixed
        >>> RetryPolicy(max_retries=2, wait=wait_fixed(1.0)).delay(1)
        1.0
    """

    max_retries: int = 0
    wait: wait_base = field(default_factory=_default_wait)
    max_retry_after: float = 60.0

    def __post_init__(self) -> None:
        if not _is_count(self.max_retries):
            raise ConfigurationError(f"max_retries must be a whole number from 0 up, not {self.max_retries!r}")
        if not callable(self.wait):
            raise ConfigurationError(f"wait must be a tenacity wait strategy, such as wait_fixed(1), not {self.wait!r}")
        check_seconds("max_retry_after", self.max_retry_after, zero_allowed=True)

    def delay(self, attempt: int) -> float:
        """Seconds to wait after the attempt of this number (from 1) has failed."""
        # tenacity's strategies read nothing but the attempt's number; its state object wants the rest all the same.
        state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]  # not read
        state.attempt_number = attempt
        return max(0.0, float(self.wait(state)))


def check_seconds(name: str, value: object, *, zero_allowed: bool = False) -> None:
    """Refuse what is no span of time; `None` means that there is no limit and passes.

    Raises:
        ConfigurationError: with the name of the setting and what it takes.
    """
    if value is None:
        return
    wanted = "a number of seconds from 0 up" if zero_allowed else "a number of seconds above 0, or None for no limit"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigurationError(f"{name} must be {wanted}, not {value!r}")
    if value < 0 or (value == 0 and not zero_allowed):
        raise ConfigurationError(f"{name} must be {wanted}, not {value!r}")


def check_count(name: str, value: object) -> None:
    """Refuse what is no number of things from 1 up; `None` means that there is no limit and passes.

    Raises:
        ConfigurationError: with the name of the setting and what it takes.
    """
    if value is not None and (not _is_count(value) or value == 0):
        raise ConfigurationError(f"{name} must be a whole number from 1 up, or None for no limit, not {value!r}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
