"""What belongs to one process is made anew in its children.

A server that loads everything and then forks its workers, a task queue, `multiprocessing`: the child has its parent's
memory, but none of its threads, and whatever was unique in the parent exists twice. Objects that hold such things
(names that must be unique, locks that another thread may have held, threads, a loop) say so here, and are told in the
child before anything else runs there.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from weakref import WeakMethod

_Find = Callable[[], Callable[[], object] | None]

_renewals: dict[int, _Find] = {}


def renew_in_children(renew: Callable[[], object]) -> None:
    """Call a function in every child process that is forked from now on, before anything else runs in it.

    Args:
        renew: must neither wait nor raise. A method is called for as long as its object lives, and keeps it from nothing.

    Example:
        >>> import secrets
        >>> class Names:
        ...     def __init__(self):
        ...         self.begin()
        ...         renew_in_children(self.begin)
        ...     def begin(self):
        ...         self.prefix = secrets.token_hex(4)
        >>> names = Names()
    """
    find: _Find = WeakMethod(renew, _forget) if inspect.ismethod(renew) else lambda: renew
    _renewals[id(find)] = find


# Each operation of a dictionary is one step, so no lock is needed here, which a fork could leave held.
def _forget(find: _Find) -> None:
    _renewals.pop(id(find), None)


def _renew() -> None:
    for find in tuple(_renewals.values()):
        renew = find()
        if renew is not None:
            renew()


if hasattr(os, "register_at_fork"):  # elsewhere no process is forked
    os.register_at_fork(after_in_child=_renew)
