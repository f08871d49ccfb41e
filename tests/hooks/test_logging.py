"""Lines of the log: what they hold, at which level, and what they never hold."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import structlog

from fsm_engine import ToolCall, ToolContext, ToolError, tool

from ..support import logged, play, virtual


@tool
async def greet(name: str, password: str = "") -> str:
    """Say good day."""
    if name == "nobody":
        raise ToolError("NOT_FOUND", "Nobody is here.", reason="empty")
    if name == "crash":
        raise ToolError("INTERNAL_ERROR", "The engine room is flooded.", reason="flooded")
    return f"hello {name}"


async def test_every_transition_and_the_end_are_logged_with_call_and_attempt() -> None:
    with logged() as lines:
        engine = virtual(greet)
        invocation = await engine.execute_tool_call(ToolCall("greet", {"name": "ada"}, "c1"))
    moves = [line for line in lines if line["event"] == "transition"]
    assert [(line["source"], line["trigger"], line["dest"]) for line in moves] == [
        (entry.source, entry.trigger, entry.dest) for entry in invocation.history
    ]
    assert {(line["tool"], line["call_id"], line["uid"]) for line in moves} == {("greet", "c1", invocation.uid)}
    assert {line["log_level"] for line in moves} == {"debug"}
    end = lines[-1]
    assert (end["event"], end["log_level"], end["state"], end["attempts"], end["time_ms"]) == (
        *("tool call ended", "info", "COMPLETED", 1, 0.0),
    )


@pytest.mark.parametrize(
    ("name", "level", "code", "reason", "words"),
    [
        ("crash", "warning", "INTERNAL_ERROR", "flooded", "The engine room is flooded"),
        ("nobody", "info", "NOT_FOUND", "empty", "Nobody is here"),
    ],
)
async def test_a_failed_call_is_a_warning_if_it_counts_against_the_tool_and_has_code_and_detail(
    name: str, level: str, code: str, reason: str, words: str
) -> None:
    with logged() as lines:
        await virtual(greet).invoke("greet", {"name": name})
    end = lines[-1]
    assert (end["event"], end["log_level"], end["code"], end["reason"]) == ("tool call failed", level, code, reason)
    assert words in end["detail"]


async def test_no_line_holds_an_argument_or_a_result() -> None:
    with logged() as lines:
        engine = virtual(greet)
        await engine.invoke("greet", {"name": "ada-lovelace", "password": "hunter2"})
        await engine.invoke("greet", {"name": 5, "password": "hunter2"})
        await engine.invoke("greet", '{"password": "hunter2"')
    assert "ada-lovelace" not in str(lines)
    assert "hunter2" not in str(lines)


async def test_without_structlog_configured_lines_go_to_the_standard_library(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="fsm_engine"):
        engine = virtual(greet)
        await engine.invoke("greet", {"name": "ada"})
    assert {record.name for record in caplog.records} == {"fsm_engine"}
    assert any("transition" in record.getMessage() for record in caplog.records)
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="fsm_engine"):
        await engine.invoke("greet", {"name": "ada"})
        assert caplog.records == []
        await engine.invoke("greet", {"name": "crash"})
        assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_a_filtering_logger_is_asked_before_a_line_is_made() -> None:
    lines: list[Any] = []

    def keep(_: object, __: str, line: Any) -> Any:
        lines.append(line)
        raise structlog.DropEvent

    structlog.configure(processors=[keep], wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    try:
        engine = virtual(greet)
        await engine.invoke("greet", {"name": "ada"})
        assert lines == []
        await engine.invoke("greet", {"name": "crash"})
        assert [line["event"] for line in lines] == ["tool call failed"]
    finally:
        structlog.reset_defaults()


async def test_a_tools_own_logger_knows_the_call() -> None:
    async def says(ctx: ToolContext) -> str:
        ctx.log.info("hello", extra=1)
        return "done"

    with logged() as lines:
        invocation = await virtual(says).execute_tool_call(ToolCall("says", None, "c1"))
    (line,) = [line for line in lines if line["event"] == "hello"]
    assert (line["tool"], line["call_id"], line["uid"], line["attempt"], line["extra"]) == (
        *("says", "c1", invocation.uid, 1, 1),
    )


async def _price(item: str, count: int = 1) -> float:
    """What so many of an item cost."""
    return {"tea": 3.5}[item] * count


async def test_by_default_a_fault_is_told_with_the_authors_frames_and_a_refusal_with_path_and_rule(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, logger="fsm_engine"):
        engine = virtual(tool(name="price")(_price))
        await engine.invoke("price", {"item": "coffee"})
        await engine.invoke("price", {"count": "two", "made up by the model: hunter2": 1})
    fault, refused = (record.getMessage() for record in caplog.records)
    assert "builtins.KeyError: 'coffee'" in fault
    assert f"{__file__}:" in fault
    assert " in _price" in fault
    assert "count (type)" in refused
    assert "item (required)" in refused
    assert "two" not in refused
    assert "hunter2" not in refused
    assert len(refused.splitlines()) == 1


async def test_an_attempt_that_is_tried_again_says_why_in_the_line_of_its_transition() -> None:
    failures = iter([ConnectionError("north refused")])

    @tool(read_only=True, max_retries=1)
    async def ask() -> str:
        for error in failures:
            raise error
        return "good"

    with logged() as lines:
        engine = virtual(ask)
        await play(engine, engine.invoke("ask"))
    (line,) = [line for line in lines if line.get("dest") == "RETRYING"]
    assert line["code"] == "NETWORK_ERROR"
    assert "north refused" in line["detail"]
    assert f"{__file__}:" in line["detail"]


def test_the_page_on_logging_runs_and_prints_what_it_shows() -> None:
    page = (Path(__file__).parents[2] / "docs" / "logging.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    well, fault, exception, place, refused, *rest = done.stdout.splitlines()
    assert not rest
    assert well.startswith("INFO event='tool call ended' tool='price'")
    assert fault.startswith("WARNING event='tool call failed' tool='price'")
    assert "exception_type='KeyError'" in fault
    assert exception == "    builtins.KeyError: 'coffee'"
    assert place.endswith("in price")
    assert refused.startswith("INFO event='tool call failed' tool='price'")
    assert refused.endswith("issues='count (type), item (required)'")
