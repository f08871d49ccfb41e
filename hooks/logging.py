"""A log line for every transition (debug) and for the end of every invocation (info; warning if it failed).

No line carries arguments or results, so none can carry a secret.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors.issue import Issue
from ..invocation.attempt import Attempt
from ..invocation.invocation import ToolInvocation
from ..machine.lifecycle import Row
from ..states.invocation import ToolState
from ..tools.spec import ToolSpec

_ISSUES_SHOWN = 5


class Levels:
    """Which levels a logger writes.

    Those of structlog's own filtering loggers are fixed when they are made, so they are asked once; the standard
    library's may change at any time; other loggers may not know levels at all, and get every line.

    Attributes:
        is_debug: whether transitions are logged now; `None`: they never are.
    """

    def __init__(self, logger: Any) -> None:
        is_enabled: Callable[[int], bool] | None = getattr(logger, "isEnabledFor", None)
        if is_enabled is None:
            fixed = getattr(logger, "is_enabled_for", _always)
            answers = {level: bool(fixed(level)) for level in (logging.DEBUG, logging.INFO, logging.WARNING)}
            is_enabled = answers.__getitem__
        self.is_enabled = is_enabled
        self.is_debug: Callable[[], bool] | None = partial(is_enabled, logging.DEBUG)
        if not hasattr(logger, "isEnabledFor") and not self.is_debug():
            self.is_debug = None


def _always(level: int) -> bool:
    return True


def log_transition(logger: Any, invocation: ToolInvocation, row: Row) -> None:
    """A line for a transition; one away from a failed attempt says what it failed with, also if another one follows."""
    error = invocation.error if row.source == ToolState.EXECUTING and invocation.ended_at is None else None
    failure = {} if error is None else {"code": error.code, "detail": error.detail}
    logger.debug(
        "transition",
        tool=invocation.tool_name,
        version=invocation.spec.version if invocation.spec else None,
        call_id=invocation.id,
        uid=invocation.uid,
        source=row.source,
        trigger=row.trigger,
        guard=row.guard,
        dest=row.dest,
        attempt=len(invocation.attempts),
        elapsed_ms=round((invocation.moves[-1][1] - invocation.started_at) * 1000, 3),
        **failure,
    )


def log_end(logger: Any, levels: Levels, invocation: ToolInvocation) -> None:
    """A line for the end of an invocation."""
    response = invocation.response
    error = None if response is None else response.error_info
    # A model's wrong arguments are its everyday business; what counts against a circuit is the operator's.
    is_warning = error is not None and error.counts
    if not levels.is_enabled(logging.WARNING if is_warning else logging.INFO):
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
        if error.issues:
            facts["issues"] = _in_brief(error.issues)
        # Of a call that was refused for its arguments, the frames would be the engine's own.
        detail = error.detail if is_warning or invocation.attempts or not error.issues else ""
        (logger.warning if is_warning else logger.info)("tool call failed", detail=detail, **facts)


def _in_brief(issues: tuple[Issue, ...]) -> str:
    """Path and rule of the first checks that failed; the message is the model's."""
    brief = [f"{issue.path or 'top level'} ({issue.rule or issue.reason})" for issue in issues[:_ISSUES_SHOWN]]
    return ", ".join(brief) + (f" and {len(issues) - _ISSUES_SHOWN} more" if len(issues) > _ISSUES_SHOWN else "")


def say_what_was_hardly_meant(logger: Any, spec: ToolSpec) -> None:
    """Lines for a tool that works, but not as its author most likely thinks. Said when it is registered."""
    retries = spec.retry_policy.max_retries
    if retries and not spec.is_repeatable:
        logger.warning(
            "max_retries does little here: a failed attempt may have taken effect, so it is repeated only if its error says "
            'that it has not (effect="none"); mark the tool read_only=True or idempotent=True if a second one does no harm',
            tool=spec.name,
            version=spec.version,
            max_retries=retries,
        )
    if spec.lint and (missing := spec.unexplained):
        logger.warning(
            "the model is told too little of this tool to use it well; say it in the docstring and the type hints, or "
            "lint=False if that is all there is to say",
            tool=spec.name,
            version=spec.version,
            missing=missing,
        )


def log_late_result(logger: Any, attempt: Attempt, error: BaseException | None) -> None:
    """A function that nobody waited for any more has ended; what it came to is dropped."""
    invocation = attempt.invocation
    logger.warning(
        "late_result_discarded",
        tool=invocation.tool_name,
        version=invocation.spec.version if invocation.spec else None,
        call_id=invocation.id,
        uid=invocation.uid,
        attempt=attempt.number,
        late_s=round(invocation.clock.monotonic() - (attempt.ended_at or attempt.started_at), 3),
        exception_type=None if error is None else type(error).__name__,
    )
