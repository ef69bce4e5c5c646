"""The options of the commands, each written once: the command line reads them, and the command runs on them.

A command has a frozen class of options. Its fields are what may be written on the command line: name, type, range
and default, and what `--help` says. A field that is itself such a class stands for its options, so that several
commands share them. Only typer is loaded for this module.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cached_property
from inspect import Parameter
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform, get_type_hints

import typer


def _judge_names(typed: str) -> list[str]:
    """Return the judges whose names begin as typed, for completion in a shell."""
    from judges.catalogue.registry import default_registry  # noqa: PLC0415 - loads pydantic and the judges

    names = (name for entry in default_registry().entries.values() for name in (entry.name, *entry.aliases))
    return sorted(name for name in names if name.startswith(typed))


def _option(text: str, metavar: str, *, default: Any = None, name: str = "", **settings: Any) -> Any:
    """Return the field of an option.

    Args:
        text: What `--help` says of it.
        metavar: What `--help` calls its value.
        default: Its value where it is not written; `list` if it may be repeated, MISSING if it must be written.
        name: What is written; empty is the name of the field.
        settings: Others of `typer.Option`, such as its range.
    """
    return _field(default, kind=typer.Option, name=name, help=text, metavar=metavar, **settings)


def _flag(text: str, *, name: str = "") -> Any:
    """Return the field of an option without a value, which is False where it is not written; see `_option`."""
    return _field(False, kind=typer.Option, name=name, help=text)  # noqa: FBT003 - a default


def _argument(text: str, metavar: str, *, default: Any = MISSING, **settings: Any) -> Any:
    """Return the field of what is written without a name; see `_option`."""
    shown = {"help": text, "metavar": metavar, "show_default": False}
    return _field(default, kind=typer.Argument, name="", **shown, **settings)


def _field(default: Any, **metadata: Any) -> Any:
    if default is list:
        return field(default_factory=list, metadata=metadata)
    return field(default=default, metadata=metadata)


def _out(text: str, metavar: str, *, default: Any = None) -> Any:
    """Return the field of a new folder, which may not be called nothing."""

    def check(value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise typer.BadParameter(f"it is empty; name a folder, e.g. --out {metavar.lower()}s/1")
        return value

    return _option(text, metavar, default=default, callback=check)


def _json() -> Any:
    return _flag("Print JSON instead of text.", name="--json")


def _judges(*, default: Any) -> Any:
    text = "Judge by name, with its settings, module:object, or a judges.toml; repeat it for several."
    return _judge(text, name="--judge", default=default)


def _judge(text: str, metavar: str = "NAME[:KEY=VALUE,...]", **settings: Any) -> Any:
    return _option(text, metavar, autocompletion=_judge_names, **settings)


def _seed() -> Any:
    return _option("Seed of resamples and draws.", "N", default=0, min=0)


def _slices() -> Any:
    return _option(
        "Also by the values of this column of the rows. Repeatable.", "COLUMN", name="--slice", default=list
    )


def _max_concurrency() -> Any:
    return _option("Model calls in flight at once.", "N", default=8, min=1)


def _moved_rows() -> Any:
    return _option("Where the dataset is now, if it was moved.", "ROWS", name="--rows")


def _loops() -> Any:
    return _argument("Recorded loops: attempts.jsonl, or the URL of a record, e.g. sqlite:///record.db", "LOOPS")


def _prices() -> Any:
    return _option('Prices a million tokens: {"NAME": {"input": 1, "output": 2}}', "FILE")


def _batch() -> Any:
    return _flag("Send calls by the provider's batch endpoint: half the price, within a day.")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _OptionGroup:
    """Options that commands share; each class of them is a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        """Make it a dataclass."""
        dataclass(frozen=True, kw_only=True)(cls)


_OPTIONS = TypeVar("_OPTIONS", bound=_OptionGroup)


