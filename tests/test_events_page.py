"""The page of the events says what the schema says, and its example runs."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

import fsm_engine
from fsm_engine.events.wire_schema import event_schema

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "events.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
DEFINED = event_schema()["$defs"]


def test_every_event_and_everything_in_it_has_its_section() -> None:
    assert set(SECTIONS) == set(DEFINED)


@pytest.mark.parametrize("name", DEFINED)
def test_a_section_lists_every_field_with_what_is_said_of_it(name: str) -> None:
    definition = DEFINED[name]
    rows = dict(re.findall(r"^\| (\S+) \| .*? \| (.*) \|$", SECTIONS[name], re.MULTILINE))
    rows.pop("field", None)
    wanted = {
        f"**`{field}`**" if field in definition["required"] else f"`{field}`": what.get("description", "")
        for field, what in definition["properties"].items()
    }
    assert {field: said.replace("\\|", "|") for field, said in rows.items()} == wanted
    assert definition.get("description", "") in SECTIONS[name]


@pytest.mark.parametrize("name", [each["$ref"].rpartition("/")[2] for each in event_schema()["oneOf"]])
def test_a_section_names_the_class_whose_names_are_those_of_the_wire(name: str) -> None:
    [written] = re.findall(r"^`(\w+)` in Python", SECTIONS[name], re.MULTILINE)
    assert getattr(fsm_engine, written).type == name
    assert all(hasattr(getattr(fsm_engine, written), field) for field in DEFINED[name]["properties"])


def test_the_example_runs() -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(code, {"__name__": "__main__"})
    assert [line.partition(" ")[2] for line in said.getvalue().splitlines()] == ["0.5", "EXECUTION_ERROR"]
