"""A lifecycle on a machine of its own, to be moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ..errors.exceptions import TransitionRefusedError
from ..machine.lifecycle import Guard, Hook, Lifecycle, Row
from ..machine.machine import Firing, LifecycleMachine
from ..machine.walks import guard_answers


class Rehearsal:
    """Moves a model through a lifecycle and says what happened: no engine, no tools, no waiting.

    Args:
        lifecycle: the declaration.
        state: where it begins; the initial state unless told otherwise.
        model: what moves. With one of yours your guards are asked about it; without, guards answer as they are told.
        hooks: the functions behind the lifecycle's gates and hooks, by name; a missing one does nothing.

    Attributes:
        model: what moves.
        hooks_run: the names of the gates and hooks that the last firing has run, in order.
        asked: what the guards have answered in the last firing, in order.

    Example:
        >>> from fsm_engine import INVOCATION
        >>> rehearsal = Rehearsal(INVOCATION, "EXECUTING")
        >>> rehearsal.fire("fail", may_retry=True), rehearsal.hooks_run
        ('RETRYING', ['release_lease', 'record'])
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        state: str | None = None,
        *,
        model: Any = None,
        hooks: Mapping[str, Hook] | None = None,
    ) -> None:
        self.lifecycle = lifecycle
        self.model: Any = SimpleNamespace(state=lifecycle.initial) if model is None else model
        if state is not None:
            self.model.state = str(state)
        self.hooks_run: list[str] = []
        self.asked: dict[str, bool] = {}
        self._answers: Mapping[str, bool] = {}
        ask = self._as_told if model is None else self._as_declared
        given = hooks or {}
        self._machine = LifecycleMachine(
            replace(lifecycle, guards={name: ask(name) for name in lifecycle.guards}),
            {name: self._noting(name, given.get(name)) for name in lifecycle.hook_names} | _unknown(given, lifecycle),
        )

    @property
    def state(self) -> str:
        """Where the model is."""
        state: str = self.model.state
        return state

    @property
    def is_final(self) -> bool:
        """Nothing leads on from here."""
        return self.state in self.lifecycle.final_states

    def fire(self, trigger: str, **answers: bool) -> str:
        """Fire a trigger and answer with the state that it led to.

        Args:
            answers: what guards answer, by name, if they are asked and there is no model of your own; the others say no.

        Raises:
            TransitionRefusedError: no row takes it; nothing has changed.
        """
        self.hooks_run.clear()
        self.asked.clear()
        self._answers = answers
        self._machine.fire(self.model, trigger)
        return self.state

    def take(self, row: Row) -> str:
        """Take this very row: its rivals' guards say no, its own yes.

        Raises:
            AssertionError: the model is not in the row's source, or another row was taken.
        """
        __tracebackhide__ = True  # pytest shows the line of the test instead
        assert self.state == row.source, f"{row} leads out of {row.source}, but the model is in {self.state}"
        reached = self.fire(row.trigger, **guard_answers(self.lifecycle, row))
        assert reached == row.dest, f"{row} was to be taken, but {row.trigger!r} led to {reached}"
        return reached

    def refuse(self, trigger: str, **answers: bool) -> None:
        """Fire a trigger that must be refused, all guards saying no unless told otherwise.

        Raises:
            AssertionError: it was taken, or the refusal has changed something.
        """
        __tracebackhide__ = True  # pytest shows the line of the test instead
        before = self.state
        try:
            reached = self.fire(trigger, **answers)
        except TransitionRefusedError:
            assert self.state == before, f"{trigger!r} was refused in {before}, and yet the model is in {self.state}"
            assert not self.hooks_run, f"{trigger!r} was refused in {before}, and yet {self.hooks_run} ran"
            return
        raise AssertionError(f"{trigger!r} was to be refused in {before}, but led to {reached}")

    def _as_told(self, name: str) -> Guard:
        return self._asked_of(name, lambda event: self._answers.get(name, False))

    def _as_declared(self, name: str) -> Guard:
        return self._asked_of(name, self.lifecycle.guards[name])

    def _asked_of(self, name: str, guard: Guard) -> Guard:
        def ask(event: Firing) -> bool:
            self.asked[name] = answer = guard(event)
            return answer

        return ask

    def _noting(self, name: str, hook: Hook | None) -> Callable[[Firing], object]:
        def run(event: Firing) -> object:
            self.hooks_run.append(name)
            return None if hook is None else hook(event)

        return run


def _unknown(given: Mapping[str, Hook], lifecycle: Lifecycle) -> dict[str, Hook]:
    """Hooks that the lifecycle does not name, for the machine to say so."""
    return {name: hook for name, hook in given.items() if name not in lifecycle.hook_names}
