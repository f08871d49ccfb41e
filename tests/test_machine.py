"""How a lifecycle is run: which hooks are asked for, in which order they run, and what a refusal leaves behind."""

from __future__ import annotations

import copy
import pickle
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from fsm_engine.errors import LifecycleError, ReentrantTransitionError, TransitionRefusedError
from fsm_engine.machine.checks import ANY_UNFINISHED
from fsm_engine.machine.lifecycle import Lifecycle, Row, State
from fsm_engine.machine.machine import Firing, LifecycleMachine


def is_ready(event: Firing) -> bool:
    return bool(event.model.ready)


DOOR = Lifecycle(
    name="door",
    initial="OPEN",
    states=(
        State("OPEN", on_exit=("sigh", "creak")),
        State("SHUT", gates=("inspect", "weigh"), on_enter=("greet", "creak")),
        State("GONE", final=True),
    ),
    rows=(
        Row("OPEN", "push", "GONE", guard="is_broken"),
        Row("OPEN", "push", "SHUT", guard="is_ready"),
        Row("SHUT", "pull", "OPEN"),
        Row("SHUT", "knock", "SHUT"),
        Row(ANY_UNFINISHED, "burn", "GONE"),
    ),
    guards={"is_ready": is_ready, "is_broken": lambda event: event.model.broken},
    on_transition=("log", "count"),
)


def door(**facts: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"state": "OPEN", "ready": True, "broken": False, **facts})


def silent(**hooks: Callable[[Any], object]) -> dict[str, Callable[[Any], object]]:
    """Hooks for the door that do nothing, but for those given."""
    return {**dict.fromkeys(DOOR.hook_names, lambda event: None), **hooks}


def recording() -> tuple[LifecycleMachine, list[tuple[str, str]]]:
    """A machine whose hooks note their name and the state that they see."""
    log: list[tuple[str, str]] = []

    def hook(name: str) -> Callable[[Firing], None]:
        return lambda event: log.append((name, event.model.state))

    return LifecycleMachine(DOOR, {name: hook(name) for name in DOOR.hook_names}), log


# -- what a machine is made of --------------------------------------------------------------------------------------


def test_missing_hooks_are_named() -> None:
    hooks = silent()
    del hooks["greet"], hooks["count"]
    with pytest.raises(
        LifecycleError, match=r"'door' names hooks that were not given: count, greet\. Give the function"
    ):
        LifecycleMachine(DOOR, hooks)


def test_without_any_hooks_all_are_missing() -> None:
    with pytest.raises(LifecycleError, match="not given: count, creak, greet, inspect, log, sigh, weigh"):
        LifecycleMachine(DOOR)


def test_hooks_that_the_lifecycle_does_not_name_are_refused() -> None:
    """A misspelt name is told, not left to do nothing."""
    with pytest.raises(LifecycleError, match=r"'door' does not name: great, lag\. It names: count, creak, greet"):
        LifecycleMachine(DOOR, silent(great=print, lag=print))


def test_a_lifecycle_without_hooks_takes_none() -> None:
    lamp = Lifecycle("lamp", "ON", (State("ON"), State("OFF", final=True)), (Row("ON", "press", "OFF"),))
    with pytest.raises(LifecycleError, match=r"does not name: log\. It names: none\."):
        LifecycleMachine(lamp, {"log": print})
    model = SimpleNamespace(state="ON")
    LifecycleMachine(lamp).fire(model, "press")
    assert model.state == "OFF"


@pytest.mark.parametrize("hook", ["print", None])
def test_a_hook_that_is_no_function_is_refused_when_the_machine_is_made(hook: Any) -> None:
    with pytest.raises(LifecycleError, match=f"{hook!r} is not a function"):
        LifecycleMachine(DOOR, silent(greet=hook))


# -- what runs, and when --------------------------------------------------------------------------------------------


def test_order_of_hooks_and_the_state_that_each_sees() -> None:
    """Exit hooks, the state is set, gates, enter hooks, and last what watches every transition."""
    machine, log = recording()
    machine.fire(door(), "push")
    assert log == [
        ("sigh", "OPEN"),
        ("creak", "OPEN"),
        ("inspect", "SHUT"),
        ("weigh", "SHUT"),
        ("greet", "SHUT"),
        ("creak", "SHUT"),
        ("log", "SHUT"),
        ("count", "SHUT"),
    ]


def test_a_row_into_its_own_state_leaves_and_enters_it() -> None:
    machine, log = recording()
    machine.fire(door(state="SHUT"), "knock")
    assert [name for name, _ in log] == ["inspect", "weigh", "greet", "creak", "log", "count"]


