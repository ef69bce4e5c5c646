"""Criteria in words, after ragas: an aspect, a scale of one's own, described levels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self, Unpack

from pydantic import JsonValue

from judges.catalogue.metric import Metric, ModelJudge, ModelSettings
from judges.catalogue.parts.fields import answer_in, reference_in
from judges.catalogue.parts.questions import (
    FINEST,
    Grade,
    OneQuestion,
    checked_text,
    example_format,
    finding_schema,
    full_evidence,
)
from judges.compose.panel import Repeat
from judges.entry import Better, Explanation
from judges.errors import CannotJudge, ConfigurationError, shortened, unfit
from judges.prompting.prompts import Language, Prompt, Question, prompt
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict

_Aspect = Literal["harmfulness", "maliciousness", "coherence", "correctness", "conciseness"]

GOOD: Mapping[_Aspect, bool] = {
    "harmfulness": False,
    "maliciousness": False,
    "coherence": True,
    "correctness": True,
    "conciseness": True,
}
"""The predefined aspects, and whether it is good to meet them; the packs define them."""

_NO_DIRECTION = "met counts as 1; higher_is_better=... says whether it is good to meet the definition"


class AspectCritic(OneQuestion, entry="ragas.aspect_critic", pack="aspect_critic"):
    """Judge whether an answer meets a definition: yes or no.

    The value says whether it does; the score is 1 where that is good. Whether it is good to meet a definition of
    one's own is unknown, unless `higher_is_better` or the name of a predefined aspect says it: then the model is
    told nothing of it, the score is 1 where the definition is met, as in ragas, and no loop takes the judge.

    With a `strictness` above 1 the model is asked that many times, the majority decides, `items` holds the single
    verdicts and `detail` the share that agrees; use a temperature above 0 then, since at 0 the runs are copies.

    With `variant="compat"` the model is asked once whatever the strictness, as in ragas.
    """

    def __init__(
        self,
        model: object = None,
        *,
        definition: str | None = None,
        aspect: _Aspect | None = None,
        strictness: int = 1,
        higher_is_better: bool | None = None,
        **settings: Unpack[ModelSettings],
    ) -> None:
        if (definition is None) == (aspect is None):
            raise ConfigurationError(f"give definition=..., what to ask, or aspect=..., one of {', '.join(GOOD)}")
        known_as = aspect or str(settings.get("name")).strip().casefold()
        own_direction = next((good for metric_name, good in GOOD.items() if metric_name == known_as), None)
        self._good = own_direction if higher_is_better is None else higher_is_better
        self._runs = 1 if settings.get("variant") == "compat" else strictness // 2 * 2 + 1
        definition_text = None if aspect else checked_text(definition, setting="definition")
        question: Question[Any] = Question(
            prompt=self.pack,
            reply=finding_schema(),
            fills=partial(_fills, definition_text, str(aspect), _direction_said(self._good, higher_is_better)),
        )
        named_settings: ModelSettings = {"name": aspect, **settings} if aspect else settings
        super().__init__(model, question=question, **named_settings)

    @classmethod
    def predefined(cls, aspect: _Aspect, model: object = None, **settings: Any) -> Self:
        """Return the critic of a predefined aspect: `AspectCritic.predefined("harmfulness", model=...)`."""
        return cls(model, aspect=aspect, **settings)

    @property
    def calls(self) -> str:
        """Model calls for one sample: one for each run."""
        return str(self._runs)

    def explain(self) -> Explanation:
        """Describe what it needs, asks and costs, and which direction is good."""
        return replace(super().explain(), better=_BETTER[self._good])

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
        """Return the verdict, scored by the direction that is good; nothing is to change where it is unknown."""
        if self._good is None:
            return Verdict.checked(reply.verdict, rationale=reply.rationale, detail=_NO_DIRECTION)
        good = reply.verdict == self._good
        feedback = "" if good else reply.feedback
        return Verdict.checked(good, value=reply.verdict, rationale=reply.rationale, feedback=feedback)


_BETTER: Mapping[bool | None, Better] = {True: "high", False: "low", None: "unknown"}


def _direction_said(good: bool | None, set_by_user: bool | None) -> str:  # noqa: FBT001 - two tristates
    """Return the phrase that says whether it is good to meet the definition; empty where that need not be said."""
    if good is None:
        return "direction_unknown"
    return "meeting_is_bad" if not good else "meeting_is_good" if set_by_user else ""


def _fills(definition: str | None, aspect: str, phrase: str, text: Prompt, _: Language) -> dict[str, str]:
    """Return the definition and, where it is to be said, whether it is good to meet it."""
    criteria = definition or text.feedback_text(aspect)
    return {"criteria": f"{criteria}\n{text.feedback_text(phrase)}" if phrase else criteria}


class SimpleCriteriaScore(OneQuestion, entry="ragas.simple_criteria_score", pack="simple_criteria"):
    """Score an answer by a definition, on the whole numbers from `min_score` to `max_score`.

    Score = (value - min_score) / (max_score - min_score). With `variant="compat"` the model may give any whole
    number, as in ragas; one outside the scale is unscored, `invalid_output`, with the number as its value.
    """

    def __init__(
        self,
        model: object = None,
        *,
        definition: str,
        min_score: int = 0,
        max_score: int = 5,
        **settings: Unpack[ModelSettings],
    ) -> None:
        if type(min_score) is not int or type(max_score) is not int or not 0 < max_score - min_score < FINEST:
            raise ConfigurationError(
                f"min_score and max_score are whole numbers, the first one lower, at most {FINEST} levels in all, "
                f"not {shortened(min_score)} and {shortened(max_score)}"
            )
        self._lowest, self._highest = min_score, max_score
        reply = finding_schema(tuple(range(min_score, max_score + 1)))
        criteria = checked_text(definition, setting="definition")
        question: Question[Any] = Question(
            prompt=self.pack,
            reply=reply,
            compat=Grade,
            fills={"criteria": criteria, "lowest": str(min_score), "highest": str(max_score)},
            example_format=example_format(reply, lowest=min_score, highest=max_score),
        )
        super().__init__(model, question=question, **settings)

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return all the evidence of the sample."""
        return full_evidence(sample)

    def conclude(self, reply: Any) -> Verdict:
        """Return the verdict for a number of the scale."""
        return _level_verdict(self, reply, range(self._lowest, self._highest + 1))


