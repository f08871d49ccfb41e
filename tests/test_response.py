"""One form for every result: its invariants, its way over the wire, and what the model reads of it."""

from __future__ import annotations

import copy
import dataclasses
import doctest
import enum
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_engine.errors import ToolError, classify
from fsm_engine.errors.codes import Effect, ToolErrorCode
from fsm_engine.errors.issue import Issue
from fsm_engine.jsonable.strict import JsonValue
from fsm_engine.response import error_info as _error_info
from fsm_engine.response import returned as response
from fsm_engine.response import tool_response as _tool_response
from fsm_engine.response.error_info import ErrorInfo
from fsm_engine.response.model_text import _NEXT_STEP
from fsm_engine.response.returned import standardise
from fsm_engine.response.tool_response import ToolResponse, ToolStatus, completed

SUCCESS, PARTIAL, ERROR = ToolStatus


@pytest.mark.parametrize("module", [response, _tool_response, _error_info])
def test_examples_in_the_documentation_are_true(module: Any) -> None:
    assert doctest.testmod(module).failed == 0


def test_the_three_factories_set_the_status() -> None:
    assert ToolResponse.success("ok").status is SUCCESS
    assert ToolResponse.partial("half").status is PARTIAL
    assert ToolResponse.error("TIMEOUT", "slow").status is ERROR


def test_a_response_cannot_be_changed() -> None:
    made = ToolResponse.success("ok")
    for name in [field.name for field in dataclasses.fields(made)]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, name, None)
    with pytest.raises((AttributeError, TypeError)):
        made.other = 1  # type: ignore[attr-defined] # what must not be possible


INFO = ErrorInfo("TIMEOUT", "slow")
BROKEN: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"status": "odd"}, ValueError, "odd"),
    ({"status": ERROR}, ValueError, "error_info belongs to an error"),
    ({"status": SUCCESS, "error_info": INFO}, ValueError, "error_info belongs to an error"),
    ({"status": PARTIAL, "error_info": INFO}, ValueError, "error_info belongs to an error"),
    ({"status": ERROR, "error_info": "TIMEOUT"}, TypeError, "must be an ErrorInfo, not str"),
    ({"status": SUCCESS, "reason": "stale"}, ValueError, "reason says why a result is partial"),
    ({"status": ERROR, "error_info": INFO, "reason": "stale"}, ValueError, "reason says why a result is partial"),
    ({"status": PARTIAL, "reason": 5}, TypeError, "reason must be text, not int"),
    ({"status": SUCCESS, "text": {"a": 1}}, TypeError, "text must be text, not dict"),
    ({"status": SUCCESS, "stats": [1]}, TypeError, "must be mappings, not list"),
    ({"status": SUCCESS, "context": "x"}, TypeError, "must be mappings, not str"),
]


@pytest.mark.parametrize(("fields", "error", "words"), BROKEN)
def test_parts_that_do_not_go_together_are_refused(fields: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ToolResponse(**fields)
    wire = {"text": "", "data": None, "error_info": None, "stats": {}, "context": {}, "reason": None}
    if not isinstance(fields.get("error_info"), str):
        info = fields.get("error_info")
        with pytest.raises(error):
            ToolResponse.from_dict({**wire, **fields, "error_info": info and info.to_dict()})


ODD_INFO: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"code": ""}, ValueError, "code must not be empty"),
    ({"code": "  "}, ValueError, "code must not be empty"),
    ({"code": 5}, TypeError, "code must be text"),
    ({"message": None}, TypeError, "message must be text"),
    ({"detail": 1}, TypeError, "detail must be text"),
    ({"reason": 1}, TypeError, "reason must be text"),
    ({"exception_type": 1}, TypeError, "exception_type must be text"),
    ({"issues": ("x",)}, TypeError, "issues must be Issue objects"),
    ({"effect": "perhaps"}, ValueError, "perhaps"),
    ({"retry_after": -1}, ValueError, "retry_after must be"),
    ({"retry_after": float("nan")}, ValueError, "retry_after must be"),
    ({"retry_after": float("inf")}, ValueError, "retry_after must be"),
    ({"retry_after": 10**400}, ValueError, "retry_after must be"),
    ({"retry_after": "7"}, ValueError, "retry_after must be"),
]


@pytest.mark.parametrize(("fields", "error", "words"), ODD_INFO)
def test_an_error_with_odd_fields_is_refused(fields: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ErrorInfo(**{"code": "TIMEOUT", "message": "slow", **fields})


@pytest.mark.parametrize("fields", [{"reason": 1}, {"path": None}, {"rule": 1}, {"message": b"x"}])
def test_an_issue_with_odd_fields_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="must be text"):
        Issue(**{"reason": "x", **fields})


