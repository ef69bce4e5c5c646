"""What the generator sees on a retry, the conversation, what is wrong and the question; and drafts that echo it.

Each form of a retry has its words in a pack of three languages, `packs/LANGUAGE/FORM.toml`. Feedback was written
by a model that read untrusted text, so each fault is one line of a list, without characters or markers by which it
could leave that list, of bounded length, and never with the reference in it, or other evidence for the judge
alone. After a draft the question stands last: a generator answers what it reads last, and not the feedback.
Without a draft the question goes before, as a person would ask it again with what to mind.

A small model often repeats what it is told. Such an echo is never shown to a user. An answer that does what the
feedback asked for is none: it has the words that were wanted, not the sentence that wanted them. So an order to
the writer counts and a statement does not, since that may be the answer itself; and of an order only what begins
as it begins, where a sentence begins.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache, cached_property, partial
from importlib import resources
from itertools import accumulate
from string import Template
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from pydantic import BaseModel, JsonValue

from graphs.answers import Attempt, Draft, draft_message, text_of_answer
from graphs.policy import Augmenter, AugmenterName
from graphs.redaction import withhold
from graphs.refinement import Refinement
from judges.errors import ConfigurationError, shortened
from judges.models.prompt_and_reply import neutralise
from judges.prompting.prompts import LANGUAGES, Language, language_of
from judges.sample import cut_text

M = TypeVar("M", bound=BaseMessage)

_UNCHANGEABLE = frozenset({str, int, float, bool, bytes, type(None)})


def copy_message(message: M) -> M:
    """Return a message that shares with another one only what cannot be changed."""
    twin = message.__copy__()
    fields = vars(twin)
    for name, value in fields.items():
        if type(value) is dict or type(value) is list:
            fields[name] = _copy_json(value)
    return twin


def _copy_json(value: Any) -> Any:
    """Copy dicts and lists all the way down; cheaper than `deepcopy` for what messages mostly hold."""
    if type(value) is dict:
        return {key: _copy_json(item) for key, item in value.items()} if value else {}
    if type(value) is list:
        return [_copy_json(item) for item in value]
    return value if type(value) in _UNCHANGEABLE else deepcopy(value)


def copy_messages(messages: Sequence[M]) -> list[M]:
    """Return copies of messages, in a new list."""
    return [copy_message(message) for message in messages]


def _copy_refinement(refinement: Refinement) -> Refinement:
    """Return a refinement for a user's function, which may change the messages and evidence in it."""
    return replace(
        refinement,
        evidence=deepcopy(dict(refinement.evidence)),
        attempts=tuple(map(_copy_attempt, refinement.attempts)),
        added=tuple(copy_messages(refinement.added)),
    )


def _copy_attempt(attempt: Attempt) -> Attempt:
    return attempt.model_copy(
        update={
            "answer": copy_message(attempt.answer),
            "steps": tuple(copy_messages(attempt.steps)),
            "evidence": deepcopy(attempt.evidence),
            "unchosen": tuple(map(_copy_attempt, attempt.unchosen)),
        }
    )


P = TypeVar("P", bound=BaseModel)

MARK = "refine"
"""Key in a message's `additional_kwargs` that marks it as added by the loop."""

FEEDBACK_LIMIT = 4_000
"""Maximum number of characters of one feedback that are sent to the generator."""

QUESTION_LIMIT = 8_000
"""Maximum number of characters of the question that are sent again; it stands in full above."""

_RELEASED_LIMIT = 20_000
"""Maximum number of characters of what was released that the generator is shown again, from its end."""

_WORDED = ("restated", "last_draft", "all_drafts", "verify_first")
"""The forms that have words of their own."""

