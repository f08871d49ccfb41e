"""One attempt of an invocation: a run of the tool's function, with its times, its outcome and its loose ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from ..concurrency.eager import EagerRun
from ..concurrency.ownership import Belongings
from ..forking import renew_in_children
from ..jsonable.jsonable import MAX_SIZE, to_jsonable
from ..jsonable.redaction import redact_mapping

if TYPE_CHECKING:
    from .invocation import ToolInvocation

MAX_CHUNKS_KEPT = 1_000
"""A generator's chunks are its result unless it returns one; more than this many are handed out but not kept."""

MAX_CHUNK_CHARS_KEPT = MAX_SIZE
"""Nor are more characters than any result may have."""


_making = threading.Lock()


def _begin_in_child() -> None:
    """In a child process: another thread of the parent may have held it."""
    global _making  # noqa: PLW0603 # a lock is the module's own
    _making = threading.Lock()


renew_in_children(_begin_in_child)


class Watcher(Protocol):
    """What an attempt needs of the engine that runs it."""

    @property
    def logger(self) -> Any:
        """A structlog logger."""
        ...

    @property
    def on_late(self) -> Callable[[Attempt, BaseException | None], object]:
        """Is told of a function that ended after everybody had left."""
        ...


class Attempt(Struct, eq=False, weakref=True):
    """One run of the tool's function.

    It holds its invocation only as long as something can still come of it: the invocation holds its attempts, and a
    ring of the two would wait for the garbage collector, which costs as much as running the call.

    Attributes:
        number: from 1.
        started_at, ended_at: monotonic seconds; `ended_at` is `None` while it runs.
        deadline: monotonic seconds; when it must have ended.
        code: the error code of the outcome; `None` for a result.
        delay: seconds waited after it, before the next attempt; `None`: no other followed.
        has_spoken: the tool has handed out a chunk, so it may have taken effect.
        is_unwanted: nobody wants its result any more.
        last_sign: monotonic seconds of the last report or chunk.
        thread_running: the function's thread (or process, on an executor) has not ended.
    """

    invocation: ToolInvocation
    number: int
    started_at: float
    deadline: float | None
    watcher: Watcher
    loop: asyncio.AbstractEventLoop
    last_sign: float
    ended_at: float | None = None
    code: str | None = None
    delay: float | None = None
    has_spoken: bool = False
    is_unwanted: bool = False
    thread_running: bool = False
    run: EagerRun | None = None
    _on_end: Callable[[], object] | None = None
    _belongings: Belongings | None = None

    def __repr__(self) -> str:
        return (
            f"Attempt(number={self.number}, started_at={self.started_at}, ended_at={self.ended_at}, code={self.code})"
        )

    @property
    def is_over(self) -> bool:
        """Its outcome has been judged, or nobody waits for it any more."""
        return self.ended_at is not None

    def finish(self, now: float, code: str | None) -> None:
        """Its outcome is judged, or it is given up."""
        self.ended_at = now
        if code is not None:
            self.code = code
        if self._belongings is not None:
            self._belongings.end()
        if self.run is None and not self.thread_running:
            del self.invocation
        elif not self.thread_running and (self.run is None or self.run.finished):
            self.let_go()

    def give_up(self) -> None:
        """Nobody wants its result any more; the tool, and what it has begun, are told."""
        self.is_unwanted = True
        if self._belongings is not None:
            self._belongings.end()

    def when_over(self, callback: Callable[[], object]) -> None:
        """Call this when it is over or given up; see `ownership.Owner`."""
        with _making:  # two threads of one tool may be the first
            if self._belongings is None:
                self._belongings = Belongings()
        self._belongings.when_over(callback)
        if self.is_over or self.is_unwanted:
            self._belongings.end()

    def forget(self, callback: Callable[[], object]) -> None:
        """Do not call it any more."""
        if self._belongings is not None:
            self._belongings.forget(callback)

    def hand_over(self, heir: ToolInvocation, limit: float | None) -> Attempt:
        """Belong to another invocation of the same call from now on, and answer what the one before keeps of it.

        Args:
            limit: monotonic seconds; when it must have ended.
        """
        kept = copy(self)
        kept.run = kept._on_end = kept._belongings = None
        kept.thread_running = False
        self.invocation, self.number, self.deadline = heir, len(heir.attempts) + 1, limit
        heir.attempts.append(self)
        return kept

    def let_go(self) -> None:
        """Nothing more can come of it."""
        self.run = self._on_end = None
        if hasattr(self, "invocation"):
            del self.invocation

    def report(self, progress: float | None, message: str | None) -> None:
        """The tool says how far it is; if it says nothing, that is a sign of life all the same."""
        if not self.is_over:
            self.last_sign = self.invocation.clock.monotonic()
            # The tool may have handed over anything; an event holds strict JSON.
            amount = to_jsonable(progress).value
            amount = amount if isinstance(amount, int | float) and not isinstance(amount, bool) else None
            words = None if message is None else str(to_jsonable(message).value)
            if amount is not None or words is not None:
                self.invocation.tell(progress=amount, message=words)

    def emit(self, chunk: Any) -> None:
        """The tool hands out a piece of its output."""
        if not self.is_over:
            self.last_sign = self.invocation.clock.monotonic()
            self.has_spoken = True
            if chunk is not None:
                piece, spec = to_jsonable(chunk).value, self.invocation.spec
                if spec is not None and spec.hides:  # what the tool repeats of them is hidden like themselves
                    piece = redact_mapping(piece, spec.hides)
                self.invocation.tell(chunk=piece)

    def call_in_loop(self, method: Callable[..., object], *args: Any) -> None:
        """Call a method in the engine's loop, from any thread; nothing happens if the loop is gone."""
        try:
            self.loop.call_soon_threadsafe(method, *args)
        except RuntimeError:  # the loop was closed while an abandoned thread went on; nobody is left to be told
            return

    @property
    def goes_on(self) -> bool:
        """The function runs although nobody waits for it: in its thread, or as a coroutine that ignores its cancellation."""
        return self.thread_running or (self.is_unwanted and self.run is not None and not self.run.finished)

    def function_ended(self, error: BaseException | None = None) -> None:
        """The function's thread is free again, or its coroutine is over; in time or long after everybody left."""
        self.thread_running = False
        if self.is_over:
            self.watcher.on_late(self, error)
        if self._on_end is not None:
            self._on_end()
        if self.is_over:
            self.let_go()

    def when_function_ends(self, callback: Callable[[], object]) -> None:
        """Call back once a function that goes on has really ended."""
        self._on_end = callback
