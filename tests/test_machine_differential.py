"""`CompiledEvent` beside the stock `transitions.Machine`: same tables, same triggers, same observations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from transitions import EventData, Machine, MachineError
from transitions import State as MachineState

from fsm_engine.errors import LifecycleError
from fsm_engine.machine.machine import CompiledEvent, Firing

STATES = ["A", "B", "C"]
TRIGGERS = ["go", "stop"]
SLOTS = ["prepare_event", "before_state_change", "after_state_change", "on_final"]


class CompiledMachine(Machine):
    event_cls = CompiledEvent


class BoomError(Exception):
    """What a callback raises."""


class Halt(BaseException):
    """What a callback raises that no `except Exception` sees."""


@dataclass(frozen=True)
class Callback:
    """What a callback answers or raises at its first, second, ... call; after the last it begins again."""

    name: str
    script: tuple[Any, ...]


@dataclass(frozen=True)
class RowPlan:
    trigger: str
    source: str
    dest: str | None
    callbacks: dict[str, list[Callback]]


@dataclass(frozen=True)
class Plan:
    """A machine to build twice."""

    finals: frozenset[str]
    states: dict[str, dict[str, list[Callback]]]
    rows: list[RowPlan]
    machine: dict[str, list[Callback]]
    ignore_invalid: bool | None


ANSWERS = st.sampled_from([True, True, True, False, None, 0, 1, "yes", BoomError, Halt])


@st.composite
def callbacks(draw: st.DrawFn, *, most: int = 2) -> list[Callback]:
    scripts = draw(st.lists(st.lists(ANSWERS, min_size=1, max_size=3), max_size=most))
    return [Callback(f"c{draw(st.integers(0, 10**6))}", tuple(script)) for script in scripts]


@st.composite
def rows(draw: st.DrawFn) -> RowPlan:
    slots = ["prepare", "conditions", "unless", "before", "after"]
    return RowPlan(
        trigger=draw(st.sampled_from(TRIGGERS)),
        source=draw(st.sampled_from(STATES)),
        dest=draw(st.sampled_from([*STATES, *STATES, None])),
        callbacks={slot: draw(callbacks()) for slot in slots if draw(st.booleans())},
    )


PLANS = st.builds(
    Plan,
    finals=st.frozensets(st.sampled_from(STATES)),
    states=st.fixed_dictionaries(
        {name: st.fixed_dictionaries({"on_enter": callbacks(), "on_exit": callbacks()}) for name in STATES}
    ),
    rows=st.lists(rows(), min_size=1, max_size=8),
    machine=st.fixed_dictionaries({slot: callbacks(most=1) for slot in SLOTS}),
    ignore_invalid=st.sampled_from([None, False, True]),
)
ARGUMENTS = st.tuples(
    st.lists(st.integers(), max_size=2), st.dictionaries(st.sampled_from("xyz"), st.integers(), max_size=2)
)
STEPS = st.lists(st.tuples(st.sampled_from(TRIGGERS), ARGUMENTS), min_size=1, max_size=8)


@dataclass
class Subject:
    """One of the two machines with its model, and all that could be observed of it."""

    machine: Machine
    model: SimpleNamespace
    log: list[Any] = field(default_factory=list)

    def observed(self, name: str, data: EventData) -> tuple[Any, ...]:
        assert data.machine is self.machine
        assert data.model is self.model
        assert data.event is self.machine.events[data.event.name]
        where = data.event.transitions[data.transition.source].index(data.transition) if data.transition else None
        told = (data.event.name, data.state.name, tuple(data.args), dict(data.kwargs), data.result)
        return (name, self.model.state, told, data.transition and data.transition.source, where)


def build(machine_cls: type[Machine], plan: Plan) -> Subject:
    options: dict[str, Any] = {"send_event": True, "ignore_invalid_triggers": plan.ignore_invalid}
    machine = machine_cls(model=None, initial="A", auto_transitions=False, **options)
    subject = Subject(machine, SimpleNamespace(state="A"))

    def functions(planned: list[Callback]) -> list[Any]:
        def function(callback: Callback) -> Callable[[EventData], Any]:
            calls = 0

            def call(data: EventData) -> Any:
                nonlocal calls
                answer = callback.script[calls % len(callback.script)]
                calls += 1
                subject.log.append(subject.observed(callback.name, data))
                if isinstance(answer, type):
                    raise answer(callback.name)
                return answer

            return call

        return [function(callback) for callback in planned]

    for name, slots in plan.states.items():
        hooks: dict[str, Any] = {slot: functions(planned) for slot, planned in slots.items()}
        subject.machine.add_state(MachineState(name, final=name in plan.finals, **hooks))
    for slot, planned in plan.machine.items():
        setattr(subject.machine, slot, functions(planned))
    for row in plan.rows:
        given_row: dict[str, Any] = {slot: functions(planned) for slot, planned in row.callbacks.items()}
        subject.machine.add_transition(row.trigger, row.source, row.dest, **given_row)
    return subject


def drive(subject: Subject, steps: list[tuple[str, tuple[list[int], dict[str, int]]]]) -> Iterator[tuple[Any, ...]]:
    """After each trigger: what came back or was raised, the state, and every callback since the last one."""
    for trigger, (args, kwargs) in steps:
        subject.log.clear()
        outcome: tuple[Any, ...]
        if trigger not in subject.machine.events:
            continue
        try:
            outcome = ("answered", subject.machine.events[trigger].trigger(subject.model, *args, **kwargs))
        except (BoomError, Halt, MachineError) as error:
            outcome = ("raised", type(error), str(error))
        yield (trigger, outcome, subject.model.state, tuple(subject.log))


@settings(max_examples=200)
@given(plan=PLANS, steps=STEPS)
def test_compiled_machine_is_observed_to_do_what_the_stock_machine_does(plan: Plan, steps: list[Any]) -> None:
    """Every callback in its order with what it is told, every result, exception and state, trigger by trigger."""
    stock, compiled = drive(build(Machine, plan), steps), drive(build(CompiledMachine, plan), steps)
    for ours, theirs in zip(compiled, stock, strict=True):
        assert ours == theirs
        event(f"{theirs[1][0]} {theirs[1][1]}")


@given(plan=PLANS, steps=STEPS)
def test_several_models_of_one_compiled_machine_do_not_disturb_each_other(plan: Plan, steps: list[Any]) -> None:
    """Two models take turns; the stock machine does the same."""

    def interleaved(machine_cls: type[Machine]) -> list[Any]:
        subject = build(machine_cls, plan)
        models, seen = [subject.model, SimpleNamespace(state="B")], []
        for number, step in enumerate(steps):
            subject.model = models[number % 2]
            seen.extend(drive(subject, [step]))
        return seen

    assert interleaved(CompiledMachine) == interleaved(Machine)


# -- what the random tables leave out -------------------------------------------------------------------------------


def test_the_compiled_event_is_what_such_a_machine_uses() -> None:
    machine = CompiledMachine(model=None, states=STATES, initial="A", auto_transitions=False, send_event=True)
    told: list[EventData] = []
    machine.add_transition("go", "A", "B", before=told.append)
    assert machine.events["go"].trigger(SimpleNamespace(state="A")) is True
    assert [type(data) for data in told] == [Firing]


@pytest.mark.parametrize("state", ["B", "nowhere"])
def test_a_state_without_rows_is_refused_in_the_words_of_transitions(state: str) -> None:
    def refusal(machine_cls: type[Machine]) -> tuple[type[Exception], str]:
        machine = machine_cls(model=None, states=STATES, initial="A", auto_transitions=False, send_event=True)
        machine.add_transition("go", "A", "B")
        with pytest.raises((MachineError, ValueError)) as refused:
            machine.events["go"].trigger(SimpleNamespace(state=state))
        return refused.type, str(refused.value)

    assert refusal(CompiledMachine) == refusal(Machine)


@pytest.mark.parametrize("place", ["before", "conditions", "after", "prepare", "unless"])
def test_a_callback_given_by_name_is_refused(place: str) -> None:
    """The stock machine looks it up on the model at every trigger; that is the cost which is saved."""
    machine = CompiledMachine(model=None, states=STATES, initial="A", auto_transitions=False, send_event=True)
    slots: dict[str, Any] = {place: "ring"}
    machine.add_transition("go", "A", "B", **slots)
    with pytest.raises(LifecycleError, match=re.escape("'ring' is not a function")):
        machine.events["go"].trigger(SimpleNamespace(state="A"))


def test_callbacks_are_resolved_at_the_first_trigger_and_not_again() -> None:
    machine = CompiledMachine(model=None, states=STATES, initial="A", auto_transitions=False, send_event=True)
    machine.add_transition("go", "A", "B")
    machine.add_transition("go", "B", "A")
    model, rung = SimpleNamespace(state="A"), []
    machine.before_state_change = [lambda data: rung.append("before the first")]
    machine.events["go"].trigger(model)
    machine.after_state_change = [lambda data: rung.append("too late")]
    machine.events["go"].trigger(model)
    assert (model.state, rung) == ("A", ["before the first"] * 2)
