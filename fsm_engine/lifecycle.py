"""A lifecycle as data: states, triggers, guarded rows, and the checks that make it sound.

A `Lifecycle` has no behaviour. The machine runs it, and diagrams, tables, walks and tests read it; so there is one
place where a move of a machine is written down. What is wrong with a declaration is said when it is built, all
problems at once, each with the way to mend it.

Example:
    >>> door = Lifecycle(
    ...     name="door",
    ...     initial="OPEN",
    ...     states=(State("OPEN"), State("SHUT"), State("LOCKED", final=True)),
    ...     rows=(Row("OPEN", "push", "SHUT"), Row("SHUT", "turn_key", "LOCKED", guard="has_key")),
    ...     guards={"has_key": lambda event: event.model.key is not None},
    ... )
    >>> [row.dest for row in door.rows_from("SHUT")]
    ['LOCKED']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from .errors import LifecycleError

ANY_UNFINISHED = "*"
"""As the source of a `Row`: every state that is not final, those that an extension adds included."""

_NO_NAMES = ("", ANY_UNFINISHED, "=")
"""`transitions` reads no destination, every source and the same state in them."""

Guard = Callable[[Any], bool]
"""Told what is happening (`machine.Firing`); answers whether the row may be taken. Pure: it changes nothing."""

Hook = Callable[[Any], object]
"""Told what is happening (`machine.Firing`) on entering or leaving a state."""


@dataclass(frozen=True, slots=True)
class State:
    """A situation that the model of a lifecycle can be in.

    Args:
        name: what the model's `state` attribute holds.
        final: nothing leads out of it.
        gates: names of hooks that may refuse, run first on entering, in this order.
        on_enter: names of hooks that watch entering, in this order.
        on_exit: names of hooks that watch leaving, in this order.
        activity: what is awaited while the model is in this state, in words for diagrams; `None`: nothing.
        doc: one sentence for diagrams and tables.
    """

    name: str
    final: bool = False
    gates: tuple[str, ...] = ()
    on_enter: tuple[str, ...] = ()
    on_exit: tuple[str, ...] = ()
    activity: str | None = None
    doc: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _plain(self.name))


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: in `source`, on `trigger`, if `guard` passes, go to `dest`.

    Rows of one source and trigger are tried in the order written; the first whose guard passes is taken.
    """

    source: str
    trigger: str
    dest: str
    guard: str | None = None
    doc: str = ""

    def __post_init__(self) -> None:
        for name in ("source", "trigger", "dest"):
            object.__setattr__(self, name, _plain(getattr(self, name)))

    def __str__(self) -> str:
        guard = f" [{self.guard}]" if self.guard else ""
        return f"{self.source} --{self.trigger}{guard}--> {self.dest}"


