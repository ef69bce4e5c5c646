"""Base class of the catalogue's judges: entry, variants, threshold, feedback in the sample's language."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, TypedDict, TypeVar, Unpack

from pydantic import BaseModel, JsonValue, ValidationError

from judges.catalogue.before_judging import Looking, OwnAnswers, as_tools
from judges.catalogue.general.gate import classify_non_answer, explain_non_answer
from judges.catalogue.parts.fields import attach
from judges.compose.quick import weigh
from judges.entry import Entry, Explanation, own_entry
from judges.errors import AskFailed, ConfigurationError, first_fault, one_line
from judges.judge import Judge
from judges.model import JudgeModel
from judges.models.likelihood import Levels, levels_in
from judges.models.prompt_and_reply import dialect_of, has_own_format, render_example, takes_media, tokens_of
from judges.models.providers.minilm_and_hhem import alike, traits_of
from judges.models.resolve import as_model
from judges.prompting.prompts import LANGUAGES, Language, Prompt, Question, ReplyCheck, language_of, prompts_of
from judges.prompting.translation import Pack, atranslate, translate
from judges.requests import Ask, Deliberation, Request, WorkedExample
from judges.sample import Sample
from judges.settings import MADE_WITH, MadeWith, Needed
from judges.verdict import Value, Verdict

Variant = Literal["corrected", "compat"]


class MetricSettings(TypedDict, total=False):
    """Settings of every judge of the catalogue.

    Attributes:
        name: Name of the judge; its qualified name by default.
        variant: `"corrected"`, or `"compat"`, which reproduces the scores of the original implementation.
        threshold: Lowest score that passes, 0 to 1; None takes the judge's own, mostly 0.5.
        language: Language of prompts and feedback; None takes the language of the question or, without one,
            of the first other text in the sample.
        prompts: Folder of packs that override the packaged ones, laid out like them (`zh/faithfulness.toml`).

    The threshold does not affect judges that say yes or no.
    """

    name: str
    variant: Variant
    threshold: float | None
    language: Language | None
    prompts: str | Path | None


class Metric(Judge):
    """Base class of the catalogue's judges.

    Raises:
        ConfigurationError: If a setting is out of its range.

    Attributes:
        entry: Its entry in the catalogue.
        pack: Name of the pack file that holds its feedback phrases.
        pack_folder: Folder of its packs, for a judge outside this package: searched after the user's `prompts` and
            before the packaged ones. Each prompt is there in English, and in any other languages; where Chinese or
            Russian is wanted and missing, English is used.
        pass_mark: Default threshold.
        own_places: Attributes that only say where files lie, of which a fingerprint has the content.
    """

    entry: ClassVar[Entry]
    pack: ClassVar[str] = ""
    pack_folder: ClassVar[Path | None] = None
    pass_mark: ClassVar[float] = 0.5
    own_places: ClassVar[frozenset[str]] = frozenset({"_folder"})

    def __init_subclass__(cls, *, entry: str = "", pack: str | None = None, **options: object) -> None:
        """Take what `entries.toml` has of a judge of this package, by its name there, and the name of its pack."""
        super().__init_subclass__(**options)
        if entry:
            cls.entry = own_entry(entry)
        if pack is not None:
            cls.pack = pack

    def __init__(
        self,
        *,
        name: str | None = None,
        variant: Variant = "corrected",
        threshold: float | None = None,
        language: Language | None = None,
        prompts: str | Path | None = None,
    ) -> None:
        mark = self.pass_mark if threshold is None else threshold
        self.name = self.entry.name if name is None else name
        self.variant: Variant = variant
        self.threshold: float = mark
        self._language = language
        self._folder = None if prompts is None else Path(prompts)
        self._phrases = self._read_phrases()

    @property
    def compat(self) -> bool:
        """True if scores are to reproduce the original implementation."""
        return self.variant == "compat"

    @property
    def needs(self) -> tuple[str, ...]:
        """Fields of a sample that this judge needs with its settings."""
        return self.entry.needs

    @property
    def calls(self) -> str:
        """Model calls for one sample with its settings, as a formula."""
        return self.entry.calls

    def explain(self) -> Explanation:
        """Describe what the judge needs, asks and costs, without calling a model."""
        return replace(super().explain(), needs=self.needs, calls=self.calls, variant=self.variant)

    def language_for(self, sample: Sample) -> Language:
        """Return the language of prompts and feedback for a sample."""
        texts = (sample.question, sample.answer, sample.reference, *(sample.retrieved_contexts or ()))
        return self._language or language_of(next(filter(str.strip, filter(None, texts)), ""))

    def say(self, phrase: str, sample: Sample, **values: object) -> str:
        """Return one of the pack's feedback phrases, filled in, in the language of the sample."""
        return self._phrases[self.language_for(sample)].feedback_text(phrase, **values)

    def verdict(self, score: float, *, value: Value | None = None, **fields: object) -> Verdict:
        """Return a verdict for a score from 0 to 1, which passes at the judge's threshold."""
        return Verdict.scored(score, threshold=self.threshold, value=value, **fields)

    def refuse_unasked(self, sample: Sample) -> Verdict | None:
        """Return the refusal of an answer without content, at no cost; None for any other sample.

        Symbols, opening words and the question over again get good marks from many models ("master keys", arXiv
        2507.08794), with a reference beside them, too. Whatever asks a model, vectors or a classifier about the
        answer refuses them first; `variant="compat"` asks, as the original does.
        """
        if not self._refuses_non_answers():
            return None
        answer = sample.answer or ""
        if not answer.strip():
            return None
        kind = classify_non_answer(answer, question=sample.question, reference=sample.reference)
        if kind is None:
            return None
        rationale, feedback = explain_non_answer(kind, self.language_for(sample))
        return self.lowest_verdict(rationale=rationale, feedback=feedback, detail=f"gate: {kind}")

    def lowest_verdict(self, **fields: Any) -> Verdict:
        """Return the verdict on an answer without content, which no threshold lets pass.

        It has a value where that would not claim more: an empty answer is no hate, nor the best of its kind.
        """
        native = {"yes or no": False, "0 to 1": 0.0}.get(self.entry.scale) if self.entry.better == "high" else None
        return Verdict(value=native, score=0.0, rating=1, passed=False, **fields)

    def _refuses_non_answers(self) -> bool:
        """True if an answer without content is refused before anybody is asked: not where a rule decides alone."""
        return False

    def _read_phrases(self) -> Mapping[Language, Prompt]:
        """Read the pack's phrases; for a judge of the retriever add the note that no rewrite helps."""
        if not self.pack:
            return {}
        phrases = self._packs(self.pack)
        if self.entry.subject != "retriever":
            return phrases
        notes = prompts_of("retriever")
        return {
            language: prompt.model_copy(
                update={"feedback": {**notes.get(language, notes["en"]).feedback, **prompt.feedback}}
            )
            for language, prompt in phrases.items()
        }

    def _packs(self, name: str) -> Mapping[Language, Prompt]:
        packs = prompts_of(name, folder=self._folder, author_folder=self.pack_folder)
        if self._language is not None and self._language not in packs:
            file = f"{one_line(self._language, longest=20)}/{name}.toml"
            raise ConfigurationError(
                f"{self.name!r} has no {file}; known are {', '.join(packs)}. Write one (a judge that "
                f"asks a model has adapt(...) for it), and give its folder as prompts=..."
            )
        return dict.fromkeys(LANGUAGES, packs["en"]) | packs


