"""Which regular expressions can take Python's `re` a time that doubles with every character.

`re` tries one way after another. Inside a loop, two ways to read the same text mean twice as many ways with every turn
of the loop: ``^(a+)+$`` against 30 letters "a" and a "b" holds the interpreter for minutes. The analysis looks for such
a choice: inside a loop, a part of variable length whose first character can also begin what follows it, or
alternatives that can begin with the same character. It may refuse a pattern that is fast; it does not pass one that
is exponential. Polynomial ones (``a*a*b``) pass.

Only schemas that `jsonschema-rs` cannot read are in need of it: that library's engine is linear, or gives up in time.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

__all__ = ["ambiguous_loop"]

# The parser of `re` is private, but the only thing that reads every pattern exactly as `re` does; tests keep watch.
_parser: Any = importlib.import_module("re._parser")

_Chars = frozenset[str]
_NONE: Final[_Chars] = frozenset()
# Enough characters to tell any two sets apart that a schema's author has in mind: ASCII and a few others of each kind.
_SAMPLE: Final[_Chars] = frozenset(map(chr, range(128))) | frozenset("\x85\xa0äÄßΩжЖ٣५中\u2028\U0001f600")
_CATEGORIES: Final = {
    f"CATEGORY_{name}": re.compile(f"\\{letter}")
    for name, letter in {
        "DIGIT": "d",
        "NOT_DIGIT": "D",
        "SPACE": "s",
        "NOT_SPACE": "S",
        "WORD": "w",
        "NOT_WORD": "W",
    }.items()
}
_LOOPS: Final = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
_ALONE: Final = frozenset({"ASSERT", "ASSERT_NOT", "ATOMIC_GROUP"})
_Node = tuple[Any, Any]


def ambiguous_loop(pattern: str) -> bool:
    r"""Whether `re` may need exponential time for the pattern.

    Raises:
        re.error: the pattern is not one that `re` can read.

    Example:
        >>> ambiguous_loop(r"^(a+)+$"), ambiguous_loop(r"^(\w+\.)*\w+$")
        (True, False)
    """
    tree = _parser.parse(pattern)
    return _Analysis(_characters(tree) | _SAMPLE).ambiguous(tree, _NONE, in_loop=False)


def _characters(nodes: Iterable[Any]) -> _Chars:
    """Every character that the pattern names, so that its own are always in the alphabet, in both cases."""
    found: set[str] = set()
    for number in _numbers(nodes):
        found.update((chr(number), chr(number).lower()[:1], chr(number).upper()[:1]))
    return frozenset(found)


def _numbers(nodes: Any) -> Iterable[int]:
    if isinstance(nodes, list | tuple):
        for node in nodes:
            yield from _numbers(node)
    elif hasattr(nodes, "data"):  # a sub-pattern
        yield from _numbers(nodes.data)
    elif type(nodes) is int and 0 <= nodes <= sys.maxunicode:  # names of nodes are a subclass of int
        yield nodes  # a character; or a count, which does no harm


def _ways(op: str, argument: Any) -> list[Sequence[_Node]]:
    """The sequences of nodes inside a node, one for each way to go on; none for a node that is a single character."""
    if op == "BRANCH":
        return list(argument[1])
    if op == "GROUPREF_EXISTS":
        return [way or () for way in argument[1:]]
    if op == "ATOMIC_GROUP":
        return [argument]
    return [argument[-1]] if op in _LOOPS or op in {"SUBPATTERN", "ASSERT", "ASSERT_NOT"} else []


class _Analysis:
    """The analysis of one pattern over an alphabet of sample characters."""

    def __init__(self, alphabet: _Chars) -> None:
        self._alphabet = alphabet

    def ambiguous(self, nodes: Sequence[_Node], follow: _Chars, *, in_loop: bool) -> bool:
        """Whether a choice inside a loop is left open by the next character; `follow` may come after the nodes."""
        for index, (op, argument) in enumerate(nodes):
            begin, empty = self.first(nodes[index + 1 :])
            after = begin | follow if empty else begin
            if self._ambiguous_node(str(op), argument, after, in_loop):
                return True
        return False

    def _ambiguous_node(self, op: str, argument: Any, after: _Chars, in_loop: bool) -> bool:
        ways = _ways(op, argument)
        if op in _LOOPS:
            least, most, body = argument
            begin, _ = self.first(body)
            if in_loop and op != "POSSESSIVE_REPEAT" and least != most and begin & after:
                return True
            if most > 1:
                after, in_loop = begin | after, True
        elif op == "BRANCH" and in_loop and self._overlap(ways, after):
            return True
        elif op in _ALONE:  # never entered again once it has matched, but it may hold a loop of its own
            after, in_loop = _NONE, False
        return any(self.ambiguous(way, after, in_loop=in_loop) for way in ways)

    def _overlap(self, ways: Sequence[Sequence[_Node]], after: _Chars) -> bool:
        seen = _NONE
        for way in ways:
            begin, empty = self.first(way)
            begin = begin | after if empty else begin
            if begin & seen:
                return True
            seen |= begin
        return False

    def first(self, nodes: Sequence[_Node]) -> tuple[_Chars, bool]:
        """The characters that the nodes can begin with, and whether they can match nothing at all."""
        chars = _NONE
        for op, argument in nodes:
            begin, empty = self._first_of_node(str(op), argument)
            chars |= begin
            if not empty:
                return chars, False
        return chars, True

    def _first_of_node(self, op: str, argument: Any) -> tuple[_Chars, bool]:
        if op in {"AT", "ASSERT", "ASSERT_NOT"}:
            return _NONE, True  # takes no character
        if op == "GROUPREF":
            return self._alphabet, True  # whatever the group has matched, nothing included
        ways = _ways(op, argument)
        if not ways:
            return self._members(op, argument), False
        firsts = [self.first(way) for way in ways]
        may_be_empty = any(empty for _, empty in firsts) or (op in _LOOPS and argument[0] == 0)
        return _NONE.union(*(begin for begin, _ in firsts)), may_be_empty

    def _members(self, op: str, argument: Any) -> _Chars:
        """The characters of the alphabet that a node for one character takes; both cases, since a flag may be set."""
        if op == "IN":
            kinds = [(str(kind), value) for kind, value in argument]
            taken = _NONE.union(*(self._members(kind, value) for kind, value in kinds if kind != "NEGATE"))
            return self._alphabet - taken if kinds[0][0] == "NEGATE" else taken
        if op == "CATEGORY":
            return frozenset(filter(_CATEGORIES[str(argument)].match, self._alphabet))
        if op == "RANGE":
            low, high = map(chr, argument)
            return self._both_cases(char for char in self._alphabet if low <= char <= high)
        if op == "LITERAL":
            return self._both_cases([chr(argument)])
        if op == "NOT_LITERAL":
            return self._alphabet - {chr(argument)}
        return self._alphabet  # ANY

    def _both_cases(self, chars: Iterable[str]) -> _Chars:
        return frozenset(case for char in chars for case in (char, char.lower()[:1], char.upper()[:1]))
