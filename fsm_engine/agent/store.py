"""Runs that outlive the request that began them: found again by an id that cannot be guessed, by their owner."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..clock import Clock
from ..engine.call_group import RunEnd
from ..engine.engine import ToolEngine
from ..errors.exceptions import EngineClosedError, FsmEngineError
from ..events.log import RunLog
from ..invocation.invocation import ToolInvocation
from ..settings.table import check_count, check_seconds
from .run import LiveRun, Work

MAX_RUNS = 1_000
KEEP_SECONDS = 300.0
MAX_CHARS = 200_000_000


class TooManyRunsError(FsmEngineError):
    """As many runs as there may be are under way; begin again when one has ended."""


@dataclass(frozen=True, slots=True, eq=False)
class StoredRun:
    """A run and what is needed to find it and to know whose it is.

    Attributes:
        id: 192 random bits; whoever knows it has been told.
        run: the run itself.
        owner: who began it, in the words of whoever authorises; `None`: nobody in particular.
    """

    run: LiveRun
    owner: str | None = None
    id: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def log(self) -> RunLog:
        """All events, the last of them `run_ended`."""
        return self.run.log

    @property
    def is_over(self) -> bool:
        """It has ended; nothing changes any more."""
        return self.run.is_over

    def invocation(self, uid: str) -> ToolInvocation:
        """The call that an event speaks of, to approve, deny or cancel it.

        Raises:
            KeyError: no call of this run has that uid.
        """
        return self.run.invocation(uid)

    def cancel(self, reason: str = RunEnd.CANCELLED, message: str | None = None) -> bool:
        """Stop it; `False`: it has ended, or was asked to before."""
        return self.run.cancel(reason, message)


class RunStore:
    """The runs of one engine: those under way, and for a time those that have ended.

    What is too old is forgotten whenever the store is asked for anything; there is no timer.

    Args:
        engine: runs the calls.
        clock: tells how long ago a run ended; the engine's own if it is not given.
        max_runs: how many there may be at a time. A new run takes the place of the one that ended first.
        keep_seconds: how long a run that has ended can still be read.
        max_chars: how many characters the logs of all runs together may have (`RunLog.chars`) before runs that have
            ended are forgotten early, the first to end first.

    Raises:
        ConfigurationError: a setting is out of range.

    Example:
        >>> import asyncio
        >>> def add(a: int, b: int) -> int:
        ...     return a + b
        >>> async def main():
        ...     engine = ToolEngine([add])
        ...     store = RunStore(engine)
        ...     begun = store.start(LiveRun.of_calls(engine, [{"name": "add", "arguments": {"a": 2, "b": 3}}]), owner="ann")
        ...     events = [event async for event in store.find(begun.id, "ann").log.reader(after=0)]
        ...     return events[-1].type, store.find(begun.id, "bob")
        >>> asyncio.run(main())
        ('run_ended', None)
    """

    def __init__(
        self,
        engine: ToolEngine,
        clock: Clock | None = None,
        max_runs: int = MAX_RUNS,
        keep_seconds: float = KEEP_SECONDS,
        max_chars: int = MAX_CHARS,
    ) -> None:
        check_count("max_runs", max_runs, none=None)
        check_count("max_chars", max_chars, none=None)
        check_seconds("keep_seconds", keep_seconds, zero_allowed=True, none=None)
        self._engine = engine
        self._clock = clock or engine.clock
        self._max_runs = max_runs
        self._keep_seconds = keep_seconds
        self._max_chars = max_chars
        self._runs: dict[str, StoredRun] = {}
        self._ended: dict[str, float] = {}
        self._is_closed = False

    def start(self, work: LiveRun | Work, owner: str | None = None) -> StoredRun:
        """Begin a run and keep it.

        Args:
            work: a run that has not begun (`agent.run(messages)`, `LiveRun.of_calls(engine, calls)`), or a coroutine
                function that is given one.
            owner: who may find it again.

        Raises:
            TooManyRunsError: none of the runs has ended.
            EngineClosedError: the store has been closed.
        """
        if self._is_closed:
            raise EngineClosedError("this store of runs has been closed; make another one")
        self._forget_old()
        if len(self._runs) >= self._max_runs:
            if not self._ended:
                raise TooManyRunsError(
                    f"{len(self._runs)} runs are under way, and there may be no more; try again later"
                )
            self._forget(next(iter(self._ended)))
        stored = StoredRun(work if isinstance(work, LiveRun) else LiveRun(self._engine, work), owner)
        self._runs[stored.id] = stored
        stored.run.when_over(lambda: self._has_ended(stored))
        stored.run.begin(is_detached=True)  # begun by a tool it is to outlive the tool
        return stored

    def find(self, run_id: str, owner: str | None = None) -> StoredRun | None:
        """The run of that id and owner; `None`: there is none (any more), or it is somebody else's."""
        stored = self.get(run_id)
        return stored if stored is not None and stored.owner == owner else None

    def get(self, run_id: str) -> StoredRun | None:
        """The run of that id, whoever owns it: for those who authorise by rules of their own."""
        self._forget_old()
        return self._runs.get(run_id)

    def __iter__(self) -> Iterator[StoredRun]:
        self._forget_old()
        return iter(tuple(self._runs.values()))

    def __len__(self) -> int:
        self._forget_old()
        return len(self._runs)

    async def aclose(self) -> None:
        """Begin no more runs; cancel those under way and wait until they have ended."""
        self._is_closed = True
        under_way = [stored for stored in self._runs.values() if not stored.is_over]
        for stored in under_way:
            stored.cancel(message="the server is closing")
        await asyncio.gather(*(stored.run.wait() for stored in under_way))

    def _has_ended(self, stored: StoredRun) -> None:
        self._ended[stored.id] = self._clock.monotonic()
        chars = sum(each.log.chars for each in self._runs.values())
        while self._ended and chars > self._max_chars:
            chars -= self._forget(next(iter(self._ended))).log.chars

    def _forget_old(self) -> None:
        oldest = self._clock.monotonic() - self._keep_seconds
        while self._ended and next(iter(self._ended.values())) <= oldest:
            self._forget(next(iter(self._ended)))

    def _forget(self, run_id: str) -> StoredRun:
        del self._ended[run_id]
        return self._runs.pop(run_id)
