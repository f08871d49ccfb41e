"""What a tool may be: settings that work, and those that are refused when it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tenacity import wait_fixed

from fsm_engine import ConfigurationError, RegistrationError, RetryPolicy, SchemaError, ToolSpec, tool
from fsm_engine.invocation.substitute import FallbackPolicy
from fsm_engine.settings.table import check_count, check_seconds
from fsm_engine.tools.spec import DEFAULT_TIMEOUT, SYNC_CONCURRENCY, tool_of


async def search(query: str, limit: int = 10) -> list[str]:
    """Search the web.

    Args:
        query: what to look for.
    """
    return [query] * limit


def test_name_description_and_schema_come_from_the_function() -> None:
    spec = tool(search)
    assert (spec.name, spec.description, spec.timeout) == ("search", "Search the web.", DEFAULT_TIMEOUT)
    assert spec.parameters["required"] == ["query"]
    assert spec.parameters["properties"]["query"]["description"] == "what to look for."
    assert spec.to_openai_function() == {
        "type": "function",
        "function": {"name": "search", "description": "Search the web.", "parameters": spec.parameters},
    }


async def test_a_decorated_function_can_be_called_as_before() -> None:
    @tool(name="add", read_only=True)
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, b=2) == 3
    assert await tool(search)("x", limit=1) == ["x"]


def test_a_tool_with_other_settings_is_another_tool() -> None:
    spec = tool(search)
    other = spec.replaced(timeout=1.0)
    assert (other.timeout, spec.timeout) == (1.0, DEFAULT_TIMEOUT)
    assert other.name == spec.name
    assert other != spec
    assert spec.replaced() != spec
    assert len({spec, other}) == 2
    assert tool_of(spec) is spec
    assert tool_of(spec, timeout=2.0).timeout == 2.0


def test_retries_may_be_a_number_or_a_policy() -> None:
    assert ToolSpec(name="t", func=search, max_retries=3).retry_policy.max_retries == 3
    policy = RetryPolicy(max_retries=2, wait=wait_fixed(1))
    assert ToolSpec(name="t", func=search, retry=policy).retry_policy is policy
    assert ToolSpec(name="t", func=search).retry_policy.max_retries == 0


def test_a_sync_tool_takes_a_part_of_the_threads_unless_told_otherwise() -> None:
    def sync() -> None: ...

    assert ToolSpec(name="t", func=sync).slots == SYNC_CONCURRENCY
    assert ToolSpec(name="t", func=sync, max_concurrency=2).slots == 2
    assert ToolSpec(name="t", func=sync, executor="process").slots == SYNC_CONCURRENCY
    assert ToolSpec(name="t", func=search).slots is None


def test_sensitive_names_and_those_that_look_so_are_masked_at_any_depth() -> None:
    async def pay(pin: str, card: dict[str, str], amount: int) -> None: ...

    spec = ToolSpec(name="pay", func=pay, sensitive={"pin"})
    shown = spec.shown({"pin": "1", "card": {"number": "4"}, "amount": 5})
    assert shown == {"pin": "***", "card": {"number": "4"}, "amount": 5}
    plain = {"query": "x"}
    assert tool(search).shown(plain) is plain


def sync_tool() -> None:
    """A tool."""


def with_args(*args: str) -> None:
    """A tool."""


def with_kwargs(**kwargs: Any) -> None:
    """A tool."""


def kwargs_without_type(**kwargs) -> None:
    """A tool."""


class AClass:
    def method(self) -> None: ...


async def predicate(arguments: Any) -> bool:
    return True


WRONG: list[tuple[str, Callable[..., Any], dict[str, Any], str]] = [
    ("an empty name", search, {"name": ""}, "cannot be a tool's name"),
    ("a name with a blank", search, {"name": "my tool"}, "cannot be a tool's name"),
    ("a long name", search, {"name": "x" * 65}, "cannot be a tool's name"),
    ("a name that is no text", search, {"name": 5}, "cannot be a tool's name"),
    ("a name in another script", search, {"name": "ünder"}, "cannot be a tool's name"),
    ("no time", search, {"timeout": 0}, "timeout must be a number of seconds above 0, at most 1,000,000,000, or None"),
    ("negative time", search, {"timeout": -1}, "timeout must be"),
    ("endless time", search, {"timeout": float("inf")}, "timeout must be"),
    ("a flag for a time", search, {"timeout": True}, "timeout must be"),
    ("text for a time", search, {"idle_timeout": "5"}, "idle_timeout must be"),
    ("no time for approval", search, {"approval_timeout": 0}, "approval_timeout must be"),
    ("a timeout beyond the deadline", search, {"timeout": 30.0, "deadline": 10.0}, "shorten the timeout or lengthen"),
    ("an idle limit beyond the timeout", search, {"timeout": 5.0, "idle_timeout": 6.0}, "shorten it"),
    ("no concurrency", search, {"max_concurrency": 0}, "max_concurrency must be a whole number from 1 up"),
    ("no characters", search, {"max_result_chars": 0}, "max_result_chars must be"),
    ("negative retries", search, {"max_retries": -1}, "max_retries must be a whole number from 0 up"),
    ("retries said twice", search, {"max_retries": 1, "retry": RetryPolicy()}, "give one of the two"),
    ("a number for a policy", search, {"retry": 3}, "say max_retries"),
    ("an executor by an unknown name", search, {"executor": "gpu"}, 'must be "thread", "process" or a'),
    ("an async predicate", search, {"needs_approval": predicate}, "not a coroutine function"),
    ("text for a set of names", search, {"sensitive": "pin"}, "sensitive must be a tuple, list or set of names"),
    ("text for tags", search, {"tags": "web"}, "tags must be a tuple, list or set of names"),
    ("an async rule", search, {"validator": predicate}, "must be a plain function"),
    ("no rule", search, {"validator": [5]}, "a validator is a function"),
    ("an unknown fallback", search, {"fallback": "first_good"}, 'fallback must be "last_good", a function'),
    ("an old result of a writing tool", search, {"fallback": "last_good"}, "mark the tool read_only=True"),
    ("positional arguments", with_args, {}, "take a list instead"),
    ("arguments of no type", kwargs_without_type, {}, "annotate it"),
    ("a class", AClass, {}, "a class is no tool"),
    ("an unbound method", AClass.method, {}, "register the method of an object"),
    ("a group without a circuit", search, {"breaker_group": "search"}, r"add breaker=BreakerPolicy\(\)"),
    ("a share above all", search, {"canary": 101}, "canary must be a per cent"),
]


@pytest.mark.parametrize(("function", "settings", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_a_setting_that_cannot_work_is_refused_and_the_message_says_what_to_change(
    function: Callable[..., Any], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ToolSpec(**{"name": "t", "func": function, **settings})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["querry"]},
        {"type": "object", "properties": {"query": {"$ref": "https://example.com/query.json"}}},
        {"type": "object", "properties": {"query": {"$ref": "#/$defs/nope"}}},
        {"type": "array"},
        "not a schema",
    ],
    ids=str,
)
def test_a_bad_schema_is_refused_at_registration(schema: Any) -> None:
    with pytest.raises((SchemaError, RegistrationError)):
        ToolSpec(name="t", func=search, parameters_schema=schema)


def test_an_output_schema_is_judged_as_well() -> None:
    with pytest.raises(SchemaError):
        ToolSpec(name="t", func=search, output_schema={"type": "objekt"})


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(RegistrationError, match="no setting is called 'time_out'"):
        tool(time_out=5)(search)  # type: ignore[call-overload] # that is the mistake
    with pytest.raises(RegistrationError, match="a tool is a function or a ToolSpec, not 5"):
        tool_of(5)


@pytest.mark.parametrize("value", [None, 0, "x", float("nan"), -1])
def test_seconds_and_counts_are_checked_with_the_name_of_the_setting(value: Any) -> None:
    if value is None:
        check_seconds("grace", value)
        check_count("slots", value)
        return
    with pytest.raises(ConfigurationError, match="grace must be"):
        check_seconds("grace", value)
    with pytest.raises(ConfigurationError, match="slots must be"):
        check_count("slots", value)


def test_no_time_at_all_is_allowed_where_that_means_something() -> None:
    check_seconds("grace", 0, zero_allowed=True)
    with pytest.raises(ConfigurationError, match="from 0 up"):
        check_seconds("grace", -0.1, zero_allowed=True)


def test_a_fallback_policy_in_a_spec_stays_as_it_is() -> None:
    policy = FallbackPolicy(value=1)
    assert ToolSpec(name="t", func=search, fallback=policy).fallback_policy is policy
    assert ToolSpec(name="t", func=search, fallback=search).fallback_policy == FallbackPolicy(function=search)
