"""Whoever watches changes nothing: every kind of watcher, whatever it raises."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pybreaker
import pytest
import structlog

from fsm_engine import CircuitBreaker, Stages, ToolEngine, VirtualClock, on_enter, on_exit, on_transition, tool

from .support import logged, play


class Odd(BaseException):
    """An exception that is no `Exception`."""


ERRORS: list[type[BaseException]] = [RuntimeError, SystemExit, asyncio.CancelledError, GeneratorExit, Odd]


def raising(kind: type[BaseException]) -> Callable[..., Any]:
    def watch(*_: Any, **__: Any) -> Any:
        raise kind("not so good")

    return watch


class Listener(pybreaker.CircuitBreakerListener):
    def __init__(self, kind: type[BaseException]) -> None:
        for name in ("before_call", "success", "failure", "state_change"):
            setattr(self, name, raising(kind))


class Storage(pybreaker.CircuitMemoryStorage):
    """A storage that cannot be reached."""

    kind: type[BaseException] | None = None

    @property
    def state(self) -> str:
        if self.kind is not None:
            raise self.kind("gone")
        return super().state

    @state.setter
    def state(self, state: str) -> None:
        if self.kind is not None:
            raise self.kind("gone")
        self._state = state


def watched(way: str, kind: type[BaseException]) -> ToolEngine:
    @tool(name="get")
    async def get() -> str:
        return "good"

    watch = raising(kind)
    hooks = {"on_enter": on_enter("COMPLETED", watch), "on_exit": on_exit("PENDING", watch)}
    settings: dict[str, Any] = {"clock": VirtualClock()}
    if way in hooks:
        settings["hooks"] = [hooks[way]]
    elif way == "on_transition":
        settings["hooks"] = [on_transition(watch)]
    elif way == "publish":
        settings["stages"] = Stages(publish=watch)
    return ToolEngine([get], **settings)


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("way", ["on_enter", "on_exit", "on_transition", "publish"])
async def test_no_watcher_of_a_call_changes_its_outcome_and_the_log_says_where_it_raised(
    way: str, kind: type[BaseException]
) -> None:
    with logged() as lines:
        engine = watched(way, kind)
        invocation = await play(engine, engine.execute_tool_call({"name": "get"}))
    assert (invocation.state, invocation.result) == ("COMPLETED", "good")
    (fault, *_) = [line for line in lines if line["log_level"] == "error"]
    assert fault["exception_type"] == kind.__name__
    assert f"{__file__}" in fault["detail"]


@pytest.mark.parametrize("kind", ERRORS)
async def test_a_processor_of_log_lines_changes_nothing(kind: type[BaseException]) -> None:
    structlog.configure(processors=[raising(kind)])
    try:
        engine = watched("none", kind)
        assert (await engine.invoke("get")).text == "good"
    finally:
        structlog.reset_defaults()


@pytest.mark.parametrize("kind", ERRORS)
def test_no_watcher_of_a_circuit_changes_what_a_call_gives(kind: type[BaseException]) -> None:
    storage = Storage(pybreaker.STATE_CLOSED)
    breaker = CircuitBreaker(state_storage=storage, listeners=[Listener(kind)], exclude=[raising(kind)])
    breaker.on_event(raising(kind))
    storage.kind = kind
    with logged() as lines:
        assert breaker.call(lambda: "good") == "good"
        with pytest.raises(ZeroDivisionError):
            breaker.call(lambda: 1 / 0)
        breaker.open()
        assert breaker.is_open
    assert {line["callback"] for line in lines if "callback" in line} >= {"state_storage", "success", "failure"}
    assert sum(line.get("callback") == "state_storage" and "gone" in line["detail"] for line in lines) <= 2


@pytest.mark.parametrize("kind", ERRORS)
def test_no_receiver_of_alerts_keeps_the_others_from_hearing(kind: type[BaseException]) -> None:
    heard: list[Any] = []
    engine = watched("none", kind)
    engine.on_alert(raising(kind))
    engine.on_alert(heard.append)
    engine._alerts.threads_short(next(iter(engine.registry)))
    assert len(heard) == 1


@pytest.mark.parametrize("way", ["on_enter", "publish"])
def test_the_word_of_the_person_at_the_terminal_passes(way: str) -> None:
    engine = watched(way, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(engine.execute_tool_call({"name": "get"}))
