"""Threads for functions that may hang.

The interpreter waits at its end for every thread that is no daemon: those of `concurrent.futures` and of anyio are not,
so a tool that hangs would keep the whole program from ending. These are daemons. How many there are is bounded by
whoever uses them (the engine's slots), so there is no queue here; a thread that has nothing to do for a while ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from ..forking import renew_in_children

T = TypeVar("T")

IDLE_SECONDS = 10.0

_Report = Callable[[], object]
_Job = Callable[[], _Report]


class _Worker(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="fsm_engine worker", daemon=True)
        self.jobs: SimpleQueue[_Job] = SimpleQueue()

    def run(self) -> None:
        while True:
            try:
                job = self.jobs.get(timeout=IDLE_SECONDS)
            except Empty:
                try:
                    _idle.remove(self)
                except ValueError:  # somebody has just taken it, and its job is on the way
                    job = self.jobs.get()
                else:
                    return
            report = job()
            # Idle before anybody hears of it, so that whoever waits for a thread finds this one.
            _idle.append(self)
            report()
            del job, report  # or what they hold would live until the next job


_idle: deque[_Worker] = deque()
renew_in_children(_idle.clear)  # a child process has none of its parent's threads


async def run_in_thread(function: Callable[[], T], on_end: Callable[[BaseException | None], object] | None = None) -> T:
    """Run a function in a thread and wait for it, with a copy of the context variables; a cancelled wait leaves it alone.

    Args:
        on_end: is called in the loop when the thread is free again, with what the function raised, whether somebody
            still waits or not. Whoever waits is told in the same moment, so that nothing comes between the two.

    Raises:
        BaseException: what the function raised; `RuntimeError` for a `StopIteration`, which no future can carry.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def job() -> _Report:
        result, error = None, None
        try:
            result = context.run(function)
        except BaseException as raised:  # noqa: BLE001 # handed to whoever waits
            error = raised

        def report() -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile; nobody waits
                loop.call_soon_threadsafe(settle, future, result, error, on_end)

        return report

    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
        worker.start()
    worker.jobs.put(job)
    return await future


def settle(
    future: asyncio.Future[Any],
    result: Any,
    error: BaseException | None,
    on_end: Callable[[BaseException | None], object] | None = None,
) -> None:
    """Tell of an end, and give whoever waits the outcome, in one step of the loop."""
    try:
        if on_end is not None:
            on_end(error)
    finally:
        if not future.done():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(_carried(error))


def _carried(error: BaseException) -> BaseException:
    if not isinstance(error, StopIteration):
        return error
    replaced = RuntimeError(f"the function raised {error!r}")
    replaced.__cause__ = error
    return replaced
