"""What answers in a tool's place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fsm_engine import (
    ConfigurationError,
    Stages,
    ToolCall,
    ToolEngine,
    ToolError,
    ToolResponse,
    ToolSpec,
    ToolStatus,
    VirtualClock,
)
from fsm_engine.concurrency.slots import Slots
from fsm_engine.invocation import substitute as fallback
from fsm_engine.invocation.substitute import (
    FallbackPolicy,
    LastGood,
    as_fallback,
    as_substitute,
    run_function,
    without_substitute,
)
from fsm_engine.tools.spec import SYNC_CONCURRENCY

from .support import Stuck, logged, now, play, until, virtual


def function() -> str:
    return "x"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "give exactly one"),
        ({"value": 1, "last_good": True}, "give exactly one"),
        ({"function": 5}, "must be a function"),
        ({"value": 1, "timeout": None}, "timeout must be a number of seconds above 0"),
        ({"value": 1, "timeout": 0}, "timeout must be"),
        ({"value": 1, "max_age": None}, "max_age must be"),
        ({"last_good": True, "max_age": -1}, "max_age must be"),
        ({"last_good": True, "max_entries": 0}, "max_entries must be"),
        ({"last_good": True, "max_entries": None}, "max_entries must be"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        FallbackPolicy(**settings)


def test_a_policy_is_of_one_kind() -> None:
    assert FallbackPolicy(value=None).kind == "value"
    assert FallbackPolicy(function=function).kind == "function"
    assert FallbackPolicy(last_good=True).kind == "last_good"


def test_a_spec_may_say_it_in_short() -> None:
    assert as_fallback(None, "t", read_only=False) is None
    assert as_fallback("last_good", "t", read_only=True) == FallbackPolicy(last_good=True)
    assert as_fallback(function, "t", read_only=False) == FallbackPolicy(function=function)
    with pytest.raises(ConfigurationError, match=r"FallbackPolicy\(value=...\)"):
        ToolSpec(name="t", func=function, fallback={"stock": 1})  # type: ignore[arg-type] # that is the mistake


def test_good_results_are_kept_for_their_arguments_for_a_while_and_in_bounded_number() -> None:
    clock = VirtualClock()
    kept = LastGood(FallbackPolicy(last_good=True, max_age=10.0, max_entries=2), clock)
    for number in range(3):
        kept.remember({"n": number}, ToolResponse.success(data=number))
    assert len(kept) == 2
    assert reason(kept.recall({"n": 0})[0]) == "nothing_remembered"
    clock.advance(9.9)
    found, age = kept.recall({"n": 2})
    assert (found.data, age) == (2, 9.9)
    clock.advance(0.2)
    assert reason(kept.recall({"n": 2})[0]) == "nothing_remembered"


def test_a_good_result_is_kept_as_it_was() -> None:
    """Neither whoever got it first nor whoever is given it again can spoil it."""
    kept = LastGood(FallbackPolicy(last_good=True), VirtualClock())
    good = ToolResponse.success("In stock.", {"items": [1]})
    kept.remember({}, good)
    for response in (good, kept.recall({})[0]):
        assert isinstance(response.data, dict)
        response.data["items"] = "spoilt"
    found, _ = kept.recall({})
    assert (found.text, found.data) == ("In stock.", {"items": [1]})


def reason(response: ToolResponse) -> str | None:
    assert response.error_info is not None
    return response.error_info.reason


async def test_an_awaitable_that_a_plain_function_hands_out_is_awaited() -> None:
    async def later() -> str:
        return "later"

    def hands_it_out() -> Any:
        return later()

    slots = Slots(1)
    assert await run_function(hands_it_out, {}, slots) == "later"
    assert await run_function(later, {}, slots) == "later"
    assert await run_function(function, {}, slots) == "x"
    await until(lambda: slots.held == 0)


async def test_no_more_threads_hang_in_a_fallback_than_it_has_slots() -> None:
    stuck, slots = Stuck(), Slots(2)
    hanging = [asyncio.ensure_future(run_function(stuck, {}, slots)) for _ in range(2)]
    await until(lambda: stuck.count == 2)
    with pytest.raises(ToolError, match="threads of the fallback are busy"):
        await run_function(function, {}, slots)
    for each in hanging:
        each.cancel()
    await asyncio.wait(hanging)
    assert slots.held == 2  # nobody waits for them, but they run
    stuck.let_go()
    await until(lambda: slots.held == 0)


async def test_a_fallback_given_up_before_its_thread_began_is_never_run(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[Any] = []
    ran: list[int] = []

    async def never(job: Any, ended: Any) -> Any:
        jobs.append(job)
        ended(None)
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(fallback, "run_in_thread", never)
    slots = Slots(1)
    call = asyncio.ensure_future(run_function(lambda: ran.append(1), {}, slots))
    await until(lambda: jobs)
    call.cancel()
    await asyncio.wait([call])
    assert (jobs[0](), ran, slots.held) == (None, [], 0)


def test_a_substitute_says_why_how_old_and_what_went_wrong() -> None:
    error = ToolResponse.error("TIMEOUT", "slow").error_info
    assert error is not None
    made = as_substitute(ToolResponse.success("old"), "timeout", 1.23456, error)
    assert (made.status, made.text, made.reason) == (ToolStatus.PARTIAL, "old", "timeout")
    assert made.context["fallback"] == {
        "reason": "timeout",
        "age_s": 1.235,
        "error": {"code": "TIMEOUT", "message": "slow"},
    }
    assert made.for_model() == "This result is incomplete. Reason: timeout. It is 2 seconds old.\nold"


def test_a_substitute_keeps_its_words_beside_its_data() -> None:
    error = ToolResponse.error("TIMEOUT", "slow").error_info
    assert error is not None
    made = as_substitute(ToolResponse.success("Seven left.", {"stock": 7}), "timeout", None, error)
    assert (made.text, made.data) == ("Seven left.", {"stock": 7})
    assert "age_s" not in made.stats


def test_without_a_substitute_the_first_error_says_what_became_of_it() -> None:
    failure = ToolResponse.error("CONFLICT", "no").error_info
    assert failure is not None
    made = without_substitute(ToolResponse.error("TIMEOUT", "slow"), "timeout", failure)
    assert made.error_info is not None
    assert made.error_info.code == "TIMEOUT"
    assert made.context["fallback"] == {"reason": "timeout", "failure": {"code": "CONFLICT", "message": "no"}}


# -- in an engine -------------------------------------------------------------------------------------------------------


async def gone(sku: str) -> str:
    raise ConnectionError("gone")


def backed(policy: FallbackPolicy, **settings: Any) -> ToolEngine:
    return virtual(ToolSpec(name="stock", func=gone, fallback=policy), **settings)


def failure_of(response: ToolResponse) -> tuple[str | None, Any]:
    """The first error's code, and what became of the substitute."""
    about: Any = response.context["fallback"]
    return response.error_info and response.error_info.code, about["failure"]["code"]


