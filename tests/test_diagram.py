"""Pictures show every move of a lifecycle, the same on every machine, and the committed ones are current."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from functools import partial
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pygraphviz
import pytest
import typer
from transitions.extensions import GraphMachine
from typer.testing import CliRunner

from fsm_engine import INVOCATION, ConfigurationError, HistoryEntry, Lifecycle, Row, State, ToolEngine, VirtualClock
from fsm_engine.cli.diagrams import add_commands
from fsm_engine.diagram import (
    BUILT_IN,
    FORMATS,
    check_all,
    invocation_diagram,
    lifecycle_diagram,
    render_all,
    to_dot,
    to_mermaid,
    to_png,
    to_svg,
    to_table,
    trace_of,
)
from fsm_engine.diagram.dot import START
from fsm_engine.diagram.path import duration
from fsm_engine.machine.lifecycle import Guard

ROOT = Path(__file__).resolve().parents[1]
LIFECYCLES = pytest.mark.parametrize("lifecycle", BUILT_IN.values(), ids=BUILT_IN)

AWKWARD = (
    "end",
    "NOTE",
    "in review: now",
    'a"b\\',
    "<b>&x</b>",
    "#5;",
    "x | y",
    "s0",
    "`q`",
    "日本",
    "\ud800\n\x00",
    "{}",
)
"""Names that mean something to a notation, or that it cannot hold."""


def always(event: object) -> bool:
    return True


def chain(*names: str) -> Lifecycle:
    """States in a row, in which every text that is shown is one of these names."""
    return Lifecycle(
        name='na"me: \\x',
        doc=names[2],
        initial=names[0],
        states=tuple(State(name, activity=name, doc=name, final=name == names[-1]) for name in names),
        rows=tuple(
            row
            for here, there in itertools.pairwise(names)
            for row in (Row(here, there, there, guard="a]<|"), Row(here, there, here, doc=there))
        ),
        guards={"a]<|": always},
        on_transition=names[:2],
    )


def parsed(dot: str) -> Any:
    """The graph as Graphviz reads it; keep it for as long as its nodes and edges are read."""
    return pygraphviz.AGraph(string=dot)


def arrows_of(dot: str) -> dict[tuple[str, str], list[str]]:
    """The labels of each arrow, as Graphviz itself reads the text."""
    found: dict[tuple[str, str], list[str]] = {}
    graph = parsed(dot)
    for edge in graph.edges():
        lines = re.findall(r'&#160;(.*?)<br align="left"/>', edge.attr["label"] or "")
        found[edge[0], edge[1]] = [unescape(line) for line in lines]
    return found


# -- a lifecycle ---------------------------------------------------------------------------------------------------


@LIFECYCLES
def test_boxes_and_arrows_are_those_of_graph_machine(lifecycle: Lifecycle) -> None:
    """`transitions` draws the same states and moves; only it draws a row of `*` once for each state."""
    theirs = GraphMachine(
        model=SimpleNamespace(),
        states=[state.name for state in lifecycle.states],
        initial=lifecycle.initial,
        auto_transitions=False,
        show_conditions=True,
        graph_engine="pygraphviz",
    )
    for row in lifecycle.moves:
        theirs.add_transition(row.trigger, row.source, row.dest, conditions=row.guard)
    drawn: Any = theirs.get_combined_graph()  # pygraphviz's own
    expected = {(edge[0], edge[1]): sorted(edge.attr["label"].split(" | ")) for edge in drawn.edges()}

    ours: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for (source, dest), labels in arrows_of(to_dot(lifecycle)).items():
        unfinished = [state.name for state in lifecycle.states if not state.final]
        for each in unfinished if source == "*" else [source] if source != START else []:
            ours[each, dest] += [re.sub(r"^\d+\. | \[otherwise\]$", "", label) for label in labels]
    assert {key: sorted(labels) for key, labels in ours.items()} == expected
    nodes = {node for node in parsed(to_dot(lifecycle)).nodes() if node not in {START, "*"}}
    assert nodes == set(drawn.nodes())


def test_guarded_rows_are_numbered_in_the_order_in_which_they_are_tried() -> None:
    arrows = arrows_of(to_dot(INVOCATION))
    assert arrows["EXECUTING", "RETRYING"] == ["1. fail [may_retry]"]
    assert arrows["EXECUTING", "FALLING_BACK"] == ["2. fail [fallback_on_failure]"]
    assert arrows["EXECUTING", "FAILED"] == ["3. fail [otherwise]"]
    assert arrows["EXECUTING", "COMPLETED"] == ["succeed"]


def test_a_row_of_any_state_counts_among_the_rows_of_a_state() -> None:
    lifecycle = INVOCATION.extended(
        rows=[Row("RETRYING", "abort", "CANCELLED", guard="always")], guards={"always": always}
    )
    arrows = arrows_of(to_dot(lifecycle))
    assert arrows["RETRYING", "CANCELLED"] == ["1. abort [always]"]
    assert arrows["*", "FAILED"] == ["abort"]


def test_states_show_their_gates_hooks_and_activity_in_order() -> None:
    state = State("B", gates=("ask",), on_enter=("greet", "log"), on_exit=("bye",), activity="wait", final=False)
    rows = (Row("A", "go", "B"), Row("B", "go", "A"))
    drawn = to_dot(Lifecycle("small", "A", (State("A"), state), rows, perpetual=True))
    graph = parsed(drawn)
    label = graph.get_node("B").attr["label"]
    assert re.findall(r"\w+ / \w+", label) == ["gate / ask", "entry / greet", "entry / log", "do / wait", "exit / bye"]
    assert '"A" [label=<<b>A</b>>' in drawn


def test_final_states_have_a_double_border_and_kinds_a_colour() -> None:
    graph = parsed(to_dot(INVOCATION))
    look = {node: (graph.get_node(node).attr["peripheries"], graph.get_node(node).attr["fillcolor"]) for node in graph}
    assert {node for node, (borders, _) in look.items() if borders == "2"} == INVOCATION.final_states
    colours = [look[state][1] for state in ("PENDING", "VALIDATING", "FAILED")]
    assert len(set(colours)) == 3


def test_mermaid_has_every_row_and_every_end() -> None:
    lines = to_mermaid(INVOCATION).splitlines()
    assert lines[3] == "stateDiagram-v2"
    assert "  [*] --> PENDING" in lines
    assert "  EXECUTING --> FAILED : 3. fail [otherwise]" in lines
    assert sum(" --> " in line for line in lines) == 1 + len(INVOCATION.rows) + len(INVOCATION.final_states)
    assert "  class COMPLETED,FAILED,CANCELLED ends" in lines


def test_mermaid_writes_as_entities_what_it_would_read_as_its_own() -> None:
    """Checked once with Mermaid 11.12 itself; the ids and characters that made it fail are kept out here."""
    lines = to_mermaid(chain(*AWKWARD)).splitlines()
    assert lines[1] == r'title: "na\"me: \\x"'
    body = [line for line in lines[5:] if not line.startswith(("  %%", "  classDef"))]
    for line in body:
        name, _, rest = line.strip().partition(" ")
        assert re.fullmatch(r"\[\*\]|class|s\d+", name)
        text = rest.partition(": ")[2]
        assert not re.search(r"[:;\"<>{}|`\\]", re.sub(r"#\d+;|<br/>", "", text))


def test_a_state_that_shows_nothing_but_its_name_needs_no_line_in_mermaid() -> None:
    lamp = Lifecycle(
        "lamp", "OFF", (State("OFF"), State("ON")), (Row("OFF", "a", "ON"), Row("ON", "b", "OFF")), perpetual=True
    )
    assert not re.search(r"^  OFF :", to_mermaid(lamp), re.MULTILINE)


def test_the_table_has_a_line_for_every_row_and_tells_each_state_in_words() -> None:
    text = to_table(INVOCATION)
    assert len(re.findall(r"^\| (?:`[A-Z_]+`|any unfinished state) \|", text, re.MULTILINE)) == len(INVOCATION.rows)
    assert "| `EXECUTING` | `fail` | 3 of 3 | otherwise | `FAILED` |" in text
    assert "  1. if `may_retry` (Another attempt may help" in text
    for state in INVOCATION.states:
        assert f"### {state.name}\n" in text
        assert state.doc in text


def test_the_table_shows_what_a_circuit_does_unless_a_guard_holds() -> None:
    text = to_table(BUILT_IN["circuit"])
    assert "- On `recover`, if `recovers_unaided` (The policy lets good probes" in text
    assert "### In any state" in text


def test_the_table_of_the_least_lifecycle_is_short() -> None:
    mute = Lifecycle("mute", "A", (State("A"),), (), perpetual=True)
    assert to_table(mute).startswith("# mute\n\nIt begins in `A`.\n\n## What can happen\n\n### A\n")
    assert "Guards" not in to_table(mute)


def test_a_guard_without_a_docstring_is_shown_by_its_name_alone() -> None:
    rows = (Row("A", "go", "B", guard="odd"), Row("A", "go", "A", guard="always"))
    guards: dict[str, Guard] = {"odd": partial(always), "always": always}
    lifecycle = Lifecycle("odd", "A", (State("A"), State("B", final=True)), rows, guards)
    assert "  1. if `odd`: go to `B`.\n  2. if `always`: go to `A`." in to_table(lifecycle)


def test_no_name_breaks_a_cell_of_a_table() -> None:
    rows = re.findall(r"^\|.*\|$", to_table(chain(*AWKWARD)), re.MULTILINE)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7, 3}


def test_graphviz_reads_every_name() -> None:
    lifecycle = chain(*AWKWARD)
    assert len(parsed(to_dot(lifecycle)).nodes()) == len(AWKWARD) + 1
    assert "&lt;b&gt;&amp;x&lt;/b&gt;" in to_svg(lifecycle)


SCRIPT = """
from fsm_engine.diagram import *
from fsm_engine import HistoryEntry
way = [HistoryEntry("PENDING", "validate", None, "VALIDATING", 1.0), HistoryEntry("VALIDATING", "cancel", None, "CANCELLED", 2.0)]
for drawn in [*map(lifecycle_diagram, BUILT_IN.values()), invocation_diagram(way)]:
    print(drawn.to_dot(), drawn.to_mermaid(), drawn.to_table(), drawn.to_svg())