def parameters_of(options: type[_OptionGroup]) -> Iterator[Parameter]:
    """Yield the parameters of a command with these options, as typer reads them."""
    hints = get_type_hints(options)
    for one in fields(options):
        if is_dataclass(hints[one.name]):
            yield from parameters_of(hints[one.name])
            continue
        settings = dict(one.metadata)
        kind, name = settings.pop("kind"), settings.pop("name")
        if not name and hints[one.name] is bool:
            name = f"--{one.name.replace('_', '-')}"  # without it typer adds --no-...
        default = one.default if one.default_factory is MISSING else one.default_factory()
        if default is MISSING:
            default, settings["show_default"] = Parameter.empty, False
        info = kind(*filter(None, [name]), **settings)
        kind_of_value: Any = hints[one.name]
        yield Parameter(
            one.name, Parameter.KEYWORD_ONLY, annotation=Annotated[kind_of_value, info], default=default
        )


def options_from(options: type[_OPTIONS], values: Mapping[str, Any]) -> _OPTIONS:
    """Return the options of a command with the values that typer read, by name."""
    hints = get_type_hints(options)
    read = {
        one.name: options_from(hints[one.name], values) if is_dataclass(hints[one.name]) else values[one.name]
        for one in fields(options)
    }
    return options(**read)


class CommandOptions(_OptionGroup):
    """What all classes of options have."""

    @property
    def resumable(self) -> Path | None:
        """The folder of a run with which `refine resume` may be able to go on after an error."""
        return None


class ModelOptions(_OptionGroup):
    """What judges ask."""

    model: str | None = _option("Model that the judges ask. E.g. openai:gpt-5-mini", "PROVIDER:NAME")
    base_url: str | None = _option("OpenAI-compatible server of the model. E.g. http://localhost:8000/v1", "URL")
    language: str | None = _option("Language of the judges' prompts. Default: the row's.", "en|zh|ru")


class _JudgeOptions(_OptionGroup):
    """Which judges, and what they ask."""

    judges: list[str] = _judges(default=MISSING)
    asks: ModelOptions = field(default_factory=ModelOptions)


class FileOptions(_OptionGroup):
    """How a file of rows is read."""

    rows: Path = _argument(
        "Dataset: .jsonl (one object per line), .json, .csv or .tsv with a header, or .parquet.", "ROWS"
    )
    columns: list[str] = _option(
        "Column that holds a field. E.g. answer=outputs.text; repeatable.",
        "FIELD=COLUMN",
        name="--map",
        default=list,
    )
    encoding: str = _option("Encoding of the file. E.g. latin-1", "NAME", default="utf-8")
    limit: int | None = _option("The first N rows only.", "N", min=1)


class _RowsOptions(FileOptions):
    """How a dataset is read."""

    keep_unreadable: bool = _flag("Keep rows that cannot be read, unscored, instead of stopping.")


class LimitOptions(_OptionGroup):
    """How fast a run may be, and where it stops."""

    max_concurrency: int = _max_concurrency()
    processes: int = _option(
        "Judge in N processes, which divide rows and limits between them.", "N", default=1, min=1
    )
    poll: float = _option("Seconds between two looks at a batch.", "SECONDS", default=60.0, min=0.01)
    rate: int | None = _option("Most model calls a minute.", "N", min=1)
    tokens_per_minute: int | None = _option("Most tokens a minute.", "N", min=1)
    max_calls: int | None = _option("Stop after N model calls; resume later.", "N", min=1)
    max_cost: float | None = _option("Stop before more is spent; resume later.", "USD", min=0)
    prices: Path | None = _prices()


class GateOptions(_OptionGroup):
    """What a run has to reach."""

    fail_under: list[str] = _option(
        "Least mean score of a judge; exit code 1 below. Repeatable.", "JUDGE=SCORE", default=list
    )
    baseline: Path | None = _option("A run before: exit code 1 if a judge's scores fell since.", "RUN")
    allow_other_judge: bool = _flag("Let the run before be of another judge (model, prompt, settings) or dataset.")
    max_unscored: float = _option(
        "Share of rows that a judge of the gate may fail to judge; exit code 3 above.",
        "SHARE",
        default=0.1,
        min=0,
        max=1,
    )
    junit: Path | None = _option("Write the gate as JUnit XML.", "FILE")


