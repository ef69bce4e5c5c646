"""A terminal chat with memory: you see accepted answers only, and a line on what was refused before.

The conversation lives in the graph's checkpointer; drafts and feedback never enter it. Without options a short
script answers: it remembers your name and what you said, and is sometimes too brief, which a rule refuses.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver

from demos.command import Options, add_model_options, complain, describe_models, models_of
from demos.screen import Screen, quantity, screen
from graphs import Unanswered
from judges import Helpfulness, Length
from judges.testing import ScriptedModel
from refine import SelfRefine

_PROG = "demos.chat"
_MARK = "refine"
"""Key of `additional_kwargs` in messages that the loop adds."""

_NAME_PATTERN = re.compile(
    r"(?i:\b(?:my name is|call me|i am called)\s+([^\W\d_][\w'-]*))|(?i:\b(?:i am|i'm))\s+([^\W\d_a-z][\w'-]*)"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Chat until `/quit`, the end of input or Ctrl-C; the exit code is 0, or 2 if nothing could be answered."""
    parser = Options(_PROG, __doc__)
    add_model_options(parser)
    return parser.run(_chat, arguments)


def _chat(options: argparse.Namespace) -> int:
    chosen = models_of(options)
    refiner = SelfRefine(
        chosen.generator or ScriptedModel(_script),
        Length(at_least=4, unit="words") if chosen.judge is None else Helpfulness(chosen.judge),
        checkpointer=InMemorySaver(),
    )
    display = screen()
    display.line(f"{describe_models(options, rule='length check')} /quit ends the chat.", "dim")
    try:
        answered = [_answer(refiner, question, display) for question in _questions(display)]
    except KeyboardInterrupt:
        display.line()
        return 0
    return 0 if any(answered) or not answered else 2


def _questions(display: Screen) -> Iterator[str]:
    """Yield the questions typed or piped in; a piped line is echoed, since nobody typed it on this screen."""
    while True:
        display.line()
        if sys.stdin.isatty():
            try:
                question = input("  you       ")
            except EOFError:
                return
        else:
            line = sys.stdin.readline()
            if not line:
                return
            question = line.rstrip("\n")
            display.entry("you", question)
        if question.strip() == "/quit":
            return
        if question.strip():
            yield question


def _answer(refiner: SelfRefine, question: str, display: Screen) -> bool:
    """Answer a question, and return whether there was an answer."""
    progress = _Progress(display)
    try:
        with display.waiting("thinking"):
            answer = refiner.invoke(question, {"configurable": {"thread_id": "chat"}, "callbacks": [progress]})
    except Unanswered as unanswered:
        complain(_PROG, str(unanswered))
        return False
    display.entry("assistant", str(answer.text), "strong")
    record = answer.response_metadata["refine"]
    tries = quantity(len(record["attempts"]), "attempt")
    summary = f"{tries}, {record['latency_s']:.2f} s, rated {record['rating']} of 4"
    display.entry("", summary if record["passed"] else f"not accepted ({record['stop_reason']}): {summary}", "dim")
    return True


class _Progress(BaseCallbackHandler):
    """Reports refused drafts, without their text."""

    run_inline = True

    def __init__(self, display: Screen) -> None:
        self._display = display

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        """Write a line for a verdict that refuses a draft."""
        if name == "refine.verdict" and data["rating"] and not data["accepted"]:
            self._display.entry("", f"draft {data['attempt']} refused, rated {data['rating']} of 4", "dim")


def _script(messages: Sequence[BaseMessage]) -> str:
    """Return the scripted reply: every other first draft is a single word."""
    questions = [turn.text for turn in messages if turn.type == "human" and _MARK not in turn.additional_kwargs]
    refused = any(_MARK in turn.additional_kwargs for turn in messages)
    brief, full = _replies(questions[-1], questions[:-1])
    return full if refused or len(questions) % 2 else brief


def _replies(question: str, earlier: Sequence[str]) -> tuple[str, str]:
    """Return a reply that is too brief, and the same at its proper length."""
    names = [
        (match[1] or match[2]).capitalize()
        for text in (*earlier, question)
        if (match := _NAME_PATTERN.search(text))
    ]
    name = names[-1] if names else None
    lowered = question.lower()
    if _NAME_PATTERN.search(question):
        return "Noted.", f"Pleased to meet you, {name}. I shall remember that."
    if re.search(r"\bmy name\b|\bwho am i\b", lowered):
        reply = f"Your name is {name}, as you told me."
        return ("Yes.", reply) if name else ("No.", "You have not told me your name yet.")
    if re.search(r"\bdid i (say|tell|ask)\b|\bremember\b", lowered):
        quoted = " and ".join(f"“{text}”" for text in earlier[-3:])
        return "Yes.", f"Before this you said {quoted}." if earlier else "This is the first thing you said."
    if re.match(r"(hello|hi|hey|good (morning|evening|day))\b", lowered):
        return "Hello.", f"Hello {name or 'there'}, what would you like to tell me?"
    return "Right.", "I am a short script: I remember your name and what you said. Try “What did I say?”"


if __name__ == "__main__":
    raise SystemExit(main())
