"""The commands around runs: `refine resume`, `rescore`, `merge`, `estimate`, `compare`, `show` and `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refine.cli import options
from refine.cli.options import error_exit, one_line_errors


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
        from refine.cli import runs  # noqa: PLC0415 - loads pydantic, rich and the judges
        from refine.cli.runs import GateOptions  # noqa: PLC0415 - likewise

        resume_options = runs.ResumeOptions(
            run=run,
            limits=runs.LimitOptions(
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
        raise typer.Exit(runs.run_resume(resume_options))


def rescore(
    run: options.RunFolder,
    *,
    judge: options.Judges,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    language: options.Language = None,
    rows: options.DatasetMoved = None,
    max_concurrency: options.MaxConcurrency = 8,
    processes: options.Processes = 1,
    poll: options.Poll = 60.0,
    rate: options.Rate = None,
    tokens_per_minute: options.TokensPerMinute = None,
    max_calls: options.MaxCalls = None,
    max_cost: options.MaxCost = None,
    prices: options.Prices = None,
    as_json: options.AsJson = False,
) -> None:
    """Add judges to a run, or replace those of the same name.

    The other verdicts stay. Model, server and language are those of the run unless others are given.

    \b
    refine rescore runs/1 --judge length:at_most=80,unit=words

    Exit code: as of `refine evaluate`.
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors(run):
        from refine.cli import runs  # noqa: PLC0415 - loads pydantic, rich and the judges

        rescore_options = runs.ResumeOptions(
            run=run,
            limits=runs.LimitOptions(
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
            as_json=as_json,
        )
        added = runs.JudgeOptions(judges=tuple(judge), model=model, base_url=base_url, language=language)
        raise typer.Exit(runs.run_rescore(rescore_options, added))


def merge(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of all shards of one run.", show_default=False)
    ],
    *,
    out: options.Out,
    rows: options.DatasetMoved = None,
    as_json: options.AsJson = False,
) -> None:
    """Merge the shards of a run into one.

    The files are those of one process that judged the whole dataset.

    \b
    refine evaluate rows.jsonl --judge json --shard 1/2 --out runs/1
    refine evaluate rows.jsonl --judge json --shard 2/2 --out runs/2
    refine merge runs/1 runs/2 --out runs/all
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    if not out.strip():
        raise error_exit("--out is empty; name a new folder, e.g. --out runs/all")
    with one_line_errors():
        from refine.cli.runs import run_merge  # noqa: PLC0415 - loads pydantic, rich and the judges

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
    column_map: options.Map = None,
    encoding: options.Encoding = "utf-8",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the estimate as JSON instead of a table.")
    ] = False,
) -> None:
    """Say what judging a dataset will take and cost.

    Calls, tokens and a range of cost; no model is asked.

    \b
    refine estimate rows.jsonl --judge faithfulness --model openai:gpt-5-mini
    refine estimate rows.jsonl --judge helpfulness --model openai:gpt-5-mini --prices prices.json
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors():
        from refine.cli import compare  # noqa: PLC0415 - loads pydantic, rich and the judges
        from refine.cli.runs import JudgeOptions, rows_file  # noqa: PLC0415 - likewise

        estimate_options = compare.EstimateOptions(
            rows=rows_file(rows, columns=column_map, encoding=encoding),
            judges=JudgeOptions(judges=tuple(judge), model=model, base_url=base_url, language=language),
            limit=limit,
            prices=prices,
            batch=batch,
            keep_unreadable=keep_unreadable,
            as_json=as_json,
        )
        raise typer.Exit(compare.run_estimate(estimate_options))


