"""Are the tools well? On demand, all at once, and without a circuit hearing of it; and `fsm-engine health`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fsm_engine import (
    Alert,
    BreakerPolicy,
    ConfigurationError,
    EngineClosedError,
    FallbackPolicy,
    HealthReport,
    RateLimit,
    Stages,
    ToolCall,
    ToolEngine,
    ToolHealth,
    ToolSpec,
)
from fsm_engine.cli.app import app

from .support import Stuck, Watch, idle, logged, play, until, virtual


async def answer() -> str:
    return "done"


async def well() -> None: ...


async def sick() -> None:
    raise ConnectionError("gone")


async def stock(sku: str) -> int:
    if sku == "broken":
        raise ConnectionError("gone")
    return 7


async def hangs() -> None:
    await asyncio.get_running_loop().create_future()


def spec(name: str = "t", health_check: Any = None, func: Any = answer, **settings: Any) -> ToolSpec:
    return ToolSpec(name=name, func=func, health_check=health_check, **settings)


async def check(engine: ToolEngine, timeout: float = 5.0, **settings: Any) -> dict[str, ToolHealth]:
    with logged():
        report = await play(engine, engine.health_check(timeout, **settings))
    return {tool.tool: tool for tool in report.tools}


PROBES: list[tuple[Any, str, str | None]] = [
    (well, "healthy", None),
    (lambda: True, "healthy", None),
    (lambda: None, "healthy", None),
    (lambda: 0, "healthy", None),
    (lambda: False, "failing", "EXECUTION_ERROR"),
    (sick, "failing", "NETWORK_ERROR"),
    (hangs, "failing", "TIMEOUT"),
]


@pytest.mark.parametrize(("probe", "status", "code"), PROBES)
async def test_a_probe_says_how_its_tool_is(probe: Any, status: str, code: str | None) -> None:
    found = (await check(virtual(spec(health_check=probe))))["t"]
    assert (found.status, found.code, found.version, found.circuit) == (status, code, "1", None)
    assert found.latency_ms is not None
    assert bool(found.message) == (status == "failing")


@pytest.mark.parametrize(("sku", "status"), [("A-1", "healthy"), ("broken", "failing")])
async def test_a_sample_call_is_made_as_the_model_would_make_it(sku: str, status: str) -> None:
    found = await check(virtual(spec(func=stock, health_check={"sku": sku}, read_only=True)))
    assert found["t"].status == status


async def test_tools_that_say_nothing_or_write_are_not_asked_unless_that_is_wanted() -> None:
    calls: list[str] = []

    async def write(sku: str) -> None:
        calls.append(sku)

    engine = virtual(spec("silent"), spec("writes", {"sku": "x"}, write))
    found = await check(engine)
    assert {name: tool.status for name, tool in found.items()} == {"silent": "skipped", "writes": "skipped"}
    assert found["writes"].message == "its sample call may change something"
    assert (await check(engine, include_writing=True))["writes"].status == "healthy"
    assert calls == ["x"]


async def test_all_are_asked_at_once_each_with_the_same_limit() -> None:
    engine = virtual(*(spec(name, hangs) for name in "abc"), spec("d", well))
    found = await check(engine, timeout=3.0)
    assert engine.clock.monotonic() == 3.0
    assert [(tool.tool, tool.status, tool.latency_ms) for tool in found.values()] == [
        ("a", "failing", 3_000.0),
        ("b", "failing", 3_000.0),
        ("c", "failing", 3_000.0),
        ("d", "healthy", 0.0),
    ]


async def test_a_report_is_in_the_order_of_registration_whoever_was_asked() -> None:
    found = await check(virtual(spec("a", well), spec("b"), spec("c", sick), spec("d")))
    assert list(found) == ["a", "b", "c", "d"]


async def test_health_never_trips_a_circuit_and_an_open_one_does_not_keep_the_probe_from_asking() -> None:
    policy = BreakerPolicy.consecutive(1)
    engine = virtual(
        spec("sick", {"sku": "broken"}, stock, read_only=True, breaker=policy), spec("open", well, breaker=policy)
    )
    engine.circuits["open@1"].open()
    found = await check(engine)
    assert (found["sick"].status, found["sick"].circuit) == ("failing", "CLOSED")
    assert (found["open"].status, found["open"].circuit) == ("healthy", "OPEN")
    assert engine.circuits["sick@1"].metrics().buffered == 0


async def test_a_probe_needs_neither_approval_nor_a_rate_token_nor_a_slot_and_has_no_substitute() -> None:
    tool = spec(
        func=stock,
        health_check={"sku": "broken"},
        read_only=True,
        needs_approval=True,
        rate_limit=RateLimit(1, per=100.0),
        max_concurrency=1,
        fallback=FallbackPolicy(value=0, on_failure=True),
        max_retries=5,
    )
    busy = spec("busy", func=hangs)
    engine = virtual(tool, busy, max_concurrency=1)
    call = engine.start(ToolCall("busy"))
    await idle()
    for _ in range(3):
        found = (await check(engine))["t"]
        assert (found.status, found.code) == ("failing", "NETWORK_ERROR")
    assert engine.clock.monotonic() == 0.0
    call.cancel()
    await call


async def test_a_probe_is_seen_in_no_stream() -> None:
    watch = Watch()
    await check(virtual(spec(health_check=well), stages=Stages(publish=watch)))
    assert watch.events == []


@pytest.mark.parametrize("by", ["its own probe", "a sample call"])
async def test_a_probe_that_hangs_keeps_one_thread_and_not_another_at_every_check(by: str) -> None:
    stuck = Stuck()

    def ask() -> None:
        stuck()

    tool = spec(health_check=ask) if by == "its own probe" else spec(func=ask, health_check={}, read_only=True)
    engine = virtual(tool)
    try:
        for _ in range(3):
            with logged():
                report = await play(engine, engine.health_check(1.0), stuck)
            assert [tool.code for tool in report.tools] == ["TIMEOUT"]
        assert (stuck.count, engine.threads.busy) == (1, 1)
    finally:
        stuck.let_go()
    await until(lambda: engine.threads.busy == 0)
    assert (await check(engine))["t"].status == "healthy"


async def test_failing_and_recovery_are_told_once_for_each_change() -> None:
    state = {"well": False}
    heard: list[Alert] = []
    engine = virtual(spec("stock", lambda: state["well"], version="3"), spec("silent"))
    engine.on_alert(heard.append)
    for well_now in (True, False, False, True, True):
        state["well"] = well_now
        await check(engine)
    assert [(str(alert.kind), alert.tool, alert.version, alert.reason) for alert in heard] == [
        ("health_failing", "stock", "3", "EXECUTION_ERROR"),
        ("health_recovered", "stock", "3", "probe_passed"),
    ]


async def test_a_tool_that_was_replaced_while_it_failed_is_forgotten() -> None:
    engine = virtual(spec("t", sick))
    await check(engine)
    engine.register(spec("t", well), replace=True)
    assert engine._failing == set()
    assert (await check(engine))["t"].status == "healthy"


async def test_tools_may_come_and_go_while_the_probes_run() -> None:
    release = asyncio.Event()
    engine = virtual(spec("slow", release.wait), spec("b", well))
    task = asyncio.ensure_future(engine.health_check())
    await idle()
    engine.register(spec("new", well))
    engine.register(spec("b", sick), replace=True)
    release.set()
    assert [tool.tool for tool in (await task).tools] == ["slow", "b"]


async def test_every_version_is_asked_on_its_own() -> None:
    engine = virtual(spec("t", well), spec("t", sick, version="2", canary=10))
    with logged():
        report = await engine.health_check()
    assert [(tool.version, tool.status) for tool in report.tools] == [("1", "healthy"), ("2", "failing")]


async def test_a_check_that_is_cancelled_cancels_its_probes() -> None:
    engine = virtual(spec("t", hangs))
    task = asyncio.ensure_future(engine.health_check())
    await idle()
    assert len(engine.running) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.running == ()


async def test_a_closed_engine_asks_nobody_and_a_limit_must_be_a_time() -> None:
    engine = virtual(spec("t", well))
    with pytest.raises(ConfigurationError, match="timeout"):
        await engine.health_check(0)
    await engine.aclose()
    with pytest.raises(EngineClosedError):
        await engine.health_check()


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        (5, "health_check must be a function"),
        ({"sku": 5}, "would be refused"),
        (lambda *args: None, "args"),
    ],
)
def test_a_probe_that_could_never_work_is_refused_at_registration(probe: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ToolEngine([spec(func=stock, health_check=probe)])


def test_a_report_without_failures_is_healthy() -> None:
    assert HealthReport(()).is_healthy


# -- the command --------------------------------------------------------------------------------------------------------

TOOLS = """
from fsm_engine import BreakerPolicy, ToolSpec