"""


def test_output_is_the_same_under_every_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1


# -- images and files ----------------------------------------------------------------------------------------------


def test_png_and_svg_are_images() -> None:
    assert to_png(INVOCATION).startswith(b"\x89PNG")
    svg = to_svg(INVOCATION)
    assert svg.startswith("<?xml")
    assert "graphviz version" not in svg


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_is_written_in_the_format_of_its_name(form: str, tmp_path: Path) -> None:
    drawn = lifecycle_diagram(INVOCATION)
    made = drawn.render(form)
    file = drawn.save(tmp_path / f"x{FORMATS[form].upper()}")
    assert file.read_bytes() == (made if isinstance(made, bytes) else made.encode())


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    drawn = lifecycle_diagram(INVOCATION)
    with pytest.raises(ConfigurationError, match=r"no format ends in '\.gif'; choose one of \.dot, \.svg"):
        drawn.save(tmp_path / "x.gif")
    with pytest.raises(ConfigurationError, match="no format 'gif'; choose one of dot, svg"):
        drawn.render("gif")


def test_images_without_graphviz_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    assert to_dot(INVOCATION)
    assert to_mermaid(INVOCATION)
    with pytest.raises(ConfigurationError, match="with its extra `diagrams`"):
        to_svg(INVOCATION)


def test_a_notebook_shows_svg() -> None:
    drawn = lifecycle_diagram(INVOCATION)
    assert drawn._repr_svg_() == drawn.to_svg()
    assert drawn._repr_markdown_() is None


def test_a_notebook_without_graphviz_shows_mermaid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    drawn = lifecycle_diagram(INVOCATION)
    assert drawn._repr_svg_() is None
    assert drawn._repr_markdown_() == f"```mermaid\n{drawn}```\n"


def test_the_committed_diagrams_are_current() -> None:
    assert check_all(ROOT / "diagrams") == []


def test_rendered_diagrams_are_current_and_whatever_is_changed_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "anew"
    written = render_all(folder)
    names = [f"{name}{suffix}" for name in BUILT_IN for suffix in (".dot", ".svg", ".mmd", ".md")] + ["README.md"]
    assert [file.name for file in written] == names
    assert check_all(folder) == []
    for file in written:
        before = file.read_bytes()
        file.write_bytes(before.replace(b"e", b"i"))
        assert check_all(folder) == [f"{file}: stale"]
        file.unlink()
        assert check_all(folder) == [f"{file}: missing"]
        file.write_bytes(before)
    (folder / "old.dot").write_text("digraph {}")
    assert check_all(folder) == [f"{folder / 'old.dot'}: belongs to no lifecycle"]


def test_a_checkout_with_other_line_ends_is_current(tmp_path: Path) -> None:
    for file in render_all(tmp_path):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert check_all(tmp_path) == []


def test_an_svg_drawn_elsewhere_is_current_if_it_was_drawn_from_this_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another Graphviz lays the same text out differently; that is no drift."""
    draw = pygraphviz.AGraph.draw

    def elsewhere(self: Any, *args: Any, **kwargs: Any) -> bytes:
        drawn: Any = draw(self, *args, **kwargs)
        return bytes(drawn).replace(b"<path", b"<path class='x'")

    monkeypatch.setattr(pygraphviz.AGraph, "draw", elsewhere)
    render_all(tmp_path)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    assert check_all(tmp_path) == []


