"""An agent that measures again: the weather agent with `SelfRefineMiddleware`, and a grader that has tools itself.

The thermometer is often broken. The grader, an agent too, looks up which temperatures are possible, and refuses
what cannot be. The agent then calls its tool again, and its user sees the accepted answer alone.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from demos.command import Options, add_model_options, complain, describe_models, models_of
from demos.screen import Screen, quantity, screen
from demos.weather.agent import COLDEST, HOTTEST, celsius, scripted_model, weather_agent
from demos.weather.app import LiveAttempts, show_result
from graphs import Unanswered
from judges import ToolCall, as_judge
from judges.testing import ScriptedModel

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

_PROG = "demos.agent"
_GRADER = (
    "You grade answers about the weather. Look up which temperatures are possible, then rate the response from 1 "
    "to 4: 4 if its temperature is possible and is the one that was measured, 1 if it is impossible."
)


class WeatherGrade(BaseModel):
    """A grade: the reasons, a rating from 1 to 4, and what to change."""

    rationale: str
    rating: Literal[1, 2, 3, 4]
    feedback: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the exit code is 0 if an answer was accepted, 1 if not, 2 if it could not be run."""
    parser = Options(_PROG, __doc__)
    parser.add_argument("--question", default="What is the weather in Paris right now?", help="what to ask")
    parser.add_argument("--seed", type=int, help="repeat a run: the same seed measures the same temperatures")
    parser.add_argument("--max-attempts", type=int, default=16, metavar="N", help="most attempts; default 16")
    add_model_options(parser)
    return parser.run(_run, arguments)


def _run(options: argparse.Namespace) -> int:
    from refine import SelfRefineMiddleware  # noqa: PLC0415 - an extra, opened on demand

    seed = random.randrange(10_000) if options.seed is None else options.seed  # noqa: S311 - a demo, no secret
    models, display = models_of(options), screen()
    judge = as_judge(_grading_agent(models.judge or ScriptedModel(_next_grade, name="grader")))
    refining = SelfRefineMiddleware(judge, success_rating=4, max_attempts=options.max_attempts, show_drafts=True)
    agent = weather_agent(models.generator or scripted_model(), seed=seed, middleware=[refining])
    _introduce(display, options, seed)
    try:
        result = agent.invoke({"messages": [("user", options.question)]}, {"callbacks": [LiveAttempts(display)]})
    except Unanswered as unanswered:
        return complain(_PROG, str(unanswered), code=1)
    outcome = refining.outcome(result)
    show_result(display, outcome)
    rejected = [attempt.text for attempt in outcome.attempts if attempt.number != outcome.released]
    seen = sum(message.type == "ai" and message.text in rejected for message in result["messages"])
    history = quantity(len(result["messages"]), "message")
    display.line(f"The agent's history: {history}, {seen} of {quantity(len(rejected), 'rejected draft')}.", "dim")
    return 0 if outcome.passed else 1


def _grading_agent(model: BaseChatModel) -> Any:
    """Build the grader: an agent with a tool of its own, and with grades as its answers."""
    from langchain.agents import create_agent  # noqa: PLC0415 - as above
    from langchain.agents.structured_output import ToolStrategy  # noqa: PLC0415 - as above

    def possible_temperatures() -> str:
        """Look up the lowest and the highest temperature ever measured on Earth."""
        return f"{COLDEST} °C to {HOTTEST} °C"

    return create_agent(
        model,
        [possible_temperatures],
        system_prompt=_GRADER,
        response_format=ToolStrategy(WeatherGrade),
        name="grader",
    )


def _next_grade(messages: Sequence[BaseMessage]) -> object:
    """Return what the grader that needs no key says next: it looks up what is possible, then grades."""
    if messages[-1].type != "tool":
        return ToolCall(name="possible_temperatures", args={})
    lowest, highest = celsius(str(messages[-1].text))
    case = next(str(message.text) for message in messages if message.type == "human")
    stated = celsius(case)[-1]
    if lowest <= stated <= highest:
        grade = WeatherGrade(rationale=f"{stated:g} °C is possible.", rating=4, feedback="")
    else:
        reason = f"{stated:g} °C is impossible: from {lowest:g} to {highest:g} °C is what was ever measured."
        grade = WeatherGrade(
            rationale=reason, rating=1, feedback="Call the weather tool again, and report its result."
        )
    return ToolCall(name="WeatherGrade", args=grade.model_dump())


def _introduce(display: Screen, options: argparse.Namespace, seed: int) -> None:
    display.line("A weather agent that measures again until a grader with tools accepts its answer", "strong")
    display.line(describe_models(options, rule="grader"), "dim")
    rules = f"Accepted at 4 of 4, at most {quantity(options.max_attempts, 'attempt')}"
    display.line(f"{rules}; --seed {seed} measures the same again.", "dim")
    display.line()
    display.entry("question", options.question, "strong")
    display.line()


if __name__ == "__main__":
    raise SystemExit(main())
