"""Today's traffic is tomorrow's evaluation: refine a few questions, record every attempt, judge the file again.

The weather agent answers about a few cities while its attempts are written to `attempts.jsonl`. The very judge
object that spoke online then judges that file offline, and must say the same of every row.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from demos.command import Options, run_demo
from demos.screen import Screen, pips, screen
from demos.weather import rule
from demos.weather.agent import weather_agent
from judges import ConfigurationError, Judge, Verdict
from judges.offline import Row, evaluate, read_rows
from refine import Attempt, Outcome, SelfRefine

_PROG = "demos.offline"
_CITIES = ("Paris", "Nairobi", "Lima", "Hanoi")
_RECORD = "attempts.jsonl"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; the exit code is 0 if all verdicts agree, 1 if not, 2 if it could not be run."""
    return run_demo(_PROG, lambda: _run(_options(arguments)))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Options(_PROG, __doc__)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep the record here; default: throw it away")
    parser.add_argument("--seed", type=int, default=10, help="seeds the thermometer; default 10")
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace) -> int:
    if options.out is not None:
        return demonstrate(options.out, seed=options.seed)
    with tempfile.TemporaryDirectory() as folder:
        return demonstrate(Path(folder), seed=options.seed, keep=False)


def demonstrate(folder: Path, *, seed: int, judge: Judge = rule.judge, keep: bool = True) -> int:
    """Refine, record, judge again and compare; return the exit code.

    Args:
        folder: Folder of the record; it is created if it does not exist.
        seed: Seeds the thermometer.
        judge: Judges online and offline.
        keep: Whether the folder remains after the demo.

    Raises:
        ConfigurationError: If the folder already holds a record, which must not be appended to.
    """
    path = folder / _RECORD
    if path.exists():
        raise ConfigurationError(f"{path} is there already; choose another --out, or delete it first")
    folder.mkdir(parents=True, exist_ok=True)
    display = screen()
    display.line("Scripted model and rule judge; no key, no network.", "dim")
    refiner = SelfRefine(weather_agent(None, seed=seed), judge, success_rating=4, max_attempts=16, record=path)
    outcomes = [refiner.refine(f"What is the weather in {city}?") for city in _CITIES]
    online = [attempt for outcome in outcomes for attempt in outcome.attempts]
    offline = evaluate(read_rows(path), judge)
    differing = [
        row.index for attempt, row in zip(online, offline.rows, strict=True) if not _agrees(attempt, row, judge)
    ]
    _show(display, outcomes, online, offline.rows, judge)
    equal = f"{len(online) - len(differing)} of {len(online)} offline verdicts equal those given online"
    display.line(f"{equal}.", "bad" if differing else "good")
    if keep:
        hint = "Any judge can have the record:"
        display.line(f"{hint} refine evaluate {path} --judge helpfulness --model PROVIDER:MODEL --out RUN", "dim")
    return 1 if differing else 0


def _agrees(attempt: Attempt, row: Row, judge: Judge) -> bool:
    return attempt.verdict is not None and _without_cost(attempt.verdict) == _without_cost(
        row.verdicts[judge.name]
    )


def _without_cost(verdict: Verdict) -> dict[str, object]:
    """Return a verdict's fields without latency and usage, which differ from run to run."""
    return verdict.model_dump(exclude={"latency_s", "usage"})


def _show(
    display: Screen, outcomes: Sequence[Outcome], online: Sequence[Attempt], rows: Sequence[Row], judge: Judge
) -> None:
    tries = [
        f"{city} {attempt.number}"
        for city, outcome in zip(_CITIES, outcomes, strict=True)
        for attempt in outcome.attempts
    ]
    table = [
        (which, attempt.text, pips(attempt.rating), pips(row.verdicts[judge.name].rating))
        for which, attempt, row in zip(tries, online, rows, strict=True)
    ]
    display.table(("attempt", "answer", "online", "offline"), table)


if __name__ == "__main__":
    raise SystemExit(main())
