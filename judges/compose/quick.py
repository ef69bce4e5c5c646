"""`Quick`: a verdict of one token, and the whole judge only where it refuses or is unsure."""

from __future__ import annotations

import re
from functools import partial
from typing import Literal

from judges.compose import resolve_names
from judges.compose.panel import OneInside, as_judge
from judges.entry import Explanation
from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.judge import Judge
from judges.model import Distribution, JudgeModel
from judges.models.likelihood import Levels, levels_in
from judges.models.prompt_and_reply import has_own_format
from judges.requests import Ask, Consult, Deliberation, RatedAsk
from judges.sample import Sample
from judges.verdict import Verdict

_HALF = 0.5
_REASONING = re.compile(
    r"(?:^|[:/])(?:o[134](?:-(?:mini|pro|preview))?|gpt-5(?:-(?:mini|nano|pro))?)(?:-\d{4}-\d\d-\d\d)?$|"
    r"deepseek-(?:r1|reasoner)|\bqwq\b|-thinking\b",
    re.IGNORECASE,
)
"""Matches the names of models that always reason before they reply; of others the reply tells."""


def weigh(judge: Judge, sample: Sample, rated: Literal["likelihood", "digit"]) -> Deliberation:
    """Deliberate as a judge does that asks for one rating, and weigh the verdict by how likely each rating was.

    Args:
        judge: The judge.
        sample: The sample.
        rated: What is asked of the rating; see `Ask`.

    Returns:
        The verdict on the reply, whose score is the expectation; with the reason where there is none.
    """
    deliberation = judge.deliberate(sample)
    try:
        question = next(deliberation)
    except StopIteration as end:
        verdict: Verdict = end.value
        return verdict
    levels = _levels_asked(judge, question)
    assert isinstance(question, Ask)  # noqa: S101 - checked
    reply, distribution = yield RatedAsk(**vars(question), rated=rated)
    verdict = _end_of(deliberation, reply, judge)
    return _weighed(verdict, distribution, judge, sample, levels)


def _weighed(
    verdict: Verdict, distribution: Distribution, judge: Judge, sample: Sample, levels: Levels
) -> Verdict:
    if not distribution.probabilities:
        return verdict.model_copy(update={"no_probabilities": distribution.reason})
    texts = dict.fromkeys(levels.texts, "")
    choices = [_concluded(judge, sample, {**texts, levels.field: choice}) for choice in levels.choices]
    if any(choice.score is None for choice in choices):
        return verdict.model_copy(update={"no_probabilities": "not every rating has a score"})
    weighed = verdict.weighed(distribution.probabilities, choices)
    if distribution.share >= _HALF:
        return weighed
    note = f"the ratings had {distribution.share:.1%} of the probability together"
    return weighed.model_copy(update={"detail": "; ".join(filter(None, (verdict.detail, note)))})


def _concluded(judge: Judge, sample: Sample, fields: dict[str, object]) -> Verdict:
    """Return the verdict that a judge makes of a reply with these fields."""
    deliberation = judge.deliberate(sample)
    question = next(deliberation)
    assert isinstance(question, Ask)  # noqa: S101 - as `weigh` checked
    return _end_of(deliberation, question.schema.model_validate(fields), judge)


def _end_of(deliberation: Deliberation, reply: object, judge: Judge) -> Verdict:
    try:
        deliberation.send(reply)
    except StopIteration as end:
        verdict: Verdict = end.value
        return verdict
    raise CannotJudge("judge_failed", f"{judge.name!r} asks more than for one rating")


def _levels_asked(judge: Judge, question: object) -> Levels:
    levels = levels_in(question.schema) if isinstance(question, Ask) else None
    if levels is None:
        raise ConfigurationError(f"{judge.name!r} asks for more than one rating, so that none can be weighed")
    return levels


