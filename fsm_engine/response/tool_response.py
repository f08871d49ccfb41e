"""The class of all responses, and how one is put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias, cast

from ..errors.codes import Effect, code_facts
from ..errors.exceptions import classify
from ..errors.issue import Issue
from ..jsonable.jsonable import (
    MAX_DEPTH,
    MAX_SIZE,
    NOT_PLAIN,
    clean_text,
    copy_plain,
    normalise,
    to_jsonable,
    without_nul,
)
from ..jsonable.strict import JsonValue, json_text
from ..jsonable.truncation import shorten, shorten_json
from .content import Attachment, attachments, in_words, is_address, read_data, shown
from .error_info import ErrorInfo
from .model_text import LOSSY, approval_text, error_text, partial_text

__all__ = ["Facts", "ToolResponse", "ToolStatus", "build", "complete_later", "completed", "fill"]

Facts: TypeAlias = Mapping[str, Any]

_EMPTY: Final = "(no output)"
ESCAPED_NUL: Final = "\\u0000"

BINARY: Final = "binary"
"""The reason of a partial result that holds nothing but what the model is not shown."""


class ToolStatus(StrEnum):
    """`PARTIAL` is usable with a discount: truncated, fallen back, stale."""

    SUCCESS = "success"
    PARTIAL = "partial"
    ERROR = "error"


# Looking a member up in its enum costs as much as filling three slots.
_SUCCESS: Final = ToolStatus.SUCCESS
_PARTIAL: Final = ToolStatus.PARTIAL
_ERROR: Final = ToolStatus.ERROR


class _Late:
    """Room for facts that are put together when somebody asks for them."""

    __slots__ = ("_late",)


@dataclass(frozen=True, slots=True)
class ToolResponse(_Late):
    """The result of one tool call. Make one with :meth:`success`, :meth:`partial` or :meth:`error`.

    `text`: what the model reads; empty text becomes the JSON text of `data`, of an error its message. Words stand in
    it for binary content, which `data` keeps (see `attachments`); if there is nothing else, the response is partial,
    with reason ``"binary"``. U+0000, which databases refuse, becomes U+FFFD.
    `data`: any value, kept as strict JSON (:mod:`fsm_engine.jsonable.jsonable`) in containers of its own.
    `error_info`: on an error, and only there. `reason`: why a result is partial, and only there.
    `stats`: ``time_ms``, ``attempts``, ``queue_ms`` and what else was measured. `context`: ``tool``, ``arguments``,
    ``call_id``, and ``approval``, if a person was asked.

    Data that cannot be represented never passes for a full success: the response is partial then, with reason
    ``"unserialisable"`` (``"truncated"`` if it was only too large or too deep), and ``stats["lossy"]`` has the paths.
    The containers are the response's own, and are meant to be read.

    Raises:
        TypeError, ValueError: A field has the wrong type, or does not go with the status.

    >>> ToolResponse.success(data={"sum": 5}).text
    '{"sum":5}'
    """

    status: ToolStatus
    text: str = ""
    data: JsonValue = None
    error_info: ErrorInfo | None = None
    stats: Mapping[str, JsonValue] = field(default_factory=dict)
    context: Mapping[str, JsonValue] = field(default_factory=dict)
    reason: str | None = None

    def __post_init__(self) -> None:
        status = ToolStatus(self.status)
        _check(status, self.error_info, self.reason)
        made = build(
            status,
            self.text,
            self.data,
            error_info=self.error_info,
            stats=self.stats,
            context=self.context,
            reason=self.reason,
        )
        for each in fields(self):
            object.__setattr__(self, each.name, getattr(made, each.name))

    def __hash__(self) -> int:
        return hash((self.status, self.text, self.reason, self.error_info))

    @classmethod
    def success(
        cls, text: str = "", data: Any = None, *, stats: Facts | None = None, context: Facts | None = None
    ) -> ToolResponse:
        """All went well. Without `text` the model reads the JSON text of `data`."""
        return build(_SUCCESS, text, data, stats=stats, context=context)

    @classmethod
    def partial(
        cls,
        text: str = "",
        data: Any = None,
        *,
        reason: str = "incomplete",
        stats: Facts | None = None,
        context: Facts | None = None,
    ) -> ToolResponse:
        r"""Usable with a discount; `reason` says why: ``"truncated"``, ``"stale"``, ``"circuit_breaker_open"``.

        >>> ToolResponse.partial("1.07e+301", reason="rounded").for_model()
        'This result is incomplete. Reason: rounded.\n1.07e+301'
        """
        return build(_PARTIAL, text, data, reason=reason, stats=stats, context=context)

    @classmethod
    def error(
        cls,
        code: str,
        message: str,
        data: Any = None,
        *,
        reason: str | None = None,
        issues: Iterable[Issue] = (),
        exception_type: str | None = None,
        retry_after: float | None = None,
        effect: Effect | None = None,
        transient: bool | None = None,
        counts: bool | None = None,
        detail: str = "",
        stats: Facts | None = None,
        context: Facts | None = None,
    ) -> ToolResponse:
        """The call failed; see :class:`ErrorInfo` for the fields.

        >>> ToolResponse.error("NOT_FOUND", "There is no order 7.").error_info.counts
        False
        """
        facts = code_facts(code)
        info = ErrorInfo(
            code=code,
            message=message,
            reason=reason,
            issues=tuple(issues),
            exception_type=exception_type,
            retry_after=retry_after,
            effect=effect,
            transient=facts.transient if transient is None else transient,
            counts=facts.counts if counts is None else counts,
            detail=detail,
        )
        return build(_ERROR, message, data, error_info=info, stats=stats, context=context)

    @classmethod
    def from_exception(
        cls,
        exc: BaseException,
        *,
        now: float | None = None,
        stats: Facts | None = None,
        context: Facts | None = None,
    ) -> ToolResponse:
        """The error that :func:`~fsm_engine.errors.classify` makes of an exception; `now` is wall time in seconds.

        >>> ToolResponse.from_exception(PermissionError(13, "Permission denied")).error_info.code
        'PERMISSION_DENIED'
        """
        return cls.error(**classify(exc, now=now)._asdict(), stats=stats, context=context)

    def with_facts(self, *, stats: Facts | None = None, context: Facts | None = None) -> ToolResponse:
        """A response with the entries of `stats` and `context` that this one lacks; what it says itself stays.

        >>> ToolResponse.success("ok", stats={"tokens": 3}).with_facts(stats={"tokens": 0, "time_ms": 1.5}).stats
        {'tokens': 3, 'time_ms': 1.5}
        """
        return completed(self, _facts(stats) if stats else {}, _facts(context) if context else {})

    def with_effect(self, effect: Effect) -> ToolResponse:
        """An error that says what is known of the effect, unless it says so already; any other response unchanged.

        >>> ToolResponse.error("TIMEOUT", "No answer.").with_effect(Effect.UNKNOWN).error_info.effect.value
        'unknown'
        """
        if self.error_info is None or self.error_info.effect is not None:
            return self
        return replace(self, error_info=replace(self.error_info, effect=effect))

    def for_model(self, limit: int | None = None) -> str:
        """What the model reads, in at most about `limit` characters of result (at least 100).

        Text loses its middle, JSON loses values; either way it says so, with the full size.
        """
        text = self.text or _EMPTY
        if self.error_info is not None:
            text = error_text(self.error_info)
        if limit is not None and len(text) > limit:
            is_json = self.error_info is None and self.data is not None and text == read_data(self.data)[0]
            text = shorten_json(shown(self.data), limit) if is_json else shorten(text, limit)
        if self.status is _PARTIAL:
            text = partial_text(text, self.reason, self.stats)
        approval = _approval_of(self)
        return text if approval is None else f"{text}{approval_text(approval)}"

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        r"""The binary content in `data` (bytes, content blocks, `data:` addresses), which the text only names.

        >>> ToolResponse.success(data=b"\x89PNG\r\n\x1a\n").attachments
        (Attachment(media_type='image/png', size=8),)
        """
        return attachments(self.data)

    def to_dict(self) -> dict[str, JsonValue]:
        """The response as a JSON object, without the operator's text. It shares the containers: read, do not change.

        >>> sorted(ToolResponse.success("ok").to_dict())
        ['context', 'data', 'error_info', 'reason', 'stats', 'status', 'text']
        """
        return {
            "status": self.status.value,
            "text": self.text,
            "data": self.data,
            "error_info": None if self.error_info is None else self.error_info.to_dict(),
            "stats": dict(self.stats),
            "context": dict(self.context),
            "reason": self.reason,
        }

    def to_json(self) -> str:
        """The JSON text of :meth:`to_dict`."""
        return json_text(self.to_dict())

    @classmethod
    def from_dict(cls, source: Mapping[str, Any]) -> ToolResponse:
        """The response that :meth:`to_dict` wrote: equal to it in every field but the operator's text.

        Raises:
            KeyError, TypeError, ValueError: The object is not one that :meth:`to_dict` writes.
        """
        status, info = ToolStatus(source["status"]), source["error_info"]
        error_info = None if info is None else ErrorInfo.from_dict(info)
        _check(status, error_info, source["reason"])
        return build(
            status,
            source["text"],
            source["data"],
            error_info=error_info,
            stats=source["stats"],
            context=source["context"],
            reason=source["reason"],
            # What was cut to size once must pass whole: marks of what was left out come on top of the size.
            max_size=2 * MAX_SIZE,
        )


def completed(response: ToolResponse, stats: dict[str, JsonValue], context: dict[str, JsonValue]) -> ToolResponse:
    """What :meth:`ToolResponse.with_facts` does, for the engine: strict JSON in new dictionaries, taken over as it is."""
    own_stats, own_context = response.stats, response.context
    return fill(
        response.status,
        response.text,
        response.data,
        response.error_info,
        {**stats, **own_stats} if own_stats else stats,
        {**context, **own_context} if own_context else context,
        response.reason,
    )


def complete_later(
    response: ToolResponse,
    facts: Callable[..., tuple[dict[str, JsonValue], dict[str, JsonValue]]],
    about: tuple[Any, ...],
) -> ToolResponse:
    """What :func:`completed` does, put off until somebody reads `stats` or `context`; the engine's own response is used up.

    Args:
        facts: makes stats and context, strict JSON in new dictionaries.
        about: its arguments; nothing that may change.
    """
    if response.stats or response.context:
        return completed(response, *facts(*about))
    _put_late(response, (facts, about))
    _drop_stats(response)
    _drop_context(response)
    return response


def _approval_of(response: ToolResponse) -> Mapping[str, Any] | None:
    """What was decided on the call. Context that was put off has none, and is not put together to find that out."""
    try:
        approval = _CONTEXT.__get__(response).get("approval")
    except AttributeError:
        return None
    return approval if isinstance(approval, Mapping) else None


def _check(status: ToolStatus, error_info: ErrorInfo | None, reason: str | None) -> None:
    if error_info is not None and not isinstance(error_info, ErrorInfo):
        raise TypeError(f"error_info must be an ErrorInfo, not {type(error_info).__name__}")
    if (status is _ERROR) != (error_info is not None):
        raise ValueError(f"error_info belongs to an error, always and only; the status is {status.value}")
    if reason is not None and status is not _PARTIAL:
        raise ValueError(f"reason says why a result is partial; the status is {status.value}")


def build(  # on the hot path, where keywords cost
    status: ToolStatus,
    text: str,
    data: Any,
    error_info: ErrorInfo | None = None,
    stats: Facts | None = None,
    context: Facts | None = None,
    reason: str | None = None,
    max_size: int = MAX_SIZE,
) -> ToolResponse:
    """Normalise the parts and put them together; whether they go together was seen to before."""
    try:
        plain = copy_plain(data, MAX_DEPTH, max_size)
    except NOT_PLAIN:
        plain, lossy, truncated = normalise(data, MAX_DEPTH, max_size)
        if lossy:
            stats = {**(stats or {}), LOSSY: list(lossy)}
            if status is _SUCCESS:
                status, reason = _PARTIAL, "truncated" if truncated else "unserialisable"
    if status is _PARTIAL:
        reason = clean_text(reason or "incomplete", "reason")
    text = clean_text(text, "text")
    if plain is not None and ESCAPED_NUL in json_text(plain):
        plain = without_nul(plain)
    if not text and error_info is not None:
        text = error_info.message
    elif text or plain is not None:
        text, plain, is_binary = _for_reading(text, plain)
        if is_binary and status is _SUCCESS:
            status, reason = _PARTIAL, BINARY
    return fill(
        status,
        text,
        plain,
        error_info,
        _facts(stats) if stats else {},
        _facts(context) if context else {},
        reason,
    )


def _for_reading(text: str, data: JsonValue) -> tuple[str, JsonValue, bool]:
    """Text and data, with words in the text for binary content that the data keeps; and whether there is nothing else."""
    if not text:
        text, is_binary = read_data(data)
        return text, data, is_binary
    words = in_words(text)
    if words == text or data is not None:
        return words, data, False
    return words, text, is_address(text)


def _facts(given: Facts) -> dict[str, JsonValue]:
    facts = to_jsonable(given).value
    if type(facts) is not dict:
        raise TypeError(f"stats and context must be mappings, not {type(given).__name__}")
    return facts


def fill(  # on the hot path, too
    status: ToolStatus,
    text: str,
    data: JsonValue,
    error_info: ErrorInfo | None,
    stats: Mapping[str, JsonValue],
    context: Mapping[str, JsonValue],
    reason: str | None,
) -> ToolResponse:
    """A response of parts that are known to be good."""
    made: Any = _Draft(status, text, data, error_info, stats, context, reason)
    made.__class__ = ToolResponse
    return cast("ToolResponse", made)


class _Draft(_Late):
    """A response that is still open for writing.

    A frozen dataclass assigns each field through `object.__setattr__`; to fill the same slots here and then change the
    class takes half the time.
    """

    __slots__ = tuple(each.name for each in fields(ToolResponse))

    def __init__(  # on the hot path, where keywords cost
        self,
        status: ToolStatus,
        text: str,
        data: JsonValue,
        error_info: ErrorInfo | None,
        stats: Mapping[str, JsonValue],
        context: Mapping[str, JsonValue],
        reason: str | None,
    ) -> None:
        self.status = status
        self.text = text
        self.data = data
        self.error_info = error_info
        self.stats = stats
        self.context = context
        self.reason = reason


def _late_slot(name: str) -> tuple[property, Any]:
    """A property over a slot that may be empty until somebody reads it, and the slot.

    A `__getattr__` would do the same, and would make every other attribute of a response slow to read.
    """
    slot = vars(ToolResponse)[name]

    def read(response: ToolResponse) -> Any:
        try:
            return slot.__get__(response)
        except AttributeError:  # `stats` or `context`, which most readers of a response never look at
            function, about = _LATE.__get__(response)
            for late, facts in zip((_STATS, _CONTEXT), function(*about), strict=True):
                late.__set__(response, facts)
            return slot.__get__(response)

    return property(read, slot.__set__), slot


_LATE: Final = vars(_Late)["_late"]
_put_late: Final = _LATE.__set__
_stats_property, _STATS = _late_slot("stats")
_context_property, _CONTEXT = _late_slot("context")
_drop_stats: Final = _STATS.__delete__
_drop_context: Final = _CONTEXT.__delete__
ToolResponse.stats = _stats_property  # type: ignore[assignment,misc]  # reads as before
ToolResponse.context = _context_property  # type: ignore[assignment,misc]  # reads as before