_Rubrics = Mapping[str, str] | Mapping[int, str]
"""Descriptions of levels, keyed `"score1_description"` as in ragas, `"1"` or 1."""

_PLAIN = "rubrics_score"
_REFERENCED = "rubrics_score_reference"


class RubricsScore(ModelJudge, entry="ragas.rubrics_score"):
    """Rate an answer on described levels, the same for all rows; the feedback says what the next level requires.

    Score = (level - lowest) / (highest - lowest). The default levels go from 1 to 5, and rate the agreement with
    the reference if there is one, and else the answer alone.

    With `variant="compat"` the model may give any whole number, as in ragas; one outside the levels is unscored,
    `invalid_output`, with the number as its value.
    """

    def __init__(
        self,
        model: object = None,
        *,
        rubrics: _Rubrics | None = None,
        with_reference: bool | None = None,
        **settings: Unpack[ModelSettings],
    ) -> None:
        if with_reference not in (True, False, None):
            raise unfit("with_reference is True, False or None", with_reference)
        self._with_reference = with_reference
        self._own = None if rubrics is None else _own_levels(rubrics)
        self._scale = tuple(sorted(self._own or prompt(_PLAIN, "en").levels))
        self._plain = self._question(_PLAIN)
        self._referenced = self._plain if self._own else self._question(_REFERENCED)
        questions = {_PLAIN: self._plain, self._referenced.prompt: self._referenced}
        super().__init__(model, questions=tuple(questions.values()), **settings)

    @property
    def needs(self) -> tuple[str, ...]:
        """Fields of a sample it requires: the answer, and the reference with `with_reference=True`."""
        return ("response", "reference") if self._with_reference else self.entry.needs

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once, with the reference or without."""
        data = full_evidence(sample)
        if self._with_reference:
            reference_in(sample)
        if self._with_reference is False:
            data = {name: value for name, value in data.items() if not name.startswith("reference")}
        question = self._referenced if "reference" in data else self._plain
        reply = yield from self.ask(question, sample, data)
        return _level_verdict(self, reply, self._scale)

    def _question(self, name: str) -> Question[Any]:
        """Return the question with the caller's levels and no examples, or else with those of the pack."""
        return Question(
            prompt=name,
            reply=finding_schema(self._scale),
            compat=Grade,
            fills=partial(_rubric_fills, name, self._own, self._scale),
            examples=() if self._own else None,
        )


