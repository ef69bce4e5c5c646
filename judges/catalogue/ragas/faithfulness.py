"""Whether the contexts support an answer, after ragas: its claims, quotations, and what is noise in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Unpack, get_args
from unicodedata import normalize

from pydantic import Field, JsonValue

from judges.catalogue.metric import ComputedMetric, MetricSettings, ModelJudge, ModelSettings, all_of
from judges.catalogue.parts.claims import (
    CLAIMS,
    SUPPORT,
    YesNo,
    claims_in,
    claims_in_each,
    grounded_verdict,
    in_order,
    listed_feedback,
    numbered_items,
    one_each,
    reasons,
    share,
    support_feedback,
    support_request,
    support_verdicts,
    verify_claims,
)
from judges.catalogue.parts.fields import (
    answer_in,
    contexts_in,
    premises_in,
    reads_tool_results,
    reference_in,
)
from judges.catalogue.parts.similarity import Scorer, score_pairs
from judges.catalogue.parts.text import count_characters, count_words, sentences
from judges.errors import CannotJudge, ConfigurationError, unfit
from judges.models.providers.minilm_and_hhem import HHEM
from judges.prompting.prompts import Question, ReplySchema
from judges.requests import Deliberation
from judges.sample import Sample
from judges.settings import Needed
from judges.verdict import Verdict

_Missing = Literal["unscored", "unsupported"]


class Faithfulness(ModelJudge, entry="ragas.faithfulness", pack="faithfulness"):
    """Judge what share of the answer's claims the retrieved contexts, and what tools returned, support.

    The answer is broken into claims, and each claim is classified as supported, contradicted or absent: two calls.
    Score = supported / claims. It passes at `threshold`, and never with a contradicted claim: absent ones are
    forgiven by their share. No claims (a greeting, a refusal) is unscored, `no_claims`, after one call.

    With `variant="compat"` the score is ragas': marks counted as yes / marks returned, however many there are.

    Raises:
        ConfigurationError: If a setting is out of its range, or `variant="compat"` is to count tool results.
    """

    def __init__(
        self,
        model: object = None,
        *,
        missing: _Missing = "unscored",
        tool_results: bool | None = None,
        **settings: Unpack[ModelSettings],
    ) -> None:
        self._missing = missing
        super().__init__(model, questions=(CLAIMS, SUPPORT), **settings)
        self._tool_results = reads_tool_results(tool_results, compat=self.compat)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Break the answer into claims, and verify each."""
        answer = answer_in(sample)
        contexts = premises_in(sample, tool_results=self._tool_results, blank=True)
        claims = yield from claims_in(self, sample, answer)
        if not claims:
            return Verdict.without_score("no_claims", "the answer makes no claim")
        items = yield from verify_claims(self, sample, contexts, claims, all_needed=self._missing == "unscored")
        if not items:
            return Verdict.without_score("no_claims", "no claim was verified")
        return self.conclude(sample, items)

    def conclude(self, sample: Sample, items: Sequence[Verdict]) -> Verdict:
        """Return the verdict on the answer; the feedback names the claims that nothing supports."""
        advice = support_feedback(self, sample, items, called="claims", absent="unsupported")
        return grounded_verdict(self, items, feedback=advice)


_HALF = 0.5
_ROUNDING = 1e-6
"""How far a 32-bit probability may lie outside 0 to 1."""


_AnswerSplit = Literal["claims", "sentences"]


