"""Slots: how many attempts may run at once, and who waits for the next one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable


class SlotRequest:
    """A place in a line of a `Slots`.

    Attributes:
        granted: the slot is held; whoever asked must release it.
        line: the line that it stands in.
    """

    __slots__ = ("granted", "line", "wake")

    def __init__(self, wake: Callable[[], object], line: Hashable) -> None:
        self.wake = wake
        self.line = line
        self.granted = False


class Slots:
    """A number of slots. All calls are made in the event loop's thread.

    Those who wait stand in lines, one for each tool, say: within a line slots are handed on in the order of asking, and
    the lines take turns, so that a hundred calls of one tool do not stand before the first call of another.

    Args:
        limit: how many may be held at once; `None`: any number.
        on_idle: called when a slot comes back and nobody waits for it.

    Attributes:
        held: how many are held now.
        waiting: how many wait for a slot.
    """

    __slots__ = ("_lines", "_on_idle", "held", "limit", "waiting")

    def __init__(self, limit: int | None, on_idle: Callable[[], object] | None = None) -> None:
        self.limit = limit
        self._on_idle = on_idle
        self.held = 0
        self.waiting = 0
        # The line whose turn it is comes first. Dictionaries, since a deque would search to let one leave.
        self._lines: OrderedDict[Hashable, OrderedDict[SlotRequest, None]] = OrderedDict()

    def try_acquire(self) -> bool:
        """Take a slot if one is free and nobody waits for it."""
        if self.limit is not None and (self.held >= self.limit or self.waiting):
            return False
        self.held += 1
        return True

    def request(self, wake: Callable[[], object], line: Hashable = None) -> SlotRequest:
        """Stand in a line for a slot after `try_acquire` has said no; `wake` is called when it is granted."""
        request = SlotRequest(wake, line)
        if line not in self._lines:
            self._lines[line] = OrderedDict()
        self._lines[line][request] = None
        self.waiting += 1
        return request

    def withdraw(self, request: SlotRequest) -> None:
        """Leave the line, or give back what was granted in the meantime. Twice is nothing."""
        if request.granted:
            request.granted = False
            self.release()
            return
        line = self._lines.get(request.line)
        if line is not None and request in line:
            del line[request]
            self.waiting -= 1
            if not line:
                del self._lines[request.line]

    def release(self) -> None:
        """Give a slot back; the first of the line whose turn it is has it at once."""
        if self._lines:
            name, line = next(iter(self._lines.items()))
            request, _ = line.popitem(last=False)
            self.waiting -= 1
            if line:
                self._lines.move_to_end(name)
            else:
                del self._lines[name]
            request.granted = True
            request.wake()
        else:
            self.held -= 1
            if self._on_idle is not None:
                self._on_idle()
