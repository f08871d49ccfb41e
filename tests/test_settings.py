"""One table of all settings: what is given is taken or refused where it is given, in whatever form a tool is declared."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import itertools
import runpy
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tenacity import wait_exception, wait_fixed

from fsm_engine import (
    Agent,
    BreakerPolicy,
    ConfigurationError,
    FallbackPolicy,
    RateLimit,
    RetryPolicy,
    Stages,
    ToolCall,
    ToolEngine,
    ToolRegistry,
    ToolSpec,
    VirtualClock,
    tool,
)
from fsm_engine.agent.store import RunStore
from fsm_engine.settings.table import TABLES, TOOL, describe, settings_of
from fsm_engine.testing import Raises, Returns, scripted
from fsm_engine.tools.tool_settings import ToolSettings

from .support import idle, logged, play, virtual

ROOT = Path(__file__).resolve().parents[1]
DECLARED: dict[str, Callable[..., Any]] = {
    "RetryPolicy": RetryPolicy,
    "BreakerPolicy": BreakerPolicy,
    "FallbackPolicy": FallbackPolicy,
    "RateLimit": RateLimit,
    "ToolSpec": ToolSpec,
    "ToolEngine": ToolEngine,
    "Stages": Stages,
    "Agent": Agent,
}


async def search(query: str = "x", limit: int = 10) -> str:
    """Search the web."""
    return f"{limit} of {query}"


async def substitute(query: str = "x", limit: int = 10) -> str:
    return "another"


def is_large(arguments: Any) -> bool:
    return arguments["limit"] > 100


def whose(arguments: Mapping[str, Any]) -> str:
    return "mine"


async def is_well() -> bool:
    return True


# -- the table ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_every_setting_has_a_row_and_every_row_a_meaning_and_a_default(name: str) -> None:
    rows = list(describe(DECLARED[name]))
    assert [row.name for row in rows if not row.meaning] == []
    assert [row.name for row in rows if not row.default] in ([], ["limit"])


@pytest.mark.parametrize("declared", [RetryPolicy, BreakerPolicy, FallbackPolicy, RateLimit, Stages])
def test_a_policy_has_no_setting_without_a_row(declared: Any) -> None:
    assert set(settings_of(declared)) == TABLES[declared.__name__].keys()


def test_a_tool_has_no_setting_without_a_row_and_none_that_checkers_do_not_know() -> None:
    assert {"name", "func", *TOOL} == set(settings_of(ToolSpec))
    assert ToolSettings.__annotations__.keys() == {"name", *TOOL}
    declared = ToolSpec.__annotations__
    for name in TOOL:
        assert ToolSettings.__annotations__[name].__forward_arg__ == declared[name], name


@pytest.mark.parametrize("name", [name for name in TABLES if name not in ("ToolSpec", "Agent")])
def test_the_defaults_fit_their_own_rows(name: str) -> None:
    given = {"FallbackPolicy": {"value": 1}, "RateLimit": {"limit": 1}}.get(name, {})
    DECLARED[name](**given)


def test_the_page_of_all_settings_is_current() -> None:
    written = runpy.run_path(str(ROOT / "tools" / "settings_page.py"))["page"]()
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == written, "run tools/settings_page.py"


# -- forms of declaration ----------------------------------------------------------------------------------------------


class Searches:
    async def __call__(self, query: str = "x", limit: int = 10) -> str:
        """Search the web."""
        return query


def by_engine(**given: Any) -> ToolSpec:
    return ToolEngine([]).register(search, **given)


def by_replacing_in_an_engine(**given: Any) -> ToolSpec:
    return ToolEngine([search]).register(search, replace=True, **given)


FORMS: dict[str, Callable[..., ToolSpec]] = {
    "decorator": lambda **given: tool(**given)(search),
    "call": lambda **given: tool(search, **given),
    "call with a tool": lambda **given: tool(tool(search), **given),
    "callable object": lambda **given: tool(Searches(), **given),
    "class": lambda **given: ToolSpec(**{"name": "search", "func": search, **given}),
    "replaced": lambda **given: tool(search).replaced(**given),
    "registry": lambda **given: ToolRegistry().register(search, **given),
    "registry with a tool": lambda **given: ToolRegistry().register(tool(search), **given),
    "engine": by_engine,
    "engine, replacing": by_replacing_in_an_engine,
    "script": scripted,
    "script like a function": lambda **given: scripted(like=search, **given),
    "script like a tool": lambda **given: scripted(like=tool(search, **given)),
}
RIGHT: dict[str, Any] = {
    "name": "find",
    "description": "Finds.",
    "parameters_schema": {"type": "object", "properties": {"query": {"type": "string", "default": "x"}}},
    "validator": [is_large],
    "timeout": 3,
    "idle_timeout": 2.5,
    "deadline": 70.0,
    "max_retries": 2,
    "retry": RetryPolicy(max_retries=1),
    "max_concurrency": 4,
    "max_queue": 5,
    "rate_limit": RateLimit(3),
    "single_flight": True,
    "key": whose,
    "breaker": BreakerPolicy(),
    "idempotent": True,
    "read_only": True,
    "destructive": True,
    "needs_approval": True,
    "approval_timeout": 9.0,
    "fallback": substitute,
    "output_schema": {"type": "string"},
    "max_result_chars": 200,
    "sensitive": frozenset({"query"}),
    "health_check": is_well,
    "version": "7",
    "tags": ("web",),
    "lint": False,
}
ALONE = {"breaker_group", "executor", "canary"}
"""These want company: a circuit, a plain function, a stable version."""


def test_each_setting_is_tried_in_each_form() -> None:
    assert RIGHT.keys() | ALONE == {"name", *TOOL}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", RIGHT)
def test_every_form_of_declaration_takes_every_setting(form: str, name: str) -> None:
    value: Any = RIGHT[name]
    if name == "fallback" and form == "script":
        value = FallbackPolicy(value=1)
    assert getattr(FORMS[form](**{name: value}), name) == value


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("timout", 5, "no setting is called 'timout'; did you mean .*timeout"),
        ("readonly", True, "no setting is called 'readonly'; did you mean read_only"),
        ("hides", frozenset(), "no setting is called 'hides'"),
        ("idempotent", "false", "idempotent must be True or False, not 'false'; write False, without quotes"),
        ("name", "", "cannot be a tool's name"),
        ("name", None, "cannot be a tool's name"),
    ],
)
def test_every_form_of_declaration_refuses_what_is_no_setting(form: str, name: str, value: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        FORMS[form](**{name: value})


def test_a_tool_that_needs_approval_needs_it_however_it_is_declared() -> None:
    async def main() -> None:
        engine = virtual(tool(search, needs_approval=True))
        invocation = engine.start(ToolCall("search"))
        await idle()
        assert invocation.state == "AWAITING_APPROVAL"
        invocation.deny("no")
        await invocation
        assert not invocation.attempts

    asyncio.run(main())


def test_a_decorator_with_a_wrong_setting_fails_before_the_function_is_there() -> None:
    with pytest.raises(ConfigurationError, match=r"@tool: .*did you mean .*timeout"):
        tool(timout=5)  # type: ignore[call-arg] # the checkers see it too


@pytest.mark.parametrize("value", ["search", 5, None, [search]])
def test_what_is_no_function_is_no_tool(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="a tool is a function or a ToolSpec"):
        ToolRegistry().register(value)


@pytest.mark.parametrize("make", [ToolEngine, ToolRegistry])
@pytest.mark.parametrize("tools", [search, tool(search), "search", {"search": search}, 5, None])
def test_tools_are_a_list(make: Callable[[Any], Any], tools: Any) -> None:
    with pytest.raises(ConfigurationError, match="tools is a list"):
        make(tools)


def test_a_stand_in_has_every_setting_of_the_tool_it_stands_in_for() -> None:
    company = {"retry", "executor"}
    original = tool(search, **{name: value for name, value in RIGHT.items() if name not in company})
    other = scripted(Returns(1), like=original)
    for name in settings_of(ToolSpec):
        if name != "func":
            assert getattr(other, name) == getattr(original, name), name
    derived = scripted(like=tool(search))
    assert derived.parameters == tool(search).parameters


def test_a_stand_in_for_a_tool_with_an_executor_runs_in_a_thread() -> None:
    def add(a: int) -> int:
        return a

    assert scripted(like=tool(add, executor="process", max_concurrency=3)).max_concurrency == 3


# -- values ------------------------------------------------------------------------------------------------------------

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("ToolSpec", {"single_flight": "no"}, "single_flight must be"),
    ("ToolSpec", {"read_only": 1}, "read_only must be True or False, not 1"),
    ("ToolSpec", {"destructive": None}, "destructive must be True or False, not None"),
    ("ToolSpec", {"breaker": True}, r"tool 't': breaker must be a BreakerPolicy.*write BreakerPolicy\(\)"),
    ("ToolSpec", {"rate_limit": 10}, r"rate_limit must be a RateLimit.*write RateLimit\(10, per=1.0\)"),
    ("ToolSpec", {"canary": "5"}, "canary must be a per cent.*write 5, without quotes"),
    ("ToolSpec", {"canary": 101}, "canary must be a per cent from 0 to 100"),
    ("ToolSpec", {"tags": 5}, "tags must be"),
    ("ToolSpec", {"sensitive": 5}, "sensitive must be"),
    (
        "ToolSpec",
        {"sensitive": ("querry",)},
        "sensitive names 'querry', and no argument is called that; did you mean query",
    ),
    ("ToolSpec", {"timeout": 10**309}, "timeout must be"),
    ("ToolSpec", {"timeout": "5"}, "not '5'; write 5, without quotes"),
    ("ToolSpec", {"version": 1.1}, "version must be .*write '1.1'"),
    ("ToolSpec", {"version": ""}, "version must be"),
    ("ToolSpec", {"validator": lambda: True}, "validator"),
    ("ToolSpec", {"needs_approval": lambda: True}, "needs_approval must be .*it is called with 1 argument"),
    ("ToolSpec", {"health_check": lambda city: True}, "health_check must be .*it is called with no arguments"),
    ("ToolSpec", {"fallback": lambda: 1}, "fallback is called with the tool's arguments by name"),
    ("ToolSpec", {"fallback": lambda query, limit, place: 1}, "does not fit: missing a required argument: 'place'"),
    ("ToolSpec", {"parameters_schema": 5}, "parameters_schema must be a dictionary"),
    ("RetryPolicy", {"max_retry_after": None}, "RetryPolicy.max_retry_after must be .* not None"),
    ("RetryPolicy", {"wait": wait_fixed}, "not the class wait_fixed; write an object of it"),
    ("RetryPolicy", {"wait": search}, "not a coroutine function"),
    ("RetryPolicy", {"max_retry": 3}, "RetryPolicy: no setting is called 'max_retry'; did you mean max_retries"),
    ("BreakerPolicy", {"failure_rate_threshold": 0.5}, "for 0.5 of all calls write 50"),
    ("BreakerPolicy", {"sliding_window_size": 10**15}, "sliding_window_size must be .*at most 1,000,000"),
    ("BreakerPolicy", {"failure_rate": 50}, "did you mean .*failure_rate_threshold"),
    ("RateLimit", {"limit": 1, "per": 1e308}, "RateLimit.per must be"),
    ("RateLimit", {"limit": 1, "per": 10**309}, "RateLimit.per must be"),
    ("FallbackPolicy", {"value": substitute}, r"FallbackPolicy.value must be the answer itself.*function=\.\.\."),
    ("FallbackPolicy", {"value": "last_good"}, r"write FallbackPolicy\(last_good=True\)"),
    ("FallbackPolicy", {"value": iter([1])}, "called anew each time"),
    ("FallbackPolicy", {"value": 1, "on_failure": "false"}, "FallbackPolicy.on_failure must be True or False"),
    ("FallbackPolicy", {"last_good": 1}, "FallbackPolicy.last_good must be True or False"),
    ("ToolEngine", {"cancel_grace": None}, "ToolEngine.cancel_grace must be .* not None"),
    ("ToolEngine", {"max_threads": None}, "ToolEngine.max_threads must be"),
    ("ToolEngine", {"clock": 5}, "ToolEngine.clock must be a clock"),
    ("ToolEngine", {"clock": VirtualClock}, r"not the class VirtualClock; write VirtualClock\(\)"),
    ("ToolEngine", {"stages": {}}, "ToolEngine.stages must be a Stages"),
    ("ToolEngine", {"lifecycle": None}, "ToolEngine.lifecycle must be a Lifecycle"),
    ("Stages", {"parse": 5}, "Stages.parse must be a plain function of two arguments, not 5"),
    ("Stages", {"validate": search}, "Stages.validate must be .*not a coroutine function"),
    ("Stages", {"publisch": print}, "did you mean publish"),
    ("Agent", {"max_turns": None}, "Agent.max_turns must be"),
    ("Agent", {"max_seconds": "60"}, "write 60, without quotes"),
]


def made(name: str, given: dict[str, Any]) -> Any:
    if name == "ToolSpec":
        return ToolSpec(**{"name": "t", "func": search, **given})
    if name == "Agent":
        return Agent(ToolEngine([]), model, **given)
    return DECLARED[name](**given)


async def model(messages: Any, tools: Any) -> Any:
    yield {"choices": [{"delta": {"content": "Good day."}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(("name", "given", "said"), WRONG)
def test_a_value_that_cannot_work_is_refused_with_what_is_allowed(name: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        made(name, given)


@pytest.mark.parametrize("setting", ["max_runs", "keep_seconds", "max_chars"])
def test_a_store_of_runs_has_limits(setting: str) -> None:
    given: Any = {setting: None}
    with pytest.raises(ConfigurationError, match=f"{setting} must be .* not None"):
        RunStore(ToolEngine([]), **given)


def test_a_name_that_may_come_is_taken_for_hidden() -> None:
    async def pay(card: dict[str, str]) -> None: ...

    async def note(**fields: str) -> None: ...

    assert ToolSpec(name="t", func=pay, sensitive=["number"]).hides >= {"number"}
    assert ToolSpec(name="t", func=note, sensitive={"number"}).hides >= {"number"}


class Hostile:
    """Raises at whatever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("no")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __bool__(self) -> bool:
        raise RuntimeError("no")

    def __len__(self) -> int:
        raise RuntimeError("no")

    def __iter__(self) -> Any:
        raise RuntimeError("no")


