"""Ways through a lifecycle, as data: what a test goes through, and what a page shows.

A walk says what must happen, and not how to make it happen: for each step `guard_answers` tells what the guards must
answer. Guards are taken to be independent; of two that can never agree a walk may ask the impossible.

All of these are bounded and answer the same for the same lifecycle, under every hash seed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from ..errors.exceptions import ConfigurationError
from .cover import fewest_walks
from .lifecycle import Lifecycle, Row


@dataclass(frozen=True, slots=True)
class Walk:
    """Rows that follow one another from the initial state.

    Args:
        start: the state in which it begins; where it stays if it has no rows.
        rows: the rows taken, in order; none has `ANY_UNFINISHED` as its source.
        refused: a trigger that is fired at the end, while no guard of its rows passes; `None`: none is.

    Example:
        >>> walk = Walk("SHUT", (Row("SHUT", "turn_key", "OPEN", guard="has_key"), Row("OPEN", "push", "SHUT")))
        >>> walk.name, walk.states, len(walk)
        ('SHUT > OPEN [has_key] > SHUT', ('SHUT', 'OPEN', 'SHUT'), 2)
    """

    start: str
    rows: tuple[Row, ...] = ()
    refused: str | None = None

    @property
    def name(self) -> str:
        """For the id of a test: the states, each with the guard that led there, and a `!` before what is refused."""
        steps = (row.dest + (f" [{row.guard}]" if row.guard else "") for row in self.rows)
        refusal = f" ! {self.refused}" if self.refused else ""
        return " > ".join((self.start, *steps)) + refusal

    @property
    def states(self) -> tuple[str, ...]:
        """The states passed through, the first and the last included."""
        return (self.start, *(row.dest for row in self.rows))

    def __str__(self) -> str:
        return self.name

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)


def guard_answers(lifecycle: Lifecycle, row: Row) -> Mapping[str, bool]:
    """What the guards must answer for a row to be the one that is taken: those tried before it no, its own yes.

    Args:
        lifecycle: whose row it is.
        row: of `lifecycle.moves`.

    Raises:
        ConfigurationError: the lifecycle has no such move.

    Example:
        >>> from fsm_engine import INVOCATION
        >>> dict(guard_answers(INVOCATION, INVOCATION.rows_from("EXECUTING", "fail")[1]))
        {'may_retry': False, 'fallback_on_failure': True}
    """
    answers: dict[str, bool] = {}
    for rival in lifecycle.rows_from(row.source, row.trigger):
        if rival.guard is not None:
            answers[rival.guard] = rival == row
        if rival == row:
            return MappingProxyType(answers)
    raise ConfigurationError(f"{row} is no move of the lifecycle {lifecycle.name!r}; take rows from `lifecycle.moves`")


def shortest_walks(lifecycle: Lifecycle) -> Mapping[str, Walk]:
    """A shortest walk to every state, by the state's name; of several, the one whose rows are written first."""
    outward = _outward(lifecycle)
    found = {lifecycle.initial: Walk(lifecycle.initial)}
    todo = deque(found.values())
    while todo:
        walk = todo.popleft()
        for row in outward[walk.states[-1]]:
            if row.dest not in found:
                found[row.dest] = Walk(walk.start, (*walk.rows, row))
                todo.append(found[row.dest])
    return MappingProxyType({state.name: found[state.name] for state in lifecycle.states})


def simple_walks(lifecycle: Lifecycle, *, limit: int = 1_000) -> tuple[Walk, ...]:
    """The walks that pass no state twice, the shortest first, wherever they end.

    Args:
        lifecycle: to walk through.
        limit: how many at most; their number can grow exponentially with that of the states.

    Raises:
        ConfigurationError: `limit` is below 1.
    """
    _at_least_one("limit", limit)
    outward = _outward(lifecycle)
    found: list[Walk] = []
    todo = deque([Walk(lifecycle.initial)])
    while todo and len(found) < limit:
        walk = todo.popleft()
        found.append(walk)
        passed = walk.states
        todo.extend(Walk(walk.start, (*walk.rows, row)) for row in outward[passed[-1]] if row.dest not in passed)
    return tuple(found)


def covering_walks(lifecycle: Lifecycle) -> tuple[Walk, ...]:
    """The fewest walks, and of those the fewest steps, that take every row and see every guard both pass and fail.

    A row of `ANY_UNFINISHED` counts once for each state. A guard fails where a later row is taken; where there is none,
    a walk ends with a firing that is refused. Every other walk ends in a final state, if the lifecycle has one.

    Example:
        >>> from fsm_engine import INVOCATION
        >>> walks = covering_walks(INVOCATION)
        >>> {row for walk in walks for row in walk} == set(INVOCATION.moves)
        True
    """
    moves = lifecycle.moves
    refusals = _refusals(lifecycle)
    edges = [(row.source, row.dest) for row in moves] + [(source, "") for source, _ in refusals]
    ends = {"", *(lifecycle.final_states or lifecycle.by_name)}  # no state can be called ""
    walks = []
    for numbers in fewest_walks(edges, lifecycle.initial, ends):
        rows = tuple(moves[number] for number in numbers if number < len(moves))
        refused = refusals[numbers[-1] - len(moves)][1] if numbers[-1] >= len(moves) else None
        walks.append((len(numbers), numbers, Walk(lifecycle.initial, rows, refused)))
    return tuple(walk for *_, walk in sorted(walks, key=lambda item: item[:2]))


def random_walks(lifecycle: Lifecycle, count: int, *, random: Random, max_length: int = 100) -> tuple[Walk, ...]:
    """Walks that choose among the rows of each state evenly, until they reach a final state or are long enough.

    Args:
        lifecycle: to walk through.
        count: how many.
        random: where chance comes from; a seeded one gives the same walks again.
        max_length: rows of a walk at most.

    Raises:
        ConfigurationError: `count` or `max_length` is below 1.
    """
    _at_least_one("count", count)
    _at_least_one("max_length", max_length)
    outward = _outward(lifecycle)

    def wander() -> Walk:
        rows: list[Row] = []
        state = lifecycle.initial
        while len(rows) < max_length and outward[state]:
            rows.append(random.choice(outward[state]))
            state = rows[-1].dest
        return Walk(lifecycle.initial, tuple(rows))

    return tuple(wander() for _ in range(count))


def _outward(lifecycle: Lifecycle) -> Mapping[str, list[Row]]:
    outward: dict[str, list[Row]] = {state.name: [] for state in lifecycle.states}
    for row in lifecycle.moves:
        outward[row.source].append(row)
    return outward


def _refusals(lifecycle: Lifecycle) -> list[tuple[str, str]]:
    """Source and trigger wherever every row has a guard, so that all may say no."""
    may_refuse: dict[tuple[str, str], bool] = {}
    for row in lifecycle.moves:
        key = (row.source, row.trigger)
        may_refuse[key] = may_refuse.get(key, True) and row.guard is not None
    return [key for key, refuses in may_refuse.items() if refuses]


def _at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise ConfigurationError(f"{name} is {value}; give 1 or more")
