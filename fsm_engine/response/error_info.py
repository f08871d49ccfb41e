"""What went wrong with a call, for the model, for programs, and for the operator."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ..errors.codes import SAID_NOTHING, Effect, code_facts, code_text
from ..errors.issue import Issue
from ..jsonable.jsonable import clean_text
from ..jsonable.strict import JsonValue

__all__ = ["ErrorInfo"]


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """What went wrong.

    `code`: a `ToolErrorCode` or a tool's own, kept as text. `message`: for the model. `reason`: machine-readable.
    `issues`: one for each failed check. `exception_type`: the bare name of the exception's class.
    `retry_after`: seconds. `effect`: what is known about the effect; ``None`` where nobody has said.
    `transient`, `counts`: ``None`` takes what the code says. `detail`: the operator's text, redacted; it is in no
    dictionary, model text, comparison or `repr`.

    Raises:
        TypeError, ValueError: A field has the wrong type or is out of range.

    >>> ErrorInfo("TIMEOUT", "No answer within 5 seconds.").transient
    True
    """

    code: str
    message: str
    reason: str | None = None
    issues: tuple[Issue, ...] = ()
    exception_type: str | None = None
    retry_after: float | None = None
    effect: Effect | None = None
    transient: bool = cast("bool", None)  # until __post_init__, which asks the code
    counts: bool = cast("bool", None)
    detail: str = field(default="", compare=False, repr=False, metadata={"jsonable": False})

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "code", code_text(clean_text(self.code, "code")))
        if not self.code:
            raise ValueError("code must not be empty")
        put(self, "message", clean_text(self.message, "message") or SAID_NOTHING)
        put(self, "detail", clean_text(self.detail, "detail"))
        for name in ("reason", "exception_type"):
            value = getattr(self, name)
            put(self, name, None if value is None else clean_text(value, name))
        put(self, "issues", tuple(self.issues))
        if not all(isinstance(issue, Issue) for issue in self.issues):
            raise TypeError("issues must be Issue objects")
        put(self, "effect", None if self.effect is None else Effect(self.effect))
        put(self, "retry_after", _seconds(self.retry_after))
        facts = code_facts(self.code)
        for name in ("transient", "counts"):
            said = getattr(self, name)
            put(self, name, getattr(facts, name) if said is None else bool(said))

    def to_dict(self) -> dict[str, JsonValue]:
        """The fields as a JSON object, without the operator's text."""
        return {
            "code": self.code,
            "message": self.message,
            "reason": self.reason,
            "issues": [issue.to_dict() for issue in self.issues],
            "exception_type": self.exception_type,
            "retry_after": self.retry_after,
            "effect": None if self.effect is None else self.effect.value,
            "transient": self.transient,
            "counts": self.counts,
        }

    @classmethod
    def from_dict(cls, source: Mapping[str, Any]) -> ErrorInfo:
        """The error that :meth:`to_dict` wrote."""
        return cls(**{**source, "issues": tuple(map(Issue.from_dict, source["issues"]))})


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and 0 <= value <= sys.float_info.max:
        return float(value)
    raise ValueError("retry_after must be a finite number of seconds, 0 or more")
