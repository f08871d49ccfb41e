"""What can be said of a lifecycle without running it, in plain words.

A `Lifecycle` that is unsound cannot be built. What is looked for here is what a sound one may still have, and hardly
anybody means: hooks that never run, guards that decide nothing, triggers that nobody fires.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from .checks import ANY_UNFINISHED, problems
from .lifecycle import Lifecycle, Row, State


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found.

    Args:
        name: of the lifecycle.
        size: how much of it there is, in words.
        errors: it cannot work as declared.
        warnings: a part of it has no effect.
        notes: worth knowing, and often meant.
    """

    name: str
    size: str
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """There are no errors."""
        return not self.errors

    @property
    def exit_status(self) -> int:
        """For a command: 0 if the lifecycle is sound, else 1."""
        return 0 if self.is_sound else 1

    def __str__(self) -> str:
        found = (("error", self.errors), ("warning", self.warnings), ("note", self.notes))
        lines = [f"{kind}: {sentence}" for kind, sentences in found for sentence in sentences]
        return "\n".join([f"{self.name}: {'sound' if self.is_sound else 'not sound'} ({self.size})", *lines])


def check_lifecycle(lifecycle: Lifecycle, activities: Mapping[str, Collection[str]] | None = None) -> Report:
    """Check a lifecycle, and what its activities may answer against it.

    Args:
        lifecycle: what to check; hundreds of states take well under a second.
        activities: for a state, the triggers that its activity may answer. A state that is not in it may answer
            whatever it has a row for. The triggers of `ANY_UNFINISHED` rows come from outside as well, at any time.

    Example:
        >>> from fsm_engine.states.circuit import CIRCUIT
        >>> print(check_lifecycle(CIRCUIT))
        circuit: sound (6 states, 11 rows, 10 triggers, 1 guard)
        note: HALF_OPEN: 'recover' is refused when recovers_unaided does not hold; an unguarded row would catch that
    """
    errors = [*problems(lifecycle)]
    warnings = [*_unused_guards(lifecycle), *_idle_hooks(lifecycle)]
    notes = [*_orders_without_effect(lifecycle), *_refusals(lifecycle)]
    if activities is not None:
        errors += _wrong_answers(lifecycle, activities)
        warnings += _unfired(lifecycle, activities)
        warnings += _never_entered(lifecycle, activities)
    size = ", ".join(
        f"{count} {word}{'' if count == 1 else 's'}"
        for count, word in (
            (len(lifecycle.states), "state"),
            (len(lifecycle.rows), "row"),
            (len(lifecycle.triggers), "trigger"),
            (len(lifecycle.guards), "guard"),
        )
    )
    return Report(lifecycle.name, size, tuple(errors), tuple(warnings), tuple(notes))


def _unused_guards(lifecycle: Lifecycle) -> Iterator[str]:
    used = {row.guard for row in lifecycle.rows}
    for guard in lifecycle.guards:
        if guard not in used:
            yield f"guard {guard} is declared and no row has it; use it or remove it"


def _idle_hooks(lifecycle: Lifecycle) -> Iterator[str]:
    """The machine begins in the initial state without entering it, and nothing leads out of a final one."""
    entered = {row.dest for row in lifecycle.moves}
    for state in lifecycle.states:
        if state.name not in entered and (names := _on_entering(state)):
            yield f"{state.name} is begun in and never entered, so that {names} never runs; hang it on leaving, or on the next state"
        if state.final and state.on_exit:
            yield f"{state.name} is final and never left, so that {', '.join(state.on_exit)} never runs; hang it on entering"
        if state.final and state.activity:
            yield f"{state.name} is final, so that nothing is awaited in it ({state.activity}); do that in the state before"


def _on_entering(state: State) -> str:
    return ", ".join((*state.gates, *state.on_enter))


def _orders_without_effect(lifecycle: Lifecycle) -> Iterator[str]:
    for (source, trigger), rows in _rivals(lifecycle).items():
        for first, second in pairwise(rows):
            if first.dest == second.dest and second.guard is None:
                yield f"{source}: {trigger!r} leads to {first.dest} whether {first.guard} holds or not; one row is enough"
            elif first.dest == second.dest:
                yield (
                    f"{source}: {trigger!r} leads to {first.dest} by {first.guard} and by {second.guard}; "
                    "which of these two is tried first does not matter"
                )


def _refusals(lifecycle: Lifecycle) -> Iterator[str]:
    for (source, trigger), rows in _rivals(lifecycle).items():
        guards = [row.guard for row in rows if row.guard is not None]
        if len(guards) == len(rows):
            no_guard = f"{guards[0]} does not hold" if len(guards) == 1 else f"none of {', '.join(guards)} holds"
            yield f"{source}: {trigger!r} is refused when {no_guard}; an unguarded row would catch that"


def _rivals(lifecycle: Lifecycle) -> Mapping[tuple[str, str], list[Row]]:
    """The rows that one trigger chooses from, by source as written: rows of `*` stand alone where nothing joins them."""
    written = {(row.source, row.trigger) for row in lifecycle.rows}
    everywhere = [row for row in lifecycle.rows if row.source == ANY_UNFINISHED]
    rivals: dict[tuple[str, str], list[Row]] = {}
    for row in (*lifecycle.moves, *everywhere):
        if (row.source, row.trigger) in written:
            rivals.setdefault((row.source, row.trigger), []).append(row)
    return rivals


def _wrong_answers(lifecycle: Lifecycle, activities: Mapping[str, Collection[str]]) -> Iterator[str]:
    taken = {(row.source, row.trigger) for row in lifecycle.moves}
    for state, triggers in activities.items():
        if state not in lifecycle.by_name:
            yield f"an activity is given for {state}, which is no state; there are {', '.join(lifecycle.by_name)}"
        elif state in lifecycle.final_states:
            yield f"an activity is given for {state}, which is final, so that it is never run; take it away"
        else:
            for trigger in sorted(triggers):
                if (state, trigger) not in taken:
                    yield f"the activity of {state} may answer {trigger!r}, which {state} has no row for; add one"


def _unfired(lifecycle: Lifecycle, activities: Mapping[str, Collection[str]]) -> Iterator[str]:
    for row in lifecycle.rows:
        if row.source != ANY_UNFINISHED and not _can_fire(row, activities):
            yield f"row {row} is never tried, as the activity of {row.source} does not answer {row.trigger!r}"


def _can_fire(row: Row, activities: Mapping[str, Collection[str]]) -> bool:
    return row.source not in activities or row.trigger in activities[row.source]


def _never_entered(lifecycle: Lifecycle, activities: Mapping[str, Collection[str]]) -> Iterator[str]:
    outside = {row.trigger for row in lifecycle.rows if row.source == ANY_UNFINISHED}
    outward: dict[str, list[str]] = {state.name: [] for state in lifecycle.states}
    for row in lifecycle.moves:
        if row.trigger in outside or _can_fire(row, activities):
            outward[row.source].append(row.dest)
    reached, todo = {lifecycle.initial}, deque([lifecycle.initial])
    while todo:
        fresh = [name for name in outward[todo.popleft()] if name not in reached]
        reached.update(fresh)
        todo.extend(fresh)
    for state in lifecycle.states:
        if state.name not in reached:
            hooks = (*state.gates, *state.on_enter, *state.on_exit)
            idle = f", so that {', '.join(hooks)} never runs" if hooks else ""
            yield f"{state.name} is never entered by what the activities answer{idle}"


__all__ = ["Report", "check_lifecycle"]
