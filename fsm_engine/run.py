"""A batch of calls that is watched while it runs: numbered events for one reader."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from .events import Event, GapEvent, ToolExecutionEvent
from .invocation import ToolInvocation

MAX_BACKLOG = 1_000
"""Unread events from which on progress and chunks are thinned out."""

CHUNKS_KEPT = 100
"""How many unread chunks of all calls together survive a thinning."""


def thin_out(events: Sequence[Event] | deque[Event]) -> deque[Event]:
    """What a slow reader still gets of events: all that last, the newest progress of each call, the newest pieces."""
    kept: deque[Event] = deque()
    reported: set[str] = set()
    pieces = 0
    for event in reversed(events):
        if not event.is_lasting:
            if isinstance(event, ToolExecutionEvent) and event.chunk is None:
                if event.uid in reported:
                    continue
                reported.add(event.uid)
            else:
                pieces += 1
                if pieces > CHUNKS_KEPT:
                    continue
        kept.appendleft(event)
    return kept


def gap_before(event: Event, last_seq: int) -> GapEvent:
    """What a reader is told who has seen the event of number `last_seq` and gets this one next, with none between."""
    return GapEvent(last_seq + 1, event.at, event.seq - last_seq - 1)


class EventBuffer:
    """Events on their way to one reader, who may be slow.

    State changes and final events are never dropped. When more than `limit` events are unread, progress is reduced
    to the newest of each call and chunks to the newest hundred, and a `gap` stands where events are missing.
    """

    __slots__ = ("_closed", "_events", "_last_seq", "_limit", "_threshold", "_waiter")

    def __init__(self, limit: int = MAX_BACKLOG) -> None:
        self._limit = self._threshold = limit
        self._events: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._last_seq = 0
        self._closed = False

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Add an event and wake the reader."""
        self._events.append(event)
        if len(self._events) > self._threshold:
            self._events = thin_out(self._events)
            # What is left may be state changes alone; looking at them again is put off until there are twice as many.
            self._threshold = max(self._limit, 2 * len(self._events))
        if self._waiter is not None:
            self._wake()

    def close(self) -> None:
        """No event follows; the reader gets what is left and then the end."""
        self._closed = True
        self._wake()

    async def get(self) -> Event | None:
        """The next event; `None`: there will be none. For one reader at a time."""
        while not self._events:
            if self._closed:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        event = self._events[0]
        if event.seq > self._last_seq + 1:
            gap = gap_before(event, self._last_seq)
            self._last_seq = event.seq - 1
            return gap
        self._last_seq = event.seq
        return self._events.popleft()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Run:
    """What `ToolEngine.stream` gives. Enter it to start the calls, iterate over it for events, leave it to clean up.

    `run[uid]` is the invocation that an event speaks of, to cancel, approve or deny it. Leaving the block cancels what
    is still under way and waits until it has ended.

    Attributes:
        invocations: those of the calls, in call order; empty until the block is entered.
        tasks: what drives them.

    Example:
        >>> async def watch(engine, calls):
        ...     async with engine.stream(calls) as run:
        ...         async for event in run:
        ...             print(event.seq, event.type)
        ...         return [invocation.response for invocation in run.invocations]
    """

    def __init__(self, begin: Callable[[Run], None], settle: Callable[[Run], Awaitable[None]]) -> None:
        self._begin = begin
        self._settle = settle
        self._buffer = EventBuffer()
        self._seq = 0
        self._has_begun = False
        self.invocations: list[ToolInvocation] = []
        self.tasks: list[asyncio.Task[None]] = []

    def publish(self, event: Event) -> None:
        """Number an event and hand it to the reader."""
        event.seq = self._seq = self._seq + 1
        self._buffer.put(event)

    def ended(self, task: asyncio.Task[None]) -> None:
        """One of the calls has ended; with the last one the stream does."""
        if all(each.done() for each in self.tasks):
            self._buffer.close()

    async def __aenter__(self) -> Self:
        if self._has_begun:
            raise RuntimeError("a stream is entered once; ask the engine for another one")
        self._has_begun = True
        self._begin(self)
        if not self.invocations:
            self._buffer.close()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._settle(self)

    def __aiter__(self) -> Self:
        if not self._has_begun:
            raise RuntimeError("nothing runs yet; write `async with engine.stream(calls) as run:` around the loop")
        return self

    async def __anext__(self) -> Event:
        event = await self._buffer.get()
        if event is None:
            raise StopAsyncIteration
        return event

    def __getitem__(self, uid: str) -> ToolInvocation:
        for invocation in self.invocations:
            if invocation.uid == uid:
                return invocation
        raise KeyError(uid)
