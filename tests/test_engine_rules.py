"""Rules that hold whatever tools, callers, approvers and time do: random scripts, real machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
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
from fsm_engine.invocation.substitute import FallbackPolicy

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


class Performance:
    """One script on its way: calls under way, people who interfere, and time that moves when nothing else can."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.watch = Watch()
        self.clock = VirtualClock()
        stages = Stages(publish=self.watch)
        self.engine = ToolEngine(
            [make_tool(script)], clock=self.clock, max_concurrency=script.max_concurrency, stages=stages
        )
        self.tasks: list[asyncio.Task[ToolInvocation]] = []
        self.invocations: list[ToolInvocation] = []
        self.cancelled: set[str] = set()

    async def begin(self) -> None:
        """Start all calls, each in a task of its own, in their order."""
        for number in range(len(self.script.plans)):
            call = ToolCall("tool", {"number": number})
            self.tasks.append(asyncio.create_task(self.engine.execute_tool_call(call, deadline=self.script.deadline)))
        begun: dict[str, ToolInvocation] = {}
        while len(begun) < len(self.tasks):
            begun |= {each.uid: each for each in self.engine.running}
            begun |= {each.result().uid: each.result() for each in self.tasks if each.done()}
            await asyncio.sleep(0)
        self.invocations = sorted(begun.values(), key=lambda each: int(each.uid.rpartition("_")[2]))

    async def play(self) -> None:
        """Move time from one deed or timer to the next until all have ended."""
        planned = sorted(self.script.deeds)
        while not all(task.done() for task in self.tasks):
            due = self.clock.next_timer
            if planned and (due is None or planned[0][0] <= due):
                at, deed, number = planned.pop(0)
                await self.move_to(at)
                self.do(deed, number % len(self.invocations))
            elif due is not None:
                await self.move_to(due)
            else:  # nothing but people's decisions is waited for
                for invocation in self.invocations:
                    invocation.deny("nobody is left")
            await idle()

    async def move_to(self, at: float) -> None:
        self.clock.advance(max(0.0, at - self.clock.monotonic()))
        await idle()

    def do(self, deed: str, index: int) -> None:
        invocation = self.invocations[index]
        waits = invocation.state == "AWAITING_APPROVAL" and not invocation.is_cancel_requested
        if deed == "cancel":
            if invocation.cancel("a person"):
                self.cancelled.add(invocation.uid)
        elif deed == "approve":
            assert invocation.approve() <= waits
        elif deed == "deny":
            assert invocation.deny("no") <= waits
        elif deed == "edit":
            assert invocation.approve(arguments={**(invocation.arguments or {}), "note": "edited"}) <= waits
        elif deed == "bad edit":
            with suppress(ToolError):
                assert not invocation.approve(arguments={"number": "x"})
            assert not waits or invocation.state == "AWAITING_APPROVAL"
        else:
            self.tasks[index].cancel()

    def check(self, task: asyncio.Task[ToolInvocation], invocation: ToolInvocation) -> None:
        assert_ended(invocation)
        assert_told_in_full(self.watch.of(invocation))
        assert task.cancelled() or task.result() is invocation
        assert invocation.uid not in self.cancelled or invocation.state == "CANCELLED"
        attempts, spec = invocation.attempts, self.script.spec
        assert all(attempt.ended_at is not None for attempt in attempts)
        assert len(attempts) <= 3
        # Of all outcomes only `safe` says that nothing has happened.
        is_repeatable = spec["idempotent"] or spec["read_only"]
        assert is_repeatable or all(attempt.code == "NETWORK_ERROR" for attempt in attempts[:-1])
        assert not attempts or not spec["needs_approval"] or "AWAITING_APPROVAL" in invocation.path

    async def outlast(self) -> None:
        """Let those end who ignored their cancellation; nobody hears of them, and no slot is lost."""
        count = len(self.watch.events)
        for _ in range(20):
            await idle()
            if self.clock.next_timer is not None:
                self.clock.advance(self.clock.next_timer - self.clock.monotonic())
        assert len(self.watch.events) == count
        for runtime in self.engine._runtimes._by_spec.values():
            assert [slots.held for slots in (*runtime.own, *runtime.shared)] == [0] * len(
                (*runtime.own, *runtime.shared)
            )


async def perform(script: Script) -> None:
    performance = Performance(script)
    await performance.begin()
    await performance.play()
    for task, invocation in zip(performance.tasks, performance.invocations, strict=True):
        performance.check(task, invocation)
    assert performance.engine.running == ()
    await performance.outlast()


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
@given(
    st.text(max_size=8) | st.just("tool"),
    JSON | st.text(max_size=30) | st.binary(max_size=5),
    st.text(max_size=4) | st.none(),
)
def test_whatever_a_model_sends_is_answered_and_the_tool_sees_only_what_fits(
    name: str, arguments: Any, call_id: Any
) -> None:
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
        assert len({invocation.id for invocation in invocations}) == len({i for i in ids if i}) + sum(
            not i for i in ids
        )

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
