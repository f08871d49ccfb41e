"""The checker finds what a sound lifecycle may still have and hardly anybody means."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fsm_engine import INVOCATION, Lifecycle, Row, State
from fsm_engine.cli.diagrams import add_commands
from fsm_engine.machine.lifecycle import Guard
from fsm_engine.machine.soundness import Report, check_lifecycle
from fsm_engine.states.circuit import CIRCUIT

ANSWERS = {
    "PENDING": ("validate",),
    "VALIDATING": ("accept",),
    "AWAITING_APPROVAL": ("decide", "cancel"),
    "ADMITTING": ("admit", "cancel"),
    "EXECUTING": ("succeed", "fail", "cancel"),
    "RETRYING": ("retry", "cancel"),
    "FALLING_BACK": ("succeed", "fail", "cancel"),
}
"""What the activities of the engine answer."""


def always(event: object) -> bool:
    return True


def small(
    *rows: Row, a: State | None = None, c: State | None = None, guards: Mapping[str, Guard] | None = None
) -> Lifecycle:
    """A - start -> B - end -> C (final), and what a test adds."""
    return Lifecycle(
        name="small",
        initial="A",
        states=(a or State("A"), State("B"), c or State("C", final=True)),
        rows=(Row("A", "start", "B"), *rows, Row("B", "end", "C")),
        guards={**{row.guard: always for row in rows if row.guard}, **(guards or {})},
    )


def test_an_invocation_is_sound_with_nothing_to_say() -> None:
    assert check_lifecycle(INVOCATION, ANSWERS) == Report("invocation", "10 states, 18 rows, 9 triggers, 7 guards")


def test_a_circuit_is_sound_and_its_refusal_is_noted() -> None:
    report = check_lifecycle(CIRCUIT)
    assert report.is_sound
    assert not report.warnings
    assert report.notes == (
        "HALF_OPEN: 'recover' is refused when recovers_unaided does not hold; an unguarded row would catch that",
    )


@pytest.mark.parametrize(
    ("lifecycle", "warning"),
    [
        pytest.param(
            small(guards={"spare": always}),
            "guard spare is declared and no row has it; use it or remove it",
            id="guard",
        ),
        pytest.param(
            small(a=State("A", gates=("ask",), on_enter=("log",))),
            "A is begun in and never entered, so that ask, log never runs; hang it on leaving, or on the next state",
            id="entering-the-initial-state",
        ),
        pytest.param(
            small(c=State("C", final=True, on_exit=("log", "tell"))),
            "C is final and never left, so that log, tell never runs; hang it on entering",
            id="leaving-a-final-state",
        ),
        pytest.param(
            small(c=State("C", final=True, activity="clean up")),
            "C is final, so that nothing is awaited in it (clean up); do that in the state before",
            id="activity-of-a-final-state",
        ),
    ],
)
def test_what_never_has_an_effect_is_a_warning(lifecycle: Lifecycle, warning: str) -> None:
    report = check_lifecycle(lifecycle)
    assert report.warnings == (warning,)
    assert report.is_sound


def test_hooks_of_an_initial_state_that_is_entered_again_do_run() -> None:
    assert not check_lifecycle(small(Row("B", "again", "A"), a=State("A", on_enter=("log",)))).warnings


@pytest.mark.parametrize(
    ("rows", "notes"),
    [
        pytest.param(
            [Row("B", "go", "A", guard="g"), Row("B", "go", "A")],
            ["B: 'go' leads to A whether g holds or not; one row is enough"],
            id="guard-decides-nothing",
        ),
        pytest.param(
            [Row("B", "go", "A", guard="g"), Row("B", "go", "A", guard="h"), Row("B", "go", "C")],
            ["B: 'go' leads to A by g and by h; which of these two is tried first does not matter"],
            id="order-does-not-matter",
        ),
        pytest.param(
            [Row("B", "go", "A", guard="g"), Row("B", "go", "B", guard="h"), Row("B", "go", "A")],
            [],
            id="order-matters",
        ),
        pytest.param(
            [Row("B", "go", "A", guard="g"), Row("B", "go", "C", guard="h")],
            ["B: 'go' is refused when none of g, h holds; an unguarded row would catch that"],
            id="all-guarded",
        ),
        pytest.param(
            [Row("*", "stop", "C", guard="g")],
            ["*: 'stop' is refused when g does not hold; an unguarded row would catch that"],
            id="all-guarded-everywhere-is-said-once",
        ),
        pytest.param(
            [Row("B", "stop", "C", guard="g"), Row("*", "stop", "C")],
            ["B: 'stop' leads to C whether g holds or not; one row is enough"],
            id="a-row-of-any-state-joins-in",
        ),
    ],
)
def test_rows_that_compete_without_need_are_noted(rows: list[Row], notes: list[str]) -> None:
    report = check_lifecycle(small(*rows))
    assert list(report.notes) == notes
    assert report.is_sound


@pytest.mark.parametrize(
    ("activities", "errors", "warnings"),
    [
        pytest.param({"A": ["start"], "B": ["end"]}, [], [], id="fits"),
        pytest.param({"A": ["start", "stop"]}, [], [], id="any-state-row-counts"),
        pytest.param({}, [], [], id="nothing-told"),
        pytest.param(
            {"A": ["start", "leap"]},
            ["the activity of A may answer 'leap', which A has no row for; add one"],
            [],
            id="no-row",
        ),
        pytest.param(
            {"X": ["start"]}, ["an activity is given for X, which is no state; there are A, B, C"], [], id="no-state"
        ),
        pytest.param(
            {"C": ["start"]},
            ["an activity is given for C, which is final, so that it is never run; take it away"],
            [],
            id="final-state",
        ),
        pytest.param(
            {"A": []},
            [],
            [
                "row A --start--> B is never tried, as the activity of A does not answer 'start'",
                "B is never entered by what the activities answer, so that ask, log, tidy never runs",
            ],
            id="never-fired",
        ),
    ],
)
def test_what_activities_answer_is_held_against_the_rows(
    activities: Mapping[str, list[str]], errors: list[str], warnings: list[str]
) -> None:
    lifecycle = small(Row("*", "stop", "C")).extended(
        states=[State("B", gates=("ask",), on_enter=("log",), on_exit=("tidy",))]
    )
    report = check_lifecycle(lifecycle, activities)
    assert (list(report.errors), list(report.warnings)) == (errors, warnings)
    assert report.exit_status == (1 if errors else 0)


def test_a_state_without_hooks_that_is_never_entered_is_told_of_too() -> None:
    assert "B is never entered by what the activities answer" in check_lifecycle(small(), {"A": ()}).warnings


def test_an_unsound_declaration_is_reported_like_it_is_refused() -> None:
    """Built lifecycles are sound; one that was tampered with shows that the checks are the same."""
    lifecycle = small()
    object.__setattr__(lifecycle, "rows", lifecycle.rows[:1])
    vars(lifecycle).pop("moves", None)
    report = check_lifecycle(lifecycle)
    assert not report.is_sound
    assert any("C cannot be reached from A" in error for error in report.errors)


def test_a_report_is_read_line_by_line() -> None:
    report = Report("small", "1 state", ("first",), ("second",), ("third",))
    assert str(report) == "small: not sound (1 state)\nerror: first\nwarning: second\nnote: third"


def test_hundreds_of_states_take_less_than_a_second() -> None:
    last = 499
    big = Lifecycle(
        "big",
        "S0",
        tuple(State(f"S{number}", final=number == last) for number in range(last + 1)),
        (
            *(Row(f"S{number}", "next", f"S{number + 1}", guard="g") for number in range(last)),
            *(Row(f"S{number}", "next", f"S{number // 2}") for number in range(last)),
            Row("*", "abort", f"S{last}"),
        ),
        guards={"g": always},
    )
    began = time.perf_counter()
    check_lifecycle(big, {f"S{number}": ("next",) for number in range(last)})
    assert time.perf_counter() - began < 1.0


APP = typer.Typer()
add_commands(APP)


def test_the_command_checks_the_built_in_lifecycles() -> None:
    done = CliRunner().invoke(APP, ["check"])
    assert done.exit_code == 0
    assert "invocation: sound" in done.output
    assert "circuit: sound" in done.output


LOOSE = """
from fsm_engine import Lifecycle, Row, State
LOOSE = Lifecycle(
    "loose", "A", (State("A"), State("B", final=True)), (Row("A", "go", "B"),), guards={"spare": bool}
)
"""


def test_the_command_fails_for_warnings_if_it_is_strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds modules of the current folder."""
    (tmp_path / "my_loose_lifecycle.py").write_text(LOOSE)
    monkeypatch.chdir(tmp_path)
    lenient = CliRunner().invoke(APP, ["check", "my_loose_lifecycle:LOOSE"])
    assert lenient.exit_code == 0
    assert "warning: guard spare" in lenient.output
    assert CliRunner().invoke(APP, ["check", "--strict", "my_loose_lifecycle:LOOSE"]).exit_code == 1


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("nothing", "there is no lifecycle 'nothing'; name one of invocation, circuit, or module:name"),
        (":x", "there is no lifecycle ':x'; name one of"),
        ("no_such_module:x", "No module named 'no_such_module'"),
        ("fsm_engine.machine.soundness:Report", "Report of the module fsm_engine.machine.soundness is no Lifecycle"),
        ("fsm_engine.machine.soundness:nothing", "nothing of the module fsm_engine.machine.soundness is no Lifecycle"),
        ("my_broken_lifecycle:BROKEN", "state B cannot be reached from A"),
    ],
)
def test_a_target_that_cannot_be_checked_is_said_and_fails(
    target: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = LOOSE.replace('"go", "B"', '"go", "A"').replace("LOOSE", "BROKEN")
    (tmp_path / "my_broken_lifecycle.py").write_text(broken)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(APP, ["check", target])
    assert done.exit_code == 2
    assert why in done.stderr
