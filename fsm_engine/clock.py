"""Time as a parameter: what the engine waits by, and what tests move by hand.

`SystemClock` is the real one. `VirtualClock` stands still until it is told to advance.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from contextvars import Context
from typing import Any, Protocol


class TimerHandle(Protocol):
    """What `Clock.call_at` answers; `asyncio.TimerHandle` is one."""

    def cancel(self) -> None:
        """Do not call back; nothing happens if that is over."""
        ...


class Clock(Protocol):
    """Everything that the engine knows of time. Seconds throughout."""

    def monotonic(self) -> float:
        """Now, on a scale that never goes back; only differences mean something."""
        ...

    def wall(self) -> float:
        """Now, in seconds since the epoch, for people to read; never compared."""
        ...

    async def sleep(self, seconds: float, /) -> None:
        """Wait without keeping anybody else from running."""
        ...

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Call back once `monotonic()` has reached `when`, in the running event loop."""
        ...


class SystemClock:
    """The machine's own time. What a test library does to `time` moves neither it nor its timers: use `VirtualClock`."""

    monotonic = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
    sleep = staticmethod(asyncio.sleep)

    @staticmethod
    def call_at(when: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Call back in the running loop; raises `RuntimeError` without one."""
        loop = asyncio.get_running_loop()
        # A loop may count from another zero than this clock (uvloop does), so only the difference is handed on; it is
        # taken on the one scale that `when` is told on. An empty context for each timer, as two threads cannot be in one
        # at the same time; a copy of the caller's would keep alive what the caller has there.
        return loop.call_later(when - SystemClock.monotonic(), callback, *args, context=Context())


class _VirtualTimer:
    __slots__ = ("args", "callback", "cancelled")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback = callback
        self.args = args
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():  # cancelled, and its task has not come to take its timer away yet
        sleeper.set_result(None)


class VirtualClock:
    """A clock that stands still until somebody advances it.

    Args:
        start: the first `monotonic()`, seconds.
        wall: the first `wall()`, seconds since the epoch.

    Example:
        >>> clock = VirtualClock()
        >>> rung = []
        >>> timer = clock.call_at(60.0, rung.append, "breaker")
        >>> clock.advance(59.9); rung
        []
        >>> clock.advance(0.1); rung
        ['breaker']
    """

    def __init__(self, start: float = 0.0, wall: float = 1_700_000_000.0) -> None:
        self._now = start
        self._wall_offset = wall - start
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _VirtualTimer]] = []

    def monotonic(self) -> float:
        """Now, seconds."""
        return self._now

    def wall(self) -> float:
        """Now, seconds since the epoch."""
        return self._wall_offset + self._now

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Call back when `advance` passes `when`; nothing rings by itself, not even what is already due."""
        timer = _VirtualTimer(callback, args)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    async def sleep(self, seconds: float) -> None:
        """Wait until `advance` has moved the clock that far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        awake = loop.create_future()
        timer = self.call_at(self._now + seconds, _wake, awake)
        try:
            await awake
        finally:
            timer.cancel()

    @property
    def next_timer(self) -> float | None:
        """When the next timer is due; `None` if none is set."""
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def advance(self, seconds: float) -> None:
        """Move time on; timers that fall due ring on the way, in their order, each seeing its own time.

        Raises:
            ValueError: time never goes back.
        """
        if not seconds >= 0:  # NaN is neither
            raise ValueError(f"time cannot go back, but seconds is {seconds}; give 0 or more")
        target = self._now + seconds
        while (due := self.next_timer) is not None and due <= target:
            timer = heapq.heappop(self._timers)[2]
            self._now = max(self._now, due)
            timer.callback(*timer.args)
        self._now = max(self._now, target)  # a timer may have advanced further
