"""Adapting a judge to another language: a model translates its packs once, people review the files.

The English texts of a pack are sent as numbered items; what comes back must hold each number once, every
`$placeholder` and every word in backquotes, and examples that still fit the schema of the reply.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, JsonValue, ValidationError

from judges.errors import AskFailed, ConfigurationError
from judges.model import JudgeModel
from judges.models import structured
from judges.models.render import render_example
from judges.models.resolve import as_model
from judges.prompting.pack_writer import written
from judges.prompting.prompts import LANGUAGES, Example, Language, Prompt, prompt
from judges.prompting.questions import Question, ReplySchema
from judges.requests import Ask

_CODE = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})*")
_CLOSED = re.compile(r"[a-z_]+|[\W\d_]*")
"""A word of a closed set, as packs write it (`supported`, `user`), and what has no letters: never translated."""

_PLACEHOLDER = re.compile(r"\$\{?[_a-zA-Z][_a-zA-Z0-9]*\}?")
_QUOTED = re.compile(r"`[^`\n]+`")


class Translated(ReplySchema):
    """One text in the other language."""

    number: int = Field(description="whole number of the text")
    text: str = Field(description="text: the translation")


class Translation(ReplySchema):
    """The texts in the other language."""

    items: list[Translated] = Field(description="list of objects, exactly one for each number, in their order")


@dataclass(frozen=True)
class Pack:
    """A file of a pack, in English.

    Args:
        name: Its name, without the ending.
        prompt: What it holds.
        questions: The questions that are asked with it, whose examples must fit their replies.
    """

    name: str
    prompt: Prompt
    questions: tuple[Question[Any], ...] = ()

    def texts(self) -> tuple[str, ...]:
        """List the texts that are for people or models to read, each once."""
        found: dict[str, None] = {}

        def note(text: str) -> str:
            found[text] = None
            return text

        self.rewritten(note)
        return tuple(found)

    def rewritten(self, change: Callable[[str], str]) -> Prompt:
        """Change every text; keys, numbers and the words of a closed set stay."""
        schemas = [
            schema.model_json_schema()
            for question in self.questions
            for schema in (question.reply, *(question.written or ())[:1])
        ]
        closed = frozenset(_enumerated(schemas))

        def changed(text: str) -> str:
            return text if text in closed or _CLOSED.fullmatch(text) else change(text)

        given = self.prompt
        return Prompt(
            task=_at_once(given.task, change),
            reminder=_at_once(given.reminder, change),
            levels={level: change(text) for level, text in given.levels.items()},
            examples=tuple(_example(one, changed) for one in given.examples),
            feedback={key: change(text) for key, text in given.feedback.items()},
        )

    def fault_in(self, translation: Translation) -> str | None:
        """Name what is wrong with a translation, or give None."""
        texts = self.texts()
        if sorted(one.number for one in translation.items) != list(range(1, len(texts) + 1)):
            return f"items: exactly one text for each number from 1 to {len(texts)} is wanted"
        found = {texts[one.number - 1]: one.text for one in translation.items}
        if all(text == original for original, text in found.items()):
            return "items: nothing was translated"
        for one in translation.items:
            if fault := _lost(texts[one.number - 1], one.text):
                return f"items, number {one.number}: {fault}"
        return self._unfit(self.rewritten(found.__getitem__))

    def _unfit(self, other: Prompt) -> str | None:
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

    Files that are there already are kept, and not asked for: reviewed ones stay as they are, and what an earlier
    attempt did not get done is done now.

    Args:
        packs: The files, in English.
        language: The language by its code, such as `"de"` or `"pt-BR"`.
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        folder: Where packs are written; it is made if need be.
        overwrite: Whether files that are there are translated anew.

    Raises:
        ConfigurationError: If the language is no code, or is English, or there is no model.
        AskFailed: If the model does not translate, even when told what was wrong; files done so far stay.
    """
    for pack, ask, file in _asks(packs, language, model, Path(folder), overwrite=overwrite):
        _write(file, pack, structured.complete(ask).value)


