"""The command line: what it takes, what it shows, how it says no, and its exit statuses."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text
from typer.testing import CliRunner

import fsm_engine
from fsm_engine import (
    GapEvent,
    ToolCallEvent,
    ToolContext,
    ToolEngine,
    ToolEvent,
    ToolInvocation,
    ToolResponse,
    VirtualClock,
    tool,
)
from fsm_engine.cli import display, main
from fsm_engine.cli.app import app
from fsm_engine.cli.board import Board, duration, one_line
from fsm_engine.cli.display import LiveScreen, LogScreen, screen_for, summary_line, summary_table
from fsm_engine.cli.watching import approve_all, ask, deny_all, read_line, watch
from fsm_engine.invocation.substitute import FallbackPolicy

TOOLS = '''
from fsm_engine import ToolEngine, ToolRegistry, ToolResponse, tool

@tool(needs_approval=True)
async def pay(amount: float) -> str:
    """Pay."""
    return f"paid {amount:g}"

def add(a: int, b: int) -> int:
    """Add."""
    print("tools may print")
    return a + b

async def half(number: int):
    """Halve."""
    return ToolResponse.partial("about half", reason="rounded")

async def broken():
    """Break."""
    raise RuntimeError("out of order")

TOOLS = [pay, add, half, broken]
BY_NAME = {"add": add}
REGISTRY = ToolRegistry([add])
ENGINE = ToolEngine([add])
NUMBER = 3
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a module of tools, as the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "shop_tools.py").write_text(TOOLS, encoding="utf-8")
    yield tmp_path
    for name in ("shop_tools", "needy", "faulty"):
        sys.modules.pop(name, None)


def run(
    *arguments: str, calls: Any = None, text: str | None = None, tools: Sequence[str] = ("shop_tools:TOOLS",)
) -> Any:
    """The command `run` with these calls on standard input."""
    given = json.dumps(calls) if text is None else text
    references = [part for reference in tools for part in ("--tools", reference)]
    return CliRunner().invoke(app, ["run", "-", *references, *arguments], input=given)


def call(name: str, call_id: str = "c1", **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "name": name, "arguments": arguments}


def flat(text: str) -> str:
    """The text of a box of a terminal in one line."""
    return " ".join(text.translate(str.maketrans(dict.fromkeys("│╭╮╰╯─", " "))).split())


# -- what comes out ----------------------------------------------------------------------------------------------------


def test_states_are_shown_line_by_line(folder: Path) -> None:
    done = run(calls=[call("add", a=1, b=2)])
    states = [line.split()[4] for line in done.stdout.splitlines() if " add " in line]
    assert states == ["PENDING", "VALIDATING", "ADMITTING", "EXECUTING", "COMPLETED"]
    assert '{"a": 1, "b": 2}' in done.stdout
    assert done.stdout.splitlines()[-1] == "1 call: 1 completed"
    assert done.exit_code == 0


def test_calls_are_read_from_standard_input_where_no_file_is_named(folder: Path) -> None:
    given = json.dumps([call("add", a=1, b=2)])
    done = CliRunner().invoke(app, ["run", "--tools", "shop_tools:TOOLS"], input=given)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "1 call: 1 completed")


@pytest.mark.parametrize(
    ("calls", "status"),
    [
        ([call("add", a=1, b=2)], 0),
        ([call("half", number=3)], 0),
        ([], 0),
        ([call("add", a=1, b=2), call("broken", "c2")], 1),
        ([call("unknown")], 1),
        ([call("add", a="one", b=2)], 1),
    ],
    ids=["success", "partial", "nothing", "one failed", "unknown tool", "refused"],
)
def test_exit_status_tells_whether_a_call_failed(folder: Path, calls: list[Any], status: int) -> None:
    assert run(calls=calls).exit_code == status


def test_json_prints_a_line_for_each_result_in_call_order_and_nothing_else(folder: Path) -> None:
    done = run(
        "--json", "--deny", calls=[call("add", "x", a=1, b=2), call("pay", "y", amount=5), call("half", "z", number=1)]
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["id"], line["state"], line["status"]) for line in lines] == [
        ("x", "COMPLETED", "success"),
        ("y", "FAILED", "error"),
        ("z", "COMPLETED", "partial"),
    ]
    assert lines[0]["data"] == 3
    assert ToolResponse.from_dict(lines[1]).error_info is not None
    assert "tools may print" in done.stderr
    assert done.exit_code == 1


def test_verbose_shows_where_a_tool_failed(folder: Path) -> None:
    done = run("--verbose", calls=[call("broken"), call("add", "c2", a="one", b=2), call("add", "c3", a=1, b=1)])
    assert "shop_tools.py:" in done.stderr
    assert "out of order" in done.stderr
    assert "c2" not in done.stderr, "what was refused has no place in the tool's code"
    assert not run(calls=[call("broken")]).stderr


def test_version() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"fsm-engine {fsm_engine.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["demo", "--help"], ["-h"]])
def test_every_option_has_a_help_text(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})
    assert done.exit_code == 0
    bare = [
        line for line in done.stdout.splitlines() if "--" in line and line.strip(" │").split("  ")[-1].startswith("-")
    ]
    assert not bare


# -- what goes in ------------------------------------------------------------------------------------------------------

MESSAGE = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "m1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}],
}


@pytest.mark.parametrize(
    ("calls", "ids"),
    [
        (MESSAGE, ["m1"]),
        (MESSAGE["tool_calls"], ["m1"]),
        ([call("add", "a", a=1, b=1), call("add", "b", a=1, b=1)], ["a", "b"]),
        (call("add", "one", a=1, b=1), ["one"]),
        ({"role": "assistant", "content": "Nothing to do."}, []),
        ([], []),
    ],
    ids=["message", "tool_calls", "list", "one call", "message without calls", "empty"],
)
def test_forms_of_the_calls(folder: Path, calls: Any, ids: list[str]) -> None:
    done = run("--json", calls=calls)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ids
    assert done.exit_code == 0


def test_calls_are_read_from_a_file(folder: Path) -> None:
    (folder / "calls.json").write_text(json.dumps(MESSAGE), encoding="utf-8")
    done = CliRunner().invoke(app, ["run", "calls.json", "-t", "shop_tools:add"])
    assert "COMPLETED" in done.stdout
    assert done.exit_code == 0


@pytest.mark.parametrize(
    "tools",
    [
        ["shop_tools:TOOLS"],
        ["shop_tools:add"],
        ["shop_tools:pay", "shop_tools:add"],
        ["shop_tools:REGISTRY"],
        ["shop_tools:ENGINE"],
        ["shop_tools:BY_NAME"],
    ],
    ids=["list", "function", "several", "registry", "engine", "mapping"],
)
def test_forms_of_the_tools(folder: Path, tools: list[str]) -> None:
    assert run(calls=MESSAGE, tools=tools).exit_code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[{", "is not strict JSON (EOF while parsing an object at line 1 column 2"),
        ("3", "holds a number; give a JSON list of calls"),
        ("null", "holds null"),
        ('"x"', "holds text"),
        ("true", "holds true or false"),
        ("[3]", "item 1 in standard input is a number and no call"),
        ("[[]]", "item 1 in standard input is a list and no call"),
        ('[{"role": "user"}]', "is a message and no call; give one message at a time"),
        ('{"choices": []}', "give the message in it, choices[0].message"),
        ('{"a": 1}', "neither a call nor a message"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_calls_that_cannot_be_read_are_refused_with_the_next_step(folder: Path, text: str, words: str) -> None:
    done = run(text=text)
    assert done.exit_code == 2
    assert words in flat(done.stderr)
    assert not done.stdout


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        (["shop_tools"], "is not module:name"),
        ([":TOOLS"], "is not module:name"),
        (["shop_tools.py:TOOLS"], "such as shop_tools:TOOLS"),
        (["./shop_tools:TOOLS"], "is a file"),
        (["no_such_module:TOOLS"], "there is no module no_such_module"),
        (["shop_tools.inner:TOOLS"], "there is no module shop_tools.inner"),
        (["shop_tools:TOOL"], "has no TOOL; it has"),
        (["shop_tools:NUMBER"], "is of the type int and holds no tools; give a list of tools"),
        (["shop_tools:ToolEngine"], "is a class and holds no tools"),
        (["shop_tools:add", "shop_tools:add"], "is registered"),
        (["shop_tools:ENGINE", "shop_tools:add"], "give it alone"),
        (["needy:TOOLS"], "needs the module no_such_module; install it"),
        (["faulty:TOOLS"], "failed: ZeroDivisionError"),
    ],
)
def test_tools_that_cannot_be_found_are_refused_with_the_next_step(folder: Path, tools: list[str], words: str) -> None:
    (folder / "needy.py").write_text("import no_such_module\n", encoding="utf-8")
    (folder / "faulty.py").write_text("1 / 0\n", encoding="utf-8")
    done = run(calls=[], tools=tools)
    assert done.exit_code == 2
    assert words in flat(done.stderr)


@pytest.mark.parametrize(
    ("name", "words"),
    [("none.json", "there is no file none.json"), (".", "cannot be read as text"), ("raw", "cannot be read as text")],
)
def test_files_that_cannot_be_read_are_refused(folder: Path, name: str, words: str) -> None:
    (folder / "raw").write_bytes(b"\xff\xfe\xff")
    done = CliRunner().invoke(app, ["run", name, "-t", "shop_tools:add"])
    assert done.exit_code == 2
    assert words in flat(done.stderr)


@pytest.mark.parametrize(
    "arguments", [["run"], ["run", "-"], ["run", "-", "-t", "shop_tools:add", "--deadline", "0"], ["sing"], []]
)
def test_wrong_usage_has_exit_status_two(folder: Path, arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


def test_deadline_holds_for_each_call(folder: Path) -> None:
    (folder / "shop_tools.py").write_text(
        "import asyncio\nasync def wait():\n    await asyncio.get_running_loop().create_future()\n", encoding="utf-8"
    )
    done = run("--json", "--deadline", "0.01", calls=[call("wait")], tools=["shop_tools:wait"])
    assert json.loads(done.stdout)["error_info"]["reason"] == "deadline"


# -- approval ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--approve"], "paid 5"),
        (["--deny"], "the command was given --deny"),
        ([], "nobody could be asked; run it in a terminal, or give --approve"),
    ],
)
def test_approval_without_a_terminal(folder: Path, arguments: list[str], words: str) -> None:
    assert words in run(*arguments, calls=[call("pay", amount=5)]).stdout


def test_approval_at_a_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "calls.json").write_text(json.dumps([call("pay", amount=5)]), encoding="utf-8")
    with terminal() as (types, stream):
        monkeypatch.setattr(sys, "stdin", stream)
        types("y\n")
        app(["run", "calls.json", "-t", "shop_tools:pay"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert 'Approve pay with {"amount": 5}? [y/N]' in shown
    assert "paid 5" in shown


def test_output_that_cannot_be_reconfigured_will_do(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "calls.json").write_text("[]", encoding="utf-8")
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stdout", plain)
    app(["run", "calls.json", "-t", "shop_tools:add"], standalone_mode=False)
    assert plain.getvalue() == "0 calls\n"


@tool(needs_approval=True)
async def pay(amount: float) -> str:
    return f"paid {amount:g}"


@contextmanager
def terminal() -> Iterator[tuple[Callable[[str], int], Any]]:
    """A terminal: what types into it, and the stream that a program reads."""
    keyboard, program = os.openpty()
    with os.fdopen(program, encoding="utf-8") as stream:
        try:
            yield lambda text: os.write(keyboard, text.encode()), stream
        finally:
            os.close(keyboard)


@pytest.mark.parametrize("has_reader", [True, False], ids=["selector", "loop that watches sockets only"])
@pytest.mark.parametrize(
    ("answer", "state"), [("y\n", "COMPLETED"), ("YES\n", "COMPLETED"), ("n\n", "FAILED"), ("\n", "FAILED")]
)
async def test_a_person_at_a_terminal_is_asked(
    answer: str, state: str, has_reader: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_reader:
        monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", lambda *_: unsupported(), raising=False)
    shown = Console(file=io.StringIO(), width=80)
    questions: list[str] = []
    with terminal() as (types, stream):

        def prompt(question: Text) -> None:
            questions.append(question.plain)
            types(answer)

        async with ToolEngine([pay]) as engine:
            screen = LogScreen(shown)
            [invocation] = await watch(engine.stream([call("pay", amount=5)]), screen, ask(screen, prompt, stream))
    assert questions == ['Approve pay with {"amount": 5}? [y/N] ']
    assert invocation.state == state


async def test_question_at_the_terminal_has_all_of_the_arguments_and_nothing_unseen_in_them() -> None:
    @tool(needs_approval=True)
    async def send(text: str, amount: int) -> str:
        return text

    asked = {"text": f"{'x' * 5_000}\u202e\u200bEND", "amount": 2**53 + 1}
    questions: list[str] = []
    with terminal() as (types, stream):

        def prompt(question: Text) -> None:
            questions.append(question.plain)
            types("y\n")

        async with ToolEngine([send]) as engine:
            screen = LogScreen(Console(file=io.StringIO()))
            await watch(engine.stream([call("send", **asked)]), screen, ask(screen, prompt, stream))
    shown = questions[0].removeprefix("Approve send with ").removesuffix("? [y/N] ")
    assert json.loads(shown) == asked
    assert all(each == "\n" or each.isprintable() for each in shown)


def unsupported() -> None:
    raise NotImplementedError


async def test_questions_come_one_at_a_time_and_not_for_calls_that_have_ended() -> None:
    questions: list[str] = []
    with terminal() as (types, stream):
        async with ToolEngine([pay]) as engine:
            run_ = engine.stream([call("pay", "a", amount=1), call("pay", "b", amount=2), call("pay", "c", amount=3)])
            screen = LogScreen(Console(file=io.StringIO()))

            def prompt(question: Text) -> None:
                questions.append(question.plain)
                run_.invocations[1].cancel("no longer wanted")
                types("y\n")

            invocations = await watch(run_, screen, ask(screen, prompt, stream))
    assert [invocation.state for invocation in invocations] == ["COMPLETED", "CANCELLED", "COMPLETED"]
    assert len(questions) == 2


async def test_a_question_that_nobody_answers_is_given_up_with_its_call() -> None:
    clock = VirtualClock()
    asked = asyncio.Event()
    with terminal() as (_, stream):
        async with ToolEngine([pay.replaced(approval_timeout=60)], clock=clock) as engine:
            screen = LogScreen(Console(file=io.StringIO()))
            watching = asyncio.create_task(
                watch(engine.stream([call("pay", amount=1)]), screen, ask(screen, lambda _: asked.set(), stream))
            )
            await asked.wait()
            clock.advance(60)
            [invocation] = await watching
    assert invocation.error is not None
    assert invocation.error.code == "APPROVAL_EXPIRED"


async def test_an_interrupted_run_still_shows_how_its_calls_ended() -> None:
    ended: list[str] = []
    text = io.StringIO()
    async with ToolEngine([pay]) as engine:
        run_ = engine.stream([call("pay", amount=1)])
        waiting = asyncio.Event()

        async def never(invocation: ToolInvocation, arguments: str) -> None:
            waiting.set()
            await asyncio.get_running_loop().create_future()

        watching = asyncio.create_task(
            watch(run_, LogScreen(Console(file=text)), never, lambda run: ended.append(run.invocations[0].state))
        )
        await waiting.wait()
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
    assert ended == ["CANCELLED"]
    assert "CANCELLED" in text.getvalue()


async def test_read_line_gives_way_when_cancelled() -> None:
    with terminal() as (types, stream):
        reading = asyncio.create_task(read_line(stream))
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        types("for the next\n")
        assert await read_line(stream) == "for the next\n"


# -- how it looks ------------------------------------------------------------------------------------------------------


async def steps(context: ToolContext) -> str:
    context.report(0.5, "half way")
    context.report(None, "almost")
    context.report(7)
    context.emit("a piece")
    return "all steps"


def colourful(**settings: Any) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, color_system=None, legacy_windows=False, width=100, **settings
    )


def output(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def test_live_table_shows_running_calls_and_leaves_the_ended_ones() -> None:
    console, clock = colourful(height=30), VirtualClock()
    async with ToolEngine([steps, pay], clock=clock) as engine:
        screen = LiveScreen(console, clock.wall)
        run_ = engine.stream([call("pay", "a", amount=1), {"name": "steps"}])
        with screen:
            async with run_:
                async for event in run_:
                    screen.show(event)
                    if screen._live is not None:
                        screen._live.refresh()
                    if event.type == "tool_result":
                        break
                clock.advance(2.5)
                assert screen._live is not None
                screen._live.refresh()
                with screen.paused():
                    console.print("a question")
                run_.invocations[0].approve()
                async for event in run_:
                    screen.show(event)
    shown = output(console)
    for piece in (
        "half way",
        " 50%",
        "almost",
        "a piece",
        "AWAITING\N{NO-BREAK SPACE}APPROVAL",
        "2.50 s",
        "a question",
        "✔ pay",
        "paid 1",
    ):
        assert piece in shown, piece


async def test_live_table_that_does_not_fit_shows_what_runs() -> None:
    console = colourful(height=12)
    async with ToolEngine([pay, steps]) as engine:
        calls = [
            *({"id": f"p{number}", "name": "pay", "arguments": {"amount": 1}} for number in range(5)),
            {"name": "steps"},
        ]
        async with screen_for(console, engine.clock.wall) as screen, engine.stream(calls) as run_:
            async for event in run_:
                screen.show(event)
                if event.type == "tool_result":
                    break
            assert isinstance(screen, LiveScreen)
            assert screen._live is not None
            screen._live.refresh()
            assert "1 ended, 3 more running" in output(console)
            for invocation in run_.invocations[:4]:
                invocation.deny()
            while (event := await anext(run_)).type != "tool_error" or event.id != "p3":  # type: ignore[attr-defined]  # it is a tool's
                screen.show(event)
            screen.show(event)
            screen._live.refresh()
            assert "5 ended, " not in output(console)
            assert "  5 ended" in output(console)


async def test_screen_ticks_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "REFRESH_SECONDS", 0)
    console = colourful(height=30)
    async with (
        ToolEngine([pay]) as engine,
        screen_for(console, engine.clock.wall) as screen,
        engine.stream([call("pay", amount=1)]) as run_,
    ):
        screen.show(await anext(run_))
        drawn = output(console)
        while output(console) == drawn:  # noqa: ASYNC110 - the screen sets no event when it draws
            await asyncio.sleep(0)
        with screen.paused():
            drawn = output(console)
            for _ in range(10):
                await asyncio.sleep(0)
            assert output(console) == drawn


async def test_log_says_progress_once_a_second() -> None:
    console, clock = Console(file=io.StringIO(), width=80), VirtualClock()

    async def slow(context: ToolContext) -> None:
        for number in range(10):
            context.report(number / 10, f"part {number}")
            await clock.sleep(0.5)

    async with ToolEngine([slow], clock=clock) as engine, engine.stream([{"name": "slow"}]) as run_:
        screen = LogScreen(console)
        async for event in run_:
            screen.show(event)
            await asyncio.sleep(0)
            if clock.next_timer is not None and getattr(event, "progress", None) is not None:
                clock.advance(0.5)
    parts = [line.split()[-1] for line in output(console).splitlines() if "part" in line]
    assert parts == ["0", "2", "4", "6", "8"]


async def test_fallback_and_its_age_are_shown() -> None:
    async def flaky() -> str:
        raise ConnectionError("down")

    spec = tool(fallback=FallbackPolicy(value="stand-in", on_failure=True))(flaky)
    console = Console(file=io.StringIO(), width=120)
    async with ToolEngine([spec]) as engine:
        invocations = await watch(engine.stream([{"name": "flaky"}]), LogScreen(console), approve_all())
    assert "FALLING_BACK       network_error" in output(console)
    assert "COMPLETED          (network_error) stand-in" in output(console)
    console.print(summary_table(invocations), summary_line(invocations))
    assert "◐" in output(console)


async def test_summary_tells_why() -> None:
    console = Console(file=io.StringIO(), width=120)
    async with ToolEngine([pay]) as engine:
        calls = [call("pay", "a", amount=1), {"id": "b", "name": "nothing"}]
        invocations = await watch(engine.stream(calls), LogScreen(console), deny_all("no"))
    console.print(summary_table(invocations))
    assert "APPROVAL_DENIED denied" in output(console)
    assert "NOT_FOUND unknown_tool" in output(console)


def test_events_that_say_nothing_of_a_call_change_nothing() -> None:
    board = Board()
    known = board.take(ToolCallEvent(1, 0.0, "c1", "u1", "add", {}))
    assert known is not None
    before = repr(known)
    assert board.take(ToolEvent(2, 0.0, "c1", "u1")) is known
    assert repr(known) == before
    assert board.take(ToolEvent(2, 0.0, "c2", "u2")) is None
    assert board.take(GapEvent(1, 0.0, 3)) is None
    screen = LogScreen(Console(file=io.StringIO()))
    screen.show(GapEvent(1, 0.0, 3))
    assert board.cards == [known]


def test_text_of_a_tool_cannot_command_the_terminal() -> None:
    assert one_line("\x1b[2J red\x07\n next\u202e") == "?[2J red? next?"
    assert one_line("x" * 1_000) == "x" * 300 + "…"


def test_durations_have_the_unit_that_suits_them() -> None:
    assert [duration(seconds) for seconds in (0.0042, 0.9, 1.5)] == ["4 ms", "900 ms", "1.50 s"]


# -- the program itself ------------------------------------------------------------------------------------------------


def test_without_its_packages_the_command_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "fsm_engine.cli.app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "with its extra `cli`" in capsys.readouterr().err


def test_a_module_of_our_own_that_is_missing_is_no_matter_of_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "fsm_engine.cli.app", raising=False)
    monkeypatch.setitem(sys.modules, "fsm_engine.cli.watching", None)
    with pytest.raises(ModuleNotFoundError):
        main()


def test_main_runs_the_application(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["fsm-engine", "--version"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0
    assert "fsm-engine" in capsys.readouterr().out
