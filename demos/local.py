"""A small real model is asked for answers with rules that it breaks, and told what to change until it keeps them.

SmolLM2-135M runs on this machine, without a key or a network. Rules that a program can check are its judge. Each
draft, what is said of it and each retry is shown as it happens, and whatever comes out is the result: sometimes
the model needs no second attempt, sometimes no number of attempts helps it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult

from demos.command import Options, complain
from demos.screen import Screen, quantity, screen
from judges import Judge, OpenAICompatible, Verdict, as_judge, load
from refine import Outcome, SelfRefine

_PROG = "demos.local"
_LONGEST = 160
"""Most tokens of an answer: a small model that repeats itself would go on for minutes."""


@dataclass(frozen=True)
class _Request:
    """A request with a rule that a program checks.

    Args:
        text: What the model is asked.
        judge: The rule.
    """

    text: str
    judge: Judge


def _has_title_and_author(answer: str) -> Verdict:
    """Check that an answer is one JSON object with the keys title and author, and nothing else."""
    try:
        keys = sorted(json.loads(answer))
    except (ValueError, TypeError):
        keys = []
    if keys == ["author", "title"]:
        return Verdict.rated(4, rationale="It is a JSON object with both keys.")
    advice = 'Reply with one JSON object and nothing around it, in this form: {"title": "...", "author": "..."}.'
    return Verdict.rated(1, rationale="It is no JSON object with the keys title and author.", feedback=advice)


def _rule(**instruction: Any) -> Judge:
    return load("verifiable_instructions", instructions=[instruction])


REQUESTS = (
    _Request("Explain in at most 25 words why the sky is blue.", _rule(kind="words", at_most=25)),
    _Request(
        "Write a short birthday greeting for a gardener. Use the words 'tulip' and 'sunshine'.",
        _rule(kind="keywords", words=["tulip", "sunshine"]),
    ),
    _Request(
        "List exactly 3 things to take on a hike, each on a line of its own that begins with '* '.",
        _rule(kind="bullets", at_least=3, at_most=3),
    ),
    _Request("Say in one sentence what a library is, in lower-case letters only.", _rule(kind="lower_case")),
    _Request(
        "Describe the book Moby Dick as a JSON object with the keys title and author, and nothing else.",
        as_judge(_has_title_and_author),
    ),
)


class _LiveTotals(BaseCallbackHandler):
    """Writes each draft and its verdict as it happens, with how fast the model wrote.

    Args:
        screen: Where to write.
    """

    run_inline = True

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._began = 0.0
        self.tokens = 0
        self.seconds = 0.0
        self._speed = ""

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **_: Any
    ) -> None:
        """Take the time."""
        del serialized, messages, run_id
        self._began = time.monotonic()

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_: Any) -> None:
        """Take the time, and the tokens."""
        del run_id
        usage = getattr(getattr(response.generations[0][0], "message", None), "usage_metadata", None) or {}
        tokens, seconds = usage.get("output_tokens", 0), time.monotonic() - self._began
        self.tokens, self.seconds = self.tokens + tokens, self.seconds + seconds
        self._speed = f"{quantity(tokens, 'token')} in {seconds:.1f} s, {tokens / max(seconds, 1e-3):.0f} a second"

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        """Write a draft, or the verdict on it."""
        if name == "refine.draft":
            self._screen.entry(f"draft {data['attempt']}", data["text"])
            self._screen.entry("", self._speed, "dim")
        elif name == "refine.verdict":
            self._write_verdict(data)

    def _write_verdict(self, data: Mapping[str, Any]) -> None:
        if data["accepted"]:
            self._screen.entry("accepted", "It keeps the rule.", "good")
        else:
            self._screen.entry("refused", data["feedback"] or data["rationale"] or data["unscored"], "bad")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the exit code is 0, or 2 if it could not be run."""
    parser = Options(_PROG, __doc__)
    parser.add_argument(
        "--model", default="local:smollm2", metavar="NAME", help="default local:smollm2; or local:PATH.gguf"
    )
    parser.add_argument("--max-attempts", type=int, default=4, metavar="N", help="most attempts; default 4")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seeds the model's choice of words")
    return parser.run(_run, arguments)


def _run(options: argparse.Namespace) -> int:
    display = screen()
    settings: dict[str, Any] = {"max_tokens": _LONGEST, "temperature": 0.7, "extra": {"seed": options.seed}}
    model = OpenAICompatible.named(options.model, **settings)
    display.line("A small real model, rules that it breaks, and a loop that says so", "strong")
    display.line(f"{options.model} on this machine; no key, no network. It starts with the first request.", "dim")
    live, began, outcomes = _LiveTotals(display), time.monotonic(), list[Outcome]()
    for number, request in enumerate(REQUESTS, 1):
        display.line()
        display.rule(f"{number} of {len(REQUESTS)}")
        display.entry("request", request.text, "strong")
        refiner = SelfRefine(
            model, request.judge, success_rating=4, max_attempts=options.max_attempts, show_drafts=True
        )
        with display.waiting("the model writes"):
            outcome = refiner.refine(request.text, {"callbacks": [live]})
        if outcome.stop_reason == "generator_failed":
            return complain(_PROG, f"{options.model} could not be asked ({outcome.detail})")
        outcomes.append(outcome)
    _show_totals(display, outcomes, live, time.monotonic() - began)
    return 0


def _show_totals(display: Screen, outcomes: Sequence[Outcome], live: _LiveTotals, seconds: float) -> None:
    """Write a line for each request, and what the loop changed."""
    rows = [
        (request.text, str(len(outcome.attempts)), "accepted" if outcome.passed else "not accepted")
        for request, outcome in zip(REQUESTS, outcomes, strict=True)
    ]
    display.line()
    display.table(("request", "attempts", "result"), rows)
    first = sum(outcome.passed and len(outcome.attempts) == 1 for outcome in outcomes)
    accepted = sum(outcome.passed for outcome in outcomes)
    display.line(
        f"{first} of {len(outcomes)} kept their rule at the first attempt, {accepted} in the end.", "strong"
    )
    speed = live.tokens / max(live.seconds, 1e-3)
    display.line(
        f"{quantity(live.tokens, 'token')} in {seconds:.0f} s, {speed:.0f} a second while it wrote. Five requests "
        f"to one small model show how a loop works, not what it gains.",
        "dim",
    )


if __name__ == "__main__":
    raise SystemExit(main())
