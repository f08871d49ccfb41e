"""A batch of calls that is watched while it runs: numbered events for one reader."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..events.types import Event, GapEvent, ThinkingEvent, ToolArgumentsEvent, ToolExecutionEvent
from ..invocation.invocation import ToolInvocation
from ..jsonable.strict import json_text
from .call_group import CallGroup, Ending, RunEnd, is_turn_due

if TYPE_CHECKING:
    from .engine import ToolEngine

MAX_BACKLOG = 1_000
"""Unread events from which on progress and chunks are thinned out."""

CHUNKS_KEPT = 100
"""How many unread chunks of all calls together survive a thinning."""


MAX_BACKLOG_CHARS = 4_000_000
"""Characters of unread pieces from which on they are thinned out, however few they are."""

CHARS_KEPT = 1_000_000
"""How many characters of those chunks do."""


def thin_out(events: Sequence[Event] | deque[Event]) -> deque[Event]:
    """What a slow reader still gets of events: all that last, the newest progress of each call, the newest pieces."""
    kept: deque[Event] = deque()
    reported: set[str] = set()
    pieces = chars = 0
    for event in reversed(events):
        if not event.is_lasting:
            if isinstance(event, ToolExecutionEvent) and event.chunk is None:
                if event.uid in reported:
                    continue
                reported.add(event.uid)
            else:
                pieces, chars = pieces + 1, chars + piece_chars(event)
                if pieces > CHUNKS_KEPT or (chars > CHARS_KEPT and pieces > 1):
                    continue
        kept.appendleft(event)
    return kept


def piece_chars(event: Event) -> int:
    """About how much of somebody's output an event holds; 0: it is none that would ever be left out."""
    if isinstance(event, ToolExecutionEvent):
        chunk = event.chunk
        if chunk is None:
            return 0 if event.message is None else len(event.message)
        return len(chunk) if isinstance(chunk, str) else len(json_text(chunk))
    if isinstance(event, ToolArgumentsEvent):
        return len(event.delta)
    return len(event.content) if isinstance(event, ThinkingEvent) and event.piece else 0


def gap_before(event: Event, last_seq: int) -> GapEvent:
    """What a reader is told who has seen the event of number `last_seq` and gets this one next, with none between."""
    return GapEvent(last_seq + 1, event.at, event.seq - last_seq - 1)


class EventBuffer:
    """Events on their way to one reader, who may be slow.

    State changes and final events are never dropped. When more than `limit` events are unread, or more than some
    characters of pieces, progress is reduced to the newest of each call and chunks to the newest hundred, or fewer if
    they are large, and a `gap` stands where events are missing.
    """

    __slots__ = ("_chars", "_chars_threshold", "_closed", "_events", "_last_seq", "_limit", "_threshold", "_waiter")

    def __init__(self, limit: int = MAX_BACKLOG) -> None:
        self._limit = self._threshold = limit
        self._events: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._last_seq = 0
        self._chars, self._chars_threshold = 0, MAX_BACKLOG_CHARS
        self._closed = False

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Add an event and wake the reader."""
        self._events.append(event)
        self._chars += piece_chars(event)
        if len(self._events) > self._threshold or self._chars > self._chars_threshold:
            self._events = thin_out(self._events)
            self._chars = sum(map(piece_chars, self._events))
            # What is left may be state changes alone; looking at them again is put off until there are twice as many.
            self._threshold = max(self._limit, 2 * len(self._events))
            self._chars_threshold = max(MAX_BACKLOG_CHARS, 2 * self._chars)
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
        self._chars -= piece_chars(event)
        return self._events.popleft()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class CallStream(CallGroup):
    """What `ToolEngine.stream` gives. Enter it to start the calls, iterate over it for events, leave it to clean up.

    `run[uid]` is the invocation that an event speaks of, to cancel, approve or deny it; `cancel` stops all of them.
    Leaving the block cancels what is still under way and waits until it has ended.

    Args:
        engine: runs the calls.
        calls: of one message; those that share an id are refused.
        deadline: seconds for each of them, approval apart; `None`: no limit.

    Example:
        >>> async def watch(engine, calls):
        ...     async with engine.stream(calls) as run:
        ...         async for event in run:
        ...             print(event.seq, event.type)
        ...         return [invocation.response for invocation in run.invocations]
    """

    def __init__(self, engine: ToolEngine, calls: Iterable[Any], deadline: float | None = None) -> None:
        super().__init__(engine)
        self._calls = calls
        self._deadline = deadline
        self._buffer = EventBuffer()
        self._seq = 0
        self._handed_out = 0
        self._unended = 0

    async def __aenter__(self) -> Self:
        if self._loop is not None:
            raise RuntimeError("a stream is entered once; ask the engine for another one")
        self._loop = asyncio.get_running_loop()
        self.start_calls(self._calls, deadline=self._deadline)
        self._unended = len(self._invocations)
        for invocation in self._invocations.values():
            invocation.when_ended(self._call_ended)
        if not self._invocations:
            self._end()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel(message="its stream was left")
        interrupted = await self._calls_ended()
        if interrupted is not None:
            raise interrupted

    def __aiter__(self) -> Self:
        if self._loop is None:
            raise RuntimeError("nothing runs yet; write `async with engine.stream(calls) as run:` around the loop")
        return self

    async def __anext__(self) -> Event:
        self._handed_out += 1
        if is_turn_due(self._handed_out):
            await asyncio.sleep(0)
        event = await self._buffer.get()
        if event is None:
            raise StopAsyncIteration
        return event

    def __getitem__(self, uid: str) -> ToolInvocation:
        return self.invocation(uid)

    def _tell(self, event: Event) -> None:
        event.seq = self._seq = self._seq + 1
        self._buffer.put(event)

    def _call_ended(self, _: object) -> None:
        """With the last of the calls the stream ends."""
        self._unended -= 1
        if not self._unended:
            self._end()

    def _end(self) -> None:
        self._claim(Ending(RunEnd.DONE))
        self._buffer.close()