def test_an_svg_that_was_changed_by_hand_is_stale(tmp_path: Path) -> None:
    render_all(tmp_path)
    file = tmp_path / "circuit.svg"
    file.write_bytes(file.read_bytes().replace(b"</svg>", b"<g/></svg>"))
    assert check_all(tmp_path) == [f"{file}: stale"]


def test_an_svg_of_another_lifecycle_is_stale(tmp_path: Path) -> None:
    render_all(tmp_path)
    (tmp_path / "circuit.svg").write_bytes((tmp_path / "invocation.svg").read_bytes())
    assert check_all(tmp_path) == [f"{tmp_path / 'circuit.svg'}: stale"]


def test_a_folder_that_is_not_there_misses_every_file(tmp_path: Path) -> None:
    missing = check_all(tmp_path / "none")
    assert len(missing) == 4 * len(BUILT_IN) + 1
    assert all(line.endswith(": missing") for line in missing)


def test_nothing_is_written_if_something_cannot_be_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    with pytest.raises(ConfigurationError):
        render_all(tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_lifecycles_of_ones_own_are_rendered_by_their_names(tmp_path: Path) -> None:
    own = INVOCATION.extended(name="my.calls")
    assert next(file.name for file in render_all(tmp_path, [own])) == "my.calls.dot"
    assert check_all(tmp_path, [own]) == []


@pytest.mark.parametrize("name", ["", "README", "../up", "a\\b"])
def test_a_name_that_is_no_file_name_is_refused(name: str, tmp_path: Path) -> None:
    odd = Lifecycle(name, "A", (State("A"),), (), perpetual=True)
    with pytest.raises(ConfigurationError, match="a file cannot be called after the lifecycle"):
        render_all(tmp_path, [odd])


def test_two_lifecycles_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="give each its own name"):
        check_all(tmp_path, [INVOCATION, INVOCATION])


