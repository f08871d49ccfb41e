"""A picture as a Mermaid `stateDiagram-v2`, which GitHub, GitLab and many editors draw by themselves."""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Final

from .dot import ACCENT, FILLS, GREY, INK
from .picture import Box, Kind, Picture, Tone, printable

_PLAIN_NAME: Final = re.compile(r"[A-Za-z]\w*", re.ASCII)
_RESERVED: Final = frozenset(
    {"state", "note", "end", "as", "class", "classdef", "direction", "style", "click", "hide", "scale"}
)
"""Words of Mermaid's own, in any case: a state of such a name is given another id."""

_CLASSES: Final = MappingProxyType(
    {
        **{kind.value: f"fill:{fill},stroke:{INK},color:{INK}" for kind, fill in FILLS.items()},
        Kind.ENDS.value: f"fill:{FILLS[Kind.ENDS]},stroke:{INK},color:{INK},stroke-width:3px",
        Kind.ANYWHERE.value: f"fill:{FILLS[Kind.ANYWHERE]},stroke:{INK},color:{INK},stroke-dasharray:4 3",
        Tone.TAKEN.value: f"stroke:{ACCENT},color:{ACCENT},stroke-width:2px",
        Tone.LEFT_OUT.value: f"fill:#ffffff,stroke:{GREY},color:{GREY}",
    }
)


def mermaid(picture: Picture) -> str:
    """The Mermaid text, the same on every machine."""
    ids = _ids(picture)
    title = json.dumps(printable(picture.name), ensure_ascii=False)  # which is YAML, too
    lines = ["---", f"title: {title}", "---", "stateDiagram-v2", "  direction TB"]
    lines += [f"  %% {printable(line)}" for line in picture.caption]
    for box in picture.boxes:
        lines += _box(box, ids[box.name])
    lines.append(f"  [*] --> {ids[picture.initial]}")
    for arrow in picture.arrows:
        label = "<br/>".join(_text(label) for label in arrow.labels)
        lines.append(f"  {ids[arrow.source]} --> {ids[arrow.dest]} : {label}")
    lines += [f"  {ids[box.name]} --> [*]" for box in picture.boxes if box.kind is Kind.ENDS]
    members: dict[str, list[str]] = {}
    for box in picture.boxes:
        for name in _classes(box):
            members.setdefault(name, []).append(ids[box.name])
    lines += [f"  classDef {name} {_CLASSES[name]}" for name in members]
    lines += [f"  class {','.join(those)} {name}" for name, those in members.items()]
    return "\n".join(lines) + "\n"


def _ids(picture: Picture) -> dict[str, str]:
    """An id for each box: its name wherever Mermaid can read that."""
    readable = {
        box.name: box.name
        for box in picture.boxes
        if _PLAIN_NAME.fullmatch(box.name) and box.name.lower() not in _RESERVED
    }
    free = (name for number in range(len(readable) + len(picture.boxes)) if (name := f"s{number}") not in readable)
    return {box.name: readable.get(box.name) or next(free) for box in picture.boxes}


def _box(box: Box, name: str) -> list[str]:
    lines = [box.title, *([box.doc] if box.doc else []), *box.notes]
    if lines == [name]:
        return []
    return [f"  {name} : {_text(line)}" for line in lines]


def _classes(box: Box) -> tuple[str, ...]:
    if box.tone is Tone.LEFT_OUT:
        return (box.tone.value,)
    return (box.kind.value, *([box.tone.value] if box.tone is Tone.TAKEN else []))


def _text(text: str) -> str:
    """Text with what Mermaid would read as its own written as entities."""
    return re.sub(r"[^\w .,\[\]()'+*/=?!-]", lambda match: f"#{ord(match[0])};", printable(text))
