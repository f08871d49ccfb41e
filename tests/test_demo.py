"""The demonstration plays to its end, on a real database and a real service, in no time at all."""

from __future__ import annotations

import asyncio
import io
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import anyio.to_thread
import pytest
from rich.console import Console
from typer.testing import CliRunner

from fsm_engine import ToolEngine, VirtualClock
from fsm_engine.cli.app import app
from fsm_engine.demo import OrderDesk, ShopService, create_database
from fsm_engine.demo import acts as play
from fsm_engine.providers.openai_chat import calls_from_message


class Backstage:
    """Knows what the demonstration waits for: threads at work, requests without an answer, or time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = VirtualClock()
        self._requests = self._given_up = 0
        self._services: list[ShopService] = []
        self._engines: list[ToolEngine] = []
        backstage, run_sync = self, anyio.to_thread.run_sync

        class KnownService(ShopService):
            def __enter__(self) -> Self:
                backstage._services.append(self)
                return super().__enter__()

        class KnownEngine(ToolEngine):
            async def __aenter__(self) -> Self:
                backstage._engines.append(self)
                return await super().__aenter__()

        async def counted(*args: Any, **settings: Any) -> Any:
            self._requests += 1
            try:
                return await run_sync(*args, **settings)
            except asyncio.CancelledError:
                self._given_up += 1
                raise
            finally:
                self._requests -= 1

        monkeypatch.setattr(anyio.to_thread, "run_sync", counted)
        monkeypatch.setattr(play, "ShopService", KnownService)
        monkeypatch.setattr(play, "ToolEngine", KnownEngine)

    async def let_time_fly(self) -> None:
        """Move the clock to the next timer whenever only time can help: it stands still while a thread works."""
        while True:
            was_idle = self._only_time_can_help()
            for _ in range(30):  # whoever can go on without time does so first
                await asyncio.sleep(0)
            if was_idle and self._only_time_can_help() and self.clock.next_timer is not None:
                self.clock.advance(max(0.0, self.clock.next_timer - self.clock.monotonic()))

    def _only_time_can_help(self) -> bool:
        hanging = sum(service.hanging for service in self._services)
        if not hanging:
            self._given_up = 0
        is_thread_working = any(
            invocation.spec is not None
            and invocation.spec.runs_in_thread
            and invocation.attempt is not None
            and not invocation.attempt.is_over
            for engine in self._engines
            for invocation in engine.running
        )
        return not is_thread_working and (not self._requests or self._requests <= hanging - self._given_up)


async def test_command_plays_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    real_play = play.play

    async def play_in_no_time(console: Console, *, pause: float) -> None:
        backstage = Backstage(monkeypatch)
        flying = asyncio.create_task(backstage.let_time_fly())
        await real_play(console, pause=pause, clock=backstage.clock)
        flying.cancel()

    monkeypatch.setattr(play, "play", play_in_no_time)
    done = await asyncio.to_thread(CliRunner().invoke, app, ["demo", "--pause", "0"])
    assert done.exit_code == 0, done.output
    assert "23 calls" in done.stdout


async def played(
    console: Console, monkeypatch: pytest.MonkeyPatch, pause: float = 1.0
) -> tuple[list[dict[str, Any]], float]:
    """The conversation that the demonstration leaves, and how long it took in virtual seconds."""
    backstage = Backstage(monkeypatch)
    flying = asyncio.create_task(backstage.let_time_fly())
    try:
        return await play.play(console, pause=pause, clock=backstage.clock), backstage.clock.monotonic()
    finally:
        flying.cancel()


OUTCOMES = {
    "order_status": ["Chen Mei"],
    "search_web": ["at least 3 characters", "Broken hinge"],
    "calculator": ["649", "Reason: rounded.\n3.318946921e+622"],
    "inventory_check": [
        '"quantity":14',
        "must be one of: beijing, shanghai or guangzhou",
        '"quantity":3',
        "Error TIMEOUT",
        "Error API_ERROR",
        "Reason: circuit_breaker_open",
        "Error CIRCUIT_OPEN",
        '"quantity":14',
        "Reason: circuit_breaker_open",
    ],
    "stock_check": ["Did you mean inventory_check?"],
    "order_report": ['"south":1947.0'],
    "send_sms": ["a word that is not allowed", '"sent":true'],
    "transfer": ["at least 100 yuan", "It is unknown whether the call took effect", "Error APPROVAL_DENIED"],
    "statement": ["the offset from UTC is missing", '"recipient":"Chen Mei","yuan":1298.0'],
}


async def test_demo_shows_every_behaviour(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    history, seconds = await played(Console(file=text, width=100), monkeypatch)
    shown = text.getvalue()
    assert seconds < 30
    for piece in (
        "search_web       VALIDATING\n",
        "RETRYING           in 400 ms",
        "EXECUTING          attempt 3",
        "FALLING_BACK       circuit_breaker_open",
        "AWAITING_APPROVAL",
        "EXECUTING          50% east: 649 yuan",
        "Ms Lin (scripted) approves transfer",
        "Ms Lin (scripted) denies transfer",
        "alert circuit opened: inventory_check@1",
        "alert circuit half open: inventory_check@1",
        "alert circuit closed: inventory_check@1",
        "TIMEOUT",
        "23 calls: 12 completed, 11 failed",
    ):
        assert piece in shown, piece
    answers: dict[str, list[str]] = {name: [] for name in OUTCOMES}
    contents = {message["tool_call_id"]: message["content"] for message in history if message["role"] == "tool"}
    for message in history:
        for call in calls_from_message(message):
            answers[call.name].append(contents[call.id])
    for name, pieces in OUTCOMES.items():
        for piece, answer in zip(pieces, answers[name], strict=True):
            assert piece in answer, (name, answer)


async def test_conversation_that_the_demo_leaves_answers_every_call_once(monkeypatch: pytest.MonkeyPatch) -> None:
    history, _ = await played(Console(file=io.StringIO(), width=100), monkeypatch, pause=0.0)
    asked = [call.id for message in history for call in calls_from_message(message)]
    answered = [message["tool_call_id"] for message in history if message["role"] == "tool"]
    assert asked == answered
    assert len(set(asked)) == len(asked)
    json.dumps(history, allow_nan=False)


async def test_demo_in_a_terminal_shows_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    console = Console(
        file=text, width=90, height=60, force_terminal=True, color_system="truecolor", legacy_windows=False
    )
    await played(console, monkeypatch)
    shown = text.getvalue()
    for piece in ("✔", "◐", "✘", "attempt\N{NO-BREAK SPACE}3", "Ms Lin (scripted)", "circuit closed", "23 calls"):
        assert piece in shown, piece


def test_every_message_with_calls_has_its_act() -> None:
    with_calls = [message for message in play.recorded_messages() if message.get("tool_calls")]
    assert len(with_calls) == len(play.ACTS)


def test_recorded_conversation_has_the_form_of_openai() -> None:
    messages = play.recorded_messages()
    assert [message["role"] for message in messages[:2]] == ["system", "user"]
    for message in messages:
        for call in message.get("tool_calls", []):
            assert call["type"] == "function"
            assert isinstance(json.loads(call["function"]["arguments"]), dict)


# -- the service -------------------------------------------------------------------------------------------------------


@contextmanager
def running(folder: Path) -> Iterator[ShopService]:
    create_database(folder / "shop.db")
    with ShopService(folder / "shop.db") as service:
        yield service


def status_of(url: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_service_fails_as_often_as_told_and_recovers(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        url = f"{service.url}/stock/beijing/SKU-200"
        service.fail("/stock/beijing", times=2, status=500)
        assert [status_of(url) for _ in range(3)] == [500, 500, 200]
        service.fail("/stock")
        assert [status_of(url) for _ in range(3)] == [503, 503, 503]
        service.recover()
        assert status_of(url) == 200
        assert status_of(f"{service.url}/stock/beijing/SKU-999") == 404


def test_bank_can_fail_too(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        service.fail("/payments", times=1)
        desk = OrderDesk(service.database, service.url)
        with pytest.raises(urllib.error.HTTPError, match="503") as raised:
            asyncio.run(desk.transfer(100.0, "x"))
        raised.value.close()
        assert asyncio.run(desk.transfer(100.0, "x")) == {"payment": 4}


def test_order_that_does_not_exist(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        desk = OrderDesk(service.database, service.url)
        with pytest.raises(Exception, match="NOT_FOUND"):
            desk.order_status(1)