# -- the way of one invocation -------------------------------------------------------------------------------------

WAY = [
    ("PENDING", "validate", None, "VALIDATING", 0.001),
    ("VALIDATING", "accept", None, "ADMITTING", 0.002),
    ("ADMITTING", "admit", "permitted", "EXECUTING", 0.003),
    ("EXECUTING", "fail", "may_retry", "RETRYING", 0.503),
    ("RETRYING", "retry", None, "ADMITTING", 0.703),
    ("ADMITTING", "admit", "permitted", "EXECUTING", 0.704),
    ("EXECUTING", "abort", None, "FAILED", 150.0),
]
TRACE: dict[str, Any] = {
    "steps": [dict(zip(("source", "trigger", "guard", "dest", "at"), step, strict=True)) for step in WAY],
    "attempts": [
        {"number": 1, "started_at": 0.003, "ended_at": 0.503, "code": "TIMEOUT", "delay": 0.2},
        {"number": 2, "started_at": 0.704, "ended_at": 1.204, "code": None, "delay": None},
        {"number": 3, "started_at": 2.0, "ended_at": None, "code": None, "delay": None},
    ],
    "lifecycle": "invocation",
    "tool": "search_web",
    "id": "call_1",
    "uid": "inv_1",
}


def test_the_way_has_its_steps_with_numbers_and_times_on_the_arrows() -> None:
    arrows = arrows_of(invocation_diagram(TRACE).to_dot())
    assert arrows["ADMITTING", "EXECUTING"] == ["1. admit [permitted]", "step 3 at 3 ms", "step 6 at 704 ms"]
    assert arrows["RETRYING", "ADMITTING"] == ["retry", "step 5 at 703 ms"]