_BULLET = re.compile(r"(?:[-*•–—]|\(?\d{1,2}[.)])\s+")
_RATING = re.compile(r"\s*[(\[][1-4]\s?/\s?4[)\]]")
_ONLY_RATING = re.compile(
    r"(?:rating|score|grade|评分|得分|分数|оценка|балл)\W{0,3}\d+(?:[.,]\d+)?(?:\s?(?:/|of|из)\s?\d+)?\W?",
    re.IGNORECASE,
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_FENCE_END = re.compile(r"<(?=\s*/?\s*(?:feedback|反馈|замечания)\b)", re.IGNORECASE)


class _Pack(BaseModel, frozen=True, extra="forbid"):
    """The words of a form in one language.

    Args:
        faults: What stands before the question, around the list `$faults`.
        no_faults: The same where the judge named no fault.
        no_question: What stands in place of a question without text.
        earlier: What follows a draft that is not the last one.
        earlier_no_faults: The same where the judge named no fault.
        keep: The word by which the generator keeps its answer.
    """

    faults: str
    no_faults: str
    no_question: str
    earlier: str = ""
    earlier_no_faults: str = ""
    keep: str = ""

    def say(self, faults: tuple[str, ...], *, earlier: bool = False, bullet: str = "- ") -> str:
        """Return what is said of a draft with these faults, each a line after a bullet."""
        named, unnamed = (self.earlier, self.earlier_no_faults) if earlier else (self.faults, self.no_faults)
        listed = "\n".join(f"{bullet}{fault}" for fault in faults)
        return Template(named if faults else unnamed).substitute(faults=listed, keep=self.keep).strip()

    @property
    def texts(self) -> tuple[str, ...]:
        """All that it says, with places for faults and words left empty."""
        pack_texts = (self.faults, self.no_faults, self.no_question, self.earlier, self.earlier_no_faults)
        return tuple(Template(text).substitute(faults="\n", keep=self.keep) for text in pack_texts if text)


def _read_pack(kind: type[P], language: Language, name: str) -> P:
    """Return a file of the packs of this package."""
    file = resources.files("graphs") / "packs" / language / f"{name}.toml"
    return kind.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))


@cache
def _pack(form: str, language: Language) -> _Pack:
    return _read_pack(_Pack, language, form)


def _keep_words() -> Iterator[str]:
    """Yield the words by which a generator keeps its answer, of all languages."""
    for language in LANGUAGES:
        yield _pack("verify_first", language).keep


def _own_texts() -> Iterator[str]:
    """Yield whatever the loop says in any form and language."""
    for language in LANGUAGES:
        for form in _WORDED:
            yield from _pack(form, language).texts


def added_messages(refinement: Refinement) -> list[AnyMessage]:
    """Return the messages that follow the conversation on the next attempt, as set by the policy's `augment`.

    Raises:
        ConfigurationError: If a user-defined function returns anything but a list of messages.
    """
    augment = refinement.policy.augment
    if isinstance(augment, str):
        return _AUGMENTERS[augment](refinement)
    added: object = augment(_copy_refinement(refinement))  # a user's function may do and return anything
    if isinstance(added, list | tuple) and all(isinstance(message, BaseMessage) for message in added):
        return copy_messages(added)
    kinds = [type(item).__name__ for item in added] if isinstance(added, list | tuple) else type(added).__name__
    raise ConfigurationError(
        f"the policy's augment function returned {kinds}; return a list of messages, for instance "
        f"[HumanMessage('Answer again, shorter.')]"
    )


def restated(refinement: Refinement) -> list[AnyMessage]:
    """Show the question again, and what all drafts lacked, the last one's faults first; no draft.

    The generator sees no draft that has the other faults mended, so each is as new to it as the last one's.
    """
    answers = _answers_of(refinement)
    pack = _pack("restated", _language(refinement, answers[-1]))
    faults = dict.fromkeys(fault for answer in reversed(answers) for fault in _faults_of(answer, refinement))
    return [_note(f"{_question(refinement, pack)}\n\n{pack.say(_bounded(faults), bullet='')}")]


def last_draft(refinement: Refinement) -> list[AnyMessage]:
    """Show the last draft, what is wrong with it, and the question again."""
    last = _answers_of(refinement)[-1]
    return [*_draft(last), _request("last_draft", refinement, last)]


def verify_first(refinement: Refinement) -> list[AnyMessage]:
    """Show the last draft, and ask whether its feedback is right before it is followed."""
    last = _answers_of(refinement)[-1]
    return [*_draft(last), _request("verify_first", refinement, last)]


def fresh(refinement: Refinement) -> list[AnyMessage]:
    """Show nothing: the question is asked once more as it was."""
    del refinement
    return []