def test_an_issue_allows_any_value_as_json() -> None:
    assert Issue("x", allowed={"b", "a"}).allowed == ["a", "b"]  # type: ignore[arg-type] # made JSON on the way


def test_an_error_takes_from_its_code_what_it_does_not_say() -> None:
    info = ErrorInfo(ToolErrorCode.TIMEOUT, "slow", effect="unknown", retry_after=3)  # type: ignore[arg-type] # text does
    assert (type(info.code), info.transient, info.counts, info.effect) == (str, True, True, Effect.UNKNOWN)
    assert (info.retry_after, type(info.retry_after)) == (3.0, float)
    other = ErrorInfo("TIMEOUT", "slow", transient=False, counts=False)
    assert (other.transient, other.counts) == (False, False)
    made = ToolResponse.error("RATE_LIMIT", "full", transient=False, counts=False).error_info
    assert made is not None
    assert (made.transient, made.counts) == (False, False)


def test_a_tools_own_code_is_kept() -> None:
    info = ToolResponse.error("WAREHOUSE_CLOSED", "closed").error_info
    assert info is not None
    assert (info.code, info.transient, info.counts) == ("WAREHOUSE_CLOSED", False, True)


def test_without_text_the_model_reads_the_data_or_the_message() -> None:
    assert ToolResponse.success(data={"é": [1]}).text == '{"é":[1]}'
    assert ToolResponse.success(data="plain").text == "plain"
    assert ToolResponse.success("said", {"a": 1}).text == "said"
    assert ToolResponse.success().text == ""
    assert ToolResponse.error("TIMEOUT", "slow", {"a": 1}).text == "slow"
    assert ToolResponse(ERROR, error_info=INFO).text == "slow"


def test_a_partial_result_always_has_a_reason() -> None:
    assert ToolResponse.partial("x").reason == ToolResponse.partial("x", reason="").reason == "incomplete"
    assert ToolResponse(PARTIAL, "x").reason == "incomplete"
    assert ToolResponse.partial("x", reason="stale").reason == "stale"


def test_a_response_shares_no_container_with_the_tool() -> None:
    data: dict[str, Any] = {"a": [1]}
    stats: dict[str, Any] = {"n": [1]}
    made = ToolResponse.success(data=data, stats=stats, context=stats)
    again = standardise(made)
    data["a"].append(2)
    stats["n"].append(2)
    made.data["a"].append(object())  # type: ignore[index,call-overload,union-attr] # what a tool might do afterwards
    assert (again.data, again.stats, again.context) == ({"a": [1]}, {"n": [1]}, {"n": [1]})


@pytest.mark.parametrize(
    ("value", "reason", "paths"),
    [
        ({"n": 1, "a": object()}, "unserialisable", ["$.a"]),
        ([[[]] * 100, {object()}], "unserialisable", ["$[1][*]"]),
        (10**5000, "unserialisable", ["$"]),
    ],
    ids=["in an object", "in a set", "too many digits"],
)
def test_data_that_cannot_be_represented_is_never_a_silent_success(
    value: object, reason: str, paths: list[str]
) -> None:
    for made in (ToolResponse.success("ok", value), standardise(value), ToolResponse(SUCCESS, "ok", value)):  # type: ignore[arg-type] # anything will do
        assert (made.status, made.reason, made.stats["lossy"]) == (PARTIAL, reason, paths)
        assert paths[0] in made.for_model()
    kept = ToolResponse.partial("x", value, reason="stale")
    assert (kept.reason, kept.stats["lossy"]) == ("stale", paths)
    failed = ToolResponse.error("TIMEOUT", "slow", value)
    assert (failed.status, failed.stats["lossy"]) == (ERROR, paths)


def test_data_that_is_only_too_deep_or_too_large_is_truncated() -> None:
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    assert standardise(deep).reason == "truncated"
    made = standardise("x" * 10_000_001)
    assert (made.status, made.reason, len(made.text), made.stats) == (
        PARTIAL,
        "truncated",
        9_999_999,  # the value itself counts one
        {"lossy": ["$"]},
    )
    assert standardise(["x" * 10_000_001]).reason == "truncated"


class Word(enum.StrEnum):
    YES = "yes"


class Text(str):  # noqa: SLOT000 # a subclass as a tool might write it
    pass


class Digit(str, enum.Enum):  # noqa: UP042 # the older form, whose value need not be text
    ONE = "1"

    def __init__(self, _: str) -> None:
        self._value_ = 1


