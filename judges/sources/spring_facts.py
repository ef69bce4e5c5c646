"""Fact checking after Spring AI: whether a document bears out what an answer says."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, ClassVar, Literal, Unpack, get_args

from pydantic import JsonValue

from judges.asking import Asking, ModelSettings, Question, all_of
from judges.entry import Entry
from judges.errors import ConfigurationError
from judges.requests import Deliberation
from judges.sample import Sample
from judges.shapes.items import Support, bullets, numbered, one_each, reasons, share, standing
from judges.shapes.needed import answer_in, contexts_in
from judges.shapes.one_question import asked, in_words
from judges.shapes.sentences import sentences
from judges.shapes.support import SUPPORT
from judges.verdict import Verdict

FactPrompt = Literal["general", "minicheck"]

WHOLE: Question[Any] = in_words("fact_checking")
CLAIM: Question[Any] = asked("fact_checking")


class FactCheckingEvaluator(Asking):
    """Judge whether every sentence of the answer is supported by the document: the retrieved contexts.

    The answer is split into sentences without a model, those that recur counting once, and each is found
    supported, contradicted or absent, in one call. Score = supported / sentences; it passes at `threshold`, 1.0
    unless given, so when all are supported. An answer without a letter or a digit is unscored, `no_claims`.

    With `variant="compat"` one yes or no, in words, is asked about the answer as a whole, and the score is 0 even
    where it passes, as in Spring AI.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        prompt: `"general"`, or `"minicheck"` for a model that judges one claim at a time, such as
            `judges.models.speaking.speaking(..., "minicheck")`: a call for each sentence, and a sentence is
            supported or not, never contradicted.
        settings: See `judges.asking.ModelSettings`.

    Raises:
        ConfigurationError: If there is no such prompt.
    """

    entry: ClassVar[Entry] = Entry(
        name="spring.fact_checking_evaluator",
        aliases=("spring.fact_checking", "FactCheckingEvaluator"),
        asks="Does the document support every sentence of the answer?",
        needs=("response", "retrieved_contexts"),
        calls="1",
        source="Spring AI",
        differs="One verdict for each sentence, with reasons; the score is the share of supported ones, not "
        "always 0; no document is unscored.",
    )
    pack = "fact_checking"

    def __init__(
        self, model: object = None, *, prompt: FactPrompt = "general", **settings: Unpack[ModelSettings]
    ) -> None:
        if prompt not in get_args(FactPrompt):
            raise ConfigurationError(f"prompt is one of {', '.join(get_args(FactPrompt))}, not {prompt!r}")
        self._one_by_one = prompt == "minicheck"
        whole_or_all = WHOLE if settings.get("variant") == "compat" else SUPPORT
        self._question: Question[Any] = CLAIM if self._one_by_one else whole_or_all
        strict: ModelSettings = {"threshold": 1.0, **settings}
        super().__init__(model, questions=(self._question,), **strict)

    @property
    def calls(self) -> str:
        """One, or n for n sentences that are checked one by one."""
        return "n" if self._one_by_one and not self.compat else self.entry.calls

    def deliberate(self, sample: Sample) -> Deliberation:
        """Check each sentence, or the answer as a whole."""
        answer = answer_in(sample)
        contexts: list[JsonValue] = [one for one in contexts_in(sample) if one.strip()]
        if self.compat:
            return _passing((yield from self.put(self._question, sample, _shown(contexts, answer))))
        said = tuple(dict.fromkeys(sentences(answer)))
        if not said:
            return Verdict.without_score("no_claims", "the answer says nothing in words")
        check = self._one_at_a_time if self._one_by_one else self._at_once
        found = yield from check(sample, contexts, said)
        by_number = {one.number: one for one in found}
        items = [standing(sentence, by_number[number]) for number, sentence in enumerate(said, 1)]
        return self.verdict(
            share(items), rationale=reasons(items), feedback=self._advice(sample, items), items=tuple(items)
        )

    def _at_once(
        self, sample: Sample, contexts: list[JsonValue], said: Sequence[str]
    ) -> Generator[Any, Any, Sequence[Support]]:
        data: dict[str, JsonValue] = {"contexts": contexts, "claims": numbered(said, called="claim")}
        return (yield from self.put(SUPPORT, sample, data, check=one_each(len(said)))).items

    def _one_at_a_time(
        self, sample: Sample, contexts: list[JsonValue], said: Sequence[str]
    ) -> Generator[Any, Any, Sequence[Support]]:
        """Check sentences apart; all replies are needed, for one unsupported sentence fails the answer."""
        asking = [self.asking(CLAIM, sample, _shown(contexts, one)) for one in said]
        replies = all_of((yield from self.put_all(asking)))
        return [
            Support(number=number, reason=one.rationale, verdict="supported" if one.verdict else "absent")
            for number, one in enumerate(replies, 1)
        ]

    def _advice(self, sample: Sample, items: Sequence[Verdict]) -> str:
        """Name the contradicted sentences first, then the unsupported ones."""
        told = {
            "contradicted": [one.subject for one in items if one.value == "contradicted"],
            "unsupported": [one.subject for one in items if one.value == "absent"],
        }
        return "\n".join(self.say(name, sample, sentences=bullets(found)) for name, found in told.items() if found)


def _shown(contexts: list[JsonValue], answer: str) -> dict[str, JsonValue]:
    return {"contexts": contexts, "answer": answer}


def _passing(found: Any) -> Verdict:
    """Take nothing but the word itself for a yes, or a plain yes, and leave the score at 0."""
    yes = found.verdict is True or str(found.verdict).strip().lower() == "yes"
    feedback = "" if yes else found.feedback
    return Verdict(value=0.0, score=0.0, rating=1, passed=yes, rationale=found.rationale, feedback=feedback)
