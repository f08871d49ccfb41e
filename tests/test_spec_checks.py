"""What is found out about a tool when it is declared: its wrapper, its fallback, and the names that it hides."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from fsm_engine import ConfigurationError, FallbackPolicy, ToolSpec, tool

from .support import logged, virtual


async def report(session: str, day: str) -> str:
    """The report of a day."""
    return f"{day} by {session}"


def with_session(function: Any) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await function("s1", *args, **kwargs)

    return wrapper


def with_session_named(function: Any) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(day: str) -> Any:
        return await function("s1", day)

    return wrapper


def with_session_said(function: Any) -> Callable[..., Any]:
    wrapper: Any = with_session(function)
    parameters = inspect.signature(function).parameters.values()
    wrapper.__signature__ = inspect.Signature([each for each in parameters if each.name != "session"])
    return wrapper


def noted(function: Any) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    return wrapper


def test_a_wrapper_that_does_not_take_what_its_signature_offers_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"unexpected keyword argument 'session'.*wrapper.__signature__ = "):
        tool(with_session_named(report))


@pytest.mark.parametrize("wrap", [with_session, lambda function: noted(with_session(function))], ids=["one", "two"])
async def test_a_wrapper_that_supplies_an_argument_itself_is_its_authors_fault(wrap: Any) -> None:
    with logged() as lines:
        engine = virtual(tool(wrap(report)))
        response = await engine.invoke("report", {"session": "x", "day": "today"})
    assert response.error_info is not None
    assert (response.error_info.code, response.error_info.reason) == ("INTERNAL_ERROR", "broken_tool")
    (line,) = (line for line in lines if "wrapper" in line["event"])
    assert "supplies 'session' itself" in line["problem"]
    assert "wrapper.__signature__" in line["problem"]


@pytest.mark.parametrize("wrap", [with_session_said, noted, functools.cache])
async def test_a_wrapper_that_says_what_it_takes_is_a_tool_like_any_other(wrap: Any) -> None:
    engine = virtual(tool(wrap(report)))
    arguments = {"day": "today"} if wrap is with_session_said else {"session": "s1", "day": "today"}
    assert (await engine.invoke("report", arguments)).text == "today by s1"


async def test_a_fault_within_the_function_that_sounds_alike_is_the_functions_own() -> None:
    async def careless(day: str) -> str:
        return await report("s1", day, session=day)  # type: ignore[misc] # that is the fault

    engine = virtual(tool(noted(careless)))
    response = await engine.invoke("careless", {"day": "today"})
    assert response.error_info is not None
    assert response.error_info.code == "EXECUTION_ERROR"


async def fits(session: str, day: str) -> str:
    return "instead"


async def takes_any(**arguments: str) -> str:
    return "instead"


@pytest.mark.parametrize(
    "fallback", [fits, takes_any, FallbackPolicy(function=fits), functools.partial(takes_any, more="1")]
)
async def test_a_fallback_that_fits_is_called_with_the_tools_arguments(fallback: Any) -> None:
    spec = ToolSpec(name="t", func=report, fallback=fallback)
    assert spec.fallback_policy is not None


def test_what_a_partial_has_set_is_not_asked_of_the_fallback() -> None:
    async def instead(day: str) -> str:
        return day

    assert ToolSpec(name="t", func=functools.partial(report, session="s1"), fallback=instead).fallback is instead
