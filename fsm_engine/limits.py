"""Slots: how many attempts may run at once, and who waits for the next one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable


class SlotRequest:
    """A place in the queue of a `Slots`.

    Attributes:
        granted: the slot is held; whoever asked must release it.
    """

    __slots__ = ("granted", "wake")

    def __init__(self, wake: Callable[[], object]) -> None:
        self.wake = wake
        self.granted = False


class Slots:
    """A number of slots, handed on in the order of asking. All calls are made in the event loop's thread.

    Args:
        limit: how many may be held at once; `None`: any number.
        on_idle: called when a slot comes back and nobody waits for it.

    Attributes:
        held: how many are held now.
    """

    __slots__ = ("_on_idle", "_queue", "held", "limit")

    def __init__(self, limit: int | None, on_idle: Callable[[], object] | None = None) -> None:
        self.limit = limit
        self._on_idle = on_idle
        self.held = 0
        self._queue: OrderedDict[SlotRequest, None] = OrderedDict()  # a deque would search to let one leave

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return len(self._queue)

    def try_acquire(self) -> bool:
        """Take a slot if one is free and nobody waits for it."""
        if self.limit is not None and (self.held >= self.limit or self._queue):
            return False
        self.held += 1
        return True

    def request(self, wake: Callable[[], object]) -> SlotRequest:
        """Queue for a slot after `try_acquire` has said no; `wake` is called when it is granted."""
        request = SlotRequest(wake)
        self._queue[request] = None
        return request

    def withdraw(self, request: SlotRequest) -> None:
        """Leave the queue, or give back what was granted in the meantime."""
        if request.granted:
            request.granted = False
            self.release()
        else:
            self._queue.pop(request, None)

    def wake_all(self) -> None:
        """Let everybody who waits see whether waiting still makes sense."""
        for request in tuple(self._queue):
            request.wake()

    def release(self) -> None:
        """Give a slot back; the first in the queue has it at once."""
        if self._queue:
            request, _ = self._queue.popitem(last=False)
            request.granted = True
            request.wake()
        else:
            self.held -= 1
            if self._on_idle is not None:
                self._on_idle()