class _NewFolderOptions(CommandOptions):
    """What commands have in common that write into a folder of their own."""

    _home: ClassVar[str]
    """Where the folder is that has no name."""

    out: str | None

    @cached_property
    def folder(self) -> Path:
        """The folder that is written: the named one, or a new one called after the time."""
        if self.out is not None:
            return Path(self.out)
        base = Path(self._home) / time.strftime("%Y-%m-%d-%H%M%S")
        others = (base.with_name(f"{base.name}-{number}") for number in count(2))
        return next(folder for folder in chain([base], others) if not folder.exists())

    @property
    def resumable(self) -> Path | None:
        """The folder that is written."""
        return self.folder


class EvaluateOptions(_NewFolderOptions):
    """The options of `refine evaluate`."""

    _home = "runs"
    rows: _RowsOptions
    judges: _JudgeOptions
    out: str | None = _out("New folder of the run. Default: runs/ and the time, which is printed.", "RUN")
    limits: LimitOptions = field(default_factory=LimitOptions)
    batch: bool = _batch()
    shard: str | None = _option("Judge part I of N only; see `refine merge`.", "I/N")
    gate: GateOptions = field(default_factory=GateOptions)
    slices: list[str] = _slices()
    as_json: bool = _json()


class TrialOptions(_NewFolderOptions):
    """The options of `refine trial`."""

    _home = "trials"
    file: FileOptions
    generator: str = _option(
        "What answers: a model, or module:object for your own application.", "PROVIDER:NAME", default=MISSING
    )
    judge: str = _judge(
        "The judge of the loop, as in `refine evaluate`.",
        default=MISSING,
    )
    truth: str | None = _judge(
        "Another judge, which alone says what is good. Default: people, by `refine label`.",
    )
    asks: ModelOptions = field(default_factory=ModelOptions)
    arms: str = _option(
        "first, loop, a form of a retry (auto, restated, last_draft, verify_first, all_drafts, fresh), "
        "stronger=MODEL.",
        "ARM,ARM",
        default="first,loop,restated,verify_first,fresh",
    )
    baseline: str | None = _option("Compare with this arm. Default: fresh, if it is one, else first.", "ARM")
    out: str | None = _out("Folder of the trial. Default: trials/ and the time, which is printed.", "TRIAL")
    draws: int = _option("Ask each question N times, each with another seed.", "N", default=1, min=1)
    temperature: float | None = _option("Of the generator. Default: its own.", "T", min=0)
    max_tokens: int | None = _option("Longest answer. Default: the model's own limit.", "N", min=1)
    seed: int = _option("Seed of the answers, for generators that take one.", "N", default=0, min=0)
    max_attempts: int = _option("Answers an arm may generate, the first included.", "N", default=3, min=2)
    success_rating: int = _option("Rating that the loop's judge accepts.", "1-4", default=3, min=1, max=4)
    max_concurrency: int = _max_concurrency()
    max_calls: int | None = _option("Stop when an arm has made N model calls; resume later.", "N", min=1)
    max_cost: float | None = _option("Stop when an arm has cost so much; resume later.", "USD", min=0)
    prices: Path | None = _prices()
    retry_failed: bool = _flag("Try again where generator or judge failed.")
    as_json: bool = _json()


class _RunOptions(CommandOptions):
    """What the commands on one run have in common."""

    run: Path = _argument("Folder of a run.", "RUN")

    @property
    def resumable(self) -> Path | None:
        """The run that is read."""
        return self.run


class ResumeOptions(_RunOptions):
    """The options of `refine resume`."""

    retry_failed: bool = _flag("Judge cells again whose judging failed.")
    accept_changes: bool = _flag("Judge what changed in dataset or judges since again.")
    rows: Path | None = _moved_rows()
    base_url: str | None = _option("Where the model's server is now, if it was moved.", "URL")
    limits: LimitOptions = field(default_factory=LimitOptions)
    gate: GateOptions = field(default_factory=GateOptions)
    as_json: bool = _json()


class RescoreOptions(_RunOptions):
    """The options of `refine rescore`."""

    judges: list[str] = _judges(default=list)
    like: Path | None = _option("Judge as in this run: its judges, models and languages.", "RUN_B")
    asks: ModelOptions = field(default_factory=ModelOptions)
    rows: Path | None = _moved_rows()
    limits: LimitOptions = field(default_factory=LimitOptions)
    as_json: bool = _json()


