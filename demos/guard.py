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
from judges import ConfigurationError, Verdict

if TYPE_CHECKING:
    from refine.server import RunningGuard
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_HASTY = "Just do it the usual way."
_ANSWERS = {
    "git": "Run `git reset --soft HEAD~1`, because --soft moves the branch back and leaves your files alone.",
    "Kenya": "Nairobi, because the government has had its seat there since 1907.",
    "egg": "Seven minutes, because by then the white is firm and the yolk still soft.",
}


class _Chatbot(BaseHTTPRequestHandler):
    """Answers hastily at first, and well once it is told what is missing."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave together, or whoever waits for them is woken twice

    def do_POST(self) -> None:
        """Answer a chat completion."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._send({**_completion(request), "model": request.get("model", "chatbot")})

    def do_GET(self) -> None:
        """List the one model there is."""
        self._send({"object": "list", "data": [{"id": "chatbot", "object": "model"}]})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
        """Keep the screen for the demo."""

    def _send(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _completion(request: dict[str, Any]) -> dict[str, Any]:
    messages = request["messages"]
    question = str(messages[0]["content"])
    good = next((answer for word, answer in _ANSWERS.items() if word in question), _HASTY)
    text = good if len(messages) > 1 else _HASTY
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 20, "completion_tokens": 20, "total_tokens": 40}
    return {"id": "demo", "object": "chat.completion", "created": 0, "choices": [choice], "usage": usage}


@contextmanager
def serving_upstream() -> Iterator[str]:
    """Serve the chatbot while the block runs, and yield its base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Chatbot)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="chatbot", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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
