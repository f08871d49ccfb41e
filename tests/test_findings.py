"""What a sceptical reader found, held to: each test tells the behaviour in one sentence."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from fsm_engine import (
    Event,
    FallbackPolicy,
    Lifecycle,
    LifecycleMachine,
    Row,
    Stages,
    State,
    ToolEngine,
    VirtualClock,
    on_exit,
    tool,
)


async def test_the_values_of_hidden_arguments_are_in_no_error_text_and_no_event() -> None:
    seen: list[Event] = []

    @tool(sensitive={"iban"})
    async def pay(iban: str, login: dict[str, str]) -> int:
        raise ValueError(f"no account {iban} for {login['password']}")

    engine = ToolEngine([pay], stages=Stages(publish=seen.append))
    arguments = {"iban": "DE89-3704", "login": {"password": "hunter22"}}
    response = await engine.invoke("pay", arguments)
    assert response.error_info is not None
    told = [response.for_model(), response.error_info.detail, *(str(event.to_dict()) for event in seen)]
    assert [text for text in told if "3704" in text] == []
    assert "no account" in response.text


async def test_whoever_watches_one_call_cannot_break_it_nor_what_others_are_told() -> None:
    seen: list[Event] = []

    def refuse(event: Event) -> None:
        raise OSError("the socket is closed")

    engine = ToolEngine([tool(add)], stages=Stages(publish=seen.append))
    invocation = await engine.start({"id": "c", "name": "add", "arguments": {"a": 1}}, on_event=refuse)
    assert (invocation.state, len(seen)) == ("COMPLETED", 5)


async def add(a: int) -> int:
    return a + 1


async def test_an_identical_call_does_not_share_an_end_that_was_the_first_ones_own() -> None:
    """Its own, as when it never came to run."""
    clock, gate = VirtualClock(), asyncio.Event()

    @tool(read_only=True, single_flight=True, max_concurrency=1)
    async def slow(a: int) -> int:
        await gate.wait()
        return a

    engine = ToolEngine([slow], clock=clock)
    busy = engine.start({"id": "1", "name": "slow", "arguments": {"a": 0}})
    first = engine.start({"id": "2", "name": "slow", "arguments": {"a": 7}}, deadline=5)
    second = engine.start({"id": "3", "name": "slow", "arguments": {"a": 7}})
    for _ in range(5):
        await asyncio.sleep(0)
    clock.advance(6)
    await first
    gate.set()
    assert (first.state, (await second).result, (await busy).result) == ("FAILED", 7, 0)


async def test_a_decision_that_was_taken_is_not_taken_again() -> None:
    answers: list[bool] = []

    def too_late(event: Any) -> None:
        answers.append(event.model.deny("late"))

    engine = ToolEngine([tool(needs_approval=True)(add)], hooks=[on_exit("AWAITING_APPROVAL", too_late)])
    invocation = engine.start({"id": "c", "name": "add", "arguments": {"a": 1}})
    await asyncio.sleep(0)
    assert invocation.approve() is True
    assert ((await invocation).state, answers) == ("COMPLETED", [False])


async def test_closing_from_another_loop_waits_for_the_calls_where_they_run() -> None:
    @tool
    async def hang() -> None:
        await asyncio.Event().wait()

    engine = ToolEngine([hang])
    begun, ended = threading.Event(), threading.Event()

    def elsewhere() -> None:
        async def run() -> None:
            invocation = engine.start({"id": "c", "name": "hang"})
            await asyncio.sleep(0)
            begun.set()
            await invocation
            await asyncio.to_thread(ended.wait, 10)

        asyncio.run(run())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    assert await asyncio.to_thread(begun.wait, 10)
    cancelled = await engine.aclose(grace=50)
    ended.set()
    await asyncio.to_thread(thread.join)
    assert [invocation.state for invocation in cancelled] == ["CANCELLED"]


@pytest.mark.parametrize(("answer", "state"), [({"any": 1}, "B"), ([], "C"), (None, "C"), (True, "B")])
def test_a_guard_is_tested_for_its_truth(answer: object, state: str) -> None:
    guards: dict[str, Any] = {"answers": lambda event: answer}
    rows = (Row("A", "go", "B", guard="answers"), Row("A", "go", "C"))
    lifecycle = Lifecycle("x", "A", (State("A"), State("B", final=True), State("C", final=True)), rows, guards)
    model = Model()
    LifecycleMachine(lifecycle).fire(model, "go")
    assert model.state == state


class Model:
    state = "A"


async def test_a_coroutine_that_holds_up_the_loop_past_its_limit_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    clock = VirtualClock()

    @tool(timeout=1)
    async def blocks() -> int:
        clock.advance(2)
        return 1

    response = await ToolEngine([blocks], clock=clock).invoke("blocks")
    assert response.data == 1
    assert "held up the event loop" in caplog.text


async def test_a_fallback_that_cannot_answer_before_the_deadline_is_not_begun() -> None:
    clock, begun = VirtualClock(), list[str]()

    async def substitute() -> str:
        begun.append("substitute")
        return "instead"

    @tool(fallback=FallbackPolicy(function=substitute, on_failure=True))
    async def late() -> str:
        clock.advance(2)
        raise ConnectionError("no answer")

    response = await ToolEngine([late], clock=clock).invoke("late", deadline=1)
    assert response.error_info is not None
    assert (response.error_info.code, begun) == ("NETWORK_ERROR", [])