async def test_a_plain_fallback_that_hangs_is_given_up_in_time_and_the_first_error_stands() -> None:
    stuck = Stuck()
    engine = backed(FallbackPolicy(function=lambda sku: stuck(), on_failure=True, timeout=2.0))
    with logged():
        call = engine.start(ToolCall("stock", {"sku": "a"}))
        await until(lambda: stuck.count == 1)
        response = (await play(engine, call, stuck)).response
    assert response is not None
    assert failure_of(response) == ("NETWORK_ERROR", "TIMEOUT")
    assert now(engine) == 2.0
    stuck.let_go()


async def test_a_fallback_whose_threads_all_hang_is_not_asked_and_the_first_error_stands() -> None:
    stuck = Stuck()
    engine = backed(FallbackPolicy(function=lambda sku: stuck(), on_failure=True, timeout=2.0))
    with logged():
        calls = [engine.start(ToolCall("stock", {"sku": "a"})) for _ in range(SYNC_CONCURRENCY)]
        await until(lambda: stuck.count == SYNC_CONCURRENCY)
        assert failure_of(await engine.invoke("stock", {"sku": "a"})) == ("NETWORK_ERROR", "RATE_LIMIT")
        for each in calls:
            await play(engine, each, stuck)
        assert failure_of(await engine.invoke("stock", {"sku": "a"})) == ("NETWORK_ERROR", "RATE_LIMIT")
    assert (stuck.count, now(engine)) == (SYNC_CONCURRENCY, 2.0)
    stuck.let_go()


async def test_a_fallback_works_while_the_tools_take_every_thread() -> None:
    stuck = Stuck()
    hanging = ToolSpec(name="hang", func=stuck, max_concurrency=4, timeout=None)
    engine = backed(FallbackPolicy(function=lambda sku: f"old {sku}", on_failure=True), max_threads=1)
    engine.register(hanging)
    call = engine.start(ToolCall("hang"))
    await until(lambda: stuck.count == 1)
    assert (await engine.invoke("stock", {"sku": "a"})).text == "old a"
    stuck.let_go()
    await call


async def test_a_binding_that_breaks_before_the_fallback_leaves_the_first_error_standing() -> None:
    bound: list[Any] = []

    def once(spec: ToolSpec, arguments: dict[str, Any]) -> Any:
        bound.append(arguments)
        if len(bound) > 1:
            raise RuntimeError("out of order")
        return arguments

    with logged():
        engine = backed(FallbackPolicy(function=plain, on_failure=True), stages=Stages(bind=once))
        assert failure_of(await engine.invoke("stock", {"sku": "a"})) == ("NETWORK_ERROR", "EXECUTION_ERROR")


def plain(sku: str) -> str:
    return sku


async def breaks(sku: str) -> str:
    raise LookupError(sku)


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        (FallbackPolicy(function=breaks, on_failure=True), "EXECUTION_ERROR"),
        (FallbackPolicy(function=gone, on_failure=True), "NETWORK_ERROR"),
        (FallbackPolicy(last_good=True, on_failure=True), "NOT_FOUND"),
    ],
)
async def test_whatever_becomes_of_the_fallback_stands_beside_the_first_error(
    policy: FallbackPolicy, code: str
) -> None:
    with logged() as lines:
        engine = virtual(ToolSpec(name="stock", func=gone, fallback=policy, read_only=True))
        assert failure_of(await engine.invoke("stock", {"sku": "a"})) == ("NETWORK_ERROR", code)
    assert [line["code"] for line in lines if line["event"] == "fallback failed"] == [code]


async def test_arguments_that_mean_the_same_share_a_good_result() -> None:
    """Whatever the order of their keys, and whether a default was written out."""
    is_down = False

    async def stock(sku: str, warehouse: str = "beijing") -> str:
        if is_down:
            raise ConnectionError("gone")
        return f"{sku} in {warehouse}"

    engine = virtual(
        ToolSpec(name="stock", func=stock, read_only=True, fallback=FallbackPolicy(last_good=True, on_failure=True))
    )
    await engine.invoke("stock", '{"warehouse": "beijing", "sku": "a"}')
    is_down = True
    with logged():
        assert (await engine.invoke("stock", {"sku": "a"})).text == "a in beijing"
        assert (await engine.invoke("stock", {"sku": "a", "warehouse": "shanghai"})).error_info is not None
