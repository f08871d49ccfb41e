"""A lifecycle is compared with a table, and the difference can be read."""

from __future__ import annotations

import pytest

from fsm_engine import INVOCATION, ConfigurationError, Lifecycle, Row, State
from fsm_engine.machine.checks import ANY_UNFINISHED
from fsm_engine.states import circuit, invocation
from fsm_engine.states.circuit import CIRCUIT
from fsm_engine.testing import assert_table

DOOR = Lifecycle(
    name="door",
    initial="OPEN",
    states=(State("OPEN"), State("SHUT"), State("LOCKED", final=True)),
    rows=(
        Row("OPEN", "push", "SHUT"),
        Row("SHUT", "turn_key", "LOCKED", guard="has_key"),
        Row("SHUT", "turn_key", "OPEN"),
        Row(ANY_UNFINISHED, "burn", "LOCKED"),
    ),
    guards={"has_key": lambda event: True},
)


@pytest.mark.parametrize(
    "table",
    [
        """
        OPEN --push--> SHUT
        SHUT --turn_key [has_key]--> LOCKED
        SHUT --turn_key--> OPEN
        *    --burn--> LOCKED
        """,
        """
        | from | trigger | guard | to |
        |---|:---:|---|---|
        | OPEN | push | | SHUT |
        | `SHUT` | `turn_key` | `has_key` | `LOCKED` |
        | SHUT | turn_key | otherwise | OPEN |
        | * | burn | | LOCKED |

        A door that burns is of no more use.
        """,
    ],
    ids=["arrows", "bars"],
)
def test_a_table_of_arrows_or_bars_is_read(table: str) -> None:
    assert_table(DOOR, table)


@pytest.mark.parametrize(("lifecycle", "text"), [(INVOCATION, invocation.__doc__), (CIRCUIT, circuit.__doc__)])
def test_the_documented_tables_are_the_ones_that_run(lifecycle: Lifecycle, text: str) -> None:
    assert_table(lifecycle, text)


def failure_of(table: str) -> str:
    with pytest.raises(AssertionError) as failed:
        assert_table(DOOR, table)
    return str(failed.value)


def test_the_difference_names_every_row_and_its_side() -> None:
    message = failure_of(
        """
        OPEN --push--> SHUT
        SHUT --turn_key [has_code]--> LOCKED
        SHUT --turn_key--> OPEN
        * --burn--> LOCKED
        SHUT --kick--> OPEN
        """
    )
    assert message.splitlines() == [
        "the lifecycle 'door' is not as the table says: 2 missing, 1 not in the table",
        "  - in the table alone    + in the lifecycle alone",
        "    OPEN --push--> SHUT",
        "  - SHUT --turn_key [has_code]--> LOCKED",
        "  + SHUT --turn_key [has_key]--> LOCKED",
        "    SHUT --turn_key--> OPEN",
        "    * --burn--> LOCKED",
        "  - SHUT --kick--> OPEN",
    ]


def test_the_order_of_rows_is_part_of_the_table() -> None:
    message = failure_of(
        """
        OPEN --push--> SHUT
        SHUT --turn_key--> OPEN
        SHUT --turn_key [has_key]--> LOCKED
        * --burn--> LOCKED
        """
    )
    assert "rows out of order, or twice" in message


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("nothing here", "the table has no row"),
        ("OPEN -- push --> the street", "line 1 of the table"),
        ("\n| OPEN | push | SHUT |", "line 2 of the table: .* has 3 columns"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(table: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        assert_table(DOOR, table)


def test_an_extension_is_held_to_its_own_rows_alone() -> None:
    audited = INVOCATION.extended(
        name="audited",
        states=[State("AUDITING", activity="write the ledger")],
        rows=[Row("EXECUTING", "succeed", "AUDITING"), Row("AUDITING", "succeed", "COMPLETED")],
    )
    own = "EXECUTING --succeed--> AUDITING\nAUDITING --succeed--> COMPLETED"
    assert_table(audited, own, beyond=INVOCATION)
    with pytest.raises(AssertionError, match="1 not in the table"):
        assert_table(audited, "AUDITING --succeed--> COMPLETED", beyond=INVOCATION)
    with pytest.raises(AssertionError, match="not in the table"):
        assert_table(audited, own)
