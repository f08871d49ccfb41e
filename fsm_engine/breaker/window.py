"""Sliding windows over the outcomes of calls: what a circuit breaker judges by.

Both keep running sums, so that recording an outcome and reading the sums costs the same whatever the window's size.
Semantics of Resilience4j's `FixedSizeSlidingWindowMetrics` and `SlidingTimeWindowMetrics`. Neither locks: the breaker
that owns a window does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

SUCCEEDED = 0
FAILED = 1
SLOW = 2
"""An outcome is the sum of what holds of it: `FAILED + SLOW` is a failure that also took too long."""


class Counts(NamedTuple):
    """How many calls a window holds, and how many of them failed or were slow."""

    total: int
    failed: int
    slow: int


class Window(Protocol):
    """What a circuit breaker needs of a window; the three sums are right just after `record` or `counts`."""

    total: int
    failed: int
    slow: int

    def record(self, outcome: int) -> None:
        """Take one more outcome in; what no longer fits falls out."""
        ...

    def counts(self) -> Counts:
        """The sums as of now."""
        ...


class CountWindow:
    """The last `size` outcomes, however old they are.

    Args:
        size: in calls, at least 1.

    Example:
        >>> window = CountWindow(2)
        >>> for outcome in (FAILED, FAILED + SLOW, SUCCEEDED):
        ...     window.record(outcome)
        >>> window.counts()
        Counts(total=2, failed=1, slow=1)
    """

    __slots__ = ("_next", "_outcomes", "_size", "failed", "slow", "total")

    def __init__(self, size: int) -> None:
        self.total = self.failed = self.slow = 0
        self._size = size
        self._outcomes = bytearray(size)
        self._next = 0

    def record(self, outcome: int) -> None:
        """Take an outcome in; the oldest one makes room."""
        at = self._next
        outcomes = self._outcomes
        # A place never written holds SUCCEEDED, so only the total tells a young window from a full one.
        dropped = outcomes[at]
        if dropped != outcome:
            self.failed += (outcome & FAILED) - (dropped & FAILED)
            self.slow += (outcome >> 1) - (dropped >> 1)
            outcomes[at] = outcome
        size = self._size
        if self.total < size:
            self.total += 1
        at += 1
        self._next = at if at < size else 0

    def counts(self) -> Counts:
        """The sums."""
        return Counts(self.total, self.failed, self.slow)


class TimeWindow:
    """The outcomes of the last `size` whole seconds, the current one included.

    Args:
        size: in seconds, at least 1; one bucket each.
        now: the time in seconds; buckets begin at its whole numbers.

    Example:
        >>> time = iter((0.0, 0.9, 1.0, 2.0))
        >>> window = TimeWindow(2, now=lambda: next(time))
        >>> window.record(FAILED); window.record(SUCCEEDED); window.counts()
        Counts(total=1, failed=0, slow=0)
    """

    __slots__ = ("_failed", "_now", "_second", "_size", "_slow", "_total", "failed", "slow", "total")

    def __init__(self, size: int, now: Callable[[], float]) -> None:
        self._size = size
        self._now = now
        self._second = int(now())
        self._clear()

    def record(self, outcome: int) -> None:
        """Take an outcome into the bucket of the current second; buckets grown too old fall out."""
        second = int(self._now())
        if second > self._second:
            self._move_on(second)
        at = self._second % self._size
        self._total[at] += 1
        self.total += 1
        if outcome:
            failed, slow = outcome & FAILED, outcome >> 1
            self._failed[at] += failed
            self.failed += failed
            self._slow[at] += slow
            self.slow += slow

    def counts(self) -> Counts:
        """The sums as of now."""
        second = int(self._now())
        if second > self._second:
            self._move_on(second)
        return Counts(self.total, self.failed, self.slow)

    def _move_on(self, second: int) -> None:
        # Each second that passes is dropped once, whoever comes first: constant per call over any stretch of time.
        if second - self._second >= self._size:
            self._clear()
        else:
            for passed in range(self._second + 1, second + 1):
                at = passed % self._size
                self.total -= self._total[at]
                self.failed -= self._failed[at]
                self.slow -= self._slow[at]
                self._total[at] = self._failed[at] = self._slow[at] = 0
        self._second = second

    def _clear(self) -> None:
        self.total = self.failed = self.slow = 0
        self._total = [0] * self._size
        self._failed = [0] * self._size
        self._slow = [0] * self._size
