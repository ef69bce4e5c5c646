"""The base of the catalogue's judges: an entry, two variants, a pass mark, phrases in the sample's language."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal, TypedDict

from judges.entry import Entry, Explanation
from judges.errors import ConfigurationError
from judges.judge import Judge
from judges.prompting.prompts import Language, Prompt, language_of, prompts_of
from judges.requests import Deliberation
from judges.runtime.validation import one_of
from judges.sample import Sample
from judges.verdict import Value, Verdict

Variant = Literal["corrected", "compat"]
VARIANTS: tuple[Variant, ...] = ("corrected", "compat")


class MetricSettings(TypedDict, total=False):
    """Settings of every judge of the catalogue.

    Attributes:
        name: What the judge is called; its qualified name unless given.
        variant: `"corrected"`, or `"compat"`, which gives the numbers of the reference.
        threshold: Score from which the verdict passes, 0 to 1; None takes the judge's own, mostly 0.5.
        language: Language of prompts and feedback; None takes the one of the question or, without one,
            of the first other text there is.
        prompts: Folder of packs that override the packaged ones, laid out like them (`zh/faithfulness.toml`).

    A judge that says yes or no passes as it says, whatever the threshold.
    """

    name: str
    variant: Variant
    threshold: float | None
    language: Language | None
    prompts: str | Path | None


class Metric(Judge):
    """A judge of the catalogue.

    Args:
        name: What the judge is called; None takes its qualified name.
        variant: `"corrected"`, or `"compat"`, which gives the numbers of the reference.
        threshold: Score from which the verdict passes, 0 to 1; None takes `pass_mark`.
        language: Language of prompts and feedback; None takes the one of the question or, without one,
            of the first other text there is.
        prompts: Folder of packs that override the packaged ones, laid out like them; it is read once, here.

    Raises:
        ConfigurationError: If a setting is out of its range.

    Attributes:
        entry: Its place in the catalogue.
        pack: Name of the file in a pack that holds its phrases of feedback.
        pass_mark: Score from which the verdict passes unless a threshold is given.
    """

    entry: ClassVar[Entry]
    pack: ClassVar[str] = ""
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
            raise ConfigurationError(f"threshold is a score from 0 to 1, not {threshold!r}")
        self.name = self.entry.name if name is None else name
        self.variant: Variant = variant
        self.threshold: float = mark
        self._language = language
        self._folder = None if prompts is None else Path(prompts)
        self._phrases = self._read_phrases()

    @property
    def compat(self) -> bool:
        """Whether the numbers are to be those of the reference."""
        return self.variant == "compat"

    @property
    def needs(self) -> tuple[str, ...]:
        """Fields of a sample this judge, set up as it is, cannot do without."""
        return self.entry.needs

    @property
    def calls(self) -> str:
        """Model calls for one sample, set up as it is, as a formula."""
        return self.entry.calls

    def explain(self) -> Explanation:
        """Tell what it needs, asks and costs, before anything is spent."""
        return replace(super().explain(), needs=self.needs, calls=self.calls, variant=self.variant)

    def language_for(self, sample: Sample) -> Language:
        """Choose the language of prompts and feedback for a sample."""
        words = (sample.question, sample.answer, sample.reference, *(sample.retrieved_contexts or ()))
        return self._language or language_of(next((one for one in words if one and one.strip()), ""))

    def say(self, phrase: str, sample: Sample, **values: object) -> str:
        """Say one of the pack's phrases in the language of the sample."""
        return self._phrases[self.language_for(sample)].said(phrase, **values)

    def verdict(self, score: float, *, value: Value | None = None, **told: object) -> Verdict:
        """Give a verdict for a score from 0 to 1, which passes at the judge's threshold."""
        return Verdict.scored(score, threshold=self.threshold, value=value, **told)

    def _read_phrases(self) -> Mapping[Language, Prompt]:
        """Read the pack's phrases, and for a judge of the retriever the note that no rewrite can help."""
        if not self.pack:
            return {}
        phrases = self._packs(self.pack)
        if self.entry.subject != "retriever":
            return phrases
        notes = prompts_of("retriever")
        return {
            language: text.model_copy(
                update={"feedback": {**notes.get(language, notes["en"]).feedback, **text.feedback}}
            )
            for language, text in phrases.items()
        }

    def _packs(self, name: str) -> Mapping[Language, Prompt]:
        packs = prompts_of(name, folder=self._folder)
        if self._language is not None and self._language not in packs:
            raise ConfigurationError(
                f"{self.name!r} has no {self._language}/{name}.toml; known are {', '.join(packs)}. Write one "
                f"(a judge that asks a model has adapt(...) for it), and give its folder as prompts=..."
            )
        return packs


class Measured(Metric):
    """A judge of the catalogue that works its verdict out, and asks nobody."""

    @abstractmethod
    def measured(self, sample: Sample) -> Verdict:
        """Work the verdict out; raises `CannotJudge` where that cannot be done."""

    def deliberate(self, sample: Sample) -> Deliberation:
        """Give what was measured; asks for nothing."""
        yield from ()
        return self.measured(sample)
