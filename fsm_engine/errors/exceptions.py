"""The exceptions of the engine."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Final, NamedTuple

from ..jsonable.jsonable import to_jsonable
from ..jsonable.redaction import exception_text, redact, redact_mapping, short_name
from ..jsonable.strict import json_text
from .codes import SAID_NOTHING, CodeFacts, Effect, ErrorCategory, ToolErrorCode, code_facts, code_text
from .http_clients import client_code, read_attribute, read_http, status_code
from .issue import Issue
from .traces import leaves, trace_text

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
_MEMBER_LIMIT: Final = 500
_MEMBERS_NAMED: Final = 5
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
    fsm_engine.errors.exceptions.ToolError: CONFLICT: Order 7 is already shipped; ask for a return instead.
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

    A :class:`ToolError` speaks for itself. An HTTP client's exception is judged by its status (found without
    importing the client), else by its kind: connect and read timeouts, connection errors. Then come the built-in
    exceptions. Everything else is ``EXECUTION_ERROR``, a ``ValueError`` too: it speaks of the tool, not of the
    arguments. A group is judged by its members, at any depth: their code if they agree, else that of the one that
    gives the least hope; its message names them.

    `now`: wall time in seconds since the epoch, against which a ``Retry-After`` date is read; without it only the
    form in seconds is understood.

    >>> classify(FileNotFoundError(2, "No such file or directory", "a.txt")).code
    'NOT_FOUND'
    >>> classify(RuntimeError("password=hunter2")).message
    'RuntimeError: password=***'
    >>> classify(ExceptionGroup("both", [ConnectionError("north"), ConnectionError("south")])).message
    '2 failures at once: ConnectionError: north; ConnectionError: south'
    """
    try:
        members = [_deliberate(each) if isinstance(each, ToolError) else _judged(each, now) for each in leaves(exc)]
        found = members[0] if len(members) == 1 else _together(members)
        answers = "".join(member.detail for member in members[:_MEMBERS_NAMED])
        return found._replace(detail=trace_text(exc) + answers)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 # an exception class of a tool may be hostile in its every attribute
        code, name = ToolErrorCode.EXECUTION_ERROR, short_name(exc)
        return Classified(code.value, name, code.transient, code.counts, None, None, name, name, None, None, ())


def _judged(exc: BaseException, now: float | None) -> Classified:
    """What its kind says; `detail` is the service's answer, if there was one."""
    http = read_http(exc, now)
    if http is not None:
        code, refused = status_code(http.status)
        reason, retry_after, answer = f"http_{http.status}", http.retry_after, f"\nHTTP {http.status}: {http.body}"
    else:
        code, refused, reason, retry_after, answer = client_code(exc), False, None, None, ""
    text = exception_text(exc)
    name = short_name(exc)
    return Classified(
        code=code.value,
        message=f"{name}: {text}" if text else name,
        transient=code.transient and not refused,
        counts=code.counts and not refused,
        retry_after=retry_after,
        reason=reason,
        exception_type=name,
        detail=answer,
        data=None,
        effect=None,
        issues=(),
    )


def _deliberate(exc: ToolError) -> Classified:
    """The tool's own words. What it put into the fields may be anything; what comes out is well typed."""
    code = code_text(_text(read_attribute(exc, "code"))) or ToolErrorCode.EXECUTION_ERROR.value
    facts = code_facts(code)
    transient, counts, effect = (read_attribute(exc, name) for name in ("transient", "counts", "effect"))
    issues = read_attribute(exc, "issues")
    return Classified(
        code=code,
        message=_said(read_attribute(exc, "message")) or _said(exc.args[-1] if exc.args else None) or SAID_NOTHING,
        transient=transient if isinstance(transient, bool) else facts.transient,
        counts=counts if isinstance(counts, bool) else facts.counts,
        retry_after=_seconds(read_attribute(exc, "retry_after")),
        reason=_text(read_attribute(exc, "reason")) or None,
        exception_type=short_name(exc),
        detail="",
        data=read_attribute(exc, "data"),
        effect=Effect(effect) if isinstance(effect, str) and effect in _EFFECTS else None,
        issues=tuple(each for each in issues if isinstance(each, Issue)) if isinstance(issues, list | tuple) else (),
    )


def _together(members: list[Classified]) -> Classified:
    """Several failures as one: the code that they share, else the one that gives the least hope."""
    worst = min(members, key=lambda each: (each.transient, not each.counts))
    waits = [each.retry_after for each in members if each.retry_after is not None]
    effects = [each.effect for each in members]
    named = Counter(each.message[:_MEMBER_LIMIT] for each in members)
    listing = "; ".join(
        text if count == 1 else f"{text} ({count} times)" for text, count in list(named.items())[:_MEMBERS_NAMED]
    )
    more = f" (and {len(named) - _MEMBERS_NAMED} other failures)" if len(named) > _MEMBERS_NAMED else ""
    return worst._replace(
        message=f"{len(members)} failures at once: {listing}{more}",
        counts=any(each.counts for each in members),
        retry_after=max(waits, default=None),
        effect=next((effect for effect in (Effect.DONE, Effect.UNKNOWN) if effect in effects), None)
        or (Effect.NONE if set(effects) == {Effect.NONE} else None),
        reason=_agreed([each.reason for each in members]),
        exception_type=_agreed([each.exception_type for each in members]) or "ExceptionGroup",
        issues=tuple(issue for each in members for issue in each.issues),
    )


def _agreed(texts: list[str | None]) -> str | None:
    return texts[0] if len(set(texts)) == 1 else None


def _text(value: object) -> str:
    return str.__str__(value) if isinstance(value, str) else ""


def _said(value: object) -> str:
    """The words that a tool has put where a text should be: text as it is, anything else that is JSON as JSON."""
    if isinstance(value, str):
        text = _text(value)
    else:
        data, lossy, _ = to_jsonable(value)
        text = "" if data is None or lossy else json_text(redact_mapping(data))
    return redact(text[:_DELIBERATE_LIMIT]) if text.strip() else ""


def _seconds(value: object) -> float | None:
    try:
        seconds = float(value) if isinstance(value, int | float) else -1.0
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
