"""The commands `refine tune` and `learn`: a judge that says what people say, and a cheap level before it."""

from __future__ import annotations

import json
import sys
from shlex import quote

from judges import ConfigurationError
from judges.offline import learn, tune
from judges.offline.tuning.changes import judge_spec
from refine.cli.judge_specs import named_model
from refine.cli.loops import loop_source
from refine.cli.options import LearnOptions, TuneOptions
from refine.cli.tables import print_text
from refine.process import see_modules_here


def run_tune(options: TuneOptions) -> int:
    """Print what came of tuning, and return the exit code: 0, or 1 without a gain.

    Raises:
        ConfigurationError: If labels, judge or an option cannot be used.
    """
    see_modules_here()
    name = options.model or judge_spec(options.judge)[2]
    if name is None:
        raise ConfigurationError("tuning asks a model; add one, e.g. --model openai:gpt-5-mini")
    with loop_source(options.labelled, texts=True) as source:
        tuning = tune(
            source.rows,
            options.judge,
            named_model(name, options.base_url),
            labels=options.labels,
            budget=options.budget,
            out=options.out,
            good=options.good,
            seed=options.seed,
            model_name=name if options.base_url is None else None,
            ledger=source.ledger,
            max_concurrency=options.max_concurrency,
            on_step=lambda line: sys.stderr.write(f"refine: {line}\n"),
        )
    if options.as_json:
        sys.stdout.write(f"{json.dumps(tuning.to_dict(), ensure_ascii=False, indent=2)}\n")
        return 0 if tuning.improved else 1
    print_text(str(tuning))
    if tuning.file is not None:
        file = quote(str(options.out / tuning.file))
        print_text(f"\nthe tuned judge: {file}, for --judge and judge = ... wherever a judge is named")
    else:
        print_text(f"\nthe judge stays as it is; {quote(str(options.out / 'report.json'))} has the figures")
    return 0 if tuning.improved else 1


def run_learn(options: LearnOptions) -> int:
    """Print what was learned, and return the exit code: 0, or 1 where it decides nothing.

    Raises:
        ConfigurationError: If rows or an option cannot be used.
    """
    with loop_source(options.attempts, texts=True) as source:
        learning = learn(
            source.rows,
            judge=options.judge,
            out=options.out,
            agreement=options.agreement,
            delta=options.delta,
            success_rating=options.success_rating,
            vectors=options.vectors,  # type: ignore[arg-type]  # checked there
            seed=options.seed,
        )
    if options.as_json:
        sys.stdout.write(f"{json.dumps(learning.to_dict(), ensure_ascii=False, indent=2)}\n")
    else:
        print_text(f"{learning}\n\nwritten to {options.out}, id {learning.id}")
    return 0 if learning.decides else 1
