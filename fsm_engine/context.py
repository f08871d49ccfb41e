"""What a tool may know of its own call, and what it may say while it runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .attempt import Attempt


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
        return self._attempt.is_unwanted

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
