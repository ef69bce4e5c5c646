"""Claims of a text and their support by evidence, as numbered items of which each has a verdict."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from textwrap import shorten
from typing import Any, Literal, Protocol, Self, TypeVar

from pydantic import Field, JsonValue

from judges.catalogue.metric import Metric, ModelJudge, all_of
from judges.catalogue.parts.fields import question_of
from judges.catalogue.parts.text import for_retriever
from judges.prompting.prompts import Question, ReplyCheck, ReplySchema
from judges.requests import Ask
from judges.sample import Sample
from judges.verdict import LOWEST, Verdict

_PASSING = 3
"""The lowest rating of an answer that passes."""

_NUMBER = "whole number of the item"
_REASON = "text: why, before the verdict"

_Standing = Literal["supported", "contradicted", "absent"]


class YesNo(ReplySchema):
    """A yes or no on one item."""

    number: int = Field(description=_NUMBER)
    reason: str = Field(description=_REASON)
    verdict: bool = Field(description="true or false")


class YesNos(ReplySchema):
    """A yes or no on each item."""

    items: list[YesNo] = Field(description="list of objects, exactly one for each number, in their order")


class _Support(ReplySchema):
    """Where one item stands: supported, contradicted or absent."""

    number: int = Field(description=_NUMBER)
    reason: str = Field(description=_REASON)
    verdict: _Standing = Field(description="one of supported, contradicted, absent")


class Supports(ReplySchema):
    """Where each item stands: supported, contradicted or absent."""

    items: list[_Support] = Field(description="list of objects, exactly one for each number, in their order")


class _Mark(ReplySchema):
    """A mark on one item, as the references take it: a number that counts as yes unless it is 0."""

    number: int = Field(description=_NUMBER)
    reason: str = Field(description=_REASON)
    verdict: int = Field(description="1 for yes (supported), 0 for no")


class _Marks(ReplySchema):
    """Marks on items, as the references take them: however many there are."""

    items: list[_Mark] = Field(description="list of objects, exactly one for each number, in their order")

    @classmethod
    def from_reply(cls, other: Any) -> Self:
        """Convert supports into marks: 1 for supported, else 0."""
        return cls(
            items=[
                _Mark(number=item.number, reason=item.reason, verdict=int(item.verdict == "supported"))
                for item in other.items
            ]
        )


class _Numbered(Protocol):
    @property
    def number(self) -> int: ...


N = TypeVar("N", bound=_Numbered)


def numbered_items(texts: Iterable[str], *, called: str) -> list[JsonValue]:
    """Return texts numbered from 1, as objects with the keys `number` and the value of `called`."""
    return [{"number": number, called: text} for number, text in enumerate(texts, 1)]


@dataclass(frozen=True)
class _OneEach:
    """Checks that lists of a reply have exactly one item for each of their numbers; see `one_each`.

    Args:
        sizes: How many items each list has, by its field.
    """

    sizes: Mapping[str, int]

    def __call__(self, reply: Any) -> str | None:
        faults = (_fault_in(getattr(reply, name), count, called=name) for name, count in self.sizes.items())
        return next(filter(None, faults), None)


def one_each(count: int | None = None, **counts: int) -> ReplyCheck:
    """Return a check that a reply's lists have exactly one item for each number from 1 on.

    Where an endpoint enforces a schema, it enforces this, too.

    Args:
        count: How many items the list `items` has.
        counts: How many items other lists have, by their fields.
    """
    return _OneEach(counts if count is None else {"items": count, **counts})


def _fault_in(items: Sequence[_Numbered], count: int, *, called: str) -> str | None:
    """Describe the fault in the numbers of a list; None if each from 1 to `count` is there once."""
    numbers = {item.number for item in items}
    missing = [str(number) for number in range(1, count + 1) if number not in numbers]
    if missing:
        return f"{called}: no verdict for number {shorten(', '.join(missing), 60, placeholder=' ...')}"
    if len(items) > count:
        return f"{called}: {len(items)} verdicts for {count} numbers; exactly one for each is wanted"
    return None


def in_order(items: Iterable[N]) -> list[N]:
    """Sort items by their numbers."""
    return sorted(items, key=lambda item: item.number)


def yes_no_verdict(text: str, reply: YesNo | _Mark) -> Verdict:
    """Return the verdict on one item; a mark other than 0 is a yes."""
    return Verdict.checked(bool(reply.verdict), subject=text, rationale=reply.reason)


def non_blank(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that are not blank, stripped."""
    return tuple(text.strip() for text in texts if text.strip())


