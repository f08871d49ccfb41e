"""A log line for every transition (debug) and for the end of every invocation (info; warning if it failed).

No line carries arguments or results, so none can carry a secret.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog

from ..attempt import Attempt
from ..invocation import ToolInvocation
from ..lifecycle import Row


def engine_logger() -> Any:
    """The engine's logger, bound when the engine is made.

    Where structlog has not been configured, lines go to the standard library's logger `fsm_engine`, as those of a
    library should: warnings are seen, the rest only by who asks for it.
    """
    if structlog.is_configured():
        return EngineLogger(structlog.get_logger("fsm_engine").bind())
    return EngineLogger(
        structlog.wrap_logger(
            logging.getLogger("fsm_engine"),
            wrapper_class=structlog.stdlib.BoundLogger,
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.stdlib.add_log_level,
                structlog.processors.KeyValueRenderer(key_order=["event"]),
            ],
        ).bind()
    )


class EngineLogger:
    """A structlog logger that watches and can break nothing: a line that cannot be written is lost."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def debug(self, event: str, **facts: Any) -> None:
        """Write a line of this level."""
        with suppress(Exception):
            self._logger.debug(event, **facts)

    def info(self, event: str, **facts: Any) -> None:
        """Write a line of this level."""
        with suppress(Exception):
            self._logger.info(event, **facts)

    def warning(self, event: str, **facts: Any) -> None:
        """Write a line of this level."""
        with suppress(Exception):
            self._logger.warning(event, **facts)

    def error(self, event: str, **facts: Any) -> None:
        """Write a line of this level."""
        with suppress(Exception):
            self._logger.error(event, **facts)


def log_transition(logger: Any, is_enabled: Callable[[int], bool], invocation: ToolInvocation, row: Row) -> None:
    """A line for the transition, if anybody wants it, and one for the end of the invocation."""
    if is_enabled(logging.DEBUG):
        _log_move(logger, invocation, row)
    if invocation.ended_at is not None:
        _log_end(logger, is_enabled, invocation)


def level_check(logger: Any) -> Callable[[int], bool]:
    """The function that says whether a logger writes lines of a level."""
    # structlog's own filtering loggers and those that wrap the standard library spell it differently; others may not
    # know levels at all and get every line.
    for name in ("is_enabled_for", "isEnabledFor"):
        check: Callable[[int], bool] | None = getattr(logger, name, None)
        if callable(check):
            return check
    return lambda level: True


def _log_move(logger: Any, invocation: ToolInvocation, row: Row) -> None:
    logger.debug(
        "transition",
        tool=invocation.tool_name,
        call_id=invocation.id,
        uid=invocation.uid,
        source=row.source,
        trigger=row.trigger,
        guard=row.guard,
        dest=row.dest,
        attempt=len(invocation.attempts),
        elapsed_ms=round((invocation.moves[-1][1] - invocation.started_at) * 1000, 3),
    )


def _log_end(logger: Any, is_enabled: Callable[[int], bool], invocation: ToolInvocation) -> None:
    error = invocation.error
    if not is_enabled(logging.INFO if error is None else logging.WARNING):
        return
    facts: dict[str, Any] = {
        "tool": invocation.tool_name,
        "version": invocation.spec.version if invocation.spec else None,
        "call_id": invocation.id,
        "uid": invocation.uid,
        "state": invocation.state,
        "attempts": len(invocation.attempts),
        "time_ms": round(((invocation.ended_at or 0.0) - invocation.started_at) * 1000, 3),
    }
    if error is None:
        logger.info("tool call ended", **facts)
    else:
        facts |= {"code": error.code, "reason": error.reason, "exception_type": error.exception_type}
        logger.warning("tool call failed", detail=error.detail, **facts)


def log_late_result(logger: Any, attempt: Attempt, error: BaseException | None) -> None:
    """A function that nobody waited for any more has ended; what it came to is dropped."""
    invocation = attempt.invocation
    logger.warning(
        "late_result_discarded",
        tool=invocation.tool_name,
        call_id=invocation.id,
        uid=invocation.uid,
        attempt=attempt.number,
        late_s=round(invocation.clock.monotonic() - (attempt.ended_at or attempt.started_at), 3),
        exception_type=None if error is None else type(error).__name__,
    )
