"""The commands on recorded loops: `refine replay`, `monitor` and `label`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refine.cli import run_options as options
from refine.cli.one_line import one_line_errors

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="Recorded loops: attempts.jsonl, or the URL of a record, e.g. sqlite:///record.db",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Labels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Labels that `refine label` wrote. Default: those beside SOURCE, if there are any."
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of whatever is drawn.")]


def replay(
    source: Source,
    *,
    labels: Labels = None,
    threshold: Annotated[
        list[int] | None, typer.Option(metavar="1-4", help="Success rating to replay; repeat it for several.")
    ] = None,
    max_attempts: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Most attempts to replay; repeat it for several.")
    ] = None,
    patience: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Patience to replay; repeat it for several.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="DIGEST", help="Loops of this policy. Default: the one with the most loops."),
    ] = None,
    rejudge: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="Judge that judges some attempts again, so that the gain is unbiased: the one that recorded.",
        ),
    ] = None,
    rejudge_fraction: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the refused attempts that are judged again.")
    ] = 0.2,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    language: options.Language = None,
    max_concurrency: options.MaxConcurrency = 8,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Tell what other policies would have made of recorded loops.

    Passes by attempt, gain per attempt, and thresholds, attempts and patience that were not in force.

    \b
    refine replay attempts.jsonl
    refine replay sqlite:///record.db --threshold 4 --max-attempts 2 --max-attempts 3
    refine replay attempts.jsonl --rejudge helpfulness --model openai:gpt-5-mini

    Exit code: 0 told, 1 nothing is identified, 2 bad input.
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors():
        from refine.cli.replaying import ReplayOptions, run_replay  # noqa: PLC0415 - loads numpy and the judges

        replay_options = ReplayOptions(
            source=source,
            labels=labels,
            thresholds=threshold or (),
            max_attempts=max_attempts or (),
            patience=patience or (),
            policy=policy,
            rejudge=rejudge,
            rejudge_fraction=rejudge_fraction,
            model=model,
            base_url=base_url,
            language=language,
            max_concurrency=max_concurrency,
            seed=seed,
            as_json=as_json,
        )
        raise typer.Exit(run_replay(replay_options))


def monitor(
    source: Source,
    *,
    labels: Labels = None,
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The certificate in force: its share of bad answers counts."),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Share of bad answers that is tolerated, 0 to 1.")
    ] = None,
    canary: Annotated[
        Path | None, typer.Option(metavar="ROWS", help="Labelled rows to judge again: at least 50, with ratings.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option(metavar="NAME[:KEY=VALUE,...]", help="The judge in force, for the canary.")
    ] = None,
    success_rating: Annotated[
        int | None, typer.Option(min=1, max=4, metavar="1-4", help="Rating that passes on the canary.")
    ] = None,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    language: options.Language = None,
    max_concurrency: options.MaxConcurrency = 8,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and look again; the canary is judged once.")
    ] = False,
    every: Annotated[float, typer.Option(min=0.1, metavar="S", help="Seconds between two looks.")] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Look whether a loop still does what it was certified to do.

    Labels in the record are audits: an alarm is due when more answers are bad than the certificate tolerates, or
    when the judge, the generator or the policy is not the certified one any more.

    \b
    refine monitor sqlite:///record.db --certificate certificate.json
    refine monitor attempts.jsonl --alpha 0.1 --watch
    refine monitor attempts.jsonl --canary canary.jsonl --judge helpfulness --model openai:gpt-5-mini

    Exit code: 0 no alarm, 1 an alarm, 2 bad input, 3 nothing can raise an alarm: no audits and no canary.
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors():
        from refine.cli.monitoring import MonitorOptions, run_monitor  # noqa: PLC0415 - loads numpy and the judges

        monitor_options = MonitorOptions(
            source=source,
            labels=labels,
            certificate=certificate,
            alpha=alpha,
            canary=canary,
            judge=judge,
            success_rating=success_rating,
            model=model,
            base_url=base_url,
            language=language,
            max_concurrency=max_concurrency,
            watch=watch,
            every=every,
            as_json=as_json,
        )
        raise typer.Exit(run_monitor(monitor_options))


def label(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Answers: attempts.jsonl, the folder of a run, or the URL of a record.",
            show_default=False,
        ),
    ],
    *,
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File of the labels. Default: beside SOURCE; of a record, the record."),
    ] = None,
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who labels. Default: your login.")] = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="certify|report|tune", help="What the labels may be used for: tune never measures."),
    ] = None,
    next_rows: Annotated[
        int | None,
        typer.Option("--next", min=1, metavar="N", help="Only the N answers whose labels are worth most."),
    ] = None,
    seed: Seed = 0,
) -> None:
    """Label answers in the terminal, blind to the verdict.

    They come in random order, one in ten for two people. Keys: 1-4 rating, g good, b bad, n note, s skip, z
    undo, q quit. Every label is saved at once; the same command goes on where you stopped.

    \b
    refine label attempts.jsonl --by ann
    refine label sqlite:///record.db --split certify --next 60
    refine certify attempts.jsonl --labels attempts.labels.jsonl --out certificate.json

    Exit code: 0 labelled, 1 nothing is left to label, 2 bad input.
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors():
        from refine.cli.labelling import LabelOptions, run_label  # noqa: PLC0415 - loads the judges

        label_options = LabelOptions(source=source, labels=labels, by=by, split=split, next=next_rows, seed=seed)
        raise typer.Exit(run_label(label_options))
