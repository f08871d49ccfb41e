"""Hypothesis strategies: scripts of tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors.exceptions import ToolError
from ..errors.missing_extra import needed_by
from .script import Action, Delays, Emits, Hangs, Raises, Reports, Returns

with needed_by("fsm_engine.testing.strategies", "testing"):
    from hypothesis import strategies as st

_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)

ERRORS: Sequence[BaseException] = (
    ConnectionError("gone"),
    TimeoutError("too slow"),
    ToolError("RATE_LIMIT", "slow down", retry_after=3.0),
    ToolError("NOT_FOUND", "no such thing"),
    ValueError("odd"),
    SystemExit(1),
)
"""What a tool may raise: errors that pass and errors that stay, ours, built-in ones and one that is no `Exception`."""


def values() -> st.SearchStrategy[Any]:
    """What a tool may return: JSON values, and some that are none."""
    return _JSON | st.binary(max_size=5) | st.just({1, 2}) | st.builds(object)


def endings() -> st.SearchStrategy[Action]:
    """How an attempt ends: with a value or an exception."""
    return st.builds(Returns, values()) | st.builds(Raises, st.sampled_from(ERRORS))


def attempts(*, max_delay: float = 100.0, hangs: bool = True) -> st.SearchStrategy[list[Action]]:
    """One attempt: some time, some signs of life, and an end, or none.

    Args:
        max_delay: seconds of one delay at most.
        hangs: it may hang, so the tool needs a time limit.
    """
    steps: st.SearchStrategy[Action] = (
        st.builds(Delays, st.floats(0.0, max_delay))
        | st.builds(Reports, st.none() | st.floats(0.0, 1.0), st.none() | st.text(max_size=10))
        | st.builds(Emits, _JSON)
    )
    ends = endings() | st.just(Hangs()) if hangs else endings()
    return st.builds(lambda before, end: [*before, end], st.lists(steps, max_size=3), ends)


def scripts(
    *, max_attempts: int = 4, max_delay: float = 100.0, hangs: bool = True
) -> st.SearchStrategy[list[list[Action]]]:
    """Whole scripts, for `scripted(*script)`.

    Args:
        max_attempts: of different kinds; the last is repeated.
        max_delay: seconds of one delay at most.
        hangs: attempts may hang, so the tool needs a time limit.

    Example:
        >>> from hypothesis import given
        >>> from fsm_engine.testing import scripted
        >>> @given(script=scripts())
        ... def test_every_script_ends(script):
        ...     tool = scripted(*script, timeout=10.0)
    """
    return st.lists(attempts(max_delay=max_delay, hangs=hangs), min_size=1, max_size=max_attempts)
