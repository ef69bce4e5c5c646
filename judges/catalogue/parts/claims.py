"""Splitting a text into self-contained claims, in one model call shared by all judges of a sample."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pydantic import Field, JsonValue

from judges.catalogue.model_judge import ModelJudge, all_of
from judges.catalogue.parts.items import non_blank
from judges.catalogue.parts.needed import question_of
from judges.prompting.questions import Question, ReplySchema
from judges.sample import Sample


class Claims(ReplySchema):
    """The claims of a text."""

    claims: list[str] = Field(description="list of texts: each claim as a sentence that can be read alone")


CLAIMS: Question[Claims] = Question(prompt="claims", reply=Claims, shared=True)
"""Asks for the claims of a text. The question is included only so that pronouns can be resolved."""


def claims_in(judge: ModelJudge, sample: Sample, text: str) -> Generator[Any, Any, tuple[str, ...]]:
    """Split a text of the sample into its claims, with `yield from`; a blank text has none, and costs no call.

    The judge must hold the question `CLAIMS`.
    """
    if not text.strip():
        return ()
    return _claim_texts(judge, (yield from judge.ask(CLAIMS, sample, _data(sample, text))))


def claims_in_each(
    judge: ModelJudge, sample: Sample, *texts: str, question: Question[Claims] = CLAIMS
) -> Generator[Any, Any, tuple[tuple[str, ...], ...]]:
    """Split several texts into their claims at once, with `yield from`; otherwise as `claims_in`."""
    requests = [judge.request(question, sample, _data(sample, text)) for text in texts if text.strip()]
    replies = iter(all_of((yield from judge.ask_all(requests))))
    return tuple(_claim_texts(judge, next(replies)) if text.strip() else () for text in texts)


def _data(sample: Sample, text: str) -> dict[str, JsonValue]:
    return {**question_of(sample), "text": text}


def _claim_texts(judge: ModelJudge, reply: Claims) -> tuple[str, ...]:
    """Return the claims of a reply, without blank ones except in compat."""
    return tuple(reply.claims) if judge.compat else non_blank(reply.claims)
