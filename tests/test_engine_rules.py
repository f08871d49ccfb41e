"""Rules that hold whatever tools, callers, approvers and time do: random scripts, real machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tenacity import wait_fixed

from fsm_engine import (
    RetryPolicy,
    Stages,
    ToolCall,
    ToolContext,
    ToolEngine,
    ToolError,
    ToolInvocation,
    ToolResponse,
    ToolSpec,
    VirtualClock,
    gate,
)
from fsm_engine.fallback import FallbackPolicy

from .support import Watch, assert_ended, assert_told_in_full, idle, logged

Outcome = Any
OUTCOMES: dict[str, Any] = {
    "value": {"n": 1},
    "text": "done",
    "nothing": None,
    "partial": ToolResponse.partial("half", reason="truncated"),
    "error": ToolResponse.error("CONFLICT", "no"),
    "transient": ConnectionError("gone"),
    "safe": ToolError("NETWORK_ERROR", "refused", effect="none"),  # type: ignore[arg-type]  # its text is as good
    "later": ToolError("RATE_LIMIT", "slow down", retry_after=2.0),
    "bug": KeyError("bug"),
    "cancelled": asyncio.CancelledError(),
    "exit": SystemExit(1),
}


@dataclass
class Plan:
    """What one call's tool does, attempt by attempt: waits so long, says so much, and comes to this."""

    steps: list[tuple[float, int, str]]
    ignores_cancellation: bool


@dataclass
class Script:
    """Settings of the tool and the engine, the calls, and what people do at which time."""

    plans: list[Plan]
    is_generator: bool
    spec: dict[str, Any]
    max_concurrency: int | None
    deadline: float | None
    deeds: list[tuple[float, str, int]] = field(default_factory=list)


DELAYS = st.sampled_from([0.0, 0.0, 0.5, 1.0, 3.0])
plans = st.builds(
    Plan,
    steps=st.lists(st.tuples(DELAYS, st.integers(0, 2), st.sampled_from(sorted(OUTCOMES))), min_size=1, max_size=4),
    ignores_cancellation=st.booleans(),
)
specs = st.fixed_dictionaries(
    {
        "timeout": st.sampled_from([None, 0.7, 2.0]),
        "idempotent": st.booleans(),
        "read_only": st.booleans(),
        "needs_approval": st.booleans(),
        "approval_timeout": st.sampled_from([None, 1.5]),
        "max_concurrency": st.sampled_from([None, 1, 2]),
        "retry": st.sampled_from([None, RetryPolicy(max_retries=2, wait=wait_fixed(0.5))]),
        "fallback": st.sampled_from([None, FallbackPolicy(value="substitute", on_failure=True)]),
    }
)
deeds = st.tuples(
    st.sampled_from([0.0, 0.2, 0.5, 1.0, 1.7, 2.5, 4.0]),
    st.sampled_from(["cancel", "approve", "deny", "edit", "bad edit", "cancel task"]),
    st.integers(0, 3),
)
scripts = st.builds(
    Script,
    plans=st.lists(plans, min_size=1, max_size=4),
    is_generator=st.booleans(),
    spec=specs,
    max_concurrency=st.sampled_from([None, 1, 2]),
    deadline=st.sampled_from([None, 1.0, 5.0]),
    deeds=st.lists(deeds, max_size=6),
)


def make_tool(script: Script) -> ToolSpec:
    async def pause(ctx: ToolContext, plan: Plan, seconds: float) -> None:
        clock = ctx._attempt.invocation.clock
        try:
            await clock.sleep(seconds)
        except asyncio.CancelledError:
            if not plan.ignores_cancellation:
                raise
            await clock.sleep(3.0)

    async def tool(number: int, ctx: ToolContext, note: str = "") -> Any:
        plan = script.plans[number]
        seconds, said, outcome = plan.steps[min(ctx.attempt, len(plan.steps)) - 1]
        if seconds:
            await pause(ctx, plan, seconds)
        for piece in range(said):
            ctx.emit(piece)
        result = OUTCOMES[outcome]
        if isinstance(result, BaseException):
            raise result
        return result

    async def pieces(number: int, ctx: ToolContext, note: str = "") -> AsyncIterator[Any]:
        for piece in range(script.plans[number].steps[0][1]):
            yield piece
        yield await tool(number, ctx)

    return ToolSpec(name="tool", func=pieces if script.is_generator else tool, **script.spec)


