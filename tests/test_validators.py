"""Business validators: how they are run, what their answers mean, and the ready ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine.errors import ConfigurationError
from fsm_engine.errors.issue import Issue
from fsm_engine.schema.answers import Invalid, Validator, ValidatorFault, as_validators, read_answer, run_validators
from fsm_engine.validators import allowed_values, aware_datetime, blocked_words, in_range, ordered, phone_number, size


def answering(answer: Any) -> Callable[[Mapping[str, Any]], Any]:
    def rule(arguments: Mapping[str, Any]) -> Any:
        return answer

    return rule


ANSWERS: dict[str, tuple[Any, tuple[Issue, ...]]] = {
    "None": (None, ()),
    "True": (True, ()),
    "ok": ((True, "whatever"), ()),
    "ok without words": ((True, None), ()),
    "no issue": ([], ()),
    "False": (False, (Issue("rule", "", "rule", "the arguments: rule"),)),
    "message": ((False, "Send less."), (Issue("rule", "", "rule", "Send less."),)),
    "no message": ((False, None), (Issue("rule", "", "rule", "the arguments: rule"),)),
    "Invalid": (Invalid("bad_day", "day", "day must be a Monday", ["Monday"]), (Issue("bad_day", "day", "rule", "day must be a Monday", ["Monday"]),)),
    "Invalid in short": (Invalid("bad_day", "day"), (Issue("bad_day", "day", "rule", "day: bad day"),)),
    "several": ((Invalid("a", "x", "m"), Invalid("b", "y", "n")), (Issue("a", "x", "rule", "m"), Issue("b", "y", "rule", "n"))),
}  # fmt: skip


@pytest.mark.parametrize(("answer", "issues"), ANSWERS.values(), ids=ANSWERS)
def test_each_form_of_answer_has_its_meaning(answer: Any, issues: tuple[Issue, ...]) -> None:
    assert read_answer(answer, "rule") == issues
    assert run_validators([answering(answer)], {}) == issues


async def _never_awaited() -> bool:
    return True


ODD = ["bad", 0, 1, {}, object(), [True], (True,), (1, "x"), (False, 7), [Invalid("a"), None], Invalid, 1.5]


@pytest.mark.parametrize("answer", ODD, ids=lambda answer: "object" if type(answer) is object else repr(answer))
def test_an_odd_answer_is_the_authors_fault(answer: Any) -> None:
    with pytest.raises(ValidatorFault, match="validator 'rule' answered with") as caught:
        run_validators([answering(answer)], {})
    assert caught.value.validator == "rule"


def test_an_awaitable_as_answer_is_the_authors_fault_and_leaves_no_warning() -> None:
    with pytest.raises(ValidatorFault, match="answered with coroutine"):
        run_validators([lambda _: _never_awaited()], {})  # type: ignore[list-item,return-value]  # the fault under test


def test_an_invalid_without_text_is_the_authors_fault() -> None:
    with pytest.raises(ValidatorFault, match="no text"):
        read_answer(Invalid(7), "rule")  # type: ignore[arg-type]  # the fault under test


@given(
    st.recursive(
        st.none() | st.booleans() | st.text() | st.builds(Invalid, st.text()),
        lambda each: st.lists(each) | st.tuples(each, each),
    )
)
def test_every_answer_is_read_or_the_authors_fault(answer: Any) -> None:
    try:
        issues = read_answer(answer, "rule")
    except ValidatorFault:
        return
    assert all(issue.rule == "rule" and issue.message for issue in issues)


def test_a_value_error_says_what_is_wrong() -> None:
    def check_amount(arguments: Mapping[str, Any]) -> None:
        raise ValueError("amount must be at least 100")

    assert run_validators([check_amount], {}) == (
        Issue("invalid_value", "", "check_amount", "amount must be at least 100"),
    )


def test_an_error_of_pydantic_becomes_issues_without_the_values() -> None:
    class Order(pydantic.BaseModel):
        lines: list[int]

    def check_order(arguments: Mapping[str, Any]) -> None:
        Order.model_validate(arguments)

    issues = run_validators([check_order], {"lines": [1, "SECRET"]})
    assert [(issue.path, issue.reason) for issue in issues] == [("lines[1]", "int_parsing")]
    assert "SECRET" not in repr(issues)


def test_any_other_exception_is_the_authors_fault_and_kept_as_cause() -> None:
    def check(arguments: Mapping[str, Any]) -> bool:
        return bool(arguments["gone"])

    with pytest.raises(ValidatorFault) as caught:
        run_validators([check], {"secret": 1})
    assert str(caught.value) == "validator 'check' raised KeyError"
    assert isinstance(caught.value.__cause__, KeyError)


def test_all_validators_are_asked_in_their_order() -> None:
    rules = [answering((False, "one")), answering(True), answering((False, "two"))]
    assert [issue.message for issue in run_validators(rules, {})] == ["one", "two"]


class _Rule:
    def __call__(self, arguments: Mapping[str, Any]) -> bool:
        return False


class _AsyncRule:
    async def __call__(self, arguments: Mapping[str, Any]) -> bool:
        return True


async def _coroutine_rule(arguments: Mapping[str, Any]) -> bool:
    return True


def test_one_validator_several_or_none_are_a_tuple() -> None:
    rule = answering(True)
    assert as_validators(None) == ()
    assert as_validators(rule) == (rule,)
    assert as_validators([rule, rule]) == (rule, rule)
    assert [issue.reason for issue in run_validators(as_validators(_Rule()), {})] == ["_Rule"]


@pytest.mark.parametrize(
    "given",
    [5, "abc", [None], _coroutine_rule, _AsyncRule(), functools.partial(_coroutine_rule), lambda _: (yield)],
    ids=["number", "text", "None", "coroutine", "object", "partial", "generator"],
)
def test_what_cannot_be_a_validator_is_refused_when_registered(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="validator"):
        as_validators(given)


READY: list[tuple[Validator, dict[str, Any], str | None]] = [
    (allowed_values("w", ["a", "b"], reason="invalid_warehouse"), {"w": "a"}, None),
    (allowed_values("w", ["a", "b"], reason="invalid_warehouse"), {"w": "c"}, "invalid_warehouse: w must be one of: a or b"),
    (allowed_values("w", {"a"}), {"w": []}, "not_allowed: w must be one of: a"),
    (allowed_values("w", iter([1])), {"w": 1}, None),
    (allowed_values("w", [1]), {"w": True}, "not_allowed: w must be one of: 1"),
    (allowed_values("w", "ab"), {"w": "ab"}, "not_allowed: w must be one of: a or b"),
    (allowed_values("order.w", ["a"]), {"order": {"w": "c"}}, "not_allowed: order.w must be one of: a"),
    (allowed_values("order.w", ["a"]), {"order": "c"}, None),
    (allowed_values("order.w", ["a"]), {}, None),
    (allowed_values("w", ["a"]), {"w": None}, None),
    (in_range("n", minimum=100), {"n": 100}, None),
    (in_range("n", minimum=100, unit="yuan"), {"n": 99.9}, "out_of_range: n must be at least 100 yuan"),
    (in_range("n", minimum=1, maximum=2), {"n": 3}, "out_of_range: n must be at least 1 and at most 2"),
    (in_range("n", maximum=2), {"n": 10**400}, "out_of_range: n must be at most 2"),
    (in_range("n", maximum=2), {"n": float("nan")}, "out_of_range: n must be at most 2"),
    (in_range("n", maximum=2), {"n": True}, "out_of_range: n must be at most 2"),
    (size("m", max_length=70), {"m": "x" * 70}, None),
    (size("m", max_length=70), {"m": "x" * 71}, "wrong_size: m must have at most 70 characters"),
    (size("m", min_length=2), {"m": [1]}, "wrong_size: m must have at least 2 entries"),
    (size("m", min_length=2), {"m": 7}, "wrong_size: m must have at least 2 entries"),
    (phone_number("p", region="CN"), {"p": "13812345678"}, None),
    (phone_number("p"), {"p": "+8613812345678"}, None),
    (blocked_words("m", ["Casino"]), {"m": "hello"}, None),
    (blocked_words("m", ["Casino"]), {"m": "meet at the CASINOS"}, "blocked_word: m holds a word that is not allowed; say it in other words"),
    (blocked_words("m", "straße"), {"m": "STRASSE"}, "blocked_word: m holds a word that is not allowed; say it in other words"),
    (blocked_words("m", ["x"]), {"m": 7}, None),
    (aware_datetime("t"), {"t": "2024-05-20T00:00:00+08:00"}, None),
    (aware_datetime("t"), {"t": "2024-05-20T00:00:00Z"}, None),
    (aware_datetime("t"), {"t": "2024-05-20"}, "missing_offset: t: the offset from UTC is missing; must be date-time with an offset, such as 2024-05-20T00:00:00+08:00"),
    (aware_datetime("t"), {"t": "soon"}, "bad_format: t must be a date and time such as 2024-05-20T00:00:00+08:00"),
    (aware_datetime("t"), {"t": 7}, "bad_format: t must be a date and time such as 2024-05-20T00:00:00+08:00"),
    (ordered("a", "b"), {"a": 1, "b": 1}, None),
    (ordered("a", "b"), {"a": 2, "b": 1}, "wrong_order: a must not be after b"),
    (ordered("a", "b", strict=True), {"a": 1, "b": 1}, "wrong_order: a must be before b"),
    (ordered("a", "b"), {"a": "2024-05-20T08:00:00+08:00", "b": "2024-05-20T00:30:00+00:00"}, None),
    (ordered("a", "b"), {"a": "2024-05-20T08:00:00+08:00", "b": "2024-05-19T23:00:00+00:00"}, "wrong_order: a must not be after b"),
    (ordered("a", "b"), {"a": "2024-05-20T08:00:00+08:00", "b": "2024-05-20"}, None),
    (ordered("a", "b"), {"a": 1}, None),
    (ordered("a.x", "b.x"), {"a": {"x": 2}, "b": {"x": 1}}, "wrong_order: a.x must not be after b.x"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "arguments", "said"), READY)
def test_a_ready_validator_says_what_is_wanted(rule: Validator, arguments: dict[str, Any], said: str | None) -> None:
    issues = run_validators([rule], arguments)
    assert [f"{issue.reason}: {issue.message}" for issue in issues] == ([] if said is None else [said])


@pytest.mark.parametrize(
    "phone",
    [
        "12812345678",
        "1381234567",
        "138123456789",
        "23812345678",
        "1381234567a",
        "\uff11\uff13\uff1812345678",
        "138 1234 5678",
        13812345678,
        "13812345678\n",
    ],
)
def test_what_is_no_mobile_number_of_mainland_china_is_refused(phone: Any) -> None:
    """E2."""
    (issue,) = run_validators([phone_number("phone", region="CN")], {"phone": phone})
    assert (issue.reason, issue.rule) == ("invalid_phone_number", "phone_number")
    assert "11 digits, the first 1, the second 3 to 9" in issue.message


@pytest.mark.parametrize("phone", ["13812345678", "+0123456789", "+123", "+1234567890123456"])
def test_what_is_no_international_number_is_refused(phone: str) -> None:
    assert run_validators([phone_number("phone")], {"phone": phone})


def test_a_list_of_allowed_values_is_read_anew_each_time() -> None:
    warehouses = ["north"]
    rule = allowed_values("w", warehouses)
    warehouses.append("south")
    assert run_validators([rule], {"w": "south"}) == ()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: allowed_values("", []), "is no field"),
        (lambda: ordered("a", "b."), "is no field"),
        (lambda: in_range("n"), "give a lower limit"),
        (lambda: size("n", min_length=3, max_length=2), "nothing is at least 3 and at most 2"),
        (lambda: phone_number("p", region="DE"), "one of CN, E164"),  # type: ignore[arg-type]  # the error under test
        (lambda: blocked_words("m", [""]), "empty word"),
    ],
)
def test_a_ready_validator_that_cannot_work_is_refused_when_made(make: Callable[[], Validator], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        make()


@given(st.text(), st.integers(0, 20), st.integers(0, 20))
def test_size_accepts_exactly_what_is_within_both_limits(text: str, one: int, other: int) -> None:
    least, most = sorted((one, other))
    assert (run_validators([size("m", min_length=least, max_length=most)], {"m": text}) == ()) is (
        least <= len(text) <= most
    )
