"""Run a coroutine in a task of its own, its first step at once.

A tool that answers without waiting (most validators, caches and calculators do) then costs neither a turn of the
event loop nor a timer. One that waits goes on in its own `asyncio.Task`, which was current from its first step on, so
cancel scopes, `asyncio.timeout` and task groups inside it belong to that task alone.

Python 3.12 has `Task(eager_start=True)` for this; the project runs on 3.11 too, so it uses the functions that asyncio
documents for those who write tasks ("Extending", in its manual): `_enter_task` and `_leave_task`.
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import (
    _enter_task,
    _leave_task,
    current_task,
)  # the documented extension point; its names are private ones
from collections.abc import Callable, Coroutine
from contextvars import Context
from sys import getrefcount
from time import perf_counter
from types import CodeType, FrameType
from typing import Any


class EagerRun(Coroutine[Any, Any, None]):
    """One coroutine on its way to an outcome, and the coroutine object that its task runs.

    Attributes:
        task: the task; current while the coroutine runs, gone once that has ended in it.
        finished: the outcome is in.
        result: what the coroutine returned.
        longest_step: seconds that its longest step took; while it lasts, nothing else in the loop runs.
        error: what it raised instead, `SystemExit` and `KeyboardInterrupt` included. Nothing is raised in the task.
    """

    __slots__ = (
        "__weakref__",
        "_begun",
        "_context",
        "_coro",
        "_on_end",
        "_pending",
        "_task_context",
        "error",
        "finished",
        "longest_step",
        "result",
        "task",
    )

    # Set when a coroutine is handed over.
    _context: Context
    _on_end: Callable[[], object]

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._begun = False
        self._task_context = context
        self._coro: Coroutine[Any, Any, Any] | None = None
        self._pending: Any = None
        self.finished = False
        self.longest_step = 0.0
        self.result: Any = None
        self.error: BaseException | None = None
        # Made directly: a task factory that starts eagerly would begin a coroutine that has nothing to run yet.
        self.task: asyncio.Task[None] = asyncio.Task(self, loop=loop, context=context)

    def cancel(self) -> None:
        """Ask the coroutine to stop, as `Task.cancel` does; nothing happens if it has."""
        if not self.finished:
            self.task.cancel()

    def take(self) -> tuple[Any, BaseException | None]:
        """The outcome, once: the result and the error. An exception knows the frames that know this object."""
        result, error = self.result, self.error
        self.result = self.error = None
        return result, error

    def when_ended(self, callback: Callable[[], object]) -> None:
        """Call this instead of what `Spawner.start` was given."""
        self._on_end = callback

    # -- what the task calls -------------------------------------------------------------------------------------

    def send(self, value: Any) -> Any:
        """One more step; the task's first finds what the coroutine waits for since its own first."""
        coro = self._coro
        if coro is None:
            self._retire()
            raise StopIteration(None)
        if not self._begun:
            self._begun = True
            pending, self._pending = self._pending, None
            return pending
        return self._step(coro.send, value)

    def throw(self, error: Any, *_: object) -> Any:
        """Raise in the coroutine the exception that the task was asked to raise, a cancellation most often."""
        coro = self._coro
        if coro is None:
            self._retire()
            raise error
        self._begun = True
        pending, self._pending = self._pending, None
        # Cancelled before the task has seen what its coroutine waits for: that is cancelled, as any task would do,
        # so that a child task which is awaited there does not go on alone.
        if isinstance(error, asyncio.CancelledError) and asyncio.isfuture(pending) and pending.cancel(*error.args):
            return pending
        return self._step(coro.throw, error)

    def close(self) -> None:
        """Unwind the coroutine without a loop; raises `RuntimeError` if it wants to wait even so."""
        try:
            self.throw(GeneratorExit())
        except (StopIteration, GeneratorExit):
            return
        raise RuntimeError("the coroutine went on waiting while it was closed")

    def _step(self, method: Callable[[Any], Any], argument: Any) -> Any:
        context = self._context
        began = perf_counter()
        try:
            # The task enters its own context at every step; only one that was used again has another to enter.
            return method(argument) if context is self._task_context else context.run(method, argument)
        except StopIteration as stop:
            self._end(stop.value, None)
        except BaseException as error:  # noqa: BLE001 # the tool's outcome, whatever it is: kept for the engine to judge
            self._end(None, error)
        finally:
            seconds = perf_counter() - began
            self.longest_step = max(self.longest_step, seconds)
        raise StopIteration(None)

    def _retire(self) -> None:
        """The task ends with nothing to run."""
        if not self._begun:  # a spare that nobody used while this turn of the loop lasted; else it was closed
            self._begun = True
            del self.task

    def _end(self, result: Any, error: BaseException | None) -> None:
        on_end = self._on_end
        # The task holds this object as its coroutine, and what is told may hold it too: no ring is left behind.
        self._coro = None
        del self.task, self._on_end, self._context, self._task_context
        self.finished, self.result, self.error = True, result, error
        on_end()

    # -- what asyncio and anyio look at when they describe a task ---------------------------------------------------

    @property
    def cr_await(self) -> Any:
        """What the coroutine waits for."""
        return getattr(self._coro, "cr_await", None)

    @property
    def cr_code(self) -> CodeType:
        """The coroutine's code, as long as it is there."""
        code: CodeType = getattr(self._coro, "cr_code", EagerRun.send.__code__)
        return code

    @property
    def cr_frame(self) -> FrameType | None:
        """Where the coroutine is."""
        return getattr(self._coro, "cr_frame", None)

    @property
    def cr_running(self) -> bool:
        """The coroutine is being stepped."""
        return bool(getattr(self._coro, "cr_running", False))

    @property
    def cr_suspended(self) -> bool:
        """The coroutine waits."""
        return bool(getattr(self._coro, "cr_suspended", False))

    def __await__(self) -> Any:
        raise TypeError("an EagerRun is stepped by its task; await nothing but the engine's own signals")