class FaithfulnessWithHHEM(ModelJudge, entry="ragas.faithfulness_with_hhem", pack="faithfulness"):
    """Judge what share of the answer's statements a classifier finds supported by the retrieved contexts.

    Each pair (contexts joined by line breaks, statement) gets a probability; score = statements whose probability
    is at least `threshold_probability` / statements. No statements is unscored, `no_claims`.

    With `variant="compat"` a probability is rounded as ragas does it, so that 0.5 itself counts as unsupported.
    """

    def __init__(
        self,
        model: Annotated[object, Needed(lambda settings: settings.get("split") != "sentences")] = None,
        *,
        classifier: Annotated[Scorer | str | Path | None, Needed()] = None,
        device: str | None = None,
        split: _AnswerSplit = "claims",
        threshold_probability: float = _HALF,
        batch_size: int = 10,
        **settings: Unpack[ModelSettings],
    ) -> None:
        classifier = _classifier(classifier, device)
        if settings.get("variant") == "compat" and threshold_probability != _HALF:
            raise ConfigurationError(
                "with variant='compat' probabilities are rounded; leave threshold_probability out"
            )
        self._classifier = classifier
        self._split = split
        self._minimum = threshold_probability
        self._batch_size = batch_size
        super().__init__(model, questions=(CLAIMS,) if split == "claims" else (), **settings)

    @property
    def calls(self) -> str:
        """Model calls for one sample, set up as it is, as a formula."""
        return "1" if self._split == "claims" else "0"

    def _refuses_non_answers(self) -> bool:
        """Return True, since a classifier is asked where no model is, but in compat or with the gate off."""
        return self._gate and not self.compat

    def deliberate(self, sample: Sample) -> Deliberation:
        """Break the answer into statements, and classify each."""
        answer, contexts = answer_in(sample), contexts_in(sample)
        if self._split == "claims":
            statements = yield from claims_in(self, sample, answer)
        else:
            statements = sentences(answer)
        if not statements:
            return Verdict.without_score("no_claims", "the answer makes no statement")
        premise = "\n".join(contexts)
        probabilities = yield from self._consistencies([(premise, one) for one in statements], sample)
        items = tuple(self._item(*pair) for pair in zip(statements, probabilities, strict=True))
        wrong = [item.subject for item in items if not item.passed]
        feedback = listed_feedback(self, sample, {"unsupported": wrong}, "claims")
        return self.verdict(share(items), rationale=reasons(items), feedback=feedback, items=items)

    def _consistencies(self, pairs: list[tuple[str, str]], sample: Sample) -> Generator[Any, Any, list[float]]:
        """Return the probability of each pair; batches run in turn, as classifiers serve one caller at a time."""
        probabilities: list[float] = []
        for start in range(0, len(pairs), self._batch_size):
            probabilities += yield from score_pairs(
                self._classifier, pairs[start : start + self._batch_size], sample
            )
        outside = [one for one in probabilities if not -_ROUNDING <= one <= 1 + _ROUNDING]
        if outside:
            raise CannotJudge("invalid_output", f"the classifier gave {outside[0]}; a probability is wanted")
        return [min(1.0, max(0.0, one)) for one in probabilities]

    def _item(self, statement: str, probability: float) -> Verdict:
        supported = bool(round(probability)) if self.compat else probability >= self._minimum
        return Verdict.checked(supported, value=probability, subject=statement, rationale=f"{probability:.3f}")


def _classifier(classifier: Any, device: str | None) -> Scorer:
    """Return the function that classifies pairs; of a folder, the model in it on a device.

    Raises:
        ConfigurationError: If it is neither, or a function is to run on a device.
    """
    if isinstance(classifier, str | Path):
        return HHEM(classifier, device=device or "cpu")
    if not callable(classifier):
        raise unfit(
            "classifier is a function from pairs (premise, hypothesis) to probabilities, such as "
            "judges.HHEM(folder), or the folder of a model",
            classifier,
        )
    if device is not None:
        raise ConfigurationError(
            "device= is for a classifier given by its folder; a function runs where it was made: "
            "judges.HHEM(folder, device=...)"
        )
    scorer: Scorer = classifier
    return scorer


_LETTER = r"[^\W_]"

_PARAGRAPH = r"\n[^\S\n]*\n"

_BEGINS = r"(?=[^\s.,;:!?)\]»›])"


class _Kind(NamedTuple):
    """A kind of quotation: its opening mark, and alternative patterns for its end, tried in turn."""

    opens: re.Pattern[str]
    ends: tuple[re.Pattern[str], ...]


def _kind(opens: str, closes: str, *, instead: str = "", ends: str = _PARAGRAPH) -> _Kind:
    """Return a kind that ends at its closing mark, another opening or `ends`; `instead` may also close it."""
    patterns = (f"(?P<closes>{mark})|{opens}|{ends}" for mark in (closes, instead) if mark)
    return _Kind(re.compile(opens), tuple(map(re.compile, patterns)))


_STRAIGHT = _Kind(
    re.compile(r"(?<!\d)[\"＂]"),  # after a number it means inches
    (re.compile(r"(?P<closes>[\"＂”])|“|\n"), re.compile(r"(?P<closes>[\"＂])|\n")),
)

