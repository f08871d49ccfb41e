"""Which rows, guard outcomes and hooks of lifecycles a test run has exercised.

Nothing of this runs unless `--fsm-coverage` is given: then every `LifecycleMachine`, when it is made, has notes taken
by the callbacks of its transitions and states, and is compiled anew.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..machine.lifecycle import Lifecycle, Row
from ..machine.machine import CompiledEvent, LifecycleMachine


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to exercise.

    Args:
        kind: `row` (taken), `guard` (its outcome seen) or `hook` (run).
        name: in words, for the report.
    """

    kind: str
    name: str


@dataclass
class LifecycleCoverage:
    """What a run has exercised of one lifecycle, and what there is.

    A row of `ANY_UNFINISHED` counts once for each state, and a guarded row twice more: its guard passes, and it does not.
    """

    lifecycle: Lifecycle
    seen: set[Item] = field(default_factory=set)

    @property
    def items(self) -> tuple[Item, ...]:
        """Everything there is, in the order of the declaration."""
        return tuple(dict.fromkeys(_items(self.lifecycle)))

    @property
    def missing(self) -> tuple[Item, ...]:
        """What nothing has exercised."""
        return tuple(item for item in self.items if item not in self.seen)

    @property
    def percent(self) -> float:
        """The share that was exercised; 100 of a lifecycle without rows."""
        items = self.items
        return 100.0 * (len(items) - len(self.missing)) / len(items) if items else 100.0

    @property
    def has_run(self) -> bool:
        """Something of it was exercised; a machine that was merely made says nothing."""
        return bool(self.seen)

    def report(self) -> Iterator[str]:
        """The result, and everything that is missing, a line each."""
        total, missing = len(self.items), self.missing
        if not self.has_run:
            yield f"{self.lifecycle.name}: 0 of {total}, it never ran"
            return
        yield f"{self.lifecycle.name}: {total - len(missing)} of {total} ({shown(self.percent)} %)"
        for kind, heading in (
            ("row", "rows never taken"),
            ("guard", "guard outcomes never seen"),
            ("hook", "hooks never run"),
        ):
            names = [item.name for item in missing if item.kind == kind]
            if names:
                yield f"  {heading}:"
                yield from (f"    {name}" for name in names)


def shown(percent: float) -> str:
    """A percentage that says 100 only if nothing is missing."""
    return f"{int(percent * 10) / 10:g}"


def _items(lifecycle: Lifecycle) -> Iterator[Item]:
    for row in lifecycle.moves:
        yield _taken(row)
    for row in lifecycle.moves:
        if row.guard is not None:
            yield _outcome(row, True)
            yield _outcome(row, False)
    for state in lifecycle.states:
        yield from (_run(f"{state.name} {role}", name) for role, names in _roles(state) for name in names)
    yield from (_run("every transition", name) for name in lifecycle.on_transition)


def _roles(state: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ("gate", state.gates), ("entry", state.on_enter), ("exit", state.on_exit)


def _taken(row: Row) -> Item:
    return Item("row", str(row))


def _outcome(row: Row, passed: bool) -> Item:
    return Item("guard", f"{row}: {row.guard} {'passes' if passed else 'does not pass'}")


def _run(where: str, name: str) -> Item:
    return Item("hook", f"{where}: {name}")


class Recorder:
    """Takes notes in every machine that is made while it is on, and in those that exist already.

    Lifecycles are told apart by their names: that of an engine is the declared one with the user's hooks in it.
    """

    def __init__(self) -> None:
        self.seen: dict[str, set[Item]] = {}
        self.driven: dict[str, Lifecycle] = {}
        self._original: Any = None

    def start(self) -> None:
        """Begin to take notes."""
        original = self._original = LifecycleMachine.__init__
        recorder = self

        def init(self: LifecycleMachine, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            recorder.follow(self)

        # The seam: nothing is paid for when it is off.
        type.__setattr__(LifecycleMachine, "__init__", init)
        for machine in [each for each in gc.get_objects() if type(each) is LifecycleMachine]:
            self.follow(machine)

    def stop(self) -> None:
        """Leave the machines that are made from now on alone."""
        if self._original is not None:
            type.__setattr__(LifecycleMachine, "__init__", self._original)
            self._original = None

    def follow(self, machine: LifecycleMachine) -> None:
        """Take notes in this machine."""
        lifecycle = machine.lifecycle
        seen = self.seen.setdefault(lifecycle.name, set())
        self.driven.setdefault(lifecycle.name, lifecycle)
        for state in lifecycle.states:
            made = machine.get_state(state.name)
            entered = [("gate", name) for name in state.gates] + [("entry", name) for name in state.on_enter]
            made.on_enter = _noting_each(
                made.on_enter, [_run(f"{state.name} {role}", name) for role, name in entered], seen
            )
            made.on_exit = _noting_each(
                made.on_exit, [_run(f"{state.name} exit", name) for name in state.on_exit], seen
            )
        watched = [_run("every transition", name) for name in lifecycle.on_transition]
        machine.after_state_change = _noting_each(machine.after_state_change, watched, seen)
        for event in machine.events.values():
            assert isinstance(event, CompiledEvent), "LifecycleMachine makes no others"
            _follow_rows(event, seen)
            # In place: whoever drives the machine holds on to what was compiled before.
            compiled = event.by_source
            if compiled is None:
                event.compile()
            else:
                compiled.update(event.compile())
                event.by_source = compiled

    def of(self, lifecycle: Lifecycle) -> LifecycleCoverage:
        """What has been exercised of a lifecycle."""
        return LifecycleCoverage(lifecycle, self.seen.get(lifecycle.name, set()))

    def report(self, lifecycles: Iterable[Lifecycle] = ()) -> list[LifecycleCoverage]:
        """What has been exercised of these lifecycles; of every one that a machine was made of, if none is named."""
        return [self.of(lifecycle) for lifecycle in lifecycles or self.driven.values()]


def _follow_rows(event: CompiledEvent, seen: set[Item]) -> None:
    for transitions in event.transitions.values():
        for transition in transitions:
            row: Row = transition.row  # type: ignore[attr-defined]  # RowTransition has it
            # What is called before the change is called when the row has been chosen, whatever happens afterwards.
            transition.before = [_noting(seen, _taken(row)), *transition.before]
            for condition in transition.conditions:
                condition.func = _noting_outcome(condition.func, _outcome(row, True), _outcome(row, False), seen)


def _noting_each(callbacks: list[Any], items: list[Item], seen: set[Item]) -> list[Any]:
    return [_then(_noting(seen, item), callback) for callback, item in zip(callbacks, items, strict=True)]


def _noting(seen: set[Item], item: Item) -> Callable[[Any], None]:
    return lambda event: seen.add(item)


def _then(note: Callable[[Any], None], callback: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(event: Any) -> Any:
        note(event)
        return callback(event)

    return run


def _noting_outcome(guard: Any, passed: Item, failed: Item, seen: set[Item]) -> Callable[[Any], Any]:
    def ask(event: Any) -> Any:
        answer = guard(event)
        seen.add(passed if answer == True else failed)  # noqa: E712 # compared as the machine compares it
        return answer

    return ask
