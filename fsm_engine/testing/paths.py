"""The way of an invocation compared with the one that a test expects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..errors.exceptions import ConfigurationError
from ..invocation.invocation import ToolInvocation

_ANYTHING = ("...", "…")
_STEP = re.compile(r"^(?P<state>[^\[\]\s]+)(?: +\[(?P<guard>[^\]]+)\])?$")


class _Wanted(NamedTuple):
    state: str
    guard: str | None = None

    def fits(self, state: str, guard: str | None) -> bool:
        return self.state == state and self.guard in (None, guard)


def assert_path(invocation: ToolInvocation, path: str) -> None:
    """An invocation has passed these states, from the first to where it is now.

    Args:
        invocation: ended or under way.
        path: states with `>` between them, each with the guard that led there in brackets if it matters; `...` stands
            for any states or none: `"PENDING > ... > EXECUTING > RETRYING [may_retry] > ... > COMPLETED"`.

    Raises:
        AssertionError: it went another way; the message shows both, and where they part.
        ConfigurationError: the path cannot be read.
    """
    __tracebackhide__ = True  # pytest shows the line of the test instead
    wanted = _read(path)
    taken = [(invocation.path[0], None), *((step.dest, step.guard) for step in invocation.history)]
    if _fits(wanted, taken):
        return
    shown = [state + (f" [{guard}]" if guard else "") for state, guard in taken]
    parted = _parting(wanted, taken)
    before = " > ".join(shown[:parted])
    lines = [
        f"the invocation of {invocation.tool_name!r} went another way",
        f"  expected: {_show(wanted)}",
        f"  went:     {' > '.join(shown)}",
        f"  alike:    {before or 'nothing'}",
    ]
    if invocation.error is not None:
        lines.append(f"  error:    {invocation.error.code}: {invocation.error.message}")
    raise AssertionError("\n".join(lines))


def _read(path: str) -> list[_Wanted | None]:
    """The steps; `None` is any number of them."""
    wanted: list[_Wanted | None] = []
    for part in path.split(">"):
        text = " ".join(part.split())
        match = _STEP.match(text)
        if text in _ANYTHING:
            wanted.append(None)
        elif match is None:
            raise ConfigurationError(
                f"{text!r} is no step of a path; write STATE, STATE [guard] or ..., with > between them"
            )
        else:
            wanted.append(_Wanted(match["state"], match["guard"]))
    return wanted


def _show(wanted: Sequence[_Wanted | None]) -> str:
    return " > ".join(
        "..." if step is None else step.state + (f" [{step.guard}]" if step.guard else "") for step in wanted
    )


def _fits(wanted: Sequence[_Wanted | None], taken: Sequence[tuple[str, str | None]]) -> bool:
    return len(taken) in _ends(wanted, taken)[-1]


def _parting(wanted: Sequence[_Wanted | None], taken: Sequence[tuple[str, str | None]]) -> int:
    """How many states are as expected before the first that is not."""
    return min(next(ends for ends in reversed(_ends(wanted, taken)) if ends))


def _ends(wanted: Sequence[_Wanted | None], taken: Sequence[tuple[str, str | None]]) -> list[set[int]]:
    """After each step of the pattern: how many states it may have used up."""
    ends = [{0}]
    for step in wanted:
        if step is None:
            ends.append(set(range(min(ends[-1], default=len(taken) + 1), len(taken) + 1)))
        else:
            ends.append({end + 1 for end in ends[-1] if end < len(taken) and step.fits(*taken[end])})
    return ends
