"""The guard in front of a chatbot that answers badly at first: start it, ask with the real client, open the page.

A scripted model stands for the chatbot, and a rule for the judge, so neither a key nor a network is needed. The
guard is the real server, and the client is the real `openai` package; all that changed for it is the base URL.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from demos.command import Options
from demos.screen import Screen, pips, screen
from demos.scripted_upstream import serving_upstream
from judges import ConfigurationError, Verdict

if TYPE_CHECKING:
    from refine.server import RunningGuard

_QUESTIONS = (
    "How do I undo my last git commit but keep the changes?",
    "What is the capital of Kenya?",
    "How long do I boil an egg?",
)


def judge(answer: str) -> Verdict:
    """Accept an answer that gives a reason; the judge of the demo."""
    if "because" in answer:
        return Verdict.rated(4, rationale="It gives a reason.")
    return Verdict.rated(2, rationale="It gives no reason.", feedback="Give a reason, in the same sentence.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the exit code is 0, or 2 if it could not be run."""
    parser = Options("demos.guard", __doc__)
    parser.add_argument("--port", type=int, default=0, metavar="N", help="port of the guard; default: a free one")
    parser.add_argument("--once", action="store_true", help="end after the questions, also in a terminal")
    return parser.run(_run, arguments)


def _run(options: argparse.Namespace) -> int:
    display = screen()
    display.line("Starting a scripted chatbot, and the guard in front of it ...", "dim")
    with TemporaryDirectory() as folder, serving_upstream() as upstream:
        settings = {
            "upstream": upstream,
            "judge": "demos.guard:judge",
            "success_rating": 4,
            "port": options.port,
            "record": str(Path(folder) / "record.db"),
            "record_texts": True,
        }
        with _serving_guard(settings) as guard:
            display.line(f"The chatbot answers at {upstream}; the guard in front of it at {guard.url}.", "dim")
            for question in _QUESTIONS:
                _ask(display, guard.url, question)
            display.line("The page, by a link that is followed once:")
            display.line(guard.page_url or "")
            _stay(display, once=options.once or not sys.stdout.isatty())
    return 0


def _stay(display: Screen, *, once: bool) -> None:
    """Serve until Ctrl-C, so that there is time for the page."""
    if not once:
        display.line("Ctrl-C ends it.", "dim")
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


@contextmanager
def _serving_guard(settings: dict[str, Any]) -> Iterator[RunningGuard]:
    """Run the guard in a thread while the block runs, and yield it.

    Raises:
        ConfigurationError: If a setting cannot be used.
    """
    try:
        from refine.server import RunningGuard as Running  # noqa: PLC0415 - an extra, of this demo alone
    except ImportError as error:
        raise ConfigurationError("the guard needs the extra: install selfrefine[server]") from error
    with Running(settings) as guard:
        yield guard


def _ask(display: Screen, url: str, question: str) -> None:
    try:
        from openai import OpenAI  # noqa: PLC0415 - of this demo alone
    except ImportError as error:
        raise ConfigurationError("this demo asks with the client of OpenAI: install selfrefine[openai]") from error
    with OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        reply = client.chat.completions.create(model="chatbot", messages=[{"role": "user", "content": question}])
    refine: dict[str, Any] = reply.model_extra["refine"] if reply.model_extra else {}
    display.line(question)
    for attempt in refine["attempts"]:
        display.line(f"  attempt {attempt['number']}: {pips(attempt['rating'])}", "dim")
    display.line(f"  {reply.choices[0].message.content}", "good" if refine["passed"] else "bad")


if __name__ == "__main__":
    raise SystemExit(main())
