"""The worked examples, with the tools of the demonstration: a real database, a real service, and time that is moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from fsm_engine import (
    Effect,
    SchemaError,
    ToolEngine,
    ToolErrorEvent,
    ToolExecutionEvent,
    ToolInvocation,
    ToolResponse,
    ToolResultEvent,
    ToolSpec,
    ToolState,
    ToolStatus,
    VirtualClock,
)
from fsm_engine.demo import OrderDesk, ShopService, calculator, create_database, search_web
from fsm_engine.demo.database import opened


class Shop:
    """The desk, its service and its clock, with the engine that runs its tools."""

    def __init__(self, service: ShopService, clock: VirtualClock) -> None:
        self.service = service
        self.clock = clock
        self.desk = OrderDesk(service.database, service.url, clock)
        self.engine = ToolEngine(self.desk.tools(), clock=clock)

    async def call(self, name: str, arguments: Any) -> ToolInvocation:
        return await self.engine.execute_tool_call({"id": "c1", "name": name, "arguments": arguments})

    def rows(self, query: str) -> list[Any]:
        with opened(self.service.database) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ShopService]:
    create_database(tmp_path / "shop.db")
    with ShopService(tmp_path / "shop.db") as running:
        yield running


@asynccontextmanager
async def opened_shop(service: ShopService) -> AsyncIterator[Shop]:
    shop = Shop(service, VirtualClock())
    async with shop.engine:
        yield shop


async def until(condition: Callable[[], object]) -> None:
    """Let everybody else go on until something has come about; time stands still meanwhile."""
    while not condition():  # noqa: ASYNC110 - threads and servers are waited for, which set no event of ours
        await asyncio.sleep(0)


def refused_in_validating(invocation: ToolInvocation) -> bool:
    return invocation.path == ("PENDING", "VALIDATING", "FAILED") and not invocation.attempts


def reasons(invocation: ToolInvocation) -> list[str]:
    assert invocation.error is not None
    return [issue.reason for issue in invocation.error.issues]


# -- E1 ----------------------------------------------------------------------------------------------------------------


async def test_e1_a_query_of_two_characters_is_refused_with_a_sentence_that_says_so() -> None:
    async with ToolEngine([search_web]) as engine:
        invocation = await engine.execute_tool_call({"name": "search_web", "arguments": {"query": "ab"}})
    assert refused_in_validating(invocation)
    assert invocation.error is not None
    assert "must have at least 3 characters" in invocation.error.message


async def test_e1_a_query_of_three_characters_is_searched_for() -> None:
    async with ToolEngine([search_web]) as engine:
        response = await engine.invoke("search_web", {"query": "fan"})
    assert isinstance(response.data, list)
    assert "Breeze desk fan" in response.text


@pytest.mark.parametrize("arguments", [{"query": None}, {}, None, "null", '{"query": null}'])
async def test_e1_null_or_nothing_never_reaches_the_function(arguments: Any) -> None:
    async with ToolEngine([search_web]) as engine:
        invocation = await engine.execute_tool_call({"name": "search_web", "arguments": arguments})
    assert refused_in_validating(invocation)
    assert invocation.error is not None
    assert invocation.error.code == "INVALID_PARAM"


FORGETFUL = {"type": "object", "properties": {"query": {"type": "string", "minLength": 3}}}


def test_e1_a_schema_that_forgot_required_is_refused_when_the_tool_is_made() -> None:
    with pytest.raises(SchemaError, match="query"):
        ToolSpec(name="search", func=search_web.func, parameters_schema=FORGETFUL)


async def test_e1_a_forgetful_schema_that_is_forced_in_still_never_reaches_the_function() -> None:
    ran = []

    async def search(query: str) -> str:
        ran.append(query)
        return query

    async with ToolEngine([ToolSpec(name="search", func=search, parameters_schema=FORGETFUL, lint=False)]) as engine:
        responses = [await engine.invoke("search", arguments) for arguments in ({"query": None}, {})]
    assert [response.error_info.code for response in responses if response.error_info] == ["INVALID_PARAM"] * 2
    assert not ran


# -- E2 ----------------------------------------------------------------------------------------------------------------

GOOD_PHONE, GOOD_TEXT = "13812345678", "Your parcel is on its way."


@pytest.mark.parametrize(
    ("phone", "message", "reason", "words"),
    [
        ("12812345678", GOOD_TEXT, "invalid_phone_number", "mobile number of mainland China"),
        ("1381234567", GOOD_TEXT, "invalid_phone_number", "11 digits"),
        ("+8613812345678", GOOD_TEXT, "invalid_phone_number", "11 digits"),
        (GOOD_PHONE, "x" * 71, "message_too_long", "at most 70 characters"),
        (GOOD_PHONE, "You hit the JACKPOT", "blocked_word", "a word that is not allowed"),
    ],
)
async def test_e2_each_rule_of_a_message_has_its_own_words(
    service: ShopService, phone: str, message: str, reason: str, words: str
) -> None:
    async with opened_shop(service) as shop:
        invocation = await shop.call("send_sms", {"phone": phone, "message": message})
        spec = invocation.spec
    assert refused_in_validating(invocation)
    assert reasons(invocation) == [reason]
    assert invocation.error is not None
    assert words in invocation.error.message
    assert spec is not None
    assert spec.schema.is_valid({"phone": phone, "message": message}), "the schema alone would let it pass"
    assert not shop.rows("SELECT * FROM messages")


async def test_e2_all_three_are_reported_at_once(service: ShopService) -> None:
    async with opened_shop(service) as shop:
        invocation = await shop.call("send_sms", {"phone": "1", "message": "casino " * 20})
    assert reasons(invocation) == ["invalid_phone_number", "message_too_long", "blocked_word"]


async def test_e2_a_good_message_is_sent(service: ShopService) -> None:
    async with opened_shop(service) as shop:
        invocation = await shop.call("send_sms", {"phone": GOOD_PHONE, "message": "x" * 70})
    assert invocation.state == ToolState.COMPLETED
    assert shop.rows("SELECT phone, text FROM messages") == [(GOOD_PHONE, "x" * 70)]


# -- E3, as far as it needs no circuit ---------------------------------------------------------------------------------


async def test_e3_a_warehouse_outside_the_list_is_refused_and_nothing_is_called(service: ShopService) -> None:
    service.hang("/stock")  # a request would never be answered
    async with opened_shop(service) as shop:
        calls = [{"id": "c1", "name": "inventory_check", "arguments": {"sku_id": "SKU-200", "warehouse": "tokyo"}}]
        async with shop.engine.stream(calls) as run:
            events = [event async for event in run]
        [invocation] = run.invocations
    assert refused_in_validating(invocation)
    assert service.hanging == 0
    error = events[-1].to_dict()
    assert (error["type"], error["id"], error["tool_name"]) == ("tool_error", "c1", "inventory_check")
    assert error["error"]["reason"] == "invalid_warehouse"
    assert error["error"]["issues"][0]["allowed"] == ["beijing", "shanghai", "guangzhou"]


# -- E4 ----------------------------------------------------------------------------------------------------------------


async def pay(shop: Shop, amount: float, decide: Callable[[ToolInvocation], object]) -> ToolInvocation:
    invocation = shop.engine.start({"name": "transfer", "arguments": {"amount": amount, "recipient": "Chen Mei"}})
    await until(lambda: invocation.is_final or invocation.state == ToolState.AWAITING_APPROVAL)
    decide(invocation)
    return invocation


@pytest.mark.parametrize(
    ("amount", "reason"), [(0.001, "too_small"), (0.01, "below_minimum"), (99.99, "below_minimum")]
)
async def test_e4_the_schema_admits_a_cent_and_the_business_rule_wants_a_hundred(
    service: ShopService, amount: float, reason: str
) -> None:
    async with opened_shop(service) as shop:
        invocation = await pay(shop, amount, lambda invocation: None)
    assert refused_in_validating(invocation)
    assert reasons(invocation) == [reason]


async def test_e4_an_approved_transfer_is_made_once(service: ShopService) -> None:
    async with opened_shop(service) as shop:
        before = len(shop.rows("SELECT * FROM payments"))
        invocation = await (await pay(shop, 100, ToolInvocation.approve))
    assert invocation.state == ToolState.COMPLETED
    assert "AWAITING_APPROVAL" in invocation.path
    assert len(shop.rows("SELECT * FROM payments")) == before + 1


async def test_e4_a_denied_transfer_is_not_made(service: ShopService) -> None:
    async with opened_shop(service) as shop:
        before = shop.rows("SELECT * FROM payments")
        invocation = await (await pay(shop, 100, lambda invocation: invocation.deny("not today")))
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.effect) == ("APPROVAL_DENIED", Effect.NONE)
    assert shop.rows("SELECT * FROM payments") == before


async def test_e4_a_transfer_that_timed_out_is_not_tried_again_and_its_effect_is_unknown(service: ShopService) -> None:
    service.hang("/payments")
    async with opened_shop(service) as shop:
        before = len(shop.rows("SELECT * FROM payments"))
        invocation = await pay(shop, 100, ToolInvocation.approve)
        await until(lambda: service.hanging)
        assert invocation.spec is not None
        assert invocation.spec.retry_policy.max_retries > 0, "retries are allowed, only not here"
        shop.clock.advance(1.5)
        await invocation
    assert invocation.error is not None
    assert (invocation.error.code, invocation.error.effect) == ("TIMEOUT", Effect.UNKNOWN)
    assert len(invocation.attempts) == 1
    assert ToolState.RETRYING not in invocation.path
    assert invocation.response is not None
    assert "It is unknown whether the call took effect" in invocation.response.for_model()
    assert len(shop.rows("SELECT * FROM payments")) == before + 1, "the money did go out"


# -- E5 ----------------------------------------------------------------------------------------------------------------


async def test_e5_a_date_where_an_instant_is_meant_is_refused_for_its_missing_offset(service: ShopService) -> None:
    async with opened_shop(service) as shop:
        for date in ("2024-05-20", "2024-05-20T00:00:00"):
            invocation = await shop.call("statement", {"date": date})
            assert refused_in_validating(invocation)
            assert reasons(invocation) == ["missing_offset"]
            assert invocation.error is not None
            assert "offset" in invocation.error.message


async def test_e5_an_instant_with_offset_reaches_the_function_as_an_aware_datetime(service: ShopService) -> None:
    seen: list[object] = []
    async with opened_shop(service) as shop:
        statement = next(spec for spec in shop.desk.tools() if spec.name == "statement")

        def spying(date: datetime) -> object:
            seen.append(date)
            return statement.func(date)

        shop.engine.register(statement.replaced(func=spying, parameters_schema=statement.parameters), replace=True)
        invocation = await shop.call("statement", {"date": "2024-05-20T00:00:00+08:00"})
    assert seen == [datetime(2024, 5, 20, tzinfo=timezone(timedelta(hours=8)))]
    assert invocation.result == [{"at": "2024-05-20T09:30:00+08:00", "recipient": "Sun Yan", "yuan": 649.0}]


# -- E6 ----------------------------------------------------------------------------------------------------------------


async def test_e6_three_calls_of_one_message_one_good_one_unknown_one_hanging(service: ShopService) -> None:
    service.hang("/stock")
    calls = [
        {"id": "slow", "name": "inventory_check", "arguments": {"sku_id": "SKU-200", "warehouse": "beijing"}},
        {"id": "odd", "name": "inventory_chek", "arguments": {}},
        {"id": "good", "name": "order_status", "arguments": {"order_id": 1042}},
    ]
    async with opened_shop(service) as shop, shop.engine.stream(calls) as run:
        events = []
        began, waited = shop.clock.wall(), 0.0
        async for event in run:
            events.append(event)
            if isinstance(event, ToolResultEvent):
                assert event.at == began, "the good one does not wait for the slow one"
            if not isinstance(event, ToolExecutionEvent) or event.id != "slow":
                continue
            if event.status == ToolState.EXECUTING:
                attempt = event.attempt
                await until(lambda number=attempt: service.hanging == number)
                await until(lambda: run.invocations[2].is_final)
                shop.clock.advance(0.8)
                waited += 0.8
            elif event.status == ToolState.RETRYING:
                await until(lambda: shop.clock.next_timer is not None)
                shop.clock.advance(0.4)
                waited += 0.4
    assert [invocation.id for invocation in run.invocations] == ["slow", "odd", "good"]
    assert [invocation.state for invocation in run.invocations] == ["FAILED", "FAILED", "COMPLETED"]
    slow, odd, good = run.invocations
    assert slow.error is not None
    assert odd.error is not None
    assert (slow.error.code, len(slow.attempts)) == ("TIMEOUT", 3)
    assert odd.error.code == "NOT_FOUND"
    assert "inventory_check" in odd.error.message
    assert good.result["customer"] == "Chen Mei"
    ends = [event for event in events if isinstance(event, ToolResultEvent | ToolErrorEvent)]
    assert [event.id for event in ends] == ["odd", "good", "slow"]
    by_id = {
        call_id: [event.type for event in events if getattr(event, "id", None) == call_id]
        for call_id in ("slow", "odd", "good")
    }
    assert all(types[0] == "tool_call" and types[-1] in {"tool_result", "tool_error"} for types in by_id.values())
    assert len({event.uid for event in ends}) == 3
    assert waited == pytest.approx(3 * 0.8 + 2 * 0.4)


# -- E7 ----------------------------------------------------------------------------------------------------------------


async def calculated(expression: Any) -> ToolResponse:
    async with ToolEngine([calculator]) as engine:
        return await engine.invoke("calculator", {"expression": expression})


async def test_e7_two_and_three_is_five() -> None:
    response = await calculated("2 + 3")
    assert (response.status, response.data, response.text) == (ToolStatus.SUCCESS, 5, "5")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("9 ** 9999", "2.957003808e+9541"),
        ("10 ** 10 ** 10", "1.000000000e+10000000000"),
        ("1.1 ** 1e17", "1.188556953e+4139268515822504"),
        ("-(2 ** 5000)", "-1.412467032e+1505"),
    ],
)
async def test_e7_a_huge_power_is_partial_in_scientific_notation(expression: str, text: str) -> None:
    response = await calculated(expression)
    assert (response.status, response.text, response.reason) == (ToolStatus.PARTIAL, text, "rounded")


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("", "INVALID_PARAM"),
        ("2 +", "INVALID_FORMAT"),
        ("1 / 0", "EXECUTION_ERROR"),
        ("__import__('os')", "INVALID_FORMAT"),
        ("True + 1", "INVALID_FORMAT"),
        ("2 if 1 else 3", "INVALID_FORMAT"),
        ("'a' * 9", "INVALID_FORMAT"),
        ("(" * 199, "INVALID_FORMAT"),
        ("7 % 2", "INVALID_FORMAT"),
        ("1.5 / 0", "EXECUTION_ERROR"),
        ("0 ** -1", "EXECUTION_ERROR"),
        ("(0 - 2) ** 0.5", "EXECUTION_ERROR"),
        ("9 ** 9 ** 9 ** 9", "EXECUTION_ERROR"),
        ("1e999", "EXECUTION_ERROR"),
    ],
)
async def test_e7_what_has_no_value_says_which_kind_of_mistake_it_is(expression: str, code: str) -> None:
    response = await calculated(expression)
    assert response.error_info is not None
    assert response.error_info.code == code


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("6 / 3", 2),
        ("7 / 2", 3.5),
        ("0.1 + 0.2", 0.3),
        ("-2 ** 2", -4),
        ("+2 - -2", 4),
        ("2 ** -1", 0.5),
        ("1 ** 999999999", 1),
        ("1947 / 3 * 2", 1298),
        ("2 ** 100", 2**100),
    ],
)
async def test_e7_values(expression: str, value: float) -> None:
    response = await calculated(expression)
    assert (response.status, response.data) == (ToolStatus.SUCCESS, value)


# -- E8 ----------------------------------------------------------------------------------------------------------------


async def test_e8_progress_is_seen_while_the_tool_runs_between_the_events_of_the_others(service: ShopService) -> None:
    calls: list[dict[str, Any]] = [
        {"id": "report", "name": "order_report", "arguments": {}},
        *({"id": name, "name": "transfer", "arguments": {"amount": 100, "recipient": "x"}} for name in ("a", "b", "c")),
    ]
    seen: list[tuple[str, float | str, float]] = []
    async with opened_shop(service) as shop, shop.engine.stream(calls) as run:
        others = run.invocations[1:]
        began = shop.clock.wall()

        async def let_time_pass() -> None:
            for step in range(1, 5):
                await until(lambda step=step: shop.clock.next_timer == 1.25 * step)  # the report has gone to sleep
                await until(lambda step=step: all(other.is_final for other in others[: step - 1]))
                shop.clock.advance(1.25)

        passing = asyncio.create_task(let_time_pass())
        denied = iter(others)
        async for event in run:
            now = event.at - began
            if isinstance(event, ToolExecutionEvent) and event.progress is not None:
                seen.append((event.id, event.progress, now))
                if (other := next(denied, None)) is not None:
                    other.deny("not now")
            elif isinstance(event, ToolErrorEvent | ToolResultEvent):
                seen.append((event.id, event.type, now))
        await passing
    assert seen == [
        ("report", 0.25, 1.25),
        ("a", "tool_error", 1.25),
        ("report", 0.5, 2.5),
        ("b", "tool_error", 2.5),
        ("report", 0.75, 3.75),
        ("c", "tool_error", 3.75),
        ("report", 1.0, 5.0),
        ("report", "tool_result", 5.0),
    ]
    assert run.invocations[0].result == {"north": 398.0, "east": 649.0, "south": 1947.0, "west": 995.0}