def plain() -> int:
    return 1


ODD = st.sampled_from(
    [
        object(), decimal.Decimal(5), dt.timedelta(seconds=5), 10**400, -(10**400), 2**63, 1e308,
        float("inf"), float("nan"), 5e-324, range(3), itertools.count(), search, substitute, plain, is_large, is_well,
        wait_fixed(1), RetryPolicy(max_retries=1), RateLimit(1), BreakerPolicy(), FallbackPolicy(value=1),
        FallbackPolicy(function=substitute), VirtualClock(), ThreadPoolExecutor(1), print, int, len, dict, "thread",
        "process", "last_good", "count", "time", "closed", "true", "50", "\ud800", b"x", ToolEngine, asyncio, NotImplemented,
    ]
)  # fmt: skip
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=100) | ODD,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        | st.frozensets(st.text(max_size=5), max_size=3)
    ),
    max_leaves=4,
)
WORDS_OF_THE_WHOLE = {"parameters_schema", "output_schema", "function", "fallback", "validator"}
PLACES = [(name, setting) for name, table in TABLES.items() for setting in table if name != "Stages"]


def engine_with(built: Any, name: str) -> ToolEngine:
    """An engine with a tool called t, and in one of them what was made."""
    if name == "ToolEngine":
        built.register(search, name="t")
        return built
    company: dict[str, Any] = {
        "RetryPolicy": {"retry": built, "read_only": True},
        "BreakerPolicy": {"breaker": built},
        "FallbackPolicy": {"fallback": built, "read_only": True},
        "RateLimit": {"rate_limit": built},
    }
    spec = built if name == "ToolSpec" else ToolSpec(name="t", func=search, **company[name])
    beside = [] if spec.canary is None else [ToolSpec(name="t", func=search, version="stable")]
    return virtual(*beside, spec)


