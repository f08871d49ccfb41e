"""What can be known of a lifecycle, a hook or an activity when it is declared is said then; what stays here says so."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fsm_engine import (
    CIRCUIT,
    INVOCATION,
    ConfigurationError,
    Lifecycle,
    LifecycleMachine,
    ReentrantTransitionError,
    Row,
    State,
    ToolCall,
    ToolEngine,
    ToolError,
    gate,
    named,
    on_transition,
    tool,
)

from .support import idle, logged, virtual


@tool
async def ping() -> str:
    return "pong"


def nothing(event: object) -> None: ...


def no_parameter() -> None: ...


def two_parameters(one: object, two: object) -> None: ...


async def later(event: object) -> bool:
    return False


def looks_plain(event: object) -> Any:
    return later(event)


def pieces(event: object) -> Any:
    yield "go"


REVIEW = State("REVIEW")
TO_REVIEW = Row("REVIEW", "go", "FAILED")
REVIEWED = {"states": [REVIEW], "rows": [Row("VALIDATING", "accept", "REVIEW"), TO_REVIEW]}

REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "one hook as a text": (lambda: State("A", on_enter="announce"), r"on_enter of state A must be a tuple of names"),  # type: ignore[arg-type]  # on purpose
    "one watcher as a text": (lambda: INVOCATION.extended(on_transition="announce"), "on_transition must be a tuple"),
    "a gate that is no name": (lambda: State("A", gates=(nothing,)), "gates of state A must be a tuple of names"),  # type: ignore[arg-type]  # on purpose
    "a state as a text": (
        lambda: Lifecycle("x", "A", ("A",), (), perpetual=True),  # type: ignore[arg-type]  # on purpose
        r"states holds 'A', which is a str; write State\(",
    ),
    "a row as a tuple": (
        lambda: INVOCATION.extended(rows=[("A", "go", "B")]),  # type: ignore[list-item]  # on purpose
        r"rows holds \('A', 'go', 'B'\), which is a tuple; write Row\(",
    ),
    "an empty trigger": (lambda: Row("A", "", "B"), "the row from A to B has no trigger"),
    "no trigger": (lambda: Row("A", None, "B"), "trigger of a row must be a text, not None"),  # type: ignore[arg-type]  # on purpose
    "a number as a name": (lambda: State(7), "the name of a state must be a text, not 7"),  # type: ignore[arg-type]  # on purpose
    "an outcome that is none": (
        lambda: State("A", final=True, outcome=cast("Any", "good")),
        "must be one of result, error, cancelled",
    ),
    "a slip of the pen": (
        lambda: INVOCATION.extended(states=[REVIEW], rows=[Row("VALIDATING", "acept", "REVIEW"), TO_REVIEW]),
        "did you mean 'accept'?",
    ),
    "a slip for every state": (
        lambda: INVOCATION.extended(rows=[Row("*", "cancle", "CANCELLED")]),
        "did you mean 'cancel'?",
    ),
    "a trigger that the built-in activity never answers": (
        lambda: ToolEngine(
            lifecycle=INVOCATION.extended(states=[REVIEW], rows=[Row("VALIDATING", "review", "REVIEW"), TO_REVIEW]),
            activities={"REVIEW": lambda _: "go"},
        ),
        "nothing ever answers 'review' there",
    ),
    "a trigger that nobody answers anywhere": (
        lambda: ToolEngine(lifecycle=INVOCATION.extended(rows=[Row("*", "give_up", "FAILED")])),
        "nothing ever answers 'give_up' there",
    ),
    "a gate taken from a built-in state": (
        lambda: ToolEngine(lifecycle=without_hooks("VALIDATING")),
        "VALIDATING without its built-in check_arguments",
    ),
    "a lease that would never be given back": (
        lambda: ToolEngine(lifecycle=without_hooks("EXECUTING")),
        "EXECUTING without its built-in release_lease",
    ),
    "a way round the check of the arguments": (
        lambda: ToolEngine(lifecycle=INVOCATION.extended(rows=[Row("PENDING", "validate", "ADMITTING")])),
        "cannot be reached",
    ),
    "a second way round the check of the arguments": (
        lambda: ToolEngine(
            lifecycle=INVOCATION.extended(rows=[Row("PENDING", "skip", "ADMITTING")]),
            activities={"PENDING": lambda _: "skip"},
        ),
        "leads to EXECUTING past the gate 'check_arguments'",
    ),
    "a built-in hook given anew": (
        lambda: ToolEngine(hooks=[named("check_arguments", nothing)]),
        "'check_arguments' is built in; choose another name",
    ),
    "a named hook given twice": (
        lambda: ToolEngine(
            lifecycle=INVOCATION.extended(on_transition=["mine"]),
            hooks=[named("mine", nothing), named("mine", nothing)],
        ),
        "'mine' is given already",
    ),
    "a hook without a parameter": (lambda: ToolEngine(hooks=[on_transition(no_parameter)]), "with one argument"),  # type: ignore[arg-type]  # on purpose
    "a gate of two parameters": (lambda: ToolEngine(hooks=[gate("VALIDATING", two_parameters)]), "with one argument"),  # type: ignore[arg-type]  # on purpose
    "an activity for a final state": (
        lambda: ToolEngine(activities={"FAILED": lambda _: "go"}),
        "FAILED, which is final: nothing is done in it",
    ),
    "an activity that is no function": (
        lambda: ToolEngine(activities={"PENDING": "validate"}),  # type: ignore[dict-item]  # on purpose
        "the activity of PENDING must be a function, not str",
    ),
    "an activity without a parameter": (
        lambda: ToolEngine(activities={"PENDING": lambda: "validate"}),  # type: ignore[dict-item,misc]  # on purpose
        "the activity of PENDING cannot be called with one argument, the invocation",
    ),
    "an activity that is a generator": (lambda: ToolEngine(activities={"PENDING": pieces}), "is a generator function"),
    "a machine that is changed": (
        lambda: LifecycleMachine(CIRCUIT).add_transition("go", "OPEN", "CLOSED"),
        "'circuit' cannot be changed; make another machine of lifecycle.extended",
    ),
    "a machine of more states": (lambda: LifecycleMachine(CIRCUIT).add_states("X"), "'circuit' cannot be changed"),
}


def without_hooks(name: str) -> Lifecycle:
    bare = tuple(
        replace(state, gates=(), on_enter=(), on_exit=()) if state.name == name else state
        for state in INVOCATION.states
    )
    return replace(INVOCATION, states=bare)


@pytest.mark.parametrize(("build", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_refused_when_it_is_declared(build: Callable[[], Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        build()


def test_a_trigger_that_only_adds_to_a_word_is_no_slip() -> None:
    extended = CIRCUIT.extended(
        states=[State("TRIPLE")],
        rows=[Row("OPEN", "reopen", "TRIPLE")],
    )
    assert "reopen" in extended.triggers


@pytest.mark.parametrize("name", [state.name for state in INVOCATION.states])
def test_a_state_that_is_declared_anew_keeps_what_it_had(name: str) -> None:
    there = INVOCATION.by_name[name]
    after = INVOCATION.extended(states=[State(name, final=there.final, on_enter=("mine",))]).by_name[name]
    assert after == replace(there, on_enter=(*there.on_enter, "mine"))
    first = State("VALIDATING", gates=("mine", "check_arguments"))
    assert INVOCATION.extended(states=[first]).by_name["VALIDATING"].gates == ("mine", "check_arguments")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (None, None),
        (True, None),
        (False, "PERMISSION_DENIED"),
        (ToolError("CONFLICT", "not now"), "CONFLICT"),
        (0, "INTERNAL_ERROR"),
        ("no", "INTERNAL_ERROR"),
        (later, "INTERNAL_ERROR"),
    ],
    ids=["nothing", "yes", "no", "a ToolError", "zero", "a text", "something to await"],
)
@pytest.mark.parametrize("state", ["VALIDATING", "ADMITTING", "EXECUTING"])
async def test_what_a_gate_answers_is_never_taken_for_a_yes_that_it_is_not(state: str, answer: Any, code: str) -> None:
    hook = gate(state, lambda event: later(event) if answer is later else answer)
    with logged():
        invocation = await virtual(ping, hooks=[hook]).execute_tool_call(ToolCall("ping"))
    assert (None if invocation.error is None else invocation.error.code) == code
    assert bool(invocation.attempts) == (code is None)


async def test_an_observer_that_answers_something_to_await_is_logged() -> None:
    with logged() as lines:
        assert (await virtual(ping, hooks=[looks_plain]).invoke("ping")).text == "pong"
    assert {line["event"] for line in lines if line["log_level"] == "error"} == {"hook failed"}


def test_a_guard_that_answers_something_to_await_is_no_yes() -> None:
    lamp = Lifecycle(
        "lamp",
        "OFF",
        (State("OFF"), State("ON", final=True)),
        (Row("OFF", "press", "ON", guard="ready"),),
        guards={"ready": looks_plain},
    )
    model = SimpleNamespace(state="OFF")
    with pytest.raises(ConfigurationError, match="nothing awaits"):
        LifecycleMachine(lamp).fire(model, "press")
    assert model.state == "OFF"


# -- what can be sent elsewhere ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lifecycle", [INVOCATION, CIRCUIT], ids=lambda each: each.name)
def test_a_lifecycle_can_be_hashed_copied_and_pickled(lifecycle: Lifecycle) -> None:
    for again in (copy.copy(lifecycle), copy.deepcopy(lifecycle), pickle.loads(pickle.dumps(lifecycle))):
        assert again == lifecycle
        assert hash(again) == hash(lifecycle)
        assert again.moves == lifecycle.moves


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda each: each.__name__)
async def test_an_invocation_says_what_can_be_sent_instead(way: Callable[[Any], Any]) -> None:
    engine = virtual(ping)
    invocation = engine.start(ToolCall("ping"))
    with pytest.raises(TypeError, match="send its call, its response"):
        way(invocation)
    await invocation
    assert way(invocation.call)
    assert way(invocation.response)
    assert way(invocation.history)


async def test_an_invocation_of_another_loop_is_refused_in_words() -> None:
    engine = virtual(ping)
    invocation = engine.start(ToolCall("ping"))
    refused: list[BaseException] = []

    def elsewhere() -> None:
        import asyncio

        async def wait() -> None:
            await invocation

        try:
            asyncio.run(wait())
        except ConfigurationError as error:
            refused.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "runs in another event loop" in str(refused[0])
    await invocation
    await idle()


def test_of_two_threads_that_fire_one_model_one_is_told_of_the_other() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def hold(event: object) -> None:
        inside.set()
        assert go_on.wait(30)

    lamp = Lifecycle(
        "lamp",
        "OFF",
        (State("OFF"), State("ON", on_enter=("hold",))),
        (Row("OFF", "press", "ON"), Row("ON", "press", "OFF")),
        perpetual=True,
    )
    machine, model = LifecycleMachine(lamp, {"hold": hold}), SimpleNamespace(state="OFF")
    thread = threading.Thread(target=machine.fire, args=(model, "press"))
    thread.start()
    assert inside.wait(30)
    with pytest.raises(ReentrantTransitionError, match="while another thread moves the same model"):
        machine.fire(model, "press")
    go_on.set()
    thread.join()
    machine.fire(model, "press")
    assert model.state == "OFF"
