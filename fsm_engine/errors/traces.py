"""What an operator reads of an exception: its words, its causes, its members, and the places in the code.

The places are those of the author's own code, and the innermost ones of whatever it called: the frames of the engine
are the same for every fault and say nothing. Texts are redacted, and everything is bounded.
"""

from __future__ import annotations

import sysconfig
from asyncio import CancelledError
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..jsonable.redaction import exception_text, note_texts, qualified_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

__all__ = ["leaves", "trace_text"]

_DETAIL_LIMIT: Final = 8_000
_TEXT_LIMIT: Final = 4_000
_CAUSES: Final = 5
_MOST_SHOWN: Final = 20  # exceptions, causes and members of groups together
_MOST_LEAVES: Final = 100
_FRAMES_SHOWN: Final = 4  # at the outer end, where the tool is, and as many at the inner one, where the fault is
_INNERMOST: Final = 2
_ENGINE: Final = str(Path(__file__).parents[1])
_DEMO: Final = str(Path(__file__).parents[1] / "demo")


def leaves(exc: BaseException) -> list[BaseException]:
    """The exceptions that a group holds at any depth, the first hundred; of any other exception, itself.

    What was only cancelled because a sibling failed is left out, unless there is nothing else.
    """
    found: list[BaseException] = []
    seen: set[int] = set()
    waiting = [exc]
    while waiting and len(found) < _MOST_LEAVES:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, BaseExceptionGroup):
            waiting.extend(reversed(each.exceptions))
        else:
            found.append(each)
    return [each for each in found if not isinstance(each, CancelledError)] or found or [exc]


def trace_text(exc: BaseException) -> str:
    """The exception, its causes and the members of groups, each with its places: what it takes to find the fault."""
    return "\n".join(_lines(exc))[:_DETAIL_LIMIT]


def _lines(exc: BaseException) -> Iterator[str]:
    seen: set[int] = set()
    waiting: list[tuple[BaseException, int]] = [(exc, 1)]
    while waiting and len(seen) < _MOST_SHOWN:
        link, depth = waiting.pop()
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield f"{qualified_name(link)}: {exception_text(link, _TEXT_LIMIT)}"
        yield from (f"  note: {note}" for note in note_texts(link, _TEXT_LIMIT))
        yield from _places(link)
        cause = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
        if cause is not None and depth < _CAUSES:
            waiting.append((cause, depth + 1))
        if isinstance(link, BaseExceptionGroup):
            waiting.extend((member, depth) for member in reversed(link.exceptions[:_MOST_SHOWN]))


def _places(exc: BaseException) -> list[str]:
    frames = list(_frames(exc.__traceback__))
    kept = [frame for number, frame in enumerate(frames) if frame[0] or number >= len(frames) - _INNERMOST]
    if not any(is_own for is_own, _ in kept):  # installed code all of it, the tool's too
        kept = frames
    places = [place for _, place in kept]
    if len(places) > 2 * _FRAMES_SHOWN:
        places[_FRAMES_SHOWN:-_FRAMES_SHOWN] = ["  ..."]
    return places


def _frames(trace: TracebackType | None) -> Iterator[tuple[bool, str]]:
    """Whether it is the author's own code, and where it is; the engine's own frames only if there are no others."""
    engine: list[tuple[bool, str]] = []
    is_engine_alone = True
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"  at {code.co_filename}:{trace.tb_lineno} in {code.co_name}"
        if _is_engine(code.co_filename):
            engine.append((False, place))
        else:
            is_engine_alone = False
            yield not code.co_filename.startswith(_library_folders()), place
        trace = trace.tb_next
    if is_engine_alone:
        yield from engine


def _is_engine(file: str) -> bool:
    return file.startswith(_ENGINE) and not file.startswith(_DEMO)


@lru_cache(maxsize=1)
def _library_folders() -> tuple[str, ...]:
    """Where what is not the author's own code lies; `<frozen …>` is Python's."""
    paths = sysconfig.get_paths()
    return (*{paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}, "<frozen")
