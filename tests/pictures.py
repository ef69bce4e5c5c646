"""Photograph page and report of the demos: `uv run --group dev python -m tests.pictures` writes docs/pictures."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from openai import OpenAI
from playwright.sync_api import Browser, Page

from demos.guard import _serving_guard
from demos.offline import demonstrate
from demos.scripted_upstream import serving_upstream
from tests.browsers import open_browser
from tests.snippets import ROOT

FOLDER = ROOT / "docs" / "pictures"
NAMES = ("page.webp", "report.webp")
WIDTH = 1200
_HEIGHTS = (1203, 960)
_QUESTIONS = (
    "How long do I boil an egg?",
    "Who are you?",
    "What is the capital of Kenya?",
    "How do I undo my last git commit but keep the changes?",
)
"""What the guarded chatbot is asked; to the second it has no answer that passes."""


def photograph(browser: Browser, folder: Path, report: Path) -> None:
    """Write both pictures into a folder: the page of a guard that answers now, and a report."""
    folder.mkdir(parents=True, exist_ok=True)
    with _served_page() as address:
        page = _open(browser, address, _HEIGHTS[0])
        page.get_by_text(_QUESTIONS[-1]).first.click()
        page.locator(".label-bar").wait_for()
        page.locator("#groups > summary").click(position={"x": 4, "y": 8})
        _keep(page, folder / NAMES[0])
    _keep(_open(browser, report.as_uri(), _HEIGHTS[1]), folder / NAMES[1])


@contextmanager
def _served_page() -> Iterator[str]:
    """Serve a guard that has answered the questions, and yield the address of its page."""
    with TemporaryDirectory() as folder, serving_upstream() as upstream:
        settings = {
            "upstream": upstream,
            "judge": "demos.guard:judge",
            "success_rating": 4,
            "port": 0,
            "record": f"{folder}/record.db",
            "record_texts": True,
        }
        with _serving_guard(settings) as guard:
            with OpenAI(base_url=guard.url, api_key="none", max_retries=0) as client:
                for question in _QUESTIONS:
                    client.chat.completions.create(
                        model="chatbot", messages=[{"role": "user", "content": question}]
                    )
            assert guard.page_url is not None
            yield guard.page_url


def _open(browser: Browser, address: str, height: int) -> Page:
    page = browser.new_page(
        viewport={"width": WIDTH, "height": height},
        color_scheme="light",
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    page.goto(address)
    return page


def _keep(page: Page, file: Path) -> None:
    """Write the upper part of a page as WebP, which takes a third of what PNG does."""
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement?.blur(); window.scrollTo(0, 0)")
    asked = {"format": "webp", "quality": 72}
    taken = page.context.new_cdp_session(page).send("Page.captureScreenshot", asked)
    file.write_bytes(base64.b64decode(taken["data"]))
    page.close()


if __name__ == "__main__":
    with TemporaryDirectory() as work, open_browser() as browser:
        demonstrate(Path(work) / "run")
        photograph(browser, FOLDER, Path(work) / "run" / "report.html")