@pytest.mark.parametrize(
    ("value", "text", "data"),
    [
        ("hello", "hello", None),
        ("é\ud835", "é�", None),
        ("", "", None),
        (Word.YES, "yes", None),
        (Text("hi"), "hi", None),
        (Digit.ONE, "1", None),
        (None, "Done. The tool returned nothing.", None),
        (5, "5", 5),
        (False, "false", False),
        ({"a": (1,)}, '{"a":[1]}', {"a": [1]}),
        ([], "[]", []),
        (float("nan"), "NaN", "NaN"),
        (ValueError("x"), '{"type":"ValueError","message":"x"}', {"type": "ValueError", "message": "x"}),
    ],
)
def test_any_other_value_is_wrapped_as_a_success(value: object, text: str, data: object) -> None:
    made = standardise(value)
    assert (made.status, made.text, made.data, made.reason) == (SUCCESS, text, data, None)
    assert type(made.text) is str


RESPONSES = [
    ToolResponse.success("ok", {"a": 1}),
    ToolResponse.success(data=[1]),
    ToolResponse.partial("half", reason="stale", stats={"age_s": 5}),
    ToolResponse.error("CONFLICT", "taken", {"a": 1}, detail="for the operator"),
]


@pytest.mark.parametrize("made", RESPONSES)
def test_a_tools_own_response_passes_unchanged_and_gets_the_missing_facts(made: ToolResponse) -> None:
    again = standardise(made, stats={"time_ms": 1.5, "age_s": 9}, context={"tool": "t"})
    assert again.stats == {"time_ms": 1.5, "age_s": 9} | dict(made.stats)
    assert again.context == {"tool": "t"}
    assert dataclasses.replace(again, stats=made.stats, context={}) == made
    assert (again.error_info and again.error_info.detail) == (made.error_info and made.error_info.detail)
    assert standardise(made) == made


def test_facts_are_added_only_where_they_are_missing() -> None:
    made = ToolResponse.success("ok", stats={"tokens": 3}, context={"tool": "mine"})
    again = made.with_facts(stats={"tokens": 0, "time_ms": 1.5}, context={"tool": "t", "call_id": "c"})
    assert again.stats == {"tokens": 3, "time_ms": 1.5}
    assert again.context == {"tool": "mine", "call_id": "c"}
    assert made.stats == {"tokens": 3}
    assert made.with_facts() == made


def test_facts_become_strict_json() -> None:
    made = ToolResponse.success("ok").with_facts(stats={"x": float("nan")}, context={1: {2}})  # type: ignore[dict-item] # anything will do
    assert (made.stats, made.context) == ({"x": "NaN"}, {"1": [2]})


def test_the_engines_own_facts_are_taken_over_as_they_are() -> None:
    stats: dict[str, JsonValue] = {"time_ms": 1.5}
    context: dict[str, JsonValue] = {"tool": "t"}
    made = completed(ToolResponse.success("ok"), stats, context)
    assert made.stats is stats
    assert made.context is context
    assert completed(made, {"time_ms": 0, "attempts": 1}, {}).stats == {"time_ms": 1.5, "attempts": 1}


def test_an_effect_is_added_only_to_an_error_that_says_none() -> None:
    made = ToolResponse.error("TIMEOUT", "slow", detail="d").with_effect(Effect.UNKNOWN)
    assert made.error_info is not None
    assert (made.error_info.effect, made.error_info.detail) == (Effect.UNKNOWN, "d")
    assert made.with_effect(Effect.NONE) is made
    done = ToolResponse.success("ok")
    assert done.with_effect(Effect.NONE) is done


def test_an_exception_becomes_the_error_that_it_is_classified_as() -> None:
    issue = Issue("shipped", "$.order")
    error = ToolError("SHIPPED", "on its way", reason="r", data={1}, retry_after=2, effect=Effect.DONE, issues=(issue,))
    made = ToolResponse.from_exception(error, stats={"a": 1}, context={"b": 2})
    info, found = made.error_info, classify(error)
    assert info is not None
    assert (made.text, made.data, made.stats, made.context) == ("on its way", [1], {"a": 1}, {"b": 2})
    for name in (
        "code",
        "message",
        "reason",
        "retry_after",
        "effect",
        "issues",
        "exception_type",
        "transient",
        "counts",
        "detail",
    ):
        assert getattr(info, name) == getattr(found, name)


