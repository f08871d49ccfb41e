"""Runs `async def` tests, property-based ones included, each in an event loop of its own."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest


def run_in_own_loop(function: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make a plain function of a coroutine function; debug stays off, since it changes timings and adds frames."""

    @functools.wraps(function)
    def run(*args: object, **kwargs: object) -> None:
        asyncio.run(function(*args, **kwargs), debug=False)

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine function; leave every other test to pytest."""
    test = pyfuncitem.obj
    # Hypothesis draws the arguments in a plain function of its own, around the test as it was written.
    property_test = getattr(test, "hypothesis", None)
    if property_test is not None:
        if inspect.iscoroutinefunction(property_test.inner_test):
            property_test.inner_test = run_in_own_loop(property_test.inner_test)
        return None
    if not inspect.iscoroutinefunction(test):
        return None
    wanted = inspect.signature(test).parameters
    run_in_own_loop(test)(**{name: value for name, value in pyfuncitem.funcargs.items() if name in wanted})
    return True
