"""The loop that drives an invocation to its end; the only place that moves the machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from ..errors.exceptions import classify
from ..invocation.invocation import ToolInvocation
from ..invocation.outcomes import broken_tool_response, out_of_time
from ..machine.lifecycle import Hook
from ..machine.machine import LifecycleMachine
from .activities import Activities
from .oversight import Activity

_MOVES_IN_A_TURN: Final = 64
"""Moves that an invocation makes before the event loop gets a turn, if nothing on its way waits."""


class Driver:
    """Fires what the activities answer, until the invocation is final.

    Args:
        record: the hook of every transition; asked here for the one end whose own hooks were interrupted.
        stopped_by_gates: states whose gates may refuse although no row of theirs asks whether one did.

    Attributes:
        running: the invocations that have not ended, by uid, the oldest first.
        endings: how many have ended that somebody waited for.
    """

    def __init__(
        self,
        machine: LifecycleMachine,
        activities: Activities,
        by_state: Mapping[str, Activity],
        record: Hook,
        stopped_by_gates: frozenset[str],
        logger: Any,
    ) -> None:
        self._fire = machine.fire
        self._lifecycle = machine.lifecycle
        self._record = record
        self._final_states = machine.lifecycle.final_states
        self._activities = activities
        self._by_state = by_state
        self._stopped_by_gates = stopped_by_gates
        self._logger = logger
        self._tasks: set[asyncio.Task[None]] = set()
        self.running: dict[str, ToolInvocation] = {}
        self.endings = 0

    async def drive(self, invocation: ToolInvocation) -> None:
        """Take one invocation from its initial to a final state.

        Raises:
            asyncio.CancelledError: the task was cancelled; the invocation has ended all the same.
        """
        fire, by_state = self._fire, self._by_state
        moves_left = _MOVES_IN_A_TURN
        try:
            while invocation.ended_at is None:
                if invocation.is_cancel_requested:
                    trigger = self._activities.cancelled(invocation, invocation.effect_so_far)
                else:
                    answer = by_state[invocation.state](invocation)
                    trigger = answer if isinstance(answer, str) else await answer
                fire(invocation, trigger)
                if invocation.is_refused and invocation.state in self._stopped_by_gates:
                    fire(invocation, "abort")
                moves_left -= 1
                if moves_left <= 0 and invocation.permit is None:  # nothing comes between a permit and its attempt
                    moves_left = _MOVES_IN_A_TURN
                    await self._give_way(invocation)
        except BaseException as error:  # what is to pass is raised again
            if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
                # An activity of the user's was cancelled while it waited in its own way.
                invocation.interruption = error
                self._end_as_cancelled(invocation)
            else:
                self._end_as_broken(invocation, error)
                if isinstance(error, KeyboardInterrupt):
                    raise
        finally:
            self._leave(invocation)
        if invocation.interruption is not None:
            # This very exception: anyio's cancel scopes know theirs by what it says.
            raise invocation.interruption

    def spawn(self, invocation: ToolInvocation) -> asyncio.Task[None]:
        """Drive it in a task of its own."""
        task = invocation.loop.create_task(self.drive(invocation), name=invocation.uid)
        self._tasks.add(task)  # a loop keeps only a weak reference
        task.add_done_callback(partial(self._task_ended, invocation))
        return task

    async def settle(self, tasks: Iterable[asyncio.Task[None]], invocations: Iterable[ToolInvocation]) -> None:
        """Wait until all have ended; a cancellation reaches every one of them, and is raised when all are done."""
        interrupted: asyncio.CancelledError | None = None
        while pending := [task for task in tasks if not task.done()]:
            try:
                await asyncio.wait(pending)
            except asyncio.CancelledError as error:
                interrupted = error
                for invocation in invocations:
                    invocation.cancel("the batch was cancelled")
        if interrupted is not None:
            raise interrupted

    def forget_all(self) -> None:
        """Nothing runs here any more; whoever drove it is gone."""
        self.running.clear()
        self._tasks = set()

    def _task_ended(self, invocation: ToolInvocation, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a KeyboardInterrupt, which has gone through the loop already
        if invocation.ended_at is None:  # cancelled before its first step
            self._end_as_cancelled(invocation)
            self._leave(invocation)

    async def _give_way(self, invocation: ToolInvocation) -> None:
        """A lifecycle of the user's may go round without ever waiting: others get their turn, and time passes."""
        await invocation.give_way()
        deadline = invocation.deadline
        if invocation.ended_at is None and deadline is not None and invocation.clock.monotonic() >= deadline:
            out_of_time(invocation)
            self._fire(invocation, "abort")

    def _end_as_cancelled(self, invocation: ToolInvocation) -> None:
        if invocation.ended_at is None:
            self._activities.cancelled(invocation, invocation.effect_so_far)
            self._force(invocation, "cancel")

    def _end_as_broken(self, invocation: ToolInvocation, error: BaseException) -> None:
        """Something raised where nothing may: a user's activity, guard or stage, or the engine itself."""
        state = invocation.state
        self._logger.error("driver failed", uid=invocation.uid, state=state, detail=classify(error).detail)
        if invocation.ended_at is not None:
            return
        if state not in self._final_states:
            broken = broken_tool_response(invocation.tool_name, f"what is done in {state}", error)
            invocation.response = broken.with_effect(invocation.effect_so_far)
        self._force(invocation, "abort")

    def _force(self, invocation: ToolInvocation, trigger: str) -> None:
        """End it, even if a hook is interrupted (`KeyboardInterrupt`) on the way into or to the final state."""
        try:
            if invocation.state not in self._final_states:
                self._fire(invocation, trigger)
        finally:
            try:
                if invocation.ended_at is None:
                    self._end_without_hooks(invocation, trigger)
            finally:
                if invocation.ended_at is None:
                    invocation.ended_at = invocation.clock.monotonic()

    def _end_without_hooks(self, invocation: ToolInvocation, trigger: str) -> None:
        """A hook was interrupted before the end was recorded: take the last step by hand, so that everybody is told."""
        if invocation.state in self._final_states:
            rows = self._lifecycle.rows_from(invocation.path[-1] if invocation.moves else self._lifecycle.initial)
            row = next(row for row in rows if row.dest == invocation.state)
        else:
            row = self._lifecycle.rows_from(invocation.state, trigger)[0]
            invocation.state = row.dest
        self._record(SimpleNamespace(model=invocation, transition=SimpleNamespace(row=row)))

    def _leave(self, invocation: ToolInvocation) -> None:
        if invocation.slots or invocation.permit is not None:
            invocation.release()
        self.running.pop(invocation.uid, None)
        if invocation.is_awaited:
            self.endings += 1
            invocation.close(self.endings)


def _is_being_cancelled() -> bool:
    """Somebody has asked the current task to stop; a CancelledError that was merely raised says nothing."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
