"""Lifecycles as data: what is refused when one is built, what an extension does, and what others read of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine.errors import ConfigurationError, LifecycleError
from fsm_engine.machine.checks import ANY_UNFINISHED, problems
from fsm_engine.machine.lifecycle import Lifecycle, Row, State
from fsm_engine.states.invocation import INVOCATION


def yes(event: object) -> bool:
    return True


def no(event: object) -> bool:
    return False


async def answers_later(event: object) -> bool:
    return False


GUARDS = {"yes": yes, "no": no}
A, B, END = State("A"), State("B"), State("END", final=True)


def lifecycle(*rows: Row, states: tuple[State, ...] = (A, B, END), **settings: Any) -> Lifecycle:
    return Lifecycle(**{"name": "probe", "initial": "A", "states": states, "rows": rows, "guards": GUARDS, **settings})


A_TO_B, B_TO_END, A_TO_END = Row("A", "go", "B"), Row("B", "go", "END"), Row("A", "stop", "END")
SOUND = lifecycle(A_TO_B, B_TO_END)

UNSOUND: dict[str, tuple[Callable[[], Lifecycle], str]] = {
    "unreachable state": (
        lambda: lifecycle(A_TO_END, B_TO_END),
        "state B cannot be reached from A; add a row into it or remove it",
    ),
    "state that only another unreachable one leads to": (
        lambda: lifecycle(
            A_TO_END, B_TO_END, Row("C", "go", "B"), Row("B", "back", "C"), states=(A, B, State("C"), END)
        ),
        "state C cannot be reached from A; add a row into it or remove it",
    ),
    "final state out of reach": (
        lambda: lifecycle(A_TO_END, states=(A, END, State("LOST", final=True))),
        "state LOST cannot be reached from A; add a row into it or remove it",
    ),
    "dead end": (
        lambda: lifecycle(A_TO_B, A_TO_END),
        "state B has no way to a final state; add a row out of it, or mark it final=True",
    ),
    "loop without a way out": (
        lambda: lifecycle(A_TO_B, A_TO_END, Row("B", "go", "B")),
        "state B has no way to a final state; add a row out of it, or mark it final=True",
    ),
    "two unguarded rows": (
        lambda: lifecycle(A_TO_B, B_TO_END, Row("A", "go", "END")),
        "row A --go--> END: a second unguarded row for this source and trigger; guard one or remove one",
    ),
    "two unguarded rows, one of them for every state": (
        lambda: lifecycle(A_TO_B, B_TO_END, Row(ANY_UNFINISHED, "go", "END")),
        "row A --go--> END: a second unguarded row for this source and trigger; guard one or remove one",
    ),
    "row behind an unguarded one": (
        lambda: lifecycle(A_TO_B, B_TO_END, Row("A", "go", "END", guard="yes")),
        "row A --go [yes]--> END: never tried, as an unguarded row stands before it; move it up",
    ),
    "row behind an unguarded one for every state": (
        lambda: lifecycle(A_TO_B, Row(ANY_UNFINISHED, "stop", "END"), Row("B", "stop", "A", guard="yes")),
        "row B --stop [yes]--> A: never tried, as an unguarded row stands before it; move it up",
    ),
    "row behind one of the same guard": (
        lambda: lifecycle(Row("A", "go", "B", guard="yes"), Row("A", "go", "END", guard="yes"), B_TO_END),
        "row A --go [yes]--> END: never taken, as the same guard stands before it (A --go [yes]--> B); remove it",
    ),
    "unknown guard": (
        lambda: lifecycle(A_TO_B, B_TO_END, Row("A", "stop", "END", guard="maybe")),
        "row A --stop [maybe]--> END: guard 'maybe' is not declared; declared are no, yes",
    ),
    "unknown guard where none is declared": (
        lambda: lifecycle(A_TO_B, Row("B", "go", "END", guard="maybe"), guards={}),
        "row B --go [maybe]--> END: guard 'maybe' is not declared; declared are none",
    ),
    "guard that is no function": (
        lambda: lifecycle(A_TO_B, B_TO_END, guards={"maybe": "is_ready"}),
        "guard 'maybe' must be a function, not str",
    ),
    "guard that is a coroutine function": (
        lambda: lifecycle(A_TO_B, Row("B", "go", "END", guard="later"), guards={"later": answers_later}),
        (
            "guard 'later' is a coroutine or generator function, but a transition waits for nothing, and what a guard "
            "answers is taken as it is; make it a plain function, and do what takes time in an activity"
        ),
    ),
    "guard without a parameter": (
        lambda: lifecycle(A_TO_B, B_TO_END, guards={"blind": lambda: True}),
        "guard 'blind' cannot be called with one argument, the event; give the guard that parameter",
    ),
    "outcome of a state that goes on": (
        lambda: lifecycle(A_TO_B, B_TO_END, states=(A, State("B", outcome="error"), END)),
        "state B has an outcome and is not final; take the outcome out, or mark it final=True",
    ),
    "unknown source": (
        lambda: lifecycle(A_TO_B, B_TO_END, Row("C", "go", "END")),
        "row C --go--> END: source C is not a declared state; declared are A, B, END",
    ),
    "unknown destination": (
        lambda: lifecycle(A_TO_B, B_TO_END, Row("A", "jump", "C")),
        "row A --jump--> C: dest C is not a declared state; declared are A, B, END",
    ),
    "every state as a destination": (
        lambda: lifecycle(A_TO_B, B_TO_END, Row("A", "jump", ANY_UNFINISHED)),
        "row A --jump--> *: dest * is not a declared state; declared are A, B, END",
    ),
    "row out of a final state": (
        lambda: lifecycle(A_TO_B, B_TO_END, Row("END", "again", "A")),
        "row END --again--> A: leads out of a final state; remove the row or the final mark",
    ),
    "undeclared initial state": (
        lambda: lifecycle(A_TO_B, B_TO_END, initial="START"),
        "the initial state START is not declared; declare it or begin in one of A, B, END",
    ),
    "final initial state": (
        lambda: lifecycle(A_TO_B, B_TO_END, initial="END"),
        "the initial state END is final; begin in a state that rows lead out of",
    ),
    "state declared twice": (
        lambda: lifecycle(A_TO_B, B_TO_END, states=(A, B, END, State("B", doc="again"))),
        "state B is declared more than once; keep one declaration",
    ),
    "no final state": (
        lambda: lifecycle(A_TO_B, Row("B", "go", "A"), states=(A, B)),
        "no state is final; mark one final=True, or say perpetual=True",
    ),
    "no states": (
        lambda: lifecycle(states=()),
        "the initial state A is not declared; declare it or begin in one of none",
    ),
    **{
        f"state called {name!r}": (
            lambda name=name: lifecycle(A_TO_END, Row("A", "go", name), states=(A, State(name, final=True), END)),
            f"a state is called {name!r}, which means something else in a table; choose another name",
        )
        for name in ("", "*", "=")
    },
}


@pytest.mark.parametrize(("build", "sentence"), UNSOUND.values(), ids=UNSOUND)
def test_unsound_lifecycle_is_refused_with_what_to_change(build: Callable[[], Lifecycle], sentence: str) -> None:
    with pytest.raises(LifecycleError) as refused:
        build()
    first, *listed = str(refused.value).split("\n- ")
    assert first == "The lifecycle 'probe' is not sound:"
    assert sentence in listed
    assert isinstance(refused.value, ConfigurationError)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(LifecycleError) as refused:
        lifecycle(Row("A", "go", "X"), Row("Y", "go", "B"), Row("A", "stop", "END", guard="maybe"), initial="Z")
    assert str(refused.value).count("\n- ") == 4


def test_a_dead_end_out_of_reach_has_both_faults() -> None:
    with pytest.raises(LifecycleError) as refused:
        lifecycle(A_TO_END)
    assert str(refused.value).split("\n- ")[1:] == [
        "state B cannot be reached from A; add a row into it or remove it",
        "state B has no way to a final state; add a row out of it, or mark it final=True",
    ]


SOUND_ONES: dict[str, Callable[[], Lifecycle]] = {
    "a chain": lambda: SOUND,
    "guarded rows before an unguarded one": lambda: lifecycle(
        Row("A", "go", "END", guard="yes"), Row("A", "go", "A", guard="no"), A_TO_B, B_TO_END
    ),
    "guarded rows alone": lambda: lifecycle(Row("A", "go", "B", guard="yes"), Row("B", "go", "END", guard="no")),
    "one guard for two triggers": lambda: lifecycle(
        Row("A", "go", "B", guard="yes"), Row("A", "stop", "END", guard="yes"), B_TO_END
    ),
    "every unfinished state": lambda: lifecycle(A_TO_B, Row(ANY_UNFINISHED, "stop", "END")),
    "guarded row of one state before that of every state": lambda: lifecycle(
        A_TO_B, Row("B", "stop", "A", guard="yes"), Row(ANY_UNFINISHED, "stop", "END")
    ),
    "no end, on purpose": lambda: lifecycle(A_TO_B, Row("B", "go", "A"), states=(A, B), perpetual=True),
    "an end, and perpetual": lambda: lifecycle(A_TO_B, B_TO_END, perpetual=True),
    "a guard that no row names yet": lambda: lifecycle(A_TO_END, states=(A, END)),
}


@pytest.mark.parametrize("build", SOUND_ONES.values(), ids=SOUND_ONES)
def test_sound_lifecycle_is_built(build: Callable[[], Lifecycle]) -> None:
    assert problems(build()) == ()


def test_lifecycle_of_many_states_is_built() -> None:
    """A chain, so that the search through it goes deep."""
    count = 500
    names = [f"S{number}" for number in range(count)]
    long = Lifecycle(
        name="long",
        initial="S0",
        states=(*map(State, names), END),
        rows=(
            *(Row(source, "go", dest) for source, dest in zip(names, [*names[1:], "END"], strict=True)),
            Row(ANY_UNFINISHED, "stop", "END"),
        ),
    )
    assert len(long.moves) == 2 * count


# -- random tables against a plain model ----------------------------------------------------------------------------

NAMES = ["A", "B", "C", "D", "E"]
RANDOM_ROWS = st.builds(
    Row,
    source=st.sampled_from([*NAMES, ANY_UNFINISHED]),
    trigger=st.sampled_from(["go", "stop"]),
    dest=st.sampled_from(NAMES),
    guard=st.sampled_from([None, "yes", "no"]),
)


def walks(edges: set[tuple[str, str]], start: str) -> set[str]:
    """Where any walk from `start` comes by, tried step by step as often as there are states."""
    seen = {start}
    for _ in NAMES:
        seen |= {dest for source, dest in edges if source in seen}
    return seen


@given(rows=st.lists(RANDOM_ROWS, max_size=14), final=st.sets(st.sampled_from(NAMES[1:])), perpetual=st.booleans())
def test_problems_agree_with_walking_and_trying_by_hand(rows: list[Row], final: set[str], perpetual: bool) -> None:
    """Reachability by plain walks; shadowing by asking, for each row, whether any answer of the guards takes it."""
    rows = [row for row in rows if row.source not in final]
    written = [
        replace(row, source=source)
        for row in rows
        for source in ([name for name in NAMES if name not in final] if row.source == ANY_UNFINISHED else [row.source])
    ]
    edges = {(row.source, row.dest) for row in written}

    def taken(row: Row, answers: dict[str, bool]) -> bool:
        tried = [r for r in written if (r.source, r.trigger) == (row.source, row.trigger)]
        first = next((r for r in tried if r.guard is None or answers[r.guard]), None)
        return first is row

    every_answer = [{"yes": left, "no": right} for left in (True, False) for right in (True, False)]
    expected = {
        *(f"row {row}" for row in written if not any(taken(row, answers) for answers in every_answer)),
        *(f"reach {name}" for name in NAMES if name not in walks(edges, "A")),
        *(f"end {name}" for name in NAMES if not perpetual and not walks(edges, name) & final),
    }

    def build() -> Lifecycle:
        states = tuple(State(name, final=name in final) for name in NAMES)
        return lifecycle(*rows, states=states, perpetual=perpetual)

    if not final and not perpetual:
        with pytest.raises(LifecycleError, match="no state is final"):
            build()
    elif not expected:
        assert problems(build()) == ()
    else:
        with pytest.raises(LifecycleError) as refused:
            build()
        assert {key(sentence) for sentence in str(refused.value).split("\n- ")[1:]} == expected


def key(sentence: str) -> str:
    """What a sentence is about, in the words of the model above."""
    if sentence.startswith("row "):
        return sentence.partition(": ")[0]
    return ("reach " if "cannot be reached" in sentence else "end ") + sentence.split()[1]


# -- what others read -----------------------------------------------------------------------------------------------

READ = lifecycle(
    Row("A", "go", "END", guard="no"),
    A_TO_B,
    Row(ANY_UNFINISHED, "stop", "END"),
    Row("B", "go", "A"),
    states=(
        State("A", on_exit=("leave",)),
        State("B", gates=("check",), on_enter=("greet", "log")),
        END,
    ),
    on_transition=("log", "count"),
)


def test_moves_write_out_every_unfinished_state_in_the_order_of_trying() -> None:
    assert [str(row) for row in READ.moves] == [
        "A --go [no]--> END",
        "A --go--> B",
        "A --stop--> END",
        "B --stop--> END",
        "B --go--> A",
    ]


def test_rows_from_gives_the_rows_of_a_state_in_the_order_of_trying() -> None:
    assert [(row.trigger, row.dest) for row in READ.rows_from("A")] == [("go", "END"), ("go", "B"), ("stop", "END")]
    assert [row.dest for row in READ.rows_from("A", "go")] == ["END", "B"]
    assert [row.dest for row in READ.rows_from("B", "go")] == ["A"]
    assert READ.rows_from("END") == READ.rows_from("A", "jump") == ()


def test_what_is_derived_from_a_lifecycle() -> None:
    assert READ.triggers == ("go", "stop")
    assert READ.final_states == {"END"}
    assert READ.hook_names == {"check", "greet", "leave", "log", "count"}
    assert list(READ.by_name) == ["A", "B", "END"]
    assert READ.by_name["B"].gates == ("check",)


def test_names_are_plain_strings_whatever_they_were_declared_as() -> None:
    """So that a state prints, compares and hashes alike in every table, log and message."""

    class Light(StrEnum):
        ON = "on"
        OFF = "off"
        PRESS = "press"

    built = Lifecycle(
        "light",
        Light.OFF,
        (State(Light.OFF), State(Light.ON, final=True)),
        (Row(Light.OFF, Light.PRESS, Light.ON),),
    )
    names = [built.initial, *built.by_name, *built.triggers, *(n for r in built.rows for n in (r.source, r.dest))]
    assert {type(name) for name in names} == {str}
    assert str(built.rows[0]) == "off --press--> on"


def test_a_lifecycle_cannot_be_changed() -> None:
    guards = dict(GUARDS)
    built = lifecycle(A_TO_B, B_TO_END, guards=guards)
    guards.clear()
    assert built.guards == GUARDS
    with pytest.raises(FrozenInstanceError):
        built.initial = "B"  # type: ignore[misc]  # what the test is about
    with pytest.raises(TypeError):
        built.guards["maybe"] = yes  # type: ignore[index]  # what the test is about


def test_lists_are_taken_as_well_as_tuples() -> None:
    built = Lifecycle("lists", "A", [A, END], [A_TO_END])  # type: ignore[arg-type]  # what the test is about
    assert (built.states, built.rows) == ((A, END), (A_TO_END,))


# -- extending ------------------------------------------------------------------------------------------------------


def told(rows: tuple[Row, ...]) -> list[str]:
    return [f"{row.guard or ''}:{row.dest}" for row in rows]


BASE = lifecycle(
    Row("A", "go", "END", guard="no"),
    A_TO_B,
    Row("B", "go", "A", guard="no"),
    B_TO_END,
    Row(ANY_UNFINISHED, "stop", "END"),
    on_transition=("log",),
    doc="A base.",
)


@pytest.mark.parametrize(
    ("row", "order"),
    [
        pytest.param(
            Row("A", "go", "A", guard="extra"), ["no:END", "extra:A", ":B"], id="guarded, before the unguarded"
        ),
        pytest.param(Row("A", "go", "END"), ["no:END", ":END"], id="unguarded, in the unguarded one's place"),
        pytest.param(
            Row("A", "stop", "B", guard="extra"), ["extra:B", ":END"], id="guarded, before that of every state"
        ),
        pytest.param(Row("A", "jump", "B", guard="extra"), ["extra:B"], id="guarded, of a new trigger"),
        pytest.param(Row("A", "jump", "B"), [":B"], id="unguarded, of a new trigger"),
        pytest.param(Row("*", "stop", "A", guard="extra"), ["extra:A", ":END"], id="guarded, for every state"),
        pytest.param(Row("*", "stop", "A"), [":A"], id="unguarded, for every state, in that one's place"),
    ],
)
def test_an_added_row_is_tried_where_extended_promises(row: Row, order: list[str]) -> None:
    way_to_b = Row("A", "aside", "B")  # whatever the row replaces, B stays within reach
    extended = BASE.extended(rows=[row, way_to_b], guards={"extra": yes})
    assert told(extended.rows_from("A", row.trigger)) == order
    if row.source == "A":
        assert extended.rows_from("B", row.trigger) == BASE.rows_from("B", row.trigger)


def test_several_guarded_rows_are_tried_in_the_order_given() -> None:
    extra = {"first": yes, "second": no}
    rows = [Row("A", "go", "A", guard="first"), Row("A", "go", "B", guard="second")]
    assert told(BASE.extended(rows=rows, guards=extra).rows_from("A", "go")) == ["no:END", "first:A", "second:B", ":B"]


def test_an_unguarded_row_beside_that_of_every_state_is_refused() -> None:
    with pytest.raises(LifecycleError, match="row A --stop--> B: a second unguarded row"):
        BASE.extended(rows=[Row("A", "stop", "B")])


def test_an_added_state_is_left_by_the_rows_of_every_unfinished_state() -> None:
    extended = BASE.extended(states=[State("C")], rows=[Row("A", "jump", "C")])
    assert told(extended.rows_from("C")) == [":END"]
    assert [state.name for state in extended.states] == ["A", "B", "END", "C"]


def test_a_state_of_a_known_name_takes_that_states_place() -> None:
    extended = BASE.extended(states=[State("A", on_exit=("leave",))])
    assert [state.name for state in extended.states] == ["A", "B", "END"]
    assert extended.by_name["A"].on_exit == ("leave",)
    assert extended.rows == BASE.rows


def test_an_extension_keeps_the_rest_and_leaves_the_original_as_it_was() -> None:
    before = (BASE.name, BASE.states, BASE.rows, dict(BASE.guards), BASE.on_transition)
    extended = BASE.extended(
        name="more",
        states=[State("C")],
        rows=[Row("A", "go", "C", guard="extra"), Row("B", "go", "C")],
        guards={"extra": yes, "no": yes},
        on_transition=["count"],
    )
    assert (BASE.name, BASE.states, BASE.rows, dict(BASE.guards), BASE.on_transition) == before
    assert (extended.name, extended.doc, extended.initial) == ("more", "A base.", "A")
    assert extended.guards == {"yes": yes, "no": yes, "extra": yes}
    assert extended.on_transition == ("log", "count")


def test_an_extension_by_nothing_is_the_same_lifecycle() -> None:
    assert BASE.extended() == BASE
    perpetual = lifecycle(A_TO_B, Row("B", "go", "A"), states=(A, B), perpetual=True)
    assert perpetual.extended() == perpetual


def test_an_unsound_extension_is_refused() -> None:
    with pytest.raises(LifecycleError, match="state C cannot be reached from A"):
        BASE.extended(states=[State("C")])


def test_the_invocation_can_be_sent_through_an_added_state() -> None:
    audited = INVOCATION.extended(
        name="audited",
        states=[State("AUDITING", activity="write the ledger")],
        rows=[Row("EXECUTING", "succeed", "AUDITING"), Row("AUDITING", "succeed", "COMPLETED")],
    )
    assert [row.dest for row in audited.rows_from("EXECUTING", "succeed")] == ["AUDITING"]
    assert {row.trigger: row.dest for row in audited.rows_from("AUDITING")} == {
        "succeed": "COMPLETED",
        "abort": "FAILED",
        "cancel": "CANCELLED",
    }
