"""Run a tool's function in another process, and tell what became of it there."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any

from anyio import BrokenWorkerProcess, CapacityLimiter, to_process

from ..errors.codes import Effect, ToolErrorCode
from ..errors.exceptions import ConfigurationError, ToolError


async def run_in_process(func: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function in a worker process, which is killed if nobody waits any more.

    Raises:
        ToolError: the process died (`worker_died`); it may have acted before.
        ConfigurationError: the worker could not load the main script.
        BaseException: what the function raised.
    """
    # The engine has taken a slot already, and holds it for as long as the function runs; anyio's own limiter would
    # give its place back as soon as nobody waits.
    limiter = CapacityLimiter(float("inf"))
    try:
        result = await to_process.run_sync(
            partial(_answer, Shipped(func), arguments), cancellable=True, limiter=limiter
        )
    except BrokenWorkerProcess as error:
        raise _explained(error) from error
    if isinstance(result, _Raised):
        raise result.error
    return result


class _Raised:
    """What a function raised in a worker. As a result, since a worker that raises `SystemExit` itself is gone."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _answer(call: Shipped, arguments: Mapping[str, Any]) -> Any:
    """What the worker does."""
    try:
        return call(**arguments)
    except BaseException as error:  # noqa: BLE001 # whatever it is, it is the function's outcome
        return _Raised(_portable(error))


def _portable(error: BaseException) -> BaseException:
    """An exception that arrives: one that cannot be pickled, or not be made again of its pickle, is told by its words."""
    words = f"{type(error).__name__}: {error}"
    if not isinstance(error, Exception | SystemExit):  # a KeyboardInterrupt of the worker's is none of the program's
        return RuntimeError(words)
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 # made a moment ago, by this very process
    except Exception:  # noqa: BLE001 # classes of the user's may raise anything here
        return RuntimeError(words)
    return error


def _explained(error: BrokenWorkerProcess) -> Exception:
    if error.__cause__ is not None and isinstance(error.__cause__, ConfigurationError):
        return error.__cause__
    if error.args:  # not even begun
        return ConfigurationError(
            f"no worker process could be started: {type(error.__cause__).__name__}: {error.__cause__}. A worker imports "
            "the main script first, so that must do nothing but define things, save under `if __name__ == '__main__':`"
        )
    return ToolError(
        ToolErrorCode.EXECUTION_ERROR,
        "The process that ran the tool ended before it had answered (killed, out of memory, or a crash of native code).",
        reason="worker_died",
        transient=True,
        effect=Effect.UNKNOWN,
    )


def refuse_while_a_worker_imports() -> None:
    """Refuse to work for a script that a worker process is just importing.

    Raises:
        ConfigurationError: a worker does; the words reach the call that it was started for.
    """
    if "__mp_main__" in sys.modules and "__main__" not in sys.modules:
        raise ConfigurationError(
            "a worker process imports the main script, and that calls tools as it is imported, so it would run twice; "
            "put what the script does under `if __name__ == '__main__':`"
        )


class Shipped:
    """A function on its way into another process, where its name may stand for what `@tool` has made of it."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def __call__(self, **arguments: Any) -> Any:
        """Call it."""
        return self.func(**arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        module, name = getattr(self.func, "__module__", None), getattr(self.func, "__qualname__", "")
        if module is not None and getattr(named(module, name), "func", None) is self.func:
            return _shipped_by_name, (module, name)
        return Shipped, (self.func,)  # pickle says what is wrong with it, if anything is


def named(module: str, name: str) -> Any:
    """What a module has under a name, dots and all; `None`: nothing."""
    try:
        return attrgetter(name)(import_module(module))
    except (AttributeError, ImportError):  # a local function, say
        return None


def _shipped_by_name(module: str, name: str) -> Shipped:
    return Shipped(named(module, name).func)
