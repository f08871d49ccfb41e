"""Log lines of parts that have no engine, and so no logger of its own.

structlog is imported when there is something to log: it brings rich along where that is installed, and would take a
quarter of the time that the package takes to import.
"""

from __future__ import annotations

from typing import Any


def log_fault(event: str, error: BaseException, **facts: Any) -> None:
    """Somebody else's function raised where it decides nothing; its type is told, its text may hold a secret."""
    _logger().error(event, exception_type=type(error).__name__, **facts)


def log_warning(event: str, **facts: Any) -> None:
    """Something that an operator should look at."""
    _logger().warning(event, **facts)


def _logger() -> Any:
    import structlog

    return structlog.get_logger("fsm_engine")