def test_the_first_row_whose_guard_passes_is_taken_and_later_guards_are_not_asked() -> None:
    asked: list[str] = []

    def guard(name: str, answer: bool) -> Callable[[Any], bool]:
        def ask(event: Firing) -> bool:
            asked.append(name)
            return answer

        return ask

    forks = Lifecycle(
        name="forks",
        initial="FORK",
        states=(State("FORK"), *(State(name, final=True) for name in ("A", "B", "C", "D"))),
        rows=(
            Row("FORK", "go", "A", guard="a"),
            Row("FORK", "go", "B", guard="b"),
            Row("FORK", "go", "C", guard="c"),
            Row("FORK", "go", "D"),
        ),
        guards={"a": guard("a", False), "b": guard("b", True), "c": guard("c", True)},
    )
    model = SimpleNamespace(state="FORK")
    LifecycleMachine(forks).fire(model, "go")
    assert (model.state, asked) == ("B", ["a", "b"])


def test_what_guards_and_hooks_are_told() -> None:
    model = door()
    told: list[tuple[str, Any, Row, str, str, str, str]] = []

    def note(name: str) -> Callable[[Firing], None]:
        return lambda e: told.append((name, e.model, e.row, e.source, e.trigger, e.dest, e.state.name))

    def guard(event: Firing) -> bool:
        note("guard")(event)
        return True

    watched = DOOR.extended(rows=[Row("OPEN", "push", "GONE", guard="nosy")], guards={"nosy": guard})
    LifecycleMachine(watched, silent(sigh=note("exit"), log=note("log"))).fire(door(ready=False), "push")
    row = watched.rows_from("OPEN", "push")[-1]
    assert [entry[0] for entry in told] == ["guard", "exit", "log"]
    assert [entry[2:] for entry in told] == [
        (row, "OPEN", "push", "GONE", "OPEN"),
        (row, "OPEN", "push", "GONE", "OPEN"),
        (row, "OPEN", "push", "GONE", "GONE"),
    ]
    told.clear()
    LifecycleMachine(DOOR, silent(greet=note("enter"))).fire(model, "push")
    assert told == [("enter", model, DOOR.rows[1], "OPEN", "push", "SHUT", "SHUT")]


def test_a_wildcard_row_is_told_with_the_state_that_is_left() -> None:
    told: list[Firing] = []
    LifecycleMachine(DOOR, silent(log=told.append)).fire(door(state="SHUT"), "burn")
    assert told[0].row == Row("SHUT", "burn", "GONE")


def test_what_a_firing_shares_with_all_others_cannot_be_changed() -> None:
    """There is a tuple and a mapping of arguments, since `transitions` has them; both are empty."""
    told: list[Firing] = []
    LifecycleMachine(DOOR, silent(log=told.append)).fire(door(), "push")
    [event] = told
    assert (event.args, event.kwargs, event.error, event.result) == ((), {}, None, True)
    with pytest.raises(TypeError):
        event.kwargs["note"] = 1  # type: ignore[index]  # what the test is about


def test_one_machine_serves_many_models() -> None:
    """Also one from within a hook of another, its equal: what counts is which object is being moved."""
    first, second = door(), door()
    assert first == second
    machine = LifecycleMachine(DOOR, silent(sigh=lambda event: event.model is first and machine.fire(second, "burn")))
    machine.fire(first, "push")
    assert (first.state, second.state) == ("SHUT", "GONE")
    machine.fire(first, "pull")
    assert (first.state, second.state) == ("OPEN", "GONE")


def test_nothing_is_kept_of_a_model() -> None:
    """The machine lives as long as the engine; what has ended is freed at once, also after a refusal."""

    class Model(SimpleNamespace):
        """One that can be watched."""

    machine, _ = recording()
    model = Model(**vars(door()))
    machine.fire(model, "push")
    with pytest.raises(TransitionRefusedError):
        machine.fire(model, "push")
    assert vars(model) == vars(door(state="SHUT"))
    kept = weakref.ref(model)
    del model
    assert kept() is None


# -- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "trigger", "allowed", "text"),
    [
        ("OPEN", "pull", ("push", "burn"), "'pull' is not allowed in state 'OPEN'; allowed is push, burn"),
        (
            "SHUT",
            "push",
            ("pull", "knock", "burn"),
            "'push' is not allowed in state 'SHUT'; allowed is pull, knock, burn",
        ),
        ("OPEN", "sing", ("push", "burn"), "'sing' is not allowed in state 'OPEN'; allowed is push, burn"),
        ("GONE", "burn", (), "'burn' is not allowed in state 'GONE'; allowed is nothing, it is final"),
    ],
)
def test_a_trigger_without_a_row_is_refused(state: str, trigger: str, allowed: tuple[str, ...], text: str) -> None:
    machine, log = recording()
    model = door(state=state)
    with pytest.raises(TransitionRefusedError) as refused:
        machine.fire(model, trigger)
    error = refused.value
    assert (error.state, error.trigger, error.allowed, error.guards, str(error)) == (state, trigger, allowed, (), text)
    assert error.__suppress_context__
    assert (model, log) == (door(state=state), [])
    assert str(pickle.loads(pickle.dumps(error))) == text


