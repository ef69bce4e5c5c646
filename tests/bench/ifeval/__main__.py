"""Measure whether feedback mends answers of a real model: `uv run --group dev python -m tests.bench.ifeval`.

Two sets of prompts whose rules a program can check: those of IFEval, with IFEval's own checker as the truth, and
60 short ones with a rule each. The loop's judge is `verifiable_instructions`. Every arm begins with the same first
answer and may generate as many as the others.

    python -m tests.bench.ifeval --out bench --prompts prompts.jsonl --check check.py
    python -m tests.bench.ifeval --out bench --set short --temperature 0.7 --draws 3
    python -m tests.bench.ifeval --replay

Called again with the same `--out` it goes on where it was. The raw attempts are written beside this file, in
`raw/`, from which `--replay` derives every figure again without a model.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from graphs import Policy
from judges import OpenAICompatible, load
from judges.offline import Progress
from refine import Trial, trial
from tests.bench.ifeval.page import write_page
from tests.bench.ifeval.prompts import QuestionSet, ifeval_set, short_set
from tests.bench.ifeval.raw import RAW, read_all, read_so_far, write_raw

ARMS = "first,loop,restated,last_draft,verify_first,all_drafts,fresh"
_EVERY_S = 20.0


def main() -> None:
    """Measure, or replay what was measured."""
    options = _parser().parse_args()
    if options.replay:
        measured = read_all(options.raw)
        for name, (facts, found) in measured.items():
            _show(name, facts, found)
        if options.write_page and measured:
            write_page(measured)
        return
    if options.out is None:
        sys.exit("--out names the folder of the trials, for instance --out bench")
    generator = OpenAICompatible.named(
        options.server or options.model, max_tokens=options.max_tokens, timeout_s=600
    )
    for one in _sets(options):
        for temperature in options.temperature:
            draws = options.draws if temperature else 1
            _measure(one, generator, temperature, draws, options)


def _measure(
    one: QuestionSet, generator: OpenAICompatible, temperature: float, draws: int, options: argparse.Namespace
) -> None:
    name = f"{one.name}-t{temperature:g}"
    print(f"== {name}: {len(one.questions)} questions, {draws} draws", flush=True)
    folder, policy = options.out / name, Policy(max_attempts=options.max_attempts, success_rating=4)
    if options.so_far:
        found = read_so_far(folder, one.questions, policy)
    else:
        found = _run(one, generator, temperature, policy, options)
    facts = {
        "set": one.name,
        "model": options.model,
        "temperature": temperature,
        "draws": draws,
        "max_tokens": options.max_tokens,
        "seed": options.seed,
    }
    _show(name, facts, found)
    if options.limit is None:
        print(f"raw attempts: {write_raw(options.raw / f'{name}.jsonl.xz', facts, found)}")


def _run(
    one: QuestionSet, generator: OpenAICompatible, temperature: float, policy: Policy, options: argparse.Namespace
) -> Trial:
    return trial(
        one.questions,
        generator,
        load("verifiable_instructions"),
        truth=one.truth,
        arms=options.arms,
        out=options.out / f"{one.name}-t{temperature:g}",
        draws=options.draws if temperature else 1,
        temperature=temperature,
        seed=options.seed,
        limit=options.limit,
        max_concurrency=options.in_flight,
        on_progress=_Pace(),
        policy=policy,
    )


def _show(name: str, facts: object, found: Trial) -> None:
    attempts = {(row.question, row.draw, row.arm, one.number): one for row in found.rows for one in row.attempts}
    generated = [one for (_, _, arm, number), one in attempts.items() if number > 1 or arm == "first"]
    tokens, seconds = sum(one.output_tokens for one in generated), sum(one.seconds for one in generated)
    echoed = sum(
        row.passed and row.released_attempt is not None and row.released_attempt.kind == "echo"
        for row in found.rows
    )
    print(f"== {name}: {facts}")
    print(found)
    print(f"{len(generated)} answers, {tokens / max(seconds, 1e-9):.1f} tokens a second and request in flight")
    print(f"accepted answers that are echoes: {echoed}\n", flush=True)


class _Pace:
    """Prints how far a trial is, now and then."""

    def __init__(self) -> None:
        self._printed = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() - self._printed >= _EVERY_S:
            self._printed = time.monotonic()
            print(progress, flush=True)


def _sets(options: argparse.Namespace) -> list[QuestionSet]:
    chosen = []
    if options.set in ("short", "both"):
        chosen.append(short_set())
    if options.set in ("ifeval", "both"):
        if options.prompts is None or options.check is None:
            sys.exit(
                "name IFEval's prompts and checker with --prompts and --check, or leave them out with --set short"
            )
        chosen.append(ifeval_set(options.prompts, options.check))
    return chosen


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder of the trials")
    parser.add_argument("--raw", type=Path, default=RAW, help="folder of the raw attempts")
    parser.add_argument("--set", choices=("short", "ifeval", "both"), default="both")
    parser.add_argument("--prompts", type=Path, help="IFEval's prompts.jsonl")
    parser.add_argument("--check", type=Path, help="a module with follows(row, answer), IFEval's own checker")
    parser.add_argument("--model", default="local:smollm2")
    parser.add_argument(
        "--server", help="where --model is served already, as 'openai-compatible:NAME@http://127.0.0.1:8080/v1'"
    )
    parser.add_argument("--arms", default=ARMS)
    parser.add_argument("--draws", type=int, default=3, help="at a temperature above 0")
    parser.add_argument("--temperature", type=float, nargs="+", default=[0.0, 0.7])
    parser.add_argument("--limit", type=int, help="the first N questions only; no raw attempts are written")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--max-attempts", type=int, default=3)
    parser.add_argument("--in-flight", type=int, default=min(4, os.cpu_count() or 2), help="requests at once")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--so-far", action="store_true", help="show what --out holds already, without a model")
    parser.add_argument("--replay", action="store_true", help="derive the figures from the raw attempts")
    parser.add_argument("--write-page", action="store_true", help="with --replay: write docs/benefit.md and .svg")
    return parser


if __name__ == "__main__":
    main()