def auto(refinement: Refinement) -> list[AnyMessage]:
    """Show the last draft; after one that repeats it or the feedback, restate the question without any draft."""
    return (last_draft if refinement.attempts[-1].copied is None else restated)(refinement)


def all_drafts(refinement: Refinement) -> list[AnyMessage]:
    """Show every draft with what is wrong with it, so that corrected faults are not repeated."""
    return last_drafts(len(refinement.attempts))(refinement)


def last_drafts(k: int) -> Augmenter:
    """Return an augmenter that shows the last `k` drafts, each with what is wrong with it.

    Raises:
        ConfigurationError: If `k` is not a whole number from 1.
    """
    if type(k) is not int or k < 1:
        raise ConfigurationError(f"k is how many drafts are shown, a whole number from 1, not {shortened(k)}")

    return partial(_last_drafts, k)


def _last_drafts(k: int, refinement: Refinement) -> list[AnyMessage]:
    *earlier, last = _answers_of(refinement)[-k:]
    form = "all_drafts" if earlier else "last_draft"
    pack = _pack(form, _language(refinement, last))
    messages: list[AnyMessage] = []
    for attempt in earlier:
        messages += [*_draft(attempt), _note(pack.say(_faults_of(attempt, refinement), earlier=True))]
    return [*messages, *_draft(last), _request(form, refinement, last)]


_AUGMENTERS: dict[AugmenterName, Augmenter] = {
    "auto": auto,
    "restated": restated,
    "last_draft": last_draft,
    "verify_first": verify_first,
    "fresh": fresh,
    "all_drafts": all_drafts,
}


def named(name: AugmenterName) -> Augmenter:
    """Return the augmenter of a name."""
    return _AUGMENTERS[name]


class _ContinuationWords(BaseModel, frozen=True, extra="forbid"):
    """The words that ask for the rest of an answer, in one language.

    Args:
        begun: What stands around the text that was released, `$begun`.
        amend: The same where the answer is whole, and an amendment is to follow.
        faults: What stands around the list `$faults`.
        last: What stands at the end.
    """

    begun: str
    amend: str
    faults: str
    last: str


_MARK_END = re.compile(r"<(?=\s*/?\s*begun\b)", re.IGNORECASE)


def continuation_messages(refinement: Refinement) -> list[AnyMessage]:
    """Return the messages that ask for the rest of an answer, as the policy's `continuation` says."""
    if refinement.policy.continuation == "prefill":
        begun = AIMessage(_sendable("".join(refinement.released_pieces)), additional_kwargs={MARK: "draft"})
        return [_request("restated", refinement, refinement.attempts[-1]), begun]
    return [_note_on_released(refinement, is_whole=False)]


def amendment_messages(refinement: Refinement) -> list[AnyMessage]:
    """Return the message that asks for an amendment to an answer that is out, and was refused as a whole."""
    return [_note_on_released(refinement, is_whole=True)]


def _note_on_released(refinement: Refinement, *, is_whole: bool) -> AnyMessage:
    last = refinement.attempts[-1]
    words = _read_pack(_ContinuationWords, _language(refinement, last), "continued")
    released = _MARK_END.sub("‹", "".join(refinement.released_pieces)[-_RELEASED_LIMIT:].strip())
    faults = "\n".join(f"- {fault}" for fault in _faults_of(last, refinement))
    named = Template(words.faults).substitute(faults=faults) if faults else ""
    request = Template(words.amend if is_whole else words.begun).substitute(begun=released)
    return _note("\n\n".join(part.strip() for part in (request, named, words.last) if part))


def words() -> object:
    """Return the library's own words in these messages, which are part of the prompt of a retry."""
    return [*_own_texts()], FEEDBACK_LIMIT, QUESTION_LIMIT


def _faults_of(attempt: Attempt, refinement: Refinement) -> tuple[str, ...]:
    """Return what a generator is told to change in a draft: one line a fault, in the order of the feedback."""
    find = partial(_find_faults, attempt, refinement.evidence)
    return refinement.memo.recall(f"faults {attempt.number}", (attempt, refinement.evidence), find)


