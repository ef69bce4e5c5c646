"""The command `refine draft`: dimensions for a judge of one's own, kept where they tell answers apart."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from judges import ConfigurationError
from judges.offline.drafting import Draft, draft
from judges.offline.trust.rows import read_judged
from refine.cli.judge_specs import named_model
from refine.cli.loops import loop_source
from refine.cli.options import DraftOptions
from refine.cli.tables import print_text
from refine.process import see_modules_here


def run_draft(options: DraftOptions) -> int:
    """Write a file of judges and print what came of it; return the exit code: 0, or 1 where nothing was kept.

    Raises:
        ConfigurationError: If an option, the answers or the system prompt cannot be used, or the file is there.
    """
    see_modules_here()
    if options.asks.model is None:
        raise ConfigurationError("drafting asks a model; add one, e.g. --model openai:gpt-5-mini")
    if options.out.exists():
        raise ConfigurationError(f"{options.out} is there already; choose another --out, or delete it first")
    about = "\n\n".join(filter(None, (options.about, _system_prompt(options.system))))
    model = named_model(options.asks.model, options.asks.base_url)
    answers = []
    if options.answers is not None:
        with loop_source(options.answers, texts=True) as source:
            answers = read_judged(source.rows)
    drafted = draft(
        model,
        about,
        answers,
        max_calls=options.max_calls,
        good=options.good,
        language=options.asks.language,
        max_concurrency=options.max_concurrency,
    )
    if drafted.kept:
        asks = options.asks.model if options.asks.base_url is None else None
        options.out.write_text(drafted.to_toml(name=options.name, model=asks), encoding="utf-8")
    _print(drafted, options)
    return 0 if drafted.kept else 1


def _system_prompt(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise ConfigurationError(f"--system {file} cannot be read: {reason}; give a text file") from None


def _print(drafted: Draft, options: DraftOptions) -> None:
    if options.as_json:
        fields = {"file": str(options.out) if drafted.kept else None, **asdict(drafted)}
        sys.stdout.write(f"{json.dumps(fields, ensure_ascii=False, indent=2, default=dict)}\n")
        return
    print_text(str(drafted))
    if drafted.kept:
        print_text(f"\nwritten to {options.out}, for --judge and judge = ... wherever a judge is named")
    else:
        print_text("\nno dimension was kept, so that nothing was written; give other answers, or more labels")