async def works(engine: ToolEngine, setting: str) -> None:
    """A call comes to an end with what was accepted, and no part of the set-up turns out broken.

    What a function answers is not known before it is called: one that answers nonsense is told as its author's fault.
    """
    for spec in tuple(engine.registry):
        invocation = engine.start(ToolCall("t", version=spec.version))
        await idle()
        if not invocation.is_final:
            invocation.cancel()
            await invocation
        is_broken = invocation.error is not None and invocation.error.reason == "broken_tool"
        assert not is_broken or setting in ("validator", "needs_approval"), invocation.error


async def talks(agent: Agent) -> None:
    assert [event.type async for event in agent.run("Hello")][-1:] == ["run_ended"]


NEEDED: dict[str, dict[str, Any]] = {"RateLimit": {"limit": 1}, "FallbackPolicy": {"value": 1}}
THE_ONE_OF_THREE = {"value", "function", "last_good"}


def take(name: str, setting: str, value: Any) -> None:
    needed = {} if setting in THE_ONE_OF_THREE else NEEDED.get(name, {})
    refused, built, engine = "", cast("Any", None), None
    try:
        built = made(name, {**needed, setting: value})
        engine = None if name == "Agent" else engine_with(built, name)
    except ConfigurationError as error:
        refused = str(error)
    if not refused:
        asyncio.run(talks(built) if engine is None else works(engine, setting))
        return
    # What is wrong with the whole, and not with this one value, is said in words of the whole.
    assert setting in refused or setting in WORDS_OF_THE_WHOLE, refused


