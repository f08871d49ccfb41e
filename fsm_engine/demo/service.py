"""The shop's stock and its bank behind HTTP on the loopback interface, and what can go wrong with them.

`GET /stock/<warehouse>/<sku>` answers how much there is; `POST /payments` pays, and answers afterwards, so that a bank
that hangs has paid all the same. `ShopService.fail` and `hang` make the troubles, `recover` ends them.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from .database import opened

_BEIJING = timezone(timedelta(hours=8))


@dataclass
class _Trouble:
    path: str
    status: int | None  # None: hang
    left: int | None  # None: until recovery


class ShopService:
    """An HTTP server in threads of its own. Enter it to start it, leave it to stop it.

    Args:
        database: the SQLite file that `create_database` has made.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from urllib.request import urlopen
        >>> from fsm_engine.demo.database import create_database
        >>> with TemporaryDirectory() as folder:
        ...     create_database(Path(folder, "shop.db"))
        ...     with ShopService(Path(folder, "shop.db")) as service:
        ...         urlopen(f"{service.url}/stock/beijing/SKU-200").read()
        b'{"sku_id": "SKU-200", "warehouse": "beijing", "quantity": 14}'
    """

    def __init__(self, database: Path) -> None:
        self.database = database
        self._troubles: list[_Trouble] = []
        self._lock = threading.Lock()
        self._recovered = threading.Event()
        self._hanging = 0
        self._server = _Server(("127.0.0.1", 0), partial(_Handler, self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.recover()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def hanging(self) -> int:
        """How many requests it leaves without an answer at the moment."""
        with self._lock:
            return self._hanging

    def fail(self, path: str, *, status: int = 503, times: int | None = None) -> None:
        """Answer requests whose path begins with `path` by an error, so many times or until `recover`."""
        with self._lock:
            self._troubles.append(_Trouble(path, status, times))

    def hang(self, path: str) -> None:
        """Answer no request whose path begins with `path` until `recover`."""
        with self._lock:
            self._troubles.append(_Trouble(path, None, None))

    def recover(self) -> None:
        """Be well again; requests that hang get their late answers."""
        with self._lock:
            self._troubles.clear()
            self._recovered.set()
            self._recovered = threading.Event()

    def suffer(self, path: str) -> int | None:
        """The status of the error to answer with, or `None`; comes back late if the trouble is to hang."""
        with self._lock:
            trouble = next((each for each in self._troubles if path.startswith(each.path)), None)
            if trouble is None:
                return None
            if trouble.left is not None:
                trouble.left -= 1
                if not trouble.left:
                    self._troubles.remove(trouble)
            if trouble.status is not None:
                return trouble.status
            recovered = self._recovered
            self._hanging += 1
        recovered.wait()
        with self._lock:
            self._hanging -= 1
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Somebody who no longer waits for a late answer is no error."""


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, shop: ShopService, *connection: Any) -> None:
        self.shop = shop
        super().__init__(*connection)  # answers the request

    def do_GET(self) -> None:
        """Answer how much there is of an article."""
        shop = self.shop
        if status := shop.suffer(self.path):
            self._answer(status, {"error": "the stock system is down"})
            return
        _, _, warehouse, sku_id = self.path.split("/")
        with opened(shop.database) as connection:
            row = connection.execute(
                "SELECT quantity FROM stock WHERE sku_id = ? AND warehouse = ?", (sku_id, warehouse)
            ).fetchone()
        if row is None:
            self._answer(404, {"error": f"no article {sku_id}"})
        else:
            self._answer(200, {"sku_id": sku_id, "warehouse": warehouse, "quantity": row[0]})

    def do_POST(self) -> None:
        """Pay, then answer."""
        shop = self.shop
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with opened(shop.database) as connection:
            paid = connection.execute(
                "INSERT INTO payments (at, recipient, yuan) VALUES (?, ?, ?)",
                (datetime.now(_BEIJING).isoformat(timespec="seconds"), order["recipient"], order["amount"]),
            )
        if status := shop.suffer(self.path):
            self._answer(status, {"error": "the bank is down"})
        else:
            self._answer(201, {"payment": paid.lastrowid})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """The terminal belongs to the demonstration."""

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())
