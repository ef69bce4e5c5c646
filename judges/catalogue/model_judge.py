"""Base class of the catalogue's judges that ask a model: prepares its questions once in every language."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

from pydantic import BaseModel, JsonValue, ValidationError

from judges.catalogue.metric import Metric, MetricSettings
from judges.catalogue.parts.shown import attach
from judges.entry import Explanation
from judges.errors import AskFailed, ConfigurationError, shortened
from judges.model import JudgeModel
from judges.models.dialects.general import takes_media
from judges.models.render import render_example
from judges.models.resolve import as_model
from judges.prompting.prompts import Language, Prompt
from judges.prompting.questions import Question, ReplyCheck
from judges.prompting.translation import Pack, atranslate, translate
from judges.requests import Ask, Request, WorkedExample
from judges.sample import Sample

R = TypeVar("R", bound=BaseModel)


class ModelSettings(MetricSettings, total=False):
    """Settings of every judge of the catalogue that asks a model.

    Attributes:
        temperature: Sampling temperature for models that set none, 0 by default; None keeps the
            provider's default.
        multimodal: Whether images and audio in messages are sent to the model with the text; False by default, so
            that it is told which parts it was not shown. Parts that it does not take are named in any case.
    """

    temperature: float | None
    multimodal: bool


class ModelJudge(Metric):
    """A judge of the catalogue that asks a model.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        questions: The questions it may ask; with none, no model is needed.
        temperature: Sampling temperature for models that set none; None keeps the provider's default.
        multimodal: Whether images and audio in messages are sent to the model with the text.
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
        multimodal: bool = False,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        if not isinstance(multimodal, bool):
            raise ConfigurationError(f"multimodal is True or False, not {shortened(multimodal)}")
        self._multimodal = multimodal
        self._questions = tuple(question.as_compat() if self.compat else question for question in questions)
        self._models: tuple[JudgeModel, ...] = (as_model(model, temperature=temperature),) if questions else ()
        self._prepare()

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """The model, as a tuple of one; empty if the judge has no questions."""
        return self._models

    def explain(self) -> Explanation:
        """Describe what the judge needs, asks and costs, without calling a model."""
        language = self._language or "en"
        names = [question.prompt for question in self._questions]
        prompts = {name: self._templates[name, language].task for name in names}
        return replace(super().explain(), models=tuple(model.name for model in self._models), prompts=prompts)

    def adapt(self, language: Language, model: object, *, folder: str | Path, overwrite: bool = False) -> Self:
        """Translate the judge's packs into another language, for review, and return a judge that uses them.

        This judge is not changed. Your own criteria and instructions of a rubric are not translated.

        Args:
            language: The language by its code, such as `"de"` or `"pt-BR"`.
            model: The translator: a LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
            folder: Where `<language>/<name>.toml` are written, to be passed later as `prompts=...`. Existing files
                are kept, and not translated again.
            overwrite: Whether existing files are translated again.

        Raises:
            ConfigurationError: If `language` is not a language code, or there is no model.
            AskFailed: If the translation is invalid even after a retry; files written so far stay.
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
        """The pack files it uses, in English: its questions, and its feedback phrases."""
        questions = {
            name: Pack(
                name, texts["en"], tuple(question for question in self._questions if question.prompt == name)
            )
            for name, texts in self._texts.items()
        }
        phrases = {self.pack: Pack(self.pack, self._phrases["en"])} if self.pack else {}
        return tuple({**phrases, **questions}.values())

    def request(
        self,
        question: Question[R],
        sample: Sample,
        data: Mapping[str, JsonValue],
        *,
        check: ReplyCheck | None = None,
    ) -> Ask:
        """Return the request for a reply, to be yielded together with others.

        Args:
            question: One of the judge's questions.
            sample: The sample, which determines the language.
            data: The data shown to the model, by name.
            check: Returns the fault of a reply that fits the schema but not the data, or None.
        """
        template = self._templates[question.prompt, self.language_for(sample)]
        if not self._multimodal:
            return template.about(data, check)
        attached, media = attach(data, partial(takes_media, template.model))
        return template.about(attached, check, media)

    def ask(
        self,
        question: Question[R],
        sample: Sample,
        data: Mapping[str, JsonValue],
        *,
        check: ReplyCheck | None = None,
    ) -> Generator[Request | tuple[Request, ...], Any, R]:
        """Ask one question from inside a deliberation, with `yield from`, and return the reply."""
        reply: R = yield self.request(question, sample, data, check=check)
        return reply

    def ask_all(self, requests: Sequence[Ask]) -> Generator[Request | tuple[Request, ...], Any, tuple[Any, ...]]:
        """Ask several questions at once, with `yield from`.

        Returns:
            For each question its reply or its `AskFailed`; see `all_of`.
        """
        if not requests:
            return ()
        replies: tuple[Any, ...] = yield tuple(requests)
        return replies

    def _in_language(self, language: Language, folder: Path) -> Self:
        """Return a copy of this judge with the packs of another folder, set to one language."""
        other = copy(self)
        other._switch_language(language, folder)  # noqa: SLF001 - a copy, not yet shared
        return other

    def _switch_language(self, language: Language, folder: Path) -> None:
        self._language, self._folder = language, folder
        self._phrases = self._read_phrases()
        self._prepare()

    def _prepare(self) -> None:
        """Read the packs of all questions, and build the part that is the same in every request."""
        self._texts = {question.prompt: self._packs(question.prompt) for question in self._questions}
        self._templates: dict[tuple[str, Language], Ask] = {
            (question.prompt, language): self._template(question, language, text)
            for question in self._questions
            for language, text in self._texts[question.prompt].items()
        }

    def _template(self, question: Question[Any], language: Language, text: Prompt) -> Ask:
        prompt = text if question.task is None else text.model_copy(update={"task": question.task})
        fills = question.fills(text, language) if callable(question.fills) else question.fills
        examples = question.examples
        return Ask(
            model=self._models[0],
            task=prompt.fill_task(**fills),
            data={},
            reminder=text.reminder,
            schema=question.reply,
            examples=tuple(self._examples(question, language, text)) if examples is None else examples,
            shared=question.shared,
        )

    def _examples(self, question: Question[Any], language: Language, text: Prompt) -> Generator[WorkedExample]:
        for example in text.examples:
            try:
                yield render_example(example.data, question.model_reply(example.reply))
            except ValidationError as error:
                fault = error.errors(include_url=False)[0]
                place = ".".join(map(str, fault["loc"]))
                raise ConfigurationError(
                    f"{language}/{question.prompt}.toml: an example's reply, field {place!r}: {fault['msg']}"
                ) from error


def all_of(replies: Sequence[R | AskFailed]) -> tuple[R, ...]:
    """Return the replies, all of which are needed.

    Raises:
        AskFailed: The first failure, if any.
    """
    for reply in replies:
        if isinstance(reply, AskFailed):
            raise reply
    return tuple(reply for reply in replies if not isinstance(reply, AskFailed))
