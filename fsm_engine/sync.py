"""A background event loop for code that has none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread, so that a hung tool never keeps the interpreter from ending.

    Args:
        grace: seconds that `stop` gives to coroutines which do not end when they are cancelled.
    """

    def __init__(self, grace: float = 1.0) -> None:
        self._grace = grace
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="fsm_engine loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it; interrupting the wait cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the loop and the thread; twice is nothing."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self._wind_up())
            self.loop.close()

    async def _wind_up(self) -> None:
        # As asyncio.run does, save that it would wait for ever for a coroutine that ignores its cancellation.
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._grace)
        await self.loop.shutdown_asyncgens()
