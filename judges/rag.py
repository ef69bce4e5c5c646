"""Twelve metrics of retrieval-augmented answers over a dataset in columns, as Ascend's RAGEvaluator offers them.

The names, the columns and the limits are the reference's. Here no failure loses the run: a cell without a score is
None, and `RAGResult.verdicts` tells why.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from judges.adapting import Pack, atranslate, translate
from judges.asking import Asking
from judges.errors import ConfigurationError
from judges.judge import Judge
from judges.metric import Metric
from judges.models import as_model
from judges.models.embeddings import as_embeddings
from judges.offline import Evaluation, Row, aevaluate, evaluate
from judges.prompts import LANGUAGES, Language, prompt
from judges.rag_limits import Columns, checked_columns, checked_folder
from judges.registry import load
from judges.verdict import Unscored, Verdict

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
"""The metrics, each with what it asks."""

_SPOKEN: Mapping[str, Language] = {"chinese": "zh", "english": "en"}
_MOST_METRICS, _LONGEST_NAME = 14, 50


class RAGResult(dict[str, list[float | None]]):
    """The values of each metric, row by row, on the reference's scale; None where a cell has no score.

    Args:
        evaluation: What was judged.

    Attributes:
        evaluation: Rows and summaries, as `judges.offline.evaluate` gives them.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        super().__init__({name: [_number(one) for one in told] for name, told in self.verdicts.items()})

    @property
    def verdicts(self) -> dict[str, list[Verdict]]:
        """The verdict of each cell: reasons, items, feedback, usage, and why there is no score."""
        return {name: [row.verdicts[name] for row in self.evaluation.rows] for name in self.evaluation.summary}

    @property
    def unscored(self) -> dict[str, dict[int, Unscored]]:
        """Why cells have no score, by metric and row; a metric that scored every row is left out."""
        found = {
            name: {row: one.unscored for row, one in enumerate(told) if one.unscored is not None}
            for name, told in self.verdicts.items()
        }
        return {name: cells for name, cells in found.items() if cells}


class RAGEvaluator:
    """Evaluate retrieval-augmented answers by the metrics of Ascend's RAGEvaluator.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        embeddings: A LangChain `Embeddings` object or an `EmbeddingModel`; the metrics on answers, but for
            `nv_accuracy`, `faithfulness` and `nv_response_groundedness`, compare vectors.
        max_concurrency: How many rows are judged at once.

    Raises:
        ConfigurationError: If there is no model, or what was given is none.
    """

    def __init__(self, model: object, embeddings: object = None, *, max_concurrency: int = 8) -> None:
        self._given = {
            "model": as_model(model),
            "embeddings": None if embeddings is None else as_embeddings(embeddings),
        }
        self._max_concurrency = max_concurrency

    def evaluate(
        self,
        metrics: Sequence[str],
        dataset: Mapping[str, Sequence[object]],
        *,
        language: str | None = None,
        prompts_path: str | Path | None = None,
        adapt: bool = False,
        show_progress: bool = False,
    ) -> RAGResult:
        """Judge every row by every metric.

        Args:
            metrics: 1 to 14 names out of `METRICS`, none twice.
            dataset: 1 to 4 columns of equal length, up to 128 rows: `user_input`, `response`, `reference`
                (texts of up to 1,000,000 characters) and `retrieved_contexts` (up to 128 such texts a row).
            language: Of prompts and feedback: `"chinese"`, `"english"`, or a code; None takes the one of each
                question.
            prompts_path: Folder of prompts, laid out like `zh/faithfulness.toml`. What is not there comes from
                the package, and what is not there either is translated if `adapt` says so; else it is an error.
            adapt: Whether the model may translate prompts into a language that has none. They are written to
                `prompts_path`, so that this is paid once.
            show_progress: Whether to tell on stderr how many rows are judged.

        Raises:
            ConfigurationError: Before anything is spent, if an argument is wrong; the message says which.
            AskFailed: If prompts are to be translated, and the model cannot.
        """
        names, columns, spoken = _checked_names(metrics), checked_columns(dataset), _spoken(language)
        folder = checked_folder(prompts_path, may_be_new=adapt)
        if wanting := self._wanting(names, spoken, folder, adapt=adapt):
            translate(wanting, spoken or "", self._given["model"], folder=folder or "")
        judges = self._judges(names, spoken, folder, columns)
        with _progress(len(columns.rows), shown=show_progress) as advance:
            return RAGResult(
                evaluate(columns.rows, judges, max_concurrency=self._max_concurrency, on_result=advance)
            )

    async def aevaluate(
        self,
        metrics: Sequence[str],
        dataset: Mapping[str, Sequence[object]],
        *,
        language: str | None = None,
        prompts_path: str | Path | None = None,
        adapt: bool = False,
        show_progress: bool = False,
    ) -> RAGResult:
        """Judge without blocking; otherwise as `evaluate`."""
        names, columns, spoken = _checked_names(metrics), checked_columns(dataset), _spoken(language)
        folder = checked_folder(prompts_path, may_be_new=adapt)
        if wanting := self._wanting(names, spoken, folder, adapt=adapt):
            await atranslate(wanting, spoken or "", self._given["model"], folder=folder or "")
        judges = self._judges(names, spoken, folder, columns)
        with _progress(len(columns.rows), shown=show_progress) as advance:
            return RAGResult(
                await aevaluate(columns.rows, judges, max_concurrency=self._max_concurrency, on_result=advance)
            )

    def _wanting(
        self, names: Sequence[str], language: Language | None, folder: Path | None, *, adapt: bool
    ) -> list[Pack]:
        """List the files of packs that must be translated first, each once."""
        if not adapt or language is None or language in LANGUAGES:
            return []
        if folder is None:
            raise ConfigurationError("adapt=True needs prompts_path=..., the folder that prompts are written to")
        packs = (pack for name in names for pack in _packs(self._judge(name, language="en", prompts=None)))
        return list({pack.name: pack for pack in packs}.values())

    def _judges(
        self, names: Sequence[str], language: Language | None, folder: Path | None, columns: Columns
    ) -> dict[str, Judge]:
        judges = {name: self._judge(name, language=language, prompts=folder) for name in names}
        for name, judge in judges.items():
            for need in judge.needs:
                if not columns.have(need):
                    raise ConfigurationError(
                        f"{name} needs the column {need!r}; the dataset has {', '.join(columns.names)}"
                    )
        return dict(judges)

    def _judge(self, name: str, *, language: Language | None, prompts: Path | None) -> Metric:
        given = {asked: self._given[asked] for asked in METRICS[name]}
        if "embeddings" in given and given["embeddings"] is None:
            raise ConfigurationError(f"{name} compares vectors; give RAGEvaluator(model, embeddings=...)")
        judge = load(name, language=language, prompts=prompts, **given)
        assert isinstance(judge, Metric)  # noqa: S101 - the twelve are
        return judge