class MergeOptions(CommandOptions):
    """The options of `refine merge`."""

    runs: list[Path] = _argument("Folders of all shards of one run.", "RUN...")
    out: str = _out("New folder of the run.", "RUN", default=MISSING)
    rows: Path | None = _moved_rows()
    as_json: bool = _json()


class ShowOptions(_RunOptions):
    """The options of `refine show`."""

    slices: list[str] = _slices()
    as_json: bool = _json()


class EstimateOptions(CommandOptions):
    """The options of `refine estimate`."""

    rows: _RowsOptions
    judges: _JudgeOptions
    prices: Path | None = _prices()
    batch: bool = _batch()
    as_json: bool = _json()


class CompareOptions(CommandOptions):
    """The options of `refine compare`."""

    before: Path = _argument("Folder of the run before.", "RUN_A")
    after: Path = _argument("Folder of the run after.", "RUN_B")
    judge: str | None = _judge("Compare answers by this judge, each pair in both orders.", "NAME")
    asks: ModelOptions = field(default_factory=ModelOptions)
    max_concurrency: int = _max_concurrency()
    seed: int = _seed()
    as_json: bool = _json()


class PlanOptions(CommandOptions):
    """The options of `refine plan`."""

    runs: list[Path] = _argument("Finished runs to learn the spread of scores from.", "RUN", default=list)
    points: float = _option("The change to be found, in points of 100.", "N", default=3.0)
    discordance: float | None = _option(
        "Without runs: share of questions with another verdict.", "SHARE", min=0, max=1
    )
    sd: float | None = _option("Without runs: standard deviation of the scores' difference.", "NUMBER", min=0)
    power: float = _option("Probability of finding the change.", "SHARE", default=0.8)
    alpha: float = _option("Two-sided level of the test.", "SHARE", default=0.05)
    as_json: bool = _json()


class ReportOptions(_RunOptions):
    """The options of `refine report`."""

    later_run: Path | None = _argument("A later run, to be compared with RUN.", "RUN2", default=None)
    out: Path | None = _option("A .html, .md or .csv file; - is stdout. Default: report.html in the run.", "FILE")
    format: str | None = _option("Default: as --out ends, or html.", "html|md|csv")
    slices: list[str] = _slices()
    labels: Path | None = _option("What people say of the answers, for sections on trust.", "FILE")
    attempts: Path | None = _option("Recorded attempts, for what another attempt brings.", "FILE")
    certificate: Path | None = _option("The certificate that `refine certify` wrote.", "FILE")
    seed: int = _seed()


class TryJudgeOptions(CommandOptions):
    """The options of `refine try-judge`."""

    judge: str = _judge("Judge by name, with its settings.", default=MISSING)
    asks: ModelOptions = field(default_factory=ModelOptions)
    pairs: Path | None = _option(
        "Your own pairs: rows with question, good and bad. Default: the cases shipped.", "ROWS"
    )
    max_concurrency: int = _max_concurrency()
    as_json: bool = _json()


class ListOptions(CommandOptions):
    """The options of `refine judges`."""

    name: str | None = _argument(
        "Tell all about this one; `lint` reads files.", "[NAME|lint]", default=None, autocompletion=_judge_names
    )
    files: list[Path] = _argument("With lint: files of judges, or prompts of packs.", "[FILE...]", default=list)
    words: list[str] | None = _option(
        "List those that fit these words or this sentence, the best first.", "WORDS", name="--find"
    )
    fields: str | None = _option(
        "List those that need no more than these, question and answer.", "FIELDS", name="--needs"
    )
    subject: str | None = _option("List those of the answer, retriever, agent or conversation.", "SUBJECT")
    check: bool = _flag("Try NAME on its worked cases, with --model.")
    asks: ModelOptions = field(default_factory=ModelOptions)
    as_json: bool = _json()


