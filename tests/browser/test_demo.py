"""`fsm-engine serve --demo` in a real browser: the order desk's whole conversation."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from fsm_engine.server.demo import demo_app

from .support import serving


def test_order_desk_is_seen_through_its_whole_conversation(open_page: Callable[..., Page]) -> None:
    """Refusals, retries, an open circuit, fallbacks, a slow report, two decisions of a person, and the answer."""
    with serving(lambda: demo_app(pace=0.002)) as port:
        page = open_page(f"http://127.0.0.1:{port}/")
        expect(page.locator("#tools li")).to_have_count(8)
        page.get_by_role("button", name="Chen Mei").click()

        circuit = page.locator(".circuit", has_text="inventory_check@1")
        report = page.get_by_role("progressbar", name="Progress")
        expect(report).to_be_visible()
        expect(circuit.locator(".pill")).to_have_text("open", timeout=30_000)
        fallbacks = page.locator(".card .is-fallback", has_text="circuit breaker open")
        expect(fallbacks.first).to_contain_text("Answered by the fallback")

        expect(page.locator("#waiting")).to_have_text("2 calls wait for you", timeout=30_000)
        expect(circuit.locator(".pill")).to_have_text("closed")
        page.locator("#waiting").click()
        expect(page.locator(".question .is-yes").first).to_have_attribute("aria-disabled", "false")
        page.keyboard.press("Enter")
        expect(page.locator("#waiting")).to_have_text("1 call waits for you")
        page.get_by_label("Reason for denying").fill("it needs a written order")
        page.get_by_role("button", name="Deny").click()

        expect(page.locator(".is-answer .text")).to_contain_text("so I do not pay again")
        expect(page.locator("article.card")).to_have_count(23)
        expect(page.locator("article.card:not([data-status])")).to_have_count(0)
        statuses = page.locator("article.card").evaluate_all("cards => cards.map((card) => card.dataset.status)")
        assert statuses.count("error") == 11
        # Of two calls that meet a half-open circuit one is the probe; whether the other still finds it open is chance.
        assert statuses.count("partial") in {2, 3}
        expect(page.locator("article", has_text="Whether it had an effect is not known")).to_have_count(1)
        expect(page.locator("article", has_text="it needs a written order")).to_have_count(1)

        partial = page.locator("article.card[data-status=partial]").nth(1)
        partial.locator(".card-title").click()
        passed = page.locator(".node.is-visited").evaluate_all("nodes => nodes.map((node) => node.dataset.state)")
        assert passed == ["PENDING", "VALIDATING", "ADMITTING", "FALLING_BACK", "COMPLETED"]
        expect(page.locator("#timeline-count")).to_have_text("23 calls")
