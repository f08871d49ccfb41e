"""Work that makes tool calls, in a task of its own, with all that happens in one log that anybody may read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable
from types import TracebackType
from typing import Any, Self

from ..concurrency.ownership import Owner, current_owner
from ..engine.call_group import CallGroup, Ending, RunEnd
from ..engine.engine import ToolEngine
from ..errors.exceptions import FsmEngineError, classify
from ..events.log import Reader, RunLog
from ..events.types import Event, RunEndedEvent
from ..logs import engine_logger
from ..tools.message_forms import read_calls

Work = Callable[["LiveRun"], Awaitable["Ending | None"]]
"""Is given the run to make calls and publish events with; answers why the run has ended, `None`: it is done."""

FAILURES = frozenset({RunEnd.MAX_TURNS, RunEnd.MAX_SECONDS, RunEnd.CANCELLED, RunEnd.MODEL_ERROR, RunEnd.ERROR})
"""Ends that are none that the work has come to by itself, or no good ones."""


class RunFailedError(FsmEngineError):
    """A run that was awaited was stopped, or has failed. What it has done stands in the run.

    Attributes:
        run: the run; an agent's has the conversation in `messages`.
        reason, message: of its `run_ended` event.
    """

    def __init__(self, run: LiveRun, reason: str, message: str | None) -> None:
        super().__init__(f"the run has ended without success: {reason}" + (f" ({message})" if message else ""))
        self.run = run
        self.reason = reason
        self.message = message


class LiveRun(CallGroup):
    """A run that readers may come to and leave as they like; it goes on without any.

    It begins when it is entered, awaited, iterated over or put into a `RunStore`. Leaving the `async with` block
    cancels it. A call that it has started ends before it does. One that is begun inside a tool is cancelled, at the
    latest, when the tool's attempt ends, unless it is kept in a `RunStore`.

    `await run` answers the run when it has ended well, and raises `RunFailedError` else; cancelling all who await it so
    cancels it. `wait` only watches.

    Args:
        engine: runs the calls.
        work: what is done; calls it makes by `start_call`. A stop cancels it; if it goes on all the same for longer than
            the engine's `cancel_grace`, the run ends without it.
        log: where the events go; one of the usual size if it is not given.

    Attributes:
        log: all events, the last of them `run_ended`.
        reason: why it has ended; `None` until then.
        message: the same for a person, where there is more to say.

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
        super().__init__(engine)
        self.log = RunLog() if log is None else log
        self.reason: str | None = None
        self.message: str | None = None
        self._work = work
        self._task: asyncio.Task[None] | None = None
        self._working: asyncio.Task[Ending | None] | None = None
        self._heard: asyncio.Future[None] | None = None
        self._owner: Owner | None = None
        self._awaiting = 0
        self._result = Ending(RunEnd.DONE)
        self._was_stopped = False
        self._callbacks: list[Callable[[], object]] = []

    @classmethod
    def of_calls(cls, engine: ToolEngine, calls: Iterable[Any], *, log: RunLog | None = None) -> LiveRun:
        """A run of the calls of one message, side by side; calls that share an id are refused.

        Args:
            calls: as for `ToolEngine.execute_tool_calls`.
        """
        given = read_calls(calls)

        async def work(run: LiveRun) -> None:
            run.start_calls(given)

        return cls(engine, work, log=log)

    # -- what callers ask ----------------------------------------------------------------------------------------

    def begin(self, *, is_detached: bool = False) -> None:
        """Start the work; nothing happens if it has begun.

        Args:
            is_detached: begun inside a tool, it is to outlive the tool's call; whoever begins it sees to its end.

        Raises:
            RuntimeError: no event loop is running.
        """
        self._begin(is_detached=is_detached)

    def cancel(self, reason: str = RunEnd.CANCELLED, message: str | None = None) -> bool:
        """Stop the work and cancel its calls, from any thread or a signal's handler; no call begins from now on.

        Args:
            reason: for the `run_ended` event; a machine reads it.
            message: likewise, for a person.

        Returns:
            whether this is what stops it; `False`: it has ended, or was stopped before.
        """
        is_stopped = super().cancel(reason, message)
        if is_stopped and self._task is None and asyncio._get_running_loop() is not None:
            self._begin()  # its readers would wait for ever
        return is_stopped

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

    def __await__(self) -> Generator[Any, None, Self]:
        self._awaiting += 1
        try:
            yield from self.wait().__await__()
        except asyncio.CancelledError:
            if self._awaiting == 1:
                self.cancel(message="whoever awaited it was cancelled")
            raise
        finally:
            self._awaiting -= 1
        assert self.reason is not None, "it has ended"
        if self.reason in FAILURES or self._was_stopped:
            raise RunFailedError(self, self.reason, self.message)
        return self

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

    def publish(self, event: Event) -> None:
        """Number an event of the work's own, give it the time, and put it into the log."""
        event.at = self._engine.clock.wall()
        self.log.append(event)

    def _tell(self, event: Event) -> None:
        self.log.append(event)

    # -- what a kind of run may add ------------------------------------------------------------------------------

    def _close_what_is_open(self) -> None:
        """The work is over, well or not: its last chance to make a call, be it one that is not run."""

    def _before_end(self) -> None:
        """All calls have ended, and `run_ended` comes next."""

    # -- its life ------------------------------------------------------------------------------------------------

    def _begin(self, *, is_detached: bool = False) -> asyncio.Task[None]:
        if self._task is None:
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(self._drive())
            self._task.add_done_callback(self._task_ended)
            self.when_over(self._engine.when_closing(self._engine_closes))
            self._owner = None if is_detached else current_owner()
            if self._owner is not None:
                self._owner.when_over(self._owner_is_over)
        return self._task

    def _engine_closes(self) -> None:
        self.cancel(message="the engine is closing")

    def _owner_is_over(self) -> None:
        self.cancel(message="the call that began it is over")

    async def _drive(self) -> None:
        interrupted = None if self.is_stopped() else await self._work_ended()
        self._close_what_is_open()
        interrupted = await self._calls_ended() or interrupted
        self._before_end()
        self._end()
        if interrupted is not None:
            raise interrupted

    async def _work_ended(self) -> asyncio.CancelledError | None:
        """Do the work, and do not wait for ever if it goes on after a stop; answers the cancellation that came meanwhile."""
        loop, clock = asyncio.get_running_loop(), self._engine.clock
        self._heard = heard = loop.create_future()
        self._working = working = loop.create_task(self._do_work())
        interrupted: asyncio.CancelledError | None = None
        while not working.done() and not heard.done():
            interrupted = await self._wait([working, heard]) or interrupted
        late: asyncio.Future[None] = loop.create_future()
        timer = clock.call_at(clock.monotonic() + self._engine.cancel_grace, _set, late)
        try:
            while not working.done() and not late.done():
                interrupted = await self._wait([working, late]) or interrupted
        finally:
            timer.cancel()
        if working.done():
            self._take_outcome(working)
        else:
            engine_logger().warning("the work of a run was left to itself: it does not heed its cancellation")
            working.add_done_callback(_look_at)
        return interrupted

    async def _do_work(self) -> Ending | None:
        return await self._work(self)

    def _stop_heard(self) -> None:
        if self._heard is not None and not self._heard.done():
            self._heard.set_result(None)
        # A loop that shuts down cancels this task beside the one that tells us; twice would hit it while it cleans up.
        if self._working is not None and not self._working.cancelling():
            self._working.cancel()

    def _take_outcome(self, working: asyncio.Task[Ending | None]) -> None:
        error = asyncio.CancelledError() if working.cancelled() else working.exception()
        if error is None:
            self._result = working.result() or self._result
        elif not isinstance(error, asyncio.CancelledError) or not self._endings:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """That is an end too, unless there is one; no further call begins."""
        if not isinstance(error, Exception | asyncio.CancelledError):
            ending = Ending(RunEnd.CANCELLED, "the program was interrupted")  # it has gone through the loop already
        else:
            classified = classify(error)
            engine_logger().error("run failed", detail=classified.detail)
            ending = Ending(RunEnd.ERROR, f"{classified.code} ({type(error).__name__})")
        if self._claim(ending):
            self._hear_stop()

    def _end(self) -> None:
        self._was_stopped = not self._claim(self._result)
        end = self._endings[None]
        self.publish(RunEndedEvent(0, 0.0, *end))
        self.reason, self.message = end
        self.log.close()
        if self._owner is not None:
            self._owner.forget(self._owner_is_over)
        for callback in self._callbacks:
            callback()

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if self.reason is None:  # cancelled before its first step, or what a kind of run has added is broken
            self._fail(error) if error is not None else self._claim(Ending(RunEnd.CANCELLED))
            self._end()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _look_at(task: asyncio.Task[Any]) -> None:
    """Or asyncio complains that nobody has."""
    if not task.cancelled():
        task.exception()
