"""Rows, refusals and walks as parametrized cases; and the built-in lifecycles gone through with them."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

from fsm_engine import INVOCATION, Lifecycle, Row, State
from fsm_engine.machine.walks import Walk, covering_walks, random_walks, shortest_walks, simple_walks
from fsm_engine.states.circuit import CIRCUIT
from fsm_engine.testing import Refusal, Rehearsal, every_refusal, every_row, walks

BUILT_IN = (INVOCATION, CIRCUIT)
DOOR = Lifecycle(
    name="door",
    initial="OPEN",
    states=(State("OPEN"), State("SHUT", on_enter=("creak",), on_exit=("click",)), State("LOCKED", final=True)),
    rows=(
        Row("OPEN", "push", "SHUT"),
        Row("OPEN", "pull", "SHUT"),
        Row("SHUT", "turn_key", "LOCKED", guard="has_key"),
        Row("SHUT", "turn_key", "LOCKED", guard="has_code"),
    ),
    guards={"has_key": lambda event: event.model.key, "has_code": lambda event: False},
)


def ids_of(cases: list[Any]) -> list[str]:
    return [case.id for case in cases]


def test_every_row_is_a_case_with_the_row_as_its_id() -> None:
    assert ids_of(every_row(DOOR)) == [
        "OPEN --push--> SHUT",
        "OPEN --pull--> SHUT",
        "SHUT --turn_key [has_key]--> LOCKED",
        "SHUT --turn_key [has_code]--> LOCKED",
    ]
    assert [case.values for case in every_row(DOOR)] == [(row,) for row in DOOR.rows]


def test_every_refusal_is_a_case_those_of_guards_included() -> None:
    assert ids_of(every_refusal(DOOR)) == [
        "OPEN ! turn_key",
        "SHUT ! push",
        "SHUT ! pull",
        "SHUT ! turn_key [not has_key, not has_code]",
        "LOCKED ! push",
        "LOCKED ! pull",
        "LOCKED ! turn_key",
    ]


@pytest.mark.parametrize("lifecycle", BUILT_IN, ids=lambda each: each.name)
def test_rows_and_refusals_are_all_pairs_of_state_and_trigger(lifecycle: Lifecycle) -> None:
    taken = {(row.source, row.trigger) for case in every_row(lifecycle) for row in case.values}
    refused = [refusal for case in every_refusal(lifecycle) for refusal in case.values]
    never = {(refusal.state, refusal.trigger) for refusal in refused if not refusal.guards}
    assert not taken & never
    assert taken | never == {(state.name, trigger) for state in lifecycle.states for trigger in lifecycle.triggers}


def test_walks_that_pass_the_same_states_are_told_apart_by_their_triggers() -> None:
    names = ids_of(walks(DOOR, simple_walks))
    assert len(set(names)) == len(names)
    assert "OPEN > push > SHUT" in names
    assert "OPEN > pull > SHUT" in names


@pytest.mark.parametrize("lifecycle", [*BUILT_IN, DOOR], ids=lambda each: each.name)
@pytest.mark.parametrize(
    "ways",
    [
        covering_walks,
        shortest_walks,
        partial(simple_walks, limit=200),
        partial(random_walks, count=200, random=Random(7)),
    ],
    ids=["covering", "shortest", "simple", "random"],
)
def test_ids_of_walks_are_unique(lifecycle: Lifecycle, ways: Any) -> None:
    """Also where chance finds the same walk twice."""
    names = ids_of(walks(lifecycle, ways))
    assert len(set(names)) == len(names) > 0


@pytest.mark.parametrize("row", every_row(INVOCATION))
def test_every_row_of_an_invocation_is_taken(row: Row) -> None:
    assert Rehearsal(INVOCATION, row.source).take(row) == row.dest


@pytest.mark.parametrize("row", every_row(CIRCUIT))
def test_every_row_of_a_circuit_is_taken(row: Row) -> None:
    assert Rehearsal(CIRCUIT, row.source).take(row) == row.dest


@pytest.mark.parametrize("refusal", every_refusal(INVOCATION))
def test_every_other_trigger_of_an_invocation_is_refused(refusal: Refusal) -> None:
    Rehearsal(INVOCATION, refusal.state).refuse(refusal.trigger)


@pytest.mark.parametrize("refusal", every_refusal(CIRCUIT))
def test_every_other_trigger_of_a_circuit_is_refused(refusal: Refusal) -> None:
    Rehearsal(CIRCUIT, refusal.state).refuse(refusal.trigger)


@pytest.mark.parametrize("walk", walks(INVOCATION))
def test_every_walk_of_an_invocation_can_be_gone(walk: Walk) -> None:
    go(INVOCATION, walk)


@pytest.mark.parametrize("walk", walks(CIRCUIT))
def test_every_walk_of_a_circuit_can_be_gone(walk: Walk) -> None:
    go(CIRCUIT, walk)


def go(lifecycle: Lifecycle, walk: Walk) -> None:
    rehearsal = Rehearsal(lifecycle)
    for row in walk:
        rehearsal.take(row)
    if walk.refused:
        rehearsal.refuse(walk.refused)
    assert rehearsal.state == walk.states[-1]
