"""Writes docs/settings.md from the table of settings; a test says when that is not current."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fsm_engine import Agent, BreakerPolicy, FallbackPolicy, RateLimit, RetryPolicy, Stages, ToolEngine, ToolSpec
from fsm_engine.settings.table import describe

PAGE = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
DECLARED: tuple[Callable[..., Any], ...] = (
    ToolSpec,
    RetryPolicy,
    BreakerPolicy,
    RateLimit,
    FallbackPolicy,
    ToolEngine,
    Stages,
    Agent,
)
HEAD = """# Settings

What each setting may be, what it is if nothing is said, and what it is for. All are checked where they are given: a value
that is not allowed, or a name that is no setting, is a `ConfigurationError` that says what to write. The settings of
`ToolSpec` are those of `@tool`, of `register` and of `replaced`, too. Times are seconds and rates per cent.

Written by `tools/settings_page.py` from the code.
"""


def page() -> str:
    """The page."""
    return HEAD + "".join(f"\n## {each.__name__}\n\n{''.join(_table(each))}" for each in DECLARED)


def _table(declared: Callable[..., Any]) -> Iterator[str]:
    yield "| setting | must be | default | for |\n|---|---|---|---|\n"
    for row in describe(declared):
        allowed = row.allowed if row.none is None else f"{row.allowed}, or None {row.none}"
        default = f"`{row.default}`" if row.default else "must be given"
        yield f"| `{row.name}` | {allowed} | {default} | {row.meaning} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