def _number(verdict: Verdict) -> float | None:
    if verdict.unscored is not None:
        return None
    return verdict.score if isinstance(verdict.value, str | None) else float(verdict.value)


def _packs(judge: Metric) -> tuple[Pack, ...]:
    if isinstance(judge, Asking):
        return judge.packs
    return (Pack(judge.pack, prompt(judge.pack, "en")),) if judge.pack else ()


def _checked_names(metrics: object) -> tuple[str, ...]:
    if not isinstance(metrics, list | tuple) or not 1 <= len(metrics) <= _MOST_METRICS:
        raise ConfigurationError(f"metrics is a list of 1 to {_MOST_METRICS} names, not {metrics!r}")
    for name in metrics:
        if not isinstance(name, str) or not 1 <= len(name) <= _LONGEST_NAME:
            raise ConfigurationError(f"a metric's name is a text of 1 to {_LONGEST_NAME} characters, not {name!r}")
        if name not in METRICS:
            raise ConfigurationError(f"there is no metric {name!r}; known are {', '.join(METRICS)}")
        if metrics.count(name) > 1:
            raise ConfigurationError(f"the metric {name!r} is asked for twice")
    return tuple(metrics)


def _spoken(language: object) -> Language | None:
    if language is not None and not isinstance(language, str):
        raise ConfigurationError(f"language is 'chinese', 'english', a code or None, not {language!r}")
    return None if language is None else _SPOKEN.get(language, language)


@contextmanager
def _progress(total: int, *, shown: bool) -> Iterator[Callable[[Row], object]]:
    """Tell on stderr how many rows are judged: with a bar where the extra `cli` is there, else in lines."""
    if not shown:
        yield lambda _: None
    elif find_spec("rich"):
        from rich.console import Console  # noqa: PLC0415 - an extra, opened on demand
        from rich.progress import Progress  # noqa: PLC0415

        with Progress(console=Console(stderr=True)) as bar:
            task = bar.add_task("judging", total=total)
            yield lambda _: bar.advance(task)
    else:
        yield lambda row: sys.stderr.write(f"judged {row.index + 1} of {total}\n")