def _digits_asked(judge: Judge) -> None:
    """Check that a judge asks a general model for one rating that one digit can say.

    Raises:
        ConfigurationError: If it does not; the message says what it does.
    """
    remedy = "Quick takes a judge that asks a model for one rating, such as Helpfulness or a Rubric"
    levels = getattr(judge, "levels", ())
    if not levels:
        raise ConfigurationError(f"{judge.name!r} asks for no single rating; {remedy}, or each member of a panel")
    if any(not one.digits for one in levels):
        raise ConfigurationError(f"{judge.name!r} has levels that no single digit can say; {remedy} from 0 to 9")
    reasoning = next((model.name for model in judge.models if _REASONING.search(model.name)), None)
    if reasoning is not None:
        raise ConfigurationError(
            f"{shortened(reasoning)} reasons before it replies, so that no first token decides; take "
            f"{judge.name!r} itself, or a model that does not reason"
        )
    if any(has_own_format(model) for model in judge.models):
        raise ConfigurationError(f"the model of {judge.name!r} judges in a format of its own; {remedy}")


class Quick(OneInside):
    """Ask for the rating alone, as one token, and the judge itself only where that refuses or is unsure.

    The model reads the prompt of the judge and replies with one digit: no reasons, no feedback. Where the endpoint
    gives `logprobs`, the verdict has the probabilities of the ratings, its score is their expectation, its rating
    the likeliest one. An answer that passes so is accepted. Where less than `margin` lies between what passes and
    what does not, or the likeliest rating stands on the other side, `Quick` is unsure; there, and where it
    refuses, the judge itself is asked for its reasons and its feedback, and decides. Without `logprobs` it is
    never unsure.

    A model that reasons before it replies has no first token that decides.

    Raises:
        ConfigurationError: If the judge does not ask for one rating, the margin is none, or the model reasons
            before it replies: when it is made where the model's name tells, else when it first judges.

    Attributes:
        judge: The judge itself.
        first: The judge of one token, without the judge itself behind it.
        margin: As given.
    """

    def __init__(
        self, judge: object, *, margin: float = 0.15, name: str | None = None, model: object = None
    ) -> None:
        self.judge = as_judge(judge, resolve=partial(resolve_names, model=model))
        self.name = name or f"quick-{self.judge.name}"
        self.margin = margin
        self.first = FirstToken(self.judge, name=self.name)

    @property
    def judges_parts(self) -> bool:
        """True if it holds for a part of an answer: always, as its verdict is cheap enough for each."""
        return True

    def explain(self) -> Explanation:
        """Describe what the judge needs, asks and costs."""
        part = self.judge.explain()
        return Explanation.of_parts(
            self.name,
            [part],
            asks=f"What does {part.judge} say in one token?",
            calls="1, or 2 where it refuses or is unsure",
            scale=part.scale,
            better=part.better,
            judges_parts=self.judges_parts,
        )

    def is_unsure(self, verdict: Verdict) -> bool:
        """Return whether a verdict of `first` leaves the decision to the judge itself; a failed one does."""
        if verdict.passed is None:
            return True
        if verdict.p_pass is None:
            return False
        return abs(2 * verdict.p_pass - 1) < self.margin or verdict.passed != (verdict.p_pass >= _EVEN)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask for one token, and the judge itself where it is needed."""
        first: Verdict = yield Consult(self.first, sample)
        is_unsure = self.is_unsure(first)
        if first.passed and not is_unsure:
            return first
        verdict: Verdict = yield Consult(self.judge, sample)
        why = first.unscored or ("unsure" if is_unsure else "refused")
        detail = "; ".join(filter(None, (f"{self.judge.name} decided, as one token was {why}", verdict.detail)))
        items = (first.named(self.name), verdict.named(self.name))
        return verdict.model_copy(update={"judge": self.name, "items": items, "detail": detail})


_EVEN = 0.5


class FirstToken(Judge):
    """The rating alone of a judge that asks for one, as one token, with how likely each rating was.

    Args:
        judge: The judge.
        name: Its name.

    Raises:
        ConfigurationError: If the judge does not ask for one rating that one digit can say.
    """

    def __init__(self, judge: Judge, *, name: str) -> None:
        _digits_asked(judge)
        self.name = name
        self._judge = judge

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """The models of the judge."""
        return self._judge.models

    @property
    def judges_parts(self) -> bool:
        """True if it holds for a part of an answer, as `Quick` does."""
        return True

    def refuse_unasked(self, sample: Sample) -> Verdict | None:
        """Return the judge's own refusal of an answer without content."""
        return self._judge.refuse_unasked(sample)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Ask for the rating alone."""
        return weigh(self._judge, sample, "digit")
