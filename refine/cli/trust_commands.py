"""The commands on labels of people: `refine align` and `refine certify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refine.cli import options
from refine.cli.options import one_line_errors

_Labels = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="Labels, where they are not in the rows.", show_default=False),
]
_Alpha = Annotated[float, typer.Option(metavar="SHARE", help="Most bad answers among those released.")]
_Delta = Annotated[float, typer.Option(metavar="P", help="Probability that the promise does not hold.")]
_Thresholds = Annotated[
    str | None,
    typer.Option(metavar="T,T", help="Thresholds to choose from, fixed before labels are seen.  [default: 4,3,2]"),
]
_MaxAttempts = Annotated[
    int | None, typer.Option(metavar="N", help="Most attempts of the loop.  [default: as recorded]")
]
_JudgeName = Annotated[
    str | None, typer.Option("--judge", metavar="NAME", help="The judge, where rows have verdicts of several.")
]
_Good = Annotated[float, typer.Option(metavar="1-4", help="Least human rating that is good.")]
_Split = Annotated[str | None, typer.Option(metavar="NAME", help="Use the labels of this split alone.")]
_LedgerFile = Annotated[
    Path | None,
    typer.Option("--ledger", metavar="FILE", help="What labels were used for.  [default: beside the labels]"),
]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
_Next = Annotated[
    Path | None,
    typer.Option("--next", metavar="FILE", help="New file for the rows to label next, blind to the verdict."),
]
_Budget = Annotated[int, typer.Option(metavar="N", help="Most labels that people can give next.")]


def align(
    rows: Annotated[
        str,
        typer.Argument(
            metavar="LABELLED", help="Judged rows with labels: a file, or the folder of a run.", show_default=False
        ),
    ],
    *,
    labels: _Labels = None,
    judge: _JudgeName = None,
    good: _Good = 3,
    drawn: Annotated[
        str,
        typer.Option(metavar="HOW", help="How labelled rows were drawn: random, by-rating, active or elsewhere."),
    ] = "random",
    split: _Split = None,
    alpha: _Alpha = 0.10,
    delta: _Delta = 0.05,
    thresholds: _Thresholds = None,
    max_attempts: _MaxAttempts = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="New file for the certificate.", show_default=False)
    ] = None,
    next_labels: _Next = None,
    budget: _Budget = 80,
    ledger: _LedgerFile = None,
    full: Annotated[bool, typer.Option("--full", help="Show every figure, with its interval and method.")] = False,
    as_json: _AsJson = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of resamples and draws.")] = 0,
) -> None:
    """Say how far a judge's verdicts agree with labels of people.

    A row holds what the judge said, {"rating": 3} or {"score": 0.8}, and what people say,
    {"labels": [{"by": "ann", "rating": 4}, {"by": "bob", "rating": 3}], "split": "certify"}.

    \b
    refine align labelled.jsonl
    refine align runs/1 --labels labels.jsonl --full
    refine align labelled.jsonl --certificate certificate.json --next to-label.jsonl

    Exit code: 0 told, 2 bad input.
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors():
        from refine.cli.trust import AlignOptions, run_align  # noqa: PLC0415 - loads numpy and the judges

        align_options = AlignOptions(
            rows=rows,
            labels=labels,
            judge=judge,
            good=good,
            drawn=drawn,
            split=split,
            alpha=alpha,
            delta=delta,
            thresholds=thresholds,
            max_attempts=max_attempts,
            certificate=certificate,
            next_labels=next_labels,
            budget=budget,
            ledger=ledger,
            full=full,
            as_json=as_json,
            seed=seed,
        )
        raise typer.Exit(run_align(align_options))


