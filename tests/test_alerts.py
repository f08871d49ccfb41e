"""Alerts: what is told, how often, and that no receiver can break a call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fsm_engine import Alert, AlertKind, BreakerPolicy, ConfigurationError, ToolCall, ToolEngine, ToolSpec, VirtualClock

from .support import Stuck, idle, logged, play, until, virtual


class Flaky:
    """A tool that fails while it is told to."""

    def __init__(self) -> None:
        self.fails = True

    async def __call__(self) -> str:
        if self.fails:
            raise ConnectionError("gone")
        return "done"


def watched(*tools: Any, **settings: Any) -> tuple[ToolEngine, list[Alert]]:
    engine, heard = virtual(*tools, **settings), []
    engine.on_alert(heard.append)
    return engine, heard


def clock_of(engine: ToolEngine) -> VirtualClock:
    assert isinstance(engine.clock, VirtualClock)
    return engine.clock


def in_short(alerts: list[Alert]) -> list[tuple[str, str]]:
    return [(str(alert.kind), alert.reason) for alert in alerts]


async def test_a_circuit_that_opens_half_opens_and_closes_is_told_once_for_each_change() -> None:
    tool = Flaky()
    engine, heard = watched(
        ToolSpec(name="stock", func=tool, version="7", breaker=BreakerPolicy.consecutive(3, wait=30))
    )
    for _ in range(6):
        await engine.invoke("stock")
    assert in_short(heard) == [("circuit_opened", "failure_rate")]
    clock_of(engine).advance(30.0)
    assert in_short(heard[1:]) == [("circuit_half_open", "wait_over")]
    tool.fails = False
    for _ in range(3):
        await engine.invoke("stock")
    assert in_short(heard[2:]) == [("circuit_closed", "probes_passed")]
    first = heard[0]
    assert (first.tool, first.version, first.group, first.at, first.wall) == ("stock", "7", None, 0.0, 1_700_000_000.0)
    assert heard[1].at == 30.0


async def test_an_alert_of_a_group_names_the_group_and_no_tool() -> None:
    policy = BreakerPolicy.consecutive(1)
    tools = [ToolSpec(name=name, func=Flaky(), breaker=policy, breaker_group="upstream") for name in "ab"]
    engine, heard = watched(*tools)
    await engine.invoke("b")
    assert [(alert.tool, alert.version, alert.group) for alert in heard] == [(None, None, "upstream")]


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("force_open", AlertKind.CIRCUIT_OPENED),
        ("disable", AlertKind.CIRCUIT_MODE),
        ("observe", AlertKind.CIRCUIT_MODE),
    ],
)
def test_what_a_person_does_is_told_too_and_doing_it_twice_only_once(change: str, kind: AlertKind) -> None:
    engine, heard = watched(ToolSpec(name="t", func=Flaky(), breaker=BreakerPolicy()))
    for _ in range(2):
        getattr(engine.circuits["t@1"], change)()
    engine.circuits["t@1"].reset()
    assert in_short(heard) == [(str(kind), "manual"), ("circuit_closed", "manual")]


async def test_threads_that_run_out_are_told_of_once_until_there_are_some_again() -> None:
    stuck = Stuck()
    engine, heard = watched(ToolSpec(name="t", func=stuck, max_concurrency=4, timeout=None), max_threads=1)
    calls = [engine.start(ToolCall("t")) for _ in range(4)]
    await until(lambda: stuck.count == 1)
    await idle()
    assert in_short(heard) == [("threads_exhausted", "all_threads_busy")]
    assert heard[0].tool == "t"
    stuck.let_go()
    for each in calls:
        await each
    assert in_short(heard[1:]) == [("threads_free", "thread_freed")]
    assert heard[1].tool is None


async def raises(alert: Alert) -> None: ...


class Asynchronous:
    async def __call__(self, alert: Alert) -> None: ...


@pytest.mark.parametrize(
    ("receiver", "message"),
    [(5, "goes to a function, not to int"), (raises, "coroutine"), (Asynchronous(), "coroutine")],
)
def test_a_receiver_that_could_never_hear_anything_is_refused(receiver: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ToolEngine().on_alert(receiver)


@pytest.mark.parametrize("error", [RuntimeError("x"), asyncio.CancelledError(), SystemExit(1)])
async def test_a_receiver_that_raises_is_logged_and_disturbs_neither_the_call_nor_the_others(
    error: BaseException,
) -> None:
    def break_(alert: Alert) -> None:
        raise error

    with logged() as lines:
        engine = virtual(ToolSpec(name="t", func=Flaky(), breaker=BreakerPolicy.consecutive(1)))
        heard: list[Alert] = []
        for receiver in (break_, heard.append):
            engine.on_alert(receiver)
        response = await engine.invoke("t")
    assert response.error_info is not None
    assert response.error_info.code == "NETWORK_ERROR"
    assert len(heard) == 1
    failed = [line for line in lines if line["event"] == "alert receiver failed"]
    assert [(line["kind"], line["exception_type"]) for line in failed] == [("circuit_opened", type(error).__name__)]


def test_an_interruption_passes_through_a_receiver() -> None:
    def interrupt(alert: Alert) -> None:
        raise KeyboardInterrupt

    engine = virtual(ToolSpec(name="t", func=Flaky(), breaker=BreakerPolicy()))
    engine.on_alert(interrupt)
    with pytest.raises(KeyboardInterrupt):
        engine.circuits["t@1"].open()


def test_a_receiver_can_stop_listening_and_doing_so_twice_is_nothing() -> None:
    engine = virtual(ToolSpec(name="t", func=Flaky(), breaker=BreakerPolicy()))
    heard: list[Alert] = []
    stop = engine.on_alert(heard.append)
    for _ in range(2):
        stop()
    engine.circuits["t@1"].open()
    assert heard == []


@pytest.mark.parametrize(("error", "reason"), [(None, "success"), (ValueError("late"), "ValueError")])
async def test_a_hung_thread_is_told_of_when_it_is_left_and_when_it_ends(error: Exception | None, reason: str) -> None:
    stuck = Stuck()

    def hang() -> None:
        stuck()
        if error is not None:
            raise error

    engine, heard = watched(ToolSpec(name="t", func=hang, timeout=1.0))
    with logged():
        await play(engine, engine.invoke("t"), stuck)
        assert in_short(heard) == [("tool_abandoned", "ignores_cancellation")]
        stuck.let_go()
        await until(lambda: len(heard) == 2)
    assert in_short(heard[1:]) == [("late_result", reason)]
