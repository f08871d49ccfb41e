"""What a type checker knows of a tool: its settings, and the signature of the function that it was made of."""

from __future__ import annotations

from pathlib import Path

from mypy import api

PROGRAM = """
from fsm_engine import ToolEngine, ToolSpec, tool

@tool(timeout=5.0, read_only=True)
async def search(query: str, limit: int = 10) -> list[str]:
    return [query] * limit

@tool
def add(a: int, b: int) -> int:
    return a + b

def plain(a: int) -> int:
    return a

async def right() -> None:
    found: list[str] = await search("x", limit=3)
    total: int = add(1, 2) + tool(plain, needs_approval=True)(3) + add.replaced(timeout=3)(1, 2)
    any_of_them: ToolSpec = add
    ToolEngine([add, plain]).register(plain, timeout=3, tags=("web",))
    print(found, total, any_of_them)

def wrong() -> None:
    add("1", 2)  # wrong
    text: str = add(1, 2)  # wrong
    tool(plain, timeout="5")  # wrong
    tool(timout=3)  # wrong
    tool(idempotent="false")  # wrong
    add.replaced(retry=3)  # wrong
    ToolEngine([]).register(plain, timeout="3")  # wrong
    print(text)
"""


def test_a_tool_keeps_its_signature_and_its_settings_are_typed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    said, failed, _ = api.run(["--strict", "--no-error-summary", "--hide-error-context", str(program)])
    assert not failed
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}
    errors = [line for line in said.splitlines() if ": error:" in line]
    assert {int(line.split(":")[1]) for line in errors} == wrong, said
    assert 'did you mean "timeout"?' in said
