"""Adapting a judge to another language: a model translates its packs once, people review the files.

The English texts of a pack are sent as numbered items; the reply must hold each number once, every `$placeholder`
and every word in backquotes, and examples that still fit the schema of the reply.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, JsonValue, ValidationError

from judges.errors import AskFailed, ConfigurationError, unfit
from judges.model import JudgeModel
from judges.models import structured
from judges.models.prompt_and_reply import render_example
from judges.models.resolve import as_model
from judges.prompting.prompts import LANGUAGES, Example, Language, Prompt, Question, ReplySchema, prompt
from judges.requests import Ask
from judges.runtime.observation import current

_WIDTH = 110
_LONG = re.compile(rf"(.{{{_WIDTH - 40},{_WIDTH}}}) (?=\S)")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_UNSAFE = re.compile(r'[\x00-\x08\x0a-\x1f\x7f"\\]')
_UNSAFE_IN_LINES = re.compile(r'[\x00-\x08\x0b-\x1f\x7f\\]|"(?="")|"\Z')
_SHORT = {"\b": "\\b", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def to_toml(prompt: Prompt) -> str:
    """Return a prompt as TOML; parsing it gives the same prompt."""
    blocks = ["\n".join(_head(prompt))]
    if prompt.levels:
        blocks.append(toml_table("levels", {str(level): text for level, text in prompt.levels.items()}))
    for example in prompt.examples:
        data, reply = toml_table("examples.data", example.data), toml_table("examples.reply", example.reply)
        blocks.append(f"[[examples]]\n{data}\n{reply}")
    if prompt.feedback:
        blocks.append(toml_table("feedback", prompt.feedback))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _head(prompt: Prompt) -> Iterator[str]:
    if prompt.task:
        yield f"task = {_lines(prompt.task)}"
    if prompt.reminder:
        yield f"reminder = {_text(prompt.reminder)}"
    if prompt.nearest is not None:
        yield f"nearest = {prompt.nearest}\nlikeness = {_text(prompt.likeness)}"


def toml_table(name: str, fields: Mapping[str, JsonValue]) -> str:
    """Return a table of TOML, whatever is inside its fields in one line each."""
    return "\n".join([f"[{name}]", *(f"{_key(key)} = {_value(value)}" for key, value in fields.items())])


def _value(value: JsonValue) -> str:
    if isinstance(value, list) and len(flat := _flat(value)) > _WIDTH:
        lines = "".join(f"  {_flat(item)},\n" for item in value)
        return f"[\n{lines}]"
    return flat if isinstance(value, list) else _flat(value)


def _flat(value: JsonValue) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _text(value)
        case list():
            return f"[{', '.join(map(_flat, value))}]"
        case dict():
            fields = ", ".join(f"{_key(key)} = {_flat(item)}" for key, item in value.items())
            return f"{{ {fields} }}" if fields else "{}"
        case None:
            raise ValueError("TOML has no null; leave the field out")
        case _:
            return repr(value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    return f'"{_UNSAFE.sub(_escape, text)}"'


def _lines(text: str) -> str:
    """Return a text as a multi-line string; long lines are continued at a single blank."""
    safe = _UNSAFE_IN_LINES.sub(_escape, text)
    lines = (_LONG.sub(r"\1 \\\n", line) if len(line) > _WIDTH else line for line in safe.split("\n"))
    return '"""\n' + "\n".join(lines) + '"""'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return _SHORT.get(character, f"\\u{ord(character):04x}")


_CODE = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")
_CLOSED = re.compile(r"[a-z_]+|[\W\d_]*")
"""Words of a closed set, as packs write them (`supported`, `user`), and texts without letters: not translated."""

_PLACEHOLDER = re.compile(r"\$\{?[_a-zA-Z][_a-zA-Z0-9]*\}?")
_QUOTED = re.compile(r"`[^`\n]+`")


class _Translated(ReplySchema):
    """One text in the other language."""

    number: int = Field(description="whole number of the text")
    text: str = Field(description="text: the translation")


class _Translation(ReplySchema):
    """The texts in the other language."""

    text_limits = None
    items: list[_Translated] = Field(description="list of objects, exactly one for each number, in their order")


@dataclass(frozen=True)
class Pack:
    """A file of a pack, in English.

    Args:
        name: Its name, without the extension.
        prompt: Its content.
        questions: The questions that use it; its examples must fit their replies.
    """

    name: str
    prompt: Prompt
    questions: tuple[Question[Any], ...] = ()

    def texts(self) -> tuple[str, ...]:
        """Return the texts that people or models read, each once."""
        texts: dict[str, None] = {}

        def collect(text: str) -> str:
            texts[text] = None
            return text

        self.rewrite(collect)
        return tuple(texts)

    def rewrite(self, change: Callable[[str], str]) -> Prompt:
        """Return the prompt with every text changed; keys, numbers and the words of a closed set stay."""
        schemas = [
            schema.model_json_schema()
            for question in self.questions
            for schema in (question.reply, *(question.example_format or ())[:1])
        ]
        closed = frozenset(_enum_words(schemas))

        def change_open(text: str) -> str:
            return text if text in closed or _CLOSED.fullmatch(text) else change(text)

        return Prompt(
            task=_change_nonempty(self.prompt.task, change),
            reminder=_change_nonempty(self.prompt.reminder, change),
            levels={level: change(text) for level, text in self.prompt.levels.items()},
            examples=tuple(_change_example(example, change_open) for example in self.prompt.examples),
            feedback={key: change(text) for key, text in self.prompt.feedback.items()},
        )

    def fault_in(self, translation: _Translation) -> str | None:
        """Return the fault of a translation, or None."""
        texts = self.texts()
        if sorted(item.number for item in translation.items) != list(range(1, len(texts) + 1)):
            return f"items: exactly one text for each number from 1 to {len(texts)} is wanted"
        translated = {texts[item.number - 1]: item.text for item in translation.items}
        if all(text == original for original, text in translated.items()):
            return "items: nothing was translated"
        for item in translation.items:
            if fault := _loss(texts[item.number - 1], item.text):
                return f"items, number {item.number}: {fault}"
        return self._example_fault(self.rewrite(translated.__getitem__))

    def _example_fault(self, other: Prompt) -> str | None:
        for example in other.examples:
            for question in self.questions:
                try:
                    question.model_reply(example.reply)
                except ValidationError as error:
                    return f"items: an example no longer fits its reply: {error.errors()[0]['msg']}"
        return None


def translate(
    packs: Sequence[Pack], language: Language, model: object, *, folder: str | Path, overwrite: bool = False
) -> None:
    """Translate files of a pack with a model, one question each, into `folder/<language>/<name>.toml`.

    Existing files are kept: reviewed ones stay unchanged, and a repeated call translates only what an earlier one
    did not finish.

    Args:
        packs: The files, in English.
        language: The language by its code, such as `"de"` or `"pt-BR"`.
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        folder: Where packs are written; it is created if missing.
        overwrite: Whether existing files are translated again.

    Raises:
        ConfigurationError: If the language is no code, or is English, or there is no model.
        AskFailed: If the model does not translate, even after a second request that names the fault; finished
            files stay.
    """
    for pack, ask, file in _asks(packs, language, model, Path(folder), overwrite=overwrite):
        _write(file, pack, structured.complete(ask, current.get()).value)


async def atranslate(
    packs: Sequence[Pack], language: Language, model: object, *, folder: str | Path, overwrite: bool = False
) -> None:
    """Translate without blocking, all files at once; otherwise as `translate`."""

    async def translate_file(pack: Pack, ask: Ask, file: Path) -> None:
        _write(file, pack, (await structured.acomplete(ask, current.get())).value)

    asks = list(_asks(packs, language, model, Path(folder), overwrite=overwrite))
    failures = await asyncio.gather(*(translate_file(*ask) for ask in asks), return_exceptions=True)
    for failure in failures:
        if failure is not None:
            raise failure


def _asks(
    packs: Sequence[Pack], language: Language, model: object, folder: Path, *, overwrite: bool
) -> Iterator[tuple[Pack, Ask, Path]]:
    """Yield the question for each missing file; a file is looked for just before its question."""
    if not _CODE.fullmatch(language):
        raise unfit("language is a code such as 'de' or 'pt-BR'", language)
    if language == "en":
        raise ConfigurationError("the packs are written in English; adapt them to another language")
    judge_model = as_model(model)
    for pack in packs:
        file = folder / language / f"{pack.name}.toml"
        if overwrite or not file.exists():
            yield pack, _ask(pack, language, judge_model), file


def _ask(pack: Pack, language: Language, model: JudgeModel) -> Ask:
    instructions = prompt("adapt", language if language in LANGUAGES else "en")
    texts: list[JsonValue] = [{"number": number, "text": text} for number, text in enumerate(pack.texts(), 1)]
    return Ask(
        model=model,
        task=instructions.task,
        data={"language": language, "texts": texts},
        reminder=instructions.reminder,
        schema=_Translation,
        examples=tuple(
            render_example(example.data, _Translation.model_validate(example.reply))
            for example in instructions.examples
        ),
        check=pack.fault_in,
    )


def _write(file: Path, pack: Pack, translation: BaseModel) -> None:
    if not isinstance(translation, _Translation):
        raise AskFailed("invalid_output", f"expected a Translation, got a {type(translation).__name__}")
    texts = pack.texts()
    translated = {texts[item.number - 1]: item.text for item in translation.items}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(to_toml(pack.rewrite(translated.__getitem__)), encoding="utf-8", newline="\n")


def _change_nonempty(text: str, change: Callable[[str], str]) -> str:
    return change(text) if text else ""


def _change_example(example: Example, change: Callable[[str], str]) -> Example:
    data = {name: _change_value(value, change) for name, value in example.data.items()}
    return Example(data=data, reply={name: _change_value(value, change) for name, value in example.reply.items()})


def _change_value(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    match value:
        case str():
            return change(value)
        case list():
            return [_change_value(item, change) for item in value]
        case dict():
            return {name: _change_value(item, change) for name, item in value.items()}
        case _:
            return value


def _enum_words(node: JsonValue) -> Iterator[str]:
    """Yield the words that a JSON schema offers for choice."""
    if isinstance(node, list):
        for item in node:
            yield from _enum_words(item)
    elif isinstance(node, dict):
        choices = node.get("enum")
        words = [*(choices if isinstance(choices, list) else []), node.get("const")]
        yield from (word for word in words if isinstance(word, str))
        yield from _enum_words(list(node.values()))


def _loss(original: str, text: str) -> str | None:
    """Describe what a translation lost: its text, lines, placeholders or words in backquotes; None if nothing."""
    if not text.strip():
        return "the text is empty"
    if len(text.strip().splitlines()) != len(original.strip().splitlines()):
        return f"{len(original.strip().splitlines())} lines are wanted, as in the original"
    for find in (_PLACEHOLDER.findall, _quoted_words):
        before, after = Counter(find(original)), Counter(find(text))
        if before != after:
            changed = sorted((before - after) | (after - before))
            return f"{', '.join(changed)} must stand in it exactly as in the original"
    return None


def _quoted_words(text: str) -> set[str]:
    return set(_QUOTED.findall(text))
