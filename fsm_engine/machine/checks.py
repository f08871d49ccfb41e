"""What makes a lifecycle unsound, each problem in a sentence that says what to change."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ..settings.callbacks import callback_problem

if TYPE_CHECKING:
    from .lifecycle import Lifecycle, Row

ANY_UNFINISHED = "*"
"""As the source of a `Row`: every state that is not final, those that an extension adds included."""

_NO_NAMES = ("", ANY_UNFINISHED, "=")
"""`transitions` reads no destination, every source and the same state in them."""

_NEAR: Final = 0.8
"""How alike two triggers are, of 1, that one of them is taken for a slip of the pen."""


def near_misses(trigger: str, allowed: Iterable[str]) -> list[str]:
    """The triggers that this one is probably a slip of, the nearest first.

    >>> near_misses("acept", ["accept", "validate"]), near_misses("resubmit", ["submit"])
    (['accept'], [])
    """
    if trigger in (names := tuple(allowed)):
        return []
    # What only adds to a word is a word of its own: reopen, cancelled.
    others = [name for name in names if name not in trigger and trigger not in name]
    return difflib.get_close_matches(trigger, others, cutoff=_NEAR)


def problems(lifecycle: Lifecycle) -> tuple[str, ...]:
    """Everything that makes a lifecycle unsound, a sentence each, with what to change; empty if it is sound."""
    found = [*_name_problems(lifecycle), *_row_problems(lifecycle)]
    if found:  # reachability of a table with unknown names in it says nothing
        return tuple(found)
    return (*_order_problems(lifecycle), *_reach_problems(lifecycle))


def _name_problems(lifecycle: Lifecycle) -> Iterable[str]:
    names = [state.name for state in lifecycle.states]
    yield from _state_problems(lifecycle, names)
    if lifecycle.initial not in names:
        yield f"the initial state {lifecycle.initial} is not declared; declare it or begin in one of {_list(names)}"
    elif lifecycle.by_name[lifecycle.initial].final:
        yield f"the initial state {lifecycle.initial} is final; begin in a state that rows lead out of"
    for name, guard in lifecycle.guards.items():
        if problem := callback_problem(guard, "guard"):
            yield f"guard {name!r} {problem}"
    if not lifecycle.perpetual and not lifecycle.final_states:
        yield "no state is final; mark one final=True, or say perpetual=True"


def _state_problems(lifecycle: Lifecycle, names: list[str]) -> Iterable[str]:
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f"state {name} is declared more than once; keep one declaration"
    for name in names:
        if name in _NO_NAMES:
            yield f"a state is called {name!r}, which means something else in a table; choose another name"
    for state in lifecycle.states:
        if state.outcome is not None and not state.final:
            yield f"state {state.name} has an outcome and is not final; take the outcome out, or mark it final=True"


def _row_problems(lifecycle: Lifecycle) -> Iterable[str]:
    names = lifecycle.by_name
    for row in lifecycle.rows:
        for role, name in (("source", row.source), ("dest", row.dest)):
            if name not in names and not (role == "source" and name == ANY_UNFINISHED):
                yield f"row {row}: {role} {name} is not a declared state; declared are {_list(names)}"
        if row.source in lifecycle.final_states:
            yield f"row {row}: leads out of a final state; remove the row or the final mark"
        if row.guard is not None and row.guard not in lifecycle.guards:
            yield f"row {row}: guard {row.guard!r} is not declared; declared are {_list(lifecycle.guards)}"


def _order_problems(lifecycle: Lifecycle) -> Iterable[str]:
    seen: dict[tuple[str, str], dict[str | None, Row]] = {}
    for row in lifecycle.moves:
        earlier = seen.setdefault((row.source, row.trigger), {})
        if None in earlier and row.guard is None:
            yield f"row {row}: a second unguarded row for this source and trigger; guard one or remove one"
        elif None in earlier:
            yield f"row {row}: never tried, as an unguarded row stands before it; move it up"
        elif row.guard in earlier:
            yield f"row {row}: never taken, as the same guard stands before it ({earlier[row.guard]}); remove it"
        earlier.setdefault(row.guard, row)


def _reach_problems(lifecycle: Lifecycle) -> Iterable[str]:
    forward: dict[str, set[str]] = {state.name: set() for state in lifecycle.states}
    backward: dict[str, set[str]] = {state.name: set() for state in lifecycle.states}
    for row in lifecycle.moves:
        forward[row.source].add(row.dest)
        backward[row.dest].add(row.source)
    reachable = _closure({lifecycle.initial}, forward)
    ending = _closure(set(lifecycle.final_states), backward)
    for state in lifecycle.states:
        if state.name not in reachable:
            yield f"state {state.name} cannot be reached from {lifecycle.initial}; add a row into it or remove it"
        if not lifecycle.perpetual and state.name not in ending:
            yield f"state {state.name} has no way to a final state; add a row out of it, or mark it final=True"


def _closure(start: set[str], edges: Mapping[str, set[str]]) -> set[str]:
    reached, todo = set(start), list(start)
    while todo:
        for name in edges[todo.pop()] - reached:
            reached.add(name)
            todo.append(name)
    return reached


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
