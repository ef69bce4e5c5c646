"""Verifying which numbered claims some texts support, contradict or do not mention, in one model call."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import chain, repeat
from typing import Any

from pydantic import JsonValue

from judges.catalogue.model_judge import ModelJudge
from judges.catalogue.parts.items import (
    Marks,
    Support,
    Supports,
    bullets,
    numbered_items,
    one_each,
    yes_no_verdict,
)
from judges.catalogue.parts.needed import question_of
from judges.prompting.questions import Question
from judges.requests import Ask
from judges.sample import Sample
from judges.verdict import Verdict

SUPPORT: Question[Any] = Question(prompt="support", reply=Supports, compat=Marks, shared=True)
"""Asks whether `contexts` support or contradict each of `claims`, or say nothing of it; in compat 1 or 0."""


def verify_claims(
    judge: ModelJudge,
    sample: Sample,
    premises: Sequence[JsonValue],
    claims: Sequence[str],
    *,
    all_needed: bool = True,
    with_question: bool = False,
) -> Generator[Any, Any, list[Verdict]]:
    """Verify claims by some texts, with `yield from`; see `support_request` and `support_verdicts`."""
    reply = yield support_request(
        judge, sample, premises, claims, all_needed=all_needed, with_question=with_question
    )
    return support_verdicts(claims, reply)


def support_request(
    judge: ModelJudge,
    sample: Sample,
    premises: Sequence[JsonValue],
    claims: Sequence[str],
    *,
    all_needed: bool = True,
    with_question: bool = False,
) -> Ask:
    """Return the request to verify claims by some texts.

    The judge must hold the question `SUPPORT`. A reply that leaves a claim out is asked for again if `all_needed`;
    in compat it never is. `with_question` shows the question, too, where claims or texts may be as short as
    "In 1889.", which says nothing without it.
    """
    question = question_of(sample) if with_question else {}
    data = {**question, "contexts": list(premises), "claims": numbered_items(claims, called="claim")}
    return judge.request(
        SUPPORT, sample, data, check=one_each(len(claims)) if all_needed and not judge.compat else None
    )


def support_verdicts(texts: Sequence[str], reply: Supports | Marks) -> list[Verdict]:
    """Return the verdict on each text; a text without one is not supported.

    Marks are taken in their order, as the references do; those beyond the texts have no subject.
    """
    if isinstance(reply, Marks):
        return [yes_no_verdict(*pair) for pair in zip(chain(texts, repeat("")), reply.items, strict=False)]
    by_number = {item.number: item for item in reply.items}
    return [_support_verdict(text, by_number.get(number)) for number, text in enumerate(texts, 1)]


def support_verdict(text: str, support: Support) -> Verdict:
    """Return the verdict on one text; its value is supported, contradicted or absent."""
    return Verdict.checked(
        support.verdict == "supported", value=support.verdict, subject=text, rationale=support.reason
    )


def support_feedback(
    judge: ModelJudge, sample: Sample, items: Iterable[Verdict], *, called: str, absent: str
) -> str:
    """Return feedback that lists contradicted texts, then unsupported ones.

    Args:
        judge: The judge whose phrases `contradicted` and `absent` are used.
        sample: The sample, which determines the language.
        items: The verdicts on the texts; those that passed are left out.
        called: The placeholder of the texts in both phrases.
        absent: The phrase for texts that nothing supports.
    """
    failed = [item for item in items if not item.passed]
    texts_by_phrase = {
        "contradicted": [item.subject for item in failed if item.value == "contradicted"],
        absent: [item.subject for item in failed if item.value != "contradicted"],
    }
    return "\n".join(
        judge.say(phrase, sample, **{called: bullets(texts)}) for phrase, texts in texts_by_phrase.items() if texts
    )


def _support_verdict(text: str, support: Support | None) -> Verdict:
    if support is None:
        return Verdict.checked(False, subject=text, detail="no verdict was given")  # noqa: FBT003 - the verdict
    return support_verdict(text, support)
