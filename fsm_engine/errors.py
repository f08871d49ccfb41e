"""What can go wrong: the exceptions of the engine, the codes of a response, and how an exception gets its code.

The exceptions::

    Exception
    └── FsmEngineError                 root of all
        ├── ConfigurationError         a wrong set-up, refused when it is made (also a ValueError)
        │   ├── LifecycleError         an unsound lifecycle
        │   ├── SchemaError            a schema that is wrong, or that cannot be checked safely
        │   └── RegistrationError      a tool that cannot be registered
        ├── TransitionRefusedError     no row of the lifecycle allows the trigger; nothing has changed
        ├── ReentrantTransitionError   a trigger was fired while another one was being fired
        ├── EngineClosedError          the engine takes no more calls
        └── ToolError                  raised by a tool on purpose, with a code
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ._client_errors import client_code, read_http, status_code
from ._codes import CodeFacts, Effect, ErrorCategory, ToolErrorCode, code_facts
from ._issue import Issue
from .redaction import exception_text, qualified_name, redact, short_name

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Classified",
    "CodeFacts",
    "ConfigurationError",
    "Effect",
    "EngineClosedError",
    "ErrorCategory",
    "FsmEngineError",
    "Issue",
    "LifecycleError",
    "ReentrantTransitionError",
    "RegistrationError",
    "SchemaError",
    "ToolError",
    "ToolErrorCode",
    "TransitionRefusedError",
    "classify",
    "code_facts",
]

_DELIBERATE_LIMIT: Final = 4_000
_DETAIL_LIMIT: Final = 8_000
_CHAIN_LIMIT: Final = 5
_FRAMES_SHOWN: Final = 4
_EFFECTS: Final = frozenset(Effect)


class FsmEngineError(Exception):
    """Root of every exception that the engine defines."""


class ConfigurationError(FsmEngineError, ValueError):
    """A wrong set-up: said when it is made, never when it is first used."""


class LifecycleError(ConfigurationError):
    """A lifecycle that is not sound, such as one with a state that cannot be reached."""


class SchemaError(ConfigurationError):
    """A JSON Schema that is wrong, or that cannot be checked safely."""


class RegistrationError(ConfigurationError):
    """A tool that cannot be registered, such as one whose name is taken."""


class TransitionRefusedError(FsmEngineError):
    """No row of the lifecycle lets `trigger` leave `state`; the model is as it was.

    `allowed`: the triggers that the state has rows for. `guards`: those of the rows that were tried; none passed.
    """

    def __init__(self, state: str, trigger: str, allowed: tuple[str, ...] = (), guards: tuple[str, ...] = ()) -> None:
        super().__init__(state, trigger, allowed, guards)  # all arguments, so that the exception can be pickled
        self.state = state
        self.trigger = trigger
        self.allowed = allowed
        self.guards = guards

    def __str__(self) -> str:
        if self.guards:
            return f"{self.trigger!r} leads nowhere in state {self.state!r}: no guard passed ({', '.join(self.guards)})"
        allowed = ", ".join(self.allowed) or "nothing, it is final"
        return f"{self.trigger!r} is not allowed in state {self.state!r}; allowed is {allowed}"


class ReentrantTransitionError(FsmEngineError):
    """A trigger was fired from within another one: hooks may ask for a move, never make it."""


class EngineClosedError(FsmEngineError):
    """The engine was closed and takes no more calls."""


class ToolError(FsmEngineError):
    """Raise it in a tool to fail with a code and a message that the model can act on.

    `code`: one of :class:`ToolErrorCode`, or a string of the tool's own. `message`: for the model.
    `reason`: machine-readable, such as ``"invalid_warehouse"``. `data`: any value, kept as JSON.
    `retry_after`: seconds. `transient`, `counts`: ``None`` takes what the code says (:func:`code_facts`).
    `effect`: what the tool knows about it; ``None`` leaves the judgement to the engine.
    `issues`: one :class:`Issue` for each check that failed.

    >>> raise ToolError("CONFLICT", "Order 7 is already shipped; ask for a return instead.", reason="shipped")
    Traceback (most recent call last):
    fsm_engine.errors.ToolError: CONFLICT: Order 7 is already shipped; ask for a return instead.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        reason: str | None = None,
        data: Any = None,
        retry_after: float | None = None,
        transient: bool | None = None,
        counts: bool | None = None,
        effect: Effect | None = None,
        issues: tuple[Issue, ...] = (),
    ) -> None:
        super().__init__(code, message)  # the rest is in __dict__, which pickle restores
        self.code = code
        self.message = message
        self.reason = reason
        self.data = data
        self.retry_after = retry_after
        self.transient = transient
        self.counts = counts
        self.effect = effect
        self.issues = issues

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Classified(NamedTuple):
    """What an exception says about a failed call. `message` is for the model, `detail` for the operator only.

    `effect` is what the tool itself said. It is never guessed from the kind of the exception: a refused connection
    says nothing about the request that the same tool had made before it.
    """

    code: str
    message: str
    transient: bool
    counts: bool
    retry_after: float | None
    reason: str | None
    exception_type: str
    detail: str
    data: Any
    effect: Effect | None
    issues: tuple[Issue, ...]


