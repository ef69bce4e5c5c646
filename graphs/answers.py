"""What kind of answer a draft is, and what becomes of it: one rule for every door, and for every provider.

A refusal, an answer that the provider filtered, and one without text (audio, an image) are handed on unjudged: no
judge of texts can rate them, and asking again would press a model out of its refusal. An answer that was cut off
at its length limit, an empty one, and a call of a tool that cannot be read are rejected without a judge, each with
feedback of its own.
"""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from typing import Annotated, Any, ClassVar, Literal

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from pydantic import Field, JsonValue, SkipValidation

from graphs.policy import OnRefusal, Policy
from judges.errors import ConfigurationError, shortened
from judges.judge import Judge
from judges.models.prompt_and_reply import ending_of, finish_reason_of, has_failed, reason_in
from judges.models.providers.http_errors import EndpointConnectionError
from judges.prompting.prompts import Language
from judges.verdict import Frozen, MaskedSpan, Usage, Verdict

AnswerKind = Literal[
    "text",
    "empty",
    "tool_call",
    "invalid_tool_call",
    "refusal",
    "filtered",
    "cut",
    "audio",
    "image",
    "video",
    "file",
    "echo",
    "repeat",
    "mended",
]
"""Text to judge; nothing at all; a call of a tool; calls of which none can be read; a refusal; stopped by the
provider's filter; cut off at its length limit; no text, but audio, an image, a video or a file; or on a retry a
copy, of the feedback or of an earlier draft; or a draft with what a judge refused in it masked."""

Copied = Literal["echo", "repeat"]
"""What a retry copied instead of answering anew: the feedback, or an earlier draft that was rejected."""

Flaw = Literal["empty", "cut", "invalid_tool_call", "echo"]
"""Why an answer is rejected without a judge."""

_MEDIA: tuple[Literal["audio", "image", "video"], ...] = ("audio", "image", "video")
_FILES = ("file", "input_file", "media", "document", "text-plain")
_WRAPPED = "non_standard"
_CODE = re.compile(r"[A-Za-z][\w.-]{0,39}")
"""A provider's word for why an answer ended, as it may stand in a log."""

NOTES: Mapping[str, str] = {
    "cut": "the answer was cut off at its length limit",
    "invalid_tool_call": "the answer calls a tool in a way that cannot be read",
}
"""The detail of an outcome whose answer has such a fault and is released all the same, by the answer's kind."""

LOOP = "refine"
"""The judge's name in verdicts that the loop gives by itself, without a judge."""

CUT_AS_ASKED = "cut_as_asked"
"""In the metadata of an answer, true says that its length limit is the one that came with the request."""


@cache
def _words_on(fault: Flaw, language: Language) -> Mapping[str, str]:
    """Return what is said of a fault, as `rationale` and `feedback`."""
    file = resources.files("graphs") / "packs" / language / "rejected.toml"
    words: Mapping[str, str] = tomllib.loads(file.read_text(encoding="utf-8"))[fault]
    return words


def kind_of_answer(answer: AIMessage) -> AnswerKind:
    """Return the kind of an answer, in whichever form its provider says it."""
    if answer.tool_calls:
        return "tool_call"
    is_refusal = _refusal_in(answer) is not None
    reason = finish_reason_of(answer.response_metadata)
    ending = ending_of(reason)
    if is_refusal or (ending == "filtered" and "refus" in reason.lower()):
        return "refusal"
    if ending == "filtered":
        return "filtered"
    has_text = bool(str(answer.text).strip())
    media = None if has_text else media_in(answer)
    if media is not None:
        return media
    if ending == "cut":
        return "cut"
    if answer.invalid_tool_calls:
        return "invalid_tool_call"
    if has_text:
        return "text"
    return "filtered" if _blocked_prompt(answer) else "empty"


def check_whole(answer: AIMessage) -> None:
    """Check that the provider did not fail in the midst of an answer.

    Raises:
        EndpointConnectionError: If it says so at its end.
    """
    if has_failed(answer.response_metadata):
        raise EndpointConnectionError("the model's provider failed in the midst of its answer")


def text_of_answer(answer: AIMessage) -> str:
    """Return the text of an answer; of a refusal that came without a text, the text of the refusal."""
    text = str(answer.text)
    return text if text.strip() else _refusal_in(answer) or text


