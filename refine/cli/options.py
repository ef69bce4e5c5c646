"""The options of the commands, each written once: the command line reads them, and the command runs on them.

A command has a frozen class of options. Its fields are what may be written on the command line: name, type, range
and default as in Python, and in `Annotated` what `--help` says. A field that is itself such a class stands for its
options, so that several commands share them. Only typer is loaded for this module.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cached_property
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

_RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.", show_default=False)]
_Rows = Annotated[
    Path,
    typer.Argument(
        metavar="ROWS",
        help="Dataset: .jsonl (one object per line), .json, .csv or .tsv with a header, or .parquet.",
        show_default=False,
    ),
]
_Loops = Annotated[
    str,
    typer.Argument(
        metavar="LOOPS",
        help="Recorded loops: attempts.jsonl, or the URL of a record, e.g. sqlite:///record.db",
        show_default=False,
    ),
]
_MovedRows = Annotated[
    Path | None, typer.Option("--rows", metavar="ROWS", help="Where the dataset is now, if it was moved.")
]
_Limit = Annotated[int | None, typer.Option(min=1, metavar="N", help="Judge the first N rows only.")]
_KeepUnreadable = Annotated[
    bool, typer.Option("--keep-unreadable", help="Keep rows that cannot be read, unscored, instead of stopping.")
]
_Slices = Annotated[
    list[str],
    typer.Option("--slice", metavar="COLUMN", help="Also by the values of this column of the rows. Repeatable."),
]
_MaxConcurrency = Annotated[int, typer.Option(min=1, metavar="N", help="Model calls in flight at once.")]
_Prices = Annotated[
    Path | None, typer.Option(metavar="FILE", help='Prices a million tokens: {"NAME": {"input": 1, "output": 2}}')
]
_Batch = Annotated[
    bool,
    typer.Option("--batch", help="Send calls by the provider's batch endpoint: half the price, within a day."),
]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
_Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of resamples and draws.")]


def _judge_names(typed: str) -> list[str]:
    """Return the judges whose names begin as typed, for completion in a shell."""
    from judges.catalogue.registry import default_registry  # noqa: PLC0415 - loads pydantic and the judges

    names = (name for entry in default_registry().entries.values() for name in (entry.name, *entry.aliases))
    return sorted(name for name in names if name.startswith(typed))


_OPTIONS = TypeVar("_OPTIONS")


def parameters_of(options: type) -> Iterator[Parameter]:
    """Yield the parameters of a command with these options, as typer reads them."""
    hints = get_type_hints(options, include_extras=True)
    for one in fields(options):
        if is_dataclass(hints[one.name]):
            yield from parameters_of(hints[one.name])
            continue
        default = one.default if one.default_factory is MISSING else one.default_factory()
        yield Parameter(
            one.name,
            Parameter.KEYWORD_ONLY,
            annotation=hints[one.name],
            default=Parameter.empty if default is MISSING else default,
        )


def options_from(options: type[_OPTIONS], values: Mapping[str, Any]) -> _OPTIONS:
    """Return the options of a command with the values that typer read, by name."""
    hints = get_type_hints(options)
    read = {
        one.name: options_from(hints[one.name], values) if is_dataclass(hints[one.name]) else values[one.name]
        for one in fields(options)  # type: ignore[arg-type]  # a class of options is a dataclass
    }
    return options(**read)


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """What all classes of options have."""

    @property
    def resumable(self) -> Path | None:
        """The folder of a run with which `refine resume` may be able to go on after an error."""
        return None


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """What judges ask."""

    model: Annotated[
        str | None, typer.Option(metavar="PROVIDER:NAME", help="Model that the judges ask. E.g. openai:gpt-5-mini")
    ] = None
    base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="OpenAI-compatible server of the model. E.g. http://localhost:8000/v1"),
    ] = None
    language: Annotated[
        str | None, typer.Option(metavar="en|zh|ru", help="Language of the judges' prompts. Default: the row's.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """Which judges, and what they ask."""

    judges: Annotated[
        list[str],
        typer.Option(
            "--judge",
            metavar="NAME[:KEY=VALUE,...]",
            help="Judge by name, with its settings, module:object, or a judges.toml; repeat it for several.",
            show_default=False,
            autocompletion=_judge_names,
        ),
    ]
    asks: ModelOptions = field(default_factory=ModelOptions)


@dataclass(frozen=True, kw_only=True)
class RowsOptions:
    """How a dataset is read."""

    rows: _Rows
    columns: Annotated[
        list[str],
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN",
            help="Column that holds a field. E.g. answer=outputs.text; repeatable.",
        ),
    ] = field(default_factory=list)
    encoding: Annotated[str, typer.Option(metavar="NAME", help="Encoding of the file. E.g. latin-1")] = "utf-8"
    limit: _Limit = None
    keep_unreadable: _KeepUnreadable = False


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """How fast a run may be, and where it stops."""

    max_concurrency: _MaxConcurrency = 8
    processes: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Judge in N processes, which divide rows and limits between them."),
    ] = 1
    poll: Annotated[
        float, typer.Option(min=0.01, metavar="SECONDS", help="Seconds between two looks at a batch.")
    ] = 60.0
    rate: Annotated[int | None, typer.Option(min=1, metavar="N", help="Most model calls a minute.")] = None
    tokens_per_minute: Annotated[int | None, typer.Option(min=1, metavar="N", help="Most tokens a minute.")] = None
    max_calls: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Stop after N model calls; resume later.")
    ] = None
    max_cost: Annotated[
        float | None, typer.Option(min=0, metavar="USD", help="Stop before more is spent; resume later.")
    ] = None
    prices: _Prices = None


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """What a run has to reach."""

    fail_under: Annotated[
        list[str],
        typer.Option(metavar="JUDGE=SCORE", help="Least mean score of a judge; exit code 1 below. Repeatable."),
    ] = field(default_factory=list)
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="A run before: exit code 1 if a judge's scores fell since."),
    ] = None
    max_unscored: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="Share of rows that a judge of the gate may fail to judge; exit code 3 above.",
        ),
    ] = 0.1
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the gate as JUnit XML.")] = None


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(CommandOptions):
    """The options of `refine evaluate`."""

    rows: RowsOptions
    judges: JudgeOptions
    out: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="New folder of the run. Default: runs/ and the time, which is printed."),
    ] = None
    limits: LimitOptions = field(default_factory=LimitOptions)
    batch: _Batch = False
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Judge part I of N only; see `refine merge`.")
    ] = None
    gate: GateOptions = field(default_factory=GateOptions)
    slices: _Slices = field(default_factory=list)
    as_json: _AsJson = False

    @cached_property
    def folder(self) -> Path:
        """The folder of the run: the named one, or a new one called after the time."""
        if self.out is not None:
            return Path(self.out)
        base = Path("runs") / time.strftime("%Y-%m-%d-%H%M%S")
        return next(name for number in range(1, 1_000) if not (name := _numbered(base, number)).exists())

    @property
    def resumable(self) -> Path | None:
        """The run that is written."""
        return self.folder


def _numbered(folder: Path, number: int) -> Path:
    return folder if number == 1 else folder.with_name(f"{folder.name}-{number}")


@dataclass(frozen=True, kw_only=True)
class _RunOptions(CommandOptions):
    """What the commands on one run have in common."""

    run: _RunFolder

    @property
    def resumable(self) -> Path | None:
        """The run that is read."""
        return self.run


@dataclass(frozen=True, kw_only=True)
class ResumeOptions(_RunOptions):
    """The options of `refine resume`."""

    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Judge cells again whose judging failed.")
    ] = False
    accept_changes: Annotated[
        bool, typer.Option("--accept-changes", help="Judge what changed in dataset or judges since again.")
    ] = False
    rows: _MovedRows = None
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where the model's server is now, if it was moved.")
    ] = None
    limits: LimitOptions = field(default_factory=LimitOptions)
    gate: GateOptions = field(default_factory=GateOptions)
    as_json: _AsJson = False


@dataclass(frozen=True, kw_only=True)
class RescoreOptions(_RunOptions):
    """The options of `refine rescore`."""

    judges: JudgeOptions
    rows: _MovedRows = None
    limits: LimitOptions = field(default_factory=LimitOptions)
    as_json: _AsJson = False


@dataclass(frozen=True, kw_only=True)
class MergeOptions(CommandOptions):
    """The options of `refine merge`."""

    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of all shards of one run.", show_default=False)
    ]
    out: Annotated[str, typer.Option(metavar="RUN", help="New folder of the run.", show_default=False)]
    rows: _MovedRows = None
    as_json: _AsJson = False


@dataclass(frozen=True, kw_only=True)
class ShowOptions(_RunOptions):
    """The options of `refine show`."""

    slices: _Slices = field(default_factory=list)
    as_json: _AsJson = False


@dataclass(frozen=True, kw_only=True)
class EstimateOptions(CommandOptions):
    """The options of `refine estimate`."""

    rows: RowsOptions
    judges: JudgeOptions
    prices: _Prices = None
    batch: _Batch = False
    as_json: _AsJson = False


@dataclass(frozen=True, kw_only=True)
class CompareOptions(CommandOptions):
    """The options of `refine compare`."""

    before: Annotated[Path, typer.Argument(metavar="RUN_A", help="Folder of the run before.", show_default=False)]
    after: Annotated[Path, typer.Argument(metavar="RUN_B", help="Folder of the run after.", show_default=False)]
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Compare answers by this judge, each pair in both orders.",
            autocompletion=_judge_names,
        ),
    ] = None
    asks: ModelOptions = field(default_factory=ModelOptions)
    max_concurrency: _MaxConcurrency = 8
    seed: _Seed = 0
    as_json: _AsJson = False


@dataclass(frozen=True, kw_only=True)
class PlanOptions(CommandOptions):
    """The options of `refine plan`."""

    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Finished runs to learn the spread of scores from.")
    ] = field(default_factory=list)
    points: Annotated[float, typer.Option(metavar="N", help="The change to be found, in points of 100.")] = 3.0
    discordance: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="Without runs: share of questions with another verdict."),
    ] = None
    sd: Annotated[
        float | None,
        typer.Option(min=0, metavar="NUMBER", help="Without runs: standard deviation of the scores' difference."),
    ] = None
    power: Annotated[float, typer.Option(metavar="SHARE", help="Probability of finding the change.")] = 0.8
    alpha: Annotated[float, typer.Option(metavar="SHARE", help="Two-sided level of the test.")] = 0.05
    as_json: _AsJson = False


@dataclass(frozen=True, kw_only=True)
class ReportOptions(_RunOptions):
    """The options of `refine report`."""

    later_run: Annotated[
        Path | None,
        typer.Argument(metavar="RUN2", help="A later run, to be compared with RUN.", show_default=False),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A .html, .md or .csv file; - is stdout. Default: report.html in the run."
        ),
    ] = None
    format: Annotated[str | None, typer.Option(metavar="html|md|csv", help="Default: as --out ends, or html.")] = (
        None
    )
    slices: _Slices = field(default_factory=list)
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What people say of the answers, for sections on trust.")
    ] = None
    attempts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Recorded attempts, for what another attempt brings.")
    ] = None
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate that `refine certify` wrote.")
    ] = None
    seed: _Seed = 0


@dataclass(frozen=True, kw_only=True)
class ListOptions(CommandOptions):
    """The options of `refine judges`."""

    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Tell all about this one.", show_default=False, autocompletion=_judge_names
        ),
    ] = None
    words: Annotated[
        list[str] | None,
        typer.Option(
            "--find", metavar="WORD", help="List those with this in names, question, needs or tags; several: all."
        ),
    ] = None
    fields: Annotated[
        str | None,
        typer.Option(
            "--needs", metavar="FIELDS", help="List those that need no more than these, question and answer."
        ),
    ] = None
    subject: Annotated[
        str | None,
        typer.Option(metavar="SUBJECT", help="List those of the answer, retriever, agent or conversation."),
    ] = None
    as_json: _AsJson = False


@dataclass(frozen=True, kw_only=True)
class NewJudgeOptions(CommandOptions):
    """The options of `refine new-judge`."""

    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the judge, e.g. tone or shop.tone.", show_default=False)
    ]
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="New folder. Default: one called after the judge.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class ExportOptions(CommandOptions):
    """The options of `refine export`."""

    record: Annotated[
        str,
        typer.Argument(
            metavar="RECORD", help="The record: sqlite:///file.db or postgresql://...", show_default=False
        ),
    ]
    out: Annotated[
        Path | None, typer.Option(metavar="ROWS", help="New file of JSON lines. Default: standard output.")
    ] = None
    where: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=VALUE", help="Only these outcomes; repeat it to narrow the choice.", show_default=False
        ),
    ] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class ServeOptions(CommandOptions):
    """The options of `refine serve`."""

    upstream: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of the model's API. E.g. https://api.openai.com/v1")
    ] = None
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Judge by name, module:object of your own, or a judges.toml.",
            autocompletion=_judge_names,
        ),
    ] = None
    judge_base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="OpenAI-compatible server of the judge's model.")
    ] = None
    judge_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The judge's model there, or PROVIDER:NAME.")
    ] = None
    success_rating: Annotated[
        int | None, typer.Option(metavar="1-4", help="Rating at which an answer is accepted. Default: 3")
    ] = None
    max_attempts: Annotated[
        int | None, typer.Option(metavar="N", help="Most answers generated for one question. Default: 3")
    ] = None
    host: Annotated[str | None, typer.Option(metavar="HOST", help="Listen here. Default: 127.0.0.1")] = None
    port: Annotated[int | None, typer.Option(metavar="N", help="Port to listen at; 0: any. Default: 8000")] = None
    record: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Where outcomes are recorded: a file, or a database. Default: refine-record.db"
        ),
    ] = None
    no_record: Annotated[bool, typer.Option("--no-record", help="Record nothing, so there is no page.")] = False
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML file with these and all other settings.")
    ] = None
    check: Annotated[bool, typer.Option("--check", help="Check the settings, say what they mean, and end.")] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class KeyOptions(CommandOptions):
    """The options of `refine key`."""

    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is called in limits and logs.")]


@dataclass(frozen=True, kw_only=True)
class TrustOptions(CommandOptions):
    """What `refine align` and `refine certify` have in common."""

    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Labels, where they are not in the rows.", show_default=False),
    ] = None
    judge: Annotated[
        str | None, typer.Option(metavar="NAME", help="The judge, where rows have verdicts of several.")
    ] = None
    good: Annotated[float, typer.Option(metavar="1-4", help="Least human rating that is good.")] = 3
    split: Annotated[str | None, typer.Option(metavar="NAME", help="Use the labels of this split alone.")] = None
    alpha: Annotated[float, typer.Option(metavar="SHARE", help="Most bad answers among those released.")] = 0.10
    delta: Annotated[float, typer.Option(metavar="P", help="Probability that the promise does not hold.")] = 0.05
    thresholds: Annotated[
        str | None,
        typer.Option(
            metavar="T,T", help="Thresholds to choose from, fixed before labels are seen.  [default: 4,3,2]"
        ),
    ] = None
    max_attempts: Annotated[
        int | None, typer.Option(metavar="N", help="Most attempts of the loop.  [default: as recorded]")
    ] = None
    next_labels: Annotated[
        Path | None,
        typer.Option("--next", metavar="FILE", help="New file for the rows to label next, blind to the verdict."),
    ] = None
    budget: Annotated[int, typer.Option(metavar="N", help="Most labels that people can give next.")] = 80
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What labels were used for.  [default: beside the labels]"),
    ] = None
    as_json: _AsJson = False


@dataclass(frozen=True, kw_only=True)
class AlignOptions(TrustOptions):
    """The options of `refine align`."""

    rows: Annotated[
        str,
        typer.Argument(
            metavar="LABELLED", help="Judged rows with labels: a file, or the folder of a run.", show_default=False
        ),
    ]
    drawn: Annotated[
        str,
        typer.Option(metavar="HOW", help="How labelled rows were drawn: random, by-rating, active or elsewhere."),
    ] = "random"
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="New file for the certificate.", show_default=False)
    ] = None
    full: Annotated[bool, typer.Option("--full", help="Show every figure, with its interval and method.")] = False
    seed: _Seed = 0


@dataclass(frozen=True, kw_only=True)
class CertifyOptions(TrustOptions):
    """The options of `refine certify`."""

    attempts: _Loops
    out: Annotated[Path, typer.Option(metavar="FILE", help="File for the certificate.")] = Path("certificate.json")
    patience: Annotated[
        int | None, typer.Option(metavar="N", help="Patience of the loop.  [default: as recorded]")
    ] = None
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="sequence; fallback, if higher ratings are not better; anytime, to look as labels come in; "
            "weighted, for rows with weights, several runs a question or graded harm.",
        ),
    ] = "sequence"
    harm: Annotated[
        str | None,
        typer.Option(metavar="H,H,H,H", help="Harm of answers rated 1 to 4, each 0 to 1, for --method weighted."),
    ] = None
    largest_weight: Annotated[
        float | None,
        typer.Option(metavar="W", help="Most that a question weighs, fixed beforehand, for --method weighted."),
    ] = None
    per_question: Annotated[
        bool, typer.Option("--per-question", help="Bound bad answers among all questions, not among releases.")
    ] = False
    scores: Annotated[bool, typer.Option("--scores", help="Certify a score, not a rating.")] = False
    escalation: Annotated[
        str | None,
        typer.Option(metavar="JUDGE,JUDGE", help="Judges from cheap to strong; people decide what they do not."),
    ] = None
    chain: Annotated[
        str | None,
        typer.Option(metavar="T,T;T,T", help="Escalation policies, strict to lax.  [default: 5,4;4,4;4,3;3,3]"),
    ] = None
    assume_independent_attempts: Annotated[
        bool,
        typer.Option("--assume-independent-attempts", help="Labels are of single answers; a weaker certificate."),
    ] = False
    loops: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Loops without labels, which make that one less weak.")
    ] = None
    unlabelled: Annotated[
        str | None,
        typer.Option(
            metavar="HOW", help="Runs without a label: bad, or left-out if the others are a random sample."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class _LoopOptions(CommandOptions):
    """What `refine replay` and `refine monitor` have in common."""

    source: _Loops
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Labels that `refine label` wrote. Default: those beside LOOPS, if there are any."
        ),
    ] = None
    asks: ModelOptions = field(default_factory=ModelOptions)
    max_concurrency: _MaxConcurrency = 8
    as_json: _AsJson = False


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(_LoopOptions):
    """The options of `refine replay`."""

    thresholds: Annotated[
        list[int],
        typer.Option("--threshold", metavar="1-4", help="Success rating to replay; repeat it for several."),
    ] = field(default_factory=list)
    max_attempts: Annotated[
        list[int], typer.Option(metavar="N", help="Most attempts to replay; repeat it for several.")
    ] = field(default_factory=list)
    patience: Annotated[
        list[int], typer.Option(metavar="N", help="Patience to replay; repeat it for several.")
    ] = field(default_factory=list)
    policy: Annotated[
        str | None,
        typer.Option(metavar="DIGEST", help="Loops of this policy. Default: the one with the most loops."),
    ] = None
    rejudge: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="Judge that judges some attempts again, so that the gain is unbiased: the one that recorded.",
            autocompletion=_judge_names,
        ),
    ] = None
    rejudge_fraction: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the refused attempts that are judged again.")
    ] = 0.2
    seed: _Seed = 0


@dataclass(frozen=True, kw_only=True)
class MonitorOptions(_LoopOptions):
    """The options of `refine monitor`."""

    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The certificate in force: its share of bad answers counts."),
    ] = None
    alpha: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Share of bad answers that is tolerated, 0 to 1.")
    ] = None
    canary: Annotated[
        Path | None, typer.Option(metavar="ROWS", help="Labelled rows to judge again: at least 50, with ratings.")
    ] = None
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:KEY=VALUE,...]",
            help="The judge in force, for the canary.",
            autocompletion=_judge_names,
        ),
    ] = None
    success_rating: Annotated[
        int | None, typer.Option(min=1, max=4, metavar="1-4", help="Rating that passes on the canary.")
    ] = None
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and look again; the canary is judged once.")] = (
        False
    )
    every: Annotated[float, typer.Option(min=0.1, metavar="S", help="Seconds between two looks.")] = 10.0


@dataclass(frozen=True, kw_only=True)
class LabelOptions(CommandOptions):
    """The options of `refine label`."""

    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="Answers: attempts.jsonl, the folder of a run, or the URL of a record.",
            show_default=False,
        ),
    ]
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File of the labels. Default: beside SOURCE; of a record, the record."),
    ] = None
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who labels. Default: your login.")] = None
    split: Annotated[
        str | None,
        typer.Option(metavar="certify|report|tune", help="What the labels may be used for: tune never measures."),
    ] = None
    next_rows: Annotated[
        int | None,
        typer.Option("--next", min=1, metavar="N", help="Only the N answers whose labels are worth most."),
    ] = None
    seed: _Seed = 0
