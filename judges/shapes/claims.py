"""Decomposing: a text becomes claims that stand alone, one model call, shared by all judges of a sample."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pydantic import Field

from judges.asking import Asking, Question, Reply
from judges.sample import Sample
from judges.shapes.needed import question_in


class Claims(Reply):
    """The claims of a text."""

    claims: list[str] = Field(description="list of texts: each claim as a sentence that can be read alone")


CLAIMS: Question[Claims] = Question(prompt="claims", reply=Claims, shared=True)
"""Break a text into claims. The question is shown so that pronouns can be resolved; nothing is taken from it."""


def claims_in(judge: Asking, sample: Sample, text: str) -> Generator[Any, Any, tuple[str, ...]]:
    """Break a text of the sample into its claims, with `yield from`; a blank text has none, and costs no call.

    The judge must hold the question `CLAIMS`.
    """
    if not text.strip():
        return ()
    asked = {"question": question_in(sample)} if sample.question.strip() else {}
    reply = yield from judge.put(CLAIMS, sample, {**asked, "text": text})
    return tuple(dict.fromkeys(one.strip() for one in reply.claims if one.strip()))
