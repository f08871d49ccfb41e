"""A lifecycle compared with a table that a person has written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import ndiff

from ..errors.exceptions import ConfigurationError
from ..machine.lifecycle import Lifecycle, Row

_ARROW = re.compile(r"^(?P<source>\S+) +--(?P<trigger>[^\[\]]+?)(?: +\[(?P<guard>[^\]]+)\])?--> +(?P<dest>\S+)$")
_RULER = re.compile(r"^[|:\- ]+$")


def assert_table(lifecycle: Lifecycle, table: str, *, beyond: Lifecycle | None = None) -> None:
    """The rows of a lifecycle are those of a table, in this order: rows of one source and trigger are tried in order.

    Args:
        lifecycle: what is to be as the table says.
        table: a row a line, as `SHUT --turn_key [has_key]--> LOCKED` or as `| SHUT | turn_key | has_key | LOCKED |`;
            other lines are prose, so a docstring or a page that holds the table will do. `*` as the source is every
            state that is not final; empty or `otherwise` as the guard is none.
        beyond: what the lifecycle extends (`INVOCATION`, say): its rows are left out, so that the table holds the
            extension's own alone.

    Raises:
        AssertionError: they differ; the message shows where, row by row.
        ConfigurationError: a line of the table cannot be read, or there is no row at all.

    Example:
        >>> from fsm_engine import Lifecycle, Row, State
        >>> lamp = Lifecycle("lamp", "OFF", (State("OFF"), State("ON")),
        ...                  (Row("OFF", "press", "ON"), Row("ON", "press", "OFF")), perpetual=True)
        >>> assert_table(lamp, '''
        ...     OFF --press--> ON
        ...     ON  --press--> OFF
        ... ''')
    """
    __tracebackhide__ = True  # pytest shows the line of the test instead
    expected = list(read_table(table))
    if not expected:
        raise ConfigurationError(
            "the table has no row; write one a line, as SOURCE --trigger [guard]--> DEST or | source | trigger | guard | dest |"
        )
    inherited = set() if beyond is None else {str(row) for row in beyond.rows}
    actual = [str(row) for row in lifecycle.rows if str(row) not in inherited]
    wanted = [str(row) for row in expected]
    if actual != wanted:
        raise AssertionError("\n".join(_difference(lifecycle.name, wanted, actual)))


def read_table(table: str) -> Iterator[Row]:
    """The rows of a text; lines that are none are passed over.

    Raises:
        ConfigurationError: a line has bars or an arrow, and yet is no row.
    """
    for number, line in enumerate(table.splitlines(), start=1):
        text = line.strip()
        if text.startswith("|"):
            yield from _row_of_cells(text, number)
        elif "-->" in text:
            match = _ARROW.match(text)
            if match is None:
                raise ConfigurationError(
                    f"line {number} of the table: {text!r} is not SOURCE --trigger [guard]--> DEST"
                )
            yield Row(match["source"], match["trigger"], match["dest"], match["guard"])


def _row_of_cells(text: str, number: int) -> Iterator[Row]:
    cells = [cell.strip(" `") for cell in text.strip("|").split("|")]
    if _RULER.match(text) or [cell.lower() for cell in cells[:2]] == ["from", "trigger"]:
        return
    if len(cells) != 4:
        raise ConfigurationError(
            f"line {number} of the table: {text!r} has {len(cells)} columns; four are wanted: from, trigger, guard, to"
        )
    source, trigger, guard, dest = cells
    yield Row(source, trigger, dest, None if guard in ("", "otherwise") else guard)


def _difference(name: str, wanted: list[str], actual: list[str]) -> Iterable[str]:
    missing, surplus = set(wanted) - set(actual), set(actual) - set(wanted)
    counts = [
        f"{len(missing)} missing" if missing else "",
        f"{len(surplus)} not in the table" if surplus else "",
        "rows out of order, or twice" if not (missing or surplus) else "",
    ]
    yield f"the lifecycle {name!r} is not as the table says: {', '.join(filter(None, counts))}"
    yield "  - in the table alone    + in the lifecycle alone"
    for line in ndiff(wanted, actual):
        if not line.startswith("?"):
            yield f"  {line}"
