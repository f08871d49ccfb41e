"""The codes of failed calls, as one table: category, whether a retry is worth while, whether the breaker counts it."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SAID_NOTHING", "CodeFacts", "Effect", "ErrorCategory", "ToolErrorCode", "code_facts", "code_text"]

SAID_NOTHING: Final = "The tool gave no reason."
"""The message of an error without one."""


class ErrorCategory(StrEnum):
    """The five families of codes."""

    RESOURCE = "resource"
    PARAMETER = "parameter"
    EXECUTION = "execution"
    STATE = "state"
    NETWORK = "network"


class Effect(StrEnum):
    """What is known about the effect of a failed call on the world."""

    NONE = "none"
    DONE = "done"
    UNKNOWN = "unknown"


class CodeFacts(NamedTuple):
    """What a code says by default; a response or an exception may say otherwise for itself.

    `transient`: a retry may help. `counts`: the circuit breaker counts it as a failure.
    """

    category: ErrorCategory
    transient: bool
    counts: bool


class ToolErrorCode(StrEnum):
    """The fifteen standard codes, and three for invocations that ended without a result of the tool.

    A tool may use any other string as a code of its own; see :func:`code_facts`.
    """

    NOT_FOUND = "NOT_FOUND"
    ACCESS_DENIED = "ACCESS_DENIED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    IS_DIRECTORY = "IS_DIRECTORY"
    BINARY_FILE = "BINARY_FILE"
    INVALID_PARAM = "INVALID_PARAM"
    INVALID_FORMAT = "INVALID_FORMAT"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    TIMEOUT = "TIMEOUT"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    CONFLICT = "CONFLICT"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"
    NETWORK_ERROR = "NETWORK_ERROR"
    API_ERROR = "API_ERROR"
    RATE_LIMIT = "RATE_LIMIT"
    CANCELLED = "CANCELLED"
    APPROVAL_DENIED = "APPROVAL_DENIED"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"

    @property
    def category(self) -> ErrorCategory:
        """The family of the code."""
        return _FACTS[self].category

    @property
    def transient(self) -> bool:
        """Whether a retry may help."""
        return _FACTS[self].transient

    @property
    def counts(self) -> bool:
        """Whether the circuit breaker counts it as a failure."""
        return _FACTS[self].counts


_C = ToolErrorCode
_K = ErrorCategory

# API_ERROR stands for 5xx and RATE_LIMIT for the upstream's: a 4xx answer, and the engine's own limits, say otherwise.
_FACTS: Final[Mapping[str, CodeFacts]] = MappingProxyType(
    {
        # code:                          category      transient  counts
        _C.NOT_FOUND: CodeFacts(         _K.RESOURCE,  False,     False),
        _C.ACCESS_DENIED: CodeFacts(     _K.RESOURCE,  False,     False),
        _C.PERMISSION_DENIED: CodeFacts( _K.RESOURCE,  False,     False),
        _C.IS_DIRECTORY: CodeFacts(      _K.RESOURCE,  False,     False),
        _C.BINARY_FILE: CodeFacts(       _K.RESOURCE,  False,     False),
        _C.INVALID_PARAM: CodeFacts(     _K.PARAMETER, False,     False),
        _C.INVALID_FORMAT: CodeFacts(    _K.PARAMETER, False,     False),
        _C.EXECUTION_ERROR: CodeFacts(   _K.EXECUTION, False,     True),
        _C.TIMEOUT: CodeFacts(           _K.EXECUTION, True,      True),
        _C.INTERNAL_ERROR: CodeFacts(    _K.EXECUTION, False,     True),
        _C.CONFLICT: CodeFacts(          _K.STATE,     False,     False),
        _C.CIRCUIT_OPEN: CodeFacts(      _K.STATE,     False,     False),
        _C.NETWORK_ERROR: CodeFacts(     _K.NETWORK,   True,      True),
        _C.API_ERROR: CodeFacts(         _K.NETWORK,   True,      True),
        _C.RATE_LIMIT: CodeFacts(        _K.NETWORK,   True,      True),
        _C.CANCELLED: CodeFacts(         _K.STATE,     False,     False),
        _C.APPROVAL_DENIED: CodeFacts(   _K.STATE,     False,     False),
        _C.APPROVAL_EXPIRED: CodeFacts(  _K.STATE,     False,     False),
    }
)  # fmt: skip

_OWN_CODE: Final = CodeFacts(ErrorCategory.EXECUTION, transient=False, counts=True)


def code_facts(code: str) -> CodeFacts:
    """Category, transience and weight of a code; a tool's own code is a non-transient execution error.

    >>> code_facts("TIMEOUT").transient
    True
    >>> code_facts("WAREHOUSE_CLOSED")
    CodeFacts(category=<ErrorCategory.EXECUTION: 'execution'>, transient=False, counts=True)
    """
    return _FACTS.get(code, _OWN_CODE)


_LONGEST_CODE: Final = 100


def code_text(text: str) -> str:
    r"""A code as the one word or line that it is read as: without line breaks and other controls, at most 100 characters.

    >>> code_text(" WAREHOUSE\tCLOSED ")
    'WAREHOUSE CLOSED'
    """
    printable = "".join(each if each.isprintable() else " " for each in text[: 2 * _LONGEST_CODE])
    return " ".join(printable.split())[:_LONGEST_CODE]
