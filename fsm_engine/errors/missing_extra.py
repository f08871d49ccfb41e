"""What a part of the package says that needs packages which are not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["needed_by"]


@contextmanager
def needed_by(part: str, extra: str) -> Iterator[None]:
    """What is imported in this block comes with an extra; if something is missing, the error says with which.

    Args:
        part: what needs it, in the words of whoever imports it.
        extra: of this package.

    Raises:
        ModuleNotFoundError: one of the packages is not installed; `name` is that of the module, as always.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "fsm_engine":
            raise
        raise ModuleNotFoundError(
            f"{part} needs {error.name}, which is not installed: install this package with its extra `{extra}`",
            name=error.name,
        ) from error
