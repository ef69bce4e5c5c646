"""How an answer is worded: its fluency, its tone, its language, and bias in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Unpack

from pydantic import Field, JsonValue

from judges.catalogue.metric import ComputedMetric, ModelJudge, ModelSettings, Variant
from judges.catalogue.parts.claims import in_order, listed_feedback, numbered_items, one_each, reasons
from judges.catalogue.parts.fields import answer_in, question_of
from judges.catalogue.parts.languages import (
    checked_language,
    is_in,
    language_between,
    language_in,
    languages_named,
    load_identifier,
    prose,
    script_in,
)
from judges.catalogue.parts.questions import OneQuestion, checked_text
from judges.errors import CannotJudge, unfit
from judges.prompting.prompts import LANGUAGES, Language, Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class Fluency(OneQuestion, entry="fluency", pack="fluency"):
    """Judge whether the answer is correct and natural language; what it says does not matter."""

    labels = MappingProxyType({"good": 1.0, "acceptable": 2 / 3, "poor": 1 / 3, "bad": 0.0})

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the answer."""
        return {"answer": answer_in(sample)}


class Tone(OneQuestion, entry="tone", pack="tone"):
    """Judge whether the answer keeps a tone from its first word to its last.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    labels = MappingProxyType({"kept": 1.0, "partly": 0.5, "broken": 0.0})
    pass_mark = 1.0

    def __init__(self, model: object = None, *, tone: str, **settings: Unpack[ModelSettings]) -> None:
        self._tone = checked_text(tone, setting="tone")
        super().__init__(model, **settings)

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the tone, the question if there is one, and the answer."""
        return {"tone": self._tone, **question_of(sample), "answer": answer_in(sample)}


_SHORT = 30
"""Lines with fewer letters are judged together, as a language shows in sentences."""


class ReplyLanguage(ComputedMetric, entry="reply_language", pack="reply_language"):
    """Judge whether the answer is in the right language, by script and by the frequencies of letters.

    The right language is the one that is set; else the one that the user or the system message tells to answer in
    ("Reply in French."); else that of the question, or any other that the question names ("into French").

    Score = letters in lines of the right language / all letters; lines too short to tell are left out, and code,
    addresses and tags are not read.

    Raises:
        ConfigurationError: If the language is unknown, or the extra is not installed.
    """

    pass_mark = 0.8

    def __init__(
        self,
        *,
        language: Language | None = None,
        feedback: str | None = None,
        name: str | None = None,
        variant: Variant = "corrected",
        threshold: float | None = None,
        prompts: str | Path | None = None,
    ) -> None:
        self.own_feedback = feedback
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
        languages = self._languages_wanted(sample, answer)
        weights = {True: 0, False: 0}
        for line in _lines(answer):
            match = self._is_in_one(line, languages)
            if match is not None:
                weights[match] += _letters(line)
        judged = sum(weights.values())
        if languages and not judged:
            raise CannotJudge("undefined", "the answer is too short to tell its language")
        score = weights[True] / judged if judged else 0.0
        wanted = ", ".join(languages)
        feedback = "" if score == 1 else self.say("wrong", sample, language=wanted)
        rationale = f"{weights[True]} of {judged} letters are in lines of the language {wanted}"
        return self.verdict(
            score, rationale=rationale if languages else "The scripts differ.", feedback=feedback.strip()
        )

    def _is_in_one(self, line: str, languages: Sequence[str]) -> bool | None:
        """Return whether a line is in one of some languages; None if that does not show."""
        matches = {is_in(line, language, judge=self.entry.name) for language in languages}
        return next((match for match in (True, None, False) if match in matches), None)

    def _languages_wanted(self, sample: Sample, answer: str) -> tuple[str, ...]:
        """Return the languages that are right; none if only the script of the question shows, and is another.

        The last message of the user that tells a language counts, before the system messages.
        """
        if self._wanted:
            return (self._wanted,)
        messages = [message for message in reversed(sample.conversation) if message.role in ("user", "system")]
        for role in ("user", "system"):
            for message in messages:
                if message.role == role and (required := languages_named(prose(message.content)).required):
                    return tuple(sorted(required))
        allowed = languages_named(prose(sample.question)).allowed
        language = self._language_asked_in(sample, answer)
        return tuple(dict.fromkeys(([language] if language else []) + sorted(allowed)))

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


BIAS_KINDS = (
    "gender",
    "sexuality",
    "origin",
    "religion",
    "politics",
    "age",
    "disability",
    "appearance",
    "social_status",
)
"""The kinds of bias that are looked for unless others are given."""


class _KindFree(ReplySchema):
    """Whether an answer is free of one kind of bias."""

    number: int = Field(description="whole number of the item")
    reason: str = Field(description="text: why, before the verdict")
    verdict: bool = Field(description="true if the answer is free of it, else false")
    change: str = Field(description="text: what to change in the answer; empty if it is free of it")


class _KindsFree(ReplySchema):
    """Whether an answer is free of each kind of bias."""

    items: list[_KindFree] = Field(description="list of objects, exactly one for each number, in their order")


_BIAS: Question[_KindsFree] = Question(prompt="bias", reply=_KindsFree)


class Bias(ModelJudge, entry="bias", pack="bias"):
    """Judge whether an answer is free of bias: yes or no, with an item for each kind.

    Biased is what judges, favours or describes people by a group they belong to, or takes one side of a political
    question as the only one. To report, quote, refute or discuss bias is none, nor are facts about groups stated
    as such, or a view that the user asked for and that is marked as one.

    Raises:
        ConfigurationError: If `kinds` is no list of texts, or another setting is out of its range.
    """

    def __init__(
        self, model: object = None, *, kinds: Iterable[str] | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        self._kinds = BIAS_KINDS if kinds is None else _checked(kinds)
        super().__init__(model, questions=(_BIAS,), **settings)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask about all kinds at once."""
        answer = answer_in(sample)
        names = [(self.say(f"kind_{kind}", sample) if kind in BIAS_KINDS else kind) for kind in self._kinds]
        data: dict[str, JsonValue] = {**question_of(sample), "answer": answer}
        data["kinds"] = numbered_items(names, called="kind")
        reply = yield from self.ask(_BIAS, sample, data, check=one_each(len(names)))
        items = [_item(*pair) for pair in zip(self._kinds, in_order(reply.items), strict=True)]
        return self._conclude(sample, items, names)

    def _conclude(self, sample: Sample, items: Sequence[Verdict], names: Sequence[str]) -> Verdict:
        lines = [f"{name} - {item.feedback}" for name, item in zip(names, items, strict=True) if not item.passed]
        feedback = listed_feedback(self, sample, {"biased": lines}, "kinds", longest=600)
        return Verdict.checked(not lines, rationale=reasons(items), feedback=feedback, items=tuple(items))


def _checked(kinds: Any) -> tuple[str, ...]:
    listed = tuple(kinds) if isinstance(kinds, Iterable) and not isinstance(kinds, str) else ()
    if not listed or not all(isinstance(kind, str) and kind.strip() for kind in listed):
        raise unfit(
            f"kinds is a list of kinds of bias such as {', '.join(BIAS_KINDS[:4])}, or your own in words", kinds
        )
    return tuple(dict.fromkeys(listed))


def _item(kind: str, reply_item: _KindFree) -> Verdict:
    change = "" if reply_item.verdict else reply_item.change.strip() or reply_item.reason
    return Verdict.checked(reply_item.verdict, subject=kind, rationale=reply_item.reason, feedback=change)
