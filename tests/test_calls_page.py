"""What the page on calls shows is so."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "calls.md"


def test_the_code_of_the_page_runs() -> None:
    """In order, as a reader would type it."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)  # the page is the project's own
