"""Definitions of tools as OpenAI takes them; one that it would refuse is left out alone, with the reason.

OpenAI refuses a whole request for one definition that it does not take, so that a single schema costs a model all of its
tools. What is offered here is taken; `left_out` says what is not, and what would mend it.

>>> from fsm_engine import ToolSpec
>>> schema = {"type": "object", "anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "string"}}}
>>> spec = ToolSpec(name="fs.read", func=lambda **given: given, parameters_schema=schema, lint=False)
>>> openai_definitions([spec])
Definitions(offered=[], left_out={'fs.read': "OpenAI takes no 'anyOf' at the root of a schema; put it into a property"})
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..tools.spec import ToolSpec

__all__ = ["Definitions", "openai_definitions", "openai_problem"]

_REFUSED_AT_ROOT = ("oneOf", "anyOf", "allOf", "not", "enum", "$ref")


class Definitions(NamedTuple):
    """What a model is offered: `offered` are the definitions, `left_out` says of each other tool why it is none."""

    offered: list[dict[str, Any]]
    left_out: dict[str, str]


def openai_definitions(specs: Iterable[ToolSpec]) -> Definitions:
    """The definitions for the `tools` of OpenAI's chat completions, of those tools that it takes."""
    made = Definitions([], {})
    for spec in specs:
        problem = openai_problem(spec)
        if problem is None:
            made.offered.append(spec.to_openai_function())
        else:
            made.left_out[spec.name] = problem
    return made


def openai_problem(spec: ToolSpec) -> str | None:
    """Why OpenAI would refuse a request with this tool, and what mends it; `None`: it would not.

    Ask before you register a tool that only OpenAI's models are to use.
    """
    refused = [word for word in _REFUSED_AT_ROOT if word in spec.parameters]
    if refused:
        words = " and no ".join(map(repr, refused))
        return f"OpenAI takes no {words} at the root of a schema; put it into a property"
    if spec.parameters.get("type") != "object":
        return 'OpenAI wants "type": "object" at the root of a schema; add it'
    return None
