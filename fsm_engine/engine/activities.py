"""What is done in each state: one activity a state, which answers the trigger to fire next.

An activity answers at once where it can, and a coroutine where it must wait; the driver awaits that. Nothing here
moves the machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass
from math import inf
from typing import Any
from weakref import ref

from ..clock import Clock
from ..concurrency.ownership import Belongings, own
from ..errors.codes import Effect, ToolErrorCode
from ..errors.exceptions import ToolError, classify
from ..invocation.approval import OnApproval, Verdict, consult, log_decision, log_question
from ..invocation.attempt import Attempt
from ..invocation.calling import FINISHED, finish, is_unfinished
from ..invocation.invocation import ToolInvocation
from ..invocation.outcomes import (
    as_tools_own,
    broken_tool_response,
    cancelled_response,
    denied_response,
    error_response,
    shared_response,
    timeout_response,
    unanswered_response,
    without_hidden,
)
from ..invocation.stages import Stages, standardise_result
from ..invocation.substitute import FallbackPolicy, as_substitute, run_function, unanswered_fallback, without_substitute
from ..jsonable.redaction import exception_text
from ..response.error_info import ErrorInfo
from ..response.tool_response import ToolResponse, ToolStatus
from ..states.invocation import ToolState
from ..tools.registry import ToolRegistry
from ..tools.retry import usual_delay
from ..tools.spec import ToolSpec
from ..tools.spec_checks import SIGNATURE_OF_A_WRAPPER, argument_given_twice
from .admission import Admission
from .oversight import Activity, Oversight, stop
from .runtimes import ToolRuntime

_NO_TOOL = "a call without a tool is refused in VALIDATING"


@dataclass(frozen=True, slots=True)
class Workshop:
    """What the activities of one engine work with.

    Args:
        runtime_of: what the engine keeps of a tool.
        logger: a structlog logger.
        on_late: is told of a function that ended after everybody had left.
        on_abandoned: is told of a tool's coroutine that went on after it was cancelled.
        slow_step: seconds that a coroutine may keep everybody else waiting before its tool is named; `None`: any time.
        oversight: starts coroutines on the loop that the engine runs on now, and ends them.
        on_approval: is asked about calls that need approval; `None`: nobody but those who watch.
    """

    registry: ToolRegistry
    stages: Stages
    clock: Clock
    runtime_of: Callable[[ToolSpec], ToolRuntime]
    logger: Any
    on_late: Callable[[Attempt, BaseException | None], object]
    on_abandoned: Callable[[Attempt], object]
    oversight: Oversight
    slow_step: float | None
    on_approval: OnApproval | None = None


class Activities:
    """The activities of the built-in states, by the state's name in `by_state`."""

    def __init__(self, workshop: Workshop, admission: Admission) -> None:
        self._shop = workshop
        self._clock = workshop.clock
        self._spawner = workshop.oversight.spawner
        self._slow_step = inf if workshop.slow_step is None else workshop.slow_step
        self._stages = workshop.stages
        self._is_response_new = workshop.stages.standardise is standardise_result
        self.by_state: Mapping[str, Activity] = {
            ToolState.PENDING.value: self.pending,
            ToolState.VALIDATING.value: self.validating,
            ToolState.AWAITING_APPROVAL.value: self.awaiting_approval,
            ToolState.ADMITTING.value: admission.admit,
            ToolState.EXECUTING.value: self.executing,
            ToolState.RETRYING.value: self.retrying,
            ToolState.FALLING_BACK.value: self.falling_back,
        }

    # -- before the attempt --------------------------------------------------------------------------------------

    def pending(self, invocation: ToolInvocation) -> str:
        """Resolve the tool and parse the arguments; what fails is refused in `VALIDATING`."""
        stages = self._stages
        if invocation.is_refused:  # a batch found fault with the call before it began
            return "validate"
        try:
            spec = invocation.spec or stages.resolve(invocation.call, self._shop.registry)
            invocation.spec = spec
            invocation.runtime = self._shop.runtime_of(spec)
            invocation.arguments, invocation.notes = stages.parse(invocation.call, spec)
        except ToolError as error:
            invocation.refuse(error_response(error))
        else:
            if spec.deadline is not None:
                own = invocation.started_at + spec.deadline
                if invocation.deadline is None or own < invocation.deadline:  # the shortest holds
                    invocation.deadline = own
        return "validate"

    def validating(self, invocation: ToolInvocation) -> str:
        """Nothing to wait for: the gate has judged on entering."""
        return "accept"

    async def awaiting_approval(self, invocation: ToolInvocation) -> str:
        """Wait for a person; this time does not count against the deadline."""
        spec, approval = _spec_of(invocation), invocation.approval
        if approval is None or approval.taken.is_set():  # a row of the user's leads here, past the gate that asks
            invocation.ask()
        began = self._clock.monotonic()
        until = None if spec.approval_timeout is None else began + spec.approval_timeout
        asking = self._ask(invocation)
        try:
            while (decision := invocation.take_decision()) is None:
                if invocation.is_cancel_requested:
                    invocation.questions[-1].cancel(invocation.cancel_reason)
                elif until is not None and self._clock.monotonic() >= until:
                    invocation.questions[-1].expire()
                else:
                    await invocation.pause(until)
        finally:
            if asking is not None:
                asking.cancel()
        log_decision(self._shop.logger, invocation, self._clock.monotonic() - began)
        if decision.verdict is Verdict.CANCELLED:
            invocation.is_cancel_requested, invocation.cancel_reason = True, decision.reason
            return self.cancelled(invocation, Effect.NONE)
        if decision.verdict is Verdict.EXPIRED:
            invocation.response = unanswered_response(spec.name, spec.approval_timeout or 0.0)
        elif not decision.approved:
            invocation.response = denied_response(spec.name, decision.reason, decision.by)
        if invocation.deadline is not None:
            invocation.deadline += self._clock.monotonic() - began
        return "decide"

    def _ask(self, invocation: ToolInvocation) -> asyncio.Task[None] | None:
        """Say in the log that the call waits, and ask whoever the engine was given to ask."""
        ask, logger = self._shop.on_approval, self._shop.logger
        log_question(logger, invocation, is_anybody_told=ask is not None or invocation.sink is not None)
        if ask is None:
            return None
        name = f"{invocation.uid} on_approval"
        return invocation.loop.create_task(consult(ask, invocation, logger), name=name)

    # -- the attempt ---------------------------------------------------------------------------------------------

    def executing(self, invocation: ToolInvocation) -> str | Awaitable[str]:
        """Run the function once. One that answers without waiting costs no turn of the loop and no timer."""
        shop, spec = self._shop, invocation.spec
        assert spec is not None, _NO_TOOL
        if invocation.shared is not None:
            return _share(invocation, invocation.shared)
        if invocation.attempts and invocation.attempts[-1].run is not None:
            return self._watch(invocation, invocation.attempts[-1])  # of an identical call whose caller has left
        # The state was entered just now, so this is the time.
        now, timeout = invocation.moves[-1][1], spec.timeout
        limit = deadline = invocation.deadline
        if timeout is not None:
            limit = now + timeout
            if deadline is not None and deadline < limit:
                limit = deadline
        attempts = invocation.attempts
        attempt = Attempt(invocation, len(attempts) + 1, now, limit, shop, invocation.loop, now)
        attempts.append(attempt)
        try:
            coroutine = self._stages.execute(spec, invocation.bound, attempt)
        except Exception as raised:  # noqa: BLE001 # a stage or a tool may raise anything; it becomes the response
            return self._judge(invocation, attempt, None, raised)
        context = copy_context()
        own(context, ref(attempt))
        run, result, error = self._spawner.start(coroutine, context, invocation.wake)
        if run is None and result.__class__ not in FINISHED and is_unfinished(result):
            run, result, error = self._spawner.start(finish(result, attempt), context, invocation.wake)
        if run is None:
            if self._spawner.first_step >= self._slow_step:
                self._warn_of_blocking(invocation, self._spawner.first_step)
            return self._judge(invocation, attempt, result, error)
        attempt.run = run
        return self._watch(invocation, attempt)

    async def _watch(self, invocation: ToolInvocation, attempt: Attempt) -> str:
        """Wait for the attempt's outcome, its time limit or a cancellation, whichever comes first."""
        spec, run = _spec_of(invocation), attempt.run
        assert run is not None, "only a run that waits is watched"
        while not run.finished:
            if invocation.is_cancel_requested:
                if not _hand_over(invocation, attempt):
                    await self._stop(invocation, attempt)
                return self.cancelled(invocation, invocation.effect_so_far)
            until, reason = _limit(spec, attempt, invocation)
            if until is not None and self._clock.monotonic() >= until:
                if reason == "deadline" and (kept := _hand_over(invocation, attempt)):
                    return self._judge_response(invocation, kept, _timed_out(spec, kept, reason))
                await self._stop(invocation, attempt)
                return self._judge_response(invocation, attempt, _timed_out(spec, attempt, reason))
            await invocation.pause(until)
        result, error = run.take()
        if result.__class__ not in FINISHED and is_unfinished(result):
            context = copy_context()
            own(context, ref(attempt))
            run, result, error = self._spawner.start(finish(result, attempt), context, invocation.wake)
            if run is not None:
                attempt.run = run
                return await self._watch(invocation, attempt)
        if invocation.is_cancel_requested and isinstance(error, asyncio.CancelledError):
            # The loop is shutting down: it cancels the tool's task beside ours. A thread may go on, and is to know.
            attempt.give_up()
            return self.cancelled(invocation, invocation.effect_so_far)
        return self._judge(invocation, attempt, result, error)

    async def _stop(self, invocation: ToolInvocation, attempt: Attempt) -> None:
        """Cancel the attempt and give it a moment to clean up; what goes on after that is abandoned and reported."""
        run = attempt.run
        assert run is not None, "only a run that waits is stopped"
        attempt.give_up()
        await stop(invocation, run, self._clock, self._shop.oversight.cancel_grace)
        if attempt.goes_on:
            self._shop.on_abandoned(attempt)
            if not run.finished:
                run.when_ended(lambda: attempt.function_ended(run.take()[1]))

    def _judge(self, invocation: ToolInvocation, attempt: Attempt, result: Any, error: BaseException | None) -> str:
        spec = invocation.spec
        assert spec is not None, _NO_TOOL
        response = self._response_of(spec, result, error)
        if spec.hides and response.error_info is not None:
            response = without_hidden(response, invocation.arguments or {}, spec.hides)
        return self._judge_response(invocation, attempt, response, error)

    def _response_of(self, spec: ToolSpec, result: Any, error: BaseException | None = None) -> ToolResponse:
        """What a function has come to; a `KeyboardInterrupt` passes."""
        if isinstance(error, KeyboardInterrupt):
            raise error
        if error is not None:
            if twice := argument_given_twice(spec.func, error):
                fix = f"it supplies {twice!r} itself, and offers it to the model too. {SIGNATURE_OF_A_WRAPPER}"
                self._shop.logger.error("a tool's wrapper is broken", tool=spec.name, problem=fix)
                return broken_tool_response(spec.name, "a wrapper around its function", error)
            return as_tools_own(error_response(error, wall=self._clock.wall()))
        try:
            response = self._stages.standardise(result, spec)
        except Exception as raised:  # noqa: BLE001 # a stage may raise anything; it becomes the response
            return error_response(raised)
        if response.error_info is not None:
            response = as_tools_own(response)
        # The engine completes its own response in place; a stage of the user's may answer with one that it keeps.
        return response if self._is_response_new else copy(response)

    def _judge_response(
        self, invocation: ToolInvocation, attempt: Attempt, response: ToolResponse, raised: BaseException | None = None
    ) -> str:
        """Settle the attempt and say whether it succeeded; the guards of `fail` read what is decided here."""
        invocation.response = response
        info = response.error_info
        now = self._clock.monotonic()
        if attempt.run is not None and attempt.run.longest_step >= self._slow_step:
            self._warn_of_blocking(invocation, attempt.run.longest_step)
        elif attempt.deadline is not None and now > attempt.deadline and info is None:
            self._warn_of_blocking(invocation, now - attempt.started_at)
        attempt.finish(now, None if info is None else info.code)
        runtime = invocation.runtime
        assert runtime is not None, _NO_TOOL
        if runtime.is_limited:
            runtime.took(now - attempt.started_at)
        # The one place where this is decided: what counts against the circuit is what a fallback is for.
        is_failure = info is not None and runtime.spec.counts_as_failure(info)
        if invocation.permit is not None:
            _settle(invocation, info, now - attempt.started_at, is_failure=is_failure)
        if info is None:
            if runtime.last_good is not None and response.status is ToolStatus.SUCCESS:
                runtime.remember(invocation.arguments or {}, response)
            return "succeed"
        spec = runtime.spec
        if info.effect is None:
            invocation.response = response.with_effect(invocation.effect_so_far)
        invocation.is_retry_allowed = self._is_retry_allowed(invocation, attempt, now, raised)
        policy = spec.fallback_policy
        is_wanted = policy is not None and policy.on_failure and not invocation.is_given_up
        invocation.has_fallback_for_failure = is_wanted and is_failure
        if invocation.has_fallback_for_failure:
            invocation.fallback_reason = info.reason or info.code.lower()
        return "fail"

    def _warn_of_blocking(self, invocation: ToolInvocation, seconds: float) -> None:
        """A coroutine that works or sleeps without awaiting cannot be stopped, and holds up everybody else."""
        self._shop.logger.warning(
            "tool held up the event loop; make it a plain function, or let it await",
            tool=invocation.tool_name,
            uid=invocation.uid,
            seconds=round(seconds, 3),
        )

    def _is_retry_allowed(
        self, invocation: ToolInvocation, attempt: Attempt, now: float, raised: BaseException | None
    ) -> bool:
        spec, info = _spec_of(invocation), invocation.error
        policy = spec.retry_policy
        if info is None or not info.transient or attempt.number > policy.max_retries or attempt.goes_on:
            return False
        if invocation.is_given_up:  # `cancel` came after the outcome and answered that it stands
            return False
        breaker = _runtime_of(invocation).breaker
        if breaker is not None and breaker.is_open:
            return False
        is_safe = spec.is_repeatable or (info.effect == Effect.NONE and not attempt.has_spoken)
        if not is_safe:
            return False
        if info.retry_after is None:
            delay = self._wait_after(invocation, attempt, now, raised)
        elif info.retry_after <= policy.max_retry_after:
            delay = info.retry_after
        else:
            return False
        invocation.next_delay = delay
        return invocation.deadline is None or now + delay < invocation.deadline

    def _wait_after(
        self, invocation: ToolInvocation, attempt: Attempt, now: float, raised: BaseException | None
    ) -> float:
        """Seconds until the next attempt. A strategy is its author's own, and one that is broken changes no outcome."""
        spec, first = _spec_of(invocation), invocation.attempts[0]
        outcome = invocation.response if raised is None else raised
        if attempt.code == ToolErrorCode.TIMEOUT and raised is None:
            outcome = TimeoutError(f"{spec.name} did not answer in time")
        try:
            return spec.retry_policy.delay(
                attempt.number,
                outcome,
                seconds_since_start=now - first.started_at,
                idle_for=sum(each.delay or 0.0 for each in invocation.attempts),
            )
        except KeyboardInterrupt:
            raise
        except BaseException as broken:  # noqa: BLE001 # whatever it is, the tool's own error stands
            self._shop.logger.error(
                "retry.wait is broken, and the usual wait takes its place",
                tool=spec.name,
                uid=invocation.uid,
                problem=exception_text(broken) or type(broken).__name__,
                detail=classify(broken).detail,
            )
            return usual_delay(attempt.number)

    # -- after the attempt ---------------------------------------------------------------------------------------

    async def retrying(self, invocation: ToolInvocation) -> str:
        """Wait before the next attempt."""
        attempt = invocation.attempts[-1]
        attempt.delay = invocation.next_delay
        until = self._clock.monotonic() + invocation.next_delay
        while self._clock.monotonic() < until:
            if invocation.is_cancel_requested:
                return self.cancelled(invocation, invocation.effect_so_far)
            await invocation.pause(until)
        # The attempt before may have changed the objects that it was given.
        invocation.bound = self._stages.bind(_spec_of(invocation), invocation.arguments or {})
        return "retry"

    async def falling_back(self, invocation: ToolInvocation) -> str:
        """Fetch the substitute; if there is none, the first error stands, and says what became of the substitute."""
        spec, runtime = _spec_of(invocation), _runtime_of(invocation)
        policy, first = spec.fallback_policy, invocation.response
        assert policy is not None, "the guards have seen that there is one"
        assert first is not None, "an error leads here"
        assert first.error_info is not None, "an error leads here"
        age: float | None = None
        found: ToolResponse | None
        if policy.kind == "value":
            found = self._response_of(spec, policy.value)
        elif runtime.last_good is not None:
            found, age = runtime.recall(invocation.arguments or {})
        else:
            found = await self._run_fallback(invocation, policy)
            if found is None:
                return self.cancelled(invocation, invocation.effect_so_far)
        info = found.error_info
        if info is None:
            invocation.response = as_substitute(found, invocation.fallback_reason, age, first.error_info)
            return "succeed"
        invocation.response = without_substitute(first, invocation.fallback_reason, info)
        self._shop.logger.warning(
            "fallback failed",
            tool=spec.name,
            uid=invocation.uid,
            code=info.code,
            reason=info.reason,
            detail=info.detail,
        )
        return "fail"

    async def _run_fallback(self, invocation: ToolInvocation, policy: FallbackPolicy) -> ToolResponse | None:
        """What the function gave; `None`: it was cut short by a cancellation."""
        spec, runtime = _spec_of(invocation), _runtime_of(invocation)
        assert policy.function is not None, "this kind has one"
        until = self._clock.monotonic() + policy.timeout
        if invocation.deadline is not None:
            until = min(until, invocation.deadline)
        if self._clock.monotonic() >= until:
            return unanswered_fallback(spec.name)  # one that cannot answer in time is not begun
        try:
            bound = self._stages.bind(spec, invocation.arguments or {})
        except Exception as raised:  # noqa: BLE001 # a stage may raise anything; the first error stands
            return error_response(raised)
        coroutine = finish(run_function(policy.function, bound, runtime.fallback_slots))
        context, begun = copy_context(), Belongings()
        own(context, lambda: begun)
        try:
            run, result, error = self._spawner.start(coroutine, context, invocation.wake)
            if run is not None:
                while not run.finished:
                    if invocation.is_cancel_requested or self._clock.monotonic() >= until:
                        await self._shop.oversight.end(invocation, run, "its fallback")
                        return None if invocation.is_cancel_requested else unanswered_fallback(spec.name)
                    await invocation.pause(until)
                result, error = run.take()
        finally:
            begun.end()
        return self._response_of(spec, result, error)

    def cancelled(self, invocation: ToolInvocation, effect: Effect) -> str:
        """Answer for an invocation that nobody wants any more."""
        if invocation.questions:  # nobody is to agree to it from now on
            invocation.questions[-1].cancel(invocation.cancel_reason)
            invocation.questions[-1].taken.set()
        attempt = invocation.attempt
        if attempt is not None and attempt.ended_at is None:
            if attempt.run is not None and not attempt.is_unwanted:  # inherited, and not even watched yet
                attempt.give_up()
                attempt.run.cancel()
            attempt.finish(self._clock.monotonic(), ToolErrorCode.CANCELLED.value)
        invocation.response = cancelled_response(invocation.tool_name, invocation.cancel_reason, effect=effect)
        return "cancel"


