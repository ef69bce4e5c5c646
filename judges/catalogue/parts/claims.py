"""Decomposing: a text becomes claims that stand alone, one model call, shared by all judges of a sample."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pydantic import Field, JsonValue

from judges.catalogue.model_judge import ModelJudge, all_of
from judges.catalogue.parts.items import filled
from judges.catalogue.parts.needed import question_of
from judges.prompting.questions import Question, ReplySchema
from judges.sample import Sample


class Claims(ReplySchema):
    """The claims of a text."""

    claims: list[str] = Field(description="list of texts: each claim as a sentence that can be read alone")


CLAIMS: Question[Claims] = Question(prompt="claims", reply=Claims, shared=True)
"""Break a text into claims. The question is shown so that pronouns can be resolved; nothing is taken from it."""


def claims_in(judge: ModelJudge, sample: Sample, text: str) -> Generator[Any, Any, tuple[str, ...]]:
    """Break a text of the sample into its claims, with `yield from`; a blank text has none, and costs no call.

    The judge must hold the question `CLAIMS`.
    """
    if not text.strip():
        return ()
    return _claimed(judge, (yield from judge.ask(CLAIMS, sample, _shown(sample, text))))


def claims_in_each(
    judge: ModelJudge, sample: Sample, *texts: str, question: Question[Claims] = CLAIMS
) -> Generator[Any, Any, tuple[tuple[str, ...], ...]]:
    """Break several texts into their claims at once, with `yield from`; otherwise as `claims_in`."""
    asked = [judge.request(question, sample, _shown(sample, one)) for one in texts if one.strip()]
    replies = iter(all_of((yield from judge.ask_all(asked))))
    return tuple(_claimed(judge, next(replies)) if one.strip() else () for one in texts)


def _shown(sample: Sample, text: str) -> dict[str, JsonValue]:
    return {**question_of(sample), "text": text}


def _claimed(judge: ModelJudge, reply: Claims) -> tuple[str, ...]:
    """Take the claims; in compat blank ones as well."""
    return tuple(reply.claims) if judge.compat else filled(reply.claims)
