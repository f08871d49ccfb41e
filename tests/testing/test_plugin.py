"""The plugin in test suites of users: fixtures under every runner of coroutines, and the coverage of lifecycles."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fsm_engine import Stages, ToolCallEvent
from fsm_engine.testing import EventLog, PacedClock, Returns
from fsm_engine.testing.plugin import EngineFactory, ScriptedToolFactory

DOOR = """
from fsm_engine import Lifecycle, Row, State

DOOR = Lifecycle(
    name="door",
    initial="OPEN",
    states=(State("OPEN"), State("SHUT", on_enter=("creak",)), State("LOCKED", final=True)),
    rows=(
        Row("OPEN", "push", "SHUT"),
        Row("SHUT", "turn_key", "LOCKED", guard="has_key"),
        Row("SHUT", "pull", "OPEN"),
    ),
    guards={"has_key": lambda event: event.model.key},
)
"""
PUSH = """
from types import SimpleNamespace
from doors import DOOR
from fsm_engine import LifecycleMachine

def test_push():
    machine, model = LifecycleMachine(DOOR, {"creak": lambda event: None}), SimpleNamespace(state="OPEN", key=True)
    machine.fire(model, "push")
    machine.fire(model, "turn_key")
"""
MISSING = [
    "door: 4 of 6 (66.6 %)",
    "  rows never taken:",
    "    SHUT --pull--> OPEN",
    "  guard outcomes never seen:",
    "    SHUT --turn_key [has_key]--> LOCKED: has_key does not pass",
]


def run(folder: Path, *options: str, **files: str) -> tuple[int, list[str]]:
    """Run pytest over files in a folder of their own, as a user would; the exit status and what it printed."""
    for name, text in files.items():
        file = folder / (f"{name}.ini" if name == "pytest" else f"{name}.py")
        file.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    return done.returncode, [*done.stdout.splitlines(), *done.stderr.splitlines()]


async def test_engines_tell_time_by_the_virtual_clock_and_log_their_events(
    engine_factory: EngineFactory,
    scripted_tool: ScriptedToolFactory,
    virtual_clock: PacedClock,
    event_log: EventLog,
) -> None:
    first, second = engine_factory(scripted_tool(Returns(1))), engine_factory(scripted_tool(Returns(2)))
    assert first.clock is second.clock is virtual_clock
    one = await first.execute_tool_call({"name": "scripted"})
    two = await second.execute_tool_call({"name": "scripted"})
    assert event_log.types(one) == event_log.types(two)
    assert event_log.types(one)[0] == "tool_call"
    assert event_log.types(one)[-1] == "tool_result"
    assert event_log.counts()["tool_result"] == 2
    assert event_log.types() == [event.type for event in event_log.events]
    assert len(event_log) == 2 * len(event_log.of(one))
    event_log.clear()
    assert len(event_log) == 0


async def test_a_publish_stage_of_ones_own_hears_the_events_too(
    engine_factory: EngineFactory, scripted_tool: ScriptedToolFactory, event_log: EventLog
) -> None:
    own = EventLog()
    engine = engine_factory(scripted_tool(Returns(1)), stages=Stages(publish=own))
    await engine.invoke("scripted")
    assert own.events == event_log.events
    assert isinstance(own.events[0], ToolCallEvent)


ANY_RUNNER = """
import asyncio
import pytest
from fsm_engine.testing import Delays, Hangs, Raises, Returns, assert_path

async def go(engine_factory, scripted_tool, virtual_clock):
    slow = scripted_tool(Raises(ConnectionError()), [Delays(50.0), Returns(1)], max_retries=1, read_only=True)
    stuck = scripted_tool(Hangs(), name="stuck", thread=True)
    engine = engine_factory(slow, stuck)
    one, two = await engine.execute_tool_calls([{"name": "scripted"}, {"name": "stuck"}])
    assert_path(one, "PENDING > ... > RETRYING > ... > COMPLETED")
    assert_path(two, "PENDING > ... > EXECUTING > FAILED")
    assert virtual_clock.monotonic() >= 60.0
"""


@pytest.mark.parametrize(
    "test",
    [
        """
def test_it(engine_factory, scripted_tool, virtual_clock):
    asyncio.run(go(engine_factory, scripted_tool, virtual_clock))
""",
        """
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_it(engine_factory, scripted_tool, virtual_clock):
    await go(engine_factory, scripted_tool, virtual_clock)
""",
    ],
    ids=["asyncio.run", "anyio"],
)
def test_fixtures_serve_every_runner(tmp_path: Path, test: str) -> None:
    status, lines = run(tmp_path, test_it=ANY_RUNNER + test)
    assert status == 0, "\n".join(lines)


def test_coverage_lists_what_is_missing_of_every_lifecycle_that_ran(tmp_path: Path) -> None:
    status, lines = run(tmp_path, "--fsm-coverage", doors=DOOR, test_push=PUSH)
    assert status == 0, "\n".join(lines)
    begin = lines.index(MISSING[0])
    assert lines[begin : begin + len(MISSING)] == MISSING
    assert any(line.startswith("circuit: 0 of") and line.endswith("it never ran") for line in lines)


def test_a_lifecycle_that_never_ran_is_told_of_and_counts_where_it_is_named(tmp_path: Path) -> None:
    limit = ("--fsm-coverage", "--fsm-coverage-fail-under", "60")
    status, lines = run(tmp_path, *limit, doors=DOOR, test_push=PUSH)
    assert status == 0, "\n".join(lines)
    ini = "[pytest]\nfsm_coverage_lifecycles = doors:DOOR circuit\n"
    status, lines = run(tmp_path, *limit, doors=DOOR, test_push=PUSH, pytest=ini)
    assert status == 1, "\n".join(lines)
    assert "FAIL circuit: 0 % is less than 60 %" in lines


@pytest.mark.parametrize(("limit", "status"), [("66", 0), ("67", 1)])
def test_a_run_that_exercises_too_little_fails(tmp_path: Path, limit: str, status: int) -> None:
    ini = "[pytest]\nfsm_coverage_lifecycles = doors:DOOR\n"
    found, lines = run(
        tmp_path, "--fsm-coverage", "--fsm-coverage-fail-under", limit, doors=DOOR, test_push=PUSH, pytest=ini
    )
    assert found == status, "\n".join(lines)
    assert ("FAIL door: 66.6 % is less than 67 %" in lines) == bool(status)
    assert not [line for line in lines if line.startswith("circuit")]


@pytest.mark.parametrize(
    ("options", "ini", "complaint"),
    [
        (("--fsm-coverage-fail-under", "90"), "", "--fsm-coverage-fail-under needs --fsm-coverage"),
        (("--fsm-coverage",), "doors:WINDOW", "WINDOW of the module doors is no Lifecycle"),
        (("--fsm-coverage",), "nothing", "there is no lifecycle 'nothing'"),
    ],
)
def test_wrong_settings_are_refused_before_anything_runs(
    tmp_path: Path, options: tuple[str, ...], ini: str, complaint: str
) -> None:
    text = f"[pytest]\nfsm_coverage_lifecycles = {ini}\n"
    status, lines = run(tmp_path, *options, doors=DOOR, test_push=PUSH, pytest=text)
    assert status == pytest.ExitCode.USAGE_ERROR, "\n".join(lines)
    assert any(complaint in line for line in lines)
    assert not any("1 passed" in line for line in lines)
