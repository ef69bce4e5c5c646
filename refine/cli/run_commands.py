"""The commands around runs: `refine resume`, `rescore`, `merge`, `estimate`, `compare` and `show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refine.cli import run_options as options
from refine.cli.one_line import error_exit, one_line_errors


def resume(
    run: options.RunFolder,
    *,
    retry_failed: options.RetryFailed = False,
    accept_changes: options.AcceptChanges = False,
    rows: options.DatasetMoved = None,
    base_url: options.BaseUrl = None,
    max_concurrency: options.MaxConcurrency = 8,
    processes: options.Processes = 1,
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
    as_json: options.AsJson = False,
) -> None:
    """Go on with a run that was stopped: judge only what is missing.

    Limits are those of this command; the run's earlier ones do not count any more.

    \b
    refine resume runs/1
    refine resume runs/1 --retry-failed --max-cost 5

    Exit code: as of `refine evaluate`.
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors(run):
        from refine.cli import evaluation  # noqa: PLC0415 - loads pydantic, rich and the judges
        from refine.cli.gating import GateOptions  # noqa: PLC0415 - likewise

        resume_options = evaluation.ResumeOptions(
            run=run,
            limits=evaluation.LimitOptions(
                max_concurrency=max_concurrency,
                processes=processes,
                poll_s=poll,
                rate=rate,
                tokens_per_minute=tokens_per_minute,
                max_calls=max_calls,
                max_cost=max_cost,
                prices=prices,
            ),
            rows=rows,
            base_url=base_url,
            retry_failed=retry_failed,
            accept_changes=accept_changes,
            gate=GateOptions(
                fail_under=tuple(fail_under or ()), baseline=baseline, max_unscored=max_unscored, junit=junit
            ),
            as_json=as_json,
        )
        raise typer.Exit(evaluation.run_resume(resume_options))


def rescore(
    run: options.RunFolder,
    *,
    judge: options.Judges,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    language: options.Language = None,
    rows: options.DatasetMoved = None,
    max_concurrency: options.MaxConcurrency = 8,
    rate: options.Rate = None,
    tokens_per_minute: options.TokensPerMinute = None,
    max_calls: options.MaxCalls = None,
    max_cost: options.MaxCost = None,
    prices: options.Prices = None,
    as_json: options.AsJson = False,
) -> None:
    """Add judges to a run, or replace those of the same name; the other verdicts stay.

    Model, server and language are those of the run unless others are given.

    \b
    refine rescore runs/1 --judge length:at_most=80,unit=words

    Exit code: as of `refine evaluate`.
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors(run):
        from refine.cli import evaluation  # noqa: PLC0415 - loads pydantic, rich and the judges

        rescore_options = evaluation.ResumeOptions(
            run=run,
            limits=evaluation.LimitOptions(
                max_concurrency=max_concurrency,
                rate=rate,
                tokens_per_minute=tokens_per_minute,
                max_calls=max_calls,
                max_cost=max_cost,
                prices=prices,
            ),
            rows=rows,
            as_json=as_json,
        )
        added = evaluation.JudgeOptions(judges=tuple(judge), model=model, base_url=base_url, language=language)
        raise typer.Exit(evaluation.run_rescore(rescore_options, added))


def merge(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of all shards of one run.", show_default=False)
    ],
    *,
    out: options.Out,
    rows: options.DatasetMoved = None,
    as_json: options.AsJson = False,
) -> None:
    """Merge the shards of a run into one, as if one process had judged the dataset.

    \b
    refine evaluate rows.jsonl --judge json --shard 1/2 --out runs/1
    refine evaluate rows.jsonl --judge json --shard 2/2 --out runs/2
    refine merge runs/1 runs/2 --out runs/all
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    if not out.strip():
        raise error_exit("--out is empty; name a new folder, e.g. --out runs/all")
    with one_line_errors():
        from refine.cli.evaluation import run_merge  # noqa: PLC0415 - loads pydantic, rich and the judges

        raise typer.Exit(run_merge(tuple(runs), Path(out), rows=rows, as_json=as_json))


def estimate(
    rows: options.Rows,
    *,
    judge: options.Judges,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    language: options.Language = None,
    limit: options.Limit = None,
    prices: options.Prices = None,
    batch: options.Batch = False,
    keep_unreadable: options.KeepUnreadable = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the estimate as JSON instead of a table.")
    ] = False,
) -> None:
    """Say what judging a dataset will take: calls, tokens and a range of cost. No model is asked.

    \b
    refine estimate rows.jsonl --judge faithfulness --model openai:gpt-5-mini
    refine estimate rows.jsonl --judge helpfulness --model openai:gpt-5-mini --prices prices.json
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors():
        from refine.cli import estimation  # noqa: PLC0415 - loads pydantic, rich and the judges
        from refine.cli.evaluation import JudgeOptions  # noqa: PLC0415 - likewise

        estimate_options = estimation.EstimateOptions(
            rows=rows,
            judges=JudgeOptions(judges=tuple(judge), model=model, base_url=base_url, language=language),
            limit=limit,
            prices=prices,
            batch=batch,
            keep_unreadable=keep_unreadable,
            as_json=as_json,
        )
        raise typer.Exit(estimation.run_estimate(estimate_options))


def compare(
    run_a: Annotated[Path, typer.Argument(metavar="RUN_A", help="Folder of the run before.", show_default=False)],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="Folder of the run after.", show_default=False)],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of resamples and sign flips.")] = 0,
) -> None:
    """Say how run B compares with run A over the same questions, and whether that may be chance.

    \b
    refine compare runs/1 runs/2
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors():
        from refine.cli.comparison import run_compare  # noqa: PLC0415 - loads numpy, scipy and the judges

        raise typer.Exit(run_compare(run_a, run_b, as_json=as_json, seed=seed))


def show(
    run: options.RunFolder,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Show the totals of a finished run, and what went wrong in it.

    \b
    refine show runs/1
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors(run):
        from refine.cli.showing import run_show  # noqa: PLC0415 - loads pydantic, rich and the judges

        raise typer.Exit(run_show(run, as_json=as_json))
