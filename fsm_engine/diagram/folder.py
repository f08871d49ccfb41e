"""The folder of committed diagrams: what belongs in it, and whether it is current."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ..errors.exceptions import ConfigurationError
from ..machine.lifecycle import Lifecycle
from . import render
from .dot import dot
from .lookup import BUILT_IN
from .markdown import table, text
from .mermaid import mermaid
from .picture import picture_of

README: Final = "README.md"

_READING: Final = """\
# Diagrams

Every move that a tool call, and the circuit breaker in front of a tool, can make. These files are rendered from the
tables in `states/`, which are what runs; `fsm-engine diagram --all` renders them anew, `fsm-engine diagram --check`
says whether they are current.

## How to read them

- A box is a situation, an arrow is a move. It begins at the black dot.
- **Blue**: something is awaited; `do` says what. **Yellow**: nothing is awaited there. **Grey with a double border**:
  an end, out of which nothing leads.
- An arrow says what happened (`fail`) and, in brackets, which guard must hold for it (`[may_retry]`). Where several
  arrows compete they are numbered: they are tried in that order, the first that holds is taken, and `[otherwise]` is
  what remains.
- The dashed box stands for every state it names; its arrows can be taken from each of them, at any time.
- `gate` runs on entering and may refuse; `entry` and `exit` run on entering and on leaving, and refuse nothing.
"""


def render_all(folder: str | Path, lifecycles: Iterable[Lifecycle] | None = None) -> list[Path]:
    """Write the diagrams of lifecycles: DOT, SVG, Mermaid and Markdown of each, and a README that shows them all.

    Args:
        folder: made if it is missing; other files in it are left alone.
        lifecycles: the built-in ones unless told otherwise.

    Returns:
        The files written.

    Raises:
        ConfigurationError: the extra `diagrams` is not installed, or a file cannot be called after a lifecycle.
    """
    chosen = _chosen(lifecycles)
    # All drawn before anything is written: half a folder would be neither old nor new.
    files = {name: make() for name, make in _files(chosen).items()}
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (target / name).write_text(content, encoding="utf-8", newline="\n")
    return [target / name for name in files]


def check_all(folder: str | Path, lifecycles: Iterable[Lifecycle] | None = None) -> list[str]:
    """What is wrong with a folder of diagrams, a line for each file that is missing, stale or of no lifecycle.

    Nothing is drawn: an SVG is compared by the DOT text that it says it was drawn from, so that this answers the same
    under every version of Graphviz, and without any.

    Args:
        folder: as given to `render_all`.
        lifecycles: the built-in ones unless told otherwise.
    """
    chosen = _chosen(lifecycles)
    target = Path(folder)
    found = []
    for name, make in _files(chosen).items():
        file = target / name
        if not file.is_file():
            found.append(f"{file}: missing")
            continue
        there = file.read_bytes().decode(errors="replace").replace("\r\n", "\n")
        if file.suffix == ".svg":
            is_current = render.is_drawing_of(there, dot(picture_of(chosen[file.stem])))
        else:
            is_current = there == make()
        if not is_current:
            found.append(f"{file}: stale")
    if target.is_dir():
        found += [
            f"{file}: belongs to no lifecycle" for file in sorted(target.iterdir()) if file.name not in _files(chosen)
        ]
    return found


_MAKERS: Final[Mapping[str, Callable[[Lifecycle], str]]] = MappingProxyType(
    {
        ".dot": lambda lifecycle: dot(picture_of(lifecycle)),
        ".svg": lambda lifecycle: render.svg(dot(picture_of(lifecycle))),
        ".mmd": lambda lifecycle: mermaid(picture_of(lifecycle)),
        ".md": table,
    }
)


def _chosen(lifecycles: Iterable[Lifecycle] | None) -> Mapping[str, Lifecycle]:
    if lifecycles is None:
        return BUILT_IN
    chosen: dict[str, Lifecycle] = {}
    for each in lifecycles:
        if each.name in {*chosen, "", "README"} or set(each.name) & set("/\\:\0"):
            raise ConfigurationError(
                f"a file cannot be called after the lifecycle {each.name!r}; give each its own name"
            )
        chosen[each.name] = each
    return chosen


def _files(chosen: Mapping[str, Lifecycle]) -> Mapping[str, Callable[[], str]]:
    """Every file by its name, and how to make it."""
    files: dict[str, Callable[[], str]] = {
        name + suffix: partial(make, lifecycle)
        for name, lifecycle in chosen.items()
        for suffix, make in _MAKERS.items()
    }
    return {**files, README: partial(_readme, chosen)}


def _readme(chosen: Mapping[str, Lifecycle]) -> str:
    parts = [_READING.rstrip()]
    for name, lifecycle in chosen.items():
        inner = table(lifecycle).rstrip().replace("\n#", "\n##")
        parts += [
            f"#{inner.partition(chr(10))[0]}",
            f"![{text(lifecycle.doc or name)}]({name}.svg)",
            inner.partition("\n")[2].strip(),
            f"<details><summary>The same picture as Mermaid</summary>\n\n```mermaid\n{mermaid(picture_of(lifecycle))}```\n\n</details>",
            f"Files: [DOT]({name}.dot), [SVG]({name}.svg), [Mermaid]({name}.mmd), [table]({name}.md).",
        ]
    return "\n\n".join(parts) + "\n"
