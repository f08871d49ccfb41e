"""What exceptions of Python and of client libraries mean, told without importing the libraries.

HTTP clients differ in where they keep the status: ``.response.status_code`` (httpx, requests, openai, anthropic),
``.status_code`` (starlette, fastapi), ``.status`` (aiohttp), ``.code`` (urllib, tornado). Connection errors and
time-outs are known by the names of the exception's classes, from the exact one to the base.
"""

from __future__ import annotations

import errno
import math
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..jsonable.redaction import redact
from .codes import ToolErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MAX_RETRY_AFTER", "HttpFacts", "client_code", "read_attribute", "read_http", "status_code"]

MAX_RETRY_AFTER: Final = 86_400.0
"""Seconds; a server that asks for more is taken to ask for a day."""

_BODY_LIMIT: Final = 2_000
_NO_BODY: Final = "(no body)"

_C = ToolErrorCode

_BY_STATUS: Final[Mapping[int, ToolErrorCode]] = {
    401: _C.ACCESS_DENIED,
    403: _C.PERMISSION_DENIED,
    404: _C.NOT_FOUND,
    408: _C.TIMEOUT,
    409: _C.CONFLICT,
    429: _C.RATE_LIMIT,
    504: _C.TIMEOUT,
}

_BY_TYPE: Final[Mapping[type[BaseException], ToolErrorCode]] = {
    FileNotFoundError: _C.NOT_FOUND,
    NotADirectoryError: _C.NOT_FOUND,
    ProcessLookupError: _C.NOT_FOUND,
    IsADirectoryError: _C.IS_DIRECTORY,
    PermissionError: _C.PERMISSION_DENIED,
    FileExistsError: _C.CONFLICT,
    TimeoutError: _C.TIMEOUT,
    ConnectionError: _C.NETWORK_ERROR,
    UnicodeDecodeError: _C.BINARY_FILE,
}

# Errors of the operating system that Python gives no class of their own.
_BY_ERRNO: Final[Mapping[int, ToolErrorCode]] = {
    errno.EHOSTDOWN: _C.NETWORK_ERROR,
    errno.EHOSTUNREACH: _C.NETWORK_ERROR,
    errno.ENETDOWN: _C.NETWORK_ERROR,
    errno.ENETUNREACH: _C.NETWORK_ERROR,
    errno.ENOTEMPTY: _C.CONFLICT,
    errno.EROFS: _C.PERMISSION_DENIED,
}

# Names that mean the same in every library. Order within one exception comes from its classes, the exact one first.
_BY_NAME: Final[Mapping[str, ToolErrorCode]] = {
    "APITimeoutError": _C.TIMEOUT,
    "ConnectTimeout": _C.TIMEOUT,
    "ConnectTimeoutError": _C.TIMEOUT,
    "PoolTimeout": _C.TIMEOUT,
    "ReadTimeout": _C.TIMEOUT,
    "ReadTimeoutError": _C.TIMEOUT,
    "ServerTimeoutError": _C.TIMEOUT,
    "Timeout": _C.TIMEOUT,
    "TimeoutError": _C.TIMEOUT,
    "TimeoutException": _C.TIMEOUT,
    "TimeoutExpired": _C.TIMEOUT,
    "WriteTimeout": _C.TIMEOUT,
    "APIConnectionError": _C.NETWORK_ERROR,
    "ChunkedEncodingError": _C.NETWORK_ERROR,
    "ClientConnectionError": _C.NETWORK_ERROR,
    "ClientPayloadError": _C.NETWORK_ERROR,
    "ConnectError": _C.NETWORK_ERROR,
    "ConnectionError": _C.NETWORK_ERROR,
    "ContentTooShortError": _C.NETWORK_ERROR,
    "EndpointConnectionError": _C.NETWORK_ERROR,
    "IncompleteRead": _C.NETWORK_ERROR,
    "NetworkError": _C.NETWORK_ERROR,
    "NewConnectionError": _C.NETWORK_ERROR,
    "ProxyError": _C.NETWORK_ERROR,
    "RemoteProtocolError": _C.NETWORK_ERROR,
    "SSLError": _C.NETWORK_ERROR,
    "gaierror": _C.NETWORK_ERROR,
    "herror": _C.NETWORK_ERROR,
}

_MAX_REASONS: Final = 5


class HttpFacts(NamedTuple):
    """An HTTP error answer: its status, the seconds that it asks to wait, and the bounded, redacted body."""

    status: int
    retry_after: float | None
    body: str


