"""The tools of the order desk that use its database and its services."""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from anyio import to_thread
from pydantic import AwareDatetime, Field
from tenacity import wait_fixed

from ..breaker.policy import BreakerPolicy
from ..clock import Clock, SystemClock
from ..errors.codes import ToolErrorCode
from ..errors.exceptions import ToolError
from ..tools.context import ToolContext
from ..tools.retry import RetryPolicy
from ..tools.spec import ToolSpec, tool
from ..validators import allowed_values, blocked_words, in_range, phone_number, size
from .database import WAREHOUSES, opened
from .tools import calculator, search_web

BLOCKED_WORDS = ("lottery", "jackpot", "casino")

CIRCUIT_WAIT = 2.5
"""Seconds that the circuit of `inventory_check` stays open; a real one would wait longer."""

# A proxy that the environment names for the wide world has no business between here and the loopback interface.
_opener = build_opener(ProxyHandler({}))


class OrderDesk:
    """What the tools work with, and the tools as methods; `tools()` has them with their settings.

    Args:
        database: the SQLite file that `create_database` has made.
        service_url: where a `ShopService` listens.
        clock: what the report's working time is told by.
    """

    def __init__(self, database: Path, service_url: str, clock: Clock | None = None) -> None:
        self.database = database
        self.service_url = service_url
        self.clock: Clock = clock or SystemClock()

    def tools(self) -> list[ToolSpec]:
        """All tools of the desk."""
        return [
            search_web,
            calculator,
            tool(read_only=True)(self.order_status),
            tool(
                read_only=True,
                timeout=0.8,
                retry=RetryPolicy(max_retries=2, wait=wait_fixed(0.4)),
                fallback="last_good",
                breaker=BreakerPolicy.consecutive(5, wait=CIRCUIT_WAIT),
                validator=allowed_values("warehouse", WAREHOUSES, reason="invalid_warehouse"),
            )(self.inventory_check),
            tool(
                validator=[
                    phone_number("phone", region="CN"),
                    size("message", max_length=70, reason="message_too_long"),
                    blocked_words("message", BLOCKED_WORDS),
                ],
            )(self.send_sms),
            tool(
                needs_approval=True,
                approval_timeout=3_600,  # who looks at the page may take their time
                destructive=True,
                timeout=1.5,
                max_retries=2,  # for errors before the money moved; what may have moved it is not tried again
                validator=in_range("amount", minimum=100, unit="yuan", reason="below_minimum"),
            )(self.transfer),
            tool(read_only=True)(self.statement),
            tool(read_only=True, timeout=30.0)(self.order_report),
        ]

    def order_status(self, order_id: int) -> dict[str, Any]:
        """Look an order up by its number."""
        with opened(self.database) as connection:
            row = connection.execute(
                "SELECT customer, phone, sku_id, quantity, yuan, status FROM orders WHERE id = ?", (order_id,)
            ).fetchone()
        if row is None:
            raise ToolError(
                ToolErrorCode.NOT_FOUND, "There is no order with this number. Ask the customer for it again."
            )
        return dict(zip(("customer", "phone", "sku_id", "quantity", "yuan", "status"), row, strict=True))

    async def inventory_check(
        self,
        sku_id: Annotated[str, Field(pattern=r"^SKU-[0-9]{3}$", description="article number, such as SKU-200")],
        warehouse: Annotated[str, Field(description=f"one of {', '.join(WAREHOUSES)}")],
    ) -> dict[str, Any]:
        """How many pieces of an article a warehouse has."""
        return await self._ask(f"/stock/{warehouse}/{sku_id}")

    def send_sms(self, phone: str, message: str) -> dict[str, Any]:
        """Send a short message to a customer's mobile phone."""
        with opened(self.database) as connection:
            connection.execute("INSERT INTO messages (phone, text) VALUES (?, ?)", (phone, message))
        return {"sent": True, "characters": len(message)}

    async def transfer(
        self,
        amount: Annotated[float, Field(ge=0.01, description="yuan")],
        recipient: Annotated[str, Field(min_length=1, description="whom to pay")],
    ) -> dict[str, Any]:
        """Pay money back to a customer."""
        return await self._ask("/payments", {"amount": amount, "recipient": recipient})

    def statement(
        self, date: Annotated[AwareDatetime, Field(description="the first moment, with its offset from UTC")]
    ) -> list[dict[str, Any]]:
        """The payments since a moment."""
        with opened(self.database) as connection:
            rows = connection.execute("SELECT at, recipient, yuan FROM payments ORDER BY id").fetchall()
        return [
            {"at": at, "recipient": recipient, "yuan": yuan}
            for at, recipient, yuan in rows
            if datetime.fromisoformat(at) >= date
        ]

    async def order_report(self, context: ToolContext) -> dict[str, Any]:
        """Sum the orders of each region up. This takes about five seconds; it reports how far it is."""
        regions = ("north", "east", "south", "west")
        sums: dict[str, float] = {}
        for number, region in enumerate(regions, 1):
            await self.clock.sleep(1.25)
            sums[region] = await to_thread.run_sync(self._sum_of, region)
            context.report(number / len(regions), f"{region}: {sums[region]:,.0f} yuan")
        return sums

    def _sum_of(self, region: str) -> float:
        with opened(self.database) as connection:
            row = connection.execute("SELECT TOTAL(yuan) FROM orders WHERE region = ?", (region,)).fetchone()
        return float(row[0])

    async def _ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """A request to the service, in a thread that is left behind when nobody waits for it any more."""
        request = Request(  # noqa: S310 - the address is the desk's own service
            self.service_url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        return await to_thread.run_sync(partial(_fetch, request), abandon_on_cancel=True)


def _fetch(request: Request) -> dict[str, Any]:
    try:
        with _opener.open(request, timeout=30.0) as answer:
            fetched: dict[str, Any] = json.loads(answer.read())
    except HTTPError as error:
        with error:  # the error holds the connection, and the body in it
            body = BytesIO(error.read())
        raise HTTPError(error.url, error.code, error.reason, error.headers, body) from None
    return fetched
