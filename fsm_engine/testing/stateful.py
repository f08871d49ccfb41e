"""A `RuleBasedStateMachine` of Hypothesis for any lifecycle."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

from ..errors.exceptions import TransitionRefusedError
from ..errors.missing_extra import needed_by
from ..machine.lifecycle import Hook, Lifecycle, Row
from ..machine.walks import shortest_walks
from .rehearsal import Rehearsal

with needed_by("fsm_engine.testing.stateful", "testing"):
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

_RUNNER: st.SearchStrategy[Any] = st.runner()
_STATES = _RUNNER.flatmap(lambda self: st.sampled_from(sorted(self.lifecycle.by_name)))


class LifecycleRules(RuleBasedStateMachine):
    """Fires every trigger in every order, and checks that the model moves as the table says and no other way.

    Derive from it, name the `lifecycle`, and add rules and invariants of your own about `self.model`. Without a
    `new_model` of yours guards answer at random; with it they are asked about your model, whose facts your rules
    change. Never change `self.model.state` yourself.

    Attributes:
        lifecycle: what is tested.
        hooks: the functions behind its gates and hooks, by name; a missing one does nothing.
        model: what moves.

    Example:
        >>> from fsm_engine import INVOCATION
        >>> class InvocationRules(LifecycleRules):
        ...     lifecycle = INVOCATION
        >>> TestInvocation = InvocationRules.TestCase
    """

    lifecycle: ClassVar[Lifecycle]
    hooks: ClassVar[Mapping[str, Hook]] = {}

    def __init__(self) -> None:
        super().__init__()
        if not hasattr(type(self), "lifecycle"):
            raise TypeError(f"{type(self).__name__} names no lifecycle; write `lifecycle = ...` in the class")
        self._reset()

    def new_model(self) -> Any:
        """What moves: an object whose `state` is the initial one."""
        return SimpleNamespace(state=self.lifecycle.initial)

    def _reset(self) -> None:
        model = self.new_model()
        self._has_own_model = type(self).new_model is not LifecycleRules.new_model
        self._rehearsal = Rehearsal(self.lifecycle, model=model if self._has_own_model else None, hooks=self.hooks)
        self.model = self._rehearsal.model

    @initialize(state=_STATES)
    def begin(self, state: str) -> None:
        """Somewhere: chance alone hardly ever gets far. A model of your own begins at the beginning."""
        self._reset()
        if not self._has_own_model:
            for row in shortest_walks(self.lifecycle)[state]:
                self._rehearsal.take(row)

    @rule(
        trigger=_RUNNER.flatmap(lambda self: st.sampled_from(self._likely_triggers())),
        answers=_RUNNER.flatmap(
            lambda self: st.fixed_dictionaries(dict.fromkeys(self.lifecycle.guards, st.booleans()))
        ),
    )
    def fire(self, trigger: str, answers: dict[str, bool]) -> None:
        """Any trigger, whether it is taken here or refused."""
        rehearsal, source = self._rehearsal, self.model.state
        rows = self.lifecycle.rows_from(source, trigger)
        try:
            rehearsal.fire(trigger, **answers)
        except TransitionRefusedError:
            assert all(row.guard for row in rows), (
                f"{trigger!r} was refused in {source}, where an unguarded row takes it"
            )
            assert not any(rehearsal.asked.values()), f"{trigger!r} was refused in {source}, though a guard passed"
            assert self.model.state == source, f"{trigger!r} was refused in {source}, and yet the state has changed"
            assert not rehearsal.hooks_run, f"{trigger!r} was refused in {source}, and yet hooks ran"
            return
        taken = next((row for row in rows if row.guard is None or rehearsal.asked.get(row.guard)), None)
        assert taken is not None, f"{trigger!r} was taken in {source}, where no row takes it"
        assert self.model.state == taken.dest, f"{taken} led to {self.model.state}"
        assert rehearsal.hooks_run == _hooks_of(taken, self.lifecycle), f"{taken} ran {rehearsal.hooks_run}"

    def _likely_triggers(self) -> tuple[str, ...]:
        """Every trigger, and twice as often the one of each row out of the present state."""
        here = [row.trigger for row in self.lifecycle.rows_from(self.model.state)]
        return (*here, *here, *self.lifecycle.triggers) or ("nothing",)

    @precondition(lambda self: self.model.state in self.lifecycle.final_states)
    @rule(state=_STATES)
    def begin_anew(self, state: str) -> None:
        """What has ended makes room for another."""
        self.begin(state)

    @invariant()
    def is_in_a_declared_state(self) -> None:
        """Whatever was fired, and whatever rules were added."""
        assert self.model.state in self.lifecycle.by_name, f"{self.model.state} is no state of {self.lifecycle.name}"


def _hooks_of(row: Row, lifecycle: Lifecycle) -> list[str]:
    left, entered = lifecycle.by_name[row.source], lifecycle.by_name[row.dest]
    return [*left.on_exit, *entered.gates, *entered.on_enter, *lifecycle.on_transition]
