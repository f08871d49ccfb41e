"""The log of a run: written once, read by any number of readers, each at its own pace.

An event is numbered when it is appended. A reader is no more than the number of the last event that it took, so a slow
one costs nothing and slows nobody, and one that comes late or comes back is told apart by that number alone: what it
has missed is read from the log, or a `gap` stands where that is gone. There is no replay beside the live stream, so no
event can fall between the two or come twice.

What is kept is bounded. A full log first leaves out old progress and pieces (`run.thin_out`), then all pieces that it
must, the oldest first, and only then the oldest events: no result goes while a piece of somebody's output could. A reader that had not read what is left out in this second way is stuck, and is dropped: it gets `ReaderDroppedError`,
and may come back with its last number like any other late reader.
"""

from __future__ import annotations

import asyncio
import weakref
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import Self

from ..engine.call_group import is_turn_due
from ..engine.stream import gap_before, thin_out
from ..errors.exceptions import ConfigurationError, FsmEngineError
from ..jsonable.jsonable import wire_text
from .types import Event, GapEvent

MAX_EVENTS = 10_000
MAX_CHARS = 16_000_000
LEAST_EVENTS = 8
BATCH = 64
"""How many events a reader takes at a time; more would keep others from running."""

_SEQ = attrgetter("seq")


class ReaderDroppedError(FsmEngineError):
    """The reader was so slow that events were given up that it had not read. Read on with its last number."""


