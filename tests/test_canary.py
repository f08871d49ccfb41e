"""Several versions of one tool: who gets which, and what happens when the new one is not well."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_engine import BreakerPolicy, RegistrationError, ToolCall, ToolEngine, ToolRegistry, ToolSpec, VirtualClock

from .support import idle, logged, virtual


def version(number: str, canary: float | None = None, *, fails: bool = False, **settings: Any) -> ToolSpec:
    async def search(query: str = "") -> str:
        if fails:
            raise ConnectionError("gone")
        return number

    return ToolSpec(name="search", func=search, version=number, canary=canary, **settings)


def call(number: int, version: str | None = None) -> ToolCall:
    return ToolCall("search", {"query": "x"}, f"call_{number}", version)


def chosen(registry: ToolRegistry, each: ToolCall) -> str:
    spec = registry.choose(each)
    assert spec is not None
    return spec.version


# -- shares -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [1.0, 10.0, 50.0, 100.0])
def test_a_canary_gets_about_its_share(share: float) -> None:
    registry = ToolRegistry([version("1"), version("2", share)])
    got = sum(chosen(registry, call(number)) == "2" for number in range(4_000)) / 40
    assert got == pytest.approx(share, abs=2.5)


def test_several_canaries_get_their_shares_beside_each_other() -> None:
    registry = ToolRegistry([version("1"), version("2", 30.0), version("3", 20.0)])
    got = [chosen(registry, call(number)) for number in range(4_000)]
    assert [round(got.count(name) / 400) * 10 for name in "123"] == [50, 30, 20]


@settings(deadline=None, max_examples=30)
@given(st.text(max_size=20), st.floats(0.0, 100.0))
def test_the_same_key_always_meets_the_same_version_and_a_larger_share_takes_nobody_back(
    key: str, share: float
) -> None:
    each = ToolCall("search", {}, key or None)
    small, large = (
        ToolRegistry([version("1"), version("2", percent)]) for percent in (share, min(100.0, share + 10.0))
    )
    assert chosen(small, each) == chosen(small, each)
    assert not (chosen(small, each) == "2" and chosen(large, each) == "1")


def test_the_choice_is_the_same_in_every_process() -> None:
    """The hash is not Python's own, which differs from one process to the next."""
    registry = ToolRegistry([version("1"), version("2", 50.0)])
    assert "".join(chosen(registry, call(number)) for number in range(12)) == "122211121212"


def test_a_call_without_an_id_is_told_apart_by_its_arguments() -> None:
    registry = ToolRegistry([version("1"), version("2", 50.0)])
    got = [chosen(registry, ToolCall("search", {"query": str(number)})) for number in range(200)]
    assert {"1", "2"} == set(got)
    assert chosen(registry, ToolCall("search", {"query": "7"})) == got[7]


def test_a_share_of_nothing_is_for_calls_that_name_the_version() -> None:
    registry = ToolRegistry([version("1"), version("2", 0.0)])
    assert {chosen(registry, call(number)) for number in range(200)} == {"1"}
    assert chosen(registry, call(1, "2")) == "2"


async def test_a_call_may_force_a_version_even_one_that_is_not_well() -> None:
    engine = virtual(version("1"), version("2", 0.0, breaker=BreakerPolicy()))
    assert (await engine.invoke("search", version="2")).text == "2"
    engine.circuits["search@2"].open()
    forced = await engine.invoke("search", version="2")
    assert forced.error_info is not None
    assert forced.error_info.code == "CIRCUIT_OPEN"
    unknown = await engine.invoke("search", version="9")
    assert unknown.error_info is not None
    assert (unknown.error_info.code, unknown.error_info.reason) == ("NOT_FOUND", "unknown_version")


