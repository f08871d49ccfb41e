"""How often a tool may be called: tokens in time, kept by pyrate-limiter."""

from __future__ import annotations

from dataclasses import dataclass

from ..clock import Clock
from ..settings.table import RATE_LIMIT, Declared, check_declared


@dataclass(frozen=True, slots=True)
class RateLimit(Declared):
    """At most so many attempts in any span of time. What comes too early waits, as long as its deadline allows.

    Args:
        limit: attempts.
        per: seconds, to the millisecond.

    Raises:
        ConfigurationError: a setting cannot work; the message says what is allowed.

    Example:
        >>> RateLimit(10, per=1.0).limit
        10
    """

    limit: int
    per: float = 1.0

    def __post_init__(self) -> None:
        check_declared("RateLimit.", RATE_LIMIT, self)


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

    def seconds_until_free(self, ahead: int = 0) -> float:
        """Seconds until there is a token; 0.0: there is one now.

        Args:
            ahead: how many want one before; it is the soonest that the next one after them can come.
        """
        now = self._now()
        self._bucket.leak(now)
        rounds, place = divmod(ahead, self._limit)
        # The token that must come back for this one to be given out: one that is out, or one that is taken first.
        in_the_way = self._bucket.peek(self._limit - 1 - place)
        if in_the_way is None and rounds == 0:
            return 0.0
        taken = now if in_the_way is None else in_the_way.timestamp
        if in_the_way is None:
            rounds -= 1
        # One more: both ends of the bucket's window belong to it.
        return max(taken + (rounds + 1) * (self._interval + 1) - now, 0) / 1000

    def try_take(self) -> bool:
        """Take a token if there is one."""
        now = self._now()
        if self._bucket.count() >= self._limit:  # until then there is nothing that must be thrown away
            self._bucket.leak(now)
        return bool(self._bucket.put(self._item("attempt", now)))

    def _now(self) -> int:
        return int(self._clock.monotonic() * 1000)
