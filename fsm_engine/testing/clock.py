"""Virtual time that moves by itself: to the next timer, whenever nothing else can happen."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from ..clock import TimerHandle, VirtualClock
from ..engine.engine import ToolEngine
from ..errors.exceptions import ConfigurationError
from ..invocation.attempt import Attempt
from ..invocation.invocation import ToolInvocation
from ..states.invocation import ToolState

_REAL_TICK = 0.0005
"""Seconds of real time between two looks at what works outside the loop."""


class PacedClock(VirtualClock):
    """A clock whose time passes at once: when the event loop is idle, the next timer rings.

    Time stands still while anything in the loop can go on, and while the thread or process of a watched engine's tool
    works, unless its script says that it waits or hangs. So a test simply awaits what it wants to see; `settle` lets
    everything happen that happens now. What waits by other means (`asyncio.sleep`, a socket) takes real time, of
    which this clock knows nothing: let the tool wait by the clock, or script it.

    One loop at a time, and one such clock in it. The loop must be one of asyncio's own.

    Args:
        start: the first `monotonic()`, seconds.
        wall: the first `wall()`, seconds since the epoch.

    Example:
        >>> async def nap(clock):
        ...     await clock.sleep(3600)
        ...     return clock.monotonic()
        >>> asyncio.run(nap(PacedClock()))
        3600.0
    """

    def __init__(self, start: float = 0.0, wall: float = 1_700_000_000.0) -> None:
        super().__init__(start, wall)
        self._engines: WeakSet[ToolEngine] = WeakSet()
        self._loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()  # in which a look is due
        self._waiting: set[Attempt] = set()
        self._settling = 0

    def watch(self, engine: ToolEngine) -> None:
        """Let time stand still while a thread of this engine works; `engine_factory` has done it for its engines."""
        self._engines.add(engine)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Call back when time reaches `when`; in a running loop it gets there by itself."""
        timer = super().call_at(when, callback, *args)
        loop = asyncio._get_running_loop()
        if loop is not None:
            self._look_soon(loop)
        return timer

    async def settle(self) -> None:
        """Return when nothing more happens without time passing: the loop is idle and no thread works."""
        loop = asyncio.get_running_loop()
        ready = _ready_of(loop)
        self._settling += 1
        try:
            await asyncio.sleep(0)
            # Of those that settle at the same time each has at most one turn in the queue.
            while len(ready) >= self._settling or self._is_work_under_way():  # noqa: ASYNC110 # no event tells
                await asyncio.sleep(0 if ready else _REAL_TICK)
        finally:
            self._settling -= 1
            self._look_soon(loop)

    def begin_wait(self, attempt: Attempt) -> None:
        """The thread of this attempt only waits for time to pass from now on."""
        self._waiting.add(attempt)

    def end_wait(self, attempt: Attempt) -> None:
        """The thread of this attempt works again."""
        self._waiting.discard(attempt)

    def _look_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop not in self._loops:
            _ready_of(loop)
            self._loops.add(loop)
            loop.call_soon(self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Move time on if the loop has nothing else to do, and look again as long as there is a timer."""
        due = self.next_timer
        if due is None or self._settling:
            self._loops.discard(loop)
            return
        # This turn of the loop has polled its sockets already, so an empty queue says that nobody can go on.
        if _ready_of(loop):
            loop.call_soon(self._look, loop)
        elif self._is_work_under_way():
            loop.call_later(_REAL_TICK, self._look, loop)
        else:
            loop.call_soon(self._look, loop)
            self.advance(max(0.0, due - self.monotonic()))

    def _is_work_under_way(self) -> bool:
        return any(self._is_at_work(each) for engine in self._engines for each in engine.running)

    def _is_at_work(self, invocation: ToolInvocation) -> bool:
        spec, attempt = invocation.spec, invocation.attempt
        if spec is None:
            return False
        if invocation.state == ToolState.FALLING_BACK:
            policy = spec.fallback_policy
            function = None if policy is None else policy.function
            return function is not None and not inspect.iscoroutinefunction(function)
        if attempt is None or attempt.is_over or attempt in self._waiting or not spec.signature.is_sync:
            return False
        # A thread tells of its end and its result at once, so what does not work any more has nothing more to give.
        return attempt.thread_running or spec.executor == "process"


def _ready_of(loop: asyncio.AbstractEventLoop) -> Any:
    """What can run now: the only way to know that a loop is idle, though it has no public name."""
    try:
        return loop._ready  # type: ignore[attr-defined]  # see above
    except AttributeError:
        raise ConfigurationError(
            f"virtual time needs to see whether a loop is idle, and {type(loop).__module__} hides it; "
            "run the test in a loop of asyncio's own"
        ) from None
