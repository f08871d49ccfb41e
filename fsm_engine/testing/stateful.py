"""A `RuleBasedStateMachine` of Hypothesis for any lifecycle."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ..errors import TransitionRefusedError
from ..lifecycle import Hook, Lifecycle, Row
from .rehearsal import Rehearsal

_RUNNER: st.SearchStrategy[Any] = st.runner()


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
        self._begin()

    def new_model(self) -> Any:
        """What moves: an object whose `state` is the initial one."""
        return SimpleNamespace(state=self.lifecycle.initial)

    def _begin(self) -> None:
        model = self.new_model()
        own = type(self).new_model is not LifecycleRules.new_model
        self._rehearsal = Rehearsal(self.lifecycle, model=model if own else None, hooks=self.hooks)
        self.model = self._rehearsal.model

    @rule(
        trigger=_RUNNER.flatmap(lambda self: st.sampled_from(self.lifecycle.triggers or ("nothing",))),
        passing=_RUNNER.flatmap(lambda self: st.sets(st.sampled_from(sorted(self.lifecycle.guards) or ["none"]))),
    )
    def fire(self, trigger: str, passing: set[str]) -> None:
        """Any trigger, whether it is taken here or refused."""
        rehearsal, source = self._rehearsal, self.model.state
        rows = self.lifecycle.rows_from(source, trigger)
        try:
            rehearsal.fire(trigger, **dict.fromkeys(passing, True))
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

    @precondition(lambda self: self.model.state in self.lifecycle.final_states)
    @rule()
    def begin_anew(self) -> None:
        """What has ended makes room for another."""
        self._begin()

    @invariant()
    def is_in_a_declared_state(self) -> None:
        """Whatever was fired, and whatever rules were added."""
        assert self.model.state in self.lifecycle.by_name, f"{self.model.state} is no state of {self.lifecycle.name}"


def _hooks_of(row: Row, lifecycle: Lifecycle) -> list[str]:
    left, entered = lifecycle.by_name[row.source], lifecycle.by_name[row.dest]
    return [*left.on_exit, *entered.gates, *entered.on_enter, *lifecycle.on_transition]