def compare(
    run_a: Annotated[Path, typer.Argument(metavar="RUN_A", help="Folder of the run before.", show_default=False)],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="Folder of the run after.", show_default=False)],
    *,
    judge: Annotated[
        str | None, typer.Option(metavar="NAME", help="Compare answers by this judge, each pair in both orders.")
    ] = None,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    language: options.Language = None,
    max_concurrency: options.MaxConcurrency = 8,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
    seed: options.Seed = 0,
) -> None:
    """Say whether run B is better than run A by more than chance.

    Over the same questions. By the scores that both runs have; or, with --judge, by showing a judge both
    answers to each question.

    \b
    refine compare runs/1 runs/2
    refine compare runs/1 runs/2 --judge pairwise --model openai:gpt-5-mini
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors():
        from refine.cli import compare  # noqa: PLC0415 - loads numpy, scipy and the judges

        if judge is None:
            if model or base_url or language:
                raise error_exit("--model, --base-url and --language are of a judge: add --judge pairwise")
            raise typer.Exit(compare.run_compare(run_a, run_b, as_json=as_json, seed=seed))
        pair_options = compare.PairOptions(
            judge=judge,
            model=model,
            base_url=base_url,
            language=language,
            max_concurrency=max_concurrency,
            as_json=as_json,
            seed=seed,
        )
        raise typer.Exit(compare.run_compare_answers(run_a, run_b, pair_options))


def show(
    run: options.RunFolder,
    *,
    slices: options.Slices = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Show the totals of a finished run, and what went wrong in it.

    \b
    refine show runs/1
    refine show runs/1 --slice topic
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors(run):
        from refine.cli.runs import run_show  # noqa: PLC0415 - loads pydantic, rich and the judges

        raise typer.Exit(run_show(run, slices=tuple(slices or ()), as_json=as_json))


def report(
    run: options.RunFolder,
    run_2: Annotated[
        Path | None,
        typer.Argument(metavar="RUN2", help="A later run, to be compared with RUN.", show_default=False),
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A .html, .md or .csv file; - is stdout. Default: report.html in the run."
        ),
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", metavar="html|md|csv", help="Default: as --out ends, or html.")
    ] = None,
    slices: options.Slices = None,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What people say of the answers, for sections on trust.")
    ] = None,
    attempts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Recorded attempts, for what another attempt brings.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate that `refine certify` wrote.")
    ] = None,
    seed: options.Seed = 0,
) -> None:
    """Write a report of a finished run, or of two side by side.

    It is one file that opens without a network.

    \b
    refine report runs/1
    refine report runs/1 runs/2 --slice topic --out report.html
    refine report runs/1 --out report.md
    refine report runs/1 --labels labels.jsonl --attempts attempts.jsonl

    It shows each judge's figures with their intervals, groups, the worst rows with reasons, and all rows; with
    labels, attempts or a certificate, also how far the verdicts can be believed.
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors(run):
        from refine.cli.reporting import ReportOptions, run_report  # noqa: PLC0415 - loads pydantic and the judges
        from refine.report.view import TrustSources  # noqa: PLC0415 - likewise

        report_options = ReportOptions(
            runs=(run,) if run_2 is None else (run, run_2),
            out=out,
            format=form,
            slices=tuple(slices or ()),
            sources=TrustSources(labels=labels, attempts=attempts, certificate=certificate),
            seed=seed,
        )
        raise typer.Exit(run_report(report_options))


def plan(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN", help="Finished runs to learn the spread of scores from."),
    ] = None,
    *,
    points: Annotated[float, typer.Option(metavar="N", help="The change to be found, in points of 100.")] = 3.0,
    discordance: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="Without runs: share of questions with another verdict."),
    ] = None,
    sd: Annotated[
        float | None,
        typer.Option(min=0, metavar="NUMBER", help="Without runs: standard deviation of the scores' difference."),
    ] = None,
    power: Annotated[float, typer.Option(metavar="SHARE", help="Probability of finding the change.")] = 0.8,
    alpha: Annotated[float, typer.Option(metavar="SHARE", help="Level of the test.")] = 0.05,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Say how many questions a comparison of two systems needs.

    \b
    refine plan runs/1 runs/2
    refine plan --points 3 --discordance 0.2
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors():
        from refine.cli.compare import PlanOptions, run_plan  # noqa: PLC0415 - loads pydantic and the judges

        plan_options = PlanOptions(
            runs=tuple(runs or ()),
            points=points,
            discordance=discordance,
            sd=sd,
            power=power,
            alpha=alpha,
            as_json=as_json,
        )
        raise typer.Exit(run_plan(plan_options))
