"""Plays the recorded conversation against the order desk, before the eyes of whoever sits at the terminal."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..cli.display import screen_for, summary_line, summary_table
from ..cli.watching import Decide, watch
from ..clock import Clock, SystemClock
from ..engine.alerts import Alert
from ..engine.engine import ToolEngine
from ..invocation.invocation import ToolInvocation
from ..jsonable.strict import JsonValue
from ..providers.openai_chat import calls_from_message, history_message, response_to_message
from .database import create_database
from .desk import CIRCUIT_WAIT, OrderDesk
from .service import ShopService

THINKING_SECONDS = 1.0
"""How long the scripted person looks at a request."""

APPROVED_UP_TO = 2_000
"""Yuan that she lets the model pay."""


@dataclass(frozen=True)
class Act:
    """What surrounds the calls of one assistant message.

    Args:
        title: what it shows.
        trouble: what is done to the service before; without it the service is well.
        told: the same in words.
        wait: seconds to let pass before the calls.
    """

    title: str
    trouble: Callable[[ShopService], None] | None = None
    told: str = ""
    wait: float = 0.0


ACTS = (
    Act("A call with wrong arguments never reaches its tool"),
    Act("The model corrects itself; a partial result says why it is one"),
    Act(
        "A service that fails is asked again; a wrong warehouse never is",
        lambda service: service.fail("/stock/beijing", times=2),
        "Beijing's stock system will answer 503 twice, then recover.",
    ),
    Act(
        "Four calls at once: one is good, one hangs, one is unknown, one is long",
        lambda service: service.hang("/stock/guangzhou"),
        "Guangzhou's stock system accepts connections and never answers.",
    ),
    Act(
        "The fifth failure in a row opens the circuit, and ends the retries",
        lambda service: service.fail("/stock"),
        "The stock system is down: 503 for everybody.",
    ),
    Act(
        "While it is open nobody is asked; the last good answer stands in",
        lambda service: service.fail("/stock"),
        "It is still down, but no request reaches it.",
    ),
    Act(
        "After the wait one probe may try; it is good, so the circuit closes",
        told=f"The stock system is well again. The circuit stays open for {CIRCUIT_WAIT:g} seconds in all.",
        wait=CIRCUIT_WAIT,
    ),
    Act("Business rules: each says what is wrong, all at once"),
    Act(
        "A person decides; what may have happened is not tried again",
        lambda service: service.hang("/payments"),
        "The bank will take the money and then fall silent.",
    ),
    Act("A moment without its offset from UTC is no moment"),
    Act("Now it is one"),
)


def recorded_messages() -> list[dict[str, Any]]:
    """The conversation, in the form of OpenAI's chat completions."""
    text = Path(__file__).with_name("conversation.json").read_text(encoding="utf-8")
    messages: list[dict[str, Any]] = json.loads(text)["messages"]
    return messages


async def play(console: Console, *, pause: float = 0.0, clock: Clock | None = None) -> list[dict[str, JsonValue]]:
    """Play it all, and answer with the conversation as it could be sent back to the model.

    Args:
        console: where it is shown.
        pause: seconds between the acts.
        clock: what the engine, the tools and the pauses are timed by.
    """
    clock = clock or SystemClock()
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        database = Path(folder, "shop.db")
        create_database(database)
        with ShopService(database) as service:
            desk = OrderDesk(database, service.url, clock)
            async with ToolEngine(desk.tools(), clock=clock) as engine:
                return await _Stage(console, engine, service, clock, pause).play()


class _Stage:
    def __init__(self, console: Console, engine: ToolEngine, service: ShopService, clock: Clock, pause: float) -> None:
        self._console = console
        self._engine = engine
        self._service = service
        self._clock = clock
        self._pause = pause
        self._history: list[dict[str, JsonValue]] = []
        self._done: list[ToolInvocation] = []

    async def play(self) -> list[dict[str, JsonValue]]:
        self._engine.on_alert(self._ring)
        began = self._clock.monotonic()
        self._console.print(
            Text.assemble(
                ("fsm_engine", "bold"),
                f": {len(self._engine.registry)} tools, a database of orders, and a shop's services at {self._service.url}",
            ),
            soft_wrap=True,
        )
        acts = iter(ACTS)
        for message in recorded_messages():
            if message["role"] != "assistant":
                self._speak(message["role"], message["content"])
                self._history.append(message)
            elif "tool_calls" in message:
                await self._perform(next(acts), message)
            else:
                self._console.rule(style="bright_black")
                self._speak("model", message["content"])
                self._history.append(message)
        self._console.print(summary_table(self._done))
        seconds = self._clock.monotonic() - began
        self._console.print(summary_line(self._done).append(f", in {seconds:.1f} s", "default"))
        return self._history

    async def _perform(self, act: Act, message: dict[str, Any]) -> None:
        console = self._console
        console.print()
        console.rule(Text(act.title, style="bold"), align="left", style="bright_black")
        self._speak("model", message["content"])
        self._service.recover()
        if act.trouble is not None:
            act.trouble(self._service)
        if act.told:
            self._speak("stage", act.told)
        console.print()
        await self._clock.sleep(act.wait)
        async with screen_for(console, self._clock.wall) as screen:
            run = self._engine.stream(calls_from_message(message))
            self._remember(message, await watch(run, screen, self._scripted_person()))
        await self._clock.sleep(self._pause)

    def _scripted_person(self) -> Decide:
        one_at_a_time = asyncio.Lock()

        async def decide(invocation: ToolInvocation, arguments: str) -> None:
            async with one_at_a_time:
                await self._clock.sleep(THINKING_SECONDS)
            amount = (invocation.arguments or {})["amount"]
            if amount <= APPROVED_UP_TO:
                invocation.approve()
                verdict = ("approves", "bold green")
            else:
                invocation.deny(f"more than {APPROVED_UP_TO:,} yuan needs a written order")
                verdict = ("denies", "bold red")
            said = Text.assemble(
                ("  Ms Lin (scripted) ", "bold yellow"), verdict, f" {invocation.tool_name} {arguments}"
            )
            self._console.print(said)

        return decide

    def _ring(self, alert: Alert) -> None:
        whose = f"{alert.tool}@{alert.version}" if alert.tool else alert.group
        what = f"{alert.kind.replace('_', ' ')}: {whose} ({alert.reason})"
        self._console.print(Text.assemble(("  alert ", "bold magenta"), what))

    def _remember(self, message: dict[str, Any], invocations: Sequence[ToolInvocation]) -> None:
        self._history.append(history_message(message, invocations).message)
        self._history.extend(map(response_to_message, invocations))
        self._done.extend(invocations)

    def _speak(self, who: str, text: str) -> None:
        style = {"model": "bold cyan", "user": "bold", "stage": "italic magenta"}.get(who, "bright_black")
        line = Table.grid(padding=(0, 1))
        line.add_row(
            Text(f" {who:<6}", style=style), Text(text, style=style if who in {"stage", "system"} else "default")
        )
        self._console.print(line)
