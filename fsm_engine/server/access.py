"""Who reaches a server: by which names it answers, from which pages, and with which token.

A page of another site cannot read what this server answers, but it can make a browser ask. Three things keep it out:
the name in `Host` must be one of the server's own (or a page could point a name of its own at this machine), the page's
`Origin` must be this site, and where a token is wanted the browser must have been given it.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

TOKEN_PARAMETER: Final = "token"  # noqa: S105 # a name, not a secret

_WRONG_NAME = (
    "this server does not answer to that name; allow it where the server is started (allowed_hosts, --allowed-host)"
)
_HOW_TO_GET_IN = (
    "open the address that was shown when the server was started, which ends in its token, "
    "or send the header Authorization: Bearer TOKEN"
)
FOREIGN_PAGE: Final = "pages of other sites may not ask; name their origin in allowed_origins, or, behind a proxy, let it pass the Host header on"


def is_of_this_site(connection: HTTPConnection, allowed_origins: Collection[str] = ()) -> bool:
    """Programs send no origin, and a browser sends the page's: this site's own, one that is allowed, or it is misused."""
    origin = connection.headers.get("origin")
    if origin is None or "*" in allowed_origins or origin.lower().rstrip("/") in allowed_origins:
        return True
    return _netloc(origin) == connection.headers.get("host", "").lower()


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


class AccessGuard:
    """Stands before an application: asks each request by which name it came, and for the token.

    Args:
        app: what is behind it.
        allowed_hosts: names that the server answers to, `*.example.org` for all below one; `None`: any. Addresses in
            figures are always answered to: nobody can point one elsewhere.
        token: what must be known; `None`: nothing. It comes as `?token=` in the first address that is opened and is
            kept as a cookie from then on, or as a bearer token in each request of a program.
    """

    def __init__(self, app: ASGIApp, allowed_hosts: Collection[str] | None = None, token: str | None = None) -> None:
        self._app = app
        self._hosts = None if allowed_hosts is None else {host.lower().strip("[]") for host in allowed_hosts}
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it in, or say why not."""
        refusal = self._refusal(scope) if scope["type"] in {"http", "websocket"} else None
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await refusal(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": "not allowed"})

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if self._hosts is not None and not self._answers_to(headers.get("host", "")):
            return JSONResponse({"detail": _WRONG_NAME}, 400)
        if self._token is None:
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        shown = [value for name, value in query if name == TOKEN_PARAMETER]
        if any(self._is_right(value) for value in shown):
            return None if scope["type"] == "websocket" else self._welcome(scope, query)
        if self._is_right(_bearer(headers)) or self._is_right(_cookie(headers, _cookie_name(scope))):
            return None
        return JSONResponse({"detail": _HOW_TO_GET_IN}, 401, {"WWW-Authenticate": "Bearer"})

    def _answers_to(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if _is_address(name):
                return True
        except ValueError:
            return False
        assert self._hosts is not None, "asked only where names are given"
        above = name.split(".")
        return bool(self._hosts & {"*", name, *(f"*.{'.'.join(above[place:])}" for place in range(1, len(above)))})

    def _is_right(self, token: str) -> bool:
        return self._token is not None and secrets.compare_digest(token.encode(), self._token.encode())

    def _welcome(self, scope: Scope, query: list[tuple[str, str]]) -> Response:
        """The same address without the token, which would else stay in the browser's history and on the screen."""
        left = urlencode([(name, value) for name, value in query if name != TOKEN_PARAMETER])
        path = "/" + scope["path"].lstrip("/\\")  # two strokes would be another host
        answer = RedirectResponse(path + (f"?{left}" if left else ""), 303, {"Referrer-Policy": "no-referrer"})
        assert self._token is not None, "somebody has shown it"
        answer.set_cookie(_cookie_name(scope), self._token, httponly=True, samesite="lax")
        return answer


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _bearer(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _cookie_name(scope: Scope) -> str:
    """Cookies do not know ports, and two servers may run on one machine."""
    _, port = scope.get("server") or ("", 0)
    return f"fsm-engine-{port}"
