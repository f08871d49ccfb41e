"""Every lifecycle holds to its table under any order of triggers; and one that does not is found out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from fsm_engine import INVOCATION, Lifecycle
from fsm_engine.machine.lifecycle import Hook
from fsm_engine.states.circuit import CIRCUIT
from fsm_engine.testing.stateful import LifecycleRules

from .test_cases import DOOR

FEW = settings(max_examples=25, stateful_step_count=20, deadline=None, database=None)


class InvocationRules(LifecycleRules):
    lifecycle = INVOCATION


class CircuitRules(LifecycleRules):
    lifecycle = CIRCUIT


class Circuit:
    """A circuit that a person may have to close."""

    def __init__(self) -> None:
        self.state = CIRCUIT.initial
        self.recovers_unaided = True


class OwnCircuitRules(LifecycleRules):
    """With a model of one's own, its guards are the real ones."""

    lifecycle = CIRCUIT

    def new_model(self) -> Circuit:
        return Circuit()

    @rule(answer=st.booleans())
    def set_recovery(self, answer: bool) -> None:
        self.model.recovers_unaided = answer


@pytest.mark.parametrize("rules", [InvocationRules, CircuitRules, OwnCircuitRules])
def test_built_in_lifecycles_hold_to_their_tables(rules: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(rules, settings=FEW)


def test_all_states_and_guards_are_met() -> None:
    """Or the rules would hold for want of cases."""
    met: set[str] = set()
    asked: set[tuple[str, bool]] = set()

    class Rules(LifecycleRules):
        lifecycle = INVOCATION

        @invariant()
        def note(self) -> None:
            met.add(self.model.state)
            asked.update(self._rehearsal.asked.items())

    run_state_machine_as_test(Rules, settings=settings(FEW, max_examples=100, derandomize=True))
    assert met == set(INVOCATION.by_name)
    assert asked == {(guard, answer) for guard in INVOCATION.guards for answer in (False, True)}


def meddling(event: Any) -> None:
    event.model.state = "OPEN"


@pytest.mark.parametrize(
    ("hooks", "complaint"),
    [({"creak": meddling}, "led to OPEN"), ({"creak": lambda event: 1 / 0}, "division by zero")],
)
def test_a_hook_that_breaks_the_lifecycle_is_found_out(hooks: dict[str, Hook], complaint: str) -> None:
    class Rules(LifecycleRules):
        lifecycle: ClassVar[Lifecycle] = DOOR

    Rules.hooks = hooks
    with pytest.raises((AssertionError, ZeroDivisionError), match=complaint):
        run_state_machine_as_test(Rules, settings=settings(FEW, derandomize=True, report_multiple_bugs=False))


def test_an_invariant_of_ones_own_is_checked() -> None:
    class Rules(LifecycleRules):
        lifecycle = DOOR

        def new_model(self) -> Any:
            return SimpleNamespace(state="OPEN", key=True)

        @invariant()
        def is_never_locked(self) -> None:
            assert self.model.state != "LOCKED", "locked"

    with pytest.raises(AssertionError, match="locked"):
        run_state_machine_as_test(Rules, settings=settings(FEW, max_examples=100, derandomize=True))


def test_rules_without_a_lifecycle_say_so() -> None:
    with pytest.raises(TypeError, match="names no lifecycle"):
        run_state_machine_as_test(LifecycleRules, settings=FEW)
