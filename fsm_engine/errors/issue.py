"""One failed check of a call, in a form that a model and a program can act on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..jsonable.jsonable import clean_text, to_jsonable
from ..jsonable.strict import JsonValue

__all__ = ["Issue"]


@dataclass(frozen=True, slots=True)
class Issue:
    """What one check found.

    `reason`: machine-readable, such as ``"invalid_warehouse"``. `path`: where, readable (``items[0].sku``; empty: the whole).
    `rule`: the rule that was broken, such as ``"enum"``. `message`: for the model; never the value that was given.
    `allowed`: what the rule allows, as a JSON value.

    Raises:
        TypeError: A field other than `allowed` is no text.

    >>> Issue("invalid_warehouse", "warehouse", "enum", "There is no such warehouse.", ["north", "south"])
    Issue(reason='invalid_warehouse', path='warehouse', rule='enum', message='There is no such warehouse.', allowed=['north', 'south'])
    """

    reason: str
    path: str = ""
    rule: str | None = None
    message: str = ""
    allowed: JsonValue = field(default=None, hash=False)

    def __post_init__(self) -> None:
        for name in ("reason", "path", "message"):
            object.__setattr__(self, name, clean_text(getattr(self, name), name))
        if self.rule is not None:
            object.__setattr__(self, "rule", clean_text(self.rule, "rule"))
        object.__setattr__(self, "allowed", to_jsonable(self.allowed).value)

    def to_dict(self) -> dict[str, JsonValue]:
        """The fields as a JSON object."""
        return {
            "reason": self.reason,
            "path": self.path,
            "rule": self.rule,
            "message": self.message,
            "allowed": self.allowed,
        }

    @classmethod
    def from_dict(cls, source: Mapping[str, Any]) -> Issue:
        """The issue that :meth:`to_dict` wrote."""
        return cls(**source)
