"""The tools of the order desk that need nothing but themselves: a search and a calculator."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from ..response.tool_response import ToolResponse
from ..tools.spec import tool
from .arithmetic import evaluate

_PAGES = (
    (
        "Returns within thirty days",
        "Damaged goods are replaced or refunded in full; the customer keeps the parcel label.",
    ),
    ("Aurora headphones SKU-200", "Noise-cancelling headphones, 649 yuan, two years of warranty on the hinge."),
    ("Breeze desk fan SKU-310", "A quiet fan for the desk, 199 yuan, with a remote control."),
    ("Shipping times", "Beijing and Shanghai overnight, Guangzhou in two days, the west in three to five days."),
    ("Broken hinge of headphones", "A known fault of the first Aurora series: replace the pair, do not repair it."),
)


@tool(read_only=True, timeout=5.0, tags=("shop",))
async def search_web(
    query: Annotated[str, Field(min_length=3, description="what to look for, in a few words")],
    limit: Annotated[int, Field(ge=1, le=10)] = 3,
) -> list[dict[str, str]]:
    """Search the shop's pages; answers the best matches first."""
    words = query.casefold().split()
    scored = [(sum(word in f"{title} {text}".casefold() for word in words), title, text) for title, text in _PAGES]
    found = sorted((each for each in scored if each[0]), key=lambda each: -each[0])
    return [{"title": title, "text": text} for _, title, text in found[:limit]]


@tool(read_only=True, timeout=2.0, tags=("shop",))
async def calculator(
    expression: Annotated[str, Field(min_length=1, max_length=200, description="such as (2 + 3) * 4")],
) -> ToolResponse:
    """Work out an arithmetic expression. A gigantic result is rounded and written in scientific notation."""
    value, is_rounded = evaluate(expression)
    plain = value if isinstance(value, int) else float(value)
    if is_rounded or plain in {math.inf, -math.inf}:
        return ToolResponse.partial(f"{Decimal(value):.9e}", reason="rounded")
    return ToolResponse.success(f"{plain}", plain)
