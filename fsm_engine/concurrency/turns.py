"""A loop over what somebody else hands out must not be the only thing that runs."""

from __future__ import annotations

import asyncio

EVERY = 50
"""Rounds after which others get a turn in any case."""

SECONDS = 0.005
"""Seconds after which they get one sooner."""


class Turns:
    """Gives others a turn now and then, for a loop whose source may never wait: `await turns.give()` in every round.

    Others are time limits, cancellations, and everything else that lives in the event loop. Whoever has been cancelled
    gets to know it at once, and not only when the source waits.

    Example:
        >>> async def count(numbers):
        ...     turns, total = Turns(), 0
        ...     async for number in numbers:
        ...         await turns.give()
        ...         total += number
        ...     return total
    """

    __slots__ = ("_loop", "_rounds", "_since", "_task")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._rounds = 0
        self._since = self._loop.time()

    async def give(self) -> None:
        """End a round."""
        self._rounds += 1
        is_due = self._rounds >= EVERY or self._loop.time() - self._since >= SECONDS
        if is_due or (self._task is not None and self._task.cancelling()):
            await asyncio.sleep(0)
            self._rounds, self._since = 0, self._loop.time()
