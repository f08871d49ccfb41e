"""How JSON that comes from outside is read: bodies of requests, messages on a socket, files, standard input."""

from __future__ import annotations

from typing import Final

from .strict import JsonValue, NotFiniteError, read_json

__all__ = ["JsonTextError", "read_strictly"]

_MAX_BITS: Final = 2048  # as in `jsonable`: under 640 digits an integer can be printed whatever limit Python is given


class JsonTextError(ValueError):
    """A text is not strict JSON. The message says why and where, and repeats nothing of the text."""


def read_strictly(text: str | bytes) -> JsonValue:
    """The value of a JSON text, read so that it can be written again as it was.

    Neither NaN nor the infinities, no number that a float or 2,048 bits cannot hold, no more than some two hundred
    levels; half a character becomes U+FFFD.

    Args:
        text: characters, or bytes in UTF-8.

    Raises:
        JsonTextError: it is not that.

    >>> read_strictly('{"n": [1, null]}')
    {'n': [1, None]}
    >>> read_strictly('{"n": NaN}')
    Traceback (most recent call last):
    fsm_engine.jsonable.foreign.JsonTextError: expected value at line 1 column 7
    """
    try:
        value: JsonValue = read_json(text if isinstance(text, str) else text.decode())
    except UnicodeDecodeError as error:
        raise JsonTextError(f"byte {error.start} is not UTF-8") from None
    except NotFiniteError:
        raise JsonTextError("a number is too large for a float") from None
    except ValueError as error:
        told = str(error)
        raise JsonTextError("it is nested too deeply" if "recursion limit" in told else told) from None
    _check_integers(value)
    return value


def _check_integers(value: JsonValue) -> None:
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)
        elif isinstance(each, int) and each.bit_length() > _MAX_BITS:
            raise JsonTextError("a whole number has too many digits; up to 600 are read")