# -- registration -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([version("2", 10.0)], "register the stable version"),
        ([version("1"), version("1", 10.0)], "give it another version"),
        ([version("1"), version("2", 10.0), version("2", 20.0)], "give it another version"),
        ([version("1"), version("2", 60.0), version("3", 50.0)], "more than 100 per cent"),
        ([version("1"), version("2")], "is registered"),
    ],
)
def test_versions_that_do_not_go_together_are_refused(tools: list[ToolSpec], message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        ToolRegistry(tools)


def test_a_canary_can_be_given_another_share() -> None:
    registry = ToolRegistry([version("1"), version("2", 60.0), version("3", 40.0)])
    registry.register(version("2", 10.0), replace=True)
    assert [(spec.version, spec.canary) for spec in registry] == [("1", None), ("3", 40.0), ("2", 10.0)]


def test_a_canary_becomes_the_stable_version() -> None:
    registry = ToolRegistry([version("1"), version("2", 60.0), version("3", 10.0)])
    with pytest.raises(RegistrationError, match="replace=True"):
        registry.register(version("2"))
    registry.register(version("2"), replace=True)
    assert registry.versions("search") == ("2", "3")


# -- a canary that is not well ------------------------------------------------------------------------------------------


def engine_with(canary: ToolSpec) -> ToolEngine:
    return virtual(version("1", breaker=BreakerPolicy.consecutive(3)), canary)


async def versions_used(engine: ToolEngine, numbers: range) -> list[str]:
    used = []
    for number in numbers:
        invocation = await engine.execute_tool_call(call(number))
        assert invocation.spec is not None
        used.append(invocation.spec.version)
    return used


async def test_each_version_has_a_circuit_of_its_own_and_an_open_canary_gives_its_share_back() -> None:
    with logged():
        engine = engine_with(version("2", 100.0, fails=True, breaker=BreakerPolicy.consecutive(3)))
        assert await versions_used(engine, range(3)) == ["2"] * 3
        assert await versions_used(engine, range(3, 20)) == ["1"] * 17
    assert {name: str(circuit.circuit_state) for name, circuit in engine.circuits.items()} == {
        "search@1": "CLOSED",
        "search@2": "OPEN",
    }


async def test_a_canary_on_probation_gets_its_probes_and_the_stable_version_the_rest() -> None:
    policy = BreakerPolicy(permitted_calls_in_half_open=2)
    engine = engine_with(version("2", 100.0, breaker=policy))
    circuit = engine.circuits["search@2"]
    circuit.open()
    assert isinstance(engine.clock, VirtualClock)
    engine.clock.advance(60.0)
    assert str(circuit.circuit_state) == "HALF_OPEN"
    probes = [circuit.try_acquire() for _ in range(2)]
    assert await versions_used(engine, range(3)) == ["1"] * 3
    for probe in probes:
        assert probe is not None
        probe.success(0.1)
    assert await versions_used(engine, range(3)) == ["2"] * 3


async def test_a_circuit_that_waits_for_a_caller_is_tried_by_the_canarys_own_calls() -> None:
    policy = BreakerPolicy(automatic_transition_from_open_to_half_open=False, permitted_calls_in_half_open=1)
    engine = engine_with(version("2", 100.0, breaker=policy))
    engine.circuits["search@2"].open()
    assert await versions_used(engine, range(2)) == ["1"] * 2
    assert isinstance(engine.clock, VirtualClock)
    engine.clock.advance(61.0)
    assert await versions_used(engine, range(2)) == ["2"] * 2


async def test_a_canary_without_a_circuit_keeps_its_share() -> None:
    with logged():
        engine = engine_with(version("2", 100.0, fails=True))
        assert await versions_used(engine, range(30)) == ["2"] * 30


async def test_the_version_is_in_the_response_and_in_the_log() -> None:
    with logged() as lines:
        engine = virtual(version("1"), version("2", 100.0))
        response = await engine.invoke("search", call_id="c1")
        await idle()
    assert response.context["version"] == "2"
    assert {line["version"] for line in lines if line["event"] == "tool call ended"} == {"2"}
    nobody = await engine.invoke("unknown")
    assert "version" not in nobody.context
