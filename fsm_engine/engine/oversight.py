"""What runs beside the driver and may not want to end: it is cancelled, given a moment, and then left to itself.

A tool's coroutine, a fallback and an activity of the user's are ended by the same function, and what goes on after that
is reported in the same way.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any, Final

from ..clock import Clock
from ..concurrency.eager import EagerRun, Spawner
from ..errors.exceptions import ConfigurationError, ToolError
from ..invocation.invocation import ToolInvocation
from ..invocation.outcomes import cancelled_response, error_response, out_of_time

Activity = Callable[[ToolInvocation], str | Awaitable[str]]
"""What is done in a state: is given the invocation on entering it; answers the next trigger, at once or when awaited."""

_TURNS_TO_CLEAN_UP: Final = 8
"""Turns of the loop that a cancelled coroutine has in any case: cleaning up without waiting takes no time, but turns."""


async def stop(invocation: ToolInvocation, run: EagerRun, clock: Clock, grace: float) -> None:
    """Cancel a run and give it a moment to clean up; `run.finished` says whether it has.

    Args:
        grace: seconds from now; the call's deadline ends them earlier.
    """
    # A loop that shuts down has cancelled the task beside ours; a second time would hit it while it cleans up.
    if invocation.interruption is None or run.finished or not run.task.cancelling():
        run.cancel()
    ends = clock.monotonic() + grace
    if invocation.deadline is not None:
        ends = min(ends, invocation.deadline)
    while not run.finished and clock.monotonic() < ends:
        await invocation.pause(ends)
    turns = 0
    while not run.finished and turns < _TURNS_TO_CLEAN_UP:
        turns += 1
        await invocation.give_way()
    if turns and run.finished:
        await invocation.give_way()  # what it has called back with `call_soon` is heard first, as after a `pause`


@dataclass(frozen=True, slots=True)
class Oversight:
    """Watches cancellation and deadline while an activity of the user's waits, in whatever way it does that.

    Args:
        spawner: starts coroutines on the loop that the engine runs on now.
        cancel_grace: seconds that a cancelled coroutine may take to clean up.
        on_left: is told of a part of a call that goes on after it was cancelled.
    """

    clock: Clock
    spawner: Spawner
    cancel_grace: float
    on_left: Callable[[ToolInvocation, EagerRun, str], object]

    def over(self, activity: Activity) -> Activity:
        """The activity, watched. What it raises as a `ToolError` is its no, and ends the call with that error."""

        def act(invocation: ToolInvocation) -> str | Awaitable[str]:
            try:
                answer = activity(invocation)
            except ToolError as error:
                return _refused(invocation, error)
            return self._watch(invocation, _as_coroutine(answer)) if inspect.isawaitable(answer) else _trigger(answer)

        return act

    async def _watch(self, invocation: ToolInvocation, coroutine: Coroutine[Any, Any, Any]) -> str:
        context = copy_context()
        run, answer, error = self.spawner.start(coroutine, context, invocation.wake)
        if run is not None:
            invocation.own_task = run.task
            if trigger := await self._wait(invocation, run):
                return trigger
            answer, error = run.take()
        _adopt(context)
        if isinstance(error, ToolError):
            return _refused(invocation, error)
        if error is not None:
            raise error
        return _trigger(answer)

    async def _wait(self, invocation: ToolInvocation, run: EagerRun) -> str | None:
        """`None`: the activity has ended. Else the trigger for what came first."""
        while True:
            if invocation.is_cancel_requested:  # even if it has answered: the one who asked was told that it ends so
                await self.end(invocation, run, f"what is done in {invocation.state}")
                return _cancelled(invocation)
            if run.finished:
                return None
            deadline = invocation.deadline
            if deadline is not None and self.clock.monotonic() >= deadline:
                await self.end(invocation, run, f"what is done in {invocation.state}")
                out_of_time(invocation)
                return "abort"
            await invocation.pause(deadline)

    async def end(self, invocation: ToolInvocation, run: EagerRun, part: str) -> None:
        """Stop a part of a call that nobody wants any more; one that goes on is reported, and its outcome dropped."""
        await stop(invocation, run, self.clock, self.cancel_grace)
        if not run.finished:
            self.on_left(invocation, run, part)


def _trigger(answer: object) -> str:
    if not isinstance(answer, str):
        raise ConfigurationError(
            f"an activity answers the next trigger, a text, or raises ToolError; this one answered {type(answer).__name__}"
        )
    return answer


def _refused(invocation: ToolInvocation, error: ToolError) -> str:
    """The activity says no; its error is the answer."""
    effect = invocation.effect_so_far
    response = error_response(error)
    info = response.error_info
    invocation.response = response if info is None or info.effect is not None else response.with_effect(effect)
    return "abort"


def _cancelled(invocation: ToolInvocation) -> str:
    why, effect = invocation.cancel_reason, invocation.effect_so_far
    invocation.response = cancelled_response(invocation.tool_name, why, effect=effect)
    return "cancel"


async def _as_coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _adopt(context: Context) -> None:
    """What the activity has set for the states after it; it ran in a task, and so in a context, of its own."""
    for variable, value in context.items():
        if variable.get(_UNSET) is not value:
            variable.set(value)


_UNSET: Final = object()
