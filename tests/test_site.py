"""The built site in a real browser: its search answers what a new user asks, and nothing is loaded from elsewhere.

`TEST_SITE=FOLDER` names the site, which `mkdocs build --strict -d FOLDER` wrote.
"""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browsers import CHROMIUM

SITE = Path(os.environ.get("TEST_SITE", "/nowhere"))
QUESTIONS = {
    "How do I install it?": "install",
    "Which extras are there?": "install",
    "What is a verdict?": "judging",
    "How do I write my own judge?": "writing-a-judge",
    "Can a plain Python function be a judge?": "judging",
    "how many attempts before it gives up": "loop",
    "What happens when the judge fails or times out?": "guarantees",
    "limit cost and number of calls": "loop",
    "stream tokens while the answer is judged": "streaming",
    "use it with create_agent": "agents",
    "human review before an answer goes out": "durable",
    "OpenAI-compatible proxy in front of vLLM": "guard",
    "How do I run the guard in Kubernetes?": "scaling",
    "mask personal data": "safety",
    "jailbreak detection": "catalogue/prompt_injection",
    "detect hallucinations in RAG answers": "choosing",
    "Evaluate a CSV file": "rows",
    "fail CI when quality drops": "ci",
    "resume a run after a crash": "runs",
    "How much will an evaluation cost?": "runs",
    "use a local model without an API key": "notebooks/local-model",
    "prometheus metrics": "scaling",
    "OpenTelemetry tracing": "record",
    "What is a certificate?": "trust",
    "Does refining help at all?": "trial",
    "migrate from guardrails-ai": "from-elsewhere",
    "switch from NeMo Guardrails": "guard-from-elsewhere",
    "use with Claude Code (MCP)": "mcp",
    "several judges together in a panel": "judging",
    "test without a model": "judging",
    "cache judge calls, rate limit": "judging",
    "What leaks to the user?": "guarantees",
    "How do I report a vulnerability?": "security",
    "header_timeout_s": "reference/guard-settings",
    "StopReason": "reference/reasons-and-events",
    "AskFailed": "reference/judges",
    "python version supported": "security",
    "What do I get back from invoke?": "loop",
    "which judge should I start with": "choosing",
    "judge with my own criteria": "criteria",
    "weighted scores for several criteria": "criteria",
    "tune a judge on labels": "tuning",
    "how many labels do I need": "trust",
    "keep best of several drafts": "candidates",
    "resume a conversation after restart": "durable",
    "guard returns 503": "guard",
    "TLS and API keys for the guard": "guard",
    "webhook when an alarm is raised": "guard",
    "store attempts in PostgreSQL": "record",
    "HTML report of a run": "report",
    "LangSmith traces as rows": "rows",
    "compare two models": "evaluating",
    "rank several systems": "evaluating",
    "batch API to save money": "runs",
    "Ray cluster": "runs",
    "Chinese prompts": "judging",
    "translate a judge's prompts": "judging",
    "log probabilities of the rating": "probabilities",
    "judge tool calls of an agent": "judging-agents",
    "let the judge look things up with tools": "criteria",
    "port from ragas": "from-elsewhere",
    "add a new model provider": "adding-a-provider",
    "retry on rate limit errors": "loop",
    "does the judge agree with people": "trust",
    "image and audio input": "general-judges",
    "pre-commit hook for judge files": "ci",
    "stop the model from making things up": "choosing",
    "remove emails and phone numbers from replies": "safety",
    "my evaluation was interrupted, continue where it stopped": "runs",
    "can I see what was rejected and why": "record",
    "how confident is the judge": "probabilities",
    "judge gives too high scores": "trust",
    "share results with my boss": "report",
    "use it from fastapi": "streaming",
    "sample only 10 percent of traffic": "loop",
    "alert me on slack when quality goes down": "guard",
    "evidense for the judge": "choosing",
    "aboutt human aproval of drafts": "durable",
    "UnicodeDecodeError reading csv": "rows",
    "ModuleNotFoundError: No module named 'refine'": "install",
    "infinite loop? will it ever stop": "loop",
    "model just repeats the feedback": "retries",
    "exit code 3": "ci",
    "call the judge asynchronously": "judging",
    "certificate refused after upgrading the model": "certifying",
    "lock file left over, another process works on the run": "runs",
    "guard returns 422": "guard",
    "delete personal data after 30 days gdpr": "record",
    "langchain middleware order": "agents",
    "first token is slow": "streaming",
    "where is the api reference": "reference/refine",
}
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
