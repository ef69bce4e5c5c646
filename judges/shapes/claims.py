"""Decomposing: a text becomes claims that stand alone, one model call, shared by all judges of a sample."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pydantic import Field, JsonValue

from judges.asking import Asking, Question, Reply, all_of
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
    return _stripped((yield from judge.put(CLAIMS, sample, _shown(sample, text))))


def claims_in_each(
    judge: Asking, sample: Sample, *texts: str, question: Question[Claims] = CLAIMS
) -> Generator[Any, Any, tuple[tuple[str, ...], ...]]:
    """Break several texts into their claims at once, with `yield from`; otherwise as `claims_in`."""
    requests = {one: judge.asking(question, sample, _shown(sample, one)) for one in texts if one.strip()}
    replies = yield from judge.put_all(list(requests.values()))
    found = dict(zip(requests, map(_stripped, all_of(replies)), strict=True))
    return tuple(found.get(one, ()) for one in texts)


def _shown(sample: Sample, text: str) -> dict[str, JsonValue]:
    asked: dict[str, JsonValue] = {"question": question_in(sample)} if sample.question.strip() else {}
    return {**asked, "text": text}


def _stripped(reply: Claims) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.strip() for one in reply.claims if one.strip()))
