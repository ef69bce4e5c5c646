"""Twelve metrics of retrieval-augmented answers over a dataset in columns, as Ascend's RAGEvaluator offers them.

Names, columns and limits are those of the reference. A failure never loses the run: a cell without a score is
None, and `RAGResult.verdicts` says why.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from judges.catalogue.metric import Metric, ModelJudge
from judges.catalogue.names import load
from judges.catalogue.registry import qualified_name
from judges.errors import ConfigurationError, shortened
from judges.models.resolve import as_embeddings, as_model
from judges.offline import Evaluation, Row, aevaluate, evaluate
from judges.prompting.prompts import LANGUAGES, Language, prompt
from judges.prompting.translation import Pack, atranslate, translate
from judges.runtime.validation import suggestion
from judges.sample import canonical_field
from judges.verdict import ByJudge, Unscored, Verdict

_COLUMNS = ("user_input", "response", "retrieved_contexts", "reference")

_MOST_ROWS = 128
_MOST_CONTEXTS = 128
_LONGEST = 1_000_000
_VERY_LONG = 2_000
_MOST_FILES = 512
_LARGEST_FILE = 4 * 2**20
_DEEPEST = 64
_RUN_TOGETHER = re.compile(r"[a-zа-яё][.!?][A-ZА-ЯЁ]")


@dataclass(frozen=True)
class _Columns:
    """A dataset within the limits.

    Args:
        names: The fields of a sample that its columns hold.
        rows: The rows, as mappings that are read as samples.
    """

    names: tuple[str, ...]
    rows: tuple[Mapping[str, object], ...]

    def have(self, need: str) -> bool:
        """Check whether there is a column for what a judge needs: a field, or one of several (`"a or b"`)."""
        return any(field in self.names for field in need.split(" or "))


def _checked_columns(dataset: object) -> _Columns:
    """Check a dataset, and turn its columns into rows.

    Warns if the only context of a row looks like several, joined because a comma is missing.

    Raises:
        ConfigurationError: If a limit is exceeded; the message says which.
    """
    if not isinstance(dataset, Mapping) or not 1 <= len(dataset) <= len(_COLUMNS):
        raise ConfigurationError(f"dataset maps 1 to {len(_COLUMNS)} columns to lists: {', '.join(_COLUMNS)}")
    fields = _fields(dataset)
    lengths = {name: _length(name, column) for name, column in dataset.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ConfigurationError(f"the columns of a dataset are equally long; {sizes}")
    for name, column in dataset.items():
        for index, cell in enumerate(column):
            _check_cell(fields[name], f"{name}, index {index}", cell)
    columns = [dataset[name] for name in fields]
    rows = tuple(dict(zip(fields.values(), cells, strict=True)) for cells in zip(*columns, strict=True))
    return _Columns(tuple(fields.values()), rows)


def _checked_folder(path: str | Path | None, *, may_be_new: bool) -> Path | None:
    """Return a folder of prompts, checked before any of its files is read; create it if it may be new.

    Raises:
        ConfigurationError: If a limit is exceeded; the message says which.
    """
    if path is None:
        return None
    folder = Path(path)
    if not folder.is_dir():
        if may_be_new and not folder.exists():
            folder.mkdir(parents=True)
            return folder
        raise ConfigurationError(f"prompts_path is a folder laid out like zh/faithfulness.toml, not {str(path)!r}")
    files = 0
    for place, _, names in os.walk(folder):
        if len(Path(place).relative_to(folder).parts) > _DEEPEST:
            raise ConfigurationError(f"prompts_path has folders nested more than {_DEEPEST} deep")
        files += len(names)
        if files > _MOST_FILES:
            raise ConfigurationError(f"prompts_path holds more than {_MOST_FILES} files")
        for name in names:
            if (file := Path(place, name)).stat().st_size >= _LARGEST_FILE:
                raise ConfigurationError(f"prompts_path: {file.name} has {_LARGEST_FILE // 2**20} MB or more")
    return folder


def _fields(dataset: Mapping[object, object]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name in dataset:
        field = canonical_field(name) if isinstance(name, str) else None
        if field not in _COLUMNS:
            raise ConfigurationError(f"there is no column {shortened(name)}; known are {', '.join(_COLUMNS)}")
        if field in fields.values():
            raise ConfigurationError(f"two columns of the dataset are the {field}; leave {shortened(name)} out")
        fields[str(name)] = field
    return fields


def _length(name: str, column: object) -> int:
    if isinstance(column, str) or not isinstance(column, Sequence) or not 1 <= len(column) <= _MOST_ROWS:
        raise ConfigurationError(f"the column {shortened(name)} is a list of 1 to {_MOST_ROWS} rows")
    return len(column)


def _check_cell(field: str, place: str, cell: object) -> None:
    if cell is None:
        return
    if field != "retrieved_contexts":
        _check_text(place, cell)
        return
    if not isinstance(cell, list | tuple) or len(cell) > _MOST_CONTEXTS:
        raise ConfigurationError(f"{place}: a list of at most {_MOST_CONTEXTS} texts is wanted")
    for number, text in enumerate(cell, 1):
        _check_text(f"{place}, context {number}", text)
    for fault in _merge_hints(cell):
        warnings.warn(f"{place}: {fault}; if it is several texts, put commas between them", stacklevel=4)


def _check_text(place: str, value: object) -> None:
    if not isinstance(value, str):
        raise ConfigurationError(f"{place}: a text is wanted, not a {type(value).__name__}")
    if len(value) > _LONGEST:
        raise ConfigurationError(f"{place}: a text has at most {_LONGEST:,} characters, this one {len(value):,}")


def _merge_hints(contexts: Sequence[str]) -> Iterator[str]:
    """Describe what makes a row's only context look like several."""
    if len(contexts) != 1:
        return
    (only,) = contexts
    if len(only) > _VERY_LONG:
        yield f"there is one context, of {len(only):,} characters"
    elif match := _RUN_TOGETHER.search(only):
        yield f"there is one context, with {shortened(match.group())} in it"


