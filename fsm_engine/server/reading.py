"""What comes in over HTTP is read strictly, and a refusal says what is wrong without repeating what was sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from fastapi import HTTPException, Request, Response, status
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute

from ..errors.exceptions import ToolError
from ..jsonable.foreign import JsonTextError, read_strictly

_NAME = re.compile(r"[A-Za-z_][\w-]{0,39}", re.ASCII)


class ArgumentsRefusedError(HTTPException):
    """The arguments that a person has written are not valid.

    Attributes:
        issues: each failed check as a JSON object.
    """

    def __init__(self, error: ToolError) -> None:
        super().__init__(status.HTTP_422_UNPROCESSABLE_CONTENT, str(error))
        self.issues = [issue.to_dict() for issue in error.issues]


def what_is_wrong(faults: Sequence[Mapping[str, Any]]) -> str:
    """The first of pydantic's faults in words: where, and what is wanted.

    What was sent may be a secret, or nothing that JSON can hold, so it is not repeated.

    >>> what_is_wrong([{"type": "missing", "loc": ("body", "messages"), "msg": "Field required", "input": {"key": "x"}}])
    'messages: Field required'
    """
    first = faults[0]
    where = ".".join(_step(each) for each in first["loc"] if each not in {"body", "query", "path", "header"})
    said = first["msg"]
    if first["type"] == "union_tag_invalid":  # its own words repeat the tag
        said = f"{first['ctx']['discriminator']} must be one of {first['ctx']['expected_tags']}"
    return f"{where or 'the body'}: {said}"


def _step(each: object) -> str:
    if isinstance(each, int):
        return str(each)
    return each if isinstance(each, str) and _NAME.fullmatch(each) else "(a field)"


class StrictRoute(APIRoute):
    """A route whose body is strict JSON and whose refusals are one sentence, in whatever application it is mounted."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's own handler."""
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            try:
                return await handle(_StrictRequest(request.scope, request.receive))
            except ArgumentsRefusedError as error:
                return JSONResponse({"detail": error.detail, "issues": error.issues}, error.status_code)
            except RequestValidationError as error:
                said = what_is_wrong(error.errors())
                raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, said) from None

        return strictly


class _StrictRequest(Request):
    async def json(self) -> Any:
        try:
            return read_strictly(await self.body())
        except JsonTextError as error:
            raise HTTPException(
                status.HTTP_422_UNPROCESSABLE_CONTENT, f"the body is not strict JSON: {error}"
            ) from None
