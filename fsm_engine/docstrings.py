"""What a docstring says of a function and of each parameter, in Google's, NumPy's or Sphinx's style."""

from __future__ import annotations

import inspect
import re
from typing import Final, NamedTuple

__all__ = ["Docstring", "read_docstring"]

_SECTIONS: Final = (
    r"args|arguments|parameters|params|keyword args|keyword arguments|other parameters|returns?|yields?|raises|"
    r"examples?|notes?|warnings?|warns|attributes|references|see also|todo"
)
_PARAMETERS: Final = re.compile(r"(?i)(keyword |other )?(args|arguments|parameters|params)$")
_NUMPY: Final = re.compile(rf"(?i)^({_SECTIONS})\s*\n-{{3,}}\s*$", re.MULTILINE)
_SPHINX: Final = re.compile(r"^:(\w+)[^:\n]*:", re.MULTILINE)
_SPHINX_PARAMETER: Final = re.compile(
    r"^:(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:\n]*\s)?\*{0,2}(\w+)\s*:(.*(?:\n[ \t]+.*)*)", re.MULTILINE
)
_ENTRY: Final = re.compile(
    r"^\*{0,2}(\w+)\s*(?:\([^)\n]*\)|:?\s*\[[^\]\n]*\])?\s*:(.*(?:\n(?:[ \t].*)?)*)", re.MULTILINE
)
_NUMPY_ENTRY: Final = re.compile(r"^\*{0,2}(\w+)(?:\s*:.*)?\n((?:[ \t]+.*\n?|\n)+)", re.MULTILINE)


class Docstring(NamedTuple):
    """`description`: what comes before the sections. `parameters`: the description of each parameter, in one line."""

    description: str
    parameters: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    r"""Take a docstring apart.

    Example:
        >>> read_docstring("Find pages.\n\n:param query: what to look for")
        Docstring(description='Find pages.', parameters={'query': 'what to look for'})
    """
    text = _NUMPY.sub(lambda found: f"{found[1]}:--", inspect.cleandoc(text or ""))
    sphinx = _SPHINX.search(text)
    body = text[: sphinx.start()] if sphinx else text
    parameters = {name: _line(said) for name, said in _SPHINX_PARAMETER.findall(text)}
    description, *rest = re.split(rf"(?im)^({_SECTIONS}):(--)?[ \t]*$", body)
    for heading, numpy, section in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if _PARAMETERS.match(heading):
            entries = (_NUMPY_ENTRY if numpy else _ENTRY).findall(inspect.cleandoc(f"\n{section}") + "\n")
            parameters.update((name, _line(said)) for name, said in entries)
    return Docstring(description.strip(), {name: said for name, said in parameters.items() if said})


def _line(text: str) -> str:
    return " ".join(text.split())