async def stock(sku: str) -> int:
    if sku == "broken":
        raise ConnectionError("no answer\\x1b[31m from upstream")
    return 7

async def hang(sku: str) -> None:
    import asyncio
    await asyncio.get_running_loop().create_future()

WELL = ToolSpec(name="stock", func=stock, read_only=True, health_check={"sku": "A-1"}, breaker=BreakerPolicy())
SICK = ToolSpec(name="prices", func=stock, read_only=True, health_check={"sku": "broken"}, version="2")
WRITES = ToolSpec(name="order", func=stock, health_check={"sku": "broken"})
SLOW = ToolSpec(name="slow", func=hang, read_only=True, health_check={"sku": "x"})
SILENT = [ToolSpec(name="silent", func=stock)]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "desk_tools.py").write_text(TOOLS, encoding="utf-8")
    yield tmp_path
    sys.modules.pop("desk_tools", None)


def health(*names: str, options: tuple[str, ...] = ()) -> Any:
    references = [part for name in names for part in ("--tools", f"desk_tools:{name}")]
    return CliRunner().invoke(app, ["health", *references, *options], env={"COLUMNS": "160"})


@pytest.mark.parametrize(
    ("names", "options", "status", "words"),
    [
        (("WELL",), (), 0, ("stock", "healthy", "CLOSED", "1 tool: 1 healthy")),
        (("WELL", "SICK"), (), 1, ("prices", "failing", "NETWORK_ERROR", "2 tools: 1 healthy, 1 failing")),
        (("WRITES",), (), 0, ("skipped", "may change something", "1 tool: 1 skipped")),
        (("WRITES",), ("--include-writing",), 1, ("failing",)),
        (("SLOW",), ("--timeout", "0.01"), 1, ("TIMEOUT",)),
        (("SILENT",), (), 0, ("declares no health_check",)),
    ],
)
def test_the_command_prints_a_table_and_its_exit_status_tells(
    folder: Path, names: tuple[str, ...], options: tuple[str, ...], status: int, words: tuple[str, ...]
) -> None:
    done = health(*names, options=options)
    assert done.exit_code == status, done.output
    for word in words:
        assert word in done.output
    assert "\x1b" not in done.output


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--tools", "no_such_module:TOOLS"],
        ["--tools", "desk_tools:NOTHING"],
        ["--tools", "desk_tools:WELL", "--timeout", "0"],
        ["--tools", "desk_tools:WELL", "--unknown"],
    ],
)
def test_wrong_usage_of_the_command_has_exit_status_two(folder: Path, arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["health", *arguments]).exit_code == 2


def test_the_command_explains_itself() -> None:
    assert "exit status" in CliRunner().invoke(app, ["health", "--help"]).output
