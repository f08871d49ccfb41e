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
        self._limit = rate_limit.limit
        self._interval = int(rate_limit.per * 1000)
        self._bucket = InMemoryBucket([Rate(self._limit, self._interval)])

    def seconds_until_free(self) -> float:
        """Seconds until there is a token; 0.0: there is one now."""
        now = self._now()
        self._bucket.leak(now)
        in_the_way = self._bucket.peek(self._limit - 1)
        if in_the_way is None:
            return 0.0
        # One more: both ends of the bucket's window belong to it.
        return max(in_the_way.timestamp + self._interval + 1 - now, 0) / 1000

    def try_take(self) -> bool:
        """Take a token if there is one."""
        now = self._now()
        if self._bucket.count() >= self._limit:  # until then there is nothing that must be thrown away
            self._bucket.leak(now)
        return bool(self._bucket.put(self._item("attempt", now)))

    def _now(self) -> int:
        return int(self._clock.monotonic() * 1000)
