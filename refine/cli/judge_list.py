"""Judges on the command line: what there is, a beginning for a new one, a draft of one, and its tuning."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from string import Template
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from judges import ConfigurationError, Entry
from judges.catalogue.linting import lint
from judges.catalogue.registry import default_registry, find
from judges.entry import Setting
from judges.errors import one_line, shortened
from judges.offline import learn, tune
from judges.offline.drafting import draft
from judges.offline.trust.rows import read_judged
from judges.offline.tuning.changes import judge_spec
from judges.settings import load_line, settings_of
from refine.cli import options as of
from refine.cli.judge_specs import named_model
from refine.cli.loops import loop_source
from refine.cli.tables import print_json, print_result, text_console
from refine.process import see_modules_here


def _console() -> Console:
    """Return a console as wide as the terminal; of what is piped, as COLUMNS or the terminal around it says."""
    return text_console(shutil.get_terminal_size((_PIPED_WIDTH, 0)).columns)


_PIPED_WIDTH = 80
_NARROW = 120
"""Columns below which the fields of a judge stand below one another instead of in a table."""

_MOST_MATCHES = 3
_LINT = "lint"


def list_judges(options: of.ListOptions) -> int:
    """Print the catalogue as a table, or one of its judges, and return the exit code.

    Raises:
        ConfigurationError: If no judge of the catalogue matches.
    """
    if options.check and (options.name is None or options.words is not None):
        raise ConfigurationError(
            "--check tries one judge: refine judges helpfulness --check --model openai:gpt-5-mini"
        )
    if options.name is None or options.words is not None:
        _print_matches(options)
        return 0
    if options.name == _LINT:
        return _lint(options)
    if options.files:
        raise ConfigurationError(
            f"Got unexpected extra argument ({one_line(options.files[0])}); files are read by `refine judges lint`"
        )
    entry = _find_entry(options.name)
    if options.check:
        from refine.cli.trust import run_try_judge  # noqa: PLC0415 - loads numpy and the judges

        return run_try_judge(of.TryJudgeOptions(judge=options.name, asks=options.asks, as_json=options.as_json))
    if options.as_json:
        print_json(_as_json(entry))
    else:
        _console().print(_card(entry))
    return 0


def _lint(options: of.ListOptions) -> int:
    """Print what is wrong with the wording of judges, a line each, and return the exit code: 1 where anything is.

    Raises:
        ConfigurationError: If there is no file, or one cannot be read.
    """
    if not options.files:
        raise ConfigurationError("lint reads files of judges: refine judges lint judges.toml")
    findings = [finding for file in options.files for finding in lint(file)]
    if options.as_json:
        print_json([asdict(finding) for finding in findings])
        return 1 if findings else 0
    for finding in findings:
        sys.stdout.write(f"{finding}\n")
    files = ", ".join(map(str, options.files))
    sys.stderr.write(f"refine: {len(findings) or 'no'} finding{'' if len(findings) == 1 else 's'} in {files}\n")
    return 1 if findings else 0


def _find_entry(name: str) -> Entry:
    registry = default_registry()
    try:
        return registry.entry(name)
    except ConfigurationError as error:
        matches = [entry.name for entry in find(registry.entries.values(), text=name)] if name.strip() else []
        if len(matches) <= _MOST_MATCHES:
            raise
        command = f"refine judges --find {shlex.quote(one_line(name))}"
        raise ConfigurationError(f"{error}; `{command}` finds {len(matches)}") from error


def _words_of(options: of.ListOptions) -> str | None:
    """Return the words of `--find`; those behind the first, as in `--find tool use`, are read as a name."""
    return (
        None
        if options.words is None
        else " ".join([*options.words, *filter(None, [options.name]), *map(str, options.files)])
    )


def _print_matches(options: of.ListOptions) -> None:
    registry = default_registry()
    for _, fault in registry.faults:
        sys.stderr.write(f"refine: {fault}\n")
    entries = registry.entries.values()
    matches = find(entries, text=_words_of(options), fields=options.fields, subject=options.subject)
    if options.as_json:
        print_json([_as_json(entry) for entry in matches])
        return
    if not matches:
        raise ConfigurationError(f"no judge has {_criteria(options)}; `refine judges` lists all of them")
    console = _console()
    console.print(_stack(matches) if console.width < _NARROW else _catalogue_table(matches))
    count = f"{len(matches)} judge{'s' if len(matches) > 1 else ''}"
    held = " that need no more than these, question and answer" if options.fields is not None else ""
    console.print(Text(f"{count}{held}; refine judges NAME tells more of one", style="dim"))


def _criteria(options: of.ListOptions) -> str:
    words = _words_of(options)
    parts = {
        f"{shortened(words)} in its names, its question, its needs or its tags": words,
        f"the subject {options.subject}": options.subject,
        f"needs within {shortened(options.fields)}": options.fields,
    }
    return " and ".join(text for text, value in parts.items() if value is not None)


def _catalogue_table(entries: Sequence[Entry]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("judge", no_wrap=True, style="cyan")
    table.add_column("asks", ratio=2)
    table.add_column("needs", ratio=1)
    table.add_column("calls", max_width=12)
    for entry in entries:
        table.add_row(entry.name, Text(entry.asks), Text(", ".join(entry.needs)), Text(entry.calls))
    return table


def _stack(entries: Sequence[Entry]) -> Group:
    """Return the judges one below the other, for a terminal too narrow for a table."""
    lines: list[RenderableType] = []
    for entry in entries:
        lines.append(Text(entry.name, style="cyan", overflow="fold"))
        lines.append(Padding(Text(entry.asks), (0, 0, 0, 2)))
        lines.append(
            Padding(Text(f"needs {', '.join(entry.needs)}; calls {entry.calls}", style="dim"), (0, 0, 0, 2))
        )
    return Group(*lines)


def _card(entry: Entry) -> Group:
    settings = settings_of(default_registry().maker(entry.name))
    declared_settings = [setting for setting in settings if not setting.shared]
    facts = _grid(_facts(entry))
    parts: list[RenderableType] = [facts]
    for title, listed in (
        ("settings", declared_settings),
        ("settings that all judges of its kind have", settings[len(declared_settings) :]),
    ):
        if listed:
            parts += [Text(f"\n{title}", style="bold"), _grid(_setting_rows(listed))]
    return Group(*parts)


def _facts(entry: Entry) -> Iterator[tuple[str, str]]:
    facts = {
        "judge": entry.name,
        "also called": ", ".join(entry.aliases),
        "asks": entry.asks,
        "judges": f"the {entry.subject}",
        "needs": ", ".join(entry.needs),
        "model calls": entry.calls,
        "in the loop": entry.in_loop,
        "by pieces": "; ".join(filter(None, ("yes" if entry.judges_parts else "no", entry.parts_reason))),
        "value": f"{entry.scale}; {entry.better} is good",
        "source": entry.source,
        "compat": f"follows {entry.follows}" if entry.follows else "",
        "differs": entry.differs,
        "extra": f"selfrefine[{entry.extra}]" if entry.extra else "",
        "tags": ", ".join(entry.tags),
        "example": load_line(default_registry().maker(entry.name)),
    }
    return ((name, text) for name, text in facts.items() if text)


def _setting_rows(settings: Sequence[Setting]) -> Iterator[tuple[str, str]]:
    for setting in settings:
        default = "required" if setting.required else f"default {setting.default}"
        yield f"  {setting.name}", f"{setting.type}; {default}"
        yield "", setting.meaning
        yield "", f"example: {setting.example}" if setting.example else ""


def _grid(rows: Iterator[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in rows:
        if text:
            grid.add_row(name, Text(text))
    return grid


def _as_json(entry: Entry) -> dict[str, Any]:
    make = default_registry().maker(entry.name)
    settings = settings_of(make)
    return {
        **asdict(entry),
        "in_loop": entry.in_loop,
        "example": load_line(make),
        "settings": [asdict(setting) for setting in settings],
    }


_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")


def write_new_judge(options: of.NewJudgeOptions) -> int:
    """Write the files of a judge, say what to do next, and return the exit code.

    Raises:
        ConfigurationError: If the name cannot be one or is taken, or the folder is there already.
    """
    _check_name(options.name)
    word = options.name.rpartition(".")[2]
    names = {
        "name": options.name,
        "word": word,
        "package": f"{options.name.replace('.', '_')}_judge",
        "kind": "".join(part.capitalize() for part in word.split("_")),
    }
    folder = options.out or Path(options.name.replace(".", "-").replace("_", "-"))
    if folder.exists():
        raise ConfigurationError(f"{str(folder)!r} is there already; choose another --out, or delete it first")
    files = tomllib.loads(Path(__file__).with_name("new_judge.toml").read_text(encoding="utf-8"))
    for name, content in files.items():
        file = folder / Template(name).substitute(names)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(Template(content).substitute(names), encoding="utf-8")
    pack = folder / names["package"] / "packs" / "en" / f"{word}.toml"
    sys.stdout.write(
        f"{folder}: say in {pack} what to judge, then\n"
        f"  pip install -e {folder}\n"
        f"  pytest {folder}\n"
        f"  refine evaluate rows.jsonl --judge {options.name} --model openai:gpt-5-mini\n"
    )
    return 0


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"a judge's name is of small letters, digits and _, such as shop.brevity, not {shortened(name)}"
        )
    judge_names = {one for entry in default_registry().entries.values() for one in (entry.name, *entry.aliases)}
    if name in judge_names:
        raise ConfigurationError(f"there is a judge {name!r} already; `refine judges {name}` shows it")


def run_draft(options: of.DraftOptions) -> int:
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
        with loop_source(options.answers, texts=True) as (rows, _):
            answers = read_judged(rows)
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
    written = (
        f"written to {options.out}, for --judge and judge = ... wherever a judge is named"
        if drafted.kept
        else "no dimension was kept, so that nothing was written; give other answers, or more labels"
    )
    fields = {"file": str(options.out) if drafted.kept else None, **asdict(drafted)}
    print_result(f"{drafted}\n\n{written}", fields, as_json=options.as_json)
    return 0 if drafted.kept else 1


def _system_prompt(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise ConfigurationError(f"--system {file} cannot be read: {reason}; give a text file") from None


def run_tune(options: of.TuneOptions) -> int:
    """Print what came of tuning, and return the exit code: 0, or 1 without a gain.

    Raises:
        ConfigurationError: If labels, judge or an option cannot be used.
    """
    see_modules_here()
    name = options.model or judge_spec(options.judge)[2]
    if name is None:
        raise ConfigurationError("tuning asks a model; add one, e.g. --model openai:gpt-5-mini")
    with loop_source(options.labelled, texts=True) as (rows, record):
        tuning = tune(
            rows,
            options.judge,
            named_model(name, options.base_url),
            labels=options.labels,
            budget=options.budget,
            out=options.out,
            good=options.good,
            seed=options.seed,
            model_name=name if options.base_url is None else None,
            ledger=record,
            max_concurrency=options.max_concurrency,
            on_step=lambda line: sys.stderr.write(f"refine: {line}\n"),
        )
    file = quote(str(options.out / (tuning.file or "report.json")))
    judge = (
        f"the judge stays as it is; {file} has the figures"
        if tuning.file is None
        else f"the tuned judge: {file}, for --judge and judge = ... wherever a judge is named"
    )
    print_result(f"{tuning}\n\n{judge}", tuning.to_dict(), as_json=options.as_json)
    return 0 if tuning.improved else 1


def run_learn(options: of.LearnOptions) -> int:
    """Print what was learned, and return the exit code: 0, or 1 where it decides nothing.

    Raises:
        ConfigurationError: If rows or an option cannot be used.
    """
    with loop_source(options.attempts, texts=True) as (rows, _):
        learning = learn(
            rows,
            judge=options.judge,
            out=options.out,
            agreement=options.agreement,
            delta=options.delta,
            success_rating=options.success_rating,
            vectors=options.vectors,  # type: ignore[arg-type]  # checked there
            seed=options.seed,
        )
    text = f"{learning}\n\nwritten to {options.out}, id {learning.id}"
    print_result(text, learning.to_dict(), as_json=options.as_json)
    return 0 if learning.decides else 1
