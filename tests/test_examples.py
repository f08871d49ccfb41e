"""Every program in `examples/` runs and says what it is there to show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

SHOWN = {
    "agent.py": [
        "says: Let me look.",
        "answers: There are 3.",
        "8 messages, the last: There are 3.",
        "the run has ended without success: max_turns",
    ],
    "compensating.py": [
        "EXECUTING > COMPENSATING > FAILED",
        "undoing book_room",
        "effect: none",
        "booked: ['Astoria']",
    ],
    "document_lifecycle.py": [
        "published: How to boil",
        "'submit' is not allowed",
        "document: sound",
        "stateDiagram-v2",
    ],
    "quickstart.py": ["EXECUTING > COMPLETED", "{'city': 'Oslo', 'days': 2, 'sky': 'clear'}", "VALIDATING > FAILED"],
    "own_hooks.py": ["about to run delete_file", "JOURNALLING > ADMITTING", "tmp/a.txt is gone", "PERMISSION_DENIED"],
    "approval.py": ["small: 5 sent to Ada", "fine: 200 sent", "too_much: 500 sent to Cy", "APPROVAL_DENIED"],
    "streaming.py": ["67% 1 to go", "piece: '2... '", "whole: '3... 2... 1... lift-off'"],
    "sync_code.py": ["'tool_call_id': 'c1', 'content': '5'", "ZeroDivisionError"],
}


def test_every_example_is_tested() -> None:
    assert {file.name for file in (ROOT / "examples").glob("*.py")} == set(SHOWN)


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_example_runs(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / name],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not [piece for piece in SHOWN[name] if piece not in done.stdout], done.stdout
