"""How a tool's name is written for a provider: each admits other letters, and all must lead back to the one tool.

A tool may have any name that MCP admits (`fs.read`). Where a provider takes no dots it is offered, called and kept in
history as `fs_read`; the registry knows both, and refuses a tool whose name, so written, is another's.

>>> OPENAI.legal("fs.read"), GEMINI.legal("fs.read"), GEMINI.legal("2fa")
('fs_read', 'fs.read', '_2fa')
>>> sorted(spellings("fs.read"))
['fs.read', 'fs_read']
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["ANTHROPIC", "GEMINI", "OPENAI", "NameRule", "spellings"]


class NameRule(NamedTuple):
    """What a provider admits as the name of a tool.

    Attributes:
        provider: whose rule it is, for texts.
        forbidden: a pattern of the letters that it does not take; each becomes `_`.
        longest: how many letters there may be.
        begins: a pattern that the name must begin with; where it does not, `_` is put before it.
    """

    provider: str
    forbidden: str
    longest: int
    begins: str = ""

    def legal(self, name: str) -> str:
        """The name as this provider takes it; the same for the same name, whatever other tools there are."""
        written = re.sub(self.forbidden, "_", name) or "unnamed"
        return (written if re.match(self.begins, written) else f"_{written}")[: self.longest]


OPENAI: Final = NameRule("OpenAI", r"[^A-Za-z0-9_-]", 64)
ANTHROPIC: Final = NameRule("Anthropic", r"[^A-Za-z0-9_-]", 64)
GEMINI: Final = NameRule("Gemini", r"[^A-Za-z0-9_.-]", 64, r"[A-Za-z_]")

_RULES: Final = (OPENAI, ANTHROPIC, GEMINI)


def spellings(name: str) -> frozenset[str]:
    """All ways in which a model may be told of a tool, its own name among them."""
    return frozenset({name, *(rule.legal(name) for rule in _RULES)})
