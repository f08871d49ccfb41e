"""A server in a thread of its own, a line to it that can be cut, and what the browser is started with."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Self

import uvicorn
from fastapi import FastAPI

MakeApp = Callable[[], AbstractAsyncContextManager[FastAPI]]

FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # The sandbox wants a user other than root.
    *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
]


def find_chromium() -> str:
    """The system's browser; the tests fail without one, since what is not run is not known to work."""
    wanted = os.environ.get("FSM_ENGINE_CHROMIUM")
    names = [wanted] if wanted else ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
    for name in names:
        if found := shutil.which(name):
            return found
    raise RuntimeError(
        f"the browser tests need Chromium, and none of {', '.join(names)} is there: install it (Debian: apt-get install "
        "chromium), or name its program in FSM_ENGINE_CHROMIUM"
    )


@contextmanager
def serving(make_app: MakeApp) -> Iterator[int]:
    """The application behind a real server in a thread; gives its port."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    started = threading.Event()
    servers: list[uvicorn.Server] = []

    async def run() -> None:
        async with make_app() as app:
            config = uvicorn.Config(app, log_config=None, ws="websockets-sansio", timeout_graceful_shutdown=1)
            server = uvicorn.Server(config)
            servers.append(server)
            asyncio.get_running_loop().call_soon(started.set)
            await server.serve(sockets=[listening])

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert started.wait(20), "the server did not start"
    try:
        yield listening.getsockname()[1]
    finally:
        servers[0].should_exit = True
        thread.join(20)
        listening.close()


def app_of(app: Callable[[], FastAPI]) -> MakeApp:
    """For an application that needs nothing around it; it is made in the server's own loop."""

    @asynccontextmanager
    async def make() -> AsyncIterator[FastAPI]:
        yield app()

    return make


class Line:
    """A line to a port, for somebody to cut. Enter it to lay it.

    Attributes:
        url: its near end.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._is_down = False
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        self.cut()

    def cut(self) -> None:
        """Whoever is connected is so no longer, and nobody gets through until `mend`."""
        self._is_down = True
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._sockets.clear()

    def mend(self) -> None:
        """New connections get through again."""
        self._is_down = False

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                near, _ = self._listening.accept()
                if self._is_down:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._port))
                self._sockets += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