def _hand_over(invocation: ToolInvocation, attempt: Attempt) -> Attempt | None:
    """Leave the attempt to an identical call that waits for it: the one who leaves ends alone.

    Answers what the invocation keeps of the attempt; `None`: nobody waits for it.
    """
    heirs = [each for each in invocation.sharers or () if not (each.is_final or each.is_cancel_requested)]
    run, runtime = attempt.run, invocation.runtime
    if not heirs or run is None or runtime is None:
        return None
    heir, timeout = heirs[0], runtime.spec.timeout
    limits = [each for each in (heir.deadline, timeout and attempt.started_at + timeout) if each is not None]
    kept = attempt.hand_over(heir, min(limits, default=None))
    invocation.attempts[-1] = kept
    heir.slots, invocation.slots = invocation.slots, ()
    heir.permit, invocation.permit = invocation.permit, None
    run.when_ended(heir.wake)
    heir.sharers, invocation.heir = {}, heir
    runtime.inherit(invocation, heir)
    for each in invocation.sharers or ():
        each.wake()
    return kept


def _share(invocation: ToolInvocation, first: ToolInvocation) -> str:
    """Answer with the result of the identical call that this one has waited for."""
    assert first.response is not None, "it has ended"
    invocation.response = shared_response(first.response)
    invocation.notes = (*invocation.notes, f"shared: {first.uid}")
    return "succeed" if invocation.error is None else "fail"


