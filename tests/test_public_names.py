"""Every public name can be looked at, and what its documentation shows is true."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import pydoc
import typing
from contextlib import suppress
from typing import Any

import pytest

import fsm_engine

MODULES = [
    "fsm_engine",
    *(each.name for each in pkgutil.walk_packages(fsm_engine.__path__, "fsm_engine.") if "__main__" not in each.name),
]
# Hypothesis's own annotations name what is there for checkers alone, and OpenAI's SDK is not imported unless it is used.
FOREIGN = {"LifecycleRules", "OpenAIModel"}


def public() -> dict[str, Any]:
    packages = [module for module in map(importlib.import_module, MODULES) if hasattr(module, "__path__")]
    return {
        f"{package.__name__}.{name}": getattr(package, name)
        for package in packages
        for name in getattr(package, "__all__", ())
    }


PUBLIC = public()


@pytest.mark.parametrize(
    "name", [name for name, value in PUBLIC.items() if inspect.isclass(value) or inspect.isroutine(value)]
)
def test_every_public_name_can_be_looked_at(name: str) -> None:
    """A name that an annotation uses, and that its module cannot import, is given to it by `fsm_engine._annotations`."""
    value = PUBLIC[name]
    assert pydoc.render_doc(value)
    with suppress(ValueError):  # an enumeration's, say, is written in C
        assert inspect.signature(value)
    if name.rpartition(".")[2] not in FOREIGN:
        typing.get_type_hints(value)
        if inspect.isclass(value) and inspect.isfunction(value.__init__):
            typing.get_type_hints(value.__init__)


@pytest.mark.parametrize("name", MODULES)
def test_what_the_documentation_shows_is_true(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert not failed, capsys.readouterr().out
