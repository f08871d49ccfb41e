"""The way of an invocation is compared with the one expected, and the message shows where they part."""

from __future__ import annotations

import asyncio

import pytest

from fsm_engine import ConfigurationError, ToolInvocation
from fsm_engine.testing import PacedClock, Raises, assert_path, scripted
from fsm_engine.testing.plugin import EngineFactory

FULL = "PENDING > VALIDATING > ADMITTING > EXECUTING > RETRYING > ADMITTING > EXECUTING > FAILED"


@pytest.fixture
def failed(engine_factory: EngineFactory) -> ToolInvocation:
    """A call that fails twice."""
    engine = engine_factory(scripted(Raises(ConnectionError("gone")), read_only=True, max_retries=1))
    return asyncio.run(engine.execute_tool_call({"name": "scripted"}))


@pytest.mark.parametrize(
    "path",
    [
        FULL,
        FULL.replace(" > ", ">"),
        "...",
        "PENDING > ... > FAILED",
        "PENDING > … > EXECUTING > RETRYING [may_retry] > ... > FAILED",
        "... > EXECUTING > ... > EXECUTING > ... > FAILED > ...",
        "... > EXECUTING [permitted] > FAILED",
    ],
)
def test_the_way_that_was_gone_passes(failed: ToolInvocation, path: str) -> None:
    assert_path(failed, path)


@pytest.mark.parametrize(
    ("path", "alike"),
    [
        ("PENDING > VALIDATING > FAILED", "PENDING > VALIDATING"),
        ("VALIDATING > ...", "nothing"),
        (FULL.removesuffix(" > FAILED"), FULL.removesuffix(" > FAILED")),
        (FULL + " > CANCELLED", FULL),
        ("... > EXECUTING > RETRYING [refused] > ...", "PENDING > VALIDATING > ADMITTING > EXECUTING"),
        ("... > FALLING_BACK > ...", "nothing"),
        ("PENDING > ... > COMPLETED", "PENDING"),
    ],
)
def test_another_way_fails_and_says_how_far_they_are_alike(failed: ToolInvocation, path: str, alike: str) -> None:
    with pytest.raises(AssertionError) as parted:
        assert_path(failed, path)
    lines = [line.replace(" [permitted]", "").replace(" [may_retry]", "") for line in str(parted.value).splitlines()]
    assert lines == [
        "the invocation of 'scripted' went another way",
        f"  expected: {path}",
        f"  went:     {FULL}",
        f"  alike:    {alike}",
        f"  error:    NETWORK_ERROR: {failed.error.message if failed.error else ''}",
    ]


async def test_an_invocation_under_way_is_compared_as_far_as_it_is(
    engine_factory: EngineFactory, virtual_clock: PacedClock
) -> None:
    engine = engine_factory(scripted(Raises(ConnectionError("gone")), read_only=True, max_retries=1))
    invocation = engine.start({"name": "scripted"})
    assert_path(invocation, "PENDING")
    await virtual_clock.settle()
    assert_path(invocation, "PENDING > ... > RETRYING")
    with pytest.raises(AssertionError, match=r"alike: *PENDING\n"):
        assert_path(invocation, "PENDING > CANCELLED")
    await invocation


@pytest.mark.parametrize("path", ["", "PENDING > > FAILED", "PENDING VALIDATING", "PENDING > FAILED [refused"])
def test_a_path_that_cannot_be_read_is_refused(failed: ToolInvocation, path: str) -> None:
    with pytest.raises(ConfigurationError, match="is no step of a path"):
        assert_path(failed, path)