def test_the_operators_text_is_in_no_dictionary_model_text_comparison_or_repr() -> None:
    made = ToolResponse.error("TIMEOUT", "slow", detail="s3cr3t")
    other = ToolResponse.error("TIMEOUT", "slow", detail="other")
    assert made.error_info is not None
    assert made.error_info.detail == "s3cr3t"
    assert made == other
    assert hash(made) == hash(other)
    nested = ToolResponse.success(data={"inner": made})
    assert nested.status is SUCCESS
    for shown in (repr(made), str(made.to_dict()), made.to_json(), made.for_model(), nested.to_json()):
        assert "s3cr3t" not in shown


TEXT = st.text(max_size=20)
WORDS = st.text(st.characters(categories=["L"]), min_size=1, max_size=10)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.binary() | st.dates() | st.builds(object),
    lambda inner: st.lists(inner) | st.dictionaries(TEXT | st.integers(), inner) | st.sets(st.integers()),
    max_leaves=8,
)
FACTS = st.dictionaries(TEXT, DATA, max_size=3)
ISSUES = st.builds(Issue, WORDS, TEXT, st.none() | WORDS, TEXT, DATA)
COMMON = {"stats": FACTS, "context": FACTS}
ANY_RESPONSE = st.one_of(
    st.builds(ToolResponse.success, TEXT, DATA, **COMMON),
    st.builds(ToolResponse.partial, TEXT, DATA, reason=TEXT, **COMMON),
    st.builds(
        ToolResponse.error,
        WORDS | st.sampled_from(ToolErrorCode),
        TEXT,
        DATA,
        reason=st.none() | WORDS,
        issues=st.lists(ISSUES, max_size=2),
        exception_type=st.none() | WORDS,
        retry_after=st.none() | st.floats(0, 1e9),
        effect=st.none() | st.sampled_from(Effect),
        transient=st.none() | st.booleans(),
        counts=st.none() | st.booleans(),
        detail=TEXT,
        **COMMON,
    ),
    st.builds(standardise, DATA, **COMMON),
)


@given(ANY_RESPONSE)
def test_every_response_comes_back_equal_from_the_wire(made: ToolResponse) -> None:
    wire = made.to_dict()
    json.dumps(wire, allow_nan=False, ensure_ascii=False).encode()
    for again in (
        ToolResponse.from_dict(wire),
        ToolResponse.from_dict(json.loads(made.to_json())),
        pickle.loads(pickle.dumps(made)),
        copy.deepcopy(made),
        dataclasses.replace(made),
        ToolResponse(**{field.name: getattr(made, field.name) for field in dataclasses.fields(made)}),
    ):
        assert again == made
        assert hash(again) == hash(made)
        assert again.to_dict() == wire
        assert again.for_model() == made.for_model()


@given(ANY_RESPONSE)
def test_every_response_holds_its_invariants(made: ToolResponse) -> None:
    assert (made.status is ERROR) == (made.error_info is not None)
    assert (made.status is PARTIAL) == (made.reason is not None)
    assert ToolResponse.error("A", "b") != made or made.text == "b"


def test_responses_that_differ_in_one_field_are_not_equal() -> None:
    base = ToolResponse.success("ok", {"a": 1}, stats={"s": 1}, context={"c": 1})
    others = [
        ToolResponse.partial("ok", {"a": 1}, stats={"s": 1}, context={"c": 1}),
        ToolResponse.success("no", {"a": 1}, stats={"s": 1}, context={"c": 1}),
        ToolResponse.success("ok", {"a": 2}, stats={"s": 1}, context={"c": 1}),
        ToolResponse.success("ok", {"a": 1}, stats={"s": 2}, context={"c": 1}),
        ToolResponse.success("ok", {"a": 1}, stats={"s": 1}, context={"c": 2}),
    ]
    assert all(base != other for other in others)
    assert ToolResponse.partial("x", reason="a") != ToolResponse.partial("x", reason="b")


@pytest.mark.parametrize("missing", ["status", "text", "data", "error_info", "stats", "context", "reason"])
def test_a_dictionary_without_a_field_is_refused(missing: str) -> None:
    wire = ToolResponse.success("ok").to_dict()
    del wire[missing]
    with pytest.raises(KeyError, match=missing):
        ToolResponse.from_dict(wire)


def test_a_success_is_read_as_its_text() -> None:
    assert ToolResponse.success("5").for_model() == "5"
    assert ToolResponse.success(data={"sum": 5}).for_model() == '{"sum":5}'
    assert ToolResponse.success().for_model() == "(no output)"


