"""The command `refine trial`, and what `refine resume` and `refine show` make of the folder of a trial."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from judges import ConfigurationError
from judges.errors import one_line, shortened
from judges.models.providers.openai_settings import names_direct_client
from judges.offline.run.outputs import RESULTS
from refine.cli.judge_specs import load_judge, without_query
from refine.cli.options import FileOptions, GateOptions, ModelOptions, ResumeOptions, ShowOptions, TrialOptions
from refine.cli.runs import read_prices, rows_file, show_progress
from refine.cli.tables import Column, print_table, print_text, text_console
from refine.process import see_modules_here
from refine.trials.manifest import TrialManifest
from refine.trials.results import ANSWERS, Trial, read_trial
from refine.trials.trial import resolve_generator, trial

_OF_ONE_START = ("as_json", "max_calls", "max_cost", "out", "retry_failed")
"""Options that `refine resume` does not take over."""

_AS_THEY_ARE = ("arms", "draws", "temperature", "seed", "baseline", "max_concurrency", "retry_failed")
"""Options that `trial` takes by the same names."""

_MOST_SHOWN = 5
"""How many of the worst questions are printed."""
_LONGEST_SHOWN = 300
"""How many characters of a text are printed."""


def run_trial(options: TrialOptions) -> int:
    """Do what is missing of a trial, print its table, and return the exit code.

    Raises:
        ConfigurationError: If an option is wrong, or the folder holds another trial.
        BadSample: If a question cannot be read.
    """
    see_modules_here()
    judge = load_judge(options.judge, options.asks)
    truth = None if options.truth is None else load_judge(options.truth, options.asks)
    policy: dict[str, Any] = {"max_attempts": options.max_attempts, "success_rating": options.success_rating}
    if options.prices is not None:
        policy["prices"] = read_prices(options.prices)
    if options.out is None:
        sys.stderr.write(f"refine: the trial is written to {options.folder}\n")
    with show_progress() as on_progress:
        result = trial(
            list(islice(rows_file(options.file).rows(), options.file.limit)),
            _generator(options.generator, options.max_tokens),
            judge,
            truth=truth,
            out=options.folder,
            max_arm_calls=options.max_calls,
            max_arm_cost=options.max_cost,
            **{name: getattr(options, name) for name in _AS_THEY_ARE},
            on_progress=on_progress,
            command=_remembered(options),
            policy=policy,
        )
    if not result.rows:
        reasons = "; ".join(sorted(set(result.failed.values()))[:3])
        sys.stderr.write(f"refine: no question could be answered: {reasons}\n")
        return 1
    _print(read_trial(options.folder), options.folder, as_json=options.as_json)
    return 0


def resume_trial(options: ResumeOptions) -> int:
    """Go on with a trial as it was begun, and return the exit code.

    Raises:
        ConfigurationError: If it was begun in Python, an option is not one of trials, or something changed.
    """
    command = TrialManifest.read(options.run).command
    if command is None:
        raise ConfigurationError(
            f"{options.run} was begun by trial(...) in Python; go on there, with out={str(options.run)!r}"
        )
    if options.accept_changes or options.gate != GateOptions():
        raise ConfigurationError(
            "a trial has no gate, and goes on with the questions and judges it began with; leave out "
            "--accept-changes, --fail-under, --baseline and --junit"
        )
    again = _options_in(command)
    file = again.file if options.rows is None else replace(again.file, rows=options.rows)
    asks = again.asks if options.base_url is None else replace(again.asks, base_url=options.base_url)
    return run_trial(
        replace(
            again,
            file=file,
            asks=asks,
            out=str(options.run),
            max_concurrency=options.limits.max_concurrency,
            max_calls=options.limits.max_calls,
            max_cost=options.limits.max_cost,
            retry_failed=options.retry_failed,
            as_json=options.as_json,
        )
    )


def show_trial(options: ShowOptions) -> int:
    """Print the table of a trial, and return the exit code.

    Raises:
        ConfigurationError: If it has not finished, or is to be shown by a column.
    """
    if options.slices:
        raise ConfigurationError("a trial is shown as a whole; leave out --slice")
    _print(read_trial(options.run), options.run, as_json=options.as_json)
    return 0


def _print(result: Trial, folder: Path, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(f"{json.dumps(result.document(), indent=2)}\n")
        return
    print_text(result.headline)
    columns = [Column(name, is_number=place > 0) for place, name in enumerate(result.table_columns)]
    print_table(text_console(), columns, result.table_rows)
    for line in result.remarks:
        print_text(line)
    if result.stopped and TrialManifest.read(folder).command is not None:
        print_text(f"Go on with more: `refine resume {folder}`, with --max-calls or --max-cost or without.")
    for line in _worst(result):
        print_text(line)
    if not result.has_truth or (result.unknown and (folder / ANSWERS).is_file()):
        print_text(f"What is good? First `refine label {folder / ANSWERS}`, then `refine show {folder}`.")


def _worst(result: Trial) -> Iterator[str]:
    """Yield lines about the questions that ended badly."""
    if result.worst:
        yield "\nWorst questions, broken ones first:"
    for one in result.worst[:_MOST_SHOWN]:
        yield f"\n{one.fate} by {', '.join(one.arms)}: {_shown(one.text)}"
        yield f"  first     {_shown(one.first)}"
        if one.feedback:
            yield f"  feedback  {_shown(one.feedback)}"
        yield f"  released  {_shown(one.released) or 'nothing'}"
    more = len(result.worst) - _MOST_SHOWN
    if more > 0:
        yield f"\n{more} more ended badly: `refine report` has some of them, {RESULTS} all."


def _shown(text: str) -> str:
    return one_line(text, longest=_LONGEST_SHOWN)


def _generator(name: str, max_tokens: int | None) -> object:
    """Return the generator that a name means: a model, or an object of a module.

    Raises:
        ConfigurationError: If it means nothing, or takes no limit.
    """
    generator = resolve_generator(_object_of(name))
    if max_tokens is None:
        return generator
    if not hasattr(generator, "bind"):
        raise ConfigurationError(f"--max-tokens is for models; {name} takes none, so set the limit there")
    return generator.bind(max_tokens=max_tokens)


def _object_of(name: str) -> object:
    """Return the object of a module that a name such as `app:bot` means; the name itself where it means none."""
    module, colon, attribute = name.partition(":")
    if names_direct_client(name) or not (colon and attribute.isidentifier()):
        return name
    try:
        is_there = all(part.isidentifier() for part in module.split(".")) and find_spec(module) is not None
    except ModuleNotFoundError:
        is_there = False
    generator: object = getattr(import_module(module), attribute, None) if is_there else None
    # A provider may be called like a package that is installed; a module of the working directory is none.
    is_ours = Path(f"{module}.py").exists() or Path(module, "__init__.py").exists()
    if generator is None and ("." in module or (is_there and is_ours)):
        raise ConfigurationError(f"--generator {shortened(name)}: there is no such object; write module:object")
    return name if generator is None else generator


def _remembered(options: TrialOptions) -> dict[str, Any]:
    """Return the options as JSON values, to go on with; an address without its query, which may hold a key."""
    asks = replace(options.asks, base_url=without_query(options.asks.base_url))
    values = asdict(replace(options, asks=asks))
    values["file"]["rows"] = str(options.file.rows.absolute())
    values["prices"] = None if options.prices is None else str(options.prices.absolute())
    return {name: value for name, value in values.items() if name not in _OF_ONE_START}


def _options_in(command: Mapping[str, Any]) -> TrialOptions:
    """Return the options that a trial was begun with.

    Raises:
        ConfigurationError: If they are those of another version.
    """
    try:
        file = FileOptions(**{**command["file"], "rows": Path(command["file"]["rows"])})
        prices = None if command["prices"] is None else Path(command["prices"])
        others = {name: value for name, value in command.items() if name not in ("asks", "file", "prices")}
        return TrialOptions(file=file, asks=ModelOptions(**command["asks"]), prices=prices, **others)
    except (KeyError, TypeError) as error:
        raise ConfigurationError(
            f"the trial was begun by another version of selfrefine ({error}); repeat the command that began it"
        ) from None