IDS = [".".join(place) for place in PLACES]


@pytest.mark.parametrize(("name", "setting"), PLACES, ids=IDS)
@settings(max_examples=40, deadline=None)
@given(value=ANY)
def test_any_value_whatever_is_taken_and_works_or_is_refused_with_the_name_of_the_setting(
    name: str, setting: str, value: Any
) -> None:
    take(name, setting, value)


@pytest.mark.parametrize(("name", "setting"), PLACES, ids=IDS)
@pytest.mark.parametrize("make", [Hostile, lambda: Hostile], ids=["object", "class"])
def test_an_object_that_raises_at_whatever_it_is_asked_is_a_value_like_any_other(
    name: str, setting: str, make: Callable[[], Any]
) -> None:
    take(name, setting, make())


# -- functions of the user's -------------------------------------------------------------------------------------------


class BusyError(ConnectionError):
    again_in = 0.25


def fails(state: Any) -> float:
    raise LookupError("the strategy is broken")


@pytest.mark.parametrize(
    "wait",
    [
        fails,
        lambda state: float("nan"),
        lambda state: float("inf"),
        lambda state: -1.0,
        lambda state: None,
        lambda state: "1",
        lambda state: True,
        lambda state: 1e300,
        lambda state: search(),
        wait_exception(lambda error: error.again_in_a_while),  # type: ignore[attr-defined] # that is the mistake
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine 'search' was never awaited")
def test_a_broken_wait_leaves_the_tools_own_error_and_the_usual_wait(wait: Any) -> None:
    async def main() -> None:
        flaky = scripted(Raises(BusyError("later")), read_only=True, retry=RetryPolicy(max_retries=2, wait=wait))
        engine = virtual(flaky)
        invocation = await play(engine, engine.start(ToolCall("scripted")))
        assert len(flaky.calls) == 3
        assert invocation.error is not None
        assert (invocation.error.code, invocation.error.exception_type) == ("NETWORK_ERROR", "BusyError")
        assert all(0 <= (attempt.delay or 0) <= 30 for attempt in invocation.attempts)

    with logged() as lines:
        asyncio.run(main())
    broken = [line for line in lines if "retry.wait is broken" in line["event"]]
    assert [line["tool"] for line in broken] == ["scripted"] * 2
    assert all(line["log_level"] == "error" and line["problem"] for line in broken)


async def test_a_wait_may_read_what_was_raised_and_how_long_it_all_took() -> None:
    seen: list[tuple[Any, ...]] = []

    def wait(state: Any) -> float:
        error = state.outcome.exception()
        seen.append((state.attempt_number, type(error), round(state.seconds_since_start, 3), state.idle_for))
        return float(error.again_in)

    flaky = scripted(Raises(BusyError("later")), read_only=True, retry=RetryPolicy(max_retries=2, wait=wait))
    engine = virtual(flaky)
    await play(engine, engine.start(ToolCall("scripted")))
    assert seen == [(1, BusyError, 0.0, 0.0), (2, BusyError, 0.25, 0.25)]


async def test_a_wait_is_told_of_a_time_out_and_of_an_error_that_was_returned() -> None:
    from fsm_engine import ToolResponse
    from fsm_engine.testing import Hangs

    seen: list[Any] = []

    def wait(state: Any) -> float:
        seen.append(state.outcome.exception() or state.outcome.result())
        return 0.0

    busy = ToolResponse.error("NETWORK_ERROR", "busy")
    flaky = scripted(Hangs(), Returns(busy), Returns(1), read_only=True, timeout=1, retry=RetryPolicy(2, wait))
    engine = virtual(flaky)
    await play(engine, engine.start(ToolCall("scripted")))
    assert isinstance(seen[0], TimeoutError)
    assert seen[1].error_info.code == "NETWORK_ERROR"


def silent(arguments: Any) -> None:
    """Forgets to say what it has found out."""


def broken(arguments: Any) -> bool:
    raise LookupError("the rule is broken")


@pytest.mark.parametrize(
    "asks",
    [silent, broken, lambda _: "no", lambda _: 0, lambda _: [], lambda _: search()],
    ids=["silent", "raises", "text", "number", "list", "coroutine"],
)
async def test_a_rule_for_approval_that_does_not_answer_lets_nothing_run(asks: Any) -> None:
    guarded = scripted(Returns(1), needs_approval=asks)
    with logged() as lines:
        engine = virtual(guarded)
        response = await engine.invoke("scripted")
    assert guarded.calls == []
    assert response.error_info is not None
    assert (response.error_info.code, response.error_info.reason) == ("INTERNAL_ERROR", "broken_tool")
    assert any(line["log_level"] == "error" and line.get("tool") == "scripted" for line in lines)


@pytest.mark.parametrize(
    ("policy", "code", "stands_in"),
    [
        (BreakerPolicy(counted_codes=frozenset({"NOT_FOUND"})), "NOT_FOUND", True),
        (BreakerPolicy(ignored_codes=frozenset({"NETWORK_ERROR"})), "NETWORK_ERROR", False),
        (BreakerPolicy(), "NOT_FOUND", False),
        (BreakerPolicy(), "NETWORK_ERROR", True),
        (None, "NETWORK_ERROR", True),
        (None, "NOT_FOUND", False),
    ],
)
async def test_a_fallback_stands_in_for_just_what_the_circuit_counts(
    policy: BreakerPolicy | None, code: str, stands_in: bool
) -> None:
    from fsm_engine import ToolError

    failing = scripted(
        Raises(ToolError(code, "no")), breaker=policy, fallback=FallbackPolicy(value="instead", on_failure=True)
    )
    engine = virtual(failing)
    response = await engine.invoke("scripted")
    assert (response.error_info is None) is stands_in
    if policy is not None:
        assert bool(engine.circuits["scripted@1"].metrics().failed) is stands_in


@pytest.mark.parametrize("given", [{"max_retries": 3}, {"retry": RetryPolicy(max_retries=1)}])
def test_retries_that_do_little_are_told_once(given: dict[str, Any]) -> None:
    async def main() -> None:
        async with ToolEngine([tool(search, **given)]) as engine:
            await engine.invoke("search")
            await engine.invoke("search")

    with logged() as lines:
        asyncio.run(main())
    assert [line["tool"] for line in lines if "max_retries does little" in line["event"]] == ["search"]


@pytest.mark.parametrize("given", [{}, {"read_only": True, "max_retries": 3}, {"idempotent": True, "max_retries": 3}])
def test_a_tool_of_which_all_is_said_is_registered_in_silence(given: dict[str, Any]) -> None:
    with logged() as lines:
        ToolEngine([tool(search, **given)])
    assert lines == []


def test_a_tool_that_says_nothing_to_the_model_is_named() -> None:
    def bare(city, days: int = 1):
        return city

    with logged() as lines:
        ToolEngine([bare])
        ToolEngine([tool(bare, lint=False)])
    assert [(line["tool"], line["missing"]) for line in lines] == [("bare", ("description", "type of city"))]