def _find_faults(attempt: Attempt, evidence: Mapping[str, JsonValue]) -> tuple[str, ...]:
    feedback = attempt.feedback[: 2 * FEEDBACK_LIMIT]
    if evidence:
        feedback = withhold(feedback, evidence)
    lines = map(_line, feedback[:FEEDBACK_LIMIT].splitlines())
    return tuple(dict.fromkeys(filter(None, lines)))


def _line(line: str) -> str:
    """Return one fault as a line that cannot leave its list; empty where it only says how it was rated."""
    text = " ".join(_CONTROL.sub(" ", line).split())
    text = _RATING.sub("", _BULLET.sub("", text, count=1) if _BULLET.match(text) else text).strip()
    return "" if _ONLY_RATING.fullmatch(text) else _FENCE_END.sub("‹", neutralise(text))


def _answers_of(refinement: Refinement) -> list[Attempt]:
    """Return the drafts to look back on; an echo of the feedback is none, and would invite the next one.

    Neither is a mended draft: the generator is told what was wrong with its own.
    """
    written_attempts = [attempt for attempt in refinement.attempts if not attempt.mended]
    answers = [attempt for attempt in written_attempts if attempt.copied != "echo"]
    return answers or written_attempts[-1:]


def _draft(attempt: Attempt) -> Iterator[AnyMessage]:
    """Yield a draft to look back on; not an empty one, since some providers refuse a message without content."""
    message = draft_message(attempt.answer, {MARK: "draft"})
    if isinstance(message.content, str):
        message.content = _sendable(message.content)
    if str(message.text).strip() or not isinstance(message.content, str) or "audio" in message.additional_kwargs:
        yield message


def _request(form: str, refinement: Refinement, attempt: Attempt) -> AnyMessage:
    """Return the message that ends the prompt: what is wrong with a draft, and the question again."""
    pack = _pack(form, _language(refinement, attempt))
    return _note(f"{pack.say(_faults_of(attempt, refinement))}\n\n{_question(refinement, pack)}")


def _question(refinement: Refinement, pack: _Pack) -> str:
    return cut_text(refinement.question.strip(), QUESTION_LIMIT) or pack.no_question


def _bounded(faults: Iterable[str]) -> tuple[str, ...]:
    """Return the first faults, as many as one feedback may be long."""
    characters_left = FEEDBACK_LIMIT
    return tuple(fault for fault in faults if (characters_left := characters_left - len(fault)) >= 0)


def _language(refinement: Refinement, attempt: Attempt) -> Language:
    return language_of(refinement.question or attempt.text)


def _note(text: str) -> AnyMessage:
    return HumanMessage(_sendable(text), additional_kwargs={MARK: "feedback"})


def _sendable(text: str) -> str:
    """Return a text without halves of characters, as some endpoints write them, and most clients cannot send."""
    return text if text.isascii() else text.encode(errors="replace").decode()


_LETS_KEEP = ("verify_first", verify_first)
"""The form of a retry that lets an answer be kept, by its name and as a function."""

_LONGEST_DRAFT = 50_000
"""Most characters of a draft that are searched."""

_HAN = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_HAN}]|(?:(?![{_HAN}_])\w)+")
_HAN_WORD = re.compile(f"[{_HAN}]")
_BOUNDARY = re.compile(r"[.!?:;。！？：；\n…]")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？;；])(?:\s+|(?<=[。！？；]))")

_START = re.compile(r"^\W+|[*_`]")
"""What may stand before, or in, the word to keep an answer."""

_SHORTEST = 4.0
"""Least length of what can be an echo, in words; what is shorter is found in honest answers too."""

_SHORT = 8.0
"""Length from which on a part of a sentence of our own is known as such."""

_HAN_LENGTH = 0.6
"""Length of a Chinese character, in words."""

_SHARE = 0.6
"""Share of a sentence, from its first word on, that counts as the sentence."""

_OWN_SHARE = 0.75
"""The same for a long sentence of our own, from any word on."""

_MOST = 0.5
"""Share of the feedback, or of the draft, from which on that is most of it."""


