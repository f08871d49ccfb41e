"""The stock of a shop is asked of a real service, which fails, hangs and recovers: what the callers meanwhile see.

The service is an HTTP server of this test on the loopback interface; only time is moved by hand.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from fsm_engine import (
    Alert,
    BreakerPolicy,
    Event,
    ToolCall,
    ToolEngine,
    ToolErrorEvent,
    ToolFallbackEvent,
    ToolInvocation,
    ToolSpec,
    ToolStatus,
    VirtualClock,
)
from fsm_engine.validators import allowed_values

from .support import assert_snippets_print_what_stands_below_them, until


class StockService:
    """How many pieces each warehouse has, over HTTP."""

    def __init__(self) -> None:
        self.is_down = False
        self.quantity = 14
        self.requests = 0
        self._may_answer = threading.Event()
        self._may_answer.set()
        self._lock = threading.Lock()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with service._lock:
                    service.requests += 1
                service._may_answer.wait(30)
                body = json.dumps({"quantity": service.quantity}).encode()
                self.send_response(503 if service.is_down else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 # http.server's name

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def hang(self) -> None:
        self._may_answer.clear()

    def go_on(self) -> None:
        self._may_answer.set()

    def quantity_of(self, sku_id: str, warehouse: str) -> int:
        try:
            with urlopen(f"http://127.0.0.1:{self._server.server_port}/{warehouse}/{sku_id}", timeout=30) as answer:
                return int(json.load(answer)["quantity"])
        except HTTPError as error:
            error.close()
            raise


POLICY = BreakerPolicy(
    sliding_window_size=10,
    minimum_number_of_calls=4,
    failure_rate_threshold=50,
    wait_duration_in_open_state=30,
    permitted_calls_in_half_open=2,
)


class Shop:
    """An engine with the tool that asks the service, and everything that those around it hear."""

    def __init__(self, service: StockService, policy: BreakerPolicy = POLICY) -> None:
        def inventory_check(sku_id: str, warehouse: str) -> int:
            return service.quantity_of(sku_id, warehouse)

        self.service = service
        self.clock = VirtualClock()
        self.alerts: list[Alert] = []
        check = ToolSpec(
            name="inventory_check",
            func=inventory_check,
            description="How many pieces of an article a warehouse has.",
            read_only=True,
            timeout=5.0,
            breaker=policy,
            fallback="last_good",
            validator=allowed_values("warehouse", ["beijing", "shanghai"], reason="invalid_warehouse"),
        )
        self.engine = ToolEngine([check], clock=self.clock)
        self.engine.on_alert(self.alerts.append)

    @property
    def circuit(self) -> Any:
        return self.engine.circuits["inventory_check@1"]

    async def ask(self, warehouse: str = "beijing") -> tuple[ToolInvocation, list[Event]]:
        """One call as a reader of its stream sees it."""
        arguments = {"sku_id": "SKU-200", "warehouse": warehouse}
        async with self.engine.stream([{"id": "c1", "name": "inventory_check", "arguments": arguments}]) as run:
            events = [event async for event in run]
        return run.invocations[0], events

    async def ask_often(self, times: int) -> Counter[str]:
        """Many calls at once, by what came of them."""
        calls = [
            ToolCall("inventory_check", {"sku_id": "SKU-200", "warehouse": "beijing"}, f"c{number}")
            for number in range(times)
        ]
        return Counter(outcome(each) for each in await self.engine.execute_tool_calls(calls))

    def heard(self) -> list[tuple[str, str]]:
        told = [(str(alert.kind), alert.reason) for alert in self.alerts]
        self.alerts.clear()
        return told


def outcome(invocation: ToolInvocation) -> str:
    response = invocation.response
    assert response is not None
    if response.error_info is not None:
        return response.error_info.code
    return str(response.status) if response.reason is None else response.reason


def told_of_fallback(events: list[Event]) -> list[str]:
    return [event.reason for event in events if isinstance(event, ToolFallbackEvent)]


@pytest.fixture
def service() -> Iterator[StockService]:
    with StockService() as running:
        yield running


async def break_the_circuit(shop: Shop) -> None:
    shop.service.is_down = True
    for _ in range(4):
        await shop.ask()
    assert shop.heard() == [("circuit_opened", "failure_rate")]


async def test_a_warehouse_that_does_not_exist_is_refused_before_anything_is_called(service: StockService) -> None:
    shop = Shop(service)
    invocation, events = await shop.ask("atlantis")
    assert invocation.path == ("PENDING", "VALIDATING", "FAILED")
    last = events[-1]
    assert isinstance(last, ToolErrorEvent)
    error = last.to_dict()["error"]
    assert (error["code"], error["reason"]) == ("INVALID_PARAM", "invalid_warehouse")
    assert error["issues"][0]["allowed"] == ["beijing", "shanghai"]
    assert (service.requests, shop.circuit.metrics().buffered) == (0, 0)


async def test_the_circuit_opens_falls_back_probes_and_closes(service: StockService) -> None:
    shop = Shop(service)

    good, _ = await shop.ask()
    assert (good.result, outcome(good)) == (14, "success")

    # The service goes down. Its failures reach the callers until half of the recent calls have failed.
    service.is_down = True
    shop.clock.advance(10.0)
    codes = [outcome((await shop.ask())[0]) for _ in range(3)]
    assert codes == ["API_ERROR"] * 3
    assert shop.heard() == [("circuit_opened", "failure_rate")]

    # From now on nothing is called, and the last good result stands in.
    shop.clock.advance(20.0)
    asked_before = service.requests
    stale, events = await shop.ask()
    response = stale.response
    assert response is not None
    assert (response.status, response.data, response.reason) == (ToolStatus.PARTIAL, 14, "circuit_breaker_open")
    about: Any = response.context["fallback"]
    assert (about["reason"], about["age_s"], about["error"]["code"]) == ("circuit_breaker_open", 30.0, "CIRCUIT_OPEN")
    assert response.for_model().startswith(
        "This result is incomplete. Reason: circuit_breaker_open. It is 30 seconds old."
    )
    assert told_of_fallback(events) == ["circuit_breaker_open"]
    assert stale.path[-3:] == ("ADMITTING", "FALLING_BACK", "COMPLETED")

    # For other arguments there is no good result: the first error stands, and says what to do.
    nothing, events = await shop.ask("shanghai")
    assert outcome(nothing) == "CIRCUIT_OPEN"
    assert nothing.error is not None
    assert nothing.error.retry_after == 10.0
    assert told_of_fallback(events) == ["circuit_breaker_open"]
    assert events[-1].type == "tool_error"
    assert service.requests == asked_before

    # After the wait the circuit is half-open: two probes go through, however many ask, and they fail.
    shop.clock.advance(10.0)
    assert shop.heard() == [("circuit_half_open", "wait_over")]
    service.hang()
    asking = asyncio.ensure_future(shop.ask_often(20))
    await until(lambda: service.requests == asked_before + 2)
    service.go_on()
    assert await asking == {"API_ERROR": 2, "circuit_breaker_open": 18}
    assert service.requests == asked_before + 2
    assert shop.heard() == [("circuit_opened", "failure_rate")]

    # The service recovers; the next two probes find out, and all calls go through again.
    service.is_down, service.quantity = False, 9
    shop.clock.advance(30.0)
    assert shop.heard() == [("circuit_half_open", "wait_over")]
    assert [outcome((await shop.ask())[0]) for _ in range(2)] == ["success", "success"]
    assert shop.heard() == [("circuit_closed", "probes_passed")]
    assert await shop.ask_often(10) == {"success": 10}
    assert (await shop.ask())[0].result == 9


async def test_a_person_can_close_the_circuit_by_hand(service: StockService) -> None:
    shop = Shop(service)
    await break_the_circuit(shop)
    service.is_down = False
    assert outcome((await shop.ask())[0]) == "CIRCUIT_OPEN"
    shop.circuit.reset()
    assert shop.heard() == [("circuit_closed", "manual")]
    assert outcome((await shop.ask())[0]) == "success"
    # The reset has cancelled the timer: no half-open state follows.
    shop.clock.advance(1_000.0)
    assert (str(shop.circuit.circuit_state), shop.heard()) == ("CLOSED", [])


async def test_where_only_a_person_closes_the_circuit_good_probes_do_not(service: StockService) -> None:
    settings = {name: getattr(POLICY, name) for name in POLICY.__dataclass_fields__}
    shop = Shop(service, BreakerPolicy(**{**settings, "recovery": "manual"}))
    await break_the_circuit(shop)
    service.is_down = False
    shop.clock.advance(30.0)
    assert [outcome((await shop.ask())[0]) for _ in range(2)] == ["success", "success"]
    assert outcome((await shop.ask())[0]) == "circuit_breaker_open"
    assert shop.heard() == [("circuit_half_open", "wait_over")]
    assert [str(event.kind) for event in shop.circuit.recent_events][-1] == "probes_passed"
    shop.circuit.reset()
    assert outcome((await shop.ask())[0]) == "success"


async def test_a_service_that_hangs_opens_the_circuit_and_its_late_answers_do_not_close_it(
    service: StockService,
) -> None:
    shop = Shop(service)
    service.hang()
    calls = [shop.engine.start(ToolCall("inventory_check", {"sku_id": "S", "warehouse": "beijing"})) for _ in range(4)]
    await until(lambda: service.requests == 4)
    shop.clock.advance(5.0)
    for each in calls:
        await each
        assert outcome(each) == "TIMEOUT"
    assert shop.engine.threads.abandoned == 4
    assert outcome((await shop.ask())[0]) == "CIRCUIT_OPEN"
    service.go_on()
    await until(lambda: shop.engine.threads.busy == 0)
    assert str(shop.circuit.circuit_state) == "OPEN"
    kinds = Counter(kind for kind, _ in shop.heard())
    assert kinds == {"tool_abandoned": 4, "circuit_opened": 1, "late_result": 4}


async def test_probes_that_hang_block_the_circuit_for_a_while_and_not_for_ever(service: StockService) -> None:
    shop = Shop(service)
    await break_the_circuit(shop)
    service.is_down = False
    shop.clock.advance(30.0)
    service.hang()
    asked_before = service.requests
    arguments = {"sku_id": "S", "warehouse": "beijing"}
    probes = [shop.engine.start(ToolCall("inventory_check", arguments)) for _ in range(2)]
    await until(lambda: service.requests == asked_before + 2)
    assert outcome((await shop.ask())[0]) == "CIRCUIT_OPEN"
    shop.clock.advance(5.0)
    for each in probes:
        assert outcome(await each) == "TIMEOUT"
    assert str(shop.circuit.circuit_state) == "OPEN"
    service.go_on()
    await until(lambda: shop.engine.threads.busy == 0)
    shop.clock.advance(30.0)
    assert [outcome((await shop.ask())[0]) for _ in range(3)] == ["success"] * 3


GUIDE = Path(__file__).resolve().parents[1] / "docs" / "resilience.md"


def test_every_snippet_of_the_guide_runs_and_prints_what_stands_below_it() -> None:
    assert_snippets_print_what_stands_below_them(GUIDE, more_than=8)