class ComputedMetric(Metric):
    """A judge of the catalogue that computes its verdict without a model.

    Attributes:
        own_feedback: What an answer that fails is told instead of what the judge finds; None tells that.
    """

    own_feedback: str | None = None

    @abstractmethod
    def compute(self, sample: Sample) -> Verdict:
        """Return the verdict.

        Raises:
            CannotJudge: If the sample cannot be judged.
        """

    def deliberate(self, sample: Sample) -> Deliberation:
        """Return the computed verdict, without making a request."""
        yield from ()
        verdict = self.compute(sample)
        if self.own_feedback is None or not verdict.feedback:
            return verdict
        return verdict.model_copy(update={"feedback": self.own_feedback})


R = TypeVar("R", bound=BaseModel)


class AskingSettings(TypedDict, total=False):
    """Settings of how a model is asked, of every judge of the catalogue that asks one.

    Attributes:
        temperature: Sampling temperature for models that set none, 0 by default; None keeps the
            provider's default.
        multimodal: Whether images and audio in messages are sent to the model with the text; False by default, so
            that it is told which parts it was not shown. Parts that it does not take are named in any case.
        gate: Whether an answer without content is refused without asking; see `Metric.refuse_unasked`.
        probabilities: Whether the model is also asked how likely each rating was; see `judges.Verdict`.
        tools: What it may look things up with before it judges; none by default.
        looks: Most calls of tools for one sample, 6 by default.
        commit: Whether it answers the question itself before it sees the answer; False by default.
    """

    temperature: float | None
    multimodal: bool
    gate: bool
    probabilities: bool
    tools: Sequence[Any] | None
    looks: int
    commit: bool


