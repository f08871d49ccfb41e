"""An application with nothing but the engine: the routes, and the live page at `/`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles

from .. import __version__
from ..agent.model_chunks import Model
from ..engine.engine import ToolEngine
from .access import AccessGuard
from .router import create_router
from .runs import Authorize, RunsMessages, ServerLimits

STATIC = Path(__file__).with_name("static")

INTRO = "Ask something. Every tool call runs through a state machine, and you see each step when it happens."

_HEADERS = {
    # Everything comes from here; nothing that a tool or a model says can bring anything else in.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Something that the page offers to ask.

    Args:
        label: what the button says.
        text: what is asked.
    """

    label: str
    text: str


def create_app(
    engine: ToolEngine,
    model: Model | RunsMessages,
    *,
    authorize: Authorize | None = None,
    limits: ServerLimits | None = None,
    allowed_origins: Sequence[str] = (),
    allowed_hosts: Sequence[str] | None = None,
    token: str | None = None,
    intro: str = INTRO,
    suggestions: Sequence[Suggestion] = (),
) -> FastAPI:
    """The routes of `create_router`, and the live page at `/`.

    Args:
        engine, model, authorize, limits, allowed_origins: as for `create_router`. The page itself is open to everybody; what it shows is
            not, and a browser sends along what it was given for this site (a cookie, or the proxy's own sign-in).
        allowed_hosts: names by which the server may be addressed; `None`: any. A server for one machine alone names
            `127.0.0.1` and `localhost`, or a page of another site could reach it under a name of its own (DNS
            rebinding). Addresses in figures are always answered to.
        token: what every request must know; `None`: nothing. It is part of the first address that is opened
            (`/?token=...`) and a cookie from then on; a program sends it as a bearer token.
        intro: what the page says before anything is asked.
        suggestions: what it offers to ask.
    """
    app = FastAPI(
        title="fsm_engine",
        version=__version__,
        description="Tool calls of a language model, each as one run through a state machine.",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
    )
    app.include_router(
        create_router(engine, model, authorize=authorize, limits=limits, allowed_origins=allowed_origins)
    )
    page = {"intro": intro, "suggestions": [asdict(each) for each in suggestions]}
    app.add_api_route("/", lambda: FileResponse(STATIC / "index.html", headers=_HEADERS), include_in_schema=False)
    app.add_api_route("/page.json", lambda: page, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=STATIC))
    if allowed_hosts is not None or token is not None:
        app.add_middleware(AccessGuard, allowed_hosts=allowed_hosts, token=token)
    return app