class _Text:
    """The words of a text, folded, and where its sentences begin.

    Attributes:
        words: The words.
        folded: All of them between blanks.
    """

    def __init__(self, text: str) -> None:
        text = unicodedata.normalize("NFKC", text[:_LONGEST_DRAFT]).casefold()
        matches = list(_WORD.finditer(text))
        self.words = [match.group() for match in matches]
        self.folded = f" {' '.join(self.words)} "
        self._text = text
        self._spans = [match.span() for match in matches]

    @cached_property
    def _offsets(self) -> list[int]:
        return [0, *accumulate(len(word) + 1 for word in self.words)]

    @cached_property
    def length(self) -> float:
        """How long it is, in words."""
        return _length(self.words)

    def has(self, folded: str) -> bool:
        """Check whether it has words, given between blanks, one after the other."""
        return folded in self.folded

    def places(self, folded: str) -> Iterator[int]:
        """Yield the numbers of the words at which these words begin together with a sentence."""
        place = self.folded.find(folded)
        while place >= 0:
            number = bisect_right(self._offsets, place) - 1
            if self.is_boundary(number):
                yield number
            place = self.folded.find(folded, place + 1)

    def is_boundary(self, number: int) -> bool:
        """Check whether a sentence or a line begins with a word, or the text ends before it."""
        if number in (0, len(self.words)):
            return True
        return bool(_BOUNDARY.search(self._text[self._spans[number - 1][1] : self._spans[number][0]]))


def _length(words: Sequence[str]) -> float:
    return len(words) - (1 - _HAN_LENGTH) * len(list(filter(_HAN_WORD.fullmatch, words)))


def is_echo(draft: Draft, refinement: Refinement, conversation: Sequence[BaseMessage]) -> bool:
    """Check whether a retry's draft holds the loop's own sentences, or most of the feedback that it was to follow.

    Args:
        draft: The draft.
        refinement: The record before it.
        conversation: The messages up to the question; what stands there may be repeated.
    """
    if draft.kept or draft.skip_reason or not _repeats(text_of_answer(draft.answer), refinement, conversation):
        return False
    return draft.kind in ("text", "cut", "invalid_tool_call")


def _repeats(text: str, refinement: Refinement, conversation: Sequence[BaseMessage]) -> bool:
    if refinement.policy.augment in _LETS_KEEP and _keeps(text):
        return True
    draft = _Text(text)
    said_before = cache(lambda: _Text("\n".join(str(message.text) for message in conversation)[-_LONGEST_DRAFT:]))
    repeated_parts = [
        part for part in _own_parts() if part in draft.folded
    ]  # hundreds: a call for each would cost more
    if any(not said_before().has(part) for part in repeated_parts):
        return True
    feedbacks = [_faults_of(attempt, refinement) for attempt in refinement.attempts]
    together = tuple(dict.fromkeys(fault for faults in feedbacks for fault in faults))
    return any(_holds_feedback(draft, faults, said_before) for faults in dict.fromkeys((*feedbacks, together)))


def keep_answer(draft: Draft, refinement: Refinement) -> Draft:
    """Return the earlier answer in place of a retry's draft that says to keep it; any other draft as it is.

    There is one to keep only where it may be released. Its evidence and its raw reply belong to it.
    """
    if refinement.policy.augment not in _LETS_KEEP or draft.fault or draft.kind != "text":
        return draft
    text = text_of_answer(draft.answer)
    last = _answers_of(refinement)[-1]
    if not _keeps(text) or last.is_unfit or last.own_kind != "text":
        return draft
    steps = (*last.steps, *(step for step in draft.steps if step not in last.steps))
    answer = draft.answer.model_copy(update={"content": last.answer.content})
    return replace(draft, answer=answer, steps=steps, evidence=last.evidence, raw=last.raw, kept=text)


def _keeps(text: str) -> bool:
    """Check whether a draft begins with the word by which the form that asked for it lets an answer be kept."""
    start = _START.sub("", unicodedata.normalize("NFKC", text[:200]))
    words = [unicodedata.normalize("NFKC", word) for word in _keep_words()]
    spelt = tuple(word.rstrip(":") for word in words if word.isupper())
    return start.casefold().startswith(tuple(map(str.casefold, words))) or start.startswith(spelt)


@cache
def _own_parts() -> tuple[str, ...]:
    """Return what tells each sentence of our own: its parts that are long enough, between blanks."""
    parts: dict[str, None] = {}
    for text in _own_texts():
        for line in text.splitlines():
            for sentence in filter(None, _SENTENCE_END.split(line)):
                parts.update(dict.fromkeys(_parts(_Text(sentence).words)))
    return tuple(parts)


