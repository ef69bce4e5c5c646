"""Results of an evaluation: a `Row` per sample, a `Summary` per judge, and both in an `Evaluation`."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    ValidationError,
    field_serializer,
)
from pydantic_core import PydanticSerializationError

from judges.catalogue.registry import qualified_name
from judges.errors import BadSample, ConfigurationError, one_line, shortened
from judges.offline.dataset.reading import RowInput
from judges.offline.run.manifest import JudgeRecord
from judges.offline.statistics.intervals import bounded_interval
from judges.rows.columns import TRAJECTORY_KEYS
from judges.sample import Sample
from judges.verdict import HIGHEST, LOWEST, ByJudge, HintedModel, Usage, Verdict

if TYPE_CHECKING:
    from pandas import DataFrame

_Model = TypeVar("_Model", bound=BaseModel)

_PERCENTILES = (50, 90, 99)
_MOST_USAGES = 256
"""Most usages that wait to be added up, as a sum of many costs little more than a sum of two."""
_FOUND_BY_ANY_NAME = AfterValidator(partial(ByJudge, qualified=qualified_name))


def read_as(kind: type[_Model], text: str | bytes) -> _Model:
    """Return the model that JSON holds; half a surrogate pair may be in it, which pydantic's own reader refuses.

    Raises:
        ValidationError: If the text holds no such model.
    """
    try:
        return kind.model_validate_json(text)
    except ValidationError:
        with suppress(ValueError, RecursionError):
            return kind.model_validate(json.loads(text))
        raise


class Row(BaseModel, frozen=True, extra="forbid"):
    """One row of a dataset, judged.

    Args:
        index: Its position in the dataset, from 0; messages name rows by it.
        sample: The sample judged; None if the row could not be read.
        verdicts: Verdicts by judge, scored or not: every judge has one in every row. A judge of the catalogue is
            found by any of its names.
        error: Why the row could not be read; empty if it could.
    """

    index: int = Field(ge=0)
    sample: Sample | None = None
    verdicts: Annotated[Mapping[str, Verdict], _FOUND_BY_ANY_NAME]
    error: str = ""

    @classmethod
    def of(cls, index: int, sample: Sample | BadSample, verdicts: Mapping[str, Verdict]) -> Self:
        """Return a row with its verdicts; one that could not be read says why."""
        if isinstance(sample, BadSample):
            return cls(index=index, verdicts=verdicts, error=str(sample))
        return cls(index=index, sample=sample, verdicts=verdicts)

    @field_serializer("sample")
    def _without_defaults(self, sample: Sample | None) -> JsonValue:
        return None if sample is None else sample.model_dump(mode="json", exclude_defaults=True)

    def line(self) -> str:
        """Return the row as one line of JSON, without a newline; `read_as` reads it back."""
        try:
            return self.model_dump_json()
        except PydanticSerializationError:  # half a surrogate pair is invalid in UTF-8, but can be escaped
            return json.dumps(self.model_dump(mode="json"))


class Summary(BaseModel, frozen=True, extra="forbid"):
    """The results of one judge over all rows.

    Args:
        n: Number of rows.
        scored: Number of rows with a score; all the figures below but `unscored` and `usage` are over these.
        mean: Mean score, 0 to 1, several rows with one question counting together as one; None where nothing was
            scored.
        mean_interval: The 95 % interval of the mean, over questions; None for fewer than two scored rows.
        ratings: How many rows got each rating, 1 to 4.
        passed: Share of the scored rows that passed, 0 to 1, likewise; None where nothing was scored.
        passed_interval: The 95 % interval of that share, over questions; None where nothing was scored.
        questions: Questions that the scored rows ask, where several rows ask one; None where none is asked twice.
            A question is known by `question_id` in the metadata, or else by its text.
        unscored: How many rows have no score, by reason.
        missing: How many rows a member of the judge gave no verdict on, scored or not, as in
            `{"safety (judge_failed)": 2}`.
        contradicted: How many rows have a claim that their evidence contradicts, as judges of groundedness find.
        usage: Usage of the judge in total.
        latency_s: Mean seconds from sample to verdict, scored or not; None where no row could be read.
        latency_percentiles_s: The median and the 90th and 99th percentile of those seconds, by percentage.
    """

    n: int
    scored: int
    mean: float | None
    ratings: Mapping[int, int]
    passed: float | None
    unscored: Mapping[str, int]
    usage: Usage
    latency_s: float | None
    mean_interval: tuple[float, float] | None = None
    passed_interval: tuple[float, float] | None = None
    questions: int | None = None
    latency_percentiles_s: Mapping[int, float] = {}
    missing: Mapping[str, int] = {}
    contradicted: int = 0


class Evaluation(HintedModel):
    """The result of judging a dataset; `evaluation["judge"]` is that judge's summary, `len` the number of rows.

    Args:
        rows: The rows in the order of the dataset; empty if they were not kept.
        summary: Summaries by judge, found as the verdicts of a row are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    _guesses_at: ClassVar[str] = "an evaluation"

    rows: tuple[Row, ...]
    summary: Annotated[Mapping[str, Summary], _FOUND_BY_ANY_NAME]
    _judge_records: Mapping[str, JudgeRecord] = PrivateAttr(default_factory=dict)

    @property
    def judge_records(self) -> Mapping[str, JudgeRecord]:
        """What each judge is, by name: its fingerprint, settings and prompts; empty where nobody knows."""
        return self._judge_records

    def judged_by(self, records: Mapping[str, JudgeRecord]) -> Self:
        """Return this evaluation, which knows from now on what its judges are."""
        self._judge_records = records
        return self

    def __len__(self) -> int:
        return next((one.n for one in self.summary.values()), 0)

    def __eq__(self, other: object) -> bool:
        """Compare what was found: a copy that came by JSON does not know what its judges are."""
        return isinstance(other, Evaluation) and (self.rows, self.summary) == (other.rows, other.summary)

    def __hash__(self) -> int:
        return hash((len(self), *self.summary))

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, judge: str) -> Summary:
        if judge not in self.summary:
            judge_names = ", ".join(self.summary)
            called = f"no judge of this run is called {shortened(judge)}"
            raise KeyError(f"{called}; its judges are {judge_names}; rows are evaluation.rows")
        return self.summary[judge]

    @property
    def scores(self) -> dict[str, list[float | None]]:
        """The scores by judge, row by row; None where a row is unscored.

        Raises:
            ConfigurationError: If the rows were not kept.
        """
        return {name: [row.verdicts[name].score for row in self.kept_rows()] for name in self.summary}

    @property
    def cost(self) -> float | None:
        """What all judges cost together, in US dollars; None where a price is unknown."""
        return self.total_tokens().cost

    def total_tokens(self) -> Usage:
        """Return what all judges consumed together: `input_tokens`, `output_tokens`, `tokens`, `calls`, `cost`."""
        return Usage.total([one.usage for one in self.summary.values()])

    def total_cost(self, cost_per_input_token: float, cost_per_output_token: float | None = None) -> float:
        """Return what all judges cost together at these prices, in the currency of the prices.

        Args:
            cost_per_input_token: The price of a token of a prompt.
            cost_per_output_token: The price of a token of a reply; None takes the other one.
        """
        usage, price = self.total_tokens(), cost_per_output_token
        output_price = cost_per_input_token if price is None else price
        return usage.input_tokens * cost_per_input_token + usage.output_tokens * output_price

    def slices(self, column: str) -> dict[str, dict[str, Summary]]:
        """Return the summaries of each group of rows, by the text of a column of their metadata, then by judge.

        Rows without the column are the group `""`.

        Raises:
            ConfigurationError: If the rows were not kept, or no row has the column.
        """
        groups: dict[str, list[Row]] = {}
        for row in self.kept_rows():
            value = None if row.sample is None else row.sample.metadata.get(column)
            groups.setdefault("" if value is None else str(value), []).append(row)
        if set(groups) <= {""} and groups:
            metadata_names = sorted({name for row in self.rows if row.sample for name in row.sample.metadata})
            near = get_close_matches(str(column), metadata_names, n=1)
            remedy = f"{f'did you mean {near[0]!r}? ' if near else ''}there are {metadata_names}"
            raise ConfigurationError(f"no row has a column {shortened(column)} in its metadata; {remedy}")
        return {value: summarise_rows(rows) for value, rows in sorted(groups.items())}

    def to_pandas(self) -> DataFrame:
        """Return a table with a line per row: what was judged, and each judge's score, rating and feedback.

        Raises:
            ConfigurationError: If the rows were not kept, or pandas is not installed.
        """
        try:
            from pandas import DataFrame  # noqa: PLC0415 - an optional library
        except ModuleNotFoundError:
            raise ConfigurationError(
                "to_pandas needs pandas, which is not installed: pip install pandas"
            ) from None
        return DataFrame.from_records([_record(row) for row in self.kept_rows()])

    def save(self, path: str | Path) -> None:
        """Write the evaluation to a file of JSON lines: the summaries, then a line per row kept.

        Raises:
            ConfigurationError: If the file cannot be written.
        """
        judges = {name: record.model_dump(mode="json") for name, record in self.judge_records.items()}
        head = json.dumps({**self.model_dump(mode="json", include={"summary"}), "judges": judges})
        try:
            with Path(path).open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{line}\n" for line in (head, *(row.line() for row in self.rows)))
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read an evaluation that `save` wrote; the folder of a run is read by `load_run`.

        Raises:
            ConfigurationError: If there is no such file, or it holds something else.
        """
        if Path(path).is_dir():
            raise ConfigurationError(f"{path} is a folder; read a run by judges.offline.load_run(...)")
        try:
            with Path(path).open(encoding="utf-8") as file:
                head = json.loads(next(file, "null"))
                rows = [read_as(Row, line) for line in file]
            records = {name: JudgeRecord(**record) for name, record in head.pop("judges", {}).items()}
            return cls.model_validate({**head, "rows": rows}).judged_by(records)
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
        except (AttributeError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"{path} is no saved evaluation; give a file that Evaluation.save wrote"
            ) from error

    def kept_rows(self) -> tuple[Row, ...]:
        """Return the rows; an error if they were not kept."""
        if len(self.rows) < len(self):
            raise ConfigurationError("the rows were not kept; evaluate with keep_rows=True")
        return self.rows

    def __repr__(self) -> str:
        rows = len(self)
        means = {
            name: f"unscored{self._first_reason(name)}"
            if one.mean is None
            else f"{one.mean:.3f}" + f" ({one.n - one.scored} unscored)" * (one.scored < one.n)
            for name, one in self.summary.items()
        }
        if not rows:
            return "Evaluation(0 rows: nothing was judged; samples was empty, or an iterator that was read before)"
        figures = [f"{rows} row{'' if rows == 1 else 's'}", *(f"{name} {mean}" for name, mean in means.items())]
        return f"Evaluation({', '.join(figures)})"

    def _first_reason(self, name: str) -> str:
        """Return why a judge gave the first row no score; empty where rows were not kept."""
        details = (row.verdicts[name].detail for row in self.rows if name in row.verdicts)
        detail = next((detail for detail in details if detail), "")
        return f": {one_line(detail)}" if detail else ""

    def __str__(self) -> str:
        return repr(self)


def summarise_rows(rows: Iterable[Row]) -> dict[str, Summary]:
    """Return the summary of each judge over some rows."""
    totals: dict[str, JudgeTotals] = {}
    for row in rows:
        for name, verdict in row.verdicts.items():
            totals.setdefault(name, JudgeTotals()).add(verdict, row.sample)
    return {name: one.summary() for name, one in totals.items()}


def _record(row: Row) -> dict[str, object]:
    record: dict[str, object] = {"row": row.index}
    if row.sample is not None:
        record |= row.sample.model_dump(mode="json", exclude_defaults=True)
    for name, verdict in row.verdicts.items():
        figures = {"": verdict.score, "_rating": verdict.rating, "_passed": verdict.passed}
        record |= {f"{name}{part}": value for part, value in figures.items()}
        record |= {f"{name}_unscored": verdict.unscored, f"{name}_feedback": verdict.feedback}
    return record


class JudgeTotals:
    """The running totals of one judge, so that a summary needs no rows in memory."""

    def __init__(self) -> None:
        self._scores, self._passes, self._questions = array("d"), array("b"), array("q")
        self._latencies = array("d")
        self._contradicted = 0
        self._ratings: Counter[int] = Counter()
        self._unscored: Counter[str] = Counter()
        self._missing: Counter[str] = Counter()
        self._usages = [Usage()]

    def add(self, verdict: Verdict, sample: Sample | BadSample | None) -> None:
        """Count a verdict on a row; the judge was not called for one that could not be read."""
        self._usages.append(verdict.usage)
        if len(self._usages) > _MOST_USAGES:
            self._usages = [Usage.total(self._usages)]
        if isinstance(sample, Sample):
            self._latencies.append(verdict.latency_s)
        if verdict.items:
            self._missing.update(f"{name} ({reason})" for name, reason in verdict.missing.items())
            self._contradicted += bool(verdict.contradicted)
        if verdict.rating is None or verdict.score is None:
            self._unscored[str(verdict.unscored)] += 1
            return
        self._scores.append(verdict.score)
        self._passes.append(bool(verdict.passed))
        self._questions.append(question_key(sample, len(self._questions)))
        self._ratings[verdict.rating] += 1

    def summary(self) -> Summary:
        """Return the summary of the verdicts counted so far."""
        scored, judged = self._ratings.total(), len(self._latencies)
        questions = len(set(self._questions))
        repeats = 1 < questions < scored
        scores, passes = (question_means(marks, self._questions) for marks in (self._scores, self._passes))
        return Summary(
            n=scored + self._unscored.total(),
            scored=scored,
            mean=math.fsum(scores) / len(scores) if scored else None,
            mean_interval=bounded_interval(scores) if scored > 1 else None,
            questions=questions if repeats else None,
            latency_s=math.fsum(self._latencies) / judged if judged else None,
            latency_percentiles_s=percentiles(self._latencies),
            ratings={rating: self._ratings[rating] for rating in range(LOWEST, HIGHEST + 1)},
            passed=math.fsum(passes) / len(passes) if scored else None,
            passed_interval=bounded_interval(passes) if scored else None,
            unscored=dict(sorted(self._unscored.items())),
            missing=dict(sorted(self._missing.items())),
            contradicted=self._contradicted,
            usage=Usage.total(self._usages),
        )


def percentiles(values: Iterable[float]) -> dict[int, float]:
    """Return percentiles by nearest rank, so that each is a value that occurred; empty without values."""
    ordered = sorted(values)
    return {p: ordered[math.ceil(p / 100 * len(ordered)) - 1] for p in _PERCENTILES} if ordered else {}


def question_means(marks: Sequence[float], questions: Sequence[int]) -> list[float]:
    """Return the mean of the marks of each question; of one question alone each row counts.

    Args:
        marks: The mark of each row.
        questions: The `question_key` of each.
    """
    if len(set(questions)) == 1:
        return list(marks)
    groups: dict[int, list[float]] = {}
    for question, mark in zip(questions, marks, strict=True):
        groups.setdefault(question, []).append(mark)
    return [math.fsum(group) / len(group) for group in groups.values()]


def question_key(sample: Sample | BadSample | None, place: int) -> int:
    """Return what tells the question of a row from others; a row without one has its place."""
    if not isinstance(sample, Sample):
        return place
    number = sample.metadata.get("question_id")
    text = sample.user_input if number is None and isinstance(sample.user_input, str) else ""
    if number is None and not text:
        texts = tuple(message.content for message in sample.conversation if message.role == "user")
        return hash(texts) if any(texts) else place
    return hash(text if number is None else str(number))


def paired(a: Evaluation | Iterable[RowInput], b: Evaluation | Iterable[RowInput]) -> Iterator[RowInput]:
    """Pair the answers of two runs over the same questions, row by row, for `compare`.

    Each row is that of `a`, with the answer of `b` as its rival. Contexts and steps are kept only where both runs
    have the same: a model that sees those of one run would favour its answer.

    Args:
        a: Samples of the one system, or an evaluation of them that kept its rows.
        b: Those of the other, in the same order; of two evaluations the rows are paired that ask the same.

    Yields:
        A sample for each pair; a `BadSample` for one that cannot be read, or where the questions differ.

    Raises:
        ConfigurationError: With the first pair, if an evaluation did not keep its rows.
    """
    for index, (ours, theirs) in enumerate(_pairs(a, b)):
        if ours is None or theirs is None:
            yield BadSample(f"the row at index {index} is in one run only")
            continue
        try:
            yield _with_rival(Sample.read(_readable(ours)), Sample.read(_readable(theirs)), index)
        except BadSample as error:
            yield error


def _pairs(
    a: Evaluation | Iterable[RowInput], b: Evaluation | Iterable[RowInput]
) -> Iterable[tuple[RowInput | None, RowInput | None]]:
    if not isinstance(a, Evaluation) or not isinstance(b, Evaluation):
        return zip_longest(_answers(a), _answers(b))
    _answers(a), _answers(b)  # checked
    pairs = pair_rows(a.rows, b.rows)
    partners = {first.index: second for first, second in pairs}
    taken = {second.index for _, second in pairs}
    rows = [(_answer(row), _answer(partners[row.index]) if row.index in partners else None) for row in a.rows]
    return [*rows, *((None, _answer(row)) for row in b.rows if row.index not in taken)]


def _answers(run: Evaluation | Iterable[RowInput]) -> Iterable[RowInput]:
    if not isinstance(run, Evaluation):
        return run
    if not run.rows and any(figures.n for figures in run.summary.values()):
        raise ConfigurationError("the evaluation did not keep its rows; evaluate with keep_rows=True")
    return map(_answer, run.rows)


def _answer(row: Row) -> RowInput:
    return BadSample(row.error) if row.sample is None else row.sample


def _readable(row: RowInput) -> Sample | Mapping[str, object]:
    if isinstance(row, BadSample):
        raise row
    return row


def _with_rival(sample: Sample, other: Sample, index: int) -> Sample:
    if sample.conversation != other.conversation:
        raise BadSample(f"the two runs do not ask the same at index {index}")
    update: dict[str, object] = {
        "response": sample.answer,
        "metadata": {**sample.metadata, "rival": other.answer or ""},
    }
    if sample.retrieved_contexts != other.retrieved_contexts:
        update["retrieved_contexts"] = None
    if sample.steps != other.steps:
        update |= {"user_input": sample.conversation, "trajectory": ()}
    return sample.model_copy(update=update)


def pair_rows(before: Iterable[Row], after: Iterable[Row]) -> list[tuple[Row, Row]]:
    """Return the rows of two runs that ask the same, in the order of the first.

    A row is paired with the one at the same place if that asks the same, else with the next one that does and has
    no partner yet, so that runs over other parts or another order of a dataset are compared, too. Rows without a
    question have their place alone.

    Args:
        before: Rows of the one run.
        after: Rows of the other.
    """
    first, second = ({row.index: row for row in rows} for rows in (before, after))
    in_place = {i for i, row in first.items() if i in second and _question_of(row) == _question_of(second[i])}
    moved: defaultdict[Hashable, deque[Row]] = defaultdict(deque)
    for i, row in second.items():
        if i not in in_place and _question_of(row):
            moved[_question_of(row)].append(row)
    pairs = []
    for i, row in first.items():
        if i in in_place:
            pairs.append((row, second[i]))
        elif moved.get(_question_of(row)):
            pairs.append((row, moved[_question_of(row)].popleft()))
    return pairs


def dataset_changes(before: Iterable[Row], after: Iterable[Row]) -> tuple[str, ...]:
    """Return in words what differs between the datasets of two runs, answers aside; empty where nothing does."""
    first, second = list(before), list(after)
    pairs = pair_rows(first, second)
    others = sum(_expectation(one) != _expectation(other) for one, other in pairs)
    counts = (
        (len(first) - len(pairs), "row is missing", "rows are missing"),
        (len(second) - len(pairs), "row is new", "rows are new"),
        (others, "row expects another answer", "rows expect another answer"),
    )
    return tuple(f"{count:,} {one if count == 1 else many}" for count, one, many in counts if count)


_EXPECTATIONS = (
    "reference",
    "reference_contexts",
    "expected_facts",
    "guidelines",
    "rubrics",
    "reference_tool_calls",
    "reference_topics",
    *TRAJECTORY_KEYS,
)


def _expectation(row: Row) -> dict[str, object]:
    """Return what the dataset expects of the answer in a row."""
    metadata = {} if row.sample is None else row.sample.metadata
    expectations = {name: getattr(row.sample, name, metadata.get(name)) for name in _EXPECTATIONS}
    return {name: value for name, value in expectations.items() if value not in (None, "", ())}


def _question_of(row: Row) -> tuple[str, ...]:
    """Return what the user said in a row."""
    if row.sample is None:
        return ()
    return tuple(message.content for message in row.sample.conversation if message.role == "user")
