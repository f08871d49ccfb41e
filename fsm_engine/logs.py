"""The engine's logger, how faults of watchers are told, and log lines of parts that have no engine.

structlog is imported when there is something to log: it brings rich along where that is installed, and would take a
quarter of the time that the package takes to import.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from .errors.traces import trace_text
from .jsonable.redaction import short_name


def engine_logger() -> Any:
    """The engine's logger, bound when the engine is made.

    Where structlog has not been configured, lines go to the standard library's logger `fsm_engine`, as those of a
    library should: warnings are seen, the rest only by who asks for it.
    """
    import structlog  # not before there is something to log

    if structlog.is_configured():
        return EngineLogger(structlog.get_logger("fsm_engine").bind())
    plain = logging.getLogger("fsm_engine")
    render = structlog.processors.KeyValueRenderer(key_order=["event"])

    def in_lines(logger: Any, method: str, facts: MutableMapping[str, Any]) -> str:
        """What is not empty on one line, and the frames of a fault on lines of their own below it."""
        detail = facts.pop("detail", None)
        line = str(render(logger, method, {name: fact for name, fact in facts.items() if fact not in (None, "")}))
        return "\n    ".join([line, *detail.splitlines()]) if isinstance(detail, str) else line

    return EngineLogger(
        structlog.wrap_logger(
            plain,
            wrapper_class=structlog.stdlib.BoundLogger,
            processors=[structlog.stdlib.filter_by_level, in_lines],
        ).bind(),
        plain.isEnabledFor,
    )


class EngineLogger:
    """A structlog logger that watches and can break nothing: a line that cannot be written is lost.

    Args:
        logger: a bound structlog logger.
        is_enabled: the standard library's `isEnabledFor` behind it, if there is one.
    """

    def __init__(self, logger: Any, is_enabled: Callable[[int], bool] | None = None) -> None:
        self._logger = logger
        if is_enabled is not None:
            self.isEnabledFor = is_enabled

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logger, name)

    def bind(self, **facts: Any) -> EngineLogger:
        """A logger that puts these facts into each of its lines."""
        return EngineLogger(self._logger.bind(**facts), getattr(self, "isEnabledFor", None))

    def debug(self, event: str, **facts: Any) -> None:
        """Write a line of this level."""
        self._write("debug", event, facts)

    def info(self, event: str, **facts: Any) -> None:
        """Write a line of this level."""
        self._write("info", event, facts)

    def warning(self, event: str, **facts: Any) -> None:
        """Write a line of this level."""
        self._write("warning", event, facts)

    def error(self, event: str, **facts: Any) -> None:
        """Write a line of this level."""
        self._write("error", event, facts)

    def _write(self, level: str, event: str, facts: Mapping[str, Any]) -> None:
        try:
            getattr(self._logger, level)(event, **facts)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 # a processor of log lines is a watcher: nothing is left to tell of it
            return


def tell_fault(logger: Any, event: str, error: BaseException, **facts: Any) -> None:
    """Log what somebody else's function raised where it decides nothing: the isolation of every kind of watcher.

    Hooks that watch, circuit listeners and storages, sinks of events, receivers of alerts and processors of log lines
    change nothing by what they raise, be it `SystemExit` or a `CancelledError`: none of them is awaited, so nobody can
    have cancelled it. Only a `KeyboardInterrupt` passes, which is the word of the person at the terminal. To be called
    in an `except BaseException` around the watcher.

    Args:
        logger: an `EngineLogger`.

    Raises:
        KeyboardInterrupt: it was one.
    """
    if isinstance(error, KeyboardInterrupt):
        raise error
    logger.error(event, exception_type=short_name(error), detail=trace_text(error), **facts)


def log_fault(event: str, error: BaseException, **facts: Any) -> None:
    """`tell_fault` of a part that has no logger of its own."""
    tell_fault(engine_logger(), event, error, **facts)


def log_warning(event: str, **facts: Any) -> None:
    """Something that an operator should look at."""
    engine_logger().warning(event, **facts)