def test_the_way_shows_attempts_and_how_long_each_state_was_stayed_in() -> None:
    drawn = invocation_diagram(TRACE)
    executing = next(box for box in drawn.picture.boxes if box.name == "EXECUTING")
    assert executing.notes == (
        "stayed 500 ms + 0:02:29",
        "attempt 1: TIMEOUT after 500 ms, then a wait of 200 ms",
        "attempt 2: a result after 500 ms",
        "attempt 3: running",
    )
    assert drawn.picture.caption == ("ended as FAILED after 7 steps and 0:02:30",)
    assert drawn.picture.name == "search_web call_1"


def test_what_was_not_taken_is_grey() -> None:
    graph = parsed(invocation_diagram(TRACE).to_dot())
    grey = graph.get_node("CANCELLED").attr["color"]
    passed = {node for node in graph.nodes() if node != START and graph.get_node(node).attr["color"] != grey}
    assert passed == {source for source, *_ in WAY} | {"FAILED"}
    taken = {(edge[0], edge[1]) for edge in graph.edges() if edge[0] != START and edge.attr["color"] != grey}
    assert taken == {(source, dest) for source, _, _, dest, _ in WAY}


def test_an_abort_is_drawn_from_the_state_in_which_it_happened() -> None:
    drawn = invocation_diagram(TRACE).picture
    labels = [arrow.labels for arrow in drawn.arrows if (arrow.source, arrow.dest) == ("EXECUTING", "FAILED")]
    assert labels == [("3. fail [otherwise]",), ("abort", "step 7 at 0:02:30")]
    assert any(arrow.source == "*" and arrow.labels == ("abort",) for arrow in drawn.arrows)


def test_the_table_of_a_way_lists_its_steps() -> None:
    text = invocation_diagram(TRACE).to_table()
    assert "| 4 | 503 ms | `EXECUTING` | `fail` | `may_retry` | `RETRYING` | 200 ms |" in text
    assert "| 7 | 0:02:30 | `EXECUTING` | `abort` |  | `FAILED` |  |" in text
    assert "- attempt 3: running" in text


def test_an_invocation_that_has_not_moved_is_where_it_begins() -> None:
    drawn = invocation_diagram([]).picture
    assert drawn.caption == ("in PENDING, no step yet",)
    assert drawn.name == "invocation"


def test_an_unfinished_way_says_where_it_is() -> None:
    assert invocation_diagram([HistoryEntry(*WAY[0])]).picture.caption == ("is in VALIDATING after 1 step and 0 s",)


