"""What tuning changes in a judge: examples, guidelines and wording of its question, and its pass mark."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from pydantic import BaseModel, Field, JsonValue, TypeAdapter

from judges.catalogue.metric import ModelJudge
from judges.catalogue.names import JudgesFile, JudgeSpec, is_judges_file
from judges.errors import AskFailed, CannotJudge, ConfigurationError, shortened
from judges.judge import Judge
from judges.model import JudgeModel, ModelRequest, ModelResponse
from judges.models import structured
from judges.models.likelihood import levels_in
from judges.models.providers.minilm_and_hhem import finest_likeness
from judges.models.wrappers.cache import key_of
from judges.models.wrappers.wrapped import Wrapped
from judges.offline.tuning.cases import LabelledCase
from judges.prompting.prompts import LANGUAGES, Example, Language, Prompt, ReplySchema, prompt
from judges.prompting.translation import to_toml
from judges.requests import Ask
from judges.runtime.observation import current
from judges.sample import Sample
from judges.verdict import Verdict

_MOST_LOST = 8
"""Most calls set aside for those whose replies are lost in a crash: as many as are under way at once."""


@cache
def _responses() -> TypeAdapter[ModelResponse]:
    return TypeAdapter(ModelResponse)


class JournaledCalls:
    """Step before a model that keeps each reply in a file, and sends no more calls than the budget has.

    The same request counts once and is sent once. What counts is the same whether replies come from the file or
    from the model, so that work that goes on after a crash ends as it would have. Calls that were sent without
    their replies being kept count besides; a few calls of the budget are set aside for them.

    Args:
        file: The journal; replies in it are taken.
        budget: Most calls, with those before a crash.
        purpose: Digest of what the calls are for; a journal of another purpose is refused.

    Raises:
        ConfigurationError: If the journal is of another purpose, or cannot be read.
    """

    def __init__(self, file: Path, budget: int, *, purpose: str) -> None:
        self._file, self._budget = file, budget
        self.limit = budget - min(_MOST_LOST, budget // 20)
        self._lock = threading.Lock()
        self._replies: dict[str, ModelResponse] = {}
        self._counted: set[str] = set()
        self._sent = 0
        self._read(purpose)

    @property
    def counted(self) -> int:
        """Calls so far: different requests, whether their replies were kept or came now."""
        return len(self._counted)

    @property
    def sent(self) -> int:
        """Calls that reached the model, with those before a crash."""
        return self._sent

    @contextmanager
    def keeping(self, calls: int) -> Iterator[None]:
        """Keep some calls for what comes after this block."""
        self.limit -= calls
        try:
            yield
        finally:
            self.limit += calls

    def around(self, model: JudgeModel) -> JudgeModel:
        """Return the model behind this step."""
        return Wrapped(model, self)

    def send(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Return the reply that was kept, or send the request."""
        key = key_of(model.name, request).hex()
        stored_reply = self._claim(key)
        return stored_reply or self._keep(key, request, model.send(request))

    async def asend(self, model: JudgeModel, request: ModelRequest) -> ModelResponse:
        """Do the same without blocking."""
        key = key_of(model.name, request).hex()
        stored_reply = self._claim(key)
        return stored_reply or self._keep(key, request, await model.asend(request))

    def _claim(self, key: str) -> ModelResponse | None:
        """Count a request, and return its reply if that was kept.

        Raises:
            AskFailed: If no call is left.
        """
        with self._lock:
            if key not in self._counted and len(self._counted) >= self.limit:
                raise AskFailed("budget", "the calls for tuning are used up")
            self._counted.add(key)
            if key in self._replies:
                return self._replies[key]
            if self._sent >= self._budget:
                raise AskFailed("budget", "the calls for tuning are used up")
            self._sent += 1
            self._append({"sent": key})
            return None

    def _keep(self, key: str, request: ModelRequest, response: ModelResponse) -> ModelResponse:
        record = _responses().dump_json(response).decode()
        if request.nonce:
            record = re.sub(request.nonce, "", record, flags=re.IGNORECASE)
        with self._lock:
            self._append({"key": key, "reply": json.loads(record)})
            self._replies[key] = response
        return response

    def _append(self, line: dict[str, Any]) -> None:
        with self._file.open("a", encoding="utf-8") as out:
            out.write(f"{json.dumps(line, ensure_ascii=False)}\n")

    def _read(self, purpose: str) -> None:
        """Read the journal; a line that a crash tore is left out, and ended."""
        if not self._file.exists():
            self._append({"purpose": purpose})
            return
        content = self._file.read_text(encoding="utf-8")
        lines = list(_lines_of(content))
        if not lines or lines[0].get("purpose") != purpose:
            raise ConfigurationError(
                f"{self._file.parent} holds a tuning of other labels, another judge or other settings; choose "
                f"another folder (--out), or delete it first"
            )
        if not content.endswith("\n"):
            with self._file.open("a", encoding="utf-8") as out:
                out.write("\n")
        self._sent = sum("sent" in line for line in lines)
        for line in lines:
            if "key" in line:
                self._replies[line["key"]] = _responses().validate_json(json.dumps(line["reply"]))


