"""Calls that are made, watched and stopped together: what a stream of calls and a run share.

A stop is accepted once, from wherever it comes: a task, a thread, a signal's handler, a tool of the group's own, a time
limit, an engine that is closed. From that moment no call begins; those that are made all the same end as `CANCELLED`,
so that each has an answer, and those that run are cancelled.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors.codes import ToolErrorCode
from ..errors.exceptions import ToolError
from ..events.types import Event
from ..invocation.invocation import ToolInvocation
from ..jsonable.characters import whole_characters
from ..tools.call import duplicate_id_error
from ..tools.message_forms import read_calls

if TYPE_CHECKING:
    from .engine import ToolEngine

TURN_EVERY = 16
"""So many events that lie ready are handed out before others get a turn of the loop."""


class Ending(NamedTuple):
    """Why a run has ended: for a machine, usually a `RunEnd`, and in words for a person."""

    reason: str
    message: str | None = None


class RunEnd(StrEnum):
    """Why a run has ended, in its `run_ended` event. Whoever stops a run may give another reason."""

    DONE = "done"
    FINAL_ANSWER = "final_answer"
    CUT_OFF = "cut_off"  # the model stopped in the middle of its answer
    MAX_TURNS = "max_turns"
    MAX_SECONDS = "max_seconds"
    CANCELLED = "cancelled"
    MODEL_ERROR = "model_error"
    ERROR = "error"


class CallGroup:
    """The calls, and whether they have been stopped. `CallStream` and `LiveRun` add how it begins, ends and is read."""

    def __init__(self, engine: ToolEngine) -> None:
        self._engine = engine
        self._sink = engine.sink_of(self._tell)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._invocations: dict[str, ToolInvocation] = {}
        # The first to write here decides, in one step that neither a thread nor a signal's handler can come between.
        self._endings: dict[None, Ending] = {}

    # -- what callers ask ----------------------------------------------------------------------------------------

    def cancel(self, reason: str = RunEnd.CANCELLED, message: str | None = None) -> bool:
        """Stop: no further call begins, and those under way are cancelled. From any thread, or a signal's handler.

        Args:
            reason: a machine reads it.
            message: likewise, for a person.

        Returns:
            whether this is what stops it; `False`: it has ended, or was stopped before.
        """
        said = None if message is None else whole_characters(message)
        if not self._claim(Ending(whole_characters(str(reason)), said)):
            return False
        self._tell_stop()
        return True

    def invocation(self, uid: str) -> ToolInvocation:
        """The call that an event speaks of, to approve, deny or cancel it.

        Raises:
            KeyError: no call of this has that uid.
        """
        return self._invocations[uid]

    @property
    def invocations(self) -> tuple[ToolInvocation, ...]:
        """All calls so far, in the order in which they were started."""
        return tuple(self._invocations.values())

    def is_stopped(self) -> bool:
        """No call begins any more, and nothing else is to be begun.

        Whoever does something in several steps looks here before each of them.
        """
        if not self._endings and self._engine.is_closed:
            self.cancel(message="the engine has been closed")
        return bool(self._endings)

    # -- what derives from this does --------------------------------------------------------------------------------

    def start_call(
        self, call: Any, *, deadline: float | None = None, refuse: ToolError | None = None, uid: str | None = None
    ) -> ToolInvocation:
        """Start a call whose events are told to whoever reads; see `ToolEngine.start`. After a stop it is not run."""
        if self.is_stopped():
            refuse = ToolError(ToolErrorCode.CANCELLED, _why_cancelled(self._endings[None]))
        invocation = self._engine.start_into(self._sink, call, deadline=deadline, refuse=refuse, uid=uid)
        self._invocations[invocation.uid] = invocation
        return invocation

    def start_calls(self, calls: Iterable[Any], *, deadline: float | None = None) -> None:
        """Start the calls of one message; those that share an id are refused."""
        read = read_calls(calls)
        ids = Counter(call.id for call in read if call.id)
        for call in read:
            is_shared = call.id is not None and ids[call.id] > 1
            self.start_call(call, deadline=deadline, refuse=duplicate_id_error() if is_shared else None)

    def _tell(self, event: Event) -> None:
        """Number an event and keep it for whoever reads."""
        raise NotImplementedError

    def _stop_heard(self) -> None:
        """It has been stopped, and its calls are being cancelled; called in its loop."""

    def _claim(self, ending: Ending) -> bool:
        """This is how it ends, unless that was decided before."""
        return self._endings.setdefault(None, ending) is ending

    def _tell_stop(self) -> None:
        loop = self._loop
        if loop is None:  # it has not begun; it looks when it does
            return
        if loop is asyncio._get_running_loop():
            self._hear_stop()
        # From a thread. Also from a signal's handler, which may have come upon a loop that sleeps.
        with suppress(RuntimeError):  # the loop was closed under it, which has cancelled everything
            loop.call_soon_threadsafe(self._hear_stop)

    def _hear_stop(self) -> None:
        why = _why_cancelled(self._endings[None])
        for invocation in self._invocations.values():
            invocation.cancel(why)
        self._stop_heard()

    async def _calls_ended(self) -> asyncio.CancelledError | None:
        """Wait for the calls. A cancellation stops them all, and is answered when they have ended."""
        interrupted: asyncio.CancelledError | None = None
        while pending := [each.ended for each in self._invocations.values() if not each.is_final]:
            interrupted = await self._wait(pending) or interrupted
        return interrupted

    async def _wait(self, pending: Iterable[asyncio.Future[Any]]) -> asyncio.CancelledError | None:
        """Wait until one of them is done; a cancellation is a stop, and is answered."""
        try:
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as error:
            self.cancel(message="whoever waited for it was cancelled")
            return error
        return None


def is_turn_due(handed_out: int = 1) -> bool:
    """Before an event that lies ready is handed out: give the loop a turn first.

    A reader that was cancelled hears of it then and gets no more; and now and then others get their turn.
    """
    task = asyncio.current_task()
    return handed_out % TURN_EVERY == 0 or (task is not None and task.cancelling() > 0)


def _why_cancelled(ending: Ending) -> str:
    return f"the run has ended: {ending.reason}" if ending.message is None else ending.message