def test_a_partial_result_says_that_it_is_incomplete_and_why() -> None:
    assert ToolResponse.partial("5", reason="stale").for_model() == "This result is incomplete. Reason: stale.\n5"
    assert standardise({"n": 1, "a": object()}).for_model() == (
        "This result is incomplete. Reason: unserialisable. Left out or not representable: $.a.\n"
        '{"n":1,"a":"<builtins.object>"}'
    )


def test_an_error_names_code_message_issues_effect_wait_and_next_step() -> None:
    made = ToolResponse.error(
        "INVALID_PARAM",
        "The arguments are not valid.",
        issues=[
            Issue("invalid_warehouse", "$.warehouse", "enum", "There is no such warehouse.", ["north", "south"]),
            Issue("too_small", "$.amount"),
        ],
        effect=Effect.UNKNOWN,
        retry_after=0.5,
    )
    assert made.for_model().splitlines() == [
        "Error INVALID_PARAM: The arguments are not valid.",
        '- $.warehouse: There is no such warehouse. (rule: enum) Allowed: ["north","south"].',
        "- $.amount: too_small",
        "It is unknown whether the call took effect: check before you call again.",
        "Wait at least 1 second before the next try.",
        "Correct the arguments and call again.",
    ]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "1 second"), (1, "1 second"), (1.2, "2 seconds"), (119, "119 seconds"), (120, "2 minutes"), (7200, "2 hours")],
)
def test_a_wait_is_told_in_words(seconds: float, words: str) -> None:
    assert f"Wait at least {words} before" in ToolResponse.error("RATE_LIMIT", "x", retry_after=seconds).for_model()


@pytest.mark.parametrize("effect", Effect)
def test_what_is_known_of_the_effect_is_told_in_words(effect: Effect) -> None:
    assert "effect" in ToolResponse.error("TIMEOUT", "slow", effect=effect).for_model()
    assert "effect" not in ToolResponse.error("TIMEOUT", "slow").for_model()


def test_every_standard_code_has_a_next_step() -> None:
    assert set(_NEXT_STEP) == set(ToolErrorCode)


@pytest.mark.parametrize(
    ("code", "transient", "words"),
    [
        ("API_ERROR", True, "later"),
        ("API_ERROR", False, "service refused it"),
        ("OWN", True, "later"),
        ("OWN", False, "likely to fail again"),
        ("TIMEOUT", True, "later"),
    ],
)
def test_the_next_step_follows_from_whether_a_retry_can_help(code: str, transient: bool, words: str) -> None:
    assert words in ToolResponse.error(code, "x", transient=transient).for_model().splitlines()[-1]


@pytest.mark.parametrize("code", [*ToolErrorCode, "OWN"])
@pytest.mark.parametrize("transient", [True, False])
@pytest.mark.parametrize("effect", [Effect.UNKNOWN, Effect.DONE])
def test_a_call_that_may_have_taken_effect_is_never_to_be_repeated_just_so(
    code: str, transient: bool, effect: Effect
) -> None:
    *_, first, last = ("", *ToolResponse.error(code, "x", transient=transient, effect=effect).for_model().splitlines())
    assert "check before you call again" in first + last or "do not repeat it" in first + last
    assert "later" not in last


@pytest.mark.parametrize("code", [*ToolErrorCode, "OWN"])
@pytest.mark.parametrize("transient", [True, False])
def test_only_what_is_the_arguments_fault_is_answered_with_other_arguments(code: str, transient: bool) -> None:
    text = ToolResponse.error(code, "x", transient=transient).for_model()
    assert ("orrect the" in text) is (code in ("INVALID_PARAM", "INVALID_FORMAT"))
    assert "hange the arguments" not in text


def test_the_model_reads_no_more_than_the_limit_and_is_told() -> None:
    page = "x" * 200_000
    assert len(ToolResponse.success(page).for_model(1000)) == 1000
    assert "200000 characters in full" in ToolResponse.success(page).for_model(1000)
    assert ToolResponse.success("short").for_model(1000) == "short"
    rows = ToolResponse.success(data=list(range(1000))).for_model(200)
    assert json.loads(rows.splitlines()[0])[:3] == [0, 1, 2]
    assert rows.endswith("[truncated: 3891 characters in full]")
    assert "200000 characters" in ToolResponse.success(page, data={"a": 1}).for_model(1000)
    assert ToolResponse.partial(page, reason="stale").for_model(1000).startswith("This result is incomplete.")
    failed = ToolResponse.error("TIMEOUT", page).for_model(1000)
    assert failed.startswith("Error TIMEOUT")
    assert failed.endswith("try again later.")
