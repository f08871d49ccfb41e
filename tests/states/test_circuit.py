"""The declared table of the circuit, and that the breaker moves along it and no other way."""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace

import pytest

from fsm_engine.breaker import BreakerEventKind, BreakerPolicy, ChangeReason, CircuitBreaker
from fsm_engine.clock import VirtualClock
from fsm_engine.errors import TransitionRefusedError
from fsm_engine.machine.lifecycle import Row
from fsm_engine.machine.machine import LifecycleMachine
from fsm_engine.states import circuit
from fsm_engine.states.circuit import CIRCUIT, CircuitState

MOVES = {(row.source, row.trigger): row for row in CIRCUIT.moves}
MANUAL = ("close", "open", "half_open", "force_open", "disable", "observe")


def breaker_in(state: str, *, recovery: str = "automatic") -> CircuitBreaker:
    """A breaker brought into a state by hand."""
    breaker = CircuitBreaker(BreakerPolicy(recovery=recovery), clock=VirtualClock())  # type: ignore[arg-type]  # a literal
    [row] = [row for row in CIRCUIT.rows_from(CIRCUIT.initial) if row.dest == state and row.trigger in MANUAL]
    getattr(breaker, row.trigger)()
    return breaker


def test_docstring_shows_the_table() -> None:
    """The table that people read is the one that runs."""
    lines = re.findall(r"^\| (\S+) \| (\w+) \| (\w*) ?\| (\w+) \|$", circuit.__doc__ or "", re.MULTILINE)
    shown = [Row(source, trigger, dest, guard or None) for source, trigger, guard, dest in lines if source != "from"]
    assert shown == [Row(row.source, row.trigger, row.dest, row.guard) for row in CIRCUIT.rows]


def test_every_state_has_a_name_and_a_row_into_it() -> None:
    assert {state.name for state in CIRCUIT.states} == set(CircuitState) == {row.dest for row in CIRCUIT.moves}


@pytest.mark.parametrize(("source", "trigger"), list(itertools.product(CircuitState, MANUAL)))
def test_a_person_can_make_every_declared_move(source: CircuitState, trigger: str) -> None:
    breaker = breaker_in(source)
    getattr(breaker, trigger)()
    event = breaker.recent_events[-1]
    assert (event.kind, event.source, event.reason) == (BreakerEventKind.STATE_CHANGED, source, ChangeReason.MANUAL)
    assert breaker.circuit_state == event.dest == MOVES[source, trigger].dest


@pytest.mark.parametrize(("source", "trigger"), list(itertools.product(CircuitState, CIRCUIT.triggers)))
def test_breaker_moves_along_declared_rows_only(source: CircuitState, trigger: str) -> None:
    """A trigger without a row is refused, and state, window, permits and events are as they were."""
    breaker = breaker_in(source)
    state, events = breaker.state, breaker.recent_events
    if row := MOVES.get((source, trigger)):
        breaker._move(trigger, ChangeReason.MANUAL)
        assert breaker.state.circuit == row.dest
        return
    with pytest.raises(TransitionRefusedError) as refused:
        breaker._move(trigger, ChangeReason.MANUAL)
    assert (refused.value.state, refused.value.trigger) == (source, trigger)
    assert breaker.state is state
    assert breaker.recent_events == events


def test_with_manual_recovery_the_table_does_not_let_good_probes_close_the_circuit() -> None:
    model = SimpleNamespace(state="HALF_OPEN", recovers_unaided=False)
    with pytest.raises(TransitionRefusedError):
        LifecycleMachine(CIRCUIT).fire(model, "recover")
    assert model.state == "HALF_OPEN"
    breaker = breaker_in(CircuitState.HALF_OPEN, recovery="manual")
    with pytest.raises(TransitionRefusedError):
        breaker._move("recover", ChangeReason.PROBES_PASSED)
    assert breaker.circuit_state is CircuitState.HALF_OPEN
