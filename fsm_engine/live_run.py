"""Work that makes tool calls, in a task of its own, with all that happens in one log that anybody may read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from enum import StrEnum
from types import TracebackType
from typing import Any, NamedTuple, Self

from .calls import duplicate_id_error, read_call
from .engine import ToolEngine
from .errors import ToolError, classify
from .events import Event, RunEndedEvent
from .hooks.logging import engine_logger
from .invocation import ToolInvocation
from .run_log import Reader, RunLog

Work = Callable[["LiveRun"], Awaitable["Ending | None"]]
"""Is given the run to make calls and publish events with; answers why the run has ended, `None`: it is done."""


class Ending(NamedTuple):
    """Why a run has ended: for a machine, usually a `RunEnd`, and in words for a person."""

    reason: str
    message: str | None = None


class RunEnd(StrEnum):
    """Why a run has ended, in its `run_ended` event. Whoever stops a run may give another reason."""

    DONE = "done"
    FINAL_ANSWER = "final_answer"
    CUT_OFF = "cut_off"  # the model stopped in the middle of its answer
    MAX_TURNS = "max_turns"
    MAX_SECONDS = "max_seconds"
    CANCELLED = "cancelled"
    MODEL_ERROR = "model_error"
    ERROR = "error"


class LiveRun:
    """A run that readers may come to and leave as they like; it goes on without any.

    It begins when it is entered, awaited, iterated over or put into a `RunStore`. Leaving the `async with` block
    cancels it. A call that it has started ends before it does.

    Args:
        engine: runs the calls.
        work: what is done; calls it makes by `start_call`.
        log: where the events go; one of the usual size if it is not given.

    Attributes:
        log: all events, the last of them `run_ended`.
        reason: why it has ended; `None` until then.

    Example:
        >>> import asyncio
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> async def main():
        ...     async with LiveRun.of_calls(ToolEngine([add]), [{"name": "add", "arguments": {"a": 2, "b": 3}}]) as run:
        ...         return [event.type async for event in run][-2:]
        >>> asyncio.run(main())
        ['tool_result', 'run_ended']
    """

    def __init__(self, engine: ToolEngine, work: Work, *, log: RunLog | None = None) -> None:
        self.log = RunLog() if log is None else log
        self.reason: str | None = None
        self._engine = engine
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._stop: Ending | None = None
        self._callbacks: list[Callable[[], object]] = []
        self._invocations: dict[str, ToolInvocation] = {}

    @classmethod
    def of_calls(cls, engine: ToolEngine, calls: Iterable[Any], *, log: RunLog | None = None) -> LiveRun:
        """A run of the calls of one message, side by side; calls that share an id are refused.

        Args:
            calls: as for `ToolEngine.execute_tool_call`.
        """
        read = [read_call(call) for call in calls]
        ids = Counter(call.id for call in read if call.id)

        async def work(run: LiveRun) -> None:
            for call in read:
                refused = call.id is not None and ids[call.id] > 1
                run.start_call(call, refuse=duplicate_id_error() if refused else None)

        return cls(engine, work, log=log)

    # -- what callers ask ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the work; nothing happens if it has begun.

        Raises:
            RuntimeError: no event loop is running.
        """
        self._begin()

    def cancel(self, reason: str = RunEnd.CANCELLED, message: str | None = None) -> bool:
        """Stop the work and cancel its calls; `False`: it has ended, or was asked to before.

        Args:
            reason: for the `run_ended` event; a machine reads it.
            message: likewise, for a person.
        """
        if self.reason is not None or self._stop is not None:
            return False
        self._stop = Ending(str(reason), message)
        self._begin().cancel()
        return True

    def invocation(self, uid: str) -> ToolInvocation:
        """The call that an event speaks of, to approve, deny or cancel it.

        Raises:
            KeyError: no call of this run has that uid.
        """
        return self._invocations[uid]

    @property
    def invocations(self) -> tuple[ToolInvocation, ...]:
        """All calls so far, in the order in which they were started."""
        return tuple(self._invocations.values())

    @property
    def is_over(self) -> bool:
        """It has ended; nothing changes any more."""
        return self.reason is not None

    def when_over(self, callback: Callable[[], object]) -> None:
        """Call this when the run has ended and its log is closed."""
        self._callbacks.append(callback)

    async def wait(self) -> str:
        """Wait for the end and answer why it came. Cancelling whoever waits does not cancel the run."""
        await asyncio.wait([self._begin()])
        assert self.reason is not None, "a run says why it ends"
        return self.reason

    async def __aenter__(self) -> Self:
        self.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel(message="its block was left")
        await self.wait()

    def __aiter__(self) -> Reader:
        self.begin()
        return self.log.reader()

    # -- what the work does --------------------------------------------------------------------------------------

    def start_call(self, call: Any, *, refuse: ToolError | None = None) -> ToolInvocation:
        """Start a call whose events go into the log; see `ToolEngine.start`."""
        invocation = self._engine.start(call, on_event=self.log.append, refuse=refuse)
        self._invocations[invocation.uid] = invocation
        return invocation

    def publish(self, event: Event) -> None:
        """Number an event of the work's own, give it the time, and put it into the log."""
        event.at = self._engine.clock.wall()
        self.log.append(event)

    # -- its life ------------------------------------------------------------------------------------------------

    def _begin(self) -> asyncio.Task[None]:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._drive())
            self._task.add_done_callback(self._task_ended)
        return self._task

    async def _drive(self) -> None:
        interrupted: asyncio.CancelledError | None = None
        try:
            end = await self._work(self) or Ending(RunEnd.DONE)
            await self._calls_ended()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 # whatever it is, the readers are told of the end
            if not isinstance(error, asyncio.CancelledError) or not self._is_being_cancelled:
                end = self._failed(error)
            else:
                interrupted = error if self._stop is None else None
                end = self._stop or Ending(RunEnd.CANCELLED)
        for invocation in self._invocations.values():
            invocation.cancel(f"the run has ended: {end.reason}")
        interrupted = await self._calls_ended_whatever() or interrupted
        self._end(end)
        if interrupted is not None:
            raise interrupted

    async def _calls_ended(self) -> None:
        while pending := [each.ended for each in self._invocations.values() if not each.is_final]:
            await asyncio.wait(pending)

    async def _calls_ended_whatever(self) -> asyncio.CancelledError | None:
        """Wait for the calls; answers the cancellation that came meanwhile."""
        interrupted = None
        while True:
            try:
                await self._calls_ended()
                return interrupted
            except asyncio.CancelledError as error:
                interrupted = error

    @property
    def _is_being_cancelled(self) -> bool:
        """Somebody has asked the task to stop; a CancelledError that was merely raised says nothing."""
        return self._task is not None and self._task.cancelling() > 0

    def _failed(self, error: BaseException) -> Ending:
        classified = classify(error)
        engine_logger().error("run failed", detail=classified.detail)
        return Ending(RunEnd.ERROR, f"{classified.code} ({type(error).__name__})")

    def _end(self, end: Ending) -> None:
        self.publish(RunEndedEvent(0, 0.0, *end))
        self.reason = end.reason
        self.log.close()
        for callback in self._callbacks:
            callback()

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            task.exception()  # a KeyboardInterrupt, which has gone through the loop already
        if self.reason is None:  # cancelled before its first step
            self._end(self._stop or Ending(RunEnd.CANCELLED))
