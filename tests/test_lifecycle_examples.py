"""Lifecycles of users' own, as the examples and the page about them declare: checked, drawn, tested and run."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import settings

from fsm_engine import Lifecycle, Row, tool
from fsm_engine.cli.diagrams import add_commands
from fsm_engine.diagram import invocation_diagram, lifecycle_diagram
from fsm_engine.machine.soundness import check_lifecycle
from fsm_engine.machine.walks import Walk
from fsm_engine.testing import (
    PacedClock,
    Raises,
    Refusal,
    Rehearsal,
    Returns,
    assert_path,
    assert_table,
    every_refusal,
    every_row,
    scripted,
    walks,
)
from fsm_engine.testing.plugin import EngineFactory
from fsm_engine.testing.stateful import LifecycleRules

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "lifecycles.md").read_text(encoding="utf-8")


def load(name: str) -> ModuleType:
    """An example as a module; what it shows when it is run is not run."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the module of their class
    spec.loader.exec_module(module)
    return module


compensating = load("compensating")
document = load("document_lifecycle")
COMPENSATING: Lifecycle = compensating.COMPENSATING
DOCUMENT: Lifecycle = document.DOCUMENT
BOTH = pytest.mark.parametrize("lifecycle", [COMPENSATING, DOCUMENT], ids=lambda each: each.name)


def test_the_document_has_the_table_that_was_meant() -> None:
    assert_table(
        DOCUMENT,
        """
        DRAFT     --submit--> REVIEW
        REVIEW    --decide [is_approved]--> PUBLISHED
        REVIEW    --decide--> DRAFT
        PUBLISHED --revise--> DRAFT
        *         --archive--> ARCHIVED
        """,
    )


@BOTH
def test_nothing_in_it_is_idle(lifecycle: Lifecycle) -> None:
    report = check_lifecycle(lifecycle)
    assert not report.errors
    assert not report.warnings


@BOTH
def test_it_is_drawn_in_every_notation(lifecycle: Lifecycle) -> None:
    drawn = lifecycle_diagram(lifecycle)
    for text in (drawn.to_dot(), drawn.to_mermaid(), drawn.to_table(), drawn.to_svg()):
        assert all(state.name in text for state in lifecycle.states)


@pytest.mark.parametrize("row", every_row(DOCUMENT))
def test_every_row_of_a_document(row: Row) -> None:
    assert Rehearsal(DOCUMENT, row.source).take(row) == row.dest


@pytest.mark.parametrize("refusal", every_refusal(DOCUMENT))
def test_every_refusal_of_a_document(refusal: Refusal) -> None:
    Rehearsal(DOCUMENT, refusal.state).refuse(refusal.trigger)


@pytest.mark.parametrize("walk", walks(DOCUMENT))
def test_every_walk_of_a_document(walk: Walk) -> None:
    """With the real hooks."""
    rehearsal = Rehearsal(DOCUMENT, model=document.Document("x"), hooks=document.HOOKS)
    for row in walk:
        rehearsal.model.approvals = {"Ada", "Bo"} if row.guard else set()
        rehearsal.take(row)
    assert rehearsal.model.log == [str(row) for row in walk]


class DocumentRules(LifecycleRules):
    """A document in the hands of many people."""

    lifecycle = DOCUMENT
    hooks = document.HOOKS

    def new_model(self) -> Any:
        return document.Document("x")


TestDocument = DocumentRules.TestCase
TestDocument.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)


def test_two_people_must_approve() -> None:
    rehearsal = Rehearsal(DOCUMENT, "REVIEW", model=document.Document("x", approvals={"Ada"}), hooks=document.HOOKS)
    assert rehearsal.fire("decide") == "DRAFT"
    assert not rehearsal.model.approvals


@pytest.fixture
def compensated(engine_factory: EngineFactory, virtual_clock: PacedClock) -> Any:
    """What an invocation of a booking that may be undone comes to."""

    async def run(*attempts: Any, like: Any = compensating.book_room, **settings: Any) -> Any:
        double = scripted(*attempts, like=like, **settings)
        engine = compensating.build_engine(double, clock=virtual_clock)
        invocation = await engine.execute_tool_call({"name": double.name, "arguments": {"hotel": "Grand"}})
        await engine.aclose()
        return invocation

    return run


