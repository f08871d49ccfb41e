"""The way into an attempt: slots, a rate token, and last of all the circuit's permit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from functools import partial

from ..clock import Clock
from ..concurrency.slots import Slots
from ..errors.codes import Effect, ToolErrorCode
from ..invocation.invocation import ToolInvocation
from ..invocation.outcomes import cancelled_response, refuse_for_circuit, refuse_for_queue, timeout_response
from ..states.invocation import ToolState
from ..tools.rate import RateTokens
from ..tools.spec import ToolSpec
from .runtimes import ToolRuntime


class Admission:
    """The activity of `ADMITTING`.

    What is the tool's own is taken before what all tools share, so that whoever waits for a busy tool keeps no place
    that another tool could use. The permit is taken synchronously and last, so that nothing comes between it and the
    attempt. All of it is the invocation's lease.

    Args:
        on_threads_short: is told when a call of a tool must wait for a thread.
    """

    def __init__(self, clock: Clock, on_threads_short: Callable[[ToolSpec], object]) -> None:
        self._clock = clock
        self._on_threads_short = on_threads_short

    def admit(self, invocation: ToolInvocation) -> str | Awaitable[str]:
        """Answer `admit` when an attempt may begin, or when it is clear that none may."""
        if invocation.is_refused:
            return "admit"
        if invocation.deadline is not None and self._is_late(invocation):
            return self._too_late(invocation)
        runtime = invocation.runtime
        assert runtime is not None, "a call without a tool is refused in VALIDATING"
        if runtime.is_limited:
            if not runtime.try_acquire():
                return self._acquire(invocation, runtime)
            invocation.slots = runtime.slots
        return "admit" if runtime.breaker is None else self._take_permit(invocation, runtime)

    async def _acquire(self, invocation: ToolInvocation, runtime: ToolRuntime) -> str:
        if runtime.flights is not None and (trigger := await self._join(invocation, runtime, runtime.flights)):
            return trigger
        began = self._clock.monotonic()
        try:
            if runtime.rate is None:
                trigger = await self._take_all(invocation, runtime, runtime.slots)
            else:
                trigger = await self._take_slots_and_token(invocation, runtime, runtime.rate)
        finally:
            invocation.queue_seconds += self._clock.monotonic() - began
        # What was waited for may have come together with a reason to leave.
        trigger = trigger or self._reason_to_leave(invocation, runtime)
        return trigger or self._take_permit(invocation, runtime)

    async def _join(
        self, invocation: ToolInvocation, runtime: ToolRuntime, flights: dict[Hashable, ToolInvocation]
    ) -> str | None:
        """Wait for an identical call that was under way when this one was made; `None`: there is none, this one runs."""
        key = runtime.flight_key(invocation)
        if key is None:
            return None
        while (
            (first := flights.get(key)) is not None and first is not invocation and not first.ended_before(invocation)
        ):
            trigger = await self._wait_for(first, invocation, runtime)
            if trigger is not None:
                return trigger
            if first.heir is not None:
                continue  # it has left, and another goes on in its place
            if first.attempts and not _was_given_up(first):
                invocation.shared = first
                return "admit"
            runtime.land(key, first)  # it has done nothing, so one of those that waited for it must
        flights[key] = invocation
        invocation.sharers = {}
        invocation.ended.add_done_callback(partial(runtime.land, key, invocation))
        return None

    async def _wait_for(self, first: ToolInvocation, invocation: ToolInvocation, runtime: ToolRuntime) -> str | None:
        """Wait until the first has ended, or has left its run to this one; else the trigger of what comes earlier."""
        first.ended.add_done_callback(lambda _: invocation.wake())
        sharers = first.sharers
        assert sharers is not None, "it was the first of its kind"
        sharers[invocation] = None
        try:
            while not first.is_final:
                if first.heir is invocation:
                    return "admit"
                if trigger := self._reason_to_leave(invocation, runtime):
                    return trigger
                if first.heir is not None:
                    return None
                await self._pause(invocation, runtime, invocation.deadline)
        finally:
            sharers.pop(invocation, None)
        return "admit" if first.heir is invocation else None

    async def _take_all(
        self, invocation: ToolInvocation, runtime: ToolRuntime, wanted: tuple[Slots, ...]
    ) -> str | None:
        """`None`: the slots are held. Else the trigger for what came first."""
        for slots in wanted:
            if not slots.try_acquire():
                if slots is runtime.threads:
                    self._on_threads_short(runtime.spec)
                if trigger := await self._wait(invocation, runtime, slots):
                    return trigger
            invocation.slots = (*invocation.slots, slots)
        return None

    async def _wait(self, invocation: ToolInvocation, runtime: ToolRuntime, slots: Slots) -> str | None:
        if runtime.is_queue_full:
            refuse_for_queue(invocation, runtime.seconds_until_free, reason="queue_full")
            return "admit"
        request = slots.request(invocation.wake_from_any_thread, runtime)
        is_kept = False
        try:
            while not request.granted:
                if trigger := self._reason_to_leave(invocation, runtime):
                    return trigger
                await self._pause(invocation, runtime, invocation.deadline)
            is_kept = True
        finally:
            if not is_kept:
                slots.withdraw(request)
        return None

    async def _take_slots_and_token(
        self, invocation: ToolInvocation, runtime: ToolRuntime, rate: RateTokens
    ) -> str | None:
        """Wait in line, unless the token for this place in the line is known to come too late."""
        seconds = rate.seconds_until_free(runtime.want_token)
        deadline = invocation.deadline
        if seconds and deadline is not None and self._clock.monotonic() + seconds >= deadline:
            refuse_for_queue(invocation, seconds, reason="rate_limited")
            return "admit"
        runtime.want_token += 1
        try:
            trigger = await self._take_all(invocation, runtime, runtime.own)
            return trigger or await self._take_token(invocation, runtime, rate)
        finally:
            runtime.want_token -= 1

    async def _take_token(self, invocation: ToolInvocation, runtime: ToolRuntime, rate: RateTokens) -> str | None:
        """Take a token and what all tools share.

        The turnstile is held until both are there: a token that is taken while the call still waits for a slot would
        be of another time than the attempt, and no shared slot may be kept from others while a token is waited for.
        """
        turnstile = runtime.turnstile
        if not turnstile.try_acquire() and (trigger := await self._wait(invocation, runtime, turnstile)):
            return trigger
        try:
            while seconds := rate.seconds_until_free():
                until = self._clock.monotonic() + seconds
                if invocation.deadline is not None and until >= invocation.deadline:
                    refuse_for_queue(invocation, seconds, reason="rate_limited")
                    return "admit"
                if trigger := self._reason_to_leave(invocation, runtime):
                    return trigger
                await self._pause(invocation, runtime, until)
            trigger = await self._take_all(invocation, runtime, runtime.shared)
            is_taken = trigger is not None or rate.try_take()
            assert is_taken, "only the holder of the turnstile takes tokens"
            return trigger
        finally:
            turnstile.release()

    async def _pause(self, invocation: ToolInvocation, runtime: ToolRuntime, until: float | None) -> None:
        """Wait where a circuit that changes finds the call and wakes it."""
        runtime.waiting[invocation] = None
        try:
            await invocation.pause(until)
        finally:
            runtime.waiting.pop(invocation, None)

    def _reason_to_leave(self, invocation: ToolInvocation, runtime: ToolRuntime) -> str | None:
        """Why an attempt makes no sense any more, as the trigger that says so."""
        if invocation.is_cancel_requested:
            effect = invocation.effect_so_far
            invocation.response = cancelled_response(invocation.tool_name, invocation.cancel_reason, effect=effect)
            return "cancel"
        if self._is_late(invocation):
            return self._too_late(invocation)
        if runtime.breaker is not None and runtime.breaker.is_open:
            runtime.breaker.count_refusal()
            refuse_for_circuit(invocation)
            return "admit"
        return None

    def _is_late(self, invocation: ToolInvocation) -> bool:
        return invocation.deadline is not None and self._clock.monotonic() >= invocation.deadline

    def _too_late(self, invocation: ToolInvocation) -> str:
        invocation.refuse_admission(
            timeout_response(
                invocation.tool_name,
                "was not run: its deadline passed while it waited for its turn. Try again later.",
                reason="deadline_in_queue",
                effect=Effect.NONE,
            ),
            None,
        )
        return "admit"

    def _take_permit(self, invocation: ToolInvocation, runtime: ToolRuntime) -> str:
        breaker = runtime.breaker
        if breaker is not None:
            invocation.permit = breaker.try_acquire()
            if invocation.permit is None:
                refuse_for_circuit(invocation)
        return "admit"


def _was_given_up(first: ToolInvocation) -> bool:
    """Its own caller gave it up, at a moment when none of its attempts ran: that is no answer for anybody else."""
    attempt = first.attempt
    was_running = attempt is not None and attempt.code == ToolErrorCode.CANCELLED
    return first.state == ToolState.CANCELLED and not (was_running and first.effect_so_far != Effect.NONE)