def client_code(exc: BaseException) -> ToolErrorCode:
    """The code of an exception that carries no HTTP status; ``EXECUTION_ERROR`` when nothing better is known."""
    exc = _urllib_reason(exc)
    for cls in type(exc).__mro__:
        code = _BY_TYPE.get(cls) or _BY_NAME.get(cls.__name__)
        if code is not None:
            return code
    number = read_attribute(exc, "errno") if isinstance(exc, OSError) else None
    return _BY_ERRNO.get(number, _C.EXECUTION_ERROR) if isinstance(number, int) else _C.EXECUTION_ERROR


def _urllib_reason(exc: BaseException) -> BaseException:
    """``URLError`` only wraps what happened."""
    for _ in range(_MAX_REASONS):
        reason = read_attribute(exc, "reason") if type(exc).__name__ == "URLError" else None
        if not isinstance(reason, BaseException):
            break
        exc = reason
    return exc


def status_code(status: int) -> tuple[ToolErrorCode, bool]:
    """The code of an HTTP status, and whether the server refused the request for good (a retry cannot help)."""
    code = _BY_STATUS.get(status, _C.API_ERROR)
    return code, code is _C.API_ERROR and status < 500


def read_http(exc: BaseException, now: float | None) -> HttpFacts | None:
    """The HTTP answer that an exception tells of, if it does. Never raises, never waits for the network."""
    response = read_attribute(exc, "response")
    status = _status(exc, response)
    if status is None:
        return None
    headers = next(
        (h for h in (read_attribute(response, "headers"), read_attribute(exc, "headers")) if h is not None), None
    )
    return HttpFacts(status, _retry_after(headers, now), _body(exc, response))


def _status(exc: BaseException, response: object) -> int | None:
    candidates = [
        read_attribute(response, "status_code"),
        read_attribute(exc, "status_code"),
        read_attribute(exc, "status"),
    ]
    if response is not None or read_attribute(exc, "headers") is not None:
        # `.code` alone may be anybody's: an exit code, a database's.
        candidates.append(read_attribute(exc, "code"))
    for candidate in candidates:
        if isinstance(candidate, int) and 400 <= candidate <= 599:
            return int(candidate)
    return None


def _retry_after(headers: object, now: float | None) -> float | None:
    """RFC 9110, 10.2.3: seconds, or a date."""
    text = _header(headers, "Retry-After") or _header(headers, "retry-after")
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        if now is None:
            return None
        try:
            seconds = max(0.0, parsedate_to_datetime(text).timestamp() - now)
        except (ValueError, OverflowError):
            return None
    return min(seconds, MAX_RETRY_AFTER) if math.isfinite(seconds) and seconds >= 0 else None


def _header(headers: object, name: str) -> str | None:
    try:
        value = headers.get(name)  # type: ignore[attr-defined] # some mapping of some library; checked by trying
    except Exception:  # noqa: BLE001 # foreign code: whatever it raises, there is no such header
        return None
    return value.strip()[:100] if isinstance(value, str) else None


def _body(exc: BaseException, response: object) -> str:
    """The start of the body, if it is already in memory.

    A body that was not read stays unread (``requests`` would wait for the network); urllib's is taken only as far as
    it has arrived.
    """
    if read_attribute(response, "_content_consumed") is False:
        return _NO_BODY
    content = read_attribute(response, "content")
    if content is None:
        content = _arrived(read_attribute(exc, "fp"))
    if not isinstance(content, bytes):
        return _NO_BODY
    # More than is kept, so that a secret at the edge is still seen whole.
    text = redact(content[: _BODY_LIMIT * 2].decode("utf-8", "replace"))
    return text if len(text) <= _BODY_LIMIT else f"{text[:_BODY_LIMIT]}… ({len(content)} bytes)"


def _arrived(stream: Any) -> object:
    try:
        if hasattr(stream, "getvalue"):
            return stream.getvalue()
        # http.client keeps its socket only here. From now on it never waits; the exception has ended its use.
        stream.fp.raw._sock.setblocking(False)
        return stream.read1(_BODY_LIMIT * 2)
    except Exception:  # noqa: BLE001 # foreign code: whatever it raises, the body is not to be had
        return None


def read_attribute(owner: object, name: str) -> Any:
    """An attribute of what somebody else wrote; `None` if there is none, or it cannot be read."""
    try:
        return getattr(owner, name, None)
    except Exception:  # noqa: BLE001 # a property of a foreign exception may raise anything
        return None