async def test_what_a_failed_booking_may_have_done_is_undone(
    compensated: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    compensating.booked.add("Grand")
    invocation = await compensated(Raises(ConnectionError("dead")))
    assert_path(invocation, "PENDING > VALIDATING > ADMITTING > EXECUTING > COMPENSATING [can_be_undone] > FAILED")
    assert (invocation.error.code, invocation.error.effect) == ("NETWORK_ERROR", "none")
    assert not compensating.booked
    assert capsys.readouterr().out == "undoing book_room after NETWORK_ERROR\n"


async def test_a_retry_comes_before_undoing(compensated: Any) -> None:
    invocation = await compensated(Raises(ConnectionError("dead")), Returns("yours"), idempotent=True, max_retries=1)
    assert_path(invocation, "... > EXECUTING > RETRYING > ADMITTING > EXECUTING > COMPLETED")


async def test_what_cannot_be_undone_fails_as_ever(compensated: Any) -> None:
    @tool
    async def walk_dog(hotel: str) -> None:
        """Has no undoing."""

    invocation = await compensated(Raises(ConnectionError("dead")), like=walk_dog)
    assert_path(invocation, "... > EXECUTING > FAILED")
    assert invocation.error.effect == "unknown"


async def test_an_undoing_that_fails_leaves_the_first_error(compensated: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(hotel: str) -> None:
        raise OSError("the line is still dead")

    monkeypatch.setitem(compensating.UNDO, "book_room", fail)
    invocation = await compensated(Raises(ConnectionError("dead")))
    assert_path(invocation, "... > COMPENSATING > FAILED")
    assert (invocation.error.code, invocation.error.effect) == ("NETWORK_ERROR", "unknown")


async def test_its_way_is_drawn_through_its_own_lifecycle(compensated: Any) -> None:
    invocation = await compensated(Raises(ConnectionError("dead")))
    drawn = invocation.diagram(COMPENSATING)
    assert drawn.to_mermaid() == invocation_diagram(invocation, COMPENSATING).to_mermaid()
    assert "COMPENSATING" in drawn.to_table()
    assert invocation._repr_svg_() is None
    assert invocation._repr_markdown_() is None


@pytest.mark.parametrize("row", every_row(COMPENSATING))
def test_every_row_with_compensation(row: Row) -> None:
    assert Rehearsal(COMPENSATING, row.source).take(row) == row.dest


@pytest.mark.parametrize("name", ["compensating:COMPENSATING", "document_lifecycle:DOCUMENT"])
def test_the_command_finds_it_by_module_and_name(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import typer
    from typer.testing import CliRunner

    monkeypatch.chdir(ROOT)
    app = typer.Typer()
    add_commands(app)
    done = CliRunner().invoke(app, ["check", f"examples.{name}"])
    assert done.exit_code == 0, done.output
    assert "sound" in done.output


TESTS_ON_THE_PAGE = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def test_" in block]


def test_the_tests_on_the_page_pass(tmp_path: Path) -> None:
    """As a user would run them, coroutines by the runner of this project."""
    for number, block in enumerate(TESTS_ON_THE_PAGE):
        (tmp_path / f"test_page_{number}.py").write_text(block, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(
        (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert len(TESTS_ON_THE_PAGE) == 2


def test_the_page_shows_what_the_example_holds() -> None:
    """Pieces of the page that are taken from the examples are still in them."""
    examples = "".join(
        (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
        for name in ("compensating", "document_lifecycle")
    )
    for block in re.findall(r"<!-- from an example -->\n```python\n(.*?)```", PAGE, re.DOTALL):
        assert block in examples


def test_the_page_s_table_of_moves_is_the_document_s() -> None:
    [table] = re.findall(r"<!-- the document's table -->\n(.*?)\n\n", PAGE, re.DOTALL)
    assert_table(DOCUMENT, table)