def _lines_of(content: str) -> Iterator[dict[str, Any]]:
    for text in content.splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict):
            yield line


_MOST_GUIDELINES = 6
_LONGEST_GUIDELINE = 300
_LONGEST_TEXT = 1_500
"""Most characters of a text of a case that a model is shown to learn from."""


@dataclass(frozen=True, kw_only=True)
class JudgeChange:
    """What is different in a tuned judge.

    Args:
        task: New instructions; empty keeps those that there are.
        guidelines: Sentences added to them.
        examples: Worked examples.
        nearest: How many of them are shown, those most like what is judged; None shows all.
        mark: Rating or score from which it passes; None keeps the judge's own.
    """

    task: str = ""
    guidelines: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    nearest: int | None = None
    mark: float | None = None


class _Guidelines(ReplySchema):
    """Guidelines found in cases."""

    pattern: str = Field(description="text: what people go by, and what the judge overlooks")
    guidelines: list[str] = Field(description="list of texts: one sentence each", max_length=_MOST_GUIDELINES)


class _Rewording(ReplySchema):
    """Instructions written anew."""

    text_limits: ClassVar[tuple[int, int] | None] = (8_000, 300)
    cause: str = Field(description="text: what led the judge astray")
    instructions: str = Field(description="text: the instructions, whole")


