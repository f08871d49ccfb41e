"""How hooks are read, placed, ordered and kept apart."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from fsm_engine import (
    INVOCATION,
    ConfigurationError,
    Firing,
    State,
    ToolCall,
    ToolEngine,
    ToolError,
    gate,
    named,
    on_enter,
    on_exit,
    on_transition,
    tool,
)
from fsm_engine.hooks.specs import HookSpec

from .support import logged, virtual


@tool
async def ping() -> str:
    return "pong"


def noting(notes: list[str], name: str) -> Any:
    def note(event: Firing) -> None:
        notes.append(f"{name}:{event.source}>{event.dest}")

    return note


async def test_hooks_run_in_the_order_of_the_machine_and_then_as_written() -> None:
    """Leaving, gates, entering, transition."""
    notes: list[str] = []
    hooks = [
        on_transition(noting(notes, "transition")),
        on_enter("ADMITTING", noting(notes, "enter 1")),
        gate("ADMITTING", noting(notes, "gate 1")),
        on_exit("VALIDATING", noting(notes, "exit")),
        gate("ADMITTING", noting(notes, "gate 2")),
        on_enter("ADMITTING", noting(notes, "enter 2")),
    ]
    await virtual(ping, hooks=hooks).invoke("ping")
    about = [note.split(":")[0] for note in notes if note.endswith("VALIDATING>ADMITTING")]
    assert about == ["exit", "gate 1", "gate 2", "enter 1", "enter 2", "transition"]


async def test_a_refusal_spares_the_gates_after_it_and_not_the_observers() -> None:
    notes: list[str] = []

    def refuse(event: Firing) -> None:
        raise ToolError("PERMISSION_DENIED", "closed", reason="closed")

    hooks = [
        gate("VALIDATING", refuse),
        gate("VALIDATING", noting(notes, "gate")),
        on_enter("VALIDATING", noting(notes, "enter")),
    ]
    invocation = await virtual(ping, hooks=hooks).execute_tool_call(ToolCall("ping"))
    assert notes == ["enter:PENDING>VALIDATING"]
    assert invocation.error is not None
    assert invocation.error.reason == "closed"
    assert invocation.path == ("PENDING", "VALIDATING", "FAILED")


@pytest.mark.parametrize("state", ["VALIDATING", "ADMITTING", "EXECUTING"])
async def test_a_gate_of_any_state_ends_the_call_before_the_tool_runs(state: str) -> None:
    def refuse(event: Firing) -> None:
        raise ToolError("CONFLICT", "not now")

    invocation = await virtual(ping, hooks=[gate(state, refuse)]).execute_tool_call(ToolCall("ping"))
    assert invocation.path[-2:] == (state, "FAILED")
    assert invocation.attempts == []
    assert invocation.error is not None
    assert invocation.error.code == "CONFLICT"


async def test_an_objects_methods_watch_every_state() -> None:
    class Watcher:
        def __init__(self) -> None:
            self.entered: list[str] = []
            self.left: list[str] = []
            self.taken: list[str] = []

        def on_enter(self, event: Firing) -> None:
            self.entered.append(event.dest)

        def on_exit(self, event: Firing) -> None:
            self.left.append(event.source)

        def on_transition(self, event: Firing) -> None:
            self.taken.append(event.trigger)

    watcher = Watcher()
    await virtual(ping, hooks=[watcher]).invoke("ping")
    assert watcher.entered == ["VALIDATING", "ADMITTING", "EXECUTING", "COMPLETED"]
    assert watcher.left == ["PENDING", "VALIDATING", "ADMITTING", "EXECUTING"]
    assert watcher.taken == ["validate", "accept", "admit", "succeed"]


async def test_the_same_function_may_hang_in_several_places_and_several_times() -> None:
    notes: list[str] = []
    note = noting(notes, "n")
    await virtual(ping, hooks=[note, note, on_enter("EXECUTING", note), functools.partial(note)]).invoke("ping")
    assert len(notes) == 4 * 3 + 1


def test_hooks_show_in_the_lifecycle_of_the_engine_by_their_names() -> None:
    def my_gate(event: Firing) -> None: ...

    engine = ToolEngine(hooks=[gate("VALIDATING", my_gate), my_gate])
    state = engine.lifecycle.by_name["VALIDATING"]
    assert [name.rpartition(".")[2] for name in state.gates] == ["check_arguments", "my_gate"]
    assert engine.lifecycle.on_transition[-1].endswith("my_gate (2)")
    assert INVOCATION.by_name["VALIDATING"].gates == ("check_arguments",)


async def test_a_hook_that_fires_is_refused_and_the_invocation_goes_on() -> None:
    engine: ToolEngine

    def fires(event: Firing) -> None:
        event.machine.fire(event.model, "abort")

    with logged() as lines:
        engine = virtual(ping, hooks=[fires])
        assert (await engine.invoke("ping")).text == "pong"
    assert {line["exception_type"] for line in lines if line["event"] == "hook failed"} == {"ReentrantTransitionError"}


async def test_a_named_observer_is_isolated_and_a_named_gate_decides() -> None:
    def broken(event: Firing) -> None:
        raise ToolError("CONFLICT", "no")

    lifecycle = INVOCATION.extended(
        states=[
            State("RETRYING", on_enter=("mine",)),
            State("VALIDATING", gates=("check_arguments",), on_enter=("mine",)),
        ]
    )
    with logged():
        engine = virtual(ping, lifecycle=lifecycle, hooks=[named("mine", broken)])
        assert (await engine.invoke("ping")).text == "pong"
        lifecycle = INVOCATION.extended(states=[State("VALIDATING", gates=("check_arguments", "mine"))])
        engine = virtual(ping, lifecycle=lifecycle, hooks=[named("mine", broken)])
        response = await engine.invoke("ping")
    assert response.error_info is not None
    assert response.error_info.code == "CONFLICT"


def test_what_a_hook_spec_may_be() -> None:
    with pytest.raises(ConfigurationError, match="must be a function, not NoneType"):
        ToolEngine(hooks=[HookSpec("on_transition", None)])  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ConfigurationError, match="a hook is a function, an object with on_enter"):
        ToolEngine(hooks=["log"])
