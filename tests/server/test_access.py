"""Who reaches the server: by which names, from which pages, with which token."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from fsm_engine import ToolEngine
from fsm_engine.cli.serve import _serve
from fsm_engine.server import create_app, create_router

from .support import USER, client_of, read_all, says, served

TOKEN = "a-token-of-its-own"
ROUTES = ["/", "/page.json", "/static/tool-stream.js", "/openapi.json", "/tools", "/health", "/runs/x/events"]
POSTS = ["/chat/stream", "/runs/x/cancel", "/runs/x/calls/y/approve", "/runs/x/calls/y/deny", "/runs/x/calls/y/cancel"]


def app(**settings: Any) -> FastAPI:
    return create_app(ToolEngine([]), says("Hello."), **settings)


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("shop.example", True),
        ("SHOP.example:8000", True),
        ("desk.team.example", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("[::1]", True),
        ("192.0.2.7", True),
        ("team.example", False),
        ("evilteam.example", False),
        ("shop.example.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("[::1", False),
        ("", False),
    ],
)
async def test_server_answers_to_its_names_and_to_addresses_alone(host: str, is_known: bool) -> None:
    async with client_of(app(allowed_hosts=["shop.example", "*.team.example"])) as client:
        for path in ROUTES[:-1]:
            response = await client.get(path, headers={"Host": host})
            assert response.status_code == (200 if is_known else 400), path


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://[", "http://127.0.0.1:1", ""])
async def test_pages_of_other_sites_may_not_ask(origin: str) -> None:
    """On no route, in whatever application it is mounted, and the socket neither; their name is not repeated."""
    mounted = FastAPI()
    mounted.include_router(create_router(ToolEngine([]), says("Hello.")))
    for each in (app(), mounted):
        async with served(each) as url, httpx.AsyncClient(base_url=url, trust_env=False) as client:
            answers = [await client.get("/tools", headers={"Origin": origin})]
            for path in POSTS:
                body = {"messages": USER} if path == POSTS[0] else {}
                answers.append(await client.post(path, json=body, headers={"Origin": origin}))
            assert [answer.status_code for answer in answers] == [403] * 6
            assert "allowed_origins" in answers[0].json()["detail"]
            assert "evil" not in answers[0].text
            with pytest.raises(InvalidStatus, match="403"):
                await connect(url.replace("http", "ws") + "/ws", proxy=None, additional_headers={"Origin": origin})


@pytest.mark.parametrize("allowed", ["https://Shop.example/", "*"])
async def test_pages_of_named_sites_and_of_this_one_may_ask(allowed: str) -> None:
    async with (
        served(app(allowed_origins=[allowed])) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        for origin in ("https://shop.example", url):
            response = await client.post("/chat/stream", json={"messages": USER}, headers={"Origin": origin})
            assert response.status_code == 200
            async with connect(url.replace("http", "ws") + "/ws", proxy=None, additional_headers={"Origin": origin}):
                pass


async def test_nobody_gets_in_without_the_token() -> None:
    wrong: list[dict[str, str]] = [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer"},
        {"Cookie": "fsm-engine-0=wrong"},
        {"Cookie": f"other={TOKEN}"},
        {"Cookie": ';;= a b, "=;[]'},
    ]
    async with served(app(token=TOKEN)) as url, httpx.AsyncClient(base_url=url, trust_env=False) as client:
        for headers in wrong:
            for path in [*ROUTES, "/?token=", "/?token=wrong", "/tools?token=%ff%00"]:
                answer = await client.get(path, headers=headers)
                assert answer.status_code == 401, (path, headers)
                assert TOKEN not in answer.text
            with pytest.raises(InvalidStatus, match="403"):
                await connect(url.replace("http", "ws") + "/ws", proxy=None, additional_headers=headers)


async def test_token_of_the_first_address_is_kept_as_a_cookie() -> None:
    async with served(app(token=TOKEN)) as url, httpx.AsyncClient(base_url=url, trust_env=False) as client:
        first = await client.get(f"/?a=1&token={TOKEN}&b=2")
        assert (first.status_code, first.headers["location"]) == (303, "/?a=1&b=2")
        cookie = first.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert (await client.get("/")).status_code == 200
        _, told = await read_all(client)
        assert told[-1].event == "run_ended"
        headers = {"Cookie": cookie.partition(";")[0]}
        async with connect(url.replace("http", "ws") + "/ws", proxy=None, additional_headers=headers):
            pass
        away = await client.get(f"{url}//evil.example/?token={TOKEN}")
        assert away.headers["location"] == "/evil.example/"


async def test_programs_send_the_token_as_a_bearer() -> None:
    headers = {"Authorization": f"bearer {TOKEN}"}
    async with client_of(app(token=TOKEN), headers=headers) as client:
        assert (await client.get("/tools")).status_code == 200
        _, told = await read_all(client)
        address = str(client.base_url).replace("http", "ws") + f"/ws?token={TOKEN}"
        async with connect(address, proxy=None):
            pass
    assert told[-1].event == "run_ended"


@pytest.mark.parametrize("model", [None, "scripted"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "0.0.0.0", "::"])
async def test_command_opens_what_it_shows_and_asks_strangers_for_the_token(
    host: str, model: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listening where other machines reach it needs the token that is part of the address; else nothing is asked."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    tools = [] if model is None else ["fsm_engine.demo:calculator"]
    serving = asyncio.create_task(_serve(tools, model, host, 0, ["desk.example"]))
    said = warned = ""
    async with asyncio.timeout(20):
        while "Live page" not in said:
            assert not serving.done(), serving.exception()
            await asyncio.sleep(0)
            told = capsys.readouterr()
            said, warned = said + told.out, warned + told.err
    [url] = re.findall(r"http://\S+", said)
    is_open = host in {"0.0.0.0", "::"}
    assert ("token=" in url, "other machines reach this server" in warned) == (is_open, is_open)
    async with httpx.AsyncClient(trust_env=False, follow_redirects=True) as client, asyncio.timeout(20):
        bare = url.partition("?")[0]
        assert (await client.get(bare)).status_code == (401 if is_open else 200)
        assert (await client.get(url)).status_code == 200
        for name, status in (("desk.example", 200), ("localhost", 200), ("evil.example", 400)):
            assert (await client.get(f"{bare}tools", headers={"Host": name})).status_code == status, name
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
