"""What people decide over HTTP: approve, deny, cancel; and who may."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from starlette.requests import HTTPConnection

from fsm_engine import ToolEngine, tool
from fsm_engine.server import create_app
from fsm_engine.validators import in_range

from .support import USER, client_of, messages, read_until, says, status


@tool(needs_approval=True, validator=in_range("amount", minimum=100))
async def pay(amount: float) -> str:
    return f"{amount:g} paid"


async def hang() -> None:
    await asyncio.Event().wait()


def pay_app(**settings: Any) -> FastAPI:
    return create_app(ToolEngine([pay]), says([("pay", {"amount": 150})], "Done."), **settings)


DECISIONS = [
    ("approve", {}, "tool_result", "150 paid"),
    ("approve", {"arguments": {"amount": 120}}, "tool_result", "120 paid"),
    ("deny", {"reason": "not today"}, "tool_error", "not today"),
    ("cancel", {}, "tool_error", "CANCELLED"),
]


@pytest.mark.parametrize(("verb", "body", "event", "text"), DECISIONS, ids=["yes", "yes, but less", "no", "never mind"])
async def test_call_waits_for_a_person_and_does_what_the_person_says(
    verb: str, body: dict[str, Any], event: str, text: str
) -> None:
    async with (
        client_of(pay_app()) as client,
        client.stream("POST", "/chat/stream", json={"messages": USER}) as response,
    ):
        found = messages(response)
        asked = await read_until(found, status("AWAITING_APPROVAL"))
        assert asked.data["arguments"] == {"amount": 150}
        call = f"/runs/{response.headers['x-run-id']}/calls/{asked.data['uid']}"
        decided = await client.post(f"{call}/{verb}", json=body)
        assert (decided.status_code, decided.json()["tool"]) == (200, "pay")
        ended = await read_until(found, lambda each: each.event == event)
        assert text in str(ended.data)
        late = await client.post(f"{call}/{verb}", json=body)
        assert late.status_code == 409
        assert "the call cannot be" in late.json()["detail"]


async def test_edited_arguments_are_checked_like_the_models_and_the_call_waits_on() -> None:
    async with (
        client_of(pay_app()) as client,
        client.stream("POST", "/chat/stream", json={"messages": USER}) as response,
    ):
        found = messages(response)
        uid = (await read_until(found, status("AWAITING_APPROVAL"))).data["uid"]
        call = f"/runs/{response.headers['x-run-id']}/calls/{uid}"
        refused = await client.post(f"{call}/approve", json={"arguments": {"amount": 5}})
        assert refused.status_code == 422
        assert "amount must be at least 100" in refused.json()["detail"]
        assert (await client.post(f"{call}/approve", json={})).status_code == 200
        await read_until(found, lambda each: each.event == "tool_result")


@tool(needs_approval=True, sensitive=("pin",), validator=in_range("amount", minimum=100))
async def draw(amount: int, pin: str) -> str:
    return f"{amount} with {pin}"


@pytest.mark.parametrize(
    ("body", "answer", "result"),
    [
        (b"", "COMPLETED", "9007199254740993 with 4711"),
        (b"null", "COMPLETED", "9007199254740993 with 4711"),
        (b"{}", "COMPLETED", "9007199254740993 with 4711"),
        (b'{"arguments":{"amount":9007199254740995,"pin":"***"}}', "COMPLETED", "9007199254740995 with 4711"),
    ],
)
async def test_approval_is_told_with_its_author_and_answers_where_the_call_is_then(
    body: bytes, answer: str, result: str
) -> None:
    model = says([("draw", {"amount": 2**53 + 1, "pin": "4711"})], "Done.")
    app = create_app(ToolEngine([draw]), model, authorize=lambda connection: "ann")
    async with client_of(app) as client, client.stream("POST", "/chat/stream", json={"messages": USER}) as response:
        found = messages(response)
        asked = await read_until(found, status("AWAITING_APPROVAL"))
        assert asked.data["arguments_json"] == '{"amount": 9007199254740993, "pin": "***"}'
        call = f"/runs/{response.headers['x-run-id']}/calls/{asked.data['uid']}"
        decided = await client.post(f"{call}/approve", content=body, headers={"Content-Type": "application/json"})
        assert (decided.status_code, decided.json()["state"]) == (200, answer)
        told = await read_until(found, status("VALIDATING"))
        assert (told.data["approval"]["verdict"], told.data["approval"]["by"]) == ("approved", "ann")
        ended = await read_until(found, lambda each: each.event == "tool_result")
        assert ended.data["result"]["text"] == result


async def test_edit_can_be_checked_before_anybody_decides() -> None:
    model = says([("draw", {"amount": 500, "pin": "4711"})], "Done.")
    async with (
        client_of(create_app(ToolEngine([draw]), model)) as client,
        client.stream("POST", "/chat/stream", json={"messages": USER}) as response,
    ):
        found = messages(response)
        uid = (await read_until(found, status("AWAITING_APPROVAL"))).data["uid"]
        call = f"/runs/{response.headers['x-run-id']}/calls/{uid}"
        good = await client.post(f"{call}/check", json={"arguments": {"amount": 250, "pin": "***"}})
        assert (good.status_code, good.json()) == (200, {"arguments_json": '{"amount": 250, "pin": "***"}'})
        for arguments, path in (({"amount": 5, "pin": "***"}, "amount"), ({"amount": 500, "pins": "x"}, "pin")):
            for verb in ("check", "approve"):
                refused = await client.post(f"{call}/{verb}", json={"arguments": arguments})
                assert refused.status_code == 422
                assert path in [issue["path"] for issue in refused.json()["issues"]]
        assert (await client.post(f"{call}/deny", content=b"")).json()["state"] == "FAILED"
        assert (await client.post(f"{call}/check", json={"arguments": {}})).status_code == 409


async def test_whole_run_can_be_cancelled_once() -> None:
    app = create_app(ToolEngine([hang]), says([("hang", {})], "Done."))
    async with client_of(app) as client, client.stream("POST", "/chat/stream", json={"messages": USER}) as response:
        found = messages(response)
        await read_until(found, status("EXECUTING"))
        address = f"/runs/{response.headers['x-run-id']}/cancel"
        assert (await client.post(address, json={"reason": "enough"})).status_code == 200
        ended = await read_until(found, lambda each: each.event == "run_ended")
        assert (ended.data["reason"], ended.data["message"]) == ("cancelled", "enough")
        assert (await client.post(address, json={})).status_code == 409


def by_name(connection: HTTPConnection) -> str:
    name = connection.headers.get("authorization")
    if name is None:
        raise HTTPException(401, "say who you are")
    return name


async def by_name_later(connection: HTTPConnection) -> str:
    return by_name(connection)


@pytest.mark.parametrize("authorize", [by_name, by_name_later])
async def test_run_is_hidden_from_everybody_but_who_began_it(authorize: Any) -> None:
    ann, bob = {"Authorization": "ann"}, {"Authorization": "bob"}
    async with (
        client_of(pay_app(authorize=authorize)) as client,
        client.stream("POST", "/chat/stream", json={"messages": USER}, headers=ann) as response,
    ):
        found = messages(response)
        uid = (await read_until(found, status("AWAITING_APPROVAL"))).data["uid"]
        run = f"/runs/{response.headers['x-run-id']}"

        async def answers(run: str, uid: str, headers: dict[str, str]) -> list[httpx.Response]:
            verbs = [f"/calls/{uid}/approve", f"/calls/{uid}/deny", f"/calls/{uid}/cancel", "/cancel"]
            posts = [await client.post(run + verb, json={}, headers=headers) for verb in verbs]
            return [await client.get(f"{run}/events", headers=headers), *posts]

        bobs = await answers(run, uid, bob)
        unknown = await answers("/runs/none", uid, bob)
        assert [each.status_code for each in bobs] == [404] * 5
        assert [each.content for each in bobs] == [each.content for each in unknown]
        assert (await client.post(f"{run}/calls/none/approve", json={}, headers=ann)).status_code == 404
        assert (await client.post(f"{run}/calls/{uid}/approve", json={}, headers=ann)).status_code == 200


async def test_every_route_asks_who_is_there() -> None:
    app = pay_app(authorize=by_name)
    async with client_of(app) as client:
        for path, operations in app.openapi()["paths"].items():
            for method in operations:
                address = path.replace("{form}", "mmd").replace("{", "").replace("}", "")
                body = {"messages": USER} if path == "/chat/stream" else {}
                response = await client.request(method.upper(), address, json=body if method == "post" else None)
                assert (response.status_code, response.json()) == (401, {"detail": "say who you are"}), path
