"""What an answer rests on: claims that nothing supports, and the sources that it cites."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from unicodedata import normalize

from pydantic import JsonValue

from judges.catalogue.metric import ModelJudge
from judges.catalogue.parts import claims
from judges.catalogue.parts.fields import answer_in, contexts_in, question_of
from judges.catalogue.parts.text import sentences
from judges.catalogue.ragas.faithfulness import Faithfulness
from judges.prompting.prompts import Question
from judges.requests import Deliberation
from judges.sample import Sample
from judges.verdict import Verdict


class Hallucination(Faithfulness, entry="hallucination"):
    """Judge what share of the answer's claims is supported by nothing at hand: no context, and no tool result.

    The claims and their verdicts are those of `ragas.faithfulness`; a panel of both asks for them once.
    Value = contradicted or absent claims / claims, where low is good; score = 1 - value. It passes at `threshold`,
    1 unless given: when nothing is made up. Items say what the evidence contradicts, and what it does not mention.

    Raises:
        ConfigurationError: If a setting is out of its range, or `variant="compat"` is to count tool results.
    """

    pass_mark = 1.0

    def conclude(self, sample: Sample, items: Sequence[Verdict]) -> Verdict:
        """Return the verdict, with the share of claims that nothing supports as its value."""
        advice = claims.support_feedback(self, sample, items, called="claims", absent="unsupported")
        failed = sum(not item.passed for item in items) / len(items)
        return claims.grounded_verdict(self, items, value=failed, feedback=advice)


_SUPPORTING: Question[claims.YesNos] = Question(prompt="citations", reply=claims.YesNos)

_MARK = re.compile(r"\[\^?(?P<inner>[^\[\]\n]{1,80})\](?!\()|【(?P<wide>[^【】\n]{1,80})】")
_RAISED = re.compile(
    r"<sup>\s*\[?(?P<tagged>\d{1,3}(?:\s*[,;]\s*\d{1,3}){0,9})\]?\s*</sup>"
    r"|(?:(?<=[^\W\d_]{3})|(?<=[.,;:!?…)»”\"'。！？]))(?P<small>[¹²³⁰⁴-⁹]{1,2}(?:[,˒][¹²³⁰⁴-⁹]{1,2}){0,9})(?![\w⁻])"
    r"|[(（](?P<named>(?:source|document|doc|источник|документ|来源|文档|文献)s?[ \t.:#№]{0,3}\d{1,3})[)）]",
    re.IGNORECASE,
)
"""Marks in other forms: raised numbers, not powers such as `m²`, and `(source 1)`."""

_OF_A_FILE = re.compile(r"(?:\d{1,3}:(?P<result>\d{1,3})|(?P<number>\d{1,4}))†.*")
"""Marks of OpenAI's file search: `4:0†report.pdf`, whose second number counts the results from 0, or `1†L10`."""

_AFTER_THE_STOP = re.compile(
    r"(?P<stop>[.!?。！？])(?P<marks>(?:[ \t]?(?:\[[^\[\]\n]{1,80}\](?!\()|【[^【】\n]{1,80}】))+)"
)
_NUMBERS = re.compile(r"\d{1,4}(?:\s*[-\u2013]\s*\d{1,4})?(?:\s*[,;]\s*\d{1,4}(?:\s*[-\u2013]\s*\d{1,4})?)*")
_SOURCES = re.compile(
    r"^[^\S\n]*+(?:\[\^?[^\]\n]+\]:.*$|[#*_ ]*+"
    r"(?:sources|references|bibliography|источники|литература|ссылки|来源|参考(?:文献|资料)?)[*_ ]*+[:：]?"
    r"[*_ ]*+$.*)",
    re.IGNORECASE | re.MULTILINE,
)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)
_WORD = re.compile(
    r"(?:source|document|doc|context|ref|источник|документ|来源|文档|文献)s?[ \t.:#№-]*(?=\d)", re.IGNORECASE
)
_EMPTY = re.compile(r"\s*[(（](?:see|cf\.?|см\.?|参见|见)?\s*[)）]", re.IGNORECASE)
_MOST_IN_A_RANGE = 20


@dataclass(frozen=True)
class _Citation:
    """A place where the answer cites a source.

    Args:
        claim: The sentence that it stands in, without the marks.
        mark: The source as the answer names it: a number from 1 in the order of the contexts, or an id.
        source: The text of the source; None if there is no such source.
    """

    claim: str
    mark: str
    source: str | None