def share(verdicts: Sequence[Verdict]) -> float:
    """Return the share of verdicts that passed: passed / all."""
    return sum(bool(verdict.passed) for verdict in verdicts) / len(verdicts)


def grounded_verdict(judge: ModelJudge, items: Sequence[Verdict], **fields: Any) -> Verdict:
    """Return the verdict on an answer by what supports its parts; its score is the share that is supported.

    It passes at the judge's threshold, and, except with `variant="compat"`, never with a part that the evidence
    contradicts: a share would forgive a false statement among enough true ones. The rating follows: 3 or 4 where
    it passes, 1 or 2 where not.

    Args:
        judge: The judge.
        items: The verdicts on the parts; the value of a contradicted one is `contradicted`.
        fields: Further fields of the verdict.
    """
    verdict = judge.verdict(share(items), rationale=reasons(items), items=tuple(items), **fields)
    is_contradicted = not judge.compat and any(item.value == "contradicted" for item in items)
    passed = bool(verdict.passed) and not is_contradicted
    rating = verdict.rating or LOWEST
    followed = max(rating, _PASSING) if passed else min(rating, _PASSING - 1)
    return verdict.model_copy(update={"passed": passed, "rating": followed})


def reasons(verdicts: Iterable[Verdict]) -> str:
    """Join the rationales of the items that failed, or of all if none did."""
    items = list(verdicts)
    failed = [item for item in items if item.passed is False]
    return "\n".join(f"{item.subject}: {item.rationale}" for item in failed or items if item.rationale)


def failed_for_retriever(judge: Metric, sample: Sample, items: Iterable[Verdict], phrase: str, field: str) -> str:
    """Return feedback for the retriever, a phrase with the failed items in its field; empty where none failed."""
    failed = [item.subject for item in items if not item.passed]
    return for_retriever(judge, sample, listed_feedback(judge, sample, {phrase: failed}, field)) if failed else ""


def listed_feedback(
    judge: Metric, sample: Sample, texts_by_phrase: Mapping[str, Iterable[str]], field: str, *, longest: int = 300
) -> str:
    """Return feedback: each phrase with its texts listed in the field, without the phrases that have no texts."""
    listed = ((phrase, bullets(texts, longest=longest)) for phrase, texts in texts_by_phrase.items())
    return "\n".join(judge.say(phrase, sample, **{field: texts}) for phrase, texts in listed if texts)


def bullets(texts: Iterable[str], *, most: int = 20, longest: int = 300) -> str:
    """List texts one per line, each cut to `longest` characters; those beyond `most` are only counted."""
    items = list(texts)
    lines = [f"- {cut(item, most=longest)}" for item in items[:most]]
    return "\n".join(lines + ([f"- ... (+{len(items) - most})"] if len(items) > most else []))


def cut(text: str, *, most: int = 240) -> str:
    """Return a text as one line of at most `most` characters, in scripts with and without blanks."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most and len(text) <= 4 * most else f"{line[: most - 4]} ..."


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


SUPPORT: Question[Any] = Question(prompt="support", reply=Supports, compat=_Marks, shared=True)
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


def support_verdicts(texts: Sequence[str], reply: Supports | _Marks) -> list[Verdict]:
    """Return the verdict on each text; a text without one is not supported.

    Marks are taken in their order, as the references do; those beyond the texts have no subject.
    """
    if isinstance(reply, _Marks):
        return [yes_no_verdict(*pair) for pair in zip(chain(texts, repeat("")), reply.items, strict=False)]
    by_number = {item.number: item for item in reply.items}
    return [_support_verdict(text, by_number.get(number)) for number, text in enumerate(texts, 1)]


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
    return listed_feedback(judge, sample, texts_by_phrase, called)


def _support_verdict(text: str, support: _Support | None) -> Verdict:
    if support is None:
        return Verdict.checked(False, subject=text, detail="no verdict was given")  # noqa: FBT003 - the verdict
    return Verdict.checked(
        support.verdict == "supported", value=support.verdict, subject=text, rationale=support.reason
    )