def rejection_for(fault: Flaw, language: Language) -> Verdict:
    """Return the verdict on a faulty answer, with feedback in a language."""
    if fault == "empty":
        return _empty_answer(language)
    return Verdict.checked(passed=False, judge=LOOP, **_words_on(fault, language))


def unread_call(language: Language = "en") -> str:
    """Return the feedback on a call of a tool that cannot be read."""
    return _words_on("invalid_tool_call", language)["feedback"]


def _empty_answer(language: Language = "en") -> Verdict:
    """Return the verdict on an empty draft, without asking a judge."""
    words = _words_on("empty", language)
    return Verdict.rated(1, judge=LOOP, rationale=words["rationale"], feedback=words["feedback"])


def draft_message(answer: AIMessage, mark: Mapping[str, str]) -> AIMessage:
    """Return an answer as a draft to look back on: its text, and whatever it holds beside texts.

    Args:
        answer: The answer. Its reasoning, its tool calls, and ids of its parts are left out.
        mark: Fields that mark the message as a draft.
    """
    content: Any = text_of_answer(answer)
    blocks = _blocks(answer.content)
    if any(_medium_of(block) for block in blocks):
        parts = [block for block in blocks if block.get("type") == "text" or _medium_of(block)]
        content = [{name: value for name, value in part.items() if name != "id"} for part in parts]
    audio = answer.additional_kwargs.get("audio")
    return AIMessage(content, additional_kwargs={**({"audio": audio} if audio else {}), **mark})


def _refusal_in(answer: AIMessage) -> str | None:
    """Return the text of a refusal; None if there is no refusal."""
    refusals = [answer.additional_kwargs.get("refusal")]
    refusals += [block.get("refusal") for block in _blocks(answer.content) if block.get("type") == "refusal"]
    texts = [refusal if isinstance(refusal, str) else "" for refusal in refusals if refusal]
    return "\n".join(texts) if texts else None


def media_in(answer: AIMessage) -> AnswerKind | None:
    """Return the kind of the first thing in an answer that is no text; None where it is text alone."""
    return next(_media_in(answer), None)


def _media_in(answer: AIMessage) -> Iterator[AnswerKind]:
    """Yield the kind of everything in an answer that is no text."""
    if answer.additional_kwargs.get("audio"):
        yield "audio"
    for block in (*_blocks(answer.content), *_blocks(answer.additional_kwargs.get("tool_outputs"))):
        if medium := _medium_of(block):
            yield medium


def _medium_of(block: Mapping[str, Any]) -> Literal["audio", "image", "video", "file"] | None:
    kind, mime_type = str(block.get("type", "")), str(block.get("mime_type") or "")
    medium = next((medium for medium in _MEDIA if medium in kind or mime_type.startswith(medium)), None)
    return medium or ("file" if kind in _FILES else None)


def _blocks(content: object) -> list[Mapping[str, Any]]:
    """Return the parts of a content in their providers' own form."""
    if not isinstance(content, list):
        return []
    blocks = [block for block in content if isinstance(block, Mapping)]
    inner = [block.get("value") if block.get("type") == _WRAPPED else block for block in blocks]
    return [block for block in inner if isinstance(block, Mapping)]


