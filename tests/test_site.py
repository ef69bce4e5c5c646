"""The built site in a real browser: its search answers what a new user asks, and nothing is loaded from elsewhere.

`TEST_SITE=FOLDER` names the site, which `mkdocs build --strict -d FOLDER` wrote.
"""

from __future__ import annotations

import functools
import os
import re
import threading
import tomllib
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browsers import CHROMIUM

SITE = Path(os.environ.get("TEST_SITE", "/nowhere"))
QUESTIONS: dict[str, str] = tomllib.loads(Path(__file__).with_name("site.toml").read_text(encoding="utf-8"))
"""What a new user asks, and the page that answers it."""

pytestmark = pytest.mark.skipif(
    "TEST_SITE" not in os.environ or not CHROMIUM.exists(), reason="needs a built site in TEST_SITE, and Chromium"
)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve the site on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def open_site(browser: Browser, address: str) -> tuple[Page, list[str]]:
    """Open the first page, its search ready, and return it with what it asked for elsewhere."""
    page, elsewhere = browser.new_page(), []
    page.on("request", lambda asked: None if asked.url.startswith(address) else elsewhere.append(asked.url))
    page.goto(f"{address}index.html")
    page.locator("input.md-search__input").focus()
    return page, elsewhere


def ask(page: Page, question: str) -> None:
    """Type a question; the theme listens to keys."""
    page.locator("input.md-search__input").fill(question)
    page.locator("input.md-search__input").press("End")


def hits_of(page: Page, question: str) -> list[str]:
    """Type a question, and return the first three pages that a reader sees."""
    says = page.locator(".md-search-result__meta")
    ask(page, "")
    expect(says).to_have_text("Type to start searching", timeout=60_000)
    ask(page, question)
    expect(says).to_have_text(re.compile(r"\bmatching\b"), timeout=60_000)
    links = page.locator(".md-search-result__item").evaluate_all(
        "items => items.slice(0, 3).map(item => item.querySelector('a').href)"
    )
    return [link.partition(".html")[0].removeprefix(page.url.partition("index.html")[0]) for link in links]


def test_the_search_answers_what_a_new_user_asks(browser: Browser, address: str) -> None:
    """Each question has its page among the first three hits, and no page is loaded from elsewhere."""
    page, elsewhere = open_site(browser, address)
    hits = {question: hits_of(page, question) for question in QUESTIONS}
    missed = {question: hits[question] for question, wanted in QUESTIONS.items() if wanted not in hits[question]}
    assert missed == {}
    assert elsewhere == []
    page.close()


def test_the_search_works_from_a_folder(browser: Browser) -> None:
    """Opened as files, without a server or a network, it answers, too."""
    page, elsewhere = open_site(browser, f"{SITE.resolve().as_uri()}/")
    ask(page, "certificate")
    page.locator(".md-search-result__item").first.wait_for(state="attached", timeout=60_000)
    assert "certificate" in page.locator(".md-search-result__item").first.inner_text().lower()
    assert elsewhere == []
    page.close()


def test_code_is_whole_on_a_phone(browser: Browser, address: str) -> None:
    """No line of code ends out of sight, and no page is wider than the screen."""
    page = browser.new_page(viewport={"width": 400, "height": 800})
    page.goto(f"{address}guard.html")
    too_wide = (
        "[...document.querySelectorAll('html, pre > code')].filter(e => e.scrollWidth > e.clientWidth).length"
    )
    assert page.locator("pre > code").count() > 3
    assert page.evaluate(too_wide) == 0
    page.close()