async def fails_once() -> str:
    """Wait for a moment, then fail."""
    await asyncio.sleep(0)
    raise LookupError("nothing there")


async def test_an_invocation_its_history_and_its_trace_give_one_picture() -> None:
    async with ToolEngine([fails_once], clock=VirtualClock()) as engine:
        invocation = await engine.execute_tool_call({"id": "call_9", "name": "fails_once", "arguments": {}})
    trace = trace_of(invocation)
    text = json.dumps(trace, allow_nan=False)
    drawn = invocation_diagram(invocation).to_svg()
    assert drawn == invocation_diagram(trace).to_svg() == invocation_diagram(text).to_svg()
    assert "attempt 1: EXECUTION_ERROR" in drawn
    assert "fails_once call_9" in drawn
    arrows = invocation_diagram(invocation.history).picture.arrows
    assert arrows == invocation_diagram(invocation).picture.arrows
    assert set(trace) == set(TRACE)
    assert "nothing there" not in text


async def test_the_trace_of_a_running_invocation_has_an_open_attempt() -> None:
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    async with ToolEngine([wait]) as engine:
        invocation = engine.start({"id": "1", "name": "wait", "arguments": {}})
        await started.wait()
        trace = trace_of(invocation, lifecycle="mine")
        assert trace["attempts"][0]["ended_at"] is None
        assert trace["lifecycle"] == "mine"
        invocation.cancel()
        await invocation


async def test_a_name_that_is_no_unicode_is_drawn() -> None:
    async with ToolEngine() as engine:
        invocation = await engine.execute_tool_call({"id": "\ud800", "name": "x\ud800\n", "arguments": {}})
    assert json.dumps(trace_of(invocation), ensure_ascii=False).encode()
    assert invocation_diagram(invocation).to_svg()


def without(field: str) -> dict[str, Any]:
    return {key: value for key, value in TRACE.items() if key != field}


@pytest.mark.parametrize(
    ("trace", "why"),
    [
        pytest.param("{", "the trace: Invalid JSON", id="no-json"),
        pytest.param(b"[]", "the trace: Input should be an object", id="no-object"),
        pytest.param(without("steps"), "steps: Field required", id="no-steps"),
        pytest.param(
            {"steps": [{**TRACE["steps"][0], "at": float("nan")}]}, r"steps\.0\.at: Input should be a finite", id="nan"
        ),
        pytest.param([("PENDING", "validate")], "a history is made of HistoryEntry", id="no-history"),
        pytest.param(
            {"steps": TRACE["steps"][1:]},
            "step 1 of the trace, VALIDATING --accept--> ADMITTING, begins elsewhere than in PENDING",
            id="gap",
        ),
        pytest.param(
            {"steps": [{**TRACE["steps"][0], "dest": "MOON"}]},
            "step 1 of the trace, PENDING --validate--> MOON, is no move of the lifecycle 'invocation'; name the lifecycle it",
            id="no-move",
        ),
        pytest.param(
            {"steps": [{**TRACE["steps"][0], "guard": "x"}], "lifecycle": "mine"},
            "name the lifecycle 'mine'",
            id="other",
        ),
    ],
)
def test_what_is_no_way_through_the_lifecycle_is_refused(trace: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(why) if "\\" not in why else why):
        invocation_diagram(trace)


def test_a_refused_trace_does_not_show_its_values() -> None:
    with pytest.raises(ConfigurationError) as caught:
        invocation_diagram({"steps": "hunter2", "attempts": [{"number": "hunter2"}]})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1e-6, "1 µs"),
        (0.000_999, "999 µs"),
        (0.001, "1 ms"),
        (0.0123, "12.3 ms"),
        (1, "1 s"),
        (59.94, "59.9 s"),
        (100, "0:01:40"),
        (3 * 86_400 + 60, "3 days, 0:01:00"),
    ],
)
def test_a_duration_reads_well(seconds: float, text: str) -> None:
    assert duration(seconds) == text