async def atranslate(
    packs: Sequence[Pack], language: Language, model: object, *, folder: str | Path, overwrite: bool = False
) -> None:
    """Translate without blocking, all files at once; otherwise as `translate`."""

    async def one(pack: Pack, ask: Ask, file: Path) -> None:
        _write(file, pack, (await structured.acomplete(ask)).value)

    asks = list(_asks(packs, language, model, Path(folder), overwrite=overwrite))
    done = await asyncio.gather(*(one(*ask) for ask in asks), return_exceptions=True)
    for failure in done:
        if failure is not None:
            raise failure


def _asks(
    packs: Sequence[Pack], language: Language, model: object, folder: Path, *, overwrite: bool
) -> Iterator[tuple[Pack, Ask, Path]]:
    """Write the question for each file that is wanting; a file is looked for just before it is asked for."""
    if not _CODE.fullmatch(language):
        raise ConfigurationError(f"language is a code such as 'de' or 'pt-BR', not {language!r}")
    if language == "en":
        raise ConfigurationError("the packs are written in English; adapt them to another language")
    asked = as_model(model)
    for pack in packs:
        file = folder / language / f"{pack.name}.toml"
        if overwrite or not file.exists():
            yield pack, _ask(pack, language, asked), file


def _ask(pack: Pack, language: Language, model: JudgeModel) -> Ask:
    told = prompt("adapt", language if language in LANGUAGES else "en")
    texts: list[JsonValue] = [{"number": number, "text": text} for number, text in enumerate(pack.texts(), 1)]
    return Ask(
        model=model,
        task=told.task,
        data={"language": language, "texts": texts},
        reminder=told.reminder,
        schema=Translation,
        examples=tuple(render_example(one.data, Translation.model_validate(one.reply)) for one in told.examples),
        check=pack.fault_in,
    )


def _write(file: Path, pack: Pack, translation: BaseModel) -> None:
    if not isinstance(translation, Translation):
        raise AskFailed("invalid_output", f"expected a Translation, got a {type(translation).__name__}")
    texts = pack.texts()
    found = {texts[one.number - 1]: one.text for one in translation.items}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(written(pack.rewritten(found.__getitem__)), encoding="utf-8", newline="\n")


def _at_once(text: str, change: Callable[[str], str]) -> str:
    return change(text) if text else ""


def _example(example: Example, change: Callable[[str], str]) -> Example:
    data = {name: _changed(value, change) for name, value in example.data.items()}
    return Example(data=data, reply={name: _changed(value, change) for name, value in example.reply.items()})


def _changed(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    match value:
        case str():
            return change(value)
        case list():
            return [_changed(one, change) for one in value]
        case dict():
            return {name: _changed(one, change) for name, one in value.items()}
        case _:
            return value


def _enumerated(node: JsonValue) -> Iterator[str]:
    """Find the words that a JSON schema offers for choice."""
    if isinstance(node, list):
        for one in node:
            yield from _enumerated(one)
    elif isinstance(node, dict):
        choices = node.get("enum")
        offered = [*(choices if isinstance(choices, list) else []), node.get("const")]
        yield from (one for one in offered if isinstance(one, str))
        yield from _enumerated(list(node.values()))


def _lost(original: str, text: str) -> str | None:
    """Name what a translation lost that must survive: all of it, its lines, placeholders, words in backquotes."""
    if not text.strip():
        return "the text is empty"
    if len(text.strip().splitlines()) != len(original.strip().splitlines()):
        return f"{len(original.strip().splitlines())} lines are wanted, as in the original"
    for find in (_PLACEHOLDER.findall, _quoted):
        before, after = Counter(find(original)), Counter(find(text))
        if before != after:
            changed = sorted((before - after) | (after - before))
            return f"{', '.join(changed)} must stand in it exactly as in the original"
    return None


def _quoted(text: str) -> set[str]:
    return set(_QUOTED.findall(text))
