"""Reply language: whether the answer is in the language of the question, or in a set one, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from judges.catalogue.metric import ComputedMetric, Variant
from judges.catalogue.parts.languages import (
    checked_language,
    is_in,
    language_between,
    language_in,
    load_identifier,
    prose,
    script_in,
)
from judges.catalogue.parts.needed import answer_in
from judges.entry import Entry
from judges.errors import CannotJudge
from judges.prompting.prompts import LANGUAGES, Language
from judges.sample import Sample
from judges.verdict import Verdict

_SHORT = 30
"""Lines with fewer letters are judged together, as a language shows in sentences."""


class ReplyLanguage(ComputedMetric):
    """Judge whether the answer is in the right language, by script and by the frequencies of letters.

    Score = letters in lines of the right language / all letters; lines too short to tell are left out, and code,
    addresses and tags are not read. A question that asks for a translation needs `language`.

    Args:
        language: Code of the language wanted, such as `"de"`; None wants that of the question. Where it is one
            of the packs (en, zh, ru), feedback is in it, too.
        name: Name of the judge; `"reply_language"` by default.
        variant: `"corrected"` or `"compat"`, which are the same here.
        threshold: Lowest score that passes, 0 to 1; 0.8 by default, so that a quotation may be in another
            language.
        prompts: Folder of packs that override the packaged ones.

    Raises:
        ConfigurationError: If the language is unknown, or the extra is not installed.
    """

    entry: ClassVar[Entry] = Entry(
        name="reply_language",
        aliases=(
            "language_match",
            "same_language",
            "response_language",
            "LanguageMatch",
            "LANGUAGE_DETECTION_PROMPT",
        ),
        asks="Is the answer in the language of the question, or in the one set?",
        needs=("response", "user_input"),
        source="py3langid",
        extra="language",
        tags=("language", "locale", "translation", "multilingual"),
        examples=('language="de"',),
    )
    pack = "reply_language"
    pass_mark = 0.8

    def __init__(
        self,
        *,
        language: Language | None = None,
        name: str | None = None,
        variant: Variant = "corrected",
        threshold: float | None = None,
        prompts: str | Path | None = None,
    ) -> None:
        self._wanted = None if language is None else checked_language(language, judge=self.entry.name)
        phrases = self._wanted if self._wanted in LANGUAGES else None
        super().__init__(name=name, variant=variant, threshold=threshold, language=phrases, prompts=prompts)
        load_identifier(self.entry.name)

    @property
    def needs(self) -> tuple[str, ...]:
        """Fields of a sample that it needs: the question only where no language is set."""
        return self.entry.needs if self._wanted is None else ("response",)

    def compute(self, sample: Sample) -> Verdict:
        """Compare the languages, line by line."""
        answer = prose(answer_in(sample))
        language = self._wanted or self._language_asked_in(sample, answer)
        weights = {True: 0, False: 0}
        for line in _lines(answer):
            match = None if language is None else is_in(line, language, judge=self.entry.name)
            if match is not None:
                weights[match] += _letters(line)
        judged = sum(weights.values())
        if language is not None and not judged:
            raise CannotJudge("undefined", "the answer is too short to tell its language")
        score = weights[True] / judged if judged else 0.0
        feedback = "" if score == 1 else self.say("wrong", sample, language=language or "")
        rationale = f"{weights[True]} of {judged} letters are in lines of the language {language!r}"
        return self.verdict(
            score, rationale=rationale if language else "The scripts differ.", feedback=feedback.strip()
        )

    def _language_asked_in(self, sample: Sample, answer: str) -> str | None:
        """Return the language of the question; None if only the script shows, and is not that of the answer.

        Raises:
            CannotJudge: `no_question`, if there is none; `undefined`, if its language does not show.
        """
        if not sample.question.strip():
            raise CannotJudge(
                "no_question", "there is no question whose language to answer in; or set language=..."
            )
        everything = "\n".join(message.content for message in sample.conversation if message.role == "user")
        for text in (prose(sample.question), prose(everything)):
            script, language = script_in(text), language_in(text, judge=self.entry.name)
            if script is not None and language is not None:
                return language
        if script is not None and (language := language_between(text, answer, judge=self.entry.name)):
            return language
        if script is None or script_in(answer) in (script, None):
            raise CannotJudge("undefined", "the question is too short to tell its language; set language=...")
        return None


def _lines(text: str) -> list[str]:
    """Return the lines of a text that are long enough to tell their language, and the others as one."""
    lines = text.splitlines()
    rest = " ".join(line for line in lines if _letters(line) < _SHORT)
    return [*(line for line in lines if _letters(line) >= _SHORT), rest]


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text))