def _blocked_prompt(answer: AIMessage) -> str:
    """Return why Google blocked the question itself, so that there is no answer; empty if it did not."""
    feedback = answer.response_metadata.get("prompt_feedback")
    reason = reason_in(feedback.get("block_reason")) if isinstance(feedback, Mapping) else ""
    return "" if reason in ("0", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED") else reason


def _reason_of(answer: AIMessage) -> str:
    reason = finish_reason_of(answer.response_metadata)
    reason = reason if ending_of(reason) == "filtered" else _blocked_prompt(answer)
    return f" ({reason})" if _CODE.fullmatch(reason) else ""


_BLOCKS = ("reasoning", "thinking", "redacted_thinking", "thought")
REASONING = ("reasoning", "thinking", "thought", "redacted_thinking", "chain_of_thought")
"""How the names of fields begin in which providers put what a model thinks."""


def without_reasoning(answer: AIMessage) -> AIMessage:
    """Return an answer without blocks and fields of reasoning; text stays as it is, `<think>` included.

    Ids that a provider gave to texts and tool calls go with the reasoning: OpenAI's Responses API refuses an item
    by its id that comes back without the reasoning before it.
    """
    content: Any = answer.content
    if isinstance(content, list):
        blocks = [block for block in content if not _is_reasoning(block)]
        content = content if len(blocks) == len(content) else [_without_id(block) for block in blocks]
    fields = {
        "content": content,
        "additional_kwargs": _without_keys(answer.additional_kwargs),
        "response_metadata": _without_keys(answer.response_metadata),
    }
    return answer.model_copy(update=fields)


def reply_without_reasoning(reply: dict[str, Any]) -> dict[str, Any]:
    """Return a chat completion without the reasoning in its messages, in numbers of tokens neither."""
    choices = [_choice_without_reasoning(choice) for choice in reply["choices"]]
    return {**_without_numbers(reply), "choices": choices}


def _without_numbers(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object without the numbers of tokens, which are those of the reasoning, too."""
    return {name: value for name, value in fields.items() if name not in _NUMBERS}


_NUMBERS = ("prompt_logprobs", "prompt_token_ids", "token_ids")


def _choice_without_reasoning(choice: Any) -> Any:
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        return choice
    remaining = _without_keys(message)
    if isinstance(remaining.get("content"), list):
        remaining["content"] = [part for part in remaining["content"] if not _is_reasoning(part)]
    is_left_out = any(value and remaining.get(name) != value for name, value in message.items())
    logprobs = {"logprobs": None} if is_left_out and choice.get("logprobs") else {}
    return {**_without_numbers(choice), **logprobs, "message": remaining}


def _is_reasoning(block: object) -> bool:
    if not isinstance(block, Mapping):
        return False
    if block.get("type") == _WRAPPED:
        return _is_reasoning(block.get("value"))
    return str(block.get("type", "")).startswith(_BLOCKS)


def _without_id(block: Any) -> Any:
    kinds = ("text", "output_text", "refusal", "function_call")
    if not isinstance(block, Mapping) or block.get("type") not in kinds:
        return block
    return {key: value for key, value in block.items() if key != "id"}


def _without_keys(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if not key.startswith(REASONING)}


_MOST_FAULTS = 5


CALL_AS_TEXT = "call_as_text"
"""In the metadata of an answer, true says that its text is the arguments of a tool's call, which nobody masks."""

_REASONS = ("finish_reason", "stop_reason", "model_name", "model", "status", "id")
"""What the metadata of a mended answer keep: other fields may repeat the text, as log probabilities do."""


def check_judges(policy: Policy, judge: Judge) -> None:
    """Check that `on_refusal`, where it is by judge, names judges there are.

    Raises:
        ConfigurationError: If not.
    """
    if isinstance(policy.on_refusal, str):
        return
    names = tuple(dict.fromkeys(_names_in(judge)))
    for name in policy.on_refusal:
        if name not in names:
            raise ConfigurationError(
                f"on_refusal names the judge {shortened(name)}, and there is none; there are {', '.join(names)}"
            )


def _names_in(judge: Judge) -> Iterator[str]:
    """Yield the names of a judge and of those inside it."""
    yield judge.name
    inner = getattr(judge, "judges", None)
    for name, member in inner.items() if isinstance(inner, Mapping) else ():
        yield name
        yield from _names_in(member)


def action_on(verdict: Verdict, policy: Policy) -> OnRefusal:
    """Return what follows a refusal: the strictest that is set for a judge that refused."""
    if isinstance(policy.on_refusal, str):
        return policy.on_refusal
    wanted = {policy.on_refusal.get(name, "retry") for name in _refusers(verdict, policy)}
    for action in ("block", "retry", "mend_or_block", "mend"):
        if action in wanted:
            return action
    return "retry"


def _refusers(verdict: Verdict, policy: Policy) -> Iterator[str]:
    """Yield the names of the judges that refused: those that the policy names, else the innermost ones."""
    named = isinstance(policy.on_refusal, Mapping) and verdict.judge in policy.on_refusal
    members = [one for one in verdict.items if one.judge and one.judge != verdict.judge]
    refused = [one for one in members if one.rating is not None and not one.reaches(policy.success_rating)]
    if named or not refused:
        yield verdict.judge
    else:
        for one in refused:
            yield from _refusers(one, policy)


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class Piece(Frozen, extra="forbid"):
    """A stretch of an answer that was judged by itself.

    Args:
        text: The stretch, with the white space before it.
        verdict: What was said of it; None where it was dropped before, or was not to be judged.
        released: Whether it went out.
        at_s: Seconds from the question until it went out; None where it did not.
    """

    text: str
    verdict: Verdict | None = None
    released: bool = False
    at_s: float | None = None


_UNNAMED = (MaskedSpan(kind="unnamed", start=0, end=0),)
"""What is masked where a judge names no places."""


class Attempt(Frozen, extra="forbid"):
    """One generated answer and its verdict.

    Args:
        number: Number of the attempt, from 1.
        answer: The draft, as returned by the generator.
        steps: Messages between question and answer: tool calls and tool results.
        evidence: Fields of a sample that the generator returned, for instance `retrieved_contexts`.
        raw: The endpoint's own reply, where the generator is a direct client.
        verdict: The judge's verdict; None where the judge was not asked or did not finish.
        fault: What makes the answer unfit to be released; empty where nothing does.
        usage: What generating consumed; the verdict holds what judging consumed.
        latency_s: Seconds the generator took.
        candidate: Number of the draft among those of its attempt, from 1; None where it is the only one.
        unchosen: The other drafts of the attempt, in order; rejected drafts like any other.
        review: What a reviewer asked to change; empty where no reviewer sent the answer back.
        copied: What the draft copied in place of an answer of its own; None where it is one.
        kept: What the generator said to keep its earlier answer, which this is; a step for the judge to see.
        pieces: The stretches of it that this attempt wrote, where they were judged one by one.
        is_estimated: Whether the tokens of generating are an estimate, as its stream was aborted.
        mended: What is masked in it, by kind, with the places in the draft before it, which this is otherwise;
            nothing was generated for it.
        misfit: What is wrong with the arguments of its tool calls; empty where nothing is.
        is_withheld: Whether it was refused where refused drafts are mended or blocked, and is never released.
    """

    _guesses_at: ClassVar[str] = "an attempt"

    number: int = Field(ge=1)
    answer: AIMessage
    steps: tuple[AnyMessage, ...] = ()
    evidence: dict[str, JsonValue] = Field(default_factory=dict)
    raw: Annotated[dict[str, JsonValue] | None, SkipValidation] = None
    verdict: Verdict | None = None
    fault: str = ""
    usage: Usage = Usage()
    latency_s: float = Field(default=0.0, ge=0)
    candidate: int | None = Field(default=None, ge=1)
    unchosen: tuple[Attempt, ...] = ()
    review: str = ""
    copied: Copied | None = None
    kept: str = ""
    pieces: tuple[Piece, ...] = ()
    is_estimated: bool = False
    mended: tuple[MaskedSpan, ...] = ()
    misfit: str = ""
    is_withheld: bool = False

    @property
    def text(self) -> str:
        """Text of the draft; of a refusal without one, what the refusal says."""
        text = str(self.answer.text)
        return text if text.strip() else text_of_answer(self.answer)

    @property
    def kind(self) -> AnswerKind:
        """The kind of the draft: text, a refusal, cut off, an echo, ..."""
        if self.misfit:
            return "invalid_tool_call"
        return "mended" if self.mended else self.copied or self.own_kind

    @cached_property
    def own_kind(self) -> AnswerKind:
        """The kind of its answer alone, whatever it copies."""
        return kind_of_answer(self.answer)

    @property
    def is_cut_as_asked(self) -> bool:
        """True if it was cut off at the length that the request allows, so that another would be, too."""
        return self.kind == "cut" and self.answer.response_metadata.get(CUT_AS_ASKED) is True

    @property
    def rating(self) -> int | None:
        """Rating from 1 to 4, or None where there is none."""
        return None if self.verdict is None else self.verdict.rating

    @property
    def score(self) -> float:
        """Score from 0 to 1; one that has none is below all others, at -1."""
        verdict = self.verdict
        return -1.0 if verdict is None or verdict.score is None else verdict.score

    @property
    def wholeness(self) -> int:
        """How much of an answer it has: 0 for nothing of use, 1 for a part that was cut off, else 2."""
        return {"empty": 0, "invalid_tool_call": 0, "cut": 1}.get(self.kind, 2)

    @property
    def is_unfit(self) -> bool:
        """True if it may not be released, also not as the best there is."""
        return bool(self.fault) or self.copied == "echo" or self.is_withheld

    @property
    def feedback(self) -> str:
        """The changes that a reviewer requests, or else the judge; empty where there is no feedback."""
        return self.review or ("" if self.verdict is None else self.verdict.feedback)

    @property
    def tools(self) -> list[dict[str, Any]]:
        """Tool calls of this attempt in order: `name`, `args`, and `result`, the text returned, or None."""
        if not self.steps:
            return []
        results = {step.tool_call_id: str(step.text) for step in self.steps if isinstance(step, ToolMessage)}
        return [
            {"name": call["name"], "args": deepcopy(call["args"]), "result": results.get(call["id"] or "")}
            for message in self.steps
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        ]

    @property
    def drafts(self) -> list[Attempt]:
        """All drafts of the attempt by the number of their candidate, this one included."""
        if not self.unchosen:
            return [self]
        return sorted((self, *self.unchosen), key=lambda draft: draft.candidate or 0)

    def reason_to_skip(self, *, judge_refusals: bool) -> str | None:
        """Return why it is handed on unjudged, in a line without any of its text; None if it is to be judged.

        Args:
            judge_refusals: Whether a refusal is judged like any other text; one without a text cannot be.
        """
        match self.kind:
            case "text" | "empty" | "cut" | "invalid_tool_call" | "echo" | "repeat" | "mended":
                return None
            case "tool_call":
                return "tool_call: the turn calls a tool"
            case "refusal":
                is_judged = judge_refusals and bool(self.text.strip())
                return None if is_judged else "refusal: the model declined to answer"
            case "filtered":
                return f"filtered: the provider stopped the answer{_reason_of(self.answer)}"
            case kind:
                return f"{kind}: the answer has no text to judge"

    @property
    def own_rejection(self) -> Verdict | None:
        """The verdict where its generator, or the schema of a tool it calls, says what is wrong; else None."""
        if self.fault:
            rationale, feedback = "The answer cannot be used as it is.", self.fault
        elif self.misfit:
            rationale, feedback = "The arguments of a tool call do not fit its schema.", self.misfit
        else:
            return None
        return Verdict.rated(1, judge=LOOP, rationale=rationale, feedback=feedback)

    def flaw(self, *, is_last: bool) -> Flaw | None:
        """Return the flaw for which it is rejected without a judge; None if a judge is to be asked.

        Args:
            is_last: Whether there is no further attempt. An answer that was cut off is judged then, as what there
                is; so is the text beside a call that cannot be read.
        """
        kind = self.kind
        if kind == "echo" or (kind in ("cut", "invalid_tool_call") and not is_last):
            return kind
        if kind in ("text", "mended") or self.text.strip():
            return None
        return "invalid_tool_call" if kind == "invalid_tool_call" else "empty"

    def mend(self, verdict: Verdict) -> Attempt | None:
        """Return the attempt after it, with what a judge refused masked; None where that is not possible.

        It has no mask, or masking would break it. What stands beside its text, such as its reasoning, may repeat
        what is masked, and is left out. Calls of tools are never masked, and JSON stays JSON.
        """
        text, before = verdict.replacement, str(self.answer.text)
        is_text = self.own_kind == "text" and not self.answer.response_metadata.get(CALL_AS_TEXT)
        if text is None or not is_text or text == before or not text.strip():
            return None
        if _is_json(before) and not _is_json(text):
            return None
        of_draft = self.answer.response_metadata
        metadata = {name: of_draft[name] for name in _REASONS if of_draft.get(name) is not None}
        answer = AIMessage(text, id=self.answer.id, response_metadata=metadata)
        fields = {"number": self.number + 1, "answer": answer, "raw": None, "verdict": None, "kept": ""}
        spent = {"usage": Usage(), "latency_s": 0.0, "mended": verdict.masked or _UNNAMED}
        return Attempt.of_checked(
            **{**{name: getattr(self, name) for name in Attempt.model_fields}, **fields, **spent}
        )

    def to_state(self) -> dict[str, Any]:
        """Return the attempt as plain data and LangChain messages, for a checkpoint."""
        names = ("raw", "candidate", "copied", "kept", "misfit", "is_withheld", "is_estimated")
        rare = {
            **{name: getattr(self, name) for name in names},
            "unchosen": [draft.to_state() for draft in self.unchosen],
            "mended": [span.model_dump() for span in self.mended],
            "pieces": [piece.model_dump(mode="json") for piece in self.pieces],
        }
        plain = ("number", "answer", "evidence", "fault", "latency_s", "review")
        return {
            **{name: getattr(self, name) for name in plain},
            "steps": list(self.steps),
            "verdict": None if self.verdict is None else self.verdict.model_dump(mode="json"),
            "usage": self.usage.model_dump(mode="json"),
            **{name: value for name, value in rare.items() if value},
        }


def best_attempt(attempts: Sequence[Attempt], policy: Policy) -> Attempt | None:
    """Return the attempt with the highest score; None if none is rated and releasable.

    One that reaches the policy's rating is better than any that does not. On a tie it is a whole answer rather
    than one that was cut off, and one of these rather than an empty one; then the latest.
    """
    rated = [attempt for attempt in attempts if attempt.rating is not None and not attempt.is_unfit]
    if len(rated) < 2:  # noqa: PLR2004 - nothing to compare
        return next(iter(rated), None)
    passed = [one.verdict is not None and policy.accepts(one.verdict) for one in rated]
    ranks = [(passes, one.score, one.wholeness) for passes, one in zip(passed, rated, strict=True)]
    return rated[max(reversed(range(len(rated))), key=ranks.__getitem__)]


def find_twin(draft: Attempt, attempts: Sequence[Attempt], policy: Policy) -> Attempt | None:
    """Return the first draft of earlier attempts that was judged, not accepted, and is the same as a draft.

    It is the same only if a judge is shown the same: a draft by other tools, or from other contexts, is not.
    Letters, commas and line breaks count, since they may be the very thing that had to change. An answer that was
    kept is judged once more, with the reason why.
    """
    if draft.own_kind != "text":
        return None
    text = _plain(draft.text)
    for other in (other for attempt in attempts for other in attempt.drafts):
        is_text = other.own_kind == "text" and not other.fault and other.copied != "echo"
        is_text = is_text and bool(other.kept) >= bool(draft.kept)
        verdict = other.verdict if is_text and _plain(other.text) == text else None
        if verdict is None or verdict.rating is None:
            continue
        is_shown_alike = other.tools == draft.tools and other.evidence == draft.evidence
        if is_shown_alike and not policy.accepts(verdict):
            return other
    return None


def _plain(text: str) -> str:
    """Return a text without what no reader sees: blanks at ends of lines, and ways to write one character."""
    lines = unicodedata.normalize("NFC", text).strip().splitlines()
    return "\n".join(map(str.rstrip, lines))


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The output of a generator.

    Args:
        answer: The answer.
        steps: Messages before the answer: tool calls and tool results.
        evidence: Fields of a sample that the generator returned, for instance `retrieved_contexts`.
        raw: The endpoint's own reply, where the generator is a direct client.
        calls: Each model call, as far as the messages report it: the model's name, and what the call consumed.
        fault: What makes the answer unfit to be released, as feedback to the generator: it is rejected, and no
            judge is asked.
        misfit: What is wrong with the arguments of its tool calls, as feedback: it is rejected without a judge.
        skip_reason: Why the answer is handed on unjudged, in a line without its text; empty where it is judged.
        pending: Whether this is no answer yet: whoever runs the loop goes on with it, and then with the loop.
        kept: What the generator said to keep its earlier answer, which then is the answer; else empty.
    """

    answer: AIMessage
    steps: tuple[AnyMessage, ...] = ()
    evidence: Mapping[str, JsonValue] = field(default_factory=dict)
    raw: dict[str, JsonValue] | None = None
    calls: tuple[tuple[str | None, Usage], ...] = ()
    fault: str = ""
    misfit: str = ""
    skip_reason: str = ""
    pending: bool = False
    kept: str = ""

    @cached_property
    def kind(self) -> AnswerKind:
        """The kind of the answer."""
        return kind_of_answer(self.answer)

    def fields(self, *, checks_calls: bool) -> dict[str, Any]:
        """Return what an `Attempt` has of it beside the answer; `misfit` only where calls are checked."""
        fields = {name: getattr(self, name) for name in ("steps", "evidence", "raw", "fault", "kept")}
        return {**fields, "misfit": self.misfit if checks_calls else ""}


def release_answer(attempt: Attempt, policy: Policy) -> AIMessage:
    """Return an attempt's answer; after a refusal without its reasoning, which may speak of the refused."""
    with_its_reasoning = attempt.number == 1 or policy.keep_reasoning
    return attempt.answer if with_its_reasoning else without_reasoning(attempt.answer)
