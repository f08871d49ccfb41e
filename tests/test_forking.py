"""Processes that are forked from one that has an engine: each has names, locks, a loop and threads of its own."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from fsm_engine.forking import _renewals, renew_in_children

PROGRAM = """
import asyncio, os, sys, threading
from fsm_engine import BreakerPolicy, ToolContext, ToolEngine, tool

form, kind, use = sys.argv[1:]

@tool(breaker=BreakerPolicy())
async def in_loop(ctx: ToolContext) -> str:
    'Its key.'
    return ctx.idempotency_key

@tool(breaker=BreakerPolicy())
def in_thread(ctx: ToolContext) -> str:
    'Its key.'
    return ctx.idempotency_key

engine = ToolEngine([in_loop, in_thread])
gate = threading.Event()

@tool
def hangs() -> None:
    'Hangs.'
    gate.wait()

def ask():
    call = {"id": "c", "name": kind}
    if form == "async":
        return asyncio.run(engine.execute_tool_call(call, deadline=20)).result
    if form == "invoke_sync":
        return engine.invoke_sync(kind, deadline=20).data or engine.invoke_sync(kind, deadline=20).text
    if form == "stream_sync":
        with engine.stream_sync([call], deadline=20) as run:
            list(run)
        return run.invocations[0].result
    return engine.execute_tool_call_sync(call, deadline=20).result

def fork_and_read(times):
    keys = []
    for _ in range(times):
        out, into = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(into, str(ask()).encode())
            os._exit(0)
        os.close(into)
        with os.fdopen(out) as pipe:
            keys.append(pipe.read())
        assert os.waitpid(child, 0)[1] == 0
    return keys

if use == "used":
    ask()
elif use == "in use":
    engine.register(hangs)
    thread = threading.Thread(target=lambda: engine.execute_tool_call_sync({"name": "hangs"}), daemon=True)
    thread.start()
    while not engine.threads.busy:
        pass
    for breaker in engine.circuits.values():  # as if another thread were at it
        threading.Thread(target=breaker._lock.acquire).start()
keys = fork_and_read(3)
if use != "in use" or form != "async":
    if use == "in use":
        gate.set()
        thread.join()
    else:
        keys.append(ask())  # the parent goes on as before
assert all(key.startswith("inv_") for key in keys), keys
assert len(set(keys)) == len(keys), keys
"""


@pytest.mark.parametrize("use", ["unused", "used", "in use"])
@pytest.mark.parametrize("kind", ["in_loop", "in_thread"])
@pytest.mark.parametrize("form", ["async", "execute_tool_call_sync", "invoke_sync", "stream_sync"])
def test_a_forked_process_can_use_an_engine_that_was_made_before_and_gives_keys_of_its_own(
    form: str, kind: str, use: str
) -> None:
    program = [sys.executable, "-W", "error", "-c", PROGRAM, form, kind, use]
    done = subprocess.run(program, timeout=50, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_renewed_is_not_kept_for_that() -> None:
    class Thing:
        def renew(self) -> None: ...

    before = len(_renewals)
    thing = Thing()
    renew_in_children(thing.renew)
    assert len(_renewals) == before + 1
    del thing
    gc.collect()
    assert len(_renewals) <= before