def do(deed: str, invocation: ToolInvocation, task: asyncio.Task[None], promised: dict[str, bool]) -> None:
    if deed == "cancel":
        if invocation.cancel("a person"):
            promised[invocation.uid] = True
    elif deed == "approve":
        invocation.approve()
    elif deed == "deny":
        invocation.deny("no")
    elif deed == "edit":
        invocation.approve(arguments={**(invocation.arguments or {}), "note": "edited"})
    elif deed == "bad edit":
        try:
            assert not invocation.approve(arguments={"number": "x"})
        except ToolError as error:
            assert error.code == "INVALID_PARAM"
            assert invocation.state == "AWAITING_APPROVAL"
    else:
        task.cancel()


async def perform(script: Script) -> None:
    watch = Watch()
    clock = VirtualClock()
    engine = ToolEngine(
        [make_tool(script)], clock=clock, max_concurrency=script.max_concurrency, stages=Stages(publish=watch)
    )
    tasks = []
    invocations: list[ToolInvocation] = []
    for number in range(len(script.plans)):
        before = len(engine.running)
        call = engine.execute_tool_call(ToolCall("tool", {"number": number}), deadline=script.deadline)
        tasks.append(asyncio.create_task(call))
        while len(engine.running) == before and not tasks[-1].done():
            await asyncio.sleep(0)
        invocations.extend(each for each in engine.running if each not in invocations)
        if tasks[-1].done():
            invocations.append(tasks[-1].result())
        invocations = list(dict.fromkeys(invocations))
    promised: dict[str, bool] = {}
    planned = sorted(script.deeds)
    while not all(task.done() for task in tasks):
        await idle()
        due = clock.next_timer
        if planned and (due is None or planned[0][0] <= due):
            at, deed, number = planned.pop(0)
            clock.advance(max(0.0, at - clock.monotonic()))
            await idle()
            index = number % len(invocations)
            do(deed, invocations[index], tasks[index], promised)
        elif due is not None:
            clock.advance(max(0.0, due - clock.monotonic()))
        elif not all(task.done() for task in tasks):
            # Nothing but people's decisions is waited for.
            for invocation in invocations:
                invocation.deny("nobody is left")
    await idle()
    count = len(watch.events)
    for task, invocation in zip(tasks, invocations, strict=True):
        assert_ended(invocation)
        assert_told_in_full(watch.of(invocation))
        assert task.cancelled() or task.result() is invocation
        if promised.get(invocation.uid):
            assert invocation.state == "CANCELLED"
        assert all(attempt.ended_at is not None for attempt in invocation.attempts)
        repeatable = script.spec["idempotent"] or script.spec["read_only"]
        codes = [attempt.code for attempt in invocation.attempts[:-1]]
        assert len(invocation.attempts) <= 3
        assert repeatable or all(code == "NETWORK_ERROR" for code in codes)  # only `safe` says that nothing happened
        if script.spec["needs_approval"] and invocation.attempts:
            assert "AWAITING_APPROVAL" in invocation.path
    assert engine.running == ()
    # Nothing comes after the end, not even from those who ignored their cancellation; and no slot is lost.
    for _ in range(20):
        await idle()
        if clock.next_timer is not None:
            clock.advance(clock.next_timer - clock.monotonic())
    assert len(watch.events) == count
    runtimes = engine._runtimes
    assert all(slots.held == 0 for runtime in runtimes._by_spec.values() for slots in (*runtime.own, *runtime.shared))


