"""Whose work this is: what a tool begins belongs to the attempt that began it, and ends with it at the latest.

A context variable says so. It goes along into the tool's thread, and into every task that the tool makes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Protocol


class Owner(Protocol):
    """Something that ends, an attempt most often, and ends what it has begun."""

    def when_over(self, callback: Callable[[], object]) -> None:
        """Call this when it is over, in the engine's loop; at once, and here, if it is. May be asked in any thread."""
        ...

    def forget(self, callback: Callable[[], object]) -> None:
        """Do not call it any more. Twice is nothing."""
        ...


class Belongings:
    """What has been begun and is to end with its owner: the callbacks behind `Owner`."""

    __slots__ = ("_callbacks", "_is_over")

    def __init__(self) -> None:
        self._callbacks: dict[Callable[[], object], None] = {}
        self._is_over = False

    def when_over(self, callback: Callable[[], object]) -> None:
        """See `Owner`."""
        self._callbacks[callback] = None
        if self._is_over and self._callbacks.pop(callback, self) is None:  # it may have been called just now
            callback()

    def forget(self, callback: Callable[[], object]) -> None:
        """See `Owner`."""
        self._callbacks.pop(callback, None)

    def end(self) -> None:
        """It is over: everything that was begun hears of it, once."""
        self._is_over = True
        while self._callbacks:
            callback, _ = self._callbacks.popitem()
            callback()


# A function that answers the owner: a weak reference to an attempt, which must not live as long as a context does.
_owner: ContextVar[Callable[[], Owner | None]] = ContextVar("fsm_engine_owner")


def own(context: Context, owner: Callable[[], Owner | None]) -> None:
    """What is begun in this context belongs to the owner.

    Args:
        context: of the work that is about to begin; nobody else uses it.
        owner: answers it, or `None` once it is gone: a weak reference, say.
    """
    context.run(_owner.set, owner)


def current_owner() -> Owner | None:
    """The attempt (or whatever it may be) inside of which this is called; `None`: it is called by nobody's tool."""
    find = _owner.get(None)
    return None if find is None else find()