class DraftOptions(CommandOptions):
    """The options of `refine draft`."""

    answers: str | None = _argument("Recorded answers, labelled or not: rows or a record.", "[ROWS]", default=None)
    about: str = _option("What the answers are for, in a sentence.", "TEXT", default="")
    system: Path | None = _option("The application's system prompt.", "FILE")
    asks: ModelOptions = field(default_factory=ModelOptions)
    out: Path = _option("New file of judges.", "TOML", default=Path("judges.toml"))
    name: str = _option("What the judge is called.", "NAME", default="drafted")
    max_calls: int = _option("Most model calls altogether.", "N", default=60, min=1)
    good: float = _option("Rating from which a labelled answer is good.", "RATING", default=3.0)
    max_concurrency: int = _max_concurrency()
    as_json: bool = _json()


class NewJudgeOptions(CommandOptions):
    """The options of `refine new-judge`."""

    name: str = _argument("Name of the judge, e.g. brevity or shop.promises.", "NAME")
    out: Path | None = _option("New folder. Default: one called after the judge.", "FOLDER")


class ExportOptions(CommandOptions):
    """The options of `refine export`."""

    record: str = _argument("The record: sqlite:///file.db or postgresql://...", "RECORD")
    out: Path | None = _option(
        "New file, .jsonl, .csv or .parquet. Default: JSON lines on standard output.", "ROWS"
    )
    where: list[str] = _option("Only these outcomes; repeat it to narrow the choice.", "KEY=VALUE", default=list)


class VerifyOptions(CommandOptions):
    """The options of `refine verify`."""

    record: list[str] = _argument("The record, or exported files.", "RECORD...")
    heads: Path | None = _option("Where the chains ended at an earlier --save-heads.", "HEADS")
    save_heads: Path | None = _option("New file for where the chains end; keep it elsewhere.", "HEADS")


class _GuardOptions(CommandOptions):
    """What `refine serve` and `refine mcp` have in common."""

    config: Path | None = _option("TOML file with these and all other settings of a guard.", "FILE")
    upstream: str | None = _option("Address of the model's API. E.g. https://api.openai.com/v1", "URL")
    judge: str | None = _judge("Judge by name, module:object of your own, or a judges.toml.", "NAME")
    judge_base_url: str | None = _option("OpenAI-compatible server of the judge's model.", "URL")
    judge_model: str | None = _option("The judge's model there, or PROVIDER:NAME.", "NAME")
    host: str | None = _option("Listen here. Default: 127.0.0.1", "HOST")
    port: int | None = _option("Port to listen at; 0: any. Default: 8000", "N")


class ServeOptions(_GuardOptions):
    """The options of `refine serve`."""

    action: str | None = _argument("`init` asks three questions and writes refine.toml.", "[init]", default=None)
    yes: bool = _flag("With init: ask nothing.")
    success_rating: int | None = _option("Rating at which an answer is accepted. Default: 3", "1-4")
    max_attempts: int | None = _option("Most answers generated for one question. Default: 3", "N")
    record: str | None = _option(
        "Where outcomes are recorded: a file, or a database. Default: refine-record.db", "URL"
    )
    record_texts: bool = _flag("Record questions and answers, too, which people need who label them.")
    no_record: bool = _flag("Record nothing, so there is no page.")
    certificate: str | None = _option("Certificate that `refine certify` wrote; it sets the rating.", "FILE")
    on_alarm: str | None = _option("What follows where labels break its promise.", "stricter|closed|log")
    check: bool = _flag("Check the settings, say what they mean, and end.")
    live: bool = _flag("With --check: ask judges, upstreams and the database, each once.")


class McpOptions(_GuardOptions):
    """The options of `refine mcp`; those that `refine serve` has mean the same."""

    model: str | None = _option("The upstream's model, where a call names none.", "NAME")
    root: Path = _option("Runs and rows are read below this folder alone.", "FOLDER", default=Path())
    http: bool = _flag("Serve streamable HTTP at /mcp on --host and --port, behind the configuration's keys.")


class KeyOptions(CommandOptions):
    """The options of `refine key`."""

    name: str = _argument("What the key is called in limits and logs.", "NAME")