@settings(max_examples=150, deadline=None)
@given(scripts)
def test_every_invocation_ends_in_one_final_state_with_one_final_event_and_nothing_after_it(script: Script) -> None:
    with logged():
        asyncio.run(perform(script))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.5, 1.0, 2.0])), min_size=1, max_size=12),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_limits_hold_the_order_of_asking_is_kept_and_no_slot_is_lost(
    calls: list[tuple[int, float]], own: int, everybody: int
) -> None:
    async def main() -> None:
        clock = VirtualClock()
        begun: dict[str, list[tuple[float, int]]] = {}
        inside: dict[str, int] = {}

        def made(name: str) -> ToolSpec:
            async def work(number: int, seconds: float) -> int:
                begun.setdefault(name, []).append((clock.monotonic(), number))
                inside[name] = inside.get(name, 0) + 1
                assert inside[name] <= own
                assert sum(inside.values()) <= everybody
                await clock.sleep(seconds)
                inside[name] -= 1
                return number

            return ToolSpec(name=name, func=work, max_concurrency=own, timeout=None)

        engine = ToolEngine([made(f"tool{number}") for number in range(4)], clock=clock, max_concurrency=everybody)
        started = [
            engine.start(ToolCall(f"tool{which}", {"number": number, "seconds": seconds}))
            for number, (which, seconds) in enumerate(calls)
        ]
        while engine.running:
            await idle()
            if clock.next_timer is not None:
                clock.advance(clock.next_timer - clock.monotonic())
        assert [each.result for each in started] == list(range(len(calls)))
        for starts in begun.values():
            times = [at for at, _ in sorted(starts, key=lambda start: start[1])]
            assert times == sorted(times)

    asyncio.run(main())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=8) | st.just("tool"), JSON | st.text(max_size=30) | st.binary(max_size=5), st.text(max_size=4) | st.none())
def test_whatever_a_model_sends_is_answered_and_the_tool_sees_only_what_fits(name: str, arguments: Any, call_id: Any) -> None:
    async def tool(a: int, b: list[str] | None = None) -> int:
        assert type(a) is int
        assert b is None or all(type(each) is str for each in b)
        return a

    async def main() -> None:
        watch = Watch()
        engine = ToolEngine([tool], clock=VirtualClock(), stages=Stages(publish=watch))
        invocation = await engine.execute_tool_call(ToolCall(name, arguments, call_id))
        assert_ended(invocation)
        assert_told_in_full(watch.events)
        if invocation.error is not None:
            assert invocation.error.code in ("NOT_FOUND", "INVALID_PARAM", "INVALID_FORMAT")
        response = invocation.response
        assert response is not None
        assert ToolResponse.from_dict(response.to_dict()) == response

    with logged():
        asyncio.run(main())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c", "", None]), max_size=6))
def test_calls_that_share_an_id_fail_and_all_others_run(ids: list[str | None]) -> None:
    async def tool(number: int) -> int:
        return number

    async def main() -> None:
        engine = ToolEngine([tool], clock=VirtualClock())
        invocations = await engine.execute_tool_calls(
            [ToolCall("tool", {"number": number}, call_id) for number, call_id in enumerate(ids)]
        )
        for number, (call_id, invocation) in enumerate(zip(ids, invocations, strict=True)):
            if call_id and ids.count(call_id) > 1:
                assert invocation.error is not None
                assert (invocation.error.reason, invocation.attempts) == ("duplicate_id", [])
            else:
                assert invocation.result == number
        assert len({invocation.id for invocation in invocations}) == len({i for i in ids if i}) + sum(not i for i in ids)

    with logged():
        asyncio.run(main())


async def test_a_gate_that_refuses_at_random_leaves_nothing_behind() -> None:
    """Every second call is refused, in every state that a gate may hang on."""
    for state in ("VALIDATING", "ADMITTING", "EXECUTING"):
        seen: list[int] = []

        def every_second(event: Any, seen: list[int] = seen) -> None:
            seen.append(1)
            if len(seen) % 2:
                raise ToolError("CONFLICT", "odd")

        async def tool() -> str:
            return "done"

        engine = ToolEngine([ToolSpec(name="tool", func=tool, max_concurrency=1)], hooks=[gate(state, every_second)])
        with logged():
            states = [each.state for each in await engine.execute_tool_calls([ToolCall("tool")] * 6)]
        assert states == ["FAILED", "COMPLETED"] * 3
