"""The live page in a real browser."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from playwright.sync_api import Page, expect

from fsm_engine import ToolContext, ToolEngine, tool
from fsm_engine.agent.agent import Agent
from fsm_engine.server import create_app
from fsm_engine.server.app import Suggestion

from ..server.support import says
from .support import Line, app_of, serving

Open = Callable[..., Page]


@tool(needs_approval=True)
async def pay(amount: float) -> str:
    """Pay money."""
    return f"{amount:g} paid"


@tool(read_only=True)
async def double(number: int, context: ToolContext) -> int:
    """Twice a number."""
    for percent in range(0, 100, 25):
        context.report(percent / 100, f"{percent} %")
        await asyncio.sleep(0)
    return 2 * number


class Gate:
    """A tool that waits until the test lets it go."""

    def __init__(self) -> None:
        self.is_open = threading.Event()

    async def wait(self, context: ToolContext) -> str:
        """Wait at the gate."""
        context.report(0.4, "waiting")
        while not self.is_open.is_set():  # noqa: ASYNC110 - it is opened from the test's thread
            await asyncio.sleep(0.005)
        return "through"


def app(*tools: Any, model: Any) -> Callable[[], FastAPI]:
    def make() -> FastAPI:
        engine = ToolEngine(tools)
        return create_app(engine, Agent(engine, model, max_calls=500), suggestions=[Suggestion("Begin", "Go on.")])

    return make


def begin(page: Page) -> None:
    page.get_by_role("button", name="Begin").click()


def card(page: Page, name: str) -> Any:
    return page.locator("article.card", has=page.get_by_role("button", name=name, exact=True))


def until(page: Page, condition: str) -> None:
    """Wait for a condition in the page; Playwright's own way is `eval`, which the page's policy forbids."""
    for _ in range(500):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(20)
    raise AssertionError(condition)


def moves(page: Page) -> list[str]:
    """The moves that the diagram shows as made."""
    titles = page.locator(".diagram .edge.is-visited title").all_text_contents()
    return sorted(title.partition(":")[0] for title in titles)


def visited(page: Page) -> list[str]:
    """The states that the diagram shows as passed."""
    return page.locator(".diagram .node.is-visited").evaluate_all("nodes => nodes.map(node => node.dataset.state)")


def test_call_is_approved_from_the_keyboard_and_seen_to_its_result(open_page: Open) -> None:
    with serving(app_of(app(pay, model=says([("pay", {"amount": 150})], "It is paid.")))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        page.get_by_label("Your question").fill("Pay 150.")
        page.keyboard.press("Enter")
        expect(page.locator("#waiting")).to_have_text("1 call waits for you")
        expect(page.locator("#announcements")).to_contain_text("pay waits for your approval")
        expect(page.locator("#diagram-caption")).to_contain_text("awaiting approval for")
        assert visited(page) == ["PENDING", "VALIDATING", "AWAITING_APPROVAL"]
        page.locator("#waiting").press("Enter")
        expect(page.get_by_role("button", name="Approve")).to_be_focused()
        expect(page.get_by_role("button", name="Approve")).to_have_attribute("aria-disabled", "false")
        page.keyboard.press("Enter")
        expect(card(page, "pay").locator(".result")).to_have_text("150 paid")
        expect(page.locator(".is-answer .text")).to_have_text("It is paid.")
        expect(page.locator("#waiting")).to_be_hidden()
        expect(page.get_by_role("button", name="pay", exact=True)).to_be_focused()
        assert set(visited(page)) == {
            "PENDING", "VALIDATING", "AWAITING_APPROVAL", "ADMITTING", "EXECUTING", "COMPLETED",
        }  # fmt: skip
        expect(page.locator(".node[data-state=VALIDATING] .visits")).to_have_text("\u00d72")
        expect(page.locator(".node.is-current")).to_have_attribute("data-state", "COMPLETED")
        assert moves(page) == [
            "ADMITTING \u2192 EXECUTING",
            "AWAITING_APPROVAL \u2192 VALIDATING",
            "EXECUTING \u2192 COMPLETED",
            "PENDING \u2192 VALIDATING",
            "VALIDATING \u2192 ADMITTING",
            "VALIDATING \u2192 AWAITING_APPROVAL",
        ]


def test_call_is_denied_with_a_reason_that_the_model_is_told(open_page: Open) -> None:
    with serving(app_of(app(pay, model=says([("pay", {"amount": 150})], "Not paid.")))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        begin(page)
        page.get_by_label("Reason for denying").fill("not before Friday")
        page.get_by_role("button", name="Deny").click()
        expect(card(page, "pay").locator(".card-outcome")).to_contain_text("APPROVAL_DENIED")
        expect(card(page, "pay").locator(".card-outcome")).to_contain_text("not before Friday")
        expect(card(page, "pay")).to_have_attribute("data-state", "FAILED")


def test_running_call_shows_progress_and_can_be_cancelled_and_so_can_the_run(open_page: Open) -> None:
    gate = Gate()
    model = says([("wait", {})], [("wait", {})], "Never said.")
    with serving(app_of(app(gate.wait, model=model))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        begin(page)
        bar = page.get_by_role("progressbar", name="Progress")
        expect(bar).to_have_attribute("aria-valuenow", "40")
        page.get_by_role("button", name="Cancel wait").click()
        expect(page.locator("article.card").first).to_have_attribute("data-state", "CANCELLED")
        assert visited(page)[-1] == "CANCELLED"
        expect(page.locator(".edge.is-extra.is-visited")).to_have_attribute("data-state", "CANCELLED")
        expect(bar).to_be_visible()  # of the second call
        page.get_by_role("button", name="Stop").click()
        expect(page.locator(".run-end")).to_have_text("stopped by the person")
        expect(page.locator("#send")).to_have_text("Send")


def test_connection_that_is_cut_is_taken_up_again_without_a_gap(open_page: Open) -> None:
    gate = Gate()
    model = says([("wait", {}), ("double", {"number": 21})], "Done.")
    with serving(app_of(app(gate.wait, double, model=model))) as port, Line(port) as line:
        page = open_page(f"{line.url}/", may_lose_connection=True)
        begin(page)
        expect(card(page, "double")).to_have_attribute("data-state", "COMPLETED")
        expect(page.locator("#status")).to_have_text("live")
        line.cut()
        expect(page.locator("#status")).to_have_text("reconnecting")
        gate.is_open.set()  # it ends while nobody listens
        line.mend()
        expect(page.locator(".is-answer .text")).to_have_text("Done.")
        expect(card(page, "wait").locator(".result")).to_have_text("through")
        expect(page.locator("article.card")).to_have_count(2)
        expect(card(page, "double").locator(".card-way li")).to_have_count(5)
        expect(page.locator(".run-end")).to_have_count(0)


def test_page_that_is_loaded_again_takes_its_run_up_again(open_page: Open) -> None:
    gate = Gate()
    with serving(app_of(app(gate.wait, model=says([("wait", {})], "Done.")))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        begin(page)
        expect(card(page, "wait")).to_have_attribute("data-state", "EXECUTING")
        page.reload()
        expect(card(page, "wait")).to_have_attribute("data-state", "EXECUTING")
        expect(page.locator(".is-user .text")).to_have_text("Go on.")
        gate.is_open.set()
        expect(page.locator(".is-answer .text")).to_have_text("Done.")


LONG_TASKS = """
    window.longTasks = [];
    new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((entry) => entry.duration)))
        .observe({ type: "longtask", buffered: true });
