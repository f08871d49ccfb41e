"""What a person is asked on the live page: all of it, exactly, and what may be changed in it."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import pytest
from fastapi import FastAPI, HTTPException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page, expect

from fsm_engine import ToolEngine, tool
from fsm_engine.agent.agent import Agent
from fsm_engine.jsonable.visible import visible_json
from fsm_engine.server import create_app
from fsm_engine.server.app import Suggestion
from fsm_engine.validators import in_range

from ..server.support import says
from .support import Line, app_of, serving
from .test_page import Open, app, begin, card, double, pay

seen: list[Any] = []


@tool(needs_approval=True)
async def note(value: Any) -> str:
    """Keep anything."""
    seen.append(value)
    return "kept"


@tool(needs_approval=True, sensitive=("pin",), validator=in_range("amount", minimum=100))
async def transfer(
    amount: int, to: str, speed: Literal["slow", "fast"] = "slow", tags: list[str] | None = None, pin: str = "0000"
) -> dict[str, Any]:
    """Move money.

    Args:
        amount: in cents.
    """
    return {"amount": amount, "to": to, "speed": speed, "tags": tags, "pin_is_kept": pin == "4711"}


def question(page: Page) -> Any:
    return page.locator(".question")


def shown(page: Page) -> str:
    """What stands on the screen, as the browser lays it out; a line that is broken there is one line here."""
    text: str = page.locator(".reading-text pre").evaluate("pre => pre.innerText")
    return text


def open_all(page: Page) -> None:
    """A long question has to be opened first."""
    opener = page.get_by_role("button", name=re.compile("^Show all"))
    if opener.count():
        opener.click()


def approve(page: Page) -> Any:
    return page.get_by_role("button", name=re.compile("^Approve"))


ODD = [
    "",
    "7",
    7,
    7.0,
    2**53 + 1,
    -(2**64),
    1e-7,
    True,
    "true",
    None,
    "null",
    "a\nb\tc\r\n  d  ",
    "\u202eevil\u202c gpj.exe",
    "zero\u200bwidth\u2060\ufeff",
    "\u05d0\u05d1\u05d2 1, 2",
    "\u00a0\u3164\u2800",
    "x" * 161 + "END",
    '"},{"quoted": \\ </pre><img src=x>',
    {"": "", "a b": [1, [], {}], "__proto__": {"x": 1}},
]


@pytest.mark.parametrize(
    "value", ODD, ids=lambda value: f"{type(value).__name__} {ascii(value)[:12]}".replace("[", "(")
)
def test_question_shows_all_that_will_run_and_nothing_unseen(open_page: Open, value: Any) -> None:
    with serving(app_of(app(note, model=says([("note", {"value": value})], "Done.")))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        begin(page)
        expect(question(page)).to_be_visible()
        text = shown(page)
        assert all(each in " \n" or each.isprintable() for each in text)
        seen.clear()
        open_all(page)
        approve(page).click()
        expect(page.locator(".is-answer")).to_be_visible()
    read = json.loads(text)["value"]
    assert [(type(read), read)] == [(type(each), each) for each in seen]


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


def test_whatever_text_is_shown_reads_back_as_what_it_is(open_page: Open) -> None:
    """The page's own part, for any JSON: laid out, put on the page, read from the screen."""
    with serving(app_of(app(model=says("Never asked.")))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")

        @settings(
            max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
        )
        @given(
            st.dictionaries(
                TEXTS,
                st.recursive(TEXTS | st.integers() | st.floats(allow_nan=False, allow_infinity=False), st.lists),
                max_size=4,
            )
        )
        def check(value: dict[str, Any]) -> None:
            read = page.evaluate(
                """async (text) => {
                    const { layOut, shownJson, membersOf, objectText } = await import("/static/exact-json.js");
                    const pre = document.createElement("pre");
                    pre.style.whiteSpace = "break-spaces";
                    pre.append(...shownJson(layOut(text)));
                    document.body.append(pre);
                    const shown = pre.innerText;
                    pre.remove();
                    return [shown, objectText(membersOf(text))];
                }""",
                visible_json(value),
            )
            assert [json.loads(each) for each in read] == [value, value]

        check()


def test_long_question_is_opened_to_its_end_before_it_can_be_approved(open_page: Open) -> None:
    value = [f"line {number}" for number in range(60)]
    with serving(app_of(app(note, model=says([("note", {"value": value})], "Done.")))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        begin(page)
        expect(approve(page)).to_have_attribute("aria-disabled", "true")
        expect(question(page)).to_contain_text("Read the arguments to their end")
        approve(page).focus()
        page.keyboard.press("Enter")
        expect(card(page, "note")).to_have_attribute("data-state", "AWAITING_APPROVAL")
        box = page.get_by_role("region", name="Arguments of note, call 1")
        box.focus()
        page.keyboard.press("End")
        expect(approve(page)).to_have_attribute("aria-disabled", "false")
        approve(page).click()
        expect(page.locator(".is-answer")).to_be_visible()


def ask_transfer(open_page: Open, port: int) -> Page:
    page = open_page(f"http://127.0.0.1:{port}/", may_be_refused=True)
    begin(page)
    page.get_by_role("button", name="Edit transfer, call 1").click()
    return page


ASKED = {"amount": 2**53 + 1, "to": "Ann", "pin": "4711"}


def test_arguments_are_edited_in_a_form_checked_by_the_engine_and_shown_as_a_difference(open_page: Open) -> None:
    model = says([("transfer", ASKED)], "Done.")
    with serving(app_of(app(transfer, model=model))) as port:
        page = ask_transfer(open_page, port)
        expect(page.get_by_label("amount", exact=True)).to_have_value("9007199254740993")
        page.get_by_label("amount", exact=True).fill("5")
        page.get_by_role("button", name="Check the changes").click()
        fault = page.locator(".edit-field", has=page.get_by_label("amount", exact=True)).locator(".is-failure")
        expect(fault).to_contain_text("at least 100")
        page.get_by_label("amount", exact=True).fill("9007199254740995")
        page.get_by_label("speed", exact=True).select_option('"fast"')
        page.get_by_role("button", name="Check the changes").click()
        expect(page.locator(".reading-text ins")).to_have_count(2)
        assert '"amount": 9007199254740995' in "".join(page.locator(".reading-text ins").all_inner_texts())
        assert '"amount": 9007199254740993' in "".join(page.locator(".reading-text del").all_inner_texts())
        page.get_by_role("button", name="Approve with these changes: transfer, call 1").click()
        expect(page.locator(".is-answer")).to_be_visible()
        result = json.loads(card(page, "transfer").locator(".result").inner_text())
        assert (result["amount"], result["speed"], result["pin_is_kept"]) == (9007199254740995, "fast", True)
        expect(card(page, "transfer")).to_contain_text("amount 9007199254740993 → 9007199254740995")


def test_arguments_can_be_edited_as_json_and_left_as_they_were(open_page: Open) -> None:
    model = says([("transfer", ASKED)], "Done.")
    with serving(app_of(app(transfer, model=model))) as port:
        page = ask_transfer(open_page, port)
        page.get_by_role("button", name="As JSON").click()
        whole = page.get_by_label("Arguments of transfer, call 1 as JSON")
        assert json.loads(whole.input_value())["amount"] == 2**53 + 1
        whole.fill("{")
        page.get_by_role("button", name="Check the changes").click()
        expect(page.locator(".edit > .is-failure")).to_have_text("This is not JSON yet.")
        page.get_by_role("button", name="Leave transfer, call 1 as it was").click()
        approve(page).click()
        expect(card(page, "transfer").locator(".result")).to_contain_text('"amount": 9007199254740993')
        expect(page.locator(".is-answer")).to_be_visible()


def test_controls_of_several_questions_have_names_of_their_own(open_page: Open) -> None:
    model = says([("pay", {"amount": 1}), ("pay", {"amount": 2})], "Done.")
    with serving(app_of(app(pay, model=model))) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        begin(page)
        expect(question(page)).to_have_count(2)
        names = page.evaluate(
            """[...document.querySelectorAll(".question button, .question input")]
                .map((each) => each.ariaLabel ?? each.textContent)"""
        )
        assert len(names) == len(set(names)) == 8
        page.get_by_role("button", name="Approve pay, call 2").click()
        expect(page.locator("article.card").last).to_have_attribute("data-state", "COMPLETED")
        page.get_by_role("button", name="Approve pay, call 1").click()
        expect(page.locator(".is-answer")).to_be_visible()


def test_run_that_is_lost_offers_no_decision_and_says_why(open_page: Open) -> None:
    signed_in = [True]

    def authorize(_: Any) -> str:
        if not signed_in[0]:
            raise HTTPException(401, "the session has ended")
        return "ann"

    def make() -> FastAPI:
        engine = ToolEngine([pay, double])
        agent = Agent(engine, says([("pay", {"amount": 150})], "Done."))
        return create_app(engine, agent, authorize=authorize, suggestions=[Suggestion("Begin", "Go on.")])

    with serving(app_of(make)) as port, Line(port) as line:
        page = open_page(f"{line.url}/", may_lose_connection=True, may_be_refused=True)
        begin(page)
        expect(question(page)).to_be_visible()
        signed_in[0] = False
        line.cut()
        line.mend()
        expect(page.locator(".run-end")).to_contain_text("not signed in")
        expect(page.locator(".run-end")).to_contain_text("the session has ended")
        expect(question(page)).to_have_count(0)
        expect(page.locator("#waiting")).to_be_hidden()
        expect(card(page, "pay").locator(".pill")).to_have_text("not known any more")
        expect(page.get_by_role("button", name="pay, not known any more")).to_be_visible()
