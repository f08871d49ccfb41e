"""What is sent to the server is read strictly, and no refusal repeats it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from fsm_engine import ToolEngine
from fsm_engine.jsonable.foreign import JsonTextError, read_strictly
from fsm_engine.jsonable.jsonable import wire_text
from fsm_engine.server import create_app

from .support import client_of, says, served

SECRET = "hunter2"

NOT_STRICT = {
    "not a number": f'{{"k": NaN, "s": "{SECRET}"}}',
    "infinity": f'{{"k": -Infinity, "s": "{SECRET}"}}',
    "beyond a float": f'{{"k": 1e400, "s": "{SECRET}"}}',
    "a very long integer": f'{{"k": {"9" * 5_000}, "s": "{SECRET}"}}',
    "a long integer": f'{{"k": {"9" * 700}, "s": "{SECRET}"}}',
    "too deep": "[" * 5_000,
    "cut off": f'{{"s": "{SECRET}',
    "nothing": "",
    "not JSON": SECRET,
}

WRONG = {
    "a list": f'["{SECRET}"]',
    "a text": f'"{SECRET}"',
    "an unknown field": f'{{"s": "{SECRET}", "messages": [], "reason": "{SECRET}", "arguments": {{}}}}',
    "wrong types": f'{{"messages": "{SECRET}", "reason": ["{SECRET}"], "arguments": "{SECRET}"}}',
    "an unknown tag": f'{{"messages": [{{"role": "{SECRET}", "content": "x"}}], "reason": 5, "arguments": 5}}',
    "a secret as a name": f'{{"messages": [{{"role": "user", "content": "x", "{SECRET} x": 1}}], "{SECRET} x": 1}}',
}

POSTS = [
    "/chat/stream",
    "/runs/none/cancel",
    "/runs/none/calls/none/approve",
    "/runs/none/calls/none/deny",
    "/runs/none/calls/none/cancel",
]


def app() -> FastAPI:
    return create_app(ToolEngine([]), says("Hello."))


@pytest.mark.parametrize("path", POSTS)
async def test_no_body_breaks_a_route_and_no_refusal_repeats_it(path: str) -> None:
    async with client_of(app()) as client:
        for name, body in (NOT_STRICT | WRONG).items():
            if (name, path) in {("nothing", each) for each in POSTS[1:]}:
                continue  # may be as good as an empty object
            response = await client.post(path, content=body, headers={"Content-Type": "application/json"})
            assert response.status_code == 422, (name, response.text)
            assert set(response.json()) == {"detail"}
            assert SECRET not in response.text, name
            assert len(response.text) < 300


@pytest.mark.parametrize("address", ["/runs/none/events?after=hunter2", f"/runs/none/events?after={'9' * 400}"])
async def test_no_address_is_repeated(address: str) -> None:
    async with client_of(app()) as client:
        response = await client.get(address)
    assert response.status_code == 422
    assert response.json()["detail"].startswith("after: ")
    assert SECRET not in response.text
    assert "999" not in response.text


async def test_no_message_breaks_a_socket_and_no_refusal_repeats_it() -> None:
    async with served(app()) as url, connect(url.replace("http", "ws") + "/ws", proxy=None) as socket:
        sent: list[str | bytes] = [*NOT_STRICT.values(), *WRONG.values(), b"\xff", b"{}"]
        for kind in ("start", "resume", "approve", "deny", "cancel", SECRET):
            sent += [f'{{"type": "{kind}", {body[1:]}' for body in WRONG.values() if body.startswith("{")]
            sent.append(f'{{"type": "{kind}", "uid": {{"s": "{SECRET}"}}}}')
            sent.append(f'{{"type": "{kind}", "uid": NaN}}')
        for text in sent:
            await socket.send(text)
            answer = await socket.recv()
            assert SECRET not in str(answer), text
            assert json.loads(answer, parse_constant=pytest.fail)["type"] == "refused"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec=None)), inner, max_size=3),
)


@given(VALUES)
def test_what_is_written_is_ascii_and_can_be_read_strictly(value: Any) -> None:
    text = wire_text(value)
    assert text.isascii()
    assert wire_text(read_strictly(text)) == text


@given(st.text(st.characters(codec=None), max_size=40) | st.sampled_from([*NOT_STRICT.values(), *WRONG.values()]))
@settings(max_examples=300)
def test_any_text_is_read_or_refused_without_being_repeated(text: str) -> None:
    for given_text in (text, text.encode(errors="surrogatepass")):
        said = ""
        try:
            read_strictly(given_text)
        except JsonTextError as error:
            said = str(error)
        assert SECRET not in said