class ModelSettings(AskingSettings, MetricSettings, total=False):
    """Settings of every judge of the catalogue that asks a model."""


class ModelJudge(Metric):
    """A judge of the catalogue that asks a model.

    Raises:
        ConfigurationError: If there is no model, or a setting is out of its range.

    Attributes:
        questions: The questions it may ask; with none, no model is needed. Those that depend on settings are
            passed to `__init__`.
    """

    questions: ClassVar[Sequence[Question[Any]]] = ()
    _probabilities: bool = False
    _cases: Mapping[tuple[str, Language], _Nearest] = MappingProxyType({})
    _looking: Looking | None = None
    _own_answers: OwnAnswers | None = None
    _first_questions: tuple[Question[Any], ...] = ()

    def __init__(
        self,
        model: Annotated[object, Needed()] = None,
        *,
        questions: Sequence[Question[Any]] | None = None,
        temperature: float | None = 0.0,
        multimodal: bool = False,
        gate: bool = True,
        probabilities: bool = False,
        tools: Sequence[Any] | None = None,
        looks: int = 6,
        commit: bool = False,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        self._multimodal = multimodal
        self._gate = gate
        if probabilities:  # no attribute unless it is set, so that fingerprints stay what they were
            self._probabilities = True
        own_questions = self.questions if questions is None else questions
        self._questions = tuple(question.as_compat() if self.compat else question for question in own_questions)
        self._models: tuple[JudgeModel, ...] = (as_model(model, temperature=temperature),) if own_questions else ()
        if tools or commit:
            self._prepare_first_steps(Looking(as_tools(tools), looks) if tools else None, commit=commit)
        if probabilities and not self.levels:
            raise ConfigurationError(
                f"{self.name!r} asks its model for more than one rating, or for none of a closed scale, so "
                f"probabilities=True has nothing to weigh; leave it out"
            )
        self._prepare()

    @property
    def levels(self) -> tuple[Levels, ...]:
        """The levels it asks for, by each of its questions, where one call asks for one rating; else none."""
        replies: list[type[BaseModel]] = [question.reply for question in self._questions]
        levels = [levels_in(reply) for reply in replies]
        return tuple(one for one in levels if one is not None) if None not in levels and self.calls == "1" else ()

    def _prepare_first_steps(self, looking: Looking | None, *, commit: bool) -> None:
        """Keep what is done before judging: no attributes of what is not set, as fingerprints have them all."""
        setting = "tools" if looking is not None else "commit"
        if self.compat or not self._models or has_own_format(self._models[0]):
            raise ConfigurationError(
                f"{setting} needs a general model and variant='corrected', unlike {self.name!r} here; leave it out"
            )
        if commit and not (self.entry.subject == "answer" and {"user_input", "response"} <= set(self.entry.needs)):
            raise ConfigurationError(
                f"commit=True is for a judge of question and answer; {self.name!r} needs "
                f"{' and '.join(self.entry.needs)}; leave it out"
            )
        if looking is not None:
            self._looking = looking
        if commit:
            self._own_answers = OwnAnswers()
        first = (self._looking, self._own_answers)
        self._first_questions = tuple(one.question for one in first if one is not None)

    @property
    def reads_whole_sample(self) -> bool:
        """True if it reads what is too long to be shown by a tool, so that nothing is cut for it."""
        return self._looking is not None and self._looking.reads_sample

    def deliberation(self, sample: Sample) -> Deliberation:
        """Return the deliberation: weighed with `probabilities`, after what `commit` and `tools` do first."""
        deliberation = weigh(self, sample, "likelihood") if self._probabilities else self.deliberate(sample)
        if not self._first_questions:
            return deliberation
        language = self.language_for(sample)
        for step in (self._own_answers, self._looking):
            if step is not None:
                note = self._texts[step.question.prompt][language].feedback["note"]
                deliberation = step.around(self, sample, deliberation, note)
        return deliberation

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """The model, as a tuple of one; empty if the judge has no questions."""
        return self._models

    def _refuses_non_answers(self) -> bool:
        """Return whether a model is asked about the answer, and the gate is not off."""
        judges_answers = self.entry.subject == "answer" and "response" in self.needs
        return self._gate and judges_answers and not self.compat and bool(self._questions)

    def explain(self) -> Explanation:
        """Describe what the judge needs, asks and costs, without calling a model."""
        language = self._language or "en"
        names = [question.prompt for question in self._asked]
        prompts = {name: self._templates[name, language].task for name in names}
        sizes = [
            _size_of(template)
            for (_, template_language), template in self._templates.items()
            if template_language == language
        ]
        fewest, most = max(sizes, default=(0, 0))
        calls = self.calls
        for step in (self._own_answers, self._looking):
            calls = calls if step is None else step.calls(calls)
        return replace(
            super().explain(),
            calls=calls,
            models=tuple(model.name for model in self._models),
            prompts=prompts,
            prompt_tokens=(round(fewest), round(most)),
        )

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
            name: Pack(name, texts["en"], tuple(question for question in self._asked if question.prompt == name))
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
        key = question.prompt, self.language_for(sample)
        template = self._templates[key]
        if key in self._cases:
            template = replace(template, examples=self._cases[key].to(data))
        if not self._multimodal:
            return replace(template, data=data, check=check)
        attached, media = attach(data, partial(takes_media, template.model))
        return replace(template, data=attached, check=check, media=media)

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
        made_with = vars(self).get(MADE_WITH, {})
        vars(self)[MADE_WITH] = MadeWith({**made_with, "language": language, "prompts": folder})
        self._phrases = self._read_phrases()
        self._prepare()

    def _prepare(self) -> None:
        """Read the packs of all questions, and build the part that is the same in every request."""
        self._texts = {question.prompt: self._packs(question.prompt) for question in self._asked}
        self._templates: dict[tuple[str, Language], Ask] = {
            (question.prompt, language): self._template(question, language, text)
            for question in self._asked
            for language, text in self._texts[question.prompt].items()
        }
        cases = {
            key: _Nearest(text, template.examples)
            for key, template in self._templates.items()
            if (text := self._texts[key[0]][key[1]]).nearest is not None and template.examples
        }
        vars(self).pop("_cases", None)
        if cases:  # judges without keep the fingerprints that certificates name
            self._cases = cases

    @property
    def _asked(self) -> tuple[Question[Any], ...]:
        return (*self._questions, *self._first_questions)

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
                place, fault = first_fault(error)
                raise ConfigurationError(
                    f"{language}/{question.prompt}.toml: an example's reply, field {place!r}: {fault}"
                ) from error


class _Nearest:
    """The examples of a pack that are most like what is judged."""

    def __init__(self, text: Prompt, examples: Sequence[WorkedExample]) -> None:
        self._by, self._count, self._examples = text.likeness, text.nearest, examples
        self._traits = traits_of([_texts_in(one.data) for one in text.examples[: len(examples)]], text.likeness)

    def fingerprint_parts(self) -> tuple[object, ...]:
        """Return what is not in the pack: nothing; vectors differ in their last digits from machine to machine."""
        return ()

    def to(self, data: Mapping[str, JsonValue]) -> tuple[WorkedExample, ...]:
        """Return the examples for some data, the most alike last."""
        (wanted,) = traits_of([_texts_in(data)], self._by)
        places = sorted(range(len(self._traits)), key=lambda place: (-alike(self._traits[place], wanted), place))
        return tuple(self._examples[place] for place in reversed(places[: self._count]))


def _texts_in(value: JsonValue | Mapping[str, JsonValue]) -> str:
    """Return the texts of data without the names of its fields, which are alike in all."""
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else None
    return str(value if value is not None else "") if parts is None else " ".join(map(_texts_in, parts))


_PLACES: Mapping[str, JsonValue] = {"claim": "", "document": "-"}
"""Fill the places of a format that has no prompt without what is judged and what it is checked by."""


def _size_of(template: Ask) -> tuple[float, float]:
    """Return the fewest and the most tokens of a prompt before any data; none of what its format cannot ask."""
    for data in (template.data, _PLACES):
        try:
            return tokens_of(dialect_of(template.model).compose(replace(template, data=data), ""))
        except (AskFailed, ConfigurationError):
            continue
    return 0, 0


def all_of(replies: Sequence[R | AskFailed]) -> tuple[R, ...]:
    """Return the replies, all of which are needed.

    Raises:
        AskFailed: The first failure, if any.
    """
    for reply in replies:
        if isinstance(reply, AskFailed):
            raise reply
    return tuple(reply for reply in replies if not isinstance(reply, AskFailed))
