"""The command `serve`: the live page, and the routes behind it.

`add_commands(app)` gives it to a typer application.
"""

from __future__ import annotations

import asyncio
import importlib.util
import ipaddress
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .inputs import load_engine

if TYPE_CHECKING:
    from fastapi import FastAPI

_NEEDED = {"fastapi", "sse_starlette", "uvicorn"}


def add_commands(app: typer.Typer) -> None:
    """Add `serve` to an application."""
    app.command()(serve)


def serve(
    tools: Annotated[
        list[str] | None,
        typer.Option(
            "--tools",
            "-t",
            metavar="MODULE:NAME",
            help="Where the tools are, as for run. May be repeated.",
            show_default=False,
        ),
    ] = None,
    *,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve the order desk of the demonstration, with a scripted model.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|MODULE:NAME",
            help="A model of an OpenAI-compatible server (OPENAI_BASE_URL and OPENAI_API_KEY say which), or, if there is "
            "such a module, a function of yours that yields chunks.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0: a free one.")] = 8000,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A name by which browsers may address the server, beside its own: that of a proxy before it, say. May be "
            "repeated.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve the live page: a conversation whose tool calls are seen moving through their lifecycle.

    Whoever opens the page may use the tools. On an address that other machines reach, a token is therefore part of the
    address that is shown, and nobody gets in without it. It tells nobody apart: for that, and for an encrypted
    connection, put something before it, or write an application with `fsm_engine.server.create_app(authorize=...)`.

    Example: fsm-engine serve --demo
    """
    if demo == bool(tools):
        raise typer.BadParameter("give --demo, or --tools and --model")
    if tools and model is None:
        raise typer.BadParameter("tools are of no use without a model; name one", param_hint="--model")
    try:
        asyncio.run(_serve(tools or [], model, host, port, allowed_host or ()))
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        typer.echo(
            "fsm-engine serve needs packages that are not installed: install this package with its extra `server`",
            err=True,
        )
        raise typer.Exit(2) from None


async def _serve(tools: list[str], model: str | None, host: str, port: int, also_called: Sequence[str] = ()) -> None:
    import uvicorn

    from ..server.demo import demo_app

    token = None if _is_this_machine_alone(host) else secrets.token_urlsafe(24)
    names = ["localhost", host, *also_called, *([] if token is None else [socket.gethostname()])]
    serving = (
        demo_app(allowed_hosts=names, token=token) if model is None else _app(tools, model, names=names, token=token)
    )
    async with serving as app:
        config = uvicorn.Config(app, host=host, port=port, log_level="warning", ws="websockets-sansio")
        server = uvicorn.Server(config)
        with config.bind_socket() as listening:
            # Said before anybody could be waiting for it: the socket takes connections from here on.
            listening.listen()
            typer.echo(f"Live page: {_address(host, listening.getsockname()[1], token)}  (Ctrl+C ends it)")
            if token is not None:
                typer.echo(
                    "Warning: other machines reach this server, and whoever knows this address may use its tools; what is "
                    "sent is not encrypted",
                    err=True,
                )
            await server.serve(sockets=[listening])


def _is_this_machine_alone(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _address(host: str, port: int, token: str | None) -> str:
    """What to open; where the server listens on every address, that is this machine's own."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 # it is what somebody has asked for
    shown = f"[{shown}]" if ":" in shown else shown
    return f"http://{shown}:{port}/" + ("" if token is None else f"?token={token}")


@asynccontextmanager
async def _app(tools: list[str], model: str, *, names: Sequence[str], token: str | None) -> AsyncIterator[FastAPI]:
    from ..server import create_app

    async with load_engine(tools) as engine:
        yield create_app(engine, _load_model(model), allowed_hosts=names, token=token)


def _load_model(reference: str) -> Any:
    module, colon, name = reference.partition(":")
    if colon and _is_module(module):  # or it is a model's name, such as llama3:latest
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise typer.BadParameter(str(error), param_hint="--model") from None
    try:
        from openai import AsyncOpenAI, OpenAIError
    except ModuleNotFoundError:
        raise typer.BadParameter(
            "a model's name needs the SDK of OpenAI: install this package with its extra `openai`", param_hint="--model"
        ) from None
    from ..providers.openai_model import OpenAIModel

    try:
        return OpenAIModel(AsyncOpenAI(), reference)
    except OpenAIError as error:  # no key, most often
        raise typer.BadParameter(str(error), param_hint="--model") from None


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
