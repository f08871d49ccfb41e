"""Runs and their tool calls over HTTP: server-sent events, a WebSocket, and a live page (extra `server`).

`create_router` is for an application that exists; `create_app` is one with the live page at `/`.

Example:
    >>> from fsm_engine import ToolEngine
    >>> from fsm_engine.server import create_app
    >>> async def model(messages, tools):
    ...     yield {"choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]}
    >>> app = create_app(ToolEngine([]), model)
    >>> sorted(app.openapi()["paths"])[:2]
    ['/chat/stream', '/circuits']
"""

from ..errors.missing_extra import needed_by

with needed_by("fsm_engine.server", "server"):
    from .app import create_app
    from .router import create_router
    from .runs import Authorize, ServerLimits

__all__ = ["Authorize", "ServerLimits", "create_app", "create_router"]