class RunLog:
    """The events of one run. Belongs to one event loop.

    Args:
        max_events: how many are kept, at least 8. Of the newest quarter nothing is left out while there is anything
            older to leave out, so a reader that stays as near to the end as that misses nothing, as a rule.
        max_chars: how many characters of JSON text all of them together may have; the newest event is always kept.

    Attributes:
        lost_to: the number of the last event that was given up, 0: none was. What is missing after it was only left out.

    Raises:
        ConfigurationError: a bound is too small.

    Example:
        >>> import asyncio
        >>> from fsm_engine.events import FinalAnswerEvent
        >>> async def main():
        ...     log = RunLog()
        ...     log.append(FinalAnswerEvent(0, 0.0, "42"))
        ...     log.close()
        ...     return [log.text(event) async for event in log.reader()]
        >>> asyncio.run(main())
        ['{"type":"final_answer","seq":1,"at":0.0,"content":"42"}']
    """

    def __init__(self, max_events: int = MAX_EVENTS, max_chars: int = MAX_CHARS) -> None:
        if max_events < LEAST_EVENTS or max_chars < 1:
            raise ConfigurationError(
                f"a log keeps at least {LEAST_EVENTS} events and one character, not {max_events} and {max_chars}"
            )
        self._max_events = max_events
        self._max_chars = max_chars
        self._events: list[Event] = []
        self._texts: dict[int, str] = {}
        self._chars = 0
        self._last_seq = 0
        self.lost_to = 0
        self._is_closed = False
        self._readers: weakref.WeakSet[Reader] = weakref.WeakSet()
        self._waiting: set[asyncio.Future[None]] = set()

    # -- writing -------------------------------------------------------------------------------------------------

    def append(self, event: Event) -> None:
        """Number an event, keep it, and wake whoever waits for it. What comes after the end is left out."""
        if self._is_closed:
            return
        event.seq = self._last_seq = self._last_seq + 1
        text = _text_of(event)
        self._events.append(event)
        self._texts[event.seq] = text
        self._chars += len(text)
        if len(self._events) > self._max_events or self._chars > self._max_chars:
            self._make_room()
        if self._waiting:
            self._wake()

    def close(self) -> None:
        """Nothing follows; readers get what is left and then the end."""
        self._is_closed = True
        self._wake()

    # -- reading -------------------------------------------------------------------------------------------------

    def reader(self, after: int | None = None, *, on_drop: Callable[[], object] | None = None) -> Reader:
        """Somebody who reads from now on; iterate over it.

        Args:
            after: the number of the last event that it has seen; `None` or 0: it has seen none and gets all there is.
            on_drop: called when the reader is dropped, for one that is held up outside of this log.

        Raises:
            ValueError: `after` is negative.
        """
        if after is not None and after < 0:
            raise ValueError(f"after is {after}; it is the number of an event, or 0 for none")
        reader = Reader(self, after or 0, on_drop)
        self._readers.add(reader)
        return reader

    def text(self, event: Event) -> str:
        """An event's JSON text, one line of ASCII; written once for all readers."""
        written = None if isinstance(event, GapEvent) else self._texts.get(event.seq)
        return _text_of(event) if written is None else written

    def __len__(self) -> int:
        return len(self._events)

    @property
    def chars(self) -> int:
        """The characters of the JSON text of all that is kept."""
        return self._chars

    @property
    def last_seq(self) -> int:
        """The number of the newest event; 0: there is none."""
        return self._last_seq

    @property
    def is_closed(self) -> bool:
        """Nothing follows."""
        return self._is_closed

    @property
    def reader_count(self) -> int:
        """How many readers there are that have neither ended nor been closed or dropped."""
        return len(self._readers)

    # -- room ----------------------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """Thin out what is old, then every piece; if that does not free an eighth, give up the oldest until it does."""
        recent = len(self._events) - self._max_events // 4
        old = self._events[:recent] if recent > 0 else []
        kept = [*thin_out(old), *self._events[len(old) :]]
        kept = self._without_pieces(kept)
        self._forget(self._events, kept)
        first, count, chars = 0, len(kept), self._chars
        while count > 1 and self._is_too_much(count, chars):
            chars -= len(self._texts[kept[first].seq])
            first, count = first + 1, count - 1
        if first:
            self.lost_to = kept[first - 1].seq
            self._forget(kept, kept[first:])
            for reader in tuple(self._readers):
                if reader.last_seq < self.lost_to:
                    reader.drop()
        self._events = kept[first:]

    def _without_pieces(self, events: list[Event]) -> list[Event]:
        """What is left when progress and pieces go, the oldest first, until there is room; the newest event stays."""
        count, chars = len(events), sum(len(self._texts[event.seq]) for event in events)
        kept = []
        for event in events[:-1]:
            if not event.is_lasting and self._is_too_much(count, chars):
                count, chars = count - 1, chars - len(self._texts[event.seq])
            else:
                kept.append(event)
        return [*kept, *events[-1:]]

    def _is_too_much(self, count: int, chars: int) -> bool:
        return count > self._max_events * 7 // 8 or chars > self._max_chars * 7 // 8

    def _forget(self, before: list[Event], after: list[Event]) -> None:
        for seq in {event.seq for event in before} - {event.seq for event in after}:
            self._chars -= len(self._texts.pop(seq))

    # -- what a reader asks --------------------------------------------------------------------------------------

    def unread(self, last_seq: int) -> list[Event]:
        """The next few events after a number, each gap between them marked."""
        events, missing = self._events, self._last_seq - last_seq
        # No number is missing near the end, where nearly all readers are.
        start = len(events) - missing
        if start < 0 or (missing and events[start].seq != last_seq + 1):
            start = bisect_right(events, last_seq, key=_SEQ)
        batch = events[start : start + BATCH]
        if batch and batch[-1].seq == last_seq + len(batch):
            return batch
        marked: list[Event] = []
        for event in batch:
            if event.seq > last_seq + 1:
                marked.append(gap_before(event, last_seq))
            marked.append(event)
            last_seq = event.seq
        return marked

    async def changed(self) -> None:
        """Wait until there is another event, or the end."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)

    def forget_reader(self, reader: Reader) -> None:
        """It reads no more."""
        self._readers.discard(reader)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for waiter in waiting:
            if not waiter.done():  # it was cancelled, and its task has not come to say so
                waiter.set_result(None)


class Reader:
    """One reader of a `RunLog`: iterate over it for events, or `take` what there is. Made by `RunLog.reader`.

    It ends when the log is closed and all has been read. Leaving it early costs nothing: it is only a number.

    For one task at a time.

    Attributes:
        last_seq: the number of the last event that was taken from the log.
        is_dropped: it was stuck, and is told so next.
    """

    __slots__ = ("__weakref__", "_batch", "_is_far_behind", "_log", "_on_drop", "_opening", "is_dropped", "last_seq")

    def __init__(self, log: RunLog, after: int, on_drop: Callable[[], object] | None) -> None:
        self._log = log
        self._on_drop = on_drop
        self._batch: deque[Event] = deque()
        self._opening: GapEvent | None = None
        self._is_far_behind = False
        self.is_dropped = False
        self.last_seq = max(after, log.lost_to)
        if after > log.last_seq:
            self.last_seq, self._opening = log.lost_to, GapEvent(0, 0.0, 0, "unknown_id")
        elif after < log.lost_to:
            self._opening = GapEvent(after + 1, 0.0, log.lost_to - after, "lost")

    async def take(self) -> list[Event]:
        """The next events, at least one and at most a few dozen; empty: there will be none.

        Raises:
            ReaderDroppedError: it was stuck; see the module.
        """
        if self._is_far_behind or is_turn_due():
            await asyncio.sleep(0)  # a reader that never has to wait would keep the tools from running
        while not self.is_dropped:
            batch = self._log.unread(self.last_seq)
            if batch:
                self.last_seq = batch[-1].seq
                self._is_far_behind = len(batch) >= BATCH
                return self._opened(batch)
            if self._log.is_closed:
                self.close()
                return []
            await self._log.changed()
        raise ReaderDroppedError(f"this reader was too slow; read on after {self.last_seq}")

    def _opened(self, batch: list[Event]) -> list[Event]:
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.at = batch[0].at
            batch.insert(0, opening)
        return batch

    def drop(self) -> None:
        """It is stuck; the log calls this."""
        self.is_dropped = True
        self.close()
        if self._on_drop is not None:
            asyncio.get_running_loop().call_soon(self._on_drop)

    def close(self) -> None:
        """It reads no more; `reader_count` counts it no longer."""
        self._log.forget_reader(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if not self._batch:
            self._batch.extend(await self.take())
        elif is_turn_due(len(self._batch)):
            await asyncio.sleep(0)
        if not self._batch:
            raise StopAsyncIteration
        return self._batch.popleft()


def _text_of(event: Event) -> str:
    return wire_text(event.to_dict())
