"""The tools that an engine has, by name."""

from __future__ import annotations

import pytest

from fsm_engine import RegistrationError, ToolRegistry, ToolSpec, tool


def add(a: int) -> int:
    return a


def test_tools_are_found_by_their_very_name() -> None:
    registry = ToolRegistry([add, ToolSpec(name="subtract", func=add)])
    spec = registry.get("add")
    assert spec is not None
    assert spec.func is add
    assert registry.get("Add") is None
    assert [each.name for each in registry] == ["add", "subtract"]
    assert len(registry) == 2
    assert "add" in registry
    assert "nope" not in registry


def test_a_name_is_given_once_unless_replacement_is_asked_for() -> None:
    registry = ToolRegistry([add])
    with pytest.raises(RegistrationError, match="replace=True"):
        registry.register(add)
    newer = tool(name="add")(lambda: 1)
    assert registry.register(newer, replace=True) is newer
    assert registry.get("add") is newer
    assert len(registry) == 1


def test_the_nearest_names_are_suggested() -> None:
    registry = ToolRegistry([ToolSpec(name=name, func=add) for name in ("search_web", "search_files", "send_mail")])
    assert registry.nearest("search_wep")[0] == "search_web"
    assert registry.nearest("zzz") == ()
    assert registry.nearest("s" * 100_000) == ()
