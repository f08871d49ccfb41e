"""Arithmetic on text, without `eval`: numbers, `+ - * / **` and parentheses, exact where that is feasible."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DecimalException, DivisionByZero, InvalidOperation, Overflow
from typing import Any, Final, NamedTuple

from ..errors.codes import ToolErrorCode
from ..errors.exceptions import ToolError

EXACT_BITS: Final = 1_024
"""Whole numbers of more bits (about 300 digits) are rounded: nobody reads them, and powers of powers never end."""

_DIGITS: Final = Context(prec=15, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[DivisionByZero, InvalidOperation, Overflow])
_Number = int | Decimal
_DECIMAL: Final[Mapping[type[ast.operator], Callable[[Decimal, Decimal], Decimal]]] = {
    ast.Add: _DIGITS.add,
    ast.Sub: _DIGITS.subtract,
    ast.Mult: _DIGITS.multiply,
    ast.Div: _DIGITS.divide,
    ast.Pow: _DIGITS.power,
}
_EXACT: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
}


class Answer(NamedTuple):
    """A number, and whether a whole number was too long to be kept exactly on the way."""

    value: int | Decimal
    is_rounded: bool


def evaluate(expression: str) -> Answer:
    """The value of an arithmetic expression.

    Raises:
        ToolError: `INVALID_FORMAT`, it is no such expression; `EXECUTION_ERROR`, it has no value, or a gigantic one.

    Example:
        >>> evaluate("2 + 3 * 4").value
        14
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _not_arithmetic("it is incomplete or not arithmetic") from None
    work = _Evaluation()
    try:
        value = work.value_of(tree.body)
    except ZeroDivisionError:
        raise _no_value("it divides by zero") from None
    except Overflow:
        raise _no_value("the result is too large for any use") from None
    except DecimalException:
        raise _no_value("the result is no real number") from None
    return Answer(value, work.is_rounded)


class _Evaluation:
    def __init__(self) -> None:
        self.is_rounded = False

    def value_of(self, node: ast.AST) -> _Number:
        match node:
            case ast.Constant(value=bool()):
                raise _not_arithmetic("True and False are no numbers")
            case ast.Constant(value=int() as whole):
                return whole
            case ast.Constant(value=float() as real):
                return Decimal(repr(real)) if real != float("inf") else _overflow()
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.value_of(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.value_of(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _DECIMAL:
                return self._combine(type(op), self.value_of(left), self.value_of(right))
            case _:
                raise _not_arithmetic("only numbers, + - * / ** and parentheses are allowed")

    def _combine(self, op: type[ast.operator], left: _Number, right: _Number) -> _Number:
        if (op is ast.Div and not right) or (op is ast.Pow and not left and right < 0):
            raise ZeroDivisionError
        if isinstance(left, int) and isinstance(right, int):
            exact = _exactly(op, left, right)
            if exact is not None:
                return exact
            # A fraction is rounded as everybody expects; a whole number that is cut to fifteen digits is worth a word.
            self.is_rounded |= not (op is ast.Div or (op is ast.Pow and right < 0))
        return _DECIMAL[op](Decimal(left), Decimal(right))


def _exactly(op: type[ast.operator], left: int, right: int) -> int | None:
    """The whole number, if it is one and short enough to be worth having."""
    if op is ast.Div:
        return None if left % right else left // right
    if op is ast.Pow and (right < 0 or (abs(left) > 1 and left.bit_length() * right > EXACT_BITS)):
        return None
    exact = _EXACT[op](left, right)
    return exact if exact.bit_length() <= EXACT_BITS else None


def _overflow() -> Any:
    raise Overflow


def _not_arithmetic(why: str) -> ToolError:
    return ToolError(
        ToolErrorCode.INVALID_FORMAT,
        f"The expression cannot be read: {why}. Send one such as (2 + 3) * 4.",
        reason="not_arithmetic",
    )


def _no_value(why: str) -> ToolError:
    # The tool works well, so this does not count against its circuit.
    return ToolError(
        ToolErrorCode.EXECUTION_ERROR, f"The expression has no value: {why}.", reason="no_value", counts=False
    )