# -- the commands --------------------------------------------------------------------------------------------------

APP = typer.Typer()
add_commands(APP)


def run(*args: str | Path) -> Any:
    return CliRunner().invoke(APP, [str(arg) for arg in args])


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["diagram"], to_mermaid(INVOCATION)),
        (["diagram", "circuit", "--format", "dot"], to_dot(BUILT_IN["circuit"])),
        (["diagram", "fsm_engine.states.circuit:CIRCUIT"], to_mermaid(BUILT_IN["circuit"])),
        (["table"], to_table(INVOCATION)),
        (["table", "circuit"], to_table(BUILT_IN["circuit"])),
    ],
    ids=" ".join,
)
def test_a_command_writes_to_the_screen(args: list[str], expected: str) -> None:
    done = run(*args)
    assert done.exit_code == 0
    assert done.output == expected


@pytest.mark.parametrize(
    ("options", "begin"),
    [
        (["-o", "x.png"], b"\x89PNG"),
        (["-o", "x", "--format", "dot"], b"digraph"),
        (["-o", "x.txt", "--format", "png"], b"\x89PNG"),
    ],
)
def test_the_diagram_command_writes_to_a_file(
    options: list[str], begin: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("diagram", *options).exit_code == 0
    assert (tmp_path / options[1]).read_bytes().startswith(begin)


def test_the_diagram_command_draws_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(TRACE))
    done = run("diagram", "--trace", file)
    assert done.exit_code == 0
    assert done.output == invocation_diagram(TRACE).to_mermaid()


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["diagram", "--format", "png"], "a PNG image is nothing for the screen; name a file with -o"),
        (["diagram", "--format", "gif"], "no format 'gif'"),
        (["diagram", "-o", "x.gif"], "no format ends in '.gif'"),
        (["diagram", "--trace", "no-such-file"], "no-such-file"),
        (["table", "nothing"], "there is no lifecycle 'nothing'"),
        (["diagram", "nothing"], "there is no lifecycle 'nothing'"),
        (["check", "nothing"], "there is no lifecycle 'nothing'"),
        (["check", "nope:x"], "nope"),
        (["diagram", "-o", "no-such-folder/x.mmd"], "make the folder first"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_that_cannot_be_done_says_why(args: list[str], why: str) -> None:
    done = run(*args)
    assert done.exit_code == 2
    assert why in done.stderr


def test_the_diagram_command_renders_and_checks_the_folder(tmp_path: Path) -> None:
    rendered = run("diagram", "--all", "--folder", tmp_path)
    assert rendered.exit_code == 0
    assert str(tmp_path / "README.md") in rendered.output
    assert run("diagram", "--check", "--folder", tmp_path).exit_code == 0
    (tmp_path / "circuit.mmd").write_text("stale")
    checked = run("diagram", "--check", "--folder", tmp_path)
    assert checked.exit_code == 1
    assert f"{tmp_path / 'circuit.mmd'}: stale" in checked.output


def test_a_lifecycle_shows_itself_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a picture, and where Graphviz is missing as Mermaid; never as both."""
    assert INVOCATION._repr_svg_() == to_svg(INVOCATION)
    assert INVOCATION._repr_markdown_() is None
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    assert INVOCATION._repr_svg_() is None
    assert INVOCATION._repr_markdown_() == f"```mermaid\n{to_mermaid(INVOCATION)}```\n"


def test_an_invocation_shows_its_way_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    invocation = asyncio.run(ToolEngine([]).execute_tool_call({"name": "nothing"}))
    drawn = invocation.diagram()
    assert drawn.to_table() == invocation_diagram(invocation).to_table()
    assert "ended as FAILED after 2 steps" in drawn.to_table()
    assert invocation._repr_svg_() == drawn.to_svg()
    assert invocation._repr_markdown_() is None
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    assert invocation._repr_svg_() is None
    assert invocation._repr_markdown_() == f"```mermaid\n{drawn.to_mermaid()}```\n"
