"""Verifying: which numbered claims some texts bear out, contradict, or do not speak of, in one model call."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from itertools import chain, repeat
from typing import Any

from pydantic import JsonValue

from judges.catalogue.model_judge import ModelJudge
from judges.catalogue.parts.items import Marks, Support, Supports, bullets, numbered, one_each, yes_or_no
from judges.prompting.questions import Question
from judges.requests import Ask, put
from judges.sample import Sample
from judges.verdict import Verdict

SUPPORT: Question[Any] = Question(prompt="support", reply=Supports, compat=Marks, shared=True)
"""Find where each of `claims` stands by `contexts`: supported, contradicted or absent; in compat 1 or 0."""


def verify_claims(
    judge: ModelJudge,
    sample: Sample,
    premises: Sequence[JsonValue],
    claims: Sequence[str],
    *,
    all_needed: bool = True,
) -> Generator[Any, Any, list[Verdict]]:
    """Verify claims by some texts, with `yield from`: ask as `support_request`, and read as `support_verdicts`."""
    ask = support_request(judge, sample, premises, claims, all_needed=all_needed)
    reply: Any = yield from put(ask.schema, ask)
    return support_verdicts(claims, reply)


def support_request(
    judge: ModelJudge,
    sample: Sample,
    premises: Sequence[JsonValue],
    claims: Sequence[str],
    *,
    all_needed: bool = True,
) -> Ask:
    """Write the question where claims stand by some texts.

    The judge must hold the question `SUPPORT`. A reply that leaves a claim out is asked for again if `all_needed`;
    in compat it never is.
    """
    data: dict[str, JsonValue] = {"contexts": list(premises), "claims": numbered(claims, called="claim")}
    return judge.request(
        SUPPORT, sample, data, check=one_each(len(claims)) if all_needed and not judge.compat else None
    )


def support_verdicts(texts: Sequence[str], reply: Supports | Marks) -> list[Verdict]:
    """Give the verdict on each text; one without any is not supported.

    Marks count as they come, as the references count them: those beyond the texts are about none.
    """
    if isinstance(reply, Marks):
        return [yes_or_no(*one) for one in zip(chain(texts, repeat("")), reply.items, strict=False)]
    found = {one.number: one for one in reply.items}
    return [_support_verdict(text, found.get(number)) for number, text in enumerate(texts, 1)]


def support_verdict(text: str, support: Support) -> Verdict:
    """Give the verdict on one text, with where it stands as its value."""
    return Verdict.checked(
        support.verdict == "supported", value=support.verdict, subject=text, rationale=support.reason
    )


def support_feedback(
    judge: ModelJudge, sample: Sample, items: Iterable[Verdict], *, called: str, absent: str
) -> str:
    """Name the texts that are contradicted, and then those that nothing supports.

    Args:
        judge: Who says it, by its phrases `contradicted` and `absent`.
        sample: What it is said of.
        items: The verdicts on the texts; those that passed are left out.
        called: The placeholder of the texts in both phrases.
        absent: The phrase for texts that nothing supports.
    """
    failed = [one for one in items if not one.passed]
    told = {
        "contradicted": [one.subject for one in failed if one.value == "contradicted"],
        absent: [one.subject for one in failed if one.value != "contradicted"],
    }
    return "\n".join(
        judge.say(phrase, sample, **{called: bullets(texts)}) for phrase, texts in told.items() if texts
    )


def _support_verdict(text: str, support: Support | None) -> Verdict:
    if support is None:
        return Verdict.checked(False, subject=text, detail="no verdict was given")  # noqa: FBT003 - what it says
    return support_verdict(text, support)
