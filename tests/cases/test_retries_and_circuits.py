"""Public bug reports about retries, idempotency and circuit breakers, turned into tests.

=====  =============================================================================================
row    test
=====  =============================================================================================
68     test_case_068_what_is_retried_is_judged_by_the_exception_that_the_tool_raised
69     test_case_069_a_tool_that_fails_after_acting_is_called_once_and_in_one_way
70     test_case_070_as_many_runs_as_attempts_and_no_more
71     test_case_071_only_what_may_pass_is_run_again_and_only_where_that_does_no_harm
75     test_case_075_a_status_has_one_meaning_with_or_without_headers
78     test_case_078_a_probe_that_decides_nothing_gives_its_place_back
79     test_case_079_a_probe_that_never_ends_does_not_hold_the_circuit_half_open_for_ever
80     test_case_080_threads_that_come_when_the_wait_is_over_move_the_circuit_once
82     test_case_082_of_callers_in_the_same_instant_one_is_the_probe
83     test_case_083_retries_pass_through_the_same_door_as_first_attempts
83     test_case_083_a_cancelled_call_is_no_failure
84     test_case_084_results_that_do_not_fit_their_schema_open_no_circuit
84     test_case_084_a_circuit_is_its_tools_own
85     test_case_085_a_refusal_is_an_error_that_says_when_to_come_back
=====  =============================================================================================
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from tenacity import wait_fixed

from fsm_engine import (
    RetryPolicy,
    ToolCall,
    ToolEngine,
    ToolError,
    ToolInvocation,
    ToolResponse,
    ToolSpec,
    VirtualClock,
    tool,
)
from fsm_engine.breaker import BreakerPolicy, CircuitBreaker, CircuitState

from ..support import idle, now, play, until, virtual

TWICE = RetryPolicy(max_retries=2, wait=wait_fixed(1.0))


class Script:
    """A tool that does what it is told, one outcome a run: an exception is raised, all else is returned."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.runs = 0

    async def act(self) -> Any:
        self.runs += 1
        outcome = self.outcomes.pop(0) if self.outcomes else "done"
        if isinstance(outcome, BaseException):
            raise outcome
        return await outcome if isinstance(outcome, asyncio.Future) else outcome


def scripted(*outcomes: Any, **settings: Any) -> tuple[Script, ToolEngine]:
    script = Script(*outcomes)
    return script, virtual(ToolSpec(name="act", func=script.act, **settings))


async def act(engine: ToolEngine) -> ToolInvocation:
    return await play(engine, engine.execute_tool_call(ToolCall("act")))


def codes(invocation: ToolInvocation) -> list[str | None]:
    return [attempt.code for attempt in invocation.attempts]


async def test_case_068_what_is_retried_is_judged_by_the_exception_that_the_tool_raised() -> None:
    script, engine = scripted(ConnectionError("reset"), ConnectionError("reset"), "in", retry=TWICE, idempotent=True)
    invocation = await act(engine)
    assert invocation.result == "in"
    assert script.runs == 3
    assert codes(invocation) == ["NETWORK_ERROR", "NETWORK_ERROR", None]
    assert now(engine) == 2.0


async def test_case_068_an_exception_in_a_group_of_one_is_judged_as_itself() -> None:
    wrapped = BaseExceptionGroup("a task group's", [ConnectionError("reset")])
    script, engine = scripted(wrapped, "in", retry=TWICE, idempotent=True)
    assert (await act(engine)).result == "in"
    assert script.runs == 2


@pytest.mark.parametrize("error", [TypeError("act() takes 0 positional arguments but 1 was given"), ValueError("no")])
async def test_case_069_a_tool_that_fails_after_acting_is_called_once_and_in_one_way(error: Exception) -> None:
    acted: list[Any] = []

    async def send(payload: dict[str, int]) -> None:
        acted.append(payload)
        raise error

    engine = virtual(tool(retry=TWICE, idempotent=True)(send))
    invocation = await play(engine, engine.execute_tool_call(ToolCall("send", {"payload": {"a": 1}})))
    assert acted == [{"a": 1}]
    assert codes(invocation) == ["EXECUTION_ERROR"]


