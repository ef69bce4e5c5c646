"""What the generator sees on a retry: the conversation, followed by messages with what is wrong, and the question.

Each form of a retry has its words in a pack of three languages, `packs/LANGUAGE/FORM.toml`. Feedback was written
by a model that read untrusted text, so each fault is one line of a list, without characters or markers by which it
could leave that list, of bounded length, and never with the reference in it, or other evidence for the judge
alone. After a draft the question stands last: a generator answers what it reads last, and not the feedback.
Without a draft the question goes before, as a person would ask it again with what to mind.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from importlib import resources
from string import Template
from typing import Any, TypeVar

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from pydantic import BaseModel, JsonValue

from graphs.answers import draft_message
from graphs.policy import Augmenter, AugmenterName
from graphs.redaction import withhold
from graphs.refinement import Attempt, Refinement
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


def read_pack(kind: type[P], language: Language, name: str) -> P:
    """Return a file of the packs of this package."""
    file = resources.files("graphs") / "packs" / language / f"{name}.toml"
    return kind.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))


@cache
def _pack(form: str, language: Language) -> _Pack:
    return read_pack(_Pack, language, form)


def keep_words() -> Iterator[str]:
    """Yield the words by which a generator keeps its answer, of all languages."""
    for language in LANGUAGES:
        yield _pack("verify_first", language).keep


def own_texts() -> Iterator[str]:
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
    answers = answers_of(refinement)
    pack = _pack("restated", _language(refinement, answers[-1]))
    faults = dict.fromkeys(fault for answer in reversed(answers) for fault in faults_of(answer, refinement))
    return [_note(f"{_question(refinement, pack)}\n\n{pack.say(_bounded(faults), bullet='')}")]


def last_draft(refinement: Refinement) -> list[AnyMessage]:
    """Show the last draft, what is wrong with it, and the question again."""
    last = answers_of(refinement)[-1]
    return [*_draft(last), _request("last_draft", refinement, last)]


def verify_first(refinement: Refinement) -> list[AnyMessage]:
    """Show the last draft, and ask whether its feedback is right before it is followed."""
    last = answers_of(refinement)[-1]
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
    *earlier, last = answers_of(refinement)[-k:]
    form = "all_drafts" if earlier else "last_draft"
    pack = _pack(form, _language(refinement, last))
    messages: list[AnyMessage] = []
    for attempt in earlier:
        messages += [*_draft(attempt), _note(pack.say(faults_of(attempt, refinement), earlier=True))]
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
        begun = AIMessage("".join(refinement.released_pieces), additional_kwargs={MARK: "draft"})
        return [_request("restated", refinement, refinement.attempts[-1]), begun]
    return [_note_on_released(refinement, is_whole=False)]


def amendment_messages(refinement: Refinement) -> list[AnyMessage]:
    """Return the message that asks for an amendment to an answer that is out, and was refused as a whole."""
    return [_note_on_released(refinement, is_whole=True)]


def _note_on_released(refinement: Refinement, *, is_whole: bool) -> AnyMessage:
    last = refinement.attempts[-1]
    words = read_pack(_ContinuationWords, _language(refinement, last), "continued")
    released = _MARK_END.sub("‹", "".join(refinement.released_pieces)[-_RELEASED_LIMIT:].strip())
    faults = "\n".join(f"- {fault}" for fault in faults_of(last, refinement))
    named = Template(words.faults).substitute(faults=faults) if faults else ""
    request = Template(words.amend if is_whole else words.begun).substitute(begun=released)
    return _note("\n\n".join(part.strip() for part in (request, named, words.last) if part))


def words() -> object:
    """Return the library's own words in these messages, which are part of the prompt of a retry."""
    return [*own_texts()], FEEDBACK_LIMIT, QUESTION_LIMIT


def faults_of(attempt: Attempt, refinement: Refinement) -> tuple[str, ...]:
    """Return what a generator is told to change in a draft: one line a fault, in the order of the feedback."""
    find = partial(_find_faults, attempt.feedback, refinement.evidence)
    return refinement.memo.recall(f"faults {attempt.number}", (attempt, refinement.evidence), find)


def _find_faults(feedback: str, evidence: Mapping[str, JsonValue]) -> tuple[str, ...]:
    feedback = feedback[: 2 * FEEDBACK_LIMIT]
    if evidence:
        feedback = withhold(feedback, evidence)
    lines = map(_line, feedback[:FEEDBACK_LIMIT].splitlines())
    return tuple(dict.fromkeys(filter(None, lines)))


def _line(line: str) -> str:
    """Return one fault as a line that cannot leave its list; empty where it only says how it was rated."""
    text = " ".join(_CONTROL.sub(" ", line).split())
    text = _RATING.sub("", _BULLET.sub("", text, count=1) if _BULLET.match(text) else text).strip()
    return "" if _ONLY_RATING.fullmatch(text) else _FENCE_END.sub("‹", neutralise(text))


def answers_of(refinement: Refinement) -> list[Attempt]:
    """Return the drafts to look back on; an echo of the feedback is none, and would invite the next one.

    Neither is a mended draft: the generator is told what was wrong with its own.
    """
    written_attempts = [attempt for attempt in refinement.attempts if not attempt.mended]
    answers = [attempt for attempt in written_attempts if attempt.copied != "echo"]
    return answers or written_attempts[-1:]


def _draft(attempt: Attempt) -> Iterator[AnyMessage]:
    """Yield a draft to look back on; not an empty one, since some providers refuse a message without content."""
    message = draft_message(attempt.answer, {MARK: "draft"})
    if str(message.text).strip() or not isinstance(message.content, str) or "audio" in message.additional_kwargs:
        yield message


def _request(form: str, refinement: Refinement, attempt: Attempt) -> AnyMessage:
    """Return the message that ends the prompt: what is wrong with a draft, and the question again."""
    pack = _pack(form, _language(refinement, attempt))
    return _note(f"{pack.say(faults_of(attempt, refinement))}\n\n{_question(refinement, pack)}")


def _question(refinement: Refinement, pack: _Pack) -> str:
    return cut_text(refinement.question.strip(), QUESTION_LIMIT) or pack.no_question


def _bounded(faults: Iterable[str]) -> tuple[str, ...]:
    """Return the first faults, as many as one feedback may be long."""
    characters_left = FEEDBACK_LIMIT
    return tuple(fault for fault in faults if (characters_left := characters_left - len(fault)) >= 0)


def _language(refinement: Refinement, attempt: Attempt) -> Language:
    return language_of(refinement.question or attempt.text)


def _note(text: str) -> AnyMessage:
    return HumanMessage(text, additional_kwargs={MARK: "feedback"})
