"""The commands `diagram`, `table` and `check`: lifecycles on the command line.

`add_commands(app)` gives them to a typer application.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from ..diagram.diagrams import FORMATS, Diagram, invocation_diagram, lifecycle_diagram
from ..diagram.folder import check_all, render_all
from ..diagram.lookup import BUILT_IN, find_lifecycle
from ..errors.exceptions import ConfigurationError
from ..machine.lifecycle import Lifecycle
from ..machine.soundness import check_lifecycle
from ..states.invocation import INVOCATION
from .inputs import load_engine

_Target = Annotated[
    str, typer.Argument(metavar="LIFECYCLE", help=f"{', '.join(BUILT_IN)}, or module:name of a Lifecycle of yours.")
]
_Folder = Annotated[Path, typer.Option(help="The folder of --all and --check.")]


def add_commands(app: typer.Typer) -> None:
    """Add `diagram`, `table` and `check` to an application."""
    app.command()(diagram)
    app.command()(table)
    app.command()(check)


def diagram(
    lifecycle: _Target = INVOCATION.name,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, not to the screen.")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help=f"{', '.join(FORMATS)}; else by the file's name, else mermaid.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Draw the way of one invocation: a file made of trace_of().")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Render the built-in lifecycles into the folder.")] = False,
    check_: Annotated[bool, typer.Option("--check", help="Say which files of the folder are not current.")] = False,
    folder: _Folder = Path("diagrams"),
) -> None:
    """Draw a lifecycle, or the way that one invocation took through it."""
    try:
        if all_:
            for file in render_all(folder):
                typer.echo(file)
        elif check_:
            _say_what_is_stale(folder)
        else:
            found = _find(lifecycle)
            drawn = lifecycle_diagram(found) if trace is None else invocation_diagram(trace.read_bytes(), found)
            _write(drawn, output, form)
    except FileNotFoundError as error:
        _give_up(f"there is no {error.filename}; make the folder first, or name another file")
    except (ConfigurationError, OSError) as error:
        _give_up(str(error))


def table(lifecycle: _Target = INVOCATION.name) -> None:
    """Write out every move of a lifecycle, in words and as a table."""
    typer.echo(lifecycle_diagram(_find(lifecycle)).to_table(), nl=False)


def check(
    lifecycles: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LIFECYCLE]...", help="As for diagram; the built-in ones if none is named."),
    ] = None,
    *,
    strict: Annotated[bool, typer.Option(help="Warnings are a reason to fail, too.")] = False,
    tools: Annotated[
        list[str] | None,
        typer.Option(
            "--tools",
            "-t",
            metavar="MODULE:NAME",
            help="Tools, as for run: say of each circuit what it takes to open. May be repeated.",
        ),
    ] = None,
) -> None:
    """Check lifecycles for what never happens, never decides, or cannot end. Exit status 1: something is wrong."""
    reports = [check_lifecycle(_find(name)) for name in lifecycles or BUILT_IN]
    typer.echo("\n\n".join(map(str, reports)))
    for line in _circuits_of(tools or []):
        typer.echo(line)
    if any(report.exit_status or (strict and report.warnings) for report in reports):
        raise typer.Exit(1)


def _circuits_of(tools: list[str]) -> list[str]:
    if not tools:
        return []
    circuits = {spec.breaker_scope: spec.breaker for spec in load_engine(tools).registry if spec.breaker is not None}
    lines = [f"circuit {scope} opens {policy.opens}" for scope, policy in circuits.items()]
    return ["", *(lines or ["no tool has a circuit"])]


def _say_what_is_stale(folder: Path) -> None:
    stale = check_all(folder)
    for line in stale:
        typer.echo(line)
    if stale:
        _give_up("run fsm-engine diagram --all and remove what belongs to no lifecycle", 1)


def _write(drawn: Diagram, output: Path | None, form: str | None) -> None:
    if output is not None and form is None:
        drawn.save(output)
        return
    made = drawn.render(form or "mermaid")
    if output is not None:
        output.write_bytes(made.encode() if isinstance(made, str) else made)
    elif isinstance(made, str):
        typer.echo(made, nl=False)
    else:
        _give_up("a PNG image is nothing for the screen; name a file with -o")


def _find(target: str) -> Lifecycle:
    try:
        return find_lifecycle(target)
    except ConfigurationError as error:
        _give_up(str(error))


def _give_up(why: str, status: int = 2) -> NoReturn:
    """2: something that was given cannot be used; 1: what was looked at is not as it should be."""
    typer.echo(why, err=True)
    raise typer.Exit(status)
