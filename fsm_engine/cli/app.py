"""The commands of `fsm-engine`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from io import TextIOWrapper
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console

from .. import __version__
from ..engine.engine import ToolEngine
from ..engine.stream import CallStream
from ..invocation.invocation import ToolInvocation
from ..jsonable.strict import json_text
from .diagrams import add_commands as add_diagram_commands
from .display import Screen, screen_for, summary_line
from .health import add_commands as add_health_command
from .inputs import load_engine, read_calls
from .serve import add_commands as add_serve_command
from .watching import Decide, approve_all, ask, deny_all, watch

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run the tool calls of a language model, each as one run through a state machine.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fsm-engine {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # its callback does the work
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    for stream in (sys.stdout, sys.stderr):
        # Where an encoding lacks a sign, a question mark is shown instead of ending the program.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    # The screen says what happens; without a handler the standard library would print the engine's warnings into it.
    logging.getLogger("fsm_engine").addHandler(logging.NullHandler())


@app.command()
def run(
    calls: Annotated[
        str,
        typer.Argument(
            metavar="CALLS.json",
            help="A file with a JSON list of calls, or with an OpenAI chat message; - or none reads standard input.",
            show_default=False,
        ),
    ] = "-",
    *,
    tools: Annotated[
        list[str],
        typer.Option(
            "--tools",
            "-t",
            metavar="MODULE:NAME",
            help="Where the tools are: a list of tools, a function, a ToolSpec, a ToolRegistry or a ToolEngine, in a "
            "module that is installed or in this folder. May be repeated.",
            show_default=False,
        ),
    ],
    deadline: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0.001, help="How long each call may take, approval apart.", show_default=False
        ),
    ] = None,
    approve: Annotated[
        bool | None,
        typer.Option(
            "--approve/--deny",
            help="Approve, or deny, every call that needs approval. Without either you are asked; where nobody can be "
            "asked they are denied.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print a JSON line for each result, in call order, and nothing else on the output."
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show where in the code a tool failed.")] = False,
) -> None:
    """Run calls and show the states that each goes through.

    The exit status is 0 if every call has a result (a partial one will do), 1 if a call has failed, and 2 if something
    that was given cannot be used.

    Example: fsm-engine run calls.json --tools mytools:TOOLS
    """
    with _results_alone(as_json) as results:
        given = read_calls(calls)
        engine = load_engine(tools)
        console = Console(stderr=as_json, highlight=False)
        if as_json and not console.is_terminal:
            console.quiet = True
        can_ask = calls != "-" and sys.stdin.isatty()
        decider = _decider(approve, can_ask=can_ask)
        invocations = asyncio.run(_run(engine, given, console, decider, results=results, deadline=deadline))
        if not console.quiet:
            console.print(summary_line(invocations))
        if verbose:
            _show_details(invocations)
    if any(invocation.error is not None for invocation in invocations):
        raise typer.Exit(1)


@app.command()
def demo(
    pause: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.0, help="How long to wait after each act, for reading.")
    ] = 0.5,
) -> None:
    """Play an order desk: real tools on a real database and a service that fails, hangs and recovers.

    It takes about fifteen seconds and needs no network.
    """
    from ..demo.acts import play

    asyncio.run(play(Console(highlight=False), pause=pause))


add_diagram_commands(app)
add_health_command(app)
add_serve_command(app)


@contextlib.contextmanager
def _results_alone(wanted: bool) -> Iterator[TextIO | None]:
    """The standard output for results, if they are to be alone there: what tools print goes to standard error."""
    if not wanted:
        yield None
        return
    results = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        yield results


async def _run(
    engine: ToolEngine,
    calls: Sequence[Any],
    console: Console,
    decider: Callable[[Screen, Console], Decide],
    *,
    results: TextIO | None,
    deadline: float | None,
) -> list[ToolInvocation]:
    async with engine, screen_for(console, engine.clock.wall) as screen:
        run = engine.stream(calls, deadline=deadline)
        return await watch(run, screen, decider(screen, console), _writer(results))


def _decider(approve: bool | None, *, can_ask: bool) -> Callable[[Screen, Console], Decide]:
    if approve is None and can_ask:
        return lambda screen, console: ask(screen, lambda question: console.print(question, end=""), sys.stdin)
    if approve:
        return lambda *_: approve_all()
    nobody = "nobody could be asked; run it in a terminal, or give --approve"
    return lambda *_: deny_all(nobody if approve is None else "the command was given --deny")


def _writer(results: TextIO | None) -> Callable[[CallStream], None]:
    """Writes the results up to the first call that has not ended, each once: a slow call holds back what follows it."""
    written = 0

    def write(run: CallStream) -> None:
        nonlocal written
        while results is not None and written < len(run.invocations) and run.invocations[written].is_final:
            results.write(_result_line(run.invocations[written]))
            results.flush()
            written += 1

    return write


def _result_line(invocation: ToolInvocation) -> str:
    assert invocation.response is not None, "it has ended"
    return json_text({"id": invocation.id, "state": invocation.state, **invocation.response.to_dict()}) + "\n"


def _show_details(invocations: Sequence[ToolInvocation]) -> None:
    for invocation in invocations:
        if invocation.error is not None and invocation.attempts and invocation.error.detail:
            typer.echo(f"\n{invocation.tool_name} ({invocation.id})\n{invocation.error.detail}", err=True)
