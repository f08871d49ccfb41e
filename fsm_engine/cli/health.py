"""The command `health`: are the tools well?

`add_commands(app)` gives it to a typer application.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..engine.engine import ToolEngine
from ..engine.health import HealthReport, HealthStatus, ToolHealth
from .board import one_line
from .inputs import load_engine

_STYLES = {HealthStatus.HEALTHY: "bold green", HealthStatus.FAILING: "bold red", HealthStatus.SKIPPED: "bright_black"}


def add_commands(app: typer.Typer) -> None:
    """Add `health` to an application."""
    app.command()(health)


def health(
    tools: Annotated[
        list[str],
        typer.Option(
            "--tools",
            "-t",
            metavar="MODULE:NAME",
            help="Where the tools are, as for run. May be repeated.",
            show_default=False,
        ),
    ],
    *,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.001, help="How long each tool may take to answer.")
    ] = 5.0,
    include_writing: Annotated[
        bool,
        typer.Option("--include-writing", help="Also make the sample calls of tools that are not marked read-only."),
    ] = False,
) -> None:
    """Ask every tool how it is, all at once, by its own probe or sample call.

    The exit status is 0 if no tool that was asked is failing, 1 if one is, and 2 if something that was given cannot be
    used.

    Example: fsm-engine health --tools mytools:TOOLS --timeout 2
    """
    report = asyncio.run(_check(load_engine(tools), timeout, include_writing=include_writing))
    console = Console(highlight=False)
    console.print(health_table(report))
    for line in circuit_lines(report):
        console.print(line)
    console.print(_summary(report))
    if not report.is_healthy:
        raise typer.Exit(1)


async def _check(engine: ToolEngine, timeout: float, *, include_writing: bool) -> HealthReport:
    async with engine:
        return await engine.health_check(timeout, include_writing=include_writing)


def health_table(report: HealthReport) -> Table:
    """A row for each tool: how it is, how long its probe took, its circuit, and what is wrong."""
    table = Table(box=None, pad_edge=False)
    for heading in ("tool", "version", "health"):
        table.add_column(heading, no_wrap=True)
    table.add_column("took", justify="right", no_wrap=True)
    table.add_column("circuit", no_wrap=True)
    table.add_column("why", overflow="fold")
    for tool in report.tools:
        table.add_row(*_cells(tool))
    return table


def circuit_lines(report: HealthReport) -> list[str]:
    """What it takes to open each circuit, as nobody wants to find out by a failure."""
    return [f"the circuit of {tool.tool} opens {tool.circuit_opens}" for tool in report.tools if tool.circuit_opens]


def _cells(tool: ToolHealth) -> tuple[Text, ...]:
    took = "" if tool.latency_ms is None else f"{tool.latency_ms:.0f} ms"
    why = ": ".join(part for part in (tool.code, one_line(tool.message)) if part)
    status = Text(tool.status.value, style=_STYLES[tool.status])
    return Text(tool.tool), Text(one_line(tool.version)), status, Text(took), Text(tool.circuit or "-"), Text(why)


def _summary(report: HealthReport) -> str:
    counts = ((status, sum(tool.status is status for tool in report.tools)) for status in HealthStatus)
    parts = [f"{count} {status.value}" for status, count in counts if count]
    number = len(report.tools)
    return f"{number} tool{'' if number == 1 else 's'}: {', '.join(parts) or 'none to ask'}"