async def test_case_070_as_many_runs_as_attempts_and_no_more() -> None:
    errors = [ConnectionError("reset") for _ in range(9)]
    script, engine = scripted(*errors, retry=TWICE, idempotent=True)
    invocation = await act(engine)
    assert invocation.response is not None
    assert (script.runs, len(invocation.attempts), invocation.response.stats["attempts"]) == (3, 3, 3)
    assert [attempt.number for attempt in invocation.attempts] == [1, 2, 3]
    assert invocation.path.count("EXECUTING") == 3


@pytest.mark.parametrize(
    ("error", "marks", "runs"),
    [
        (ConnectionError("reset"), {"idempotent": True}, 3),
        (ConnectionError("reset"), {"read_only": True}, 3),
        (ConnectionError("reset"), {}, 1),
        (ToolError("NETWORK_ERROR", "refused", effect="none"), {}, 3),  # type: ignore[arg-type]  # as a careless tool says it
        (ToolError("INVALID_PARAM", "bad"), {"idempotent": True}, 1),
        (ToolError("NOT_FOUND", "gone"), {"idempotent": True}, 1),
        (RuntimeError("bug"), {"idempotent": True}, 1),
        (ToolError("SOLD_OUT", "no more"), {"idempotent": True}, 1),
    ],
)
async def test_case_071_only_what_may_pass_is_run_again_and_only_where_that_does_no_harm(
    error: Exception, marks: dict[str, Any], runs: int
) -> None:
    script, engine = scripted(error, error, error, retry=TWICE, **marks)
    await act(engine)
    assert script.runs == runs


