"""Judges of the catalogue that ask a model: the questions they hold, prepared once in every language."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar, Unpack

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from judges.entry import Explanation
from judges.errors import AskFailed, ConfigurationError
from judges.metric import Metric, Settings
from judges.models import JudgeModel, as_model
from judges.models.writing import worked
from judges.prompts import Language, Prompt
from judges.requests import Ask, Request, Worked, put
from judges.sample import Sample

R = TypeVar("R", bound=BaseModel)
Check = Callable[[Any], str | None]


class Reply(BaseModel):
    """Base of the replies that models are asked for: closed, and read-only."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, kw_only=True)
class Question(Generic[R]):
    """What a judge puts to a model.

    Args:
        prompt: Name of the file in a pack.
        reply: Schema of the reply: what decides stands after the reasons.
        fills: Values for the `$name` placeholders of the task.
        written: Where the pack's examples are written for another schema: that one, and how its replies become
            replies of this one.
        shared: Whether judges that ask this about one sample share the reply.
    """

    prompt: str
    reply: type[R]
    fills: Mapping[str, str] = field(default_factory=dict)
    written: tuple[type[BaseModel], Callable[[Any], R]] | None = None
    shared: bool = False

    def model_reply(self, reply: Mapping[str, JsonValue]) -> R:
        """Read the reply of an example."""
        if self.written is None:
            return self.reply.model_validate(reply)
        schema, rewritten = self.written
        return rewritten(schema.model_validate(reply))


class ModelSettings(Settings, total=False):
    """Settings of every judge of the catalogue that asks a model.

    Attributes:
        temperature: Asked of a model that leaves it open, 0 unless given; None asks for nothing.
    """

    temperature: float | None


class Asking(Metric):
    """A judge of the catalogue that asks a model.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        questions: What it may ask.
        temperature: Asked of a model that leaves it open; None asks for nothing.
        settings: See `judges.metric.Metric`.

    Raises:
        ConfigurationError: If there is no model, or a setting is out of its range.
    """

    def __init__(
        self,
        model: object,
        *,
        questions: Sequence[Question[Any]],
        temperature: float | None = 0.0,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self._model = as_model(model, temperature=temperature)
        self._questions = tuple(questions)
        self._texts = {one.prompt: self._packs(one.prompt) for one in self._questions}
        self._templates: dict[tuple[str, Language], Ask] = {
            (one.prompt, language): self._template(one, language, text)
            for one in self._questions
            for language, text in self._texts[one.prompt].items()
        }

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """The one model that is asked."""
        return (self._model,)

    def explain(self) -> Explanation:
        """Tell what it needs, asks and costs, before anything is spent."""
        language = self._language or "en"
        prompts = {one.prompt: self._templates[one.prompt, language].task for one in self._questions}
        return replace(super().explain(), models=(self._model.name,), prompts=prompts)

    def asking(
        self, question: Question[R], sample: Sample, data: Mapping[str, JsonValue], *, check: Check | None = None
    ) -> Ask:
        """Write the request for a reply, to be yielded together with others.

        Args:
            question: One of the judge's questions.
            sample: The sample, which decides on the language.
            data: What the model is shown, by name.
            check: Names the fault of a reply that fits the schema but not the data, or gives None.
        """
        return replace(self._templates[question.prompt, self.spoken(sample)], data=data, check=check)

    def put(
        self, question: Question[R], sample: Sample, data: Mapping[str, JsonValue], *, check: Check | None = None
    ) -> Generator[Request | tuple[Request, ...], Any, R]:
        """Ask one question from inside a deliberation, with `yield from`, and return the reply."""
        return (yield from put(question.reply, self.asking(question, sample, data, check=check)))

    def put_all(self, requests: Sequence[Ask]) -> Generator[Request | tuple[Request, ...], Any, tuple[Any, ...]]:
        """Ask several questions at once, with `yield from`.

        Returns:
            A reply for each, or the `AskFailed` in its place; see `all_of`.
        """
        if not requests:
            return ()
        answers: tuple[Any, ...] = yield tuple(requests)
        return answers

    def _template(self, question: Question[Any], language: Language, text: Prompt) -> Ask:
        return Ask(
            model=self._model,
            task=text.filled(**question.fills),
            data={},
            reminder=text.reminder,
            schema=question.reply,
            examples=tuple(self._worked(question, language, text)),
            shared=question.shared,
        )

    def _worked(self, question: Question[Any], language: Language, text: Prompt) -> Generator[Worked]:
        for one in text.examples:
            try:
                yield worked(one.data, question.model_reply(one.reply))
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
