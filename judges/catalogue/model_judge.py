"""Judges of the catalogue that ask a model: the questions they hold, prepared once in every language."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack, cast

from pydantic import BaseModel, JsonValue, ValidationError

from judges.catalogue.metric import Metric, MetricSettings
from judges.entry import Explanation
from judges.errors import AskFailed, ConfigurationError
from judges.model import JudgeModel
from judges.models.render import render_example
from judges.models.resolve import as_model
from judges.prompting.prompts import Language, Prompt
from judges.prompting.questions import Question, ReplyCheck
from judges.prompting.translation import Pack, atranslate, translate
from judges.requests import Ask, Request, Worked, put
from judges.sample import Sample

R = TypeVar("R", bound=BaseModel)


class ModelSettings(MetricSettings, total=False):
    """Settings of every judge of the catalogue that asks a model.

    Attributes:
        temperature: Asked of a model that leaves it open, 0 unless given; None asks for nothing.
    """

    temperature: float | None


class ModelJudge(Metric):
    """A judge of the catalogue that asks a model.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        questions: What it may ask; with none, no model is needed.
        temperature: Asked of a model that leaves it open; None asks for nothing.
        settings: See `judges.catalogue.metric.Metric`.

    Raises:
        ConfigurationError: If there is no model, or a setting is out of its range.
    """

    def __init__(
        self,
        model: object,
        *,
        questions: Sequence[Question[Any]],
        temperature: float | None = 0.0,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        self._questions = tuple(one.as_compat() if self.compat else one for one in questions)
        self._models: tuple[JudgeModel, ...] = (as_model(model, temperature=temperature),) if questions else ()
        self._prepare()

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """The one model that is asked; none where there is nothing to ask."""
        return self._models

    def explain(self) -> Explanation:
        """Tell what it needs, asks and costs, before anything is spent."""
        language = self._language or "en"
        prompts = {one.prompt: self._templates[one.prompt, language].task for one in self._questions}
        return replace(super().explain(), models=tuple(one.name for one in self._models), prompts=prompts)

    def adapt(self, language: Language, model: object, *, folder: str | Path, overwrite: bool = False) -> Self:
        """Translate the judge's packs into another language, for review, and return a judge that speaks it.

        This judge stays as it is. Of a rubric, criteria and instructions of your own are not translated.

        Args:
            language: The language by its code, such as `"de"` or `"pt-BR"`.
            model: Who translates: a LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
            folder: Where `<language>/<name>.toml` are written, to be given later as `prompts=...`. Files that are
                there already are kept, and not asked for again.
            overwrite: Whether files that are there are translated anew.

        Raises:
            ConfigurationError: If the language is no code, or there is no model.
            AskFailed: If the model does not translate, even when told what was wrong; files done so far stay.
        """
        translate(self.packs, language, model, folder=folder, overwrite=overwrite)
        return self._in_language(language, Path(folder))

    async def aadapt(
        self, language: Language, model: object, *, folder: str | Path, overwrite: bool = False
    ) -> Self:
        """Adapt without blocking; otherwise as `adapt`."""
        await atranslate(self.packs, language, model, folder=folder, overwrite=overwrite)
        return self._in_language(language, Path(folder))

    @property
    def packs(self) -> tuple[Pack, ...]:
        """The files of a pack it speaks with, in English: its questions, and its phrases of feedback."""
        asked = {
            name: Pack(name, texts["en"], tuple(one for one in self._questions if one.prompt == name))
            for name, texts in self._texts.items()
        }
        said = {self.pack: Pack(self.pack, self._phrases["en"])} if self.pack else {}
        return tuple({**said, **asked}.values())

    def request(
        self,
        question: Question[R],
        sample: Sample,
        data: Mapping[str, JsonValue],
        *,
        check: ReplyCheck | None = None,
    ) -> Ask:
        """Write the request for a reply, to be yielded together with others.

        Args:
            question: One of the judge's questions.
            sample: The sample, which decides on the language.
            data: What the model is shown, by name.
            check: Names the fault of a reply that fits the schema but not the data, or gives None.
        """
        return replace(self._templates[question.prompt, self.language_for(sample)], data=data, check=check)

    def ask(
        self,
        question: Question[R],
        sample: Sample,
        data: Mapping[str, JsonValue],
        *,
        check: ReplyCheck | None = None,
    ) -> Generator[Request | tuple[Request, ...], Any, R]:
        """Ask one question from inside a deliberation, with `yield from`, and return the reply."""
        ask = self.request(question, sample, data, check=check)
        return cast("R", (yield from put(ask.schema, ask)))

    def ask_all(self, requests: Sequence[Ask]) -> Generator[Request | tuple[Request, ...], Any, tuple[Any, ...]]:
        """Ask several questions at once, with `yield from`.

        Returns:
            A reply for each, or the `AskFailed` in its place; see `all_of`.
        """
        if not requests:
            return ()
        answers: tuple[Any, ...] = yield tuple(requests)
        return answers

    def _in_language(self, language: Language, folder: Path) -> Self:
        """Make the same judge with the packs of another folder, set to one language."""
        other = copy(self)
        other._speak(language, folder)  # noqa: SLF001 - a copy, not yet seen by anybody else
        return other

    def _speak(self, language: Language, folder: Path) -> None:
        self._language, self._folder = language, folder
        self._phrases = self._read_phrases()
        self._prepare()

    def _prepare(self) -> None:
        """Read the packs of all questions, and write what is the same in every request."""
        self._texts = {one.prompt: self._packs(one.prompt) for one in self._questions}
        self._templates: dict[tuple[str, Language], Ask] = {
            (one.prompt, language): self._template(one, language, text)
            for one in self._questions
            for language, text in self._texts[one.prompt].items()
        }

    def _template(self, question: Question[Any], language: Language, text: Prompt) -> Ask:
        told = text if question.task is None else text.model_copy(update={"task": question.task})
        fills = question.fills(text, language) if callable(question.fills) else question.fills
        examples = question.examples
        return Ask(
            model=self._models[0],
            task=told.filled(**fills),
            data={},
            reminder=text.reminder,
            schema=question.reply,
            examples=tuple(self._worked(question, language, text)) if examples is None else examples,
            shared=question.shared,
        )

    def _worked(self, question: Question[Any], language: Language, text: Prompt) -> Generator[Worked]:
        for one in text.examples:
            try:
                yield render_example(one.data, question.model_reply(one.reply))
            except ValidationError as error:
                fault = error.errors(include_url=False)[0]
                place = ".".join(map(str, fault["loc"]))
                raise ConfigurationError(
                    f"{language}/{question.prompt}.toml: an example's reply, field {place!r}: {fault['msg']}"
                ) from error


def all_of(replies: Sequence[R | AskFailed]) -> tuple[R, ...]:
    """Take replies that are all needed.

    Raises:
        AskFailed: The first failure, if there is one.
    """
    for one in replies:
        if isinstance(one, AskFailed):
            raise one
    return tuple(one for one in replies if not isinstance(one, AskFailed))
