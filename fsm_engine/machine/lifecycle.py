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
from typing import Any, Literal, TypeVar, get_args

from ..errors.exceptions import LifecycleError
from .checks import ANY_UNFINISHED, near_misses, problems

__all__ = ["ANY_UNFINISHED", "Guard", "Hook", "Lifecycle", "Outcome", "Row", "State", "near_misses", "problems"]

_T = TypeVar("_T")

Outcome = Literal["result", "error", "cancelled"]
"""Which kind of response a final state of an invocation takes."""

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
        outcome: of a final state of an invocation: the kind of response that it takes. An engine puts what does not fit
            into such a response, so that state, response and events agree. `None`: a result as well as an error.
    """

    name: str
    final: bool = False
    gates: tuple[str, ...] = ()
    on_enter: tuple[str, ...] = ()
    on_exit: tuple[str, ...] = ()
    activity: str | None = None
    doc: str = ""
    outcome: Outcome | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _name(self.name, "the name of a state"))
        for places in ("gates", "on_enter", "on_exit"):
            object.__setattr__(self, places, _names(getattr(self, places), f"{places} of state {self.name}"))
        if self.outcome not in (None, *get_args(Outcome)):
            allowed = ", ".join(get_args(Outcome))
            raise LifecycleError(f"outcome of state {self.name} must be one of {allowed} or None, not {self.outcome!r}")


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
            object.__setattr__(self, name, _name(getattr(self, name), f"{name} of a row"))
        if not self.trigger:
            raise LifecycleError(f"the row from {self.source} to {self.dest} has no trigger; name what happens")

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
    guards: Mapping[str, Guard] = field(default_factory=dict, hash=False)  # functions, found by names that rows have
    on_transition: tuple[str, ...] = ()
    perpetual: bool = False
    doc: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", _name(self.initial, "initial"))
        object.__setattr__(self, "states", _all_of(State, self.states, "states"))
        object.__setattr__(self, "rows", _all_of(Row, self.rows, "rows"))
        object.__setattr__(self, "on_transition", _names(self.on_transition, "on_transition"))
        object.__setattr__(self, "guards", MappingProxyType(dict(self.guards)))
        found = problems(self)
        if found:
            listing = "".join(f"\n- {problem}" for problem in found)
            raise LifecycleError(f"The lifecycle {self.name!r} is not sound:{listing}")

    def __reduce__(self) -> tuple[Any, ...]:
        """It is made anew from what it was made of; guards that a module does not have by name cannot be pickled."""
        made_of = (self.name, self.initial, self.states, self.rows, dict(self.guards), self.on_transition)
        return type(self), (*made_of, self.perpetual, self.doc)

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
        from ..diagram.diagrams import lifecycle_diagram

        return lifecycle_diagram(self)._repr_svg_()

    def _repr_markdown_(self) -> str | None:
        """What a notebook shows where Graphviz is missing."""
        from ..diagram.diagrams import lifecycle_diagram

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

        A state of a name that exists adds to that state: what it has keeps its gates and hooks, which come first unless
        the new declaration names them, and its activity, words and outcome, unless the new one has its own. A guarded row is tried after the guarded rows that
        its source and trigger have and before the unguarded one, be that written for the source or for
        `ANY_UNFINISHED`. An unguarded row takes the place of the unguarded one that is written for the same source;
        beside one for `ANY_UNFINISHED` it is refused, so guard it.

        Raises:
            LifecycleError: the result is unsound, or a trigger is a slip of one that its source has.

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
        merged_states = dict(self.by_name)
        for state in _all_of(State, states, "states"):
            merged_states[state.name] = _merged(merged_states.get(state.name), state)
        merged_rows = list(self.rows)
        for row in _all_of(Row, rows, "rows"):
            self._refuse_slip(row)
            _insert(merged_rows, row)
        return Lifecycle(
            name=name or self.name,
            initial=self.initial,
            states=tuple(merged_states.values()),
            rows=tuple(merged_rows),
            guards={**self.guards, **(guards or {})},
            on_transition=(*self.on_transition, *_names(on_transition, "on_transition")),
            perpetual=self.perpetual,
            doc=self.doc,
        )

    def _refuse_slip(self, row: Row) -> None:
        """A new trigger that is nearly one that the source has would never be fired."""
        known = {each.trigger for each in self.rows if row.source in (ANY_UNFINISHED, each.source)}
        if row.trigger not in self.triggers and (near := near_misses(row.trigger, sorted(known))):
            raise LifecycleError(f"row {row}: {self.name!r} has no trigger {row.trigger!r}; did you mean {near[0]!r}?")


def _merged(there: State | None, new: State) -> State:
    if there is None:
        return new
    return replace(
        new,
        gates=_joined(there.gates, new.gates),
        on_enter=_joined(there.on_enter, new.on_enter),
        on_exit=_joined(there.on_exit, new.on_exit),
        activity=new.activity or there.activity,
        doc=new.doc or there.doc,
        outcome=new.outcome or (there.outcome if new.final else None),
    )


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


def _joined(given: Iterable[str], new: Iterable[str]) -> tuple[str, ...]:
    """The names that a state has, then the new ones; a new declaration that names one says where it stands."""
    new = tuple(new)
    return (*(name for name in given if name not in new), *new)


def _names(given: Any, of: str) -> tuple[str, ...]:
    """Several names; a text alone would be read letter by letter."""
    names = () if isinstance(given, str) else tuple(given)
    if isinstance(given, str) or not all(isinstance(name, str) for name in names):
        raise LifecycleError(f"{of} must be a tuple of names, not {given!r}; for one, write (name,)")
    return names


def _all_of(kind: type[_T], given: Iterable[Any], of: str) -> tuple[_T, ...]:
    found = tuple(given)
    for each in found:
        if not isinstance(each, kind):
            raise LifecycleError(f"{of} holds {each!r}, which is a {type(each).__name__}; write {kind.__name__}(...)")
    return found


def _name(given: object, of: str) -> str:
    """An enum member's text as a plain `str`, so that states compare, hash and print alike everywhere."""
    if not isinstance(given, str):
        raise LifecycleError(f"{of} must be a text, not {given!r}")
    return str.__str__(given)