@dataclass(frozen=True)
class Lifecycle:
    """States and guarded rows, checked when built.

    Args:
        name: for messages, diagrams and file names.
        initial: the state in which every model begins.
        states: all of them.
        rows: the table; a source of `ANY_UNFINISHED` stands for every state that is not final.
        guards: the function behind each guard name.
        on_transition: names of hooks that watch every transition, after the enter hooks, in this order.
        perpetual: the lifecycle has no end (a circuit breaker's, say), so no final state is asked for.
        doc: what it is the life of, one sentence.

    Raises:
        LifecycleError: the declaration is unsound; the message lists every problem found.
    """

    name: str
    initial: str
    states: tuple[State, ...]
    rows: tuple[Row, ...]
    guards: Mapping[str, Guard] = field(default_factory=dict)
    on_transition: tuple[str, ...] = ()
    perpetual: bool = False
    doc: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", _plain(self.initial))
        object.__setattr__(self, "states", tuple(self.states))
        object.__setattr__(self, "rows", tuple(self.rows))
        object.__setattr__(self, "guards", MappingProxyType(dict(self.guards)))
        found = problems(self)
        if found:
            listing = "".join(f"\n- {problem}" for problem in found)
            raise LifecycleError(f"The lifecycle {self.name!r} is not sound:{listing}")

    @cached_property
    def by_name(self) -> Mapping[str, State]:
        """Every state by its name."""
        return MappingProxyType({state.name: state for state in self.states})

    @cached_property
    def moves(self) -> tuple[Row, ...]:
        """The rows with `ANY_UNFINISHED` written out, in the order in which they are tried."""
        unfinished = [state.name for state in self.states if not state.final]
        return tuple(
            replace(row, source=source)
            for row in self.rows
            for source in (unfinished if row.source == ANY_UNFINISHED else (row.source,))
        )

    @cached_property
    def triggers(self) -> tuple[str, ...]:
        """Every trigger once, in the order of first mention."""
        return tuple(dict.fromkeys(row.trigger for row in self.rows))

    @cached_property
    def final_states(self) -> frozenset[str]:
        """Names of the states that nothing leads out of."""
        return frozenset(state.name for state in self.states if state.final)

    @cached_property
    def hook_names(self) -> frozenset[str]:
        """Every gate and hook that a machine of this lifecycle must be given."""
        named = {name for state in self.states for name in (*state.gates, *state.on_enter, *state.on_exit)}
        return frozenset(named.union(self.on_transition))

    def rows_from(self, source: str, trigger: str | None = None) -> tuple[Row, ...]:
        """The rows that lead out of a state, of one trigger or of all, in the order in which they are tried."""
        return tuple(row for row in self.moves if row.source == source and trigger in (None, row.trigger))

    def _repr_svg_(self) -> str | None:
        """What a notebook shows: the picture; see `fsm_engine.diagram.lifecycle_diagram`."""
        from .diagram import lifecycle_diagram

        return lifecycle_diagram(self)._repr_svg_()

    def _repr_markdown_(self) -> str | None:
        """What a notebook shows where Graphviz is missing."""
        from .diagram import lifecycle_diagram

        return lifecycle_diagram(self)._repr_markdown_()

    def extended(
        self,
        *,
        name: str | None = None,
        states: Iterable[State] = (),
        rows: Iterable[Row] = (),
        guards: Mapping[str, Guard] | None = None,
        on_transition: Iterable[str] = (),
    ) -> Lifecycle:
        """A new lifecycle with more in it; this one stays as it is.

        A state of a name that exists takes that state's place. A guarded row is tried after the guarded rows that
        its source and trigger have and before the unguarded one, be that written for the source or for
        `ANY_UNFINISHED`. An unguarded row takes the place of the unguarded one that is written for the same source;
        beside one for `ANY_UNFINISHED` it is refused, so guard it.

        Raises:
            LifecycleError: the result is unsound.

        Example:
            >>> from fsm_engine.states.invocation import INVOCATION
            >>> audited = INVOCATION.extended(
            ...     name="audited",
            ...     states=[State("AUDITING", activity="write the ledger")],
            ...     rows=[Row("EXECUTING", "succeed", "AUDITING"), Row("AUDITING", "succeed", "COMPLETED")],
            ... )
            >>> audited.rows_from("EXECUTING", "succeed")[0].dest
            'AUDITING'
        """
        merged_states = {**self.by_name, **{state.name: state for state in states}}
        merged_rows = list(self.rows)
        for row in rows:
            _insert(merged_rows, row)
        return Lifecycle(
            name=name or self.name,
            initial=self.initial,
            states=tuple(merged_states.values()),
            rows=tuple(merged_rows),
            guards={**self.guards, **(guards or {})},
            on_transition=(*self.on_transition, *on_transition),
            perpetual=self.perpetual,
            doc=self.doc,
        )


def problems(lifecycle: Lifecycle) -> tuple[str, ...]:
    """Everything that makes a lifecycle unsound, a sentence each, with what to change; empty if it is sound."""
    found = [*_name_problems(lifecycle), *_row_problems(lifecycle)]
    if found:  # reachability of a table with unknown names in it says nothing
        return tuple(found)
    return (*_order_problems(lifecycle), *_reach_problems(lifecycle))


def _name_problems(lifecycle: Lifecycle) -> Iterable[str]:
    names = [state.name for state in lifecycle.states]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield f"state {name} is declared more than once; keep one declaration"
    for name in names:
        if name in _NO_NAMES:
            yield f"a state is called {name!r}, which means something else in a table; choose another name"
    if lifecycle.initial not in names:
        yield f"the initial state {lifecycle.initial} is not declared; declare it or begin in one of {_list(names)}"
    elif lifecycle.by_name[lifecycle.initial].final:
        yield f"the initial state {lifecycle.initial} is final; begin in a state that rows lead out of"
    given: Mapping[str, object] = lifecycle.guards  # as whoever wrote the table gave them, type checker or not
    for name, guard in given.items():
        if not callable(guard):
            yield f"guard {name!r} is not a function; give a function that takes the event and answers a bool"
    if not lifecycle.perpetual and not lifecycle.final_states:
        yield "no state is final; mark one final=True, or say perpetual=True"


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


def _insert(rows: list[Row], row: Row) -> None:
    """Put a row where `Lifecycle.extended` promises it."""
    for index, other in enumerate(rows):
        if other.trigger != row.trigger or other.guard is not None:
            continue
        if row.guard is None and other.source == row.source:
            rows[index] = row
            return
        if row.guard is not None and other.source in (row.source, ANY_UNFINISHED):
            rows.insert(index, row)
            return
    rows.append(row)


def _plain(name: object) -> str:
    """An enum member's text as a plain `str`, so that states compare, hash and print alike everywhere."""
    return str.__str__(name) if isinstance(name, str) else str(name)


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