class Citations(ModelJudge, entry="citations", pack="citations"):
    """Judge the citations of the answer: present, resolving, supporting.

    Citations are marks such as `[1]`, `[2, 3]`, `[1-3]`, `[^1]`, `[Source 1]`, `(source 1)`, a raised `¹` or
    `【1】`, numbers of the retrieved contexts from 1, `【4:0†name】` of OpenAI's file search, or `[id]` with one
    of their ids. Names of authors (`Smith, 2020`) are none. Score = citations that resolve and support their
    sentence / all citations; 0 where there is none. Each citation is an item.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    pass_mark = 1.0

    questions = (_SUPPORTING,)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Find the citations, look them up, and ask of those that resolve."""
        contexts = contexts_in(sample)
        citations = _citations_in(answer_in(sample), contexts, sample.retrieved_context_ids or ())
        if not citations:
            rationale = "The answer cites no source."
            return self.verdict(0.0, rationale=rationale, feedback=self.say("none", sample))
        resolved = [citation for citation in citations if citation.source is not None]
        replies: Iterator[claims.YesNo] = iter(())
        if resolved:
            data = {**question_of(sample), **_rendered(resolved)}
            reply = yield from self.ask(_SUPPORTING, sample, data, check=claims.one_each(len(resolved)))
            replies = iter(claims.in_order(reply.items))
        items = [
            _unresolved(citation)
            if citation.source is None
            else Verdict.checked(
                (item := next(replies)).verdict, subject=_subject(citation), rationale=item.reason
            )
            for citation in citations
        ]
        return self.verdict(
            claims.share(items),
            items=tuple(items),
            rationale=claims.reasons(items),
            feedback=self._feedback(sample, items),
        )

    def _feedback(self, sample: Sample, items: Sequence[Verdict]) -> str:
        unresolved = [item.subject for item in items if item.value == "unresolved"]
        unsupported = [
            f"{item.subject} - {item.rationale}"
            for item in items
            if not item.passed and item.value != "unresolved"
        ]
        parts = {"unresolved": unresolved, "unsupported": unsupported}
        return claims.listed_feedback(self, sample, parts, "citations", longest=600)


def _citations_in(answer: str, contexts: Sequence[str], ids: Sequence[str]) -> tuple[_Citation, ...]:
    """Return the citations of an answer in their order; a list of sources at its end is none.

    Args:
        answer: The answer.
        contexts: The texts that numbers from 1 stand for.
        ids: The ids of these texts, in the same order; empty without ids.
    """
    by_mark = {str(number): context for number, context in enumerate(contexts, 1)}
    by_mark |= dict(zip(ids, contexts, strict=False))
    prose = _CODE.sub(lambda code: code.group().replace("[", "(").replace("]", ")"), _without_sources(answer))
    moved = _AFTER_THE_STOP.sub(r"\g<marks>\g<stop>", _RAISED.sub(_in_brackets, prose))
    return tuple(
        _Citation(claim=claim, mark=mark, source=by_mark.get(mark))
        for sentence in sentences(moved)
        if (claim := _bare(sentence, by_mark))
        for mark in dict.fromkeys(_marks_in(sentence, by_mark))
    )


def _in_brackets(raised: re.Match[str]) -> str:
    inner = raised["tagged"] or raised["named"] or raised["small"].replace("˒", ",")
    return f" [{normalize('NFKC', inner)}]"


def _without_sources(answer: str) -> str:
    """Return an answer without the list of sources at its end, and without definitions of footnotes."""
    heading = next((match for match in _SOURCES.finditer(answer) if "[" not in match.group()), None)
    return _SOURCES.sub("", answer[: heading.start()] if heading else answer)


def _marks_in(sentence: str, sources: Mapping[str, str]) -> list[str]:
    return [mark for match in _MARK.finditer(sentence) for mark in _marks_of(match, sources)]


def _marks_of(match: re.Match[str], sources: Mapping[str, str]) -> list[str]:
    """Return the sources that a mark names; none if it is no citation, such as `[sic]`."""
    inner = (match["inner"] or match["wide"]).strip()
    if inner in sources:
        return [inner]
    of_a_file = _OF_A_FILE.fullmatch(inner)
    if of_a_file:
        return [of_a_file["number"] or str(int(of_a_file["result"]) + 1)]
    inner = _WORD.sub("", inner)
    if not _NUMBERS.fullmatch(inner):
        parts = [part.strip() for part in re.split("[,;]", inner)]
        return parts if any(part in sources for part in parts) else []
    marks: list[str] = []
    for part in re.split(r"\s*[,;]\s*", inner):
        first, *last = (int(number) for number in re.split(r"\s*[-\u2013]\s*", part))
        end = min(last[0] if last else first, first + _MOST_IN_A_RANGE)
        marks += [str(number) for number in range(first, end + 1)] or [part]
    return marks


def _bare(sentence: str, sources: Mapping[str, str]) -> str:
    text = _MARK.sub(lambda match: "" if _marks_of(match, sources) else match.group(), sentence)
    return re.sub(r"\s+([.,;:!?])", r"\1", " ".join(_EMPTY.sub("", " ".join(text.split())).split())).strip()


def _rendered(citations: Sequence[_Citation]) -> dict[str, JsonValue]:
    """Return the citations as shown to a model, and each source once, however often it is cited."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(one.source for one in citations), 1)}
    return {
        "citations": [
            {"number": number, "claim": citation.claim, "source": numbers[citation.source]}
            for number, citation in enumerate(citations, 1)
        ],
        "sources": [{"number": number, "text": text} for text, number in numbers.items()],
    }


def _subject(citation: _Citation) -> str:
    return f"[{citation.mark}] {claims.cut(citation.claim)}"


def _unresolved(citation: _Citation) -> Verdict:
    rationale = f"There is no source [{citation.mark}]."
    return Verdict.checked(passed=False, value="unresolved", subject=_subject(citation), rationale=rationale)