def test_when_no_guard_passes_the_refusal_names_them_all() -> None:
    machine, log = recording()
    model = door(ready=False)
    with pytest.raises(TransitionRefusedError) as refused:
        machine.fire(model, "push")
    error = refused.value
    assert (error.state, error.trigger, error.guards) == ("OPEN", "push", ("is_broken", "is_ready"))
    assert str(error) == "'push' leads nowhere in state 'OPEN': no guard passed (is_broken, is_ready)"
    assert (model, log) == (door(ready=False), [])
    model.ready = True
    machine.fire(model, "push")
    assert model.state == "SHUT"


def test_a_guard_that_raises_leaves_everything_as_it_was() -> None:
    machine, log = recording()
    model = door()
    del model.ready
    before = copy.copy(model)
    with pytest.raises(AttributeError, match="ready"):
        machine.fire(model, "push")
    assert (model, log) == (before, [])
    model.ready = True
    machine.fire(model, "push")
    assert model.state == "SHUT"


def test_a_key_error_of_a_guard_is_not_taken_for_a_missing_row() -> None:
    def broken(event: Firing) -> bool:
        raise KeyError("push")

    odd = DOOR.extended(rows=[Row("SHUT", "pull", "GONE", guard="broken")], guards={"broken": broken})
    with pytest.raises(KeyError):
        LifecycleMachine(odd, silent()).fire(door(state="SHUT"), "pull")


@pytest.mark.parametrize(("name", "state"), [("sigh", "OPEN"), ("inspect", "SHUT"), ("greet", "SHUT"), ("log", "SHUT")])
def test_a_hook_that_raises_goes_through_and_the_machine_goes_on(name: str, state: str) -> None:
    """The state is that of the moment; whoever builds the machine wraps the hooks if that is not wanted."""

    troubles = [LookupError("no bell")]

    def raising(event: Firing) -> None:
        if troubles:
            raise troubles.pop()

    machine = LifecycleMachine(DOOR, silent(**{name: raising}))
    model = door()
    with pytest.raises(LookupError, match="no bell"):
        machine.fire(model, "push")
    assert model.state == state
    machine.fire(model, "burn")  # not taken for a firing within a firing
    assert model.state == "GONE"


# -- firing within a firing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sigh", "inspect", "greet", "log"])
@pytest.mark.parametrize("trigger", ["burn", "push", "no such trigger"])
def test_a_hook_that_fires_for_the_model_being_moved_is_refused(name: str, trigger: str) -> None:
    caught: list[ReentrantTransitionError] = []

    def firing(event: Firing) -> None:
        with pytest.raises(ReentrantTransitionError, match=f"'{trigger}' was fired .* while door moves") as refused:
            event.machine.fire(event.model, trigger)
        caught.append(refused.value)

    machine = LifecycleMachine(DOOR, silent(**{name: firing}))
    model = door()
    machine.fire(model, "push")
    assert (model.state, len(caught)) == ("SHUT", 1)  # the refusal was caught, and the outer move goes on
    machine.fire(model, "pull")
    assert model.state == "OPEN"


def test_a_refused_firing_from_a_hook_goes_through_unless_caught_and_the_machine_stays_usable() -> None:
    machine = LifecycleMachine(DOOR, silent(sigh=lambda event: machine.fire(event.model, "burn")))
    model = door()
    for _ in range(2):
        with pytest.raises(ReentrantTransitionError):
            machine.fire(model, "push")
        assert model.state == "OPEN"
    other = door(state="SHUT")
    machine.fire(other, "burn")
    assert other.state == "GONE"


def test_a_guard_that_fires_for_the_model_being_moved_is_refused() -> None:
    def firing(event: Firing) -> bool:
        event.machine.fire(event.model, "burn")
        return True

    odd = DOOR.extended(rows=[Row("SHUT", "pull", "GONE", guard="firing")], guards={"firing": firing})
    machine = LifecycleMachine(odd, silent())
    model = door(state="SHUT")
    with pytest.raises(ReentrantTransitionError):
        machine.fire(model, "pull")
    assert model.state == "SHUT"
    machine.fire(model, "burn")
    assert model.state == "GONE"


def test_triggers_from_lists_a_states_triggers_in_the_order_of_the_table() -> None:
    machine, _ = recording()
    assert machine.triggers_from("SHUT") == ("pull", "knock", "burn")
    assert machine.triggers_from("GONE") == ()