class _TrustOptions(CommandOptions):
    """What `refine align` and `refine certify` have in common."""

    labels: Path | None = _option("Labels, where they are not in the rows.", "FILE")
    judge: str | None = _option("The judge, where rows have verdicts of several.", "NAME")
    good: float = _option("Least human rating that is good.", "1-4", default=3)
    split: str | None = _option("Use the labels of this split alone.", "NAME")
    alpha: float = _option("Most bad answers among those released.", "SHARE", default=0.1)
    delta: float = _option("Probability that the promise does not hold.", "P", default=0.05)
    thresholds: str | None = _option(
        "Thresholds to choose from, fixed before labels are seen.  [default: 4,3,2]", "T,T"
    )
    max_attempts: int | None = _option("Most attempts of the loop.  [default: as recorded]", "N")
    next_labels: Path | None = _option(
        "New file for the rows to label next, blind to the verdict.", "FILE", name="--next"
    )
    budget: int = _option("Most labels that people can give next.", "N", default=80)
    ledger: Path | None = _option("What labels were used for.  [default: beside the labels]", "FILE")
    as_json: bool = _json()


class AlignOptions(_TrustOptions):
    """The options of `refine align`."""

    rows: str = _argument("Judged rows with labels: a file, or the folder of a run.", "LABELLED")
    drawn: str = _option(
        "How labelled rows were drawn: random, by-rating, active or elsewhere.", "HOW", default="random"
    )
    certificate: Path | None = _option("New file for the certificate.", "FILE")
    full: bool = _flag("Show every figure, with its interval and method.")
    seed: int = _seed()


class CertifyOptions(_TrustOptions):
    """The options of `refine certify`."""

    attempts: str = _loops()
    out: Path = _option("File for the certificate.", "FILE", default=Path("certificate.json"))
    by: str | None = _option(
        "Who labels a record that lacks labels, in the terminal. Default: your login.", "NAME"
    )
    patience: int | None = _option("Patience of the loop.  [default: as recorded]", "N")
    break_at_most: float | None = _option(
        "Promise besides: of first answers that were good, at most this share comes out bad. E.g. 0.01", "SHARE"
    )
    method: str = _option(
        "sequence; fallback, if higher ratings are not better; anytime, to look as labels come in; "
        "assisted, the same with the judge's scores of answers without a label; weighted, for rows with "
        "weights, several runs a question or graded harm.",
        "NAME",
        default="sequence",
    )
    control: str | None = _option(
        "Judge that helps labels, for --method assisted. Default: the loop's own.", "NAME"
    )
    harm: str | None = _option("Harm of answers rated 1 to 4, each 0 to 1, for --method weighted.", "H,H,H,H")
    largest_weight: float | None = _option(
        "Most that a question weighs, fixed beforehand, for --method weighted.", "W"
    )
    per_question: bool = _flag("Bound bad answers among all questions, not among releases.")
    estimand: str = _option(
        "Promise about traffic, every run as often as it is asked, or about questions, each once.",
        "traffic|questions",
        default="traffic",
    )
    once: bool = _flag("Spend all of --delta on this certificate: the labels certify nothing else afterwards.")
    laxest: bool = _flag("Take the laxest certified threshold, also one whose ratings nobody has seen.")
    scores: bool = _flag("Certify a score, not a rating.")
    escalation: str | None = _option("Judges from cheap to strong; people decide what they do not.", "JUDGE,JUDGE")
    chain: str | None = _option("Escalation policies, strict to lax.  [default: 5,4;4,4;4,3;3,3]", "T,T;T,T")
    assume_independent_attempts: bool = _flag("Labels are of single answers; a weaker certificate.")
    loops: Path | None = _option("Loops without labels, which make that one less weak.", "FILE")
    unlabelled: str | None = _option(
        "Runs without a label: bad, or left-out if the others are a random sample.", "HOW"
    )


class _LoopOptions(CommandOptions):
    """What `refine replay` and `refine monitor` have in common."""

    source: str = _loops()
    labels: Path | None = _option(
        "Labels that `refine label` wrote. Default: those beside LOOPS, if there are any.", "FILE"
    )
    asks: ModelOptions = field(default_factory=ModelOptions)
    max_concurrency: int = _max_concurrency()
    as_json: bool = _json()


