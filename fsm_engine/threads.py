"""Threads for functions that may hang.

The interpreter waits at its end for every thread that is no daemon: those of `concurrent.futures` and of anyio are not,
so a tool that hangs would keep the whole program from ending. These are daemons. How many there are is bounded by
whoever uses them (the engine's slots), so there is no queue here; a thread that has nothing to do for a while ends.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

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
if hasattr(os, "register_at_fork"):  # a child process has none of its parent's threads
    os.register_at_fork(after_in_child=_idle.clear)


async def run_in_thread(function: Callable[[], T], on_end: Callable[[BaseException | None], object] | None = None) -> T:
    """Run a function in a thread and wait for it, with a copy of the context variables; a cancelled wait leaves it alone.

    Args:
        on_end: is called in the thread when that is free again, with what the function raised, whether somebody still
            waits or not.

    Raises:
        BaseException: what the function raised; `RuntimeError` for a `StopIteration`, which no future can carry.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def job() -> _Report:
        try:
            result = context.run(function)
        except BaseException as error:  # noqa: BLE001 # handed to whoever waits
            return _reporter(loop, partial(_fail, future, error), on_end and partial(on_end, error))
        return _reporter(loop, partial(_succeed, future, result), on_end and partial(on_end, None))

    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
        worker.start()
    worker.jobs.put(job)
    return await future


def _reporter(loop: asyncio.AbstractEventLoop, settle: Callable[[], object], on_end: _Report | None) -> _Report:
    def report() -> None:
        if on_end is not None:
            on_end()
        with suppress(RuntimeError):  # the loop was closed meanwhile; nobody waits
            loop.call_soon_threadsafe(settle)

    return report


def _succeed(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[T], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration):
        replaced = RuntimeError(f"the function raised {error!r}")
        replaced.__cause__ = error
        error = replaced
    future.set_exception(error)
