"""The command `python -m demos.weather`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from demos import weather
from demos.command import Options, add_model_options, complain, describe_models, models_of, run_demo
from demos.screen import Screen, quantity, screen
from demos.weather import rule
from demos.weather.agent import scripted_model, weather_agent
from demos.weather.show import Live, as_json, show_result
from judges import ConfigurationError, Helpfulness
from refine import Outcome, SelfRefine

_PROG = "demos.weather"
_SEED = 6
_PACE_S = 0.3
"""Seconds the script waits before each reply on a terminal; without a pause the loop would be too fast to see."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the exit code is 0 if an answer was accepted, 1 if not, 2 if it could not be run."""
    return run_demo(_PROG, lambda: _run(_options(arguments)))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Options(_PROG, weather.__doc__)
    parser.add_argument("--question", default="What is the weather in Paris right now?", help="what to ask")
    parser.add_argument(
        "--seed", type=int, default=_SEED, metavar="N", help="seeds the thermometer; default 6, which errs twice"
    )
    parser.add_argument("--success-rating", type=int, default=4, metavar="1-4", help="rating to accept; default 4")
    parser.add_argument("--max-attempts", type=int, default=16, metavar="N", help="most attempts; default 16")
    parser.add_argument("--json", action="store_true", help="print the run as one JSON object, nothing else")
    add_model_options(parser)
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace) -> int:
    if not options.question.strip():
        raise ConfigurationError("--question is empty; ask something, for instance about the weather in Paris")
    display = None if options.json else screen()
    chosen = models_of(options)
    judge = rule.judge if chosen.judge is None else Helpfulness(chosen.judge)
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
            outcome = refiner.refine(options.question, {"callbacks": [Live(display)]})
    unreachable = _unreachable(outcome)
    if unreachable:
        return complain(_PROG, unreachable)
    if display is None:
        settings = {"question": options.question, "generator": options.generator, "judge": options.judge}
        print(as_json(outcome, seed=options.seed, **settings))
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
