"""What is drawn, whatever the notation: boxes and arrows made of a lifecycle.

Notations read `Picture`, and nothing else, so DOT and Mermaid cannot disagree about the lifecycle. Everything is made of
tuples in the order of the declaration; no set is walked, so the text is the same under every hash seed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ..machine.checks import ANY_UNFINISHED
from ..machine.lifecycle import Lifecycle, Row, State


class Kind(StrEnum):
    """What the model of the lifecycle does in a state; it picks the colour."""

    WAITS = "waits"
    RESTS = "rests"
    ENDS = "ends"
    ANYWHERE = "anywhere"


class Tone(StrEnum):
    """Whether the way that is shown led here; in the picture of a lifecycle everything is plain."""

    PLAIN = "plain"
    TAKEN = "taken"
    LEFT_OUT = "left_out"


@dataclass(frozen=True, slots=True)
class Box:
    """A state, or (named `ANY_UNFINISHED`) the stand-in for every state that rows of `*` lead out of."""

    name: str
    title: str
    kind: Kind
    notes: tuple[str, ...] = ()
    tone: Tone = Tone.PLAIN
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Arrow:
    """All the rows of one look from one box to another, a label each."""

    source: str
    dest: str
    labels: tuple[str, ...]
    tone: Tone = Tone.PLAIN
    docs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """Boxes and arrows, in the order of the declaration, with a title and lines beneath it."""

    name: str
    initial: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    caption: tuple[str, ...] = ()


def picture_of(lifecycle: Lifecycle) -> Picture:
    """A whole lifecycle. A row of `*` is one arrow from a box of its own: written out it would cover the rest."""
    labels = row_labels(lifecycle)
    return Picture(
        name=lifecycle.name,
        initial=lifecycle.initial,
        boxes=(*(box_of(state) for state in lifecycle.states), *anywhere_box(lifecycle)),
        arrows=bundled(Arrow(row.source, row.dest, (labels[row],), docs=_docs(row)) for row in lifecycle.rows),
        caption=caption_of(lifecycle),
    )


def box_of(state: State) -> Box:
    """A state with what runs on entering and leaving it and what is awaited in it, in UML's words and in that order."""
    notes = (
        *(f"gate / {name}" for name in state.gates),
        *(f"entry / {name}" for name in state.on_enter),
        *([f"do / {state.activity}"] if state.activity else []),
        *(f"exit / {name}" for name in state.on_exit),
    )
    return Box(state.name, state.name, kind_of(state), notes, doc=state.doc)


def kind_of(state: State) -> Kind:
    """Final states end, states with an activity wait for it, and in the others nothing is awaited."""
    if state.final:
        return Kind.ENDS
    return Kind.WAITS if state.activity else Kind.RESTS


def anywhere_box(lifecycle: Lifecycle, tone: Tone = Tone.PLAIN) -> tuple[Box, ...]:
    """The stand-in for every unfinished state, if a row needs one."""
    if all(row.source != ANY_UNFINISHED for row in lifecycle.rows):
        return ()
    return (Box(ANY_UNFINISHED, anywhere_title(lifecycle), Kind.ANYWHERE, tone=tone),)


def anywhere_title(lifecycle: Lifecycle) -> str:
    """`*` in words."""
    return "any unfinished state" if lifecycle.final_states else "any state"


def caption_of(lifecycle: Lifecycle) -> tuple[str, ...]:
    """What holds for the lifecycle as a whole."""
    hooks = ", ".join(lifecycle.on_transition)
    return tuple(line for line in (lifecycle.doc, f"after every move: {hooks}" if hooks else "") if line)


def row_labels(lifecycle: Lifecycle) -> dict[Row, str]:
    """What each row's arrow says: trigger, guard, and (where several rows compete) which of them is tried when."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in lifecycle.rows:
        if row.source == ANY_UNFINISHED:
            groups.setdefault((row.source, row.trigger), []).append(row)
    for row in lifecycle.moves:
        groups.setdefault((row.source, row.trigger), []).append(row)
    return {
        row: row.trigger + (f" [{row.guard}]" if row.guard else "")
        if len(group) == 1
        else f"{place}. {row.trigger} [{row.guard or 'otherwise'}]"
        for group in groups.values()
        for place, row in enumerate(group, start=1)
    }


def bundled(arrows: Iterable[Arrow]) -> tuple[Arrow, ...]:
    """Arrows between the same two boxes as one, with a line of text for each."""
    bundles: dict[tuple[str, str, Tone], Arrow] = {}
    for arrow in arrows:
        key = (arrow.source, arrow.dest, arrow.tone)
        one = bundles.get(key)
        bundles[key] = (
            arrow
            if one is None
            else Arrow(*key[:2], (*one.labels, *arrow.labels), arrow.tone, (*one.docs, *arrow.docs))
        )
    return tuple(bundles.values())


def printable(text: str) -> str:
    """Text without what no notation can hold: line breaks, control characters, halves of characters."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text)


def _docs(row: Row) -> tuple[str, ...]:
    return (f"{row.trigger}: {row.doc}",) if row.doc else ()
