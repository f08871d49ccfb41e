"""The pytest plugin: fixtures for scripted tools in virtual time, and the coverage of lifecycles.

It registers itself where `fsm_engine` is installed (`-p no:fsm_engine` leaves it out). The fixtures are plain ones, so
tests may be plain functions that call `asyncio.run`, or coroutines run by pytest-asyncio, anyio or a runner of one's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import pytest

from ..diagram.lookup import find_lifecycle
from ..engine.engine import ToolEngine
from ..errors.exceptions import ConfigurationError
from ..events.types import Event
from ..invocation.stages import Stages, publish_nothing
from ..machine.lifecycle import Lifecycle
from ..tools.spec import ToolSpec
from .clock import PacedClock
from .coverage import LifecycleCoverage, Recorder, shown
from .event_log import EventLog
from .script import Action, ScriptedTool, scripted

_RECORDER = pytest.StashKey[Recorder]()
_NAMED = pytest.StashKey[Iterable[Lifecycle]]()
_RESULTS = pytest.StashKey[list[LifecycleCoverage]]()


class EngineFactory(Protocol):
    """What the fixture `engine_factory` gives."""

    def __call__(self, *tools: Any, **settings: Any) -> ToolEngine:
        """An engine in virtual time, with these tools and settings of `ToolEngine`."""
        ...


class ScriptedToolFactory(Protocol):
    """What the fixture `scripted_tool` gives: `fsm_engine.testing.scripted`."""

    def __call__(
        self,
        *attempts: Action | Iterable[Action],
        name: str = "scripted",
        like: Callable[..., Any] | ToolSpec | None = None,
        thread: bool = False,
        **settings: Any,
    ) -> ScriptedTool:
        """A tool that follows a script."""
        ...


@pytest.fixture
def virtual_clock() -> PacedClock:
    """Time that passes at once; it begins at 0."""
    return PacedClock()


@pytest.fixture
def event_log() -> EventLog:
    """The events of every engine that `engine_factory` makes in this test."""
    return EventLog()


@pytest.fixture
def engine_factory(virtual_clock: PacedClock, event_log: EventLog) -> Iterator[EngineFactory]:
    """Makes engines in virtual time whose events are logged; what they run on is put away after the test."""
    engines: list[ToolEngine] = []

    def make(*tools: Any, **settings: Any) -> ToolEngine:
        stages: Stages = settings.pop("stages", None) or Stages()
        engine = ToolEngine(
            tools,
            **{"clock": virtual_clock, "stages": replace(stages, publish=_both(stages.publish, event_log)), **settings},
        )
        if isinstance(engine.clock, PacedClock):
            engine.clock.watch(engine)
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.close()


@pytest.fixture
def scripted_tool() -> Iterator[ScriptedToolFactory]:
    """Makes tools that follow a script; those that hang are let go after the test."""
    tools: list[ScriptedTool] = []

    def make(*attempts: Any, **settings: Any) -> ScriptedTool:
        made = scripted(*attempts, **settings)
        tools.append(made)
        return made

    yield make
    for each in tools:
        each.release()


def _both(first: Callable[[Event], None], second: Callable[[Event], None]) -> Callable[[Event], None]:
    if first is publish_nothing:
        return second

    def publish(event: Event) -> None:
        second(event)
        first(event)

    return publish


# -- coverage ----------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the coverage."""
    group = parser.getgroup("fsm_engine", "lifecycles (fsm_engine)")
    group.addoption(
        "--fsm-coverage",
        action="store_true",
        help="Say which rows, guard outcomes and hooks of lifecycles the run has not exercised.",
    )
    group.addoption(
        "--fsm-coverage-fail-under",
        type=float,
        metavar="PERCENT",
        help="With --fsm-coverage: fail if less of any lifecycle was exercised.",
    )
    parser.addini(
        "fsm_coverage_lifecycles",
        type="args",
        help="Lifecycles that --fsm-coverage reports: invocation, circuit, or module:name; without it every one that ran.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin before any conftest is imported: a machine may be made as its module is."""
    if early_config.known_args_namespace.fsm_coverage:
        recorder = early_config.stash[_RECORDER] = Recorder()
        recorder.start()


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a limit that nothing would be compared with."""
    if config.option.fsm_coverage_fail_under is not None and not config.option.fsm_coverage:
        raise pytest.UsageError("--fsm-coverage-fail-under needs --fsm-coverage")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Find the lifecycles before anything runs."""
    if session.config.option.fsm_coverage:
        try:
            session.config.stash[_NAMED] = [
                find_lifecycle(name) for name in session.config.getini("fsm_coverage_lifecycles")
            ]
        except ConfigurationError as error:
            raise pytest.UsageError(f"fsm_coverage_lifecycles: {error}") from None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that has exercised too little."""
    config = session.config
    if _RECORDER in config.stash and _NAMED in config.stash:
        results = config.stash[_RESULTS] = config.stash[_RECORDER].report(config.stash[_NAMED])
        if _fallen_short(config, results) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say what is missing."""
    results = config.stash.get(_RESULTS, None)
    if results is None:
        return
    terminalreporter.section("coverage of lifecycles", sep="-")
    for result in results:
        for line in result.report():
            terminalreporter.write_line(line)
    if not results:
        terminalreporter.write_line("no machine of any lifecycle was made")
    for result in _fallen_short(config, results):
        limit = config.option.fsm_coverage_fail_under
        terminalreporter.write_line(
            f"FAIL {result.lifecycle.name}: {shown(result.percent)} % is less than {limit:g} %", red=True
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the machine as it was."""
    recorder = config.stash.get(_RECORDER, None)
    if recorder is not None:
        recorder.stop()


def _fallen_short(config: pytest.Config, results: Iterable[LifecycleCoverage]) -> list[LifecycleCoverage]:
    """A lifecycle that never ran counts if it is named, or if none ran at all: the circuit's is there whoever uses it."""
    limit = config.option.fsm_coverage_fail_under
    if limit is None:
        return []
    found = list(results)
    ran = [result for result in found if result.has_run]
    counted = found if config.stash[_NAMED] else ran or found
    return [result for result in counted if result.percent < limit]
