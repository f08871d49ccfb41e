"""Diagrams of a lifecycle, a circuit and one invocation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ..errors.exceptions import ConfigurationError
from ..invocation.invocation import HistoryEntry, ToolInvocation
from ..machine.lifecycle import Lifecycle
from ..states.invocation import INVOCATION
from . import markdown, render
from .dot import dot
from .folder import check_all, render_all
from .lookup import BUILT_IN, find_lifecycle
from .mermaid import mermaid
from .path import path_picture, path_table
from .picture import Picture, picture_of
from .trace import check_trace, read_trace, trace_of

FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {"dot": ".dot", "svg": ".svg", "png": ".png", "mermaid": ".mmd", "table": ".md"}
)
"""What a diagram can be written as, and how such a file's name ends."""


@dataclass(frozen=True)
class Diagram:
    """One picture in every notation; a notebook shows it by itself.

    Made by `lifecycle_diagram` and `invocation_diagram`.
    """

    picture: Picture
    _table: Callable[[], str]

    def to_dot(self) -> str:
        """The picture in Graphviz's language."""
        return dot(self.picture)

    def to_mermaid(self) -> str:
        """The picture as a Mermaid `stateDiagram-v2`."""
        return mermaid(self.picture)

    def to_table(self) -> str:
        """What the picture shows as Markdown: sentences and tables."""
        return self._table()

    def to_svg(self) -> str:
        """The picture as SVG.

        Raises:
            ConfigurationError: the extra `diagrams` is not installed.
        """
        return render.svg(self.to_dot())

    def to_png(self) -> bytes:
        """The picture as PNG.

        Raises:
            ConfigurationError: the extra `diagrams` is not installed.
        """
        return render.png(self.to_dot())

    def render(self, form: str) -> str | bytes:
        """The picture in one of `FORMATS`; bytes for `png`, text for the others.

        Raises:
            ConfigurationError: there is no such format, or the extra `diagrams` is not installed.
        """
        if form not in FORMATS:
            raise ConfigurationError(f"there is no format {form!r}; choose one of {', '.join(FORMATS)}")
        made: str | bytes = getattr(self, f"to_{form}")()
        return made

    def save(self, file: str | Path) -> Path:
        """Write the picture to a file, in the format that its name ends in.

        Raises:
            ConfigurationError: no format's name ends like this, or the extra `diagrams` is not installed.
        """
        target = Path(file)
        form = next((form for form, suffix in FORMATS.items() if suffix == target.suffix.lower()), None)
        if form is None:
            raise ConfigurationError(
                f"no format ends in {target.suffix!r}; choose one of {', '.join(FORMATS.values())}"
            )
        made = self.render(form)
        target.write_bytes(made.encode() if isinstance(made, str) else made)
        return target

    def __str__(self) -> str:
        return self.to_mermaid()

    def _repr_svg_(self) -> str | None:
        """What a notebook shows; see `_repr_markdown_`."""
        return self._svg_if_possible

    def _repr_markdown_(self) -> str | None:
        """What a notebook shows where Graphviz is missing: a Mermaid block, which JupyterLab draws."""
        return None if self._svg_if_possible is not None else f"```mermaid\n{self.to_mermaid()}```\n"

    @cached_property
    def _svg_if_possible(self) -> str | None:
        return self.to_svg() if render.can_draw() else None


def lifecycle_diagram(lifecycle: Lifecycle) -> Diagram:
    """The picture of a whole lifecycle: states with their gates, hooks and activity, and every guarded move."""
    return Diagram(picture_of(lifecycle), lambda: markdown.table(lifecycle))


def invocation_diagram(
    history: ToolInvocation | Mapping[str, Any] | str | bytes | Iterable[HistoryEntry],
    lifecycle: Lifecycle = INVOCATION,
) -> Diagram:
    """The way of one invocation: what it passed, in which order, when and how long; the rest of the lifecycle in grey.

    Args:
        history: the invocation, its `history`, or what `trace_of` made of it, as a dictionary or as JSON text.
        lifecycle: the one that it ran through.

    Raises:
        ConfigurationError: this is no history, or not one of this lifecycle.

    Example:
        >>> from fsm_engine import HistoryEntry
        >>> way = [HistoryEntry("PENDING", "validate", None, "VALIDATING", 0.0),
        ...        HistoryEntry("VALIDATING", "accept", "refused", "FAILED", 0.25)]
        >>> invocation_diagram(way).picture.caption
        ('ended as FAILED after 2 steps and 250 ms',)
    """
    trace = read_trace(history)
    check_trace(trace, lifecycle)
    return Diagram(path_picture(trace, lifecycle), lambda: path_table(trace, lifecycle))


def to_dot(lifecycle: Lifecycle) -> str:
    """A lifecycle in Graphviz's language."""
    return lifecycle_diagram(lifecycle).to_dot()


def to_mermaid(lifecycle: Lifecycle) -> str:
    """A lifecycle as a Mermaid `stateDiagram-v2`."""
    return lifecycle_diagram(lifecycle).to_mermaid()


def to_table(lifecycle: Lifecycle) -> str:
    """A lifecycle as Markdown: what can happen in each state, in sentences, and all moves as a table."""
    return lifecycle_diagram(lifecycle).to_table()


def to_svg(lifecycle: Lifecycle) -> str:
    """A lifecycle as SVG; raises `ConfigurationError` without the extra `diagrams`."""
    return lifecycle_diagram(lifecycle).to_svg()


def to_png(lifecycle: Lifecycle) -> bytes:
    """A lifecycle as PNG; raises `ConfigurationError` without the extra `diagrams`."""
    return lifecycle_diagram(lifecycle).to_png()


__all__ = [
    "BUILT_IN",
    "FORMATS",
    "Diagram",
    "check_all",
    "find_lifecycle",
    "invocation_diagram",
    "lifecycle_diagram",
    "render_all",
    "to_dot",
    "to_mermaid",
    "to_png",
    "to_svg",
    "to_table",
    "trace_of",
]