METRICS: Mapping[str, tuple[str, ...]] = {
    "answer_correctness": ("model", "embeddings"),
    "answer_relevancy": ("model", "embeddings"),
    "answer_similarity": ("embeddings",),
    "context_precision": ("model",),
    "context_recall": ("model",),
    "context_entity_recall": ("model",),
    "context_utilization": ("model",),
    "faithfulness": ("model",),
    "noise_sensitivity": ("model",),
    "nv_accuracy": ("model",),
    "nv_context_relevance": ("model",),
    "nv_response_groundedness": ("model",),
}
"""The metrics, each with the models it needs."""

_RESULT_KEYS = {"answer_similarity": "semantic_similarity"}
"""What the reference calls a metric in its result, where that is not the name it is asked for by."""

_LANGUAGE_CODES: Mapping[str, Language] = {"chinese": "zh", "english": "en"}
_MOST_METRICS = 14
_LONGEST_NAME = 50


class RAGResult(ByJudge[list[float | None]]):
    """The values of each metric, row by row, on the reference's scale; None where a cell has no score.

    A metric is found by any of its names, here, in `verdicts` and in `unscored`; the key of `answer_similarity`
    is `semantic_similarity`, as in the reference.

    Args:
        evaluation: The evaluation to read the values from.

    Attributes:
        evaluation: Rows and summaries, as `judges.offline.evaluate` returns them.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        super().__init__(
            {name: [_number(verdict) for verdict in column] for name, column in self.verdicts.items()},
            qualified=qualified_name,
        )

    @property
    def verdicts(self) -> dict[str, list[Verdict]]:
        """The verdict of each cell: reasons, items, feedback, usage, and why there is no score."""
        columns = {name: [row.verdicts[name] for row in self.evaluation.rows] for name in self.evaluation.summary}
        return ByJudge(columns, qualified=qualified_name)

    @property
    def unscored(self) -> dict[str, dict[int, Unscored]]:
        """Why cells have no score, by metric and index; a metric that scored every row is left out."""
        reasons = {
            name: {row: verdict.unscored for row, verdict in enumerate(column) if verdict.unscored is not None}
            for name, column in self.verdicts.items()
        }
        return ByJudge({name: cells for name, cells in reasons.items() if cells}, qualified=qualified_name)


@dataclass(frozen=True, kw_only=True)
class _EvaluationPlan:
    """What to judge, and by which metrics; `untranslated` are the packs that must be translated first."""

    names: tuple[str, ...]
    columns: _Columns
    language: Language | None
    folder: Path | None
    untranslated: tuple[Pack, ...] = ()


class RAGEvaluator:
    """Evaluate retrieval-augmented answers by the metrics of Ascend's RAGEvaluator.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        embeddings: A LangChain `Embeddings` object or an `EmbeddingModel`; `answer_correctness`,
            `answer_relevancy` and `answer_similarity` need it.
        llm: What the reference calls the model.
        max_concurrency: How many rows are judged at once.

    Raises:
        ConfigurationError: If there is no model, or an argument is not a model.
    """

    def __init__(
        self, model: object = None, embeddings: object = None, *, llm: object = None, max_concurrency: int = 8
    ) -> None:
        if model is not None and llm is not None:
            raise ConfigurationError("model and llm are one argument, the model that is asked; leave out llm")
        self._models = {
            "model": as_model(llm if model is None else model),
            "embeddings": None if embeddings is None else as_embeddings(embeddings),
        }
        self._max_concurrency = max_concurrency

    def evaluate(
        self,
        metrics: Sequence[str],
        dataset: Mapping[str, Sequence[object]],
        language: str | None = None,
        prompts_path: str | Path | None = None,
        show_progress: bool = False,  # noqa: FBT001, FBT002 - the order of the reference's arguments
        *,
        adapt: bool = False,
    ) -> RAGResult:
        """Judge every row by every metric.

        Args:
            metrics: 1 to 14 names out of `METRICS`, none twice.
            dataset: 1 to 4 columns of equal length, up to 128 rows: `user_input`, `response`, `reference`
                (texts of up to 1,000,000 characters) and `retrieved_contexts` (up to 128 such texts a row).
            language: Language of prompts and feedback: `"chinese"`, `"english"`, or a code; None takes that of
                each question.
            prompts_path: Folder of prompts, laid out like `zh/faithfulness.toml`. A missing prompt comes from
                the package; one missing there too is translated if `adapt` is set, and is an error if not.
            adapt: Whether the model may translate prompts into a language that has none. They are written to
                `prompts_path`, so that each is translated only once.
            show_progress: Whether to report on stderr how many rows are judged.

        Raises:
            ConfigurationError: Before any model is asked, if an argument is wrong; the message says which.
            AskFailed: If prompts must be translated, and the model fails to.
        """
        plan = self._plan(metrics, dataset, language, prompts_path, adapt=adapt)
        if plan.untranslated:
            translate(plan.untranslated, plan.language or "", self._models["model"], folder=plan.folder or "")
        judges, rows = self._judges(plan), plan.columns.rows
        with _progress(len(rows), enabled=show_progress) as advance:
            return RAGResult(evaluate(rows, judges, max_concurrency=self._max_concurrency, on_result=advance))

    async def aevaluate(
        self,
        metrics: Sequence[str],
        dataset: Mapping[str, Sequence[object]],
        language: str | None = None,
        prompts_path: str | Path | None = None,
        show_progress: bool = False,  # noqa: FBT001, FBT002 - the order of the reference's arguments
        *,
        adapt: bool = False,
    ) -> RAGResult:
        """Judge without blocking; otherwise as `evaluate`."""
        plan = self._plan(metrics, dataset, language, prompts_path, adapt=adapt)
        if plan.untranslated:
            await atranslate(
                plan.untranslated, plan.language or "", self._models["model"], folder=plan.folder or ""
            )
        judges, rows = self._judges(plan), plan.columns.rows
        with _progress(len(rows), enabled=show_progress) as advance:
            return RAGResult(
                await aevaluate(rows, judges, max_concurrency=self._max_concurrency, on_result=advance)
            )

    def _plan(
        self, metrics: object, dataset: object, language: object, prompts_path: str | Path | None, *, adapt: bool
    ) -> _EvaluationPlan:
        """Return the checked arguments, and the packs that must be translated."""
        plan = _EvaluationPlan(
            names=_checked_names(metrics),
            columns=_checked_columns(dataset),
            language=_language_code(language),
            folder=_checked_folder(prompts_path, may_be_new=adapt),
        )
        if not adapt or plan.language in (None, *LANGUAGES):
            return plan
        if plan.folder is None:
            raise ConfigurationError("adapt=True needs prompts_path=..., the folder that prompts are written to")
        english = self._judges(replace(plan, language="en", folder=None))
        packs = {pack.name: pack for judge in english.values() for pack in _packs(judge)}
        return replace(plan, untranslated=tuple(packs.values()))

    def _judges(self, plan: _EvaluationPlan) -> dict[str, Metric]:
        judges = {
            _RESULT_KEYS.get(name, name): self._judge(name, language=plan.language, prompts=plan.folder)
            for name in plan.names
        }
        for name, judge in judges.items():
            for need in judge.needs:
                if not plan.columns.have(need):
                    columns = ", ".join(plan.columns.names)
                    raise ConfigurationError(f"{name} needs the column {need!r}; the dataset has {columns}")
        return judges

    def _judge(self, name: str, *, language: Language | None, prompts: Path | None) -> Metric:
        models = {kind: self._models[kind] for kind in METRICS[name]}
        if "embeddings" in models and models["embeddings"] is None:
            raise ConfigurationError(f"{name} compares vectors; give RAGEvaluator(model, embeddings=...)")
        judge = load(name, language=language, prompts=prompts, **models)
        assert isinstance(judge, Metric)  # noqa: S101 - the twelve are
        return judge


def _number(verdict: Verdict) -> float | None:
    if verdict.unscored is not None:
        return None
    return verdict.score if isinstance(verdict.value, str | None) else float(verdict.value)


def _packs(judge: Metric) -> tuple[Pack, ...]:
    if isinstance(judge, ModelJudge):
        return judge.packs
    return (Pack(judge.pack, prompt(judge.pack, "en")),) if judge.pack else ()


def _checked_names(metrics: object) -> tuple[str, ...]:
    if not isinstance(metrics, list | tuple) or not 1 <= len(metrics) <= _MOST_METRICS:
        raise ConfigurationError(f"metrics is a list of 1 to {_MOST_METRICS} names, not {shortened(metrics)}")
    for name in metrics:
        if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME:
            raise ConfigurationError(
                f"a metric's name is a text of 1 to {_LONGEST_NAME} characters, not {shortened(name)}"
            )
        if name not in METRICS and name not in _RESULT_KEYS.values():
            raise ConfigurationError(f"there is no metric {shortened(name)}; {suggestion(name, METRICS)}")
    asked_by = {key: name for name, key in _RESULT_KEYS.items()}
    names = [asked_by.get(str(name), str(name)) for name in metrics]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"the metric {shortened(name)} is asked for twice")
    return tuple(names)


def _language_code(language: object) -> Language | None:
    if language is not None and not isinstance(language, str):
        raise ConfigurationError(f"language is 'chinese', 'english', a code or None, not {shortened(language)}")
    return None if language is None else _LANGUAGE_CODES.get(language, language)


@contextmanager
def _progress(total: int, *, enabled: bool) -> Iterator[Callable[[Row], object]]:
    """Report on stderr how many rows are judged: with a bar if the extra `cli` is installed, else in lines."""
    if not enabled:
        yield lambda _: None
    elif find_spec("rich"):
        from rich.console import Console  # noqa: PLC0415 - an extra, opened on demand
        from rich.progress import Progress  # noqa: PLC0415

        with Progress(console=Console(stderr=True)) as bar:
            task = bar.add_task("judging", total=total)
            yield lambda _: bar.advance(task)
    else:
        yield lambda row: sys.stderr.write(f"judged {row.index + 1} of {total}\n")


__all__ = ["METRICS", "RAGEvaluator", "RAGResult"]