_KINDS = (
    _STRAIGHT,
    _kind("[“〝]", "[”〞]", instead='"'),
    _kind("„", "[“”]", instead='"'),
    _kind(r"(?<!\w)”(?=\S)", r"(?<=\S)”"),  # Swedish and Finnish
    _kind(rf"(?<!\w)»{_BEGINS}", r"(?<=\S)[«»](?!\w)"),  # German and Danish
    _kind("«", "»"),
    _kind(rf"(?<!\w)›{_BEGINS}", r"(?<=\S)[‹›](?!\w)"),
    _kind("‹", "›"),
    _kind("「", "」"),
    _kind("『", "』"),
    _kind("《", "》"),
    _kind("﹁", "﹂"),
    _kind(r"(?<!\w)״(?=\S)", r"(?<=\S)״(?!\w)"),  # Hebrew
    _kind("‚", rf"[‘’](?!{_LETTER})"),
    _kind(rf"(?<!{_LETTER})[‘'](?=\S)", rf"(?<=\S)[’'](?!{_LETTER})", ends=r"\n"),  # no apostrophe in a word
)

_OPENING = re.compile("|".join(f"({kind.opens.pattern})" for kind in _KINDS))

_QUOTATION_MARKS = re.compile("[“”„«»‹›「」『』《》〝〞﹁﹂״＂\"‘’‚']")

_OMISSION = re.compile(r" ?[\[(（]? ?(?:\.{3,}|…+) ?[\])）]? ?")

_QUOTATION_ENDS = " .,;:!?。，；：！？、"

_HAN = r"\u3001-\u303f\u3040-\u30ff\u3400-\u9fff\uff01-\uff65"

_BLANK_IN_CHINESE = re.compile(rf"(?<=[{_HAN}]) | (?=[{_HAN}])")


def _quoted_in(text: str) -> tuple[str, ...]:
    """Return the texts between quotation marks, outermost ones only.

    Apostrophes inside words and inch signs are not quotation marks. A quotation ends within its paragraph, and one
    in straight marks within its line.
    """
    quoted: list[str] = []
    place = 0
    while opening := _OPENING.search(text, place):
        place = opening.end()
        kind = _KINDS[(opening.lastindex or 1) - 1]
        matches = (pattern.search(text, place) for pattern in kind.ends)
        closing = next((match for match in matches if match and match["closes"]), None)
        if closing is not None:
            quoted.append(text[place : closing.start()].strip())
            place = closing.end()
    return tuple(quotation for quotation in quoted if quotation)


def _plain_text(text: str, *, casefold: bool = True) -> str:
    """Return a text without quotation marks, width-normalised, with single blanks, and none beside Chinese."""
    text = normalize("NFKC", _QUOTATION_MARKS.sub("", text))
    text = _BLANK_IN_CHINESE.sub("", " ".join(text.split()))
    return text.casefold() if casefold else text


def _occurs_in(quotation: str, source: str, *, casefold: bool = True) -> bool:
    """Return whether a quotation occurs in a text from `_plain_text`; parts around `...` must occur in order."""
    begin = 0
    for part in _OMISSION.split(_plain_text(quotation, casefold=casefold)):
        words = part.strip(_QUOTATION_ENDS)
        place = source.find(words, begin)
        if place < 0:
            return False
        begin = place + len(words)
    return True


_MARK = "[\"\u201c\u201d\u201e\u201f'\u2018\u2019`\u00b4]"
_BETWEEN_ANY_MARKS = re.compile(f"{_MARK}(.*?){_MARK}")


