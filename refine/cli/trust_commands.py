"""The commands on labels of people: `refine align` and `refine certify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from refine.cli.one_line import one_line_errors

Labels = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="Labels, where they are not in the rows.", show_default=False),
]
Alpha = Annotated[float, typer.Option(metavar="SHARE", help="Most bad answers among those released.")]
Delta = Annotated[float, typer.Option(metavar="P", help="Probability that the promise does not hold.")]
Thresholds = Annotated[
    str | None,
    typer.Option(metavar="T,T", help="Thresholds to choose from, fixed before labels are seen.  [default: 4,3,2]"),
]
MaxAttempts = Annotated[
    int | None, typer.Option(metavar="N", help="Most attempts of the loop.  [default: as recorded]")
]
JudgeName = Annotated[
    str | None, typer.Option("--judge", metavar="NAME", help="The judge, where rows have verdicts of several.")
]
Good = Annotated[float, typer.Option(metavar="1-4", help="Least human rating that is good.")]
Split = Annotated[str | None, typer.Option(metavar="NAME", help="Use the labels of this split alone.")]
LedgerFile = Annotated[
    Path | None,
    typer.Option("--ledger", metavar="FILE", help="What labels were used for.  [default: beside the labels]"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Next = Annotated[
    Path | None,
    typer.Option("--next", metavar="FILE", help="New file for the rows to label next, blind to the verdict."),
]
Budget = Annotated[int, typer.Option(metavar="N", help="Most labels that people can give next.")]


def align(
    rows: Annotated[
        str,
        typer.Argument(
            metavar="LABELLED", help="Judged rows with labels: a file, or the folder of a run.", show_default=False
        ),
    ],
    *,
    labels: Labels = None,
    judge: JudgeName = None,
    good: Good = 3,
    drawn: Annotated[
        str,
        typer.Option(metavar="HOW", help="How labelled rows were drawn: random, by-rating, active or elsewhere."),
    ] = "random",
    split: Split = None,
    alpha: Alpha = 0.10,
    delta: Delta = 0.05,
    thresholds: Thresholds = None,
    max_attempts: MaxAttempts = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="New file for the certificate.", show_default=False)
    ] = None,
    next_labels: Next = None,
    budget: Budget = 80,
    ledger: LedgerFile = None,
    full: Annotated[bool, typer.Option("--full", help="Show every figure, with its interval and method.")] = False,
    as_json: AsJson = False,
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
        from refine.cli.aligning import AlignOptions, run_align  # noqa: PLC0415 - loads numpy and the judges

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
    labels: Labels = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File for the certificate.")] = Path(
        "certificate.json"
    ),
    alpha: Alpha = 0.10,
    delta: Delta = 0.05,
    thresholds: Thresholds = None,
    max_attempts: MaxAttempts = None,
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
    judge: JudgeName = None,
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
    good: Good = 3,
    split: Split = None,
    next_labels: Next = None,
    budget: Budget = 80,
    ledger: LedgerFile = None,
    as_json: AsJson = False,
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
        from refine.cli.certifying import CertifyOptions, run_certify  # noqa: PLC0415 - loads numpy and the judges

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
