"""The rows, refusals and walks of a lifecycle as cases for `pytest.mark.parametrize`, with ids that read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ..machine.lifecycle import Lifecycle
from ..machine.walks import Walk, covering_walks

# The class that pytest.param makes has no public name.
Case = Any
"""What `pytest.param` answers."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A trigger that a state refuses.

    Args:
        state: where it is fired.
        trigger: what is fired.
        guards: those that must all say no for it; none: the state has no row for the trigger at all.
    """

    state: str
    trigger: str
    guards: tuple[str, ...] = ()

    def __str__(self) -> str:
        condition = f" [{', '.join(f'not {guard}' for guard in self.guards)}]" if self.guards else ""
        return f"{self.state} ! {self.trigger}{condition}"


def every_row(lifecycle: Lifecycle) -> list[Case]:
    """Every move, one `Row` a case; a row of `ANY_UNFINISHED` once for each state.

    Example:
        >>> from fsm_engine import INVOCATION
        >>> @pytest.mark.parametrize("row", every_row(INVOCATION))
        ... def test_row(row): Rehearsal(INVOCATION, row.source).take(row)
        >>> every_row(INVOCATION)[1].id
        'VALIDATING --accept [refused]--> FAILED'
    """
    return [pytest.param(row, id=str(row)) for row in lifecycle.moves]


def every_refusal(lifecycle: Lifecycle) -> list[Case]:
    """Every pair of state and trigger that is refused, always or while no guard passes; one `Refusal` a case.

    Example:
        >>> from fsm_engine import INVOCATION
        >>> every_refusal(INVOCATION)[0].id
        'PENDING ! accept'
    """
    refusals = []
    for state in lifecycle.states:
        for trigger in lifecycle.triggers:
            guards = [row.guard for row in lifecycle.rows_from(state.name, trigger)]
            if None not in guards:
                refusals.append(Refusal(state.name, trigger, tuple(guard for guard in guards if guard)))
    return [pytest.param(refusal, id=str(refusal)) for refusal in refusals]


def walks(
    lifecycle: Lifecycle,
    ways: Callable[[Lifecycle], Iterable[Walk] | Mapping[str, Walk]] = covering_walks,
) -> list[Case]:
    """Ways through a lifecycle, one `Walk` a case.

    Args:
        lifecycle: to walk through.
        ways: a function of `fsm_engine.machine.walks`: `covering_walks`, `shortest_walks`, `simple_walks`, or a partial of
            one with settings, `partial(random_walks, count=20, random=Random(1))`.

    Example:
        >>> from fsm_engine import INVOCATION
        >>> walks(INVOCATION)[2].id
        'PENDING > VALIDATING > FAILED [refused]'
    """
    found = ways(lifecycle)
    chosen = list(found.values() if isinstance(found, Mapping) else found)
    return [pytest.param(walk, id=name) for walk, name in zip(chosen, _unique_names(chosen), strict=True)]


def _unique_names(chosen: Sequence[Walk]) -> list[str]:
    """The names of walks: where the states do not tell two apart, with the triggers; then with a number."""
    short = Counter(walk.name for walk in chosen)
    names = [walk.name if short[walk.name] == 1 else _full_name(walk) for walk in chosen]
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return unique


def _full_name(walk: Walk) -> str:
    steps = (f"{row.trigger}{f' [{row.guard}]' if row.guard else ''} > {row.dest}" for row in walk)
    return " > ".join((walk.start, *steps)) + (f" ! {walk.refused}" if walk.refused else "")