def _parts(words: Sequence[str]) -> Iterator[str]:
    """Yield each run of words of a sentence that stands for it; of a short one only the whole."""
    length = _length(words)
    count = len(words) if length < _SHORT else round(_OWN_SHARE * len(words))
    if length >= _SHORTEST:
        for start in range(len(words) - count + 1):
            yield f" {' '.join(words[start : start + count])} "


def _holds_feedback(draft: _Text, faults: Sequence[str], said_before: Callable[[], _Text]) -> bool:
    """Check whether a draft has most of a feedback: most of the draft is that, or what speaks of answers alone."""
    sentences = [_Text(part) for fault in faults for part in _SENTENCE_END.split(fault)]
    sentences = [sentence for sentence in sentences if sentence.words]
    if [word for sentence in sentences for word in sentence.words] == draft.words:
        return any(map(_is_order, sentences))
    orders = [sentence for sentence in sentences if _is_order(sentence)]
    wanted = sum(order.length for order in orders)
    held = {id(order): _held(order, draft) for order in orders}
    total = sum(held.values())
    if not total or total < _MOST * wanted:
        return False
    if total >= _MOST * draft.length:
        return True
    plain = [
        o for o in orders if held[id(o)] == o.length and _has_any(o, "answers") and not said_before().has(o.folded)
    ]
    return sum(order.length for order in plain) >= _MOST * wanted


def _held(order: _Text, draft: _Text) -> float:
    """Return how much of an order a draft has, from the order's beginning on, where a sentence begins."""
    if order.length < _SHORTEST:
        return 0.0
    whole = next((n for n in draft.places(order.folded) if draft.is_boundary(n + len(order.words))), None)
    if whole is not None:
        return order.length
    count = max(1, round(_SHARE * len(order.words)))
    while count < len(order.words) and _length(order.words[:count]) < _SHORTEST:
        count += 1
    begins = f" {' '.join(order.words[:count])} "
    return _length(order.words[:count]) if next(draft.places(begins), None) is not None else 0.0


class _OrderWords(BaseModel, frozen=True, extra="forbid"):
    """Words that tell an order to a writer from a statement, in one language.

    Args:
        begins: What an order begins with.
        begins_ending: How the first word of an order ends.
        states: What a statement begins with.
        states_second: The second word of a statement.
        marks: Words that tell this language from others of the same script.
        answers: Words for answers and what they are made of.
        modals: Words that order something, where an answer is spoken of.
        complaints: Words that say what an answer lacks.
    """

    begins: tuple[str, ...]
    begins_ending: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    states_second: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    answers: tuple[str, ...]
    modals: tuple[str, ...]
    complaints: tuple[str, ...]


@cache
def _listed(name: str) -> tuple[str, ...]:
    """Return the words of a list in all languages, each between blanks, save that endings stay as they are."""
    words = [word for language in LANGUAGES for word in getattr(_read_pack(_OrderWords, language, "orders"), name)]
    return tuple(words if name == "begins_ending" else (_Text(word).folded for word in words))


def _has_any(sentence: _Text, name: str) -> bool:
    return bool([word for word in _listed(name) if word in sentence.folded])


def _is_surely_order(sentence: _Text) -> bool:
    """Check whether a sentence has a word that orders something of a writer, or says what an answer lacks."""
    begins = sentence.folded.startswith(_listed("begins")) or sentence.words[0].endswith(_listed("begins_ending"))
    is_rule = _has_any(sentence, "modals") and _has_any(sentence, "answers")
    return begins or is_rule or _has_any(sentence, "complaints")


def _is_order(sentence: _Text) -> bool:
    """Check whether a sentence tells a writer what to do; one that states something may be the answer itself.

    No list has every English verb: what is English and does not begin as a statement does is an order.
    """
    if _is_surely_order(sentence):
        return True
    if not _has_any(sentence, "marks"):
        return False
    second = f" {' '.join(sentence.words[1:2])} "
    return not sentence.folded.startswith(_listed("states")) and second not in _listed("states_second")
