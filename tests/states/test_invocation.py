"""The declared table of an invocation: what it says is what moves, and nothing else does."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from fsm_engine.errors import TransitionRefusedError
from fsm_engine.machine.checks import ANY_UNFINISHED
from fsm_engine.machine.lifecycle import Row
from fsm_engine.machine.machine import Firing, LifecycleMachine
from fsm_engine.states import invocation
from fsm_engine.states.invocation import INVOCATION, ToolState

# Which fact of an invocation each guard asks for, and the answer that lets it pass.
ASKS = {
    "refused": ("is_refused", True),
    "needs_approval": ("is_approval_missing", True),
    "approved": ("is_approved", True),
    "permitted": ("is_refused", False),
    "fallback_on_refusal": ("has_fallback_for_refusal", True),
    "may_retry": ("is_retry_allowed", True),
    "fallback_on_failure": ("has_fallback_for_failure", True),
}
FACTS = sorted({fact for fact, _ in ASKS.values()})
MOVES = {(row.source, row.trigger) for row in INVOCATION.moves}


def every_fact() -> Iterator[dict[str, bool]]:
    for answers in itertools.product((False, True), repeat=len(FACTS)):
        yield dict(zip(FACTS, answers, strict=True))


def watched() -> tuple[LifecycleMachine, list[str]]:
    """A machine of the table, and the names of the hooks that it has run."""
    ran: list[str] = []

    def hook(name: str) -> Callable[[Firing], None]:
        return lambda event: ran.append(name)

    return LifecycleMachine(INVOCATION, {name: hook(name) for name in INVOCATION.hook_names}), ran


def shown() -> list[Row]:
    lines = re.findall(r"^\| (\S+) \| (\w+) \| (\w*) ?\| (\w+) \|$", invocation.__doc__ or "", re.MULTILINE)
    return [Row(source, trigger, dest, guard or None) for source, trigger, guard, dest in lines if source != "from"]


def test_docstring_shows_the_table() -> None:
    """The table that people read is the one that runs, row by row."""
    assert shown() == [Row(row.source, row.trigger, row.dest, row.guard) for row in INVOCATION.rows]


def test_every_state_has_a_name_and_a_sentence() -> None:
    assert [state.name for state in INVOCATION.states] == list(ToolState)
    assert all(state.doc for state in INVOCATION.states)


def test_an_invocation_begins_when_the_model_asks_and_ends_in_one_of_three_ways() -> None:
    assert INVOCATION.initial == "PENDING"
    assert INVOCATION.final_states == {"COMPLETED", "FAILED", "CANCELLED"}


@pytest.mark.parametrize("guard", INVOCATION.guards)
def test_guard_asks_for_one_fact_alone(guard: str) -> None:
    """Both answers, whatever the other facts are."""
    fact, answer = ASKS[guard]
    for facts in every_fact():
        event = SimpleNamespace(model=SimpleNamespace(**facts))
        assert INVOCATION.guards[guard](event) is (facts[fact] is answer)


@pytest.mark.parametrize(("source", "trigger"), sorted(MOVES))
def test_every_row_leads_where_the_table_says(source: str, trigger: str) -> None:
    """For all facts: the first row of the documented table whose guard passes, and the hooks on that way."""
    machine, ran = watched()
    rows = [row for row in shown() if row.trigger == trigger and row.source in (source, ANY_UNFINISHED)]
    taken = set()
    for facts in every_fact():
        ran.clear()
        model = SimpleNamespace(state=source, **facts)
        machine.fire(model, trigger)
        row = next(row for row in rows if row.guard is None or facts[ASKS[row.guard][0]] is ASKS[row.guard][1])
        assert model.state == row.dest
        left, entered = INVOCATION.by_name[source], INVOCATION.by_name[row.dest]
        assert ran == [*left.on_exit, *entered.gates, *entered.on_enter, "record"]
        assert vars(model) == {**facts, "state": row.dest}
        taken.add(row)
    assert taken == set(rows)


@pytest.mark.parametrize(
    ("source", "trigger"),
    [pair for pair in itertools.product(map(str, ToolState), INVOCATION.triggers) if pair not in MOVES],
)
def test_every_other_trigger_is_refused_and_changes_nothing(source: str, trigger: str) -> None:
    machine, ran = watched()
    for facts in every_fact():
        model = SimpleNamespace(state=source, **facts)
        with pytest.raises(TransitionRefusedError) as refused:
            machine.fire(model, trigger)
        assert (refused.value.state, refused.value.trigger) == (source, trigger)
        assert set(refused.value.allowed) == {other for state, other in MOVES if state == source}
        assert vars(model) == {**facts, "state": source}
        assert ran == []


@pytest.mark.parametrize("name", sorted(INVOCATION.final_states))
def test_nothing_leads_out_of_a_final_state(name: str) -> None:
    assert INVOCATION.rows_from(name) == ()


@pytest.mark.parametrize("name", [state.name for state in INVOCATION.states if not state.final])
def test_whatever_has_not_ended_can_be_aborted_and_cancelled(name: str) -> None:
    assert [row.dest for row in INVOCATION.rows_from(name, "abort")] == ["FAILED"]
    assert [row.dest for row in INVOCATION.rows_from(name, "cancel")] == ["CANCELLED"]


def test_what_an_attempt_holds_is_released_on_every_way_out() -> None:
    assert INVOCATION.by_name["EXECUTING"].on_exit == ("release_lease",)
    assert INVOCATION.by_name["ADMITTING"].on_exit == ("release_unused_lease",)
    assert INVOCATION.by_name["VALIDATING"].gates == ("check_arguments",)


STORIES = {
    "a call that succeeds": (
        [("validate", {}), ("accept", {}), ("admit", {}), ("succeed", {})],
        ["VALIDATING", "ADMITTING", "EXECUTING", "COMPLETED"],
    ),
    "arguments that are wrong never reach the function, even where a person would have to agree": (
        [("validate", {}), ("accept", {"is_refused": True, "is_approval_missing": True})],
        ["VALIDATING", "FAILED"],
    ),
    "an agreed call is checked again": (
        [
            ("validate", {}),
            ("accept", {"is_approval_missing": True}),
            ("decide", {"is_approved": True}),
            ("accept", {}),
        ],
        ["VALIDATING", "AWAITING_APPROVAL", "VALIDATING", "ADMITTING"],
    ),
    "a denied call": (
        [("validate", {}), ("accept", {"is_approval_missing": True}), ("decide", {})],
        ["VALIDATING", "AWAITING_APPROVAL", "FAILED"],
    ),
    "an open circuit with a fallback": (
        [
            ("validate", {}),
            ("accept", {}),
            ("admit", {"is_refused": True, "has_fallback_for_refusal": True}),
            ("succeed", {}),
        ],
        ["VALIDATING", "ADMITTING", "FALLING_BACK", "COMPLETED"],
    ),
    "an open circuit without one": (
        [("validate", {}), ("accept", {}), ("admit", {"is_refused": True})],
        ["VALIDATING", "ADMITTING", "FAILED"],
    ),
    "a call that is permitted runs, even where something could stand in for it": (
        [("validate", {}), ("accept", {}), ("admit", {"has_fallback_for_refusal": True})],
        ["VALIDATING", "ADMITTING", "EXECUTING"],
    ),
    "a retry is preferred to the fallback, and is admitted anew": (
        [
            ("validate", {}),
            ("accept", {}),
            ("admit", {}),
            ("fail", {"is_retry_allowed": True, "has_fallback_for_failure": True}),
            ("retry", {}),
            ("admit", {}),
            ("fail", {"has_fallback_for_failure": True}),
            ("fail", {}),
        ],
        ["VALIDATING", "ADMITTING", "EXECUTING", "RETRYING", "ADMITTING", "EXECUTING", "FALLING_BACK", "FAILED"],
    ),
    "a failure that nothing helps": (
        [("validate", {}), ("accept", {}), ("admit", {}), ("fail", {})],
        ["VALIDATING", "ADMITTING", "EXECUTING", "FAILED"],
    ),
    "a call that is cancelled while it waits to try again": (
        [("validate", {}), ("accept", {}), ("admit", {}), ("fail", {"is_retry_allowed": True}), ("cancel", {})],
        ["VALIDATING", "ADMITTING", "EXECUTING", "RETRYING", "CANCELLED"],
    ),
    "a call whose arguments could not be read": ([("abort", {})], ["FAILED"]),
}


@pytest.mark.parametrize(("steps", "states"), STORIES.values(), ids=STORIES)
def test_story(steps: list[tuple[str, dict[str, bool]]], states: list[str]) -> None:
    """What the table means, written by hand: a test made from the table cannot know that the table is wrong."""
    machine, _ = watched()
    model = SimpleNamespace(state=INVOCATION.initial)
    seen = []
    for trigger, facts in steps:
        vars(model).update(dict.fromkeys(FACTS, False), **facts)
        machine.fire(model, trigger)
        seen.append(model.state)
    assert seen == states
