"""What the README shows is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_program_prints_what_stands_below_it() -> None:
    program = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    printed = re.search(r"```python.*?```\n\n```\n(.*?)```", README, re.DOTALL)
    assert program is not None
    assert printed is not None
    done = subprocess.run([sys.executable, "-c", program[1]], capture_output=True, text=True, check=True)
    assert done.stdout == printed[1]


def test_every_file_that_it_points_to_is_there() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(targets) > 5
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_its_commands_are_targets_of_the_makefile() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"make ([a-z]+)", README)) <= set(targets)
