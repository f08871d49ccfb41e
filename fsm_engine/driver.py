"""The loop that drives an invocation to its end; the only place that moves the machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from .activities import Activities, Activity
from .errors import classify
from .invocation import ToolInvocation
from .machine import LifecycleMachine
from .outcome import broken_tool_response


class Driver:
    """Fires what the activities answer, until the invocation is final.

    Attributes:
        running: the invocations that have not ended, by uid, the oldest first.
    """

    def __init__(
        self,
        machine: LifecycleMachine,
        activities: Activities,
        by_state: Mapping[str, Activity],
        stopped_by_gates: frozenset[str],
        logger: Any,
    ) -> None:
        self._fire = machine.fire
        self._activities = activities
        self._by_state = by_state
        self._stopped_by_gates = stopped_by_gates
        self._logger = logger
        self._tasks: set[asyncio.Task[None]] = set()
        self.running: dict[str, ToolInvocation] = {}

    async def drive(self, invocation: ToolInvocation) -> None:
        """Take one invocation from its initial to a final state.

        Raises:
            asyncio.CancelledError: the task was cancelled; the invocation has ended all the same.
        """
        fire, by_state = self._fire, self._by_state
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
        except asyncio.CancelledError:
            # An activity of the user's was cancelled while it waited in its own way.
            self._activities.cancelled(invocation, invocation.effect_so_far)
            self._end(invocation, "cancel")
            raise
        except BaseException as error:
            self._logger.error(
                "driver failed", uid=invocation.uid, state=invocation.state, detail=classify(error).detail
            )
            part = f"what is done in {invocation.state}"
            invocation.response = broken_tool_response(invocation.tool_name, part, error)
            self._end(invocation, "abort")
            if not isinstance(error, Exception):
                raise
        finally:
            invocation.release()
            self.running.pop(invocation.uid, None)
            invocation.close()
        if invocation.interruptions:
            raise asyncio.CancelledError

    def spawn(self, invocation: ToolInvocation) -> asyncio.Task[None]:
        """Drive it in a task of its own."""
        task = invocation.loop.create_task(self.drive(invocation), name=invocation.uid)
        self._tasks.add(task)  # a loop keeps only a weak reference
        task.add_done_callback(self._tasks.discard)
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

    def _end(self, invocation: ToolInvocation, trigger: str) -> None:
        if invocation.ended_at is None:
            self._fire(invocation, trigger)
