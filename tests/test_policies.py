"""Settings of one concern each, checked when they are made."""

from __future__ import annotations

from typing import Any

import pytest
from tenacity import wait_chain, wait_exponential, wait_fixed

from fsm_engine import ConfigurationError, RetryPolicy


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_retries": -1}, "max_retries must be a whole number from 0 up"),
        ({"max_retries": 1.0}, "max_retries must be"),
        ({"max_retries": True}, "max_retries must be"),
        ({"wait": 5}, r"wait must be a tenacity wait strategy, such as wait_fixed\(1\)"),
        ({"max_retry_after": -1}, "max_retry_after must be a number of seconds from 0 up"),
        ({"max_retry_after": float("nan")}, "max_retry_after must be"),
    ],
)
def test_a_retry_policy_that_cannot_work_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        RetryPolicy(**settings)


def test_the_delay_follows_the_strategy_of_tenacity() -> None:
    policy = RetryPolicy(max_retries=3, wait=wait_exponential(multiplier=1, max=5))
    assert [policy.delay(number) for number in (1, 2, 3, 4)] == [1.0, 2.0, 4.0, 5.0]
    policy = RetryPolicy(wait=wait_chain(wait_fixed(1), wait_fixed(9)))
    assert [policy.delay(number) for number in (1, 2, 3)] == [1.0, 9.0, 9.0]


def test_nothing_is_tried_again_unless_that_is_asked_for() -> None:
    assert RetryPolicy().max_retries == 0
