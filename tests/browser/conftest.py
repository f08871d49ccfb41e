"""A headless Chromium for the tests of this folder, and pages that must not complain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright

from .support import FLAGS, find_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the tests of a module; it is gone before tests with loops of their own begin."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens an address in a profile of its own. A page that logs an error, throws, or asks another host fails the test."""
    complaints: list[str] = []
    contexts = []

    def open_(
        url: str,
        *,
        script: str | None = None,
        may_lose_connection: bool = False,
        may_be_refused: bool = False,
        **settings: Any,
    ) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **settings})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)

        def hear(kind: str, text: str) -> None:
            is_expected = (may_lose_connection and "ERR_" in text) or (
                may_be_refused and "the server responded" in text
            )
            if kind == "error" and not is_expected:
                complaints.append(text)

        def check_host(request: Request) -> None:
            if request.url.split("/")[2] != host:
                complaints.append(request.url)

        host = url.split("/")[2]
        page.on("console", lambda message: hear(message.type, message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", check_host)
        if script is not None:
            page.add_init_script(script)
        page.goto(url)
        page.locator("svg.diagram").wait_for(state="attached")  # it has asked for all that it needs to begin
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not complaints
