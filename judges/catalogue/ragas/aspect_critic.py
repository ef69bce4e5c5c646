"""Aspect critic: whether an answer meets a definition, by one call or by the majority of several."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self, Unpack

from pydantic import JsonValue

from judges.catalogue.model_judge import ModelSettings
from judges.catalogue.parts.needed import answer_in
from judges.catalogue.parts.one_question import OneQuestion, checked_text, finding_schema, full_evidence
from judges.compose.repeat import Repeat
from judges.entry import Entry, Explanation
from judges.errors import ConfigurationError, shortened
from judges.prompting.prompts import Language, Prompt
from judges.prompting.questions import Question
from judges.requests import Deliberation
from judges.runtime.validation import one_of
from judges.sample import Sample
from judges.verdict import Verdict

Aspect = Literal["harmfulness", "maliciousness", "coherence", "correctness", "conciseness"]

GOOD: Mapping[Aspect, bool] = {
    "harmfulness": False,
    "maliciousness": False,
    "coherence": True,
    "correctness": True,
    "conciseness": True,
}
"""The predefined aspects, and whether it is good to meet them; the packs define them."""


class AspectCritic(OneQuestion):
    """Judge whether an answer meets a definition: yes or no.

    The value says whether it does; the score is 1 where that is good. With a `strictness` above 1 the model is
    asked that many times, the majority decides, `items` holds the single verdicts and `detail` the share that
    agrees; use a temperature above 0 then, since at 0 the runs are copies.

    With `variant="compat"` the model is asked once whatever the strictness, as in ragas.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        definition: What is asked of the answer, as a question or a condition.
        aspect: One of the predefined definitions instead: harmfulness, maliciousness, coherence, correctness or
            conciseness. It is also the judge's default name.
        strictness: How often to ask, at least once; an even number is rounded up to the next odd one.
        higher_is_better: Whether it is good to meet the definition; None takes the aspect's own direction, and
            True for a definition.
        settings: See `judges.catalogue.model_judge.ModelSettings`.
    """

    entry: ClassVar[Entry] = Entry(
        name="ragas.aspect_critic",
        aliases=("aspect_critic", "AspectCritic"),
        asks="Does the answer meet your definition?",
        needs=("response",),
        calls="k",
        scale="yes or no",
        source="ragas 0.4",
        differs="A closed yes or no; strictness is a real majority vote; it is recorded which direction is good.",
        tags=("custom", "criteria", "own prompt", "safety", "harm", "coherence", "conciseness"),
        examples=(
            'definition="Is the answer polite?"',
            'aspect="conciseness"',
            'strictness=3, aspect="conciseness"',
            'higher_is_better=False, definition="Is the answer rude?"',
        ),
        follows="ragas.metrics (legacy), the only one",
    )
    pack = "aspect_critic"

    def __init__(
        self,
        model: object = None,
        *,
        definition: str | None = None,
        aspect: Aspect | None = None,
        strictness: int = 1,
        higher_is_better: bool | None = None,
        **settings: Unpack[ModelSettings],
    ) -> None:
        if (definition is None) == (aspect is None):
            raise ConfigurationError(f"give definition=..., what to ask, or aspect=..., one of {', '.join(GOOD)}")
        if aspect is not None:
            one_of(Aspect, aspect, setting="aspect")
        if type(strictness) is not int or strictness < 1:
            raise ConfigurationError(
                f"strictness is how often to ask, a whole number from 1, not {shortened(strictness)}"
            )
        self._good = (aspect is None or GOOD[aspect]) if higher_is_better is None else higher_is_better
        self._runs = 1 if settings.get("variant") == "compat" else strictness // 2 * 2 + 1
        own = None if aspect else checked_text(definition, setting="definition")
        question: Question[Any] = Question(
            prompt=self.pack,
            reply=finding_schema(),
            fills=partial(_fills, own, str(aspect), self._good),
        )
        named_settings: ModelSettings = {"name": aspect, **settings} if aspect else settings
        super().__init__(model, question=question, **named_settings)

    @classmethod
    def predefined(cls, aspect: Aspect, model: object = None, **settings: Any) -> Self:
        """Return the critic of a predefined aspect: `AspectCritic.predefined("harmfulness", model=...)`."""
        return cls(model, aspect=aspect, **settings)

    @property
    def calls(self) -> str:
        """Model calls for one sample: one for each run."""
        return str(self._runs)

    def explain(self) -> Explanation:
        """Describe what it needs, asks and costs, and which direction is good."""
        return replace(super().explain(), better="high" if self._good else "low")

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return all the evidence of the sample."""
        return full_evidence(sample)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once, or return the majority of several runs."""
        if self._runs == 1:
            return (yield from super().deliberate(sample))
        answer_in(sample)
        once = copy(self)
        once._runs = 1  # noqa: SLF001 - a copy, not yet seen by anybody else
        return (yield from Repeat(once, self._runs).deliberate(sample))

    def conclude(self, reply: Any) -> Verdict:
        """Return the verdict, scored by the direction that is good."""
        good = reply.verdict == self._good
        feedback = "" if good else reply.feedback
        return Verdict.checked(good, value=reply.verdict, rationale=reply.rationale, feedback=feedback)


def _fills(definition: str | None, aspect: str, good: bool, text: Prompt, _: Language) -> dict[str, str]:  # noqa: FBT001 - filled by `partial`
    """Return the definition, and whether it is good to meet it."""
    direction = text.feedback_text("meeting_is_good" if good else "meeting_is_bad")
    return {"criteria": f"{definition or text.feedback_text(aspect)}\n{direction}"}