class Spawner:
    """Starts coroutines eagerly on one loop, and uses a task again if its coroutine never had to wait.

    Attributes:
        first_step: seconds that the first step took of what was started last.
    """

    __slots__ = ("_loop", "_spares", "first_step")

    _loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        self._spares: list[EagerRun] = []
        self.first_step = 0.0

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Work on this loop, which is running, from now on."""
        self._loop = loop
        self._spares = []

    def start(
        self, coro: Coroutine[Any, Any, Any], context: Context, on_end: Callable[[], object]
    ) -> tuple[EagerRun | None, Any, BaseException | None]:
        """Run the coroutine's first step now.

        Answers the run, if the coroutine waits for something; else `None`, what it returned, and what it raised.

        Args:
            coro: a coroutine that has not begun.
            context: where its context variables live; a copy that nobody else uses.
            on_end: called when the outcome is in, if that is later than this call.
        """
        loop, spares = self._loop, self._spares
        run = spares.pop() if spares else EagerRun(loop, context)
        # `cancelling()` does not tell: `uncancel` lowers it and leaves the cancellation due.
        while run._begun or run.task._must_cancel:  # type: ignore[attr-defined]  # typeshed leaves it out
            run = spares.pop() if spares else EagerRun(loop, context)
        task = run.task
        caller = current_task(loop)
        if caller is not None:
            _leave_task(loop, caller)
        _enter_task(loop, task)
        held = getrefcount(task)
        began = perf_counter()
        try:
            run._pending = context.run(coro.send, None)
        except StopIteration as stop:
            result, raised = stop.value, None
        except BaseException as error:  # noqa: BLE001 # the tool's outcome, whatever it is: kept for the engine to judge
            result, raised = None, error
        else:
            run._context, run._coro, run._on_end = context, coro, on_end
            run.longest_step = perf_counter() - began
            return run, None, None
        finally:
            self.first_step = perf_counter() - began
            _leave_task(loop, task)
            if caller is not None:
                _enter_task(loop, caller)
        # While it was current, asyncio held it too. One that the coroutine has kept would be a stranger's next time.
        if getrefcount(task) < held:
            spares.append(run)
        return None, result, raised
