"""Base class of the catalogue's judges: entry, variants, threshold, feedback in the sample's language."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal, TypedDict

from judges.entry import Entry, Explanation
from judges.errors import ConfigurationError, one_line, shortened
from judges.judge import Judge
from judges.prompting.prompts import LANGUAGES, Language, Prompt, language_of, prompts_of
from judges.requests import Deliberation
from judges.runtime.validation import one_of
from judges.sample import Sample
from judges.verdict import Value, Verdict

Variant = Literal["corrected", "compat"]
VARIANTS: tuple[Variant, ...] = ("corrected", "compat")


class MetricSettings(TypedDict, total=False):
    """Settings of every judge of the catalogue.

    Attributes:
        name: Name of the judge; its qualified name by default.
        variant: `"corrected"`, or `"compat"`, which reproduces the scores of the original implementation.
        threshold: Lowest score that passes, 0 to 1; None takes the judge's own, mostly 0.5.
        language: Language of prompts and feedback; None takes the language of the question or, without one,
            of the first other text in the sample.
        prompts: Folder of packs that override the packaged ones, laid out like them (`zh/faithfulness.toml`).

    The threshold does not affect judges that say yes or no.
    """

    name: str
    variant: Variant
    threshold: float | None
    language: Language | None
    prompts: str | Path | None


class Metric(Judge):
    """Base class of the catalogue's judges.

    Args:
        name: Name of the judge; None takes its qualified name.
        variant: `"corrected"`, or `"compat"`, which reproduces the scores of the original implementation.
        threshold: Lowest score that passes, 0 to 1; None takes the judge's own, mostly 0.5. A judge that says yes
            or no passes by its answer.
        language: Language of prompts and feedback; None takes the language of the question or, without one,
            of the first other text in the sample.
        prompts: Folder of packs that override the packaged ones, laid out like them (`zh/faithfulness.toml`); read
            once, here.

    Raises:
        ConfigurationError: If a setting is out of its range.

    Attributes:
        entry: Its entry in the catalogue.
        pack: Name of the pack file that holds its feedback phrases.
        pack_folder: Folder of its packs, for a judge outside this package: searched after the user's `prompts` and
            before the packaged ones. Each prompt is there in English, and in any other languages; where Chinese or
            Russian is wanted and missing, English is used.
        pass_mark: Default threshold.
    """

    entry: ClassVar[Entry]
    pack: ClassVar[str] = ""
    pack_folder: ClassVar[Path | None] = None
    pass_mark: ClassVar[float] = 0.5

    def __init__(
        self,
        *,
        name: str | None = None,
        variant: Variant = "corrected",
        threshold: float | None = None,
        language: Language | None = None,
        prompts: str | Path | None = None,
    ) -> None:
        one_of(Variant, variant, setting="variant")
        mark = self.pass_mark if threshold is None else threshold
        if type(mark) not in (int, float) or not 0 <= mark <= 1:
            raise ConfigurationError(f"threshold is a score from 0 to 1, not {shortened(threshold)}")
        if language is not None and not isinstance(language, str):
            raise ConfigurationError(f"language is a code such as 'en', 'zh' or 'de', not {shortened(language)}")
        self.name = self.entry.name if name is None else name
        self.variant: Variant = variant
        self.threshold: float = mark
        self._language = language
        self._folder = None if prompts is None else Path(prompts)
        self._phrases = self._read_phrases()

    @property
    def compat(self) -> bool:
        """Whether scores are to reproduce the original implementation."""
        return self.variant == "compat"

    @property
    def needs(self) -> tuple[str, ...]:
        """Fields of a sample that this judge needs with its settings."""
        return self.entry.needs

    @property
    def calls(self) -> str:
        """Model calls for one sample with its settings, as a formula."""
        return self.entry.calls

    def explain(self) -> Explanation:
        """Describe what the judge needs, asks and costs, without calling a model."""
        return replace(super().explain(), needs=self.needs, calls=self.calls, variant=self.variant)

    def language_for(self, sample: Sample) -> Language:
        """Return the language of prompts and feedback for a sample."""
        texts = (sample.question, sample.answer, sample.reference, *(sample.retrieved_contexts or ()))
        return self._language or language_of(next((text for text in texts if text and text.strip()), ""))

    def say(self, phrase: str, sample: Sample, **values: object) -> str:
        """Return one of the pack's feedback phrases, filled in, in the language of the sample."""
        return self._phrases[self.language_for(sample)].feedback_text(phrase, **values)

    def verdict(self, score: float, *, value: Value | None = None, **fields: object) -> Verdict:
        """Return a verdict for a score from 0 to 1, which passes at the judge's threshold."""
        return Verdict.scored(score, threshold=self.threshold, value=value, **fields)

    def _read_phrases(self) -> Mapping[Language, Prompt]:
        """Read the pack's phrases; for a judge of the retriever add the note that no rewrite helps."""
        if not self.pack:
            return {}
        phrases = self._packs(self.pack)
        if self.entry.subject != "retriever":
            return phrases
        notes = prompts_of("retriever")
        return {
            language: prompt.model_copy(
                update={"feedback": {**notes.get(language, notes["en"]).feedback, **prompt.feedback}}
            )
            for language, prompt in phrases.items()
        }

    def _packs(self, name: str) -> Mapping[Language, Prompt]:
        packs = prompts_of(name, folder=self._folder, author_folder=self.pack_folder)
        if self._language is not None and self._language not in packs:
            file = f"{one_line(self._language, longest=20)}/{name}.toml"
            raise ConfigurationError(
                f"{self.name!r} has no {file}; known are {', '.join(packs)}. Write one (a judge that "
                f"asks a model has adapt(...) for it), and give its folder as prompts=..."
            )
        return dict.fromkeys(LANGUAGES, packs["en"]) | packs


class ComputedMetric(Metric):
    """A judge of the catalogue that computes its verdict without a model."""

    @abstractmethod
    def compute(self, sample: Sample) -> Verdict:
        """Return the verdict.

        Raises:
            CannotJudge: If the sample cannot be judged.
        """

    def deliberate(self, sample: Sample) -> Deliberation:
        """Return the computed verdict, without making a request."""
        yield from ()
        return self.compute(sample)