def classify(exc: BaseException, *, now: float | None = None) -> Classified:
    """The most precise code for `exc`, with one text for the model and one for the operator. Never raises.

    A :class:`ToolError` speaks for itself, a group of one exception for that one. An HTTP client's exception is judged
    by its status (found without importing the client), else by its kind: connect and read timeouts, connection
    errors. Then come the built-in exceptions. Everything else is ``EXECUTION_ERROR``, a ``ValueError`` too: it speaks
    of the tool, not of the arguments.

    `now`: wall time in seconds since the epoch, against which a ``Retry-After`` date is read; without it only the
    form in seconds is understood.

    >>> classify(FileNotFoundError(2, "No such file or directory", "a.txt")).code
    'NOT_FOUND'
    >>> classify(RuntimeError("password=hunter2")).message
    'RuntimeError: password=***'
    """
    try:
        exc = _only_member(exc)
        return _deliberate(exc) if isinstance(exc, ToolError) else _judged(exc, now)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 # an exception class of a tool may be hostile in its every attribute
        code, name = ToolErrorCode.EXECUTION_ERROR, short_name(exc)
        return Classified(code.value, name, code.transient, code.counts, None, None, name, name, None, None, ())


def _judged(exc: BaseException, now: float | None) -> Classified:
    http = read_http(exc, now)
    if http is not None:
        code, refused = status_code(http.status)
        reason, retry_after, extra = f"http_{http.status}", http.retry_after, f"\nHTTP {http.status}: {http.body}"
    else:
        code, refused, reason, retry_after, extra = client_code(exc), False, None, None, ""
    facts = code_facts(code)
    text = exception_text(exc)
    name = short_name(exc)
    return Classified(
        code=code.value,
        message=f"{name}: {text}" if text else name,
        transient=facts.transient and not refused,
        counts=facts.counts and not refused,
        retry_after=retry_after,
        reason=reason,
        exception_type=name,
        detail=_detail(exc) + extra,
        data=None,
        effect=None,
        issues=(),
    )


def _only_member(exc: BaseException) -> BaseException:
    for _ in range(_CHAIN_LIMIT):
        if not isinstance(exc, BaseExceptionGroup) or len(exc.exceptions) != 1:
            break
        exc = exc.exceptions[0]
    return exc


def _deliberate(exc: ToolError) -> Classified:
    """The tool's own words. What it put into the fields may be anything; what comes out is well typed."""
    given: dict[str, Any] = vars(exc)
    code = _text(given.get("code")).strip() or ToolErrorCode.EXECUTION_ERROR.value
    facts = code_facts(code)
    transient, counts, effect = given.get("transient"), given.get("counts"), given.get("effect")
    return Classified(
        code=code,
        message=redact(_text(given.get("message"))[:_DELIBERATE_LIMIT]),
        transient=transient if isinstance(transient, bool) else facts.transient,
        counts=counts if isinstance(counts, bool) else facts.counts,
        retry_after=_seconds(given.get("retry_after")),
        reason=_text(given.get("reason")) or None,
        exception_type=short_name(exc),
        detail=_detail(exc),
        data=given.get("data"),
        effect=Effect(effect) if isinstance(effect, str) and effect in _EFFECTS else None,
        issues=tuple(issue for issue in given.get("issues", ()) if isinstance(issue, Issue)),
    )


def _text(value: object) -> str:
    return str.__str__(value) if isinstance(value, str) else ""


def _seconds(value: object) -> float | None:
    try:
        seconds = float(value) if isinstance(value, int | float) else -1.0
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _detail(exc: BaseException) -> str:
    """The chain of causes with the innermost places in the code: what an operator needs to find the fault."""
    return "\n".join(_chain(exc))[:_DETAIL_LIMIT]


def _chain(exc: BaseException) -> Iterator[str]:
    link: BaseException | None = exc
    for _ in range(_CHAIN_LIMIT):
        if link is None:
            return
        yield f"{qualified_name(link)}: {exception_text(link, _DELIBERATE_LIMIT)}"
        yield from _places(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _places(exc: BaseException) -> Iterator[str]:
    places: list[str] = []
    trace = exc.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"  at {code.co_filename}:{trace.tb_lineno} in {code.co_name}")
        trace = trace.tb_next
    if len(places) > 2 * _FRAMES_SHOWN:  # the tool is at the outer end, the fault at the inner one
        places[_FRAMES_SHOWN:-_FRAMES_SHOWN] = ["  ..."]
    yield from places