class Upstream:
    """A real server on the loopback interface that answers with the statuses it is told, then with 200."""

    def __init__(self) -> None:
        self.statuses: list[tuple[int, dict[str, str]]] = []
        self.asked = 0
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                upstream.asked += 1
                status, headers = upstream.statuses.pop(0) if upstream.statuses else (200, {})
                body = b"late" if status == 200 else b"no"
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
                """Nothing on standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("status", "headers", "code", "waited"),
    [
        (503, {}, "API_ERROR", 1.0),
        (503, {"Retry-After": "7"}, "API_ERROR", 7.0),
        (502, {}, "API_ERROR", 1.0),
        (429, {}, "RATE_LIMIT", 1.0),
        (429, {"Retry-After": "5"}, "RATE_LIMIT", 5.0),
        (400, {"Retry-After": "5"}, "API_ERROR", None),
        (401, {}, "ACCESS_DENIED", None),
        (403, {}, "PERMISSION_DENIED", None),
        (404, {}, "NOT_FOUND", None),
        (409, {}, "CONFLICT", None),
    ],
)
async def test_case_075_a_status_has_one_meaning_with_or_without_headers(
    upstream: Upstream, status: int, headers: dict[str, str], code: str, waited: float | None
) -> None:
    upstream.statuses = [(status, headers)]

    def ask() -> str:
        with httpx.Client(trust_env=False) as client:
            return client.get(upstream.url).raise_for_status().text

    engine = virtual(tool(retry=TWICE, read_only=True)(ask))
    invocation = engine.start(ToolCall("ask"))
    await until(lambda: invocation.is_final or invocation.state == "RETRYING")
    assert invocation.attempts[0].code == code
    if waited is None:
        assert invocation.state == "FAILED"
        assert upstream.asked == 1
    else:
        await idle()
        assert isinstance(engine.clock, VirtualClock)
        assert engine.clock.next_timer == waited
        engine.clock.advance(waited)
        assert (await invocation).result == "late"
        assert upstream.asked == 2


THREE = BreakerPolicy.consecutive(3, wait=60.0)
DOWN = [ConnectionError("down") for _ in range(3)]


async def opened(
    *then: Any, policy: BreakerPolicy = THREE, **settings: Any
) -> tuple[Script, ToolEngine, CircuitBreaker]:
    """A tool whose circuit three failures have opened, after its wait: the next call is a probe."""
    script, engine = scripted(*DOWN, *then, breaker=policy, **settings)
    for _ in DOWN:
        await act(engine)
    breaker = engine.circuits["act@1"]
    assert breaker.circuit_state == CircuitState.OPEN
    assert isinstance(engine.clock, VirtualClock)
    engine.clock.advance(60.0)
    assert breaker.circuit_state == CircuitState.HALF_OPEN
    return script, engine, breaker


@pytest.mark.parametrize(
    "how", ["an ignored error", "a cancellation", "arguments that are not valid", "an output that does not fit"]
)
async def test_case_078_a_probe_that_decides_nothing_gives_its_place_back(how: str) -> None:
    waits: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    outcome: Any = {"an ignored error": ToolError("NOT_FOUND", "no such row"), "a cancellation": waits}.get(how, 5)
    schema = {"type": "string"} if how == "an output that does not fit" else None
    first = () if how == "arguments that are not valid" else (outcome,)
    _, engine, breaker = await opened(*first, output_schema=schema)
    arguments = {"x": 1} if how == "arguments that are not valid" else {}
    probe = engine.start(ToolCall("act", arguments))
    await idle()
    if how == "a cancellation":
        assert probe.cancel()
    await probe
    assert not probe.is_final or probe.state in ("FAILED", "CANCELLED")
    assert breaker.circuit_state == CircuitState.HALF_OPEN
    assert (await act(engine)).result == "done", "the place is free for another probe"
    assert breaker.circuit_state == CircuitState.CLOSED


async def test_case_079_a_probe_that_never_ends_does_not_hold_the_circuit_half_open_for_ever() -> None:
    hangs: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    policy = BreakerPolicy.consecutive(3, wait=60.0, max_wait_duration_in_half_open=30.0)
    _, engine, breaker = await opened(hangs, policy=policy, timeout=None)
    probe = engine.start(ToolCall("act"))
    await idle()
    assert (await engine.invoke("act")).error_info is not None, "the only place is taken"
    engine.clock.advance(30.0)  # type: ignore[attr-defined]  # it is a VirtualClock
    assert breaker.circuit_state == CircuitState.OPEN
    engine.clock.advance(60.0)  # type: ignore[attr-defined]  # it is a VirtualClock
    assert (await act(engine)).result == "done"
    assert breaker.circuit_state == CircuitState.CLOSED
    probe.cancel()
    await probe
    assert breaker.circuit_state == CircuitState.CLOSED, "the lost probe says nothing of this state"


def test_case_080_threads_that_come_when_the_wait_is_over_move_the_circuit_once() -> None:
    policy = BreakerPolicy.consecutive(1, wait=60.0, automatic_transition_from_open_to_half_open=False)
    for _ in range(50):
        clock = VirtualClock()
        breaker = CircuitBreaker(policy, name="t", clock=clock)
        moves: list[Any] = []
        breaker.on_event(lambda event, moves=moves: moves.append(event))
        first = breaker.try_acquire()
        assert first is not None
        first.failure(ConnectionError(), 0.1)
        clock.advance(60.1)  # without a timer the wait must be over, not only up
        moves.clear()
        start, got = threading.Barrier(4), []

        def ask(start: threading.Barrier = start, got: list[Any] = got, breaker: CircuitBreaker = breaker) -> None:
            start.wait(30)
            got.append(breaker.try_acquire())

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(permit is not None for permit in got) == 1
        assert [move.kind for move in moves if move.kind == "state_changed"] == ["state_changed"]
        assert breaker.circuit_state == CircuitState.HALF_OPEN


async def test_case_082_of_callers_in_the_same_instant_one_is_the_probe() -> None:
    hangs: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    script, engine, breaker = await opened(hangs)
    before = script.runs
    calls = [engine.start(ToolCall("act")) for _ in range(2)]
    await idle()
    assert script.runs == before + 1
    hangs.set_result("well")
    probe, refused = [await call for call in calls]
    assert probe.result == "well"
    assert refused.error is not None
    assert refused.error.code == "CIRCUIT_OPEN"
    assert breaker.circuit_state == CircuitState.CLOSED


async def test_case_083_retries_pass_through_the_same_door_as_first_attempts() -> None:
    """A probe that fails opens the circuit again, so that its retry is not made, whatever retries are left."""
    script, engine, breaker = await opened(ConnectionError("down"), retry=TWICE, idempotent=True, policy=THREE)
    runs = script.runs
    invocation = await act(engine)
    assert script.runs == runs + 1
    assert codes(invocation) == ["NETWORK_ERROR"]
    assert breaker.circuit_state == CircuitState.OPEN


async def test_case_083_the_attempts_of_one_call_are_counted_one_by_one_and_stop_when_the_circuit_opens() -> None:
    script, engine = scripted(*DOWN, ConnectionError("down"), breaker=THREE, max_retries=9, idempotent=True)
    invocation = await act(engine)
    assert script.runs == 3
    assert invocation.error is not None
    assert invocation.error.code == "NETWORK_ERROR", "the last real error says more than the open circuit"


async def test_case_083_a_cancelled_call_is_no_failure() -> None:
    loop = asyncio.get_running_loop()
    _, engine = scripted(*(loop.create_future() for _ in range(3)), breaker=THREE)
    for _ in range(3):
        invocation = engine.start(ToolCall("act"))
        await idle()
        invocation.cancel()
        await invocation
    assert engine.circuits["act@1"].circuit_state == CircuitState.CLOSED
    assert engine.circuits["act@1"].metrics().failed == 0


async def test_case_084_results_that_do_not_fit_their_schema_open_no_circuit() -> None:
    _, engine = scripted(1, 2, 3, "fits", breaker=THREE, output_schema={"type": "string"})
    for _ in range(3):
        invocation = await act(engine)
        assert invocation.error is not None
        assert (invocation.error.code, invocation.error.reason) == ("EXECUTION_ERROR", "output_schema")
        assert not invocation.error.counts
    assert engine.circuits["act@1"].metrics().failed == 0
    assert (await act(engine)).result == "fits"


async def test_case_084_a_circuit_is_its_tools_own() -> None:
    sick, well = Script(*DOWN), Script()
    engine = virtual(
        ToolSpec(name="sick", func=sick.act, breaker=THREE), ToolSpec(name="well", func=well.act, breaker=THREE)
    )
    for _ in DOWN:
        await engine.invoke("sick")
    responses = [await engine.invoke(name) for name in ("sick", "well")]
    assert [response.error_info and response.error_info.code for response in responses] == ["CIRCUIT_OPEN", None]


async def test_case_085_a_refusal_is_an_error_that_says_when_to_come_back() -> None:
    script, engine = scripted(*DOWN, breaker=THREE)
    for _ in DOWN:
        await act(engine)
    engine.clock.advance(15.0)  # type: ignore[attr-defined]  # it is a VirtualClock
    invocation = await act(engine)
    assert script.runs == 3, "nothing was called"
    assert invocation.path[-2:] == ("ADMITTING", "FAILED")
    response = invocation.response
    assert response is not None
    assert response.status == "error"
    assert response.error_info is not None
    assert (response.error_info.code, response.error_info.effect) == ("CIRCUIT_OPEN", "none")
    assert response.error_info.retry_after == pytest.approx(45.0)
    assert ToolResponse.from_dict(response.to_dict()) == response
