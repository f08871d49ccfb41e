"""What a tool may know of its own call, and what it may say while it runs."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors.exceptions import ConfigurationError
from ..settings.table import check_seconds

if TYPE_CHECKING:
    from ..clock import Clock, TimerHandle
    from ..invocation.attempt import Attempt

LOOK_SECONDS = 1.0
"""How often a thread that waits looks whether the loop that would wake it is still there."""


class ToolContext:
    """Given to a tool that declares a parameter of this type; the parameter is no part of the tool's schema.

    `report` and `emit` may be called from the tool's own thread. What is said after the attempt has ended (a tool
    that goes on after its time limit, say) is dropped.

    Example:
        >>> async def export(rows: list[str], ctx: ToolContext) -> int:
        ...     for number, row in enumerate(rows, 1):
        ...         ctx.report(number / len(rows), f"row {number}")
        ...     return len(rows)
    """

    __slots__ = ("_attempt", "_invocation", "_log")

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._invocation = attempt.invocation
        self._log: Any = None

    def report(self, progress: float | None = None, message: str | None = None) -> None:
        """Tell whoever watches how far the work is.

        Args:
            progress: between 0 and 1, or in units of your own.
            message: a few words for a person.
        """
        self._say(self._attempt.report, progress, message)

    def emit(self, chunk: Any) -> None:
        """Hand out a piece of the output before the result is complete. Text is usual; any value is made JSON."""
        self._say(self._attempt.emit, chunk)

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._attempt.number

    @property
    def attempts_left(self) -> int:
        """How many attempts may follow this one at most; 0: what this one comes to is the last word of the tool."""
        spec = self._invocation.spec
        return 0 if spec is None else max(0, spec.retry_policy.max_retries + 1 - self.attempt)

    @property
    def deadline(self) -> float | None:
        """When this attempt must have ended, on the engine's monotonic clock; `None`: no limit."""
        return self._attempt.deadline

    @property
    def remaining(self) -> float | None:
        """Seconds left until `deadline`; `None`: no limit."""
        return None if self.deadline is None else max(0.0, self.deadline - self._invocation.clock.monotonic())

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of one invocation and for no other: hand it to the service that is called."""
        return self._invocation.uid

    @property
    def call_id(self) -> str | None:
        """The model's id of the call; `None`: it gave none.

        A model's client that repeats a request may send the very same call again, which is an invocation of its own
        with another `idempotency_key`; by this id it can be recognised.
        """
        return self._invocation.call.id

    @property
    def cancelled(self) -> bool:
        """Nobody wants the result any more; a tool in a thread should look now and then, and stop."""
        return self._attempt.is_unwanted or self._attempt.loop.is_closed()

    def wait_cancelled(self, timeout: float | None = None) -> bool:
        """Wait, in a tool's thread, until nobody wants the result any more: a sleep that ends when it should.

        Args:
            timeout: seconds to wait at most; `None`: until then.

        Returns:
            whether nobody wants it any more; `False`: the time is up.

        Raises:
            ConfigurationError: it was called in the engine's loop, which would stand still; await `when_cancelled()`.

        Example:
            >>> def poll(job: str, ctx: ToolContext) -> str:
            ...     while not ctx.wait_cancelled(5.0):
            ...         ...  # look whether the job is done
            ...     return "given up"
        """
        check_seconds("timeout", timeout, zero_allowed=True)
        if self._attempt.loop is asyncio._get_running_loop():
            raise ConfigurationError("wait_cancelled() would block the event loop; await when_cancelled() instead")
        return _Wait(self._attempt, self._invocation.clock).until_over(timeout) or self.cancelled

    async def when_cancelled(self) -> None:
        """Return when nobody wants the result any more.

        A coroutine hears of that by its `CancelledError`; this is for what it has beside it: another task, a callback, a
        part that it has shielded.
        """
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        callback = partial(loop.call_soon_threadsafe, over.set)
        self._attempt.when_over(callback)
        try:
            await over.wait()
        finally:
            self._attempt.forget(callback)

    @property
    def log(self) -> Any:
        """A structlog logger that knows the tool, the call and the attempt."""
        if self._log is None:
            invocation = self._invocation
            self._log = self._attempt.watcher.logger.bind(
                tool=invocation.tool_name, call_id=invocation.id, uid=invocation.uid, attempt=self.attempt
            )
        return self._log

    def _say(self, method: Any, *args: Any) -> None:
        if self._invocation.loop is asyncio._get_running_loop():
            method(*args)
        else:
            self._attempt.call_in_loop(method, *args)


class _Wait:
    """A thread waits for the end of an attempt, by the engine's clock."""

    def __init__(self, attempt: Attempt, clock: Clock) -> None:
        self._attempt = attempt
        self._clock = clock
        self._rung = threading.Event()
        self._timer: TimerHandle | None = None

    def until_over(self, timeout: float | None) -> bool:
        """Whether it was given up within these seconds."""
        attempt, ring = self._attempt, self._rung.set
        attempt.when_over(ring)
        if timeout is not None:
            attempt.call_in_loop(self._set_timer, self._clock.monotonic() + timeout)
        try:
            while not self._rung.wait(LOOK_SECONDS):
                if attempt.loop.is_closed():  # nobody is left to ring
                    break
        finally:
            attempt.forget(ring)
            attempt.call_in_loop(self._drop_timer)
        return attempt.is_unwanted

    def _set_timer(self, until: float) -> None:
        self._timer = self._clock.call_at(until, self._rung.set)

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