def certify(
    attempts: Annotated[
        str,
        typer.Argument(
            metavar="ATTEMPTS",
            help="Recorded loops: attempts.jsonl, or the URL of a record, e.g. sqlite:///record.db",
            show_default=False,
        ),
    ],
    *,
    labels: _Labels = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File for the certificate.")] = Path(
        "certificate.json"
    ),
    alpha: _Alpha = 0.10,
    delta: _Delta = 0.05,
    thresholds: _Thresholds = None,
    max_attempts: _MaxAttempts = None,
    patience: Annotated[
        int | None, typer.Option(metavar="N", help="Patience of the loop.  [default: as recorded]")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="sequence; fallback, if higher ratings are not better; anytime, to look as labels come in; "
            "weighted, for rows with weights, several runs a question or graded harm.",
        ),
    ] = "sequence",
    harm: Annotated[
        str | None,
        typer.Option(metavar="H,H,H,H", help="Harm of answers rated 1 to 4, each 0 to 1, for --method weighted."),
    ] = None,
    largest_weight: Annotated[
        float | None,
        typer.Option(metavar="W", help="Most that a question weighs, fixed beforehand, for --method weighted."),
    ] = None,
    per_question: Annotated[
        bool, typer.Option("--per-question", help="Bound bad answers among all questions, not among releases.")
    ] = False,
    scores: Annotated[bool, typer.Option("--scores", help="Certify a score, not a rating.")] = False,
    judge: _JudgeName = None,
    escalation: Annotated[
        str | None,
        typer.Option(metavar="JUDGE,JUDGE", help="Judges from cheap to strong; people decide what they do not."),
    ] = None,
    chain: Annotated[
        str | None,
        typer.Option(metavar="T,T;T,T", help="Escalation policies, strict to lax.  [default: 5,4;4,4;4,3;3,3]"),
    ] = None,
    assume_independent_attempts: Annotated[
        bool,
        typer.Option("--assume-independent-attempts", help="Labels are of single answers; a weaker certificate."),
    ] = False,
    loops: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Loops without labels, which make that one less weak.")
    ] = None,
    unlabelled: Annotated[
        str | None,
        typer.Option(
            metavar="HOW", help="Runs without a label: bad, or left-out if the others are a random sample."
        ),
    ] = None,
    good: _Good = 3,
    split: _Split = None,
    next_labels: _Next = None,
    budget: _Budget = 80,
    ledger: _LedgerFile = None,
    as_json: _AsJson = False,
) -> None:
    """Certify the success rating of a loop.

    Of the answers that pass, at most a share of --alpha is bad, with confidence 1 - --delta. Record the loop
    with success_rating=4 and the number of attempts that is deployed, and have people label what would be
    released, blind to the rating. SelfRefine(..., certificate="certificate.json") then sets the success
    rating, and refuses a certificate of another loop. That nothing is certified is an answer, too.

    \b
    refine certify attempts.jsonl --next to-label.jsonl
    refine certify attempts.jsonl --labels to-label.jsonl --alpha 0.1
    refine certify attempts.jsonl --labels to-label.jsonl --method anytime

    Exit code: 0 certified, 1 nothing is certified, 2 bad input.
    """  # noqa: D301 - typer reads a backspace as "keep these lines as they are"
    with one_line_errors():
        from refine.cli.trust import CertifyOptions, run_certify  # noqa: PLC0415 - loads numpy and the judges

        certify_options = CertifyOptions(
            attempts=attempts,
            labels=labels,
            out=out,
            alpha=alpha,
            delta=delta,
            thresholds=thresholds,
            max_attempts=max_attempts,
            patience=patience,
            method=method,
            harm=harm,
            largest_weight=largest_weight,
            per_question=per_question,
            scores=scores,
            judge=judge,
            escalation=escalation,
            chain=chain,
            assume_independent_attempts=assume_independent_attempts,
            loops=loops,
            unlabelled=unlabelled,
            good=good,
            split=split,
            next_labels=next_labels,
            budget=budget,
            ledger=ledger,
            as_json=as_json,
        )
        raise typer.Exit(run_certify(certify_options))


_Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="Recorded loops: attempts.jsonl, or the URL of a record, e.g. sqlite:///record.db",
        show_default=False,
    ),
]
_LoopsAsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
_LoopLabels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Labels that `refine label` wrote. Default: those beside SOURCE, if there are any."
    ),
]
_Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of whatever is drawn.")]


def replay(
    source: _Source,
    *,
    labels: _LoopLabels = None,
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
    seed: _Seed = 0,
    as_json: _LoopsAsJson = False,
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
        from refine.cli.loops import ReplayOptions, run_replay  # noqa: PLC0415 - loads numpy and the judges

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
    source: _Source,
    *,
    labels: _LoopLabels = None,
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
    as_json: _LoopsAsJson = False,
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
        from refine.cli.loops import MonitorOptions, run_monitor  # noqa: PLC0415 - loads numpy and the judges

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
    seed: _Seed = 0,
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
        from refine.cli.label import LabelOptions, run_label  # noqa: PLC0415 - loads the judges

        label_options = LabelOptions(source=source, labels=labels, by=by, split=split, next=next_rows, seed=seed)
        raise typer.Exit(run_label(label_options))
