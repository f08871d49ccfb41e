"""How often a tool may be called: tokens in time, kept by pyrate-limiter."""

from __future__ import annotations

from dataclasses import dataclass

from .clock import Clock
from .policies import check_count, check_seconds


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most so many attempts in any span of time. What comes too early waits, as long as its deadline allows.

    Args:
        limit: attempts.
        per: seconds, to the millisecond.

    Example:
        >>> RateLimit(10, per=1.0).limit
        10
    """

    limit: int
    per: float = 1.0

    def __post_init__(self) -> None:
        for check, name in ((check_count, "limit"), (check_seconds, "per")):
            if getattr(self, name) is None:
                check(f"RateLimit.{name}", 0)
            check(f"RateLimit.{name}", getattr(self, name))
        check_count("RateLimit.per in whole milliseconds", int(self.per * 1000))


class RateTokens:
    """The tokens of one tool."""

    def __init__(self, rate_limit: RateLimit, clock: Clock) -> None:
        # Not at the top: it takes a quarter of the time that the whole engine takes to import, and few tools need it.
        from pyrate_limiter import InMemoryBucket, Rate, RateItem

        self._clock = clock
        self._item = RateItem
        self._bucket = InMemoryBucket([Rate(rate_limit.limit, int(rate_limit.per * 1000))])

    def take(self) -> float:
        """Take a token and answer 0.0, or answer the seconds until there may be one."""
        now = int(self._clock.monotonic() * 1000)
        self._bucket.leak(now)
        item = self._item("attempt", now)
        if self._bucket.put(item):
            return 0.0
        wait = self._bucket.waiting(item)
        assert isinstance(wait, int), "a bucket in memory answers at once"
        return max(wait, 1) / 1000
