"""The engine for code without an event loop: a loop to work in, the way there and back, and a stream to iterate over."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import finalize

from ..errors.exceptions import ConfigurationError, EngineClosedError
from ..events.types import Event
from ..forking import renew_in_children
from .ownership import current_owner

if TYPE_CHECKING:
    from ..engine.stream import CallStream
    from ..invocation.invocation import ToolInvocation

T = TypeVar("T")

CLOSED = "this engine has been closed; make another one"

LOOK_SECONDS = 1.0
"""How often whoever waits looks whether the loop that works for it still runs; what it gives wakes the waiter at once."""


class LoopThread:
    """An event loop in a daemon thread, so that a hung tool never keeps the interpreter from ending.

    Args:
        grace: seconds that `stop` gives to coroutines which do not end when they are cancelled.
    """

    def __init__(self, grace: float = 1.0) -> None:
        self._grace = grace
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fsm_engine loop", daemon=True)
        started = threading.Event()
        self.loop.call_soon(started.set)
        self._thread.start()
        started.wait()  # from now on it runs until it is stopped

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it; interrupting the wait cancels it."""
        return run_in(self.loop, coroutine)

    def ask_to_stop(self) -> None:
        """End the loop and the thread soon, and wait for neither; twice is nothing."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)

    def stop(self) -> None:
        """End the loop and the thread; twice, or in two threads at once, is nothing."""
        self.ask_to_stop()
        self._thread.join()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self._wind_up())
            self.loop.close()

    async def _wind_up(self) -> None:
        # As asyncio.run does, save that it would wait for ever for a coroutine that ignores its cancellation.
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._grace)
        await self.loop.shutdown_asyncgens()


def refuse_in_loop(instead: str) -> None:
    """Say what to await where waiting would block a running loop.

    Raises:
        ConfigurationError: a loop is running in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigurationError(f"an event loop is running here and would be blocked; await {instead} instead")


def run_in(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a loop of another thread and wait for it.

    Interrupting the wait cancels it; so does the end of the attempt that this is called by.

    Raises:
        EngineClosedError: the loop ended first.
        BaseException: what the coroutine raised.
    """
    try:
        # With what this thread knows, as `await` would have it.
        future: Future[T] = copy_context().run(asyncio.run_coroutine_threadsafe, coroutine, loop)
    except RuntimeError:
        coroutine.close()
        raise EngineClosedError(CLOSED) from None
    owner = current_owner()
    if owner is not None:
        owner.when_over(future.cancel)
    try:
        while not wait((future,), timeout=LOOK_SECONDS).done and loop.is_running():
            pass
        if future.done():
            return future.result()
    except BaseException:
        future.cancel()
        raise
    finally:
        if owner is not None:
            owner.forget(future.cancel)
    future.cancel()
    raise EngineClosedError("the event loop that this engine's calls run in has ended, and this one with it")


class SyncDoor:
    """The way into an engine for threads without a loop: the loop that the engine works in, else one of its own.

    Args:
        owner: the engine; when it is dropped, the loop's thread ends.
        loop_of: answers the loop that the engine works in; `None`: it has none yet.
        grace: see `LoopThread`.
    """

    def __init__(self, owner: object, loop_of: Callable[[], asyncio.AbstractEventLoop | None], grace: float) -> None:
        self._name = type(owner).__name__
        self._loop_of = loop_of
        self._grace = grace
        self._finalizer: finalize[Any, Any] | None = None
        self.lock = threading.Lock()
        self.is_closed = False
        self.background: LoopThread | None = None
        renew_in_children(self._renew)

    def enter(self, owner: object, instead: str) -> asyncio.AbstractEventLoop:
        """The loop to work in.

        Args:
            instead: what to await where a loop is running.

        Raises:
            ConfigurationError: a loop is running here, and would be blocked.
            EngineClosedError: the engine has been closed.
        """
        refuse_in_loop(instead)
        with self.lock:
            if self.is_closed:
                raise EngineClosedError(CLOSED)
            loop = self._loop_of()
            if loop is not None and loop.is_running():
                return loop
            if self.background is None:
                self.background = LoopThread(self._grace)
                self._finalizer = finalize(owner, _dropped, self.background, self._name)
                self._finalizer.atexit = False  # a daemon thread ends with the interpreter
            return self.background.loop

    def close(self) -> LoopThread | None:
        """Let nobody in any more; answers the thread that is left to be stopped."""
        with self.lock:
            self.is_closed = True
            if self._finalizer is not None:
                self._finalizer.detach()
            return self.background

    def _renew(self) -> None:
        """In a child process the loop's thread is not there, and whoever held the lock is not either."""
        self.lock = threading.Lock()
        if self._finalizer is not None:
            self._finalizer.detach()
            self._finalizer = None
        if self.background is not None:
            _of_the_parent.append(self.background)
            self.background = None


_of_the_parent: list[LoopThread] = []
# Kept, as closing a loop that is dropped would take the parent's sockets out of the selector, which both share.


def _dropped(background: LoopThread, name: str) -> None:
    # From whatever thread the garbage is collected in, so nothing is waited for.
    warnings.warn(
        f"a {name} was dropped without close(), which ends the thread of its loop", ResourceWarning, stacklevel=2
    )
    background.ask_to_stop()


class SyncRun:
    """What `ToolEngine.stream_sync` gives: iterate over it for events, and leave it by `with`, or by `close`, to clean up.

    The calls start with the block, or with the first event that is asked for. Leaving cancels what is still under way
    and waits until it has ended. `run[uid]` is the invocation that an event speaks of, to cancel, approve or deny it.

    Example:
        >>> def watch(engine, calls):
        ...     with engine.stream_sync(calls) as run:
        ...         for event in run:
        ...             print(event.seq, event.type)
        ...     return [invocation.response for invocation in run.invocations]
    """

    def __init__(self, run: CallStream, loop: asyncio.AbstractEventLoop) -> None:
        self._run = run
        self._loop = loop
        self._has_begun = self._is_over = False

    @property
    def invocations(self) -> Sequence[ToolInvocation]:
        """Those of the calls, in call order; empty until the calls have started."""
        return self._run.invocations

    def __getitem__(self, uid: str) -> ToolInvocation:
        return self._run[uid]

    def __enter__(self) -> Self:
        if not self._has_begun:
            self._has_begun = True
            run_in(self._loop, self._run.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._is_over:
            raise StopIteration
        self.__enter__()
        try:
            event = run_in(self._loop, _next_of(self._run))
        except BaseException:  # interrupted: nobody reads on, and there may be no time to wait
            self._is_over = True
            self._cancel_calls()
            raise
        if event is None:
            self.close()
            raise StopIteration
        return event

    def close(self) -> None:
        """Cancel what is still under way and wait until it has ended; twice is nothing."""
        if self._has_begun and not self._is_over:
            self._is_over = True
            self._cancel_calls()
            run_in(self._loop, self._run.__aexit__(None, None, None))

    def __del__(self) -> None:
        if self._has_begun and not self._is_over:  # a loop that was left by `break`: nobody is here to wait
            self._cancel_calls()

    def _cancel_calls(self) -> None:
        self._run.cancel(message="its stream was left")


async def _next_of(run: CallStream) -> Event | None:
    return await anext(run, None)
