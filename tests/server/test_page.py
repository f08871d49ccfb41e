"""The files of the live page, and the command that serves it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from fsm_engine import ToolEngine
from fsm_engine.cli.app import app as command
from fsm_engine.cli.serve import _serve
from fsm_engine.server import create_app
from fsm_engine.server.app import STATIC

from .support import USER, client_of, read_all, says

ROOT = Path(__file__).resolve().parents[2]


async def test_page_and_everything_that_it_names_are_there_and_come_from_here() -> None:
    async with client_of(create_app(ToolEngine([]), says("Hello."), intro="Welcome.")) as client:
        page = await client.get("/")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert (await client.get("/page.json")).json() == {"intro": "Welcome.", "suggestions": []}
        named = re.findall(r'(?:src|href)="(?!#)([^"]+)"', page.text)
        assert len(named) >= 3
        for address in named:
            assert (await client.get(f"/{address}")).status_code == 200, address
    for file in STATIC.glob("*.js"):
        for address in re.findall(r'from "(.+?)"', file.read_text(encoding="utf-8")):
            assert (STATIC / address).is_file(), f"{file.name} imports {address}"


def test_no_file_of_the_page_fetches_anything_from_another_host() -> None:
    for file in STATIC.iterdir():
        text = file.read_text(encoding="utf-8")
        code = re.sub(r"^\s*(//|/?\*).*$", "", text, flags=re.MULTILINE).replace("http://www.w3.org/2000/svg", "")
        assert "http" + "://" not in code, file.name
        assert "https:" not in code, file.name


async def test_server_answers_only_to_its_own_names() -> None:
    """A page of another site that has its name lead to this address (DNS rebinding) gets nothing."""
    app = create_app(ToolEngine([]), says("Hello."), allowed_hosts=("127.0.0.1",))
    async with client_of(app) as client:
        assert (await client.get("/tools")).status_code == 200
        assert (await client.get("/tools", headers={"Host": "evil.example"})).status_code == 400


async def test_streams_pass_the_check_of_names() -> None:
    app = create_app(ToolEngine([]), says("Hello."), allowed_hosts=("127.0.0.1",))
    async with client_of(app) as client:
        _, told = await read_all(client)
    assert told[-1].event == "run_ended"


CALCULATOR = ["--tools", "fsm_engine.demo:calculator"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --demo, or --tools and --model"),
        (["--demo", "--tools", "x:y"], "give --demo, or --tools and --model"),
        (["--tools", "math:sqrt"], "tools are of no use without a model"),
        ([*CALCULATOR, "--model", "math:model"], "has no attribute 'model'"),
        ([*CALCULATOR, "--model", "gpt-5"], "api_key"),
        ([*CALCULATOR, "--model", "llama3:latest"], "api_key"),
        ([*CALCULATOR, "--model", ".:"], "api_key"),
    ],
)
def test_command_says_what_is_missing(arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = CliRunner().invoke(command, ["serve", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize("missing", ["fastapi", "sse_starlette", "uvicorn"])
def test_command_says_how_to_get_the_packages_that_it_needs(missing: str) -> None:
    script = f"import sys; sys.modules[{missing!r}] = None; from fsm_engine.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script, "serve", "--demo"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "with its extra `server`" in done.stderr


SERVED = [
    (["--demo"], "order desk", "inventory_check"),
    ([*CALCULATOR, "--model", "scripted:MODEL"], "Ask something", "calculator"),
    ([*CALCULATOR, "--model", "some-model", "--host", "::1"], "Ask something", "calculator"),
]


@pytest.mark.parametrize(("arguments", "intro", "name"), SERVED, ids=["demo", "a model of one's own", "a model's name"])
def test_command_serves_the_page_until_it_is_interrupted(
    arguments: list[str], intro: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "scripted.py").write_text("async def MODEL(messages, tools):\n    yield {}\n", encoding="utf-8")
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": str(tmp_path), "OPENAI_API_KEY": "none"}
    process = subprocess.Popen(
        [sys.executable, "-c", "from fsm_engine.cli import main; main()", "serve", "--port", "0", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        [url] = re.findall(r"http://\S+/", process.stdout.readline())
        with httpx.Client(base_url=url, trust_env=False) as client:
            assert intro in client.get("page.json").text
            assert name in client.get("tools").text
            # Somebody who reads does not keep it from ending.
            with client.stream("POST", "chat/stream", json={"messages": USER}) as response:
                next(response.iter_lines())
                process.send_signal(signal.SIGINT)
                process.wait(20)
    finally:
        process.kill()
        assert process.wait(20) in {0, 130, -signal.SIGINT}
        if process.stdout is not None:
            process.stdout.close()


async def test_command_says_where_it_serves_as_soon_as_it_takes_connections(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    serving = asyncio.create_task(_serve(["fsm_engine.demo:calculator"], "scripted", "127.0.0.1", 0))
    said = ""
    async with asyncio.timeout(20):
        while "Live page" not in said:
            assert not serving.done(), serving.exception()
            await asyncio.sleep(0)
            said += capsys.readouterr().out
    [url] = re.findall(r"http://\S+/", said)
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        assert (await client.get("tools")).status_code == 200
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