class QuotedSpansAlignment(ComputedMetric, entry="ragas.quoted_spans_alignment", pack="quoted_spans"):
    """Judge whether the answer's quotations occur in the contexts, word for word.

    Score = quotations found / quotations. Only those of at least `min_span_words` words, or of
    `min_span_characters` characters of Chinese or another script without blanks, count. Blanks, closing
    punctuation and, by default, letter case are ignored; `...` matches omitted text.

    With `variant="compat"` it is ragas' number: any two marks, apostrophes included, enclose a quotation, words
    are separated by blanks, and an answer that quotes nothing scores 1.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    def __init__(
        self,
        *,
        casefold: bool = True,
        min_span_words: int = 3,
        min_span_characters: int = 4,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        self._casefold = casefold
        self._words = min_span_words
        self._characters = min_span_characters

    def compute(self, sample: Sample) -> Verdict:
        """Look for each quotation."""
        answer = answer_in(sample)
        spans = self._between_any_marks(answer) if self.compat else self._quotations(answer)
        if not spans:
            return self._nothing_quoted()
        occurs = self._as_ragas(sample) if self.compat else self._in_contexts(sample)
        items = tuple(Verdict.checked(occurs(span), subject=span) for span in spans)
        astray = [item.subject for item in items if not item.passed]
        feedback = listed_feedback(self, sample, {"astray": astray}, "quotations")
        return self.verdict(share(items), rationale=feedback, feedback=feedback, items=items)

    def _nothing_quoted(self) -> Verdict:
        reason = "the answer quotes nothing"
        return self.verdict(1.0, rationale=reason) if self.compat else Verdict.without_score("no_claims", reason)

    def _quotations(self, answer: str) -> Sequence[str]:
        return [
            one
            for one in _quoted_in(answer)
            if count_words(one) >= self._words or count_characters(one) >= self._characters
        ]

    def _in_contexts(self, sample: Sample) -> Callable[[str], bool]:
        source = _plain_text(" ".join(contexts_in(sample)), casefold=self._casefold)
        return lambda span: _occurs_in(span, source, casefold=self._casefold)

    def _between_any_marks(self, answer: str) -> Sequence[str]:
        spans = [one.strip() for one in _BETWEEN_ANY_MARKS.findall(answer)]
        return [one for one in spans if len(one.split()) >= self._words]

    def _as_ragas(self, sample: Sample) -> Callable[[str], bool]:
        if sample.retrieved_contexts is None:
            raise CannotJudge("no_contexts", "there are no retrieved contexts to look at")
        source = self._lower(" ".join(sample.retrieved_contexts))
        return lambda span: self._lower(span) in source

    def _lower(self, text: str) -> str:
        return re.sub(r"\s+", " ", text).strip().lower() if self._casefold else text


_NoiseMode = Literal["relevant", "irrelevant", "hallucination"]
Origin = Literal["correct", "relevant", "irrelevant", "unsupported"]


class _Matrix(ReplySchema):
    """What one context bears out, of the claims of the reference and of the answer."""

    reference_claims: list[YesNo] = Field(
        description="list of objects, exactly one for each number: true if the context supports the claim"
    )
    answer_claims: list[YesNo] = Field(
        description="list of objects, exactly one for each number: true if the context supports the claim"
    )


_MATRIX: Question[_Matrix] = Question(prompt="noise_sensitivity", reply=_Matrix, shared=True)


@dataclass(frozen=True)
class _ClaimSupport:
    """Which claims each context supports, by context, then by claim; which answer claims the reference supports.

    Args:
        of_reference: Support of the reference's claims by each context.
        of_answer: Support of the answer's claims by each context.
        correct: Support of the answer's claims by the reference.
    """

    of_reference: Sequence[Sequence[bool]]
    of_answer: Sequence[Sequence[bool]]
    correct: Sequence[bool]

    def origins(self) -> list[Origin]:
        """Return for each claim of the answer whether it is correct, and if not, where it comes from.

        A context is relevant if it supports any claim of the reference. A claim that a relevant context supports
        comes from a relevant context, whatever else supports it.
        """
        return [self._origin(number) for number in range(len(self.correct))]

    def _origin(self, number: int) -> Origin:
        if self.correct[number]:
            return "correct"
        relevance = {
            any(of_reference)
            for of_reference, of_answer in zip(self.of_reference, self.of_answer, strict=True)
            if of_answer[number]
        }
        if True in relevance:
            return "relevant"
        return "irrelevant" if relevance else "unsupported"


class NoiseSensitivity(ModelJudge, entry="ragas.noise_sensitivity", pack="noise_sensitivity"):
    """Judge how many claims of the answer are wrong because of what was retrieved; low is good.

    A claim of the answer is wrong if the reference does not support it. It comes from a relevant context (one that
    supports any claim of the reference), else from an irrelevant one, else from nowhere. Value = claims of the
    kind that `mode` names / claims of the answer; the three kinds add up to the share of wrong claims. The score
    is 1 - value.

    Both texts are broken into claims, one call for each context finds which claims of both it supports, and one
    more which claims of the answer the reference supports: 3 + n calls, which all modes share.

    With `variant="compat"` each context is asked about twice, as in ragas: 3 + 2n calls, the same formula.
    """

    def __init__(
        self, model: object = None, *, mode: _NoiseMode = "relevant", **settings: Unpack[ModelSettings]
    ) -> None:
        self._mode = mode
        compat = settings.get("variant") == "compat"
        questions: tuple[Question[Any], ...] = (CLAIMS, SUPPORT) if compat else (CLAIMS, _MATRIX, SUPPORT)
        super().__init__(model, questions=questions, **settings)

    @property
    def calls(self) -> str:
        """Model calls for one sample, as a formula: one for each context, or two in compat."""
        return "3 + 2n" if self.compat else "3 + n"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Break both texts into claims, and find what supports them."""
        answer, reference, contexts = answer_in(sample), reference_in(sample), contexts_in(sample)
        answer_claims, reference_claims = yield from claims_in_each(self, sample, answer, reference)
        if not answer_claims:
            raise CannotJudge("no_claims", "the answer makes no claim")
        if not reference_claims:  # no context could be relevant, and an answer of noise alone would look perfect
            raise CannotJudge("no_claims", "the reference makes no claim")
        find_support = self._compat_support if self.compat else self._support
        support: _ClaimSupport = yield from find_support(
            sample, contexts, reference, (reference_claims, answer_claims)
        )
        origins = support.origins()
        value = origins.count("unsupported" if self._mode == "hallucination" else self._mode) / len(origins)
        items = tuple(
            Verdict.checked(origin == "correct", value=origin, subject=claim)
            for claim, origin in zip(chain(answer_claims, repeat("")), origins, strict=False)
        )
        return self.verdict(
            1 - value,
            value=value,
            rationale="\n".join(f"{item.value}: {item.subject}" for item in items),
            feedback=self._advice(sample, items) if value else "",
            items=items,
            detail=", ".join(f"{origins.count(origin)} {origin}" for origin in get_args(Origin)),
        )

    def _support(
        self, sample: Sample, contexts: Sequence[str], reference: str, claims: tuple[Sequence[str], Sequence[str]]
    ) -> Any:
        reference_claims, answer_claims = claims
        lists: dict[str, JsonValue] = {
            "reference_claims": numbered_items(reference_claims, called="claim"),
            "answer_claims": numbered_items(answer_claims, called="claim"),
        }
        check = one_each(reference_claims=len(reference_claims), answer_claims=len(answer_claims))
        requests = [self.request(_MATRIX, sample, {"context": one, **lists}, check=check) for one in contexts]
        replies = yield from self.ask_all(
            [*requests, support_request(self, sample, [reference], answer_claims, with_question=True)]
        )
        *matrices, last = all_of(replies)
        return _ClaimSupport(
            [[one.verdict for one in in_order(matrix.reference_claims)] for matrix in matrices],
            [[one.verdict for one in in_order(matrix.answer_claims)] for matrix in matrices],
            [bool(one.passed) for one in support_verdicts(answer_claims, last)],
        )

    def _compat_support(
        self, sample: Sample, contexts: Sequence[str], reference: str, claims: tuple[Sequence[str], Sequence[str]]
    ) -> Any:
        pairs = [(context, side) for context in contexts for side in claims]
        requests = [support_request(self, sample, [text], side) for text, side in pairs]
        requests.append(support_request(self, sample, [reference], claims[1], with_question=True))
        replies = all_of((yield from self.ask_all(requests)))
        marks = [[bool(one.verdict) for one in reply.items] for reply in replies]
        of_reference, of_answer, correct = marks[:-1:2], marks[1:-1:2], marks[-1]
        if {len(one) for one in of_answer} != {len(correct)} or len({len(one) for one in of_reference}) > 1:
            raise CannotJudge("invalid_output", "the model gave lists of verdicts of different lengths")
        if not (correct and of_reference[0]):
            raise CannotJudge("no_claims", "no claim was verified")
        return _ClaimSupport(of_reference, of_answer, correct)

    def _advice(self, sample: Sample, items: Sequence[Verdict]) -> str:
        wrong = {kind: [one.subject for one in items if one.value == kind] for kind in get_args(Origin)[1:]}
        return listed_feedback(self, sample, wrong, "claims")