class ReplayOptions(_LoopOptions):
    """The options of `refine replay`."""

    thresholds: list[float] = _option(
        "Success rating to replay, or score below 1; repeat it for several.",
        "1-4",
        name="--threshold",
        default=list,
    )
    max_attempts: list[int] = _option("Most attempts to replay; repeat it for several.", "N", default=list)
    patience: list[int] = _option("Patience to replay; repeat it for several.", "N", default=list)
    policy: str | None = _option("Loops of this policy. Default: the one with the most loops.", "DIGEST")
    rejudge: str | None = _judge(
        "Judge that judges some attempts again, so that the gain is unbiased: the one that recorded.",
    )
    rejudge_fraction: float = _option("Share of the refused attempts that are judged again.", "SHARE", default=0.2)
    slices: list[str] = _slices()
    seed: int = _seed()


class MonitorOptions(_LoopOptions):
    """The options of `refine monitor`."""

    certificate: Path | None = _option("The certificate in force: its share of bad answers counts.", "FILE")
    alpha: float | None = _option("Share of bad answers that is tolerated, 0 to 1.", "SHARE")
    canary: Path | None = _option("Labelled rows to judge again: at least 50, with ratings.", "ROWS")
    judge: str | None = _judge("The judge in force, for the canary.")
    success_rating: int | None = _option("Rating that passes on the canary.", "1-4", min=1, max=4)
    watch: bool = _flag("Stay, and look again; the canary is judged once.")
    every: float = _option("Seconds between two looks.", "S", default=10.0, min=0.1)


class TuneOptions(CommandOptions):
    """The options of `refine tune`."""

    labelled: str = _argument("Answers with labels: a file, the folder of a run, or the URL of a record.", "ROWS")
    judge: str = _judge(
        "Judge by name, with its settings, or one of a file, judges.toml:NAME.",
        default=MISSING,
    )
    model: str | None = _option("Model that the judge asks. E.g. openai:gpt-5-mini", "PROVIDER:NAME")
    base_url: str | None = _option("OpenAI-compatible server of the model. E.g. http://localhost:8000/v1", "URL")
    labels: Path | None = _option("Labels, where they are not in ROWS. Default: those beside ROWS.", "FILE")
    budget: int = _option("Most model calls.", "N", default=200)
    out: Path = _option("Folder for the tuned judge and the report.", "FOLDER", default=Path("tuned"))
    good: float = _option("Least rating of people that is good.", "1-4", default=3.0)
    seed: int = _seed()
    max_concurrency: int = _max_concurrency()
    as_json: bool = _json()


class LearnOptions(CommandOptions):
    """The options of `refine learn`."""

    attempts: str = _argument(
        "Judged answers: attempts.jsonl, the folder of a run, or the URL of a record.", "ATTEMPTS"
    )
    judge: str | None = _option("The judge, where rows have verdicts of several.", "NAME")
    out: Path = _option("File for what is learned.", "FILE", default=Path("first.json"))
    agreement: float = _option(
        "Least share of questions on which both levels say what the judge says.", "SHARE", default=0.95
    )
    delta: float = _option("Probability that this does not hold.", "SHARE", default=0.05)
    success_rating: int | None = _option(
        "Rating from which the judge accepts. Default: as recorded.", "1-4", min=1, max=4
    )
    vectors: str = _option("pieces, minilm (slower) or none.", "KIND", default="pieces")
    seed: int = _seed()
    as_json: bool = _json()


class LabelOptions(CommandOptions):
    """The options of `refine label`."""

    source: str = _argument("Answers: attempts.jsonl, the folder of a run, or the URL of a record.", "SOURCE")
    labels: Path | None = _option("File of the labels. Default: beside SOURCE; of a record, the record.", "FILE")
    by: str | None = _option("Who labels. Default: your login.", "NAME")
    split: str | None = _option("What the labels may be used for: tune never measures.", "certify|report|tune")
    next_rows: int | None = _option("Only the N answers whose labels are worth most.", "N", name="--next", min=1)
    audit: int | None = _option("Only N at random of those that went out under a certificate.", "N", min=1)
    seed: int = _seed()
