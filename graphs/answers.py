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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Literal

from langchain_core.messages import AIMessage

from graphs.policy import OnRefusal, Policy
from judges.errors import ConfigurationError, shortened
from judges.judge import Judge
from judges.models.prompt_and_reply import ending_of, finish_reason_of, reason_in
from judges.prompting.prompts import Language
from judges.verdict import Verdict

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

_Fault = Literal["empty", "cut", "invalid_tool_call", "echo"]

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
def _words_on(fault: _Fault, language: Language) -> Mapping[str, str]:
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


def text_of_answer(answer: AIMessage) -> str:
    """Return the text of an answer; of a refusal that came without a text, the text of the refusal."""
    text = str(answer.text)
    return text if text.strip() else _refusal_in(answer) or text


def reason_to_skip(kind: AnswerKind, answer: AIMessage, *, judge_refusals: bool = False) -> str | None:
    """Return why an answer is handed on unjudged, in a line without any of its text; None if it is to be judged.

    Args:
        kind: Its kind.
        answer: The answer.
        judge_refusals: Whether a refusal is judged like any other text; one without a text cannot be.
    """
    match kind:
        case "text" | "empty" | "cut" | "invalid_tool_call" | "echo" | "repeat" | "mended":
            return None
        case "tool_call":
            return "tool_call: the turn calls a tool"
        case "refusal":
            is_judged = judge_refusals and bool(text_of_answer(answer).strip())
            return None if is_judged else "refusal: the model declined to answer"
        case "filtered":
            return f"filtered: the provider stopped the answer{_reason_of(answer)}"
        case _:
            return f"{kind}: the answer has no text to judge"


def fault_of(kind: AnswerKind, answer: AIMessage, *, is_last: bool) -> _Fault | None:
    """Return the fault for which an answer is rejected without a judge; None if a judge is to be asked.

    Args:
        kind: Its kind.
        answer: The answer.
        is_last: Whether there is no further attempt. An answer that was cut off is judged then, as what there is;
            so is the text beside a call that cannot be read.
    """
    if kind == "echo" or (kind in ("cut", "invalid_tool_call") and not is_last):
        return kind
    if kind in ("text", "mended") or text_of_answer(answer).strip():
        return None
    return "invalid_tool_call" if kind == "invalid_tool_call" else "empty"


def rejection_for(fault: _Fault, language: Language) -> Verdict:
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


def unfit_answer(fault: str) -> Verdict:
    """Return the verdict on a draft that its generator calls unfit to be released, with its feedback."""
    return Verdict.rated(1, judge=LOOP, rationale="The answer cannot be used as it is.", feedback=fault)


def misfit_answer(misfit: str) -> Verdict:
    """Return the verdict on a draft whose tool calls do not fit the tools' schemas, with its feedback."""
    rationale = "The arguments of a tool call do not fit its schema."
    return Verdict.rated(1, judge=LOOP, rationale=rationale, feedback=misfit)


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


_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list, tuple),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}
_MOST_FAULTS = 5
_DEEPEST = 30
_LONGEST = 200
_UNTRUSTED = ("pattern", "patternProperties", "format")
"""Keywords that are not checked: a schema may come with a request, and a pattern may take for ever."""


