"""The commands and their options; their implementations are imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refine.cli import options, run_commands, trust_commands
from refine.cli.options import OneLineErrors, error_exit, one_line_errors

app = typer.Typer(
    name="refine",
    cls=OneLineErrors,
    help="Judge answers of a chat application: offline, or before anyone sees them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in plain text needs no rich, and brackets in it mean nothing
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer passes an option's value by position
    if value:
        typer.echo(f"refine {_version()}")
        raise typer.Exit


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - only here

    try:
        return version("selfrefine")
    except PackageNotFoundError:
        return "(not installed, run from its source)"


@app.callback()
def refine(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Judge answers of a chat application: offline, or before anyone sees them."""


@app.command(no_args_is_help=True)
def evaluate(
    rows: options.Rows,
    *,
    judge: options.Judges,
    out: options.Out,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    language: options.Language = None,
    max_concurrency: options.MaxConcurrency = 8,
    limit: options.Limit = None,
    shard: options.Shard = None,
    keep_unreadable: options.KeepUnreadable = False,
    column_map: options.Map = None,
    encoding: options.Encoding = "utf-8",
    processes: options.Processes = 1,
    batch: options.Batch = False,
    poll: options.Poll = 60.0,
    rate: options.Rate = None,
    tokens_per_minute: options.TokensPerMinute = None,
    max_calls: options.MaxCalls = None,
    max_cost: options.MaxCost = None,
    prices: options.Prices = None,
    fail_under: options.FailUnder = None,
    baseline: options.Baseline = None,
    max_unscored: options.MaxUnscored = 0.1,
    junit: options.Junit = None,
    slices: options.Slices = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge every row of a dataset.

    A row holds what was asked and what was answered, {"question": ..., "answer": ...}, and whatever else there
    is: contexts, reference, messages, ...

    \b
    refine evaluate rows.jsonl --judge helpfulness --model openai:gpt-5-mini --out runs/1
    refine evaluate rows.jsonl --judge length:at_most=80,unit=words --judge json --out runs/2
    refine evaluate rows.csv --judge 'pattern:name=humble,forbidden="as an AI"' --out runs/3

    Settings are those of the judge's class; a value is read as JSON where it is JSON, else as text. Two judges
    of one kind need a name=... each.

    Every call and verdict is in the run's journal: what stops it, `refine resume RUN` goes on where it was.

    Exit code: 0 judged and good enough, 1 below --fail-under, worse than --baseline, or nothing could be scored,
    2 bad input, 3 stopped at --max-calls or --max-cost, or more than --max-unscored could not be judged.
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    if not out.strip():
        raise error_exit("--out is empty; name a new folder, e.g. --out runs/1")
    with one_line_errors(Path(out)):
        from refine.cli import runs, tables  # noqa: PLC0415 - loads pydantic, rich and the judges
        from refine.cli.runs import GateOptions  # noqa: PLC0415 - likewise

        if as_json:
            tables.refuse_json(slices or (), Path(out))
        tables.check_columns(rows, slices or (), limit)
        evaluate_options = runs.EvaluateOptions(
            rows=runs.rows_file(rows, columns=column_map, encoding=encoding),
            judges=runs.JudgeOptions(judges=tuple(judge), model=model, base_url=base_url, language=language),
            out=Path(out),
            limits=runs.LimitOptions(
                max_concurrency=max_concurrency,
                processes=processes,
                batch=batch,
                poll_s=poll,
                rate=rate,
                tokens_per_minute=tokens_per_minute,
                max_calls=max_calls,
                max_cost=max_cost,
                prices=prices,
            ),
            limit=limit,
            shard=shard,
            keep_unreadable=keep_unreadable,
            gate=GateOptions(
                fail_under=tuple(fail_under or ()), baseline=baseline, max_unscored=max_unscored, junit=junit
            ),
            as_json=as_json,
        )
        code = runs.run_evaluate(evaluate_options)
        tables.show_slices_of(Path(out), slices or ())
        raise typer.Exit(code)


@app.command()
def judges(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Tell all about this one.", show_default=False)
    ] = None,
    *,
    words: Annotated[
        list[str] | None,
        typer.Option(
            "--find", metavar="WORD", help="List those with this in names, question, needs or tags; several: all."
        ),
    ] = None,
    fields: Annotated[
        str | None,
        typer.Option(
            "--needs", metavar="FIELDS", help="List those that need no more than these, question and answer."
        ),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(metavar="SUBJECT", help="List those of the answer, retriever, agent or conversation."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: all that is known of each.")] = False,
) -> None:
    """List the judges there are, or tell all about one.

    \b
    refine judges
    refine judges --find hallucination
    refine judges --needs contexts,reference --subject answer
    refine judges ragas.faithfulness
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors():
        from refine.cli.tables import Choice, show_catalogue  # noqa: PLC0415 - loads pydantic, rich and the judges

        if words is not None and name is not None:  # `--find tool use`, without quotes
            words, name = [*words, name], None
        text = None if words is None else " ".join(words)
        show_catalogue(Choice(name=name, words=text, fields=fields, subject=subject, as_json=as_json))


@app.command(no_args_is_help=True)
def export(
    record: Annotated[
        str,
        typer.Argument(
            metavar="RECORD", help="The record: sqlite:///file.db or postgresql://...", show_default=False
        ),
    ],
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="ROWS", help="New file of JSON lines. Default: standard output.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Only these outcomes; repeat it to narrow the choice.", show_default=False
        ),
    ] = None,
) -> None:
    """Write recorded attempts as a dataset, one sample a line.

    \b
    refine export sqlite:///record.db --out rows.jsonl
    refine export sqlite:///record.db --where passed=false --where since=7d --out rows.jsonl
    refine evaluate rows.jsonl --judge helpfulness --model openai:gpt-5-mini --out runs/1

    Keys: passed, rating, stop_reason, refiner, model, judge, text, labelled (no, yes, disagree), since, until.
    A time is a date, 2026-11-22, or a time ago, 24h. The metadata of a row holds ids, rating and labels.

    Exit code: 0 written, 1 nothing to write, 2 bad input.
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors():
        from refine.cli.loops import run_export  # noqa: PLC0415 - loads pydantic and SQLAlchemy

        raise typer.Exit(run_export(record, out=out, where=tuple(where or ())))


@app.command()
def serve(
    *,
    upstream: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Address of the model's API. E.g. https://api.openai.com/v1"),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Judge by name, module:object of your own, or a judges.toml."),
    ] = None,
    judge_base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="OpenAI-compatible server of the judge's model.")
    ] = None,
    judge_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The judge's model there, or PROVIDER:NAME.")
    ] = None,
    success_rating: Annotated[
        int | None, typer.Option(metavar="1-4", help="Rating at which an answer is accepted. Default: 3")
    ] = None,
    max_attempts: Annotated[
        int | None, typer.Option(metavar="N", help="Most answers generated for one question. Default: 3")
    ] = None,
    host: Annotated[str | None, typer.Option(metavar="HOST", help="Listen here. Default: 127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(metavar="N", help="Port to listen at; 0: any. Default: 8000")] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file with these and all other settings.")
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Where outcomes are recorded: a file, or a database. Default: refine-record.db"
        ),
    ] = None,
    no_record: Annotated[bool, typer.Option("--no-record", help="Record nothing, so there is no page.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check the settings, say what they mean, and end.")
    ] = False,
) -> None:
    """Guard a chatbot: serve answers that are judged beforehand.

    It stands in front of any OpenAI-compatible server and speaks as that does. Point the base URL of any
    client at it. A flag wins over the environment (REFINE_UPSTREAM, ...), and that over the file.

    \b
    refine serve --upstream https://api.openai.com/v1 --judge helpfulness --judge-model openai:gpt-5-mini
    refine serve --config refine.toml --check

    Exit code: 2 wrong settings.
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    flags = {
        "upstream": upstream,
        "judge": judge,
        "judge_base_url": judge_base_url,
        "judge_model": judge_model,
        "success_rating": success_rating,
        "max_attempts": max_attempts,
        "host": host,
        "port": port,
        "record": False if no_record else record,
    }
    if no_record and record is not None:
        raise error_exit(f"--no-record and --record {record} exclude each other; leave one out")
    with one_line_errors():
        _require_server()
        from refine.server import running  # noqa: PLC0415 - loads the server and all it needs

        running.serve(config, flags, check=check)


@app.command()
def key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is called in limits and logs.")],
) -> None:
    """Make a key for `refine serve`.

    It is shown once, and the file gets its hash.
    """
    with one_line_errors():
        _require_server()
        from refine.server.access import describe_new_key  # noqa: PLC0415 - as above

        key_line, table = describe_new_key(name)
        typer.echo(f"{key_line}\n", err=True)
        typer.echo(table)


def _require_server() -> None:
    from importlib.util import find_spec  # noqa: PLC0415 - only here

    needed = ("aiohttp", "prometheus_client", "pydantic_settings", "starlette", "uvicorn")
    missing = [package for package in needed if find_spec(package) is None]
    if missing:
        raise error_exit(f"{', '.join(missing)} missing; install the extra: selfrefine[server]")


app.command(no_args_is_help=True)(trust_commands.align)
app.command(no_args_is_help=True)(trust_commands.certify)
app.command(no_args_is_help=True)(trust_commands.replay)
app.command(no_args_is_help=True)(trust_commands.monitor)
app.command(no_args_is_help=True)(trust_commands.label)
app.command(no_args_is_help=True)(run_commands.resume)
app.command(no_args_is_help=True)(run_commands.rescore)
app.command(no_args_is_help=True)(run_commands.merge)
app.command(no_args_is_help=True)(run_commands.estimate)
app.command(no_args_is_help=True)(run_commands.plan)
app.command(no_args_is_help=True)(run_commands.report)
app.command(no_args_is_help=True)(run_commands.compare)
app.command(no_args_is_help=True)(run_commands.show)
