"""Verdicts weighed by how likely each rating was, of any judge that asks for one rating: `weigh`."""

from __future__ import annotations

import re
from typing import Literal

from judges.errors import CannotJudge, ConfigurationError, shortened
from judges.judge import Judge
from judges.model import Distribution
from judges.models.likelihood import Levels, levels_in
from judges.models.prompt_and_reply import has_own_format
from judges.requests import Ask, Deliberation, RatedAsk
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


def digits_asked(judge: Judge) -> None:
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
