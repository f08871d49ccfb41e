"""Walks cover what they promise, are as few as can be, and are the same every time."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Collection, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fsm_engine import INVOCATION, ConfigurationError, Lifecycle, Row, State
from fsm_engine.machine.cover import fewest_walks
from fsm_engine.machine.walks import Walk, covering_walks, guard_answers, random_walks, shortest_walks, simple_walks
from fsm_engine.states.circuit import CIRCUIT

BUILT_IN = (INVOCATION, CIRCUIT)
MUTE = Lifecycle("mute", "A", (State("A"),), (), perpetual=True)


def always(event: object) -> bool:
    return True


def is_walk(walk: Walk, lifecycle: Lifecycle) -> bool:
    """Each row begins where the one before ended, and all are moves of the lifecycle."""
    return (
        walk.start == lifecycle.initial
        and set(walk) <= set(lifecycle.moves)
        and all(row.source == state for row, state in zip(walk, walk.states, strict=False))
    )


def guard_outcomes(walk: Walk, lifecycle: Lifecycle) -> set[tuple[Row, bool]]:
    """Which guarded rows a walk sees pass and fail, told from the order of the table alone."""
    seen = set()
    steps: list[tuple[str, str, Row | None]] = [(row.source, row.trigger, row) for row in walk]
    if walk.refused:
        steps.append((walk.states[-1], walk.refused, None))
    for source, trigger, taken in steps:
        rows = lifecycle.rows_from(source, trigger)
        tried = rows if taken is None else rows[: rows.index(taken) + 1]
        seen |= {(row, row == taken) for row in tried if row.guard}
    return seen


def test_a_walk_says_its_states_and_the_guards_that_led_there() -> None:
    walk = covering_walks(INVOCATION)[2]
    assert walk.name == str(walk) == "PENDING > VALIDATING > FAILED [refused]"
    assert len(walk) == 2
    assert walk.states == ("PENDING", "VALIDATING", "FAILED")


def test_a_refused_trigger_ends_the_name_of_a_walk() -> None:
    assert Walk("A", (Row("A", "go", "B"),), "stop").name == "A > B ! stop"


@pytest.mark.parametrize("lifecycle", BUILT_IN, ids=lambda each: each.name)
def test_shortest_walks_lead_to_every_state(lifecycle: Lifecycle) -> None:
    walks = shortest_walks(lifecycle)
    assert list(walks) == [state.name for state in lifecycle.states]
    for state, walk in walks.items():
        assert is_walk(walk, lifecycle)
        assert walk.states[-1] == state
    assert all(
        len(walks[row.dest]) <= len(walks[row.source]) + 1 for row in lifecycle.moves
    )  # which only shortest walks satisfy together


def test_shortest_walk_to_the_initial_state_is_empty() -> None:
    assert shortest_walks(INVOCATION)["PENDING"] == Walk("PENDING")


@pytest.mark.parametrize("lifecycle", BUILT_IN, ids=lambda each: each.name)
def test_simple_walks_are_all_that_pass_no_state_twice(lifecycle: Lifecycle) -> None:
    walks = simple_walks(lifecycle)
    lengths = [len(walk) for walk in walks]
    assert len(set(walks)) == len(walks)
    assert lengths == sorted(lengths)
    for walk in walks:
        assert is_walk(walk, lifecycle)
        assert len(set(walk.states)) == len(walk.states)
    extended = {(*walk.rows, row) for walk in walks for row in lifecycle.rows_from(walk.states[-1])}
    missing = {rows for rows in extended if len({row.dest for row in rows} | {lifecycle.initial}) == len(rows) + 1}
    assert missing == {walk.rows for walk in walks if walk.rows}


def test_simple_walks_stop_at_the_limit_with_the_shortest() -> None:
    every = simple_walks(INVOCATION)
    for limit in (1, 2, 7, len(every), len(every) + 1):
        assert simple_walks(INVOCATION, limit=limit) == every[:limit]


def test_simple_walks_through_a_dense_lifecycle_are_bounded() -> None:
    names = [f"S{number}" for number in range(40)]
    rows = tuple(Row(a, f"to_{b}", b) for a, b in itertools.permutations(names, 2))
    dense = Lifecycle("dense", "S0", tuple(State(name) for name in names), rows, perpetual=True)
    assert len(simple_walks(dense, limit=500)) == 500


@pytest.mark.parametrize("lifecycle", BUILT_IN, ids=lambda each: each.name)
def test_covering_walks_take_every_row_and_see_every_guard_pass_and_fail(lifecycle: Lifecycle) -> None:
    walks = covering_walks(lifecycle)
    assert {row for walk in walks for row in walk} == set(lifecycle.moves)
    seen = set().union(*(guard_outcomes(walk, lifecycle) for walk in walks))
    assert seen == {(row, outcome) for row in lifecycle.moves if row.guard for outcome in (True, False)}
    for walk in walks:
        assert is_walk(walk, lifecycle)
        assert walk.refused or lifecycle.perpetual or walk.states[-1] in lifecycle.final_states


def test_an_invocation_needs_one_walk_for_each_way_into_an_end() -> None:
    """No walk can take two of these rows, so there cannot be fewer walks."""
    into_an_end = [row for row in INVOCATION.moves if row.dest in INVOCATION.final_states]
    assert len(covering_walks(INVOCATION)) == len(into_an_end)


def test_a_circuit_needs_one_walk_that_ends_with_a_refusal() -> None:
    [walk] = covering_walks(CIRCUIT)
    assert walk.refused == "recover"
    assert walk.states[-1] == "HALF_OPEN"


def test_a_lifecycle_without_rows_needs_no_walk() -> None:
    assert covering_walks(MUTE) == ()


def test_a_refusal_shares_its_walk_with_nothing_that_follows() -> None:
    """Two triggers that may be refused need two walks, though one would take every row."""
    rows = tuple(Row("A", trigger, "A", guard="always") for trigger in ("up", "down"))
    loop = Lifecycle("loop", "A", (State("A"),), rows, guards={"always": always}, perpetual=True)
    assert sorted(str(walk.refused) for walk in covering_walks(loop)) == ["down", "up"]


EDGES = st.lists(st.tuples(st.sampled_from("ABCD"), st.sampled_from("ABCD")), max_size=6)


def closure(start: Collection[str], edges: Sequence[tuple[str, str]]) -> set[str]:
    reached = set(start)
    while more := {b for a, b in edges if a in reached} - reached:
        reached |= more
    return reached


def least_cost(edges: Sequence[tuple[str, str]], start: str, ends: Collection[str]) -> tuple[int, int]:
    """The least number of walks, then of steps, by trying every order (Dijkstra over node and edges covered)."""
    everything = (1 << len(edges)) - 1
    todo, done = [(1, 0, start, 0)], set()
    while True:
        walks, steps, node, covered = heapq.heappop(todo)
        if covered == everything and node in ends:
            return walks, steps
        if (node, covered) in done:
            continue
        done.add((node, covered))
        for number, (a, b) in enumerate(edges):
            if a == node:
                heapq.heappush(todo, (walks, steps + 1, b, covered | 1 << number))
        if node in ends:
            heapq.heappush(todo, (walks + 1, steps, start, covered))


@given(EDGES, st.sets(st.sampled_from("ABCD"), min_size=1))
@example([*[("A", "B")] * 3, ("B", "C"), ("C", "D"), ("D", "A")], {*"ABCD"})  # a long way round is no second walk
@example([("B", "C"), ("C", "B"), ("B", "A"), ("B", "C"), ("A", "B")], {"A"})  # the first way found is not the shortest
def test_no_cover_has_fewer_walks_or_with_as_many_fewer_steps(drawn: list[tuple[str, str]], ends: set[str]) -> None:
    reachable = closure("A", drawn)
    ending = closure(ends, [(b, a) for a, b in drawn])
    edges = [(a, b) for a, b in drawn if a in reachable and b in ending]
    walks = fewest_walks(edges, "A", ends)
    for walk in walks:
        path = [edges[number] for number in walk]
        assert path[0][0] == "A"
        assert path[-1][1] in ends
        assert all(first[1] == second[0] for first, second in itertools.pairwise(path))
    assert {number for walk in walks for number in walk} == set(range(len(edges)))
    if edges:
        assert (len(walks), sum(map(len, walks))) == least_cost(edges, "A", ends)


@pytest.mark.parametrize("lifecycle", BUILT_IN, ids=lambda each: each.name)
def test_random_walks_end_in_a_final_state_or_are_long_enough(lifecycle: Lifecycle) -> None:
    walks = random_walks(lifecycle, 50, random=random.Random(1), max_length=9)
    assert len(walks) == 50
    for walk in walks:
        assert is_walk(walk, lifecycle)
        assert len(walk) <= 9
        assert len(walk) == 9 or walk.states[-1] in lifecycle.final_states


def test_random_walks_depend_on_the_chance_passed_in_alone() -> None:
    first, same, other = (random_walks(CIRCUIT, 5, random=random.Random(seed)) for seed in (1, 1, 2))
    assert first == same != other


def test_guard_answers_make_the_row_the_one_that_is_taken() -> None:
    retry, fallback, failed = INVOCATION.rows_from("EXECUTING", "fail")
    assert guard_answers(INVOCATION, retry) == {"may_retry": True}
    assert guard_answers(INVOCATION, fallback) == {"may_retry": False, "fallback_on_failure": True}
    assert guard_answers(INVOCATION, failed) == {"may_retry": False, "fallback_on_failure": False}


def test_guard_answers_for_a_row_of_another_lifecycle_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="OPEN --probe--> HALF_OPEN is no move of the lifecycle 'invocation'"):
        guard_answers(INVOCATION, CIRCUIT.rows[1])


@pytest.mark.parametrize(
    "ask",
    [
        lambda: simple_walks(INVOCATION, limit=0),
        lambda: random_walks(INVOCATION, 0, random=random.Random(1)),
        lambda: random_walks(INVOCATION, 1, random=random.Random(1), max_length=0),
    ],
    ids=["limit", "count", "max_length"],
)
def test_a_number_below_one_is_refused(ask: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match="is 0; give 1 or more"):
        ask()