def misfit_of(calls: Iterable[Mapping[str, Any]], schemas: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what is wrong with tool calls, as feedback to whoever made them; empty where nothing is.

    With the extra `jsonschema` that is whatever their schemas say; without it only types, required arguments,
    listed values, and arguments that there are not.

    Args:
        calls: The calls, each with `name` and `args`.
        schemas: JSON schemas of the arguments by the tool's name; calls of other tools are not checked.
    """
    faults = [
        f"The call of the tool {call['name']} does not fit its schema: {fault}"
        for call in calls
        if isinstance(schema := schemas.get(call["name"]), Mapping)
        for fault in _faults_in(call["args"], schema)
    ]
    return "\n".join(faults)


def schemas_in(tools: object) -> dict[str, Mapping[str, Any]]:
    """Return the schemas of arguments by the tool's name, in the form of any API that lists tools."""
    schemas: dict[str, Mapping[str, Any]] = {}
    for tool in tools if isinstance(tools, list | tuple) else ():
        inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if isinstance(inner, Mapping) and isinstance(name := inner.get("name"), str):
            schema = inner.get("parameters", inner.get("input_schema"))
            if isinstance(schema, Mapping):
                schemas[name] = schema
    return schemas


def _faults_in(arguments: object, schema: Mapping[str, Any]) -> list[str]:
    validate = _validator_class()
    if validate is None:
        return list(_plain_faults(arguments, schema, "", _DEEPEST))[:_MOST_FAULTS]
    try:
        faults = sorted(validate(schema, arguments), key=lambda fault: list(map(str, fault.path)))
    except Exception:  # noqa: BLE001 - a schema that cannot be read, or refers elsewhere, is not the model's fault
        return []
    return list(dict.fromkeys(fault for one in faults for fault in _instructions(one)))[:_MOST_FAULTS]


def _instructions(fault: Any) -> Iterator[str]:
    place = fault.json_path.removeprefix("$").removeprefix(".")
    if fault.validator == "required":
        yield from (_missing(key, place) for key in fault.validator_value if key not in fault.instance)
    else:
        yield f"{place or 'its arguments'}: {fault.message[:_LONGEST]}."


def _missing(key: str, place: str) -> str:
    return f"{f'{place}.' if place else ''}{key} is missing."


@cache
def _validator_class() -> Any:
    """Return what yields the faults of a value by a schema; None without the extra.

    Only references within a schema are followed: nothing is fetched.
    """
    try:
        from jsonschema import Draft202012Validator  # noqa: PLC0415 - an extra, imported on demand
        from jsonschema.validators import extend  # noqa: PLC0415
        from referencing import Registry  # noqa: PLC0415 - comes with it
    except ImportError:
        return None
    kind = extend(Draft202012Validator, dict.fromkeys(_UNTRUSTED, _ignore))  # type: ignore[no-untyped-call]
    nothing = Registry()
    return lambda schema, value: kind(dict(schema), registry=nothing).iter_errors(value)


def _ignore(*_: object) -> Iterator[Any]:
    yield from ()


def _plain_faults(value: object, schema: Mapping[str, Any], place: str, depth: int) -> Iterator[str]:
    """Yield what is wrong by the plainest keywords; a schema that is put together of others is not read."""
    if depth == 0 or not isinstance(schema, Mapping):
        return
    kinds = schema.get("type")
    names = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if names and not any(_is_of(value, name) for name in names):
        yield f"{place or 'its arguments'} must be of type {' or '.join(map(str, names))}."
        return
    listed = schema.get("enum")
    if isinstance(listed, list) and value not in listed:
        yield f"{place or 'its arguments'} must be one of {', '.join(map(repr, listed))[:_LONGEST]}."
    if isinstance(value, Mapping):
        yield from _faults_of_object(value, schema, place, depth)
    if isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        for number, item in enumerate(value):
            yield from _plain_faults(item, items, f"{place}[{number}]", depth - 1)


def _faults_of_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], place: str, depth: int
) -> Iterator[str]:
    required, properties = schema.get("required"), schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    for key in required if isinstance(required, list) else ():
        if key not in value:
            yield _missing(str(key), place)
    for key, part in value.items():
        inner = f"{place}.{key}" if place else str(key)
        if isinstance(properties.get(key), Mapping):
            yield from _plain_faults(part, properties[key], inner, depth - 1)
        elif schema.get("additionalProperties") is False and key not in properties:
            yield f"{inner} is no argument of it."


def _is_of(value: object, name: object) -> bool:
    kinds: Sequence[type] = _TYPES.get(name, (object,)) if isinstance(name, str) else (object,)
    if isinstance(value, bool) and name in ("integer", "number"):
        return False
    is_whole = name == "integer" and isinstance(value, float) and value.is_integer()
    return is_whole or isinstance(value, tuple(kinds))


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


def mended_answer(answer: AIMessage, verdict: Verdict) -> AIMessage | None:
    """Return an answer with what a judge refused masked; None where it has no mask, or masking would break it.

    What stands beside its text, such as its reasoning, may repeat what is masked, and is left out. Calls of tools
    are never masked, and JSON stays JSON.
    """
    text = verdict.replacement
    is_text = kind_of_answer(answer) == "text" and not answer.response_metadata.get(CALL_AS_TEXT)
    if text is None or not is_text or text == str(answer.text) or not text.strip():
        return None
    if _is_json(str(answer.text)) and not _is_json(text):
        return None
    metadata = {name: value for name in _REASONS if (value := answer.response_metadata.get(name)) is not None}
    return AIMessage(text, id=answer.id, response_metadata=metadata)


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