"""


def test_two_hundred_calls_at_once_leave_the_page_alive(open_page: Open) -> None:
    """No task of the main thread takes over 100 ms, by the browser's own count."""
    calls = [("double", {"number": number}) for number in range(200)]
    with serving(app_of(app(double, model=says(calls, "All done.")))) as port:
        page = open_page(f"http://127.0.0.1:{port}/", script=LONG_TASKS)
        begin(page)
        expect(page.locator(".is-answer")).to_be_visible()
        expect(page.locator("article.card[data-state=COMPLETED]")).to_have_count(200)
        expect(page.locator("#timeline-count")).to_have_text("200 calls")
        expect(page.locator(".bars g")).to_have_count(200)
        expect(page.locator(".card-brief").last).to_have_text("199 → 398")
        longest = page.evaluate("Math.max(0, ...window.longTasks)")
        assert longest <= 100, f"a task took {longest} ms"


def test_drawing_gives_way_to_the_next_frame_when_there_is_much_of_it(open_page: Open) -> None:
    """Ten things that take five milliseconds each; what is added twice before its turn is drawn once."""
    with serving(app_of(app(model=says("Never asked.")))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        frames = page.evaluate(
            """async () => {
                const { FrameQueue } = await import("/static/dom.js");
                const frames = [[]];
                const burn = (item) => {
                    const until = performance.now() + 5;
                    while (performance.now() < until);
                    frames.at(-1).push(item);
                };
                const queue = new FrameQueue(burn, () => frames.push([]));
                for (let item = 0; item < 10; item += 1) { queue.add(item); queue.add(0); }
                while (frames.flat().length < 10) await new Promise(requestAnimationFrame);
                return frames.filter((frame) => frame.length > 0);
            }"""
        )
    assert [item for frame in frames for item in frame] == list(range(10))
    assert max(map(len, frames)) <= 2


HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>\u202e & "quoted"'


def test_what_model_and_tools_say_is_text_and_never_markup(open_page: Open) -> None:
    async def echo(text: str) -> str:
        return text

    with serving(app_of(app(echo, model=says([("echo", {"text": HOSTILE}), (HOSTILE, {})], HOSTILE)))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        page.get_by_label("Your question").fill(HOSTILE)
        page.get_by_role("button", name="Send").click()
        expect(page.locator(".is-answer .text")).to_have_text(HOSTILE)
        expect(card(page, "echo").locator(".result")).to_have_text(HOSTILE)
        assert page.locator("#entries img, #entries script, .side img").count() == 0
        assert page.title() == "fsm_engine live"


DAMAGED = (
    'event: tool_call\nid: 1\ndata: {"type":"tool_call","seq":1,"at":1,"id":"c1","uid":"u1","name":"ask","arguments":{}}\n\n'
    'event: tool_result\nid: 2\ndata: {"type":"tool_result","seq":2,"at":2,"id":"c1","uid":"u1","result":{"status":"success","text":"forty-t\n\n'
    'event: run_ended\nid: 3\ndata: {"type":"run_ended","seq":3,"at":3,"reason":"final_answer"}\n\n'
)


def test_damaged_result_is_shown_as_far_as_it_goes_and_marked(open_page: Open) -> None:
    with serving(app_of(app(model=says("Never asked.")))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        headers = {"Content-Type": "text/event-stream", "X-Run-ID": "run"}
        page.route("**/chat/stream", lambda route: route.fulfill(body=DAMAGED, headers=headers))
        begin(page)
        expect(card(page, "ask").locator(".result")).to_have_text("forty-t")
        expect(card(page, "ask")).to_contain_text("arrived damaged")


def test_module_reads_by_event_source_too_and_survives_a_cut(open_page: Open) -> None:
    gate = Gate()
    with serving(app_of(app(gate.wait, model=says([("wait", {})], "Done.")))) as port, Line(port) as line:
        page = open_page(f"{line.url}/", may_lose_connection=True)
        begin(page)
        expect(card(page, "wait")).to_have_attribute("data-state", "EXECUTING")
        page.evaluate(
            """async () => {
                const { ToolStream } = await import("/static/tool-stream.js");
                const { runId } = JSON.parse(sessionStorage.getItem("run"));
                window.told = [];
                const onConnection = (connection) => window.told.push(connection);
                window.watched = new ToolStream({ base: "/", eventSource: true, onConnection }).resume(runId);
            }"""
        )
        until(page, "window.watched.state.calls.size === 1")
        line.cut()
        until(page, "window.told.includes('waiting')")
        gate.is_open.set()
        line.mend()
        until(page, "window.watched.connection === 'ended'")
        state = page.evaluate(
            "[watched.state.answer, watched.state.lost, [...watched.state.calls.values()].map((call) => call.path.length)]"
        )
        assert state == ["Done.", 0, [5]]


@pytest.mark.parametrize("width", [320, 390])
def test_phone_shows_one_part_at_a_time_and_nothing_sticks_out(open_page: Open, width: int) -> None:
    size = {"width": width, "height": 740}
    model = says([("pay", {"amount": 150}), ("double", {"number": 21})], "Done.")
    with serving(app_of(app(pay, double, model=model))) as port:
        page = open_page(f"http://127.0.0.1:{port}/", viewport=size, is_mobile=True, has_touch=True)
        begin(page)
        expect(page.get_by_role("button", name="Approve")).to_be_visible()
        parts = {"Lifecycle": "#panel-diagram", "Timeline": "#panel-timeline", "Circuits": "#panel-circuits"}
        for name, part in {**parts, "Conversation": "#talk"}.items():
            page.get_by_role("navigation").get_by_role("button", name=name).tap()
            visible = [each for each in ("#talk", *parts.values()) if page.locator(each).is_visible()]
            assert visible == [part]
            assert page.evaluate("document.documentElement.scrollWidth") == width
        page.get_by_role("button", name="Approve").tap()
        expect(page.locator(".is-answer")).to_be_visible()


CONTRASTS = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const channels = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const over = (top, below) => top.map((each, i) => i === 3 ? 255 : each * top[3] / 255 + below[i] * (1 - top[3] / 255));
    const backdrop = (element) => {
        if (element === null) return [255, 255, 255, 255];
        const own = channels(getComputedStyle(element).backgroundColor);
        return own[3] === 255 ? own : over(own, backdrop(element.parentElement));
    };
    const light = (colour) => {
        const [r, g, b] = colour.map((each) => (each /= 255) <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const texts = [...document.querySelectorAll("body *")].filter((element) =>
        element.checkVisibility() && !element.closest("svg, .unseen, .skip") &&
        [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
    return texts.map((element) => {
        const below = backdrop(element);
        const [a, b] = [light(over(channels(getComputedStyle(element).color), below)), light(below)].sort((x, y) => y - x);
        return [(a + 0.05) / (b + 0.05), `${element.className || element.tagName}: ${element.textContent.slice(0, 30)}`];
    }).filter(([contrast]) => contrast < 4.5);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read_reached_and_named(open_page: Open, scheme: str) -> None:
    """Contrast of at least 4.5 to 1 (WCAG 2.2, AA), a name for every control, landmarks, one heading of the first rank."""
    model = says([("pay", {"amount": 150}), ("double", {"number": "x"}), ("none", {})], "Done.")
    with serving(app_of(app(pay, double, model=model))) as port:
        page = open_page(f"http://127.0.0.1:{port}/", color_scheme=scheme, reduced_motion="reduce")
        assert page.evaluate(CONTRASTS) == []
        begin(page)
        expect(page.locator("#waiting")).to_be_visible()
        assert page.evaluate(CONTRASTS) == []
        page.get_by_role("button", name="Approve").click()
        expect(page.locator(".is-answer")).to_be_visible()
        assert page.evaluate(CONTRASTS) == []
        nameless = page.evaluate(
            """[...document.querySelectorAll("button, input, textarea, [role=progressbar], [role=group]")]
                .filter((each) => !(each.ariaLabel || each.labels?.length || each.textContent.trim())).map((each) => each.outerHTML)"""
        )
        assert nameless == []
        for role in ("banner", "main", "complementary"):
            expect(page.get_by_role(role)).to_have_count(1)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        page.get_by_role("button", name="Colours: auto").click()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
