"""A picture in Graphviz's language.

The text is written here and not taken from `transitions`' GraphMachine: that one needs pygraphviz for the text itself,
marks the initial state the way final states are drawn elsewhere, keeps neither the order in which guarded rows are tried
nor gates apart from hooks, and draws a row of `*` once for every state. A test holds our boxes and arrows to its.
"""

from __future__ import annotations

from html import escape
from types import MappingProxyType
from typing import Final

from ..machine.checks import ANY_UNFINISHED
from .picture import Arrow, Box, Kind, Picture, Tone, printable

START: Final = "="
"""The dot that points at the initial state; no state can have this name, and pygraphviz cannot read an empty one."""

FILLS: Final = MappingProxyType(
    {Kind.WAITS: "#dbeafe", Kind.RESTS: "#fef9c3", Kind.ENDS: "#e5e7eb", Kind.ANYWHERE: "#ffffff"}
)
INK, GREY, ACCENT = "#1f2937", "#9ca3af", "#b45309"
_PEN: Final = MappingProxyType(
    {
        Tone.PLAIN: f'color="{INK}", fontcolor="{INK}"',
        Tone.TAKEN: f'color="{ACCENT}", fontcolor="{ACCENT}", penwidth=2',
        Tone.LEFT_OUT: f'color="{GREY}", fontcolor="{GREY}"',
    }
)


def dot(picture: Picture) -> str:
    """The DOT text, the same on every machine."""
    lines = [
        f"digraph {_quoted(picture.name)} {{",
        f"  graph [rankdir=TB, nodesep=0.45, ranksep=0.55, fontname={_FONT}, fontsize=11, labelloc=t, label={_title(picture)}]",
        f'  node [shape=box, style="rounded,filled", fontname={_FONT}, fontsize=11, margin="0.16,0.08"]',
        f"  edge [fontname={_FONT}, fontsize=10, arrowsize=0.8]",
        f'  {_quoted(START)} [shape=point, width=0.14, color="{INK}", label="", tooltip="begins here"]',
        *(_box(box) for box in picture.boxes),
        f'  {_quoted(START)} -> {_quoted(picture.initial)} [color="{INK}"]',
        *(_arrow(arrow) for arrow in picture.arrows),
        "}",
    ]
    return "\n".join(lines) + "\n"


_FONT: Final = '"Helvetica,Arial,sans-serif"'


def _box(box: Box) -> str:
    doc = f'<i><font point-size="9">{_escaped(box.doc)}</font></i>' if box.doc else ""
    notes = [doc, *(f'<font point-size="9">{_escaped(note)}</font>' for note in box.notes)]
    lines = [f"<b>{_escaped(box.title)}</b>", *filter(None, notes)]
    label = lines[0] if len(lines) == 1 else "".join(f'{line}<br align="left"/>' for line in lines)
    looks = [
        f"label=<{label}>",
        f'fillcolor="{"#ffffff" if box.tone is Tone.LEFT_OUT else FILLS[box.kind]}"',
        _PEN[box.tone],
        f"tooltip={_quoted(box.title)}",
    ]
    if box.kind is Kind.ENDS:
        looks.append("peripheries=2")
    if box.kind is Kind.ANYWHERE:
        looks.append('style="rounded,dashed"')
    return f"  {_quoted(box.name)} [{', '.join(looks)}]"


def _arrow(arrow: Arrow) -> str:
    label = "".join(f'&#160;{_escaped(label)}<br align="left"/>' for label in arrow.labels)  # kept off the line
    style = ", style=dashed" if arrow.source == ANY_UNFINISHED else ""
    tooltip = _quoted("; ".join(arrow.docs or arrow.labels))
    looks = f"label=<{label}>, {_PEN[arrow.tone]}{style}, tooltip={tooltip}, labeltooltip={tooltip}"
    return f"  {_quoted(arrow.source)} -> {_quoted(arrow.dest)} [{looks}]"


def _title(picture: Picture) -> str:
    caption = "".join(f"<br/>{_escaped(line)}" for line in picture.caption)
    return f'<<font point-size="16"><b>{_escaped(picture.name)}</b></font>{caption}<br/>>'


def _escaped(text: str) -> str:
    return escape(printable(text))


def _quoted(text: str) -> str:
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
