"""The command `python -m demos.weather`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import BaseCallbackHandler

from demos import weather
from demos.command import Options, add_model_options, complain, describe_models, models_of
from demos.screen import Screen, pips, quantity, screen, tone_of
from demos.weather.agent import judge as temperature_judge
from demos.weather.agent import scripted_model, weather_agent
from judges import ConfigurationError, Helpfulness
from refine import Attempt, Outcome, SelfRefine


class LiveAttempts(BaseCallbackHandler):
    """Writes each attempt as it happens: tool calls, the draft, the verdict, from the loop's progress events.

    Args:
        screen: Where to write.
    """

    run_inline = True

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        """Write a draft, or the verdict on it."""
        if name == "refine.draft":
            self._screen.rule(f"attempt {data['attempt']}")
            for tool in data["tools"]:
                self._screen.entry("tool", f"{_call(tool['name'], tool['args'])} → {tool['result']}")
            self._screen.entry("draft", data["text"])
        elif name == "refine.verdict":
            self._write_verdict(data)

    def _write_verdict(self, data: Mapping[str, Any]) -> None:
        rating = data["rating"]
        decision = "accepted" if data["accepted"] else "refused"
        line = f"{pips(rating)}  {rating} of 4, {decision}"
        self._screen.entry("rating", line if rating else f"none ({data['unscored']})", tone_of(rating))
        for label, text in (("why", data["rationale"]), ("feedback", data["feedback"])):
            if text and rating:
                self._screen.entry(label, text)


def _call(name: str, args: Mapping[str, Any]) -> str:
    """Return a tool call as Python would write it."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in args.items())})"


def show_result(screen: Screen, outcome: Outcome) -> None:
    """Write the answer, and the totals of the run."""
    rating = None if outcome.best is None else outcome.best.rating
    answer = "" if outcome.answer is None else str(outcome.answer.text)
    title = "accepted answer" if outcome.passed else f"not accepted ({outcome.stop_reason}): the best there is"
    screen.line()
    screen.panel(title, answer or "There is none.", "good" if outcome.passed else tone_of(rating))
    screen.line(_totals(outcome), "dim")


def _totals(outcome: Outcome) -> str:
    """Return the totals of a run: attempts, time, calls and tokens."""
    end = "accepted after" if outcome.passed else "gave up after"
    usage = outcome.usage
    return (
        f"{end} {quantity(len(outcome.attempts), 'attempt')} in {outcome.latency_s:.2f} s, "
        f"{usage.calls} model calls, {usage.tokens} tokens ({usage.input_tokens} in, {usage.output_tokens} out)"
    )


def _as_json(outcome: Outcome, **settings: str | int | None) -> str:
    """Return a run and its settings as one JSON object."""
    record = {
        **settings,
        "passed": outcome.passed,
        "stop_reason": outcome.stop_reason,
        "detail": outcome.detail,
        "answer": None if outcome.answer is None else outcome.answer.text,
        "attempts": [_attempt(attempt) for attempt in outcome.attempts],
        "usage": outcome.usage.model_dump(mode="json"),
        "latency_s": round(outcome.latency_s, 6),
    }
    return json.dumps(record, ensure_ascii=False, indent=2)


def _attempt(attempt: Attempt) -> dict[str, Any]:
    verdict = attempt.verdict
    return {
        "number": attempt.number,
        "answer": attempt.text,
        "rating": attempt.rating,
        "feedback": attempt.feedback,
        "rationale": "" if verdict is None else verdict.rationale,
        "unscored": None if verdict is None else verdict.unscored,
        "tools": attempt.tools,
        "usage": attempt.usage.model_dump(mode="json"),
        "latency_s": round(attempt.latency_s, 6),
        "judge_usage": None if verdict is None else verdict.usage.model_dump(mode="json"),
        "judge_latency_s": None if verdict is None else round(verdict.latency_s, 6),
    }


_PROG = "demos.weather"
_SEED = 6
_PACE_S = 0.3
"""Seconds the script waits before each reply on a terminal; without a pause the loop would be too fast to see."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the exit code is 0 if an answer was accepted, 1 if not, 2 if it could not be run."""
    parser = Options(_PROG, weather.__doc__)
    parser.add_argument("--question", default="What is the weather in Paris right now?", help="what to ask")
    parser.add_argument(
        "--seed", type=int, default=_SEED, metavar="N", help="seeds the thermometer; default 6, which errs twice"
    )
    parser.add_argument("--success-rating", type=int, default=4, metavar="1-4", help="rating to accept; default 4")
    parser.add_argument("--max-attempts", type=int, default=16, metavar="N", help="most attempts; default 16")
    parser.add_argument("--json", action="store_true", help="print the run as one JSON object, nothing else")
    add_model_options(parser)
    return parser.run(_run, arguments)


def _run(options: argparse.Namespace) -> int:
    if not options.question.strip():
        raise ConfigurationError("--question is empty; ask something, for instance about the weather in Paris")
    display = None if options.json else screen()
    chosen = models_of(options)
    judge = temperature_judge if chosen.judge is None else Helpfulness(chosen.judge)
    model = chosen.generator or scripted_model(delay_s=_PACE_S if display and display.live else 0.0)
    refiner = SelfRefine(
        weather_agent(model, seed=options.seed),
        judge,
        success_rating=options.success_rating,
        max_attempts=options.max_attempts,
        show_drafts=True,
    )
    if display is None:
        outcome = refiner.refine(options.question)
    else:
        _introduce(display, options)
        with display.waiting("working"):
            outcome = refiner.refine(options.question, {"callbacks": [LiveAttempts(display)]})
    unreachable = _unreachable(outcome)
    if unreachable:
        return complain(_PROG, unreachable)
    if display is None:
        settings = {"question": options.question, "generator": options.generator, "judge": options.judge}
        print(_as_json(outcome, seed=options.seed, **settings))
    else:
        show_result(display, outcome)
    return 0 if outcome.passed else 1


def _introduce(display: Screen, options: argparse.Namespace) -> None:
    display.line("A weather agent with a broken thermometer, and a judge that notices", "strong")
    display.line(describe_models(options), "dim")
    rules = f"Accepted from {options.success_rating} of 4, at most {quantity(options.max_attempts, 'attempt')}"
    display.line(f"{rules}; the thermometer has --seed {options.seed}.", "dim")
    display.line()
    display.entry("question", options.question, "strong")
    display.line()


def _unreachable(outcome: Outcome) -> str:
    """Return which model could not be asked, if the run failed for that reason; else an empty text."""
    hint = "check its name, its key and, if given, --base-url"
    if outcome.stop_reason == "generator_failed" and not outcome.attempts:
        return f"the generator could not be asked ({outcome.detail}); {hint}"
    verdict = outcome.attempts[-1].verdict if outcome.attempts else None
    if outcome.best is None and verdict is not None and verdict.unscored == "judge_failed":
        return f"the judge could not be asked ({verdict.detail}); {hint}"
    return ""
