"""A lifecycle is moved by hand, with guards that answer as told, or with a model that real guards are asked about."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fsm_engine import LifecycleError, Row, TransitionRefusedError
from fsm_engine.testing import Rehearsal

from .test_cases import DOOR

TURN = DOOR.rows_from("SHUT", "turn_key")


def test_it_begins_at_the_beginning_and_says_what_ran() -> None:
    rehearsal = Rehearsal(DOOR)
    assert (rehearsal.state, rehearsal.is_final) == ("OPEN", False)
    assert rehearsal.fire("push") == rehearsal.state == "SHUT"
    assert rehearsal.hooks_run == ["creak"]
    assert rehearsal.fire("turn_key", has_code=True) == "LOCKED"
    assert rehearsal.hooks_run == ["click"]
    assert rehearsal.asked == {"has_key": False, "has_code": True}
    assert rehearsal.is_final


def test_a_guard_that_is_not_told_says_no() -> None:
    with pytest.raises(TransitionRefusedError):
        Rehearsal(DOOR, "SHUT").fire("turn_key")


def test_a_row_is_taken_with_its_rivals_saying_no() -> None:
    rehearsal = Rehearsal(DOOR, "SHUT")
    rehearsal.take(TURN[1])
    assert rehearsal.asked == {"has_key": False, "has_code": True}


def test_a_row_of_another_state_is_not_taken() -> None:
    with pytest.raises(AssertionError, match="leads out of SHUT, but the model is in OPEN"):
        Rehearsal(DOOR).take(TURN[0])


def test_with_a_model_real_guards_are_asked() -> None:
    rehearsal = Rehearsal(DOOR, "SHUT", model=SimpleNamespace(state="OPEN", key=True))
    assert rehearsal.fire("turn_key") == "LOCKED"
    other = Rehearsal(DOOR, "SHUT", model=SimpleNamespace(state="OPEN", key=False))
    other.refuse("turn_key")
    assert other.asked == {"has_key": False, "has_code": False}


def test_with_a_model_a_row_whose_guard_says_no_is_not_taken() -> None:
    rehearsal = Rehearsal(DOOR, "SHUT", model=SimpleNamespace(state="OPEN", key=True))
    with pytest.raises(TransitionRefusedError):
        Rehearsal(DOOR, "SHUT", model=SimpleNamespace(state="OPEN", key=False)).take(TURN[0])
    assert rehearsal.take(TURN[0]) == "LOCKED"


def test_what_was_to_be_refused_and_was_taken_fails() -> None:
    with pytest.raises(AssertionError, match="'push' was to be refused in OPEN, but led to SHUT"):
        Rehearsal(DOOR).refuse("push")


def test_hooks_of_ones_own_run() -> None:
    heard: list[str] = []
    rehearsal = Rehearsal(DOOR, hooks={"creak": lambda event: heard.append(event.dest)})
    rehearsal.take(Row("OPEN", "push", "SHUT"))
    assert heard == ["SHUT"]


def test_a_hook_that_the_lifecycle_does_not_name_is_refused() -> None:
    with pytest.raises(LifecycleError, match="squeak"):
        Rehearsal(DOOR, hooks={"squeak": print})