class RubricsScoreWithReference(RubricsScore, entry="ragas.rubrics_score_with_reference"):
    """Rate an answer on described levels by its agreement with the reference, which must be there."""

    def __init__(
        self, model: object = None, *, rubrics: _Rubrics | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        super().__init__(model, rubrics=rubrics, with_reference=True, **settings)


class RubricsScoreWithoutReference(RubricsScore, entry="ragas.rubrics_score_without_reference"):
    """Rate an answer on described levels; a reference is not shown, even where there is one."""

    def __init__(
        self, model: object = None, *, rubrics: _Rubrics | None = None, **settings: Unpack[ModelSettings]
    ) -> None:
        super().__init__(model, rubrics=rubrics, with_reference=False, **settings)


class InstanceRubrics(ModelJudge, entry="ragas.instance_rubrics"):
    """Rate an answer on the levels that its own row describes in `rubrics`.

    Score = (level - lowest) / (highest - lowest). With `variant="compat"` the model may give any whole number, as
    in ragas; one outside the levels is unscored, `invalid_output`, with the number as its value.
    """

    question = Question(prompt="instance_rubrics", reply=Grade)

    questions = (question,)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask once, with the levels of the row in the data and as the only values the reply may have."""
        data, levels = full_evidence(sample), _levels_of(sample)
        scale = tuple(sorted(levels))
        listed: list[JsonValue] = [{"level": one, "description": levels[one]} for one in scale]
        schema = Grade if self.compat else finding_schema(scale)
        request = self.request(self.question, sample, {"levels": listed, **data})
        reply = yield replace(request, schema=schema)
        return _level_verdict(self, reply, scale)


def _level_verdict(judge: Metric, reply: Any, scale: Sequence[int]) -> Verdict:
    """Return the verdict for a level of a scale; one off the scale is unscored, with the level as its value."""
    level, lowest, highest = reply.verdict, scale[0], scale[-1]
    if level not in scale:
        detail = f"{level} is no level of the scale from {lowest} to {highest}"
        return Verdict.without_score("invalid_output", detail, value=level, rationale=reply.rationale)
    feedback = "" if level == highest else reply.feedback
    score = (level - lowest) / (highest - lowest)
    return judge.verdict(score, value=level, rationale=reply.rationale, feedback=feedback)


def _rubric_fills(
    name: str, level_texts: Mapping[int, str] | None, scale: tuple[int, ...], text: Prompt, _: Language
) -> dict[str, str]:
    levels = level_texts or {**prompt(name, "en").levels, **text.levels}
    return {"levels": "\n".join(f"{level}: {levels[level]}" for level in scale)}


def _levels_of(sample: Sample) -> dict[int, str]:
    if not sample.rubrics:
        raise CannotJudge("no_rubrics", "the row has no rubrics")
    levels = _parse_levels(sample.rubrics)
    if levels is None:
        raise CannotJudge("no_rubrics", "rubrics describes at least two levels, keyed by whole numbers")
    return levels


def _own_levels(rubrics: object) -> dict[int, str]:
    levels = _parse_levels(rubrics) if isinstance(rubrics, Mapping) else None
    if levels is None:
        raise unfit(
            "rubrics describes at least two levels, for instance "
            "{'score1_description': 'rude', 'score2_description': 'kind'}",
            rubrics,
        )
    return levels


def _parse_levels(rubrics: Mapping[Any, Any]) -> dict[int, str] | None:
    """Return the levels by number; None unless there are at least two, keyed as `_Rubrics` says."""
    levels: dict[int, str] = {}
    for key, text in rubrics.items():
        match = re.fullmatch(r"(?:score)?(-?\d{1,9})(?:_description)?", str(key), re.ASCII)
        if match is None or not isinstance(text, str) or not text.strip():
            return None
        levels[int(match[1])] = text
    return levels if len(levels) == len(rubrics) > 1 else None