def _spec_of(invocation: ToolInvocation) -> ToolSpec:
    spec = invocation.spec
    assert spec is not None, _NO_TOOL
    return spec


def _runtime_of(invocation: ToolInvocation) -> ToolRuntime:
    runtime = invocation.runtime
    assert runtime is not None, _NO_TOOL
    return runtime


def _settle(invocation: ToolInvocation, info: ErrorInfo | None, seconds: float, *, is_failure: bool) -> None:
    """Tell the circuit what came of its permit; an error that says nothing of the tool's health gives it back."""
    permit, invocation.permit = invocation.permit, None
    assert permit is not None, "the caller has looked"
    if info is None:
        permit.success(seconds)
    elif is_failure:
        permit.failure(info.code, seconds)
    else:
        permit.release()


def _limit(spec: ToolSpec, attempt: Attempt, invocation: ToolInvocation) -> tuple[float | None, str]:
    """When the attempt's time is up, and by which of its limits."""
    until, reason = attempt.deadline, "timeout"
    if until is not None and until == invocation.deadline:
        reason = "deadline"
    if spec.idle_timeout is not None and (until is None or attempt.last_sign + spec.idle_timeout < until):
        return attempt.last_sign + spec.idle_timeout, "idle"
    return until, reason


def _timed_out(spec: ToolSpec, attempt: Attempt, reason: str) -> ToolResponse:
    effect = Effect.NONE if spec.read_only else Effect.UNKNOWN
    took = {
        "timeout": f"did not answer within {spec.timeout:g} s"
        if spec.timeout is not None
        else "did not answer in time",
        "idle": f"gave no sign of life for {spec.idle_timeout:g} s" if spec.idle_timeout is not None else "was silent",
        "deadline": "did not answer before the call's deadline",
    }[reason]
    return timeout_response(spec.name, f"{took}.", reason=reason, effect=effect)