class TunableJudge:
    """A judge that asks one question of one model, and whose question can be changed.

    Args:
        named: Its name with settings, or a table of a file of judges.
        model: The model that it asks, behind whatever counts its calls.

    Raises:
        ConfigurationError: If it is no such judge.
    """

    def __init__(self, named: str, model: object) -> None:
        self.name, self.spec, _ = judge_spec(named)
        self._model = model
        judge = self.spec.load(model=model)
        if not isinstance(judge, ModelJudge) or judge.calls != "1" or len(judge.models) != 1:
            raise ConfigurationError(
                f"the judge {shortened(named)} cannot be tuned: that needs one that asks a single question of a "
                f"model, such as helpfulness, tone or a rubric of your own"
            )
        self.judge = judge
        self.model = judge.models[0]
        self.pack_name, self.question = next(
            (pack.name, pack.questions[0]) for pack in judge.packs if pack.questions
        )

    def language_of(self, samples: Iterable[Sample]) -> Language:
        """Return the language of the prompts of most samples; it is the one that is changed."""
        return Counter(map(self.judge.language_for, samples)).most_common(1)[0][0]

    def prompt_in(self, language: Language) -> Prompt:
        """Return the question as the judge asks it now; instructions of its own stand for those of the pack."""
        folder = self.spec.settings.get("prompts")
        text = prompt(
            self.pack_name,
            language,
            folder=None if folder is None else Path(str(folder)),
            author_folder=self.judge.pack_folder,
        )
        return text if self.question.task is None else text.model_copy(update={"task": self.question.task})

    @cached_property
    def mark_setting(self) -> str | None:
        """Name of the setting that says what passes; None where there is none that has an effect."""
        setting_names = {setting.name for setting in self.judge.explain().settings}
        if "success_rating" in setting_names:
            return "success_rating"
        return "threshold" if self.judge.entry.scale != "yes or no" and "threshold" in setting_names else None

    @cached_property
    def takes_examples(self) -> bool:
        """True if examples can be made of labels: the reply is one closed choice and texts."""
        return self.question.examples is None and levels_in(self._example_schema) is not None

    @property
    def _example_schema(self) -> type[BaseModel]:
        return self.question.reply if self.question.example_format is None else self.question.example_format[0]

    def data_of(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return what the model is shown of a sample.

        Raises:
            CannotJudge: If the sample lacks what the judge reads.
        """
        return self._request_for(sample)[0].data

    def example_of(self, case: LabelledCase, language: Language) -> Example | None:
        """Return a case as a worked example with people's rating; None if no reply of the judge's says the same.

        Args:
            case: The case.
            language: Of the rationale where neither people nor the judge gave one.
        """
        levels = levels_in(self._example_schema)
        if levels is None:
            return None
        agrees = case.verdict is not None and case.agrees(case.verdict)
        rationale = case.verdict.rationale if agrees and case.verdict is not None else ""
        texts = dict.fromkeys(levels.texts, "") | {
            levels.texts[0]: case.note or rationale or _phrases(language)["rated"]
        }
        replies = [{**texts, levels.field: choice} for choice in levels.choices]
        same = [(reply, verdict) for reply in replies if case.agrees(verdict := self._verdict_on(case, reply))]
        if not same:
            return None
        nearest = min(same, key=lambda one: abs((one[1].rating or 0) - case.rating))[0]
        data = {name: _plain(value) for name, value in self.data_of(case.sample).items() if value is not None}
        ordered: dict[str, JsonValue] = {
            name: nearest[name] for name in self._example_schema.model_fields if name in nearest
        }
        return Example(data=data, reply=ordered)

    def _verdict_on(self, case: LabelledCase, reply: Mapping[str, JsonValue]) -> Verdict:
        """Return what the judge makes of a reply, without a call."""
        _, deliberation = self._request_for(case.sample)
        try:
            deliberation.send(self.question.model_reply(reply))
        except StopIteration as end:
            verdict: Verdict = end.value
            return verdict
        except CannotJudge as error:
            return Verdict.without_score(error.reason)
        return Verdict.without_score("invalid_output")

    def _request_for(self, sample: Sample) -> tuple[Ask, Any]:
        deliberation = self.judge.deliberate(sample)
        request = next(deliberation)
        if not isinstance(request, Ask):
            raise CannotJudge("judge_failed", "it does not ask a single question")
        return request, deliberation

    def changed(self, change: JudgeChange, language: Language) -> Judge:
        """Return the judge with a change."""
        with TemporaryDirectory(prefix="tuning-") as folder:
            self.write_prompts(Path(folder), change, language)
            return replace(self.spec, settings=self.settings_with(change, language, folder)).load(
                model=self._model
            )

    def settings_with(self, change: JudgeChange, language: Language, prompts: str) -> dict[str, Any]:
        """Return the settings of the judge with a change, whose prompts are in a folder."""
        settings = {name: value for name, value in self.spec.settings.items() if name != "instructions"}
        if change.mark is not None and self.mark_setting is not None:
            is_rating = self.mark_setting == "success_rating"
            settings[self.mark_setting] = int(change.mark) if is_rating else change.mark
        return {**settings, "language": language, "prompts": prompts}

    def write_prompts(self, folder: Path, change: JudgeChange, language: Language) -> None:
        """Write the changed question, and those prompts of the judge's own folder that stay as they are."""
        prompts_setting = self.spec.settings.get("prompts")
        place = folder / language
        place.mkdir(parents=True, exist_ok=True)
        if prompts_setting is not None:
            for file in Path(str(prompts_setting)).glob(f"{language}/*.toml"):
                (place / file.name).write_bytes(file.read_bytes())
        text = to_toml(self.prompt_with(change, language))
        (place / f"{self.pack_name}.toml").write_text(text, encoding="utf-8", newline="\n")

    def prompt_with(self, change: JudgeChange, language: Language) -> Prompt:
        """Return the question with a change; examples of people's ratings replace those of the pack."""
        text = self.prompt_in(language)
        task = change.task or text.task
        if change.guidelines:
            head = _phrases(language)["head"]
            task = "\n".join([f"{task}\n\n{head}", *(f"- {_without_places(one)}" for one in change.guidelines)])
        if not change.examples:
            return text.model_copy(update={"task": task})
        shown = {"examples": change.examples, "nearest": change.nearest, "likeness": finest_likeness()}
        return text.model_copy(update={"task": task, **shown})

    def ask_guidelines(self, cases: Sequence[LabelledCase], language: Language) -> tuple[str, ...]:
        """Return guidelines that the model finds in cases.

        Raises:
            AskFailed: If it gives none that can be read.
        """
        reply = self._ask("tune_guidelines", _Guidelines, cases, language)
        lines = (" ".join(one.split())[:_LONGEST_GUIDELINE] for one in reply.guidelines)
        return tuple(dict.fromkeys(filter(None, lines)))

    def ask_wording(self, cases: Sequence[LabelledCase], language: Language) -> str:
        """Return the instructions as the model writes them anew, with every placeholder.

        Raises:
            AskFailed: If it writes none that can be used.
        """
        reply: _Rewording = self._ask("tune_wording", _Rewording, cases, language, check=self._fault_of(language))
        return reply.instructions.strip()

    def _fault_of(self, language: Language) -> Any:
        places = set(Template(self.prompt_in(language).task).get_identifiers())

        def fault(reply: _Rewording) -> str | None:
            placeholders = set(Template(reply.instructions).get_identifiers())
            if not reply.instructions.strip():
                return "instructions: the text is empty"
            lost = sorted(f"${name}" for name in places ^ placeholders)
            return f"instructions: {', '.join(lost)} must stand in it exactly as in the original" if lost else None

        return fault

    def _ask(
        self, name: str, schema: type[Any], cases: Sequence[LabelledCase], language: Language, check: Any = None
    ) -> Any:
        prompt_language = language if language in LANGUAGES else "en"
        text = prompt(name, prompt_language)
        data: dict[str, JsonValue] = {
            "instructions": self.prompt_in(language).task,
            "cases": [dict(self._shown(case)) for case in cases],
        }
        ask = Ask(model=self.model, task=text.task, data=data, reminder=text.reminder, schema=schema, check=check)
        return structured.complete(ask, current.get()).value

    def _shown(self, case: LabelledCase) -> Iterator[tuple[str, JsonValue]]:
        """Yield what a model is shown of a case to learn from."""
        for name, value in self.data_of(case.sample).items():
            if value is not None:
                yield name, _cut(_plain(value))
        passed = None if case.verdict is None else case.verdict.passed
        yield "judge_says", "unscored" if passed is None else "good" if passed else "bad"
        if case.verdict is not None and case.verdict.rationale:
            yield "judge_reason", _cut(case.verdict.rationale)
        yield "people_say", "good" if case.good else "bad"
        if case.note:
            yield "people_note", _cut(case.note)


def _phrases(language: Language) -> Mapping[str, str]:
    return prompt("tune_guidelines", language if language in LANGUAGES else "en").feedback


def judge_spec(named: str) -> tuple[str, JudgeSpec, str | None]:
    """Return a judge's name, its settings without a model, and the name of the model that these say.

    Raises:
        ConfigurationError: If it cannot be read, or a file has several.
    """
    if is_judges_file(named):
        file = JudgesFile.read(named)
        if len(file.specs) > 1:
            one = f"{file.path}:{next(iter(file.specs))}"
            raise ConfigurationError(f"{shortened(named)} has the judges {', '.join(file.specs)}; name one, {one}")
        ((name, spec),) = file.specs.items()
        model_name = spec.settings.get("model", file.model)
    else:
        spec = JudgeSpec.parse(named)
        name, model_name = spec.name.rpartition(":")[2].rpartition(".")[2], spec.settings.get("model")
    settings = {setting: value for setting, value in spec.settings.items() if setting != "model"}
    return name, replace(spec, settings=settings), None if model_name is None else str(model_name)


def _without_places(text: str) -> str:
    """Return a text of a model's own so that nothing in it is taken for a placeholder."""
    return text.replace("$", "$$")


def _plain(value: JsonValue) -> JsonValue:
    """Return data without empty places, which TOML has none of."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items() if part is not None}
    return [_plain(part) for part in value if part is not None] if isinstance(value, list) else value


def _cut(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]} [...]"
    if isinstance(value, dict):
        return {name: _cut(part) for name, part in value.items()}
    return [_cut(part) for part in value] if isinstance(value, list) else value
