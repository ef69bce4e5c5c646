"""Instructions that a program can check: counts, words, case, format and language of an answer."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, Unpack

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from judges.catalogue.metric import ComputedMetric, MetricSettings
from judges.catalogue.parts.fields import answer_in
from judges.catalogue.parts.languages import checked_language, english_name, is_in, load_identifier, prose
from judges.catalogue.parts.text import sentences
from judges.entry import own_tables
from judges.errors import BadSample, CannotJudge, ConfigurationError, one_line, shortened, unfit
from judges.sample import Sample
from judges.verdict import Verdict

_BULLET = re.compile(r"^[^\S\n]*(?:\*[^*]|-).*$", re.MULTILINE)
_WORD = re.compile(r"\w+")
_PLACEHOLDER = re.compile(r"\[[^\]\n]*(\]|$)", re.MULTILINE)  # one that is not closed takes the rest of its line,
_TITLE = re.compile(r"<<(?:([^\n]+)>>|[^\n]*)")  # so that no line is read again from each of its brackets
_HIGHLIGHTS = (re.compile(r"\*[^\n*]*\*"), re.compile(r"\*\*[^\n*]*\*\*"))
_FENCE = re.compile(r"\A```(?:json)?(.*?)(?:```)?\Z", re.DOTALL | re.IGNORECASE)
_AFTER_FIRST_WORD = re.compile(r"[.,?!'\"]")

_Count = Annotated[int, Field(ge=0)]
_Text = Annotated[str, Field(min_length=1)]


class _Rule(BaseModel, ABC):
    """One instruction; `fault` says what an answer does not keep."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @abstractmethod
    def fault(self, answer: str) -> str | None:
        """Return the name of the phrase that says what to change; None where the instruction is kept."""

    def fills(self) -> dict[str, object]:
        """Return the values of the placeholders in its phrases."""
        return self.model_dump(exclude={"kind"})


class _Counted(_Rule):
    """An instruction about how many of something there are."""

    at_least: _Count = 0
    at_most: _Count | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.at_least == 0 and self.at_most is None:
            raise ValueError("any number would do; give at_least, at_most or both")
        if self.at_most is not None and self.at_most < self.at_least:
            raise ValueError(f"at_least={self.at_least} lies above at_most={self.at_most}")
        return self

    @abstractmethod
    def count(self, answer: str) -> int:
        """Return how many there are in an answer."""

    def fault(self, answer: str) -> str | None:
        """Compare the number with both bounds."""
        number = self.count(answer)
        if number >= self.at_least and (self.at_most is None or number <= self.at_most):
            return None
        if self.at_least == self.at_most:
            return "other_number"
        return "too_few" if number < self.at_least else "too_many"


class _Units(_Counted):
    """An instruction about how many there are of what any answer has."""

    kind: Literal["words", "sentences", "bullets", "highlights", "placeholders", "capital_words"]

    def count(self, answer: str) -> int:
        return _COUNTS[self.kind](answer)


class _Keyword(_Counted):
    kind: Literal["keyword"]
    keyword: _Text

    def count(self, answer: str) -> int:
        return answer.casefold().count(self.keyword.casefold())


class _Letter(_Counted):
    kind: Literal["letter"]
    letter: Annotated[str, Field(min_length=1, max_length=1)]

    def count(self, answer: str) -> int:
        return answer.lower().count(self.letter.lower())


class _Sections(_Counted):
    kind: Literal["sections"]
    heading: _Text = "Section"

    def count(self, answer: str) -> int:
        return len(re.findall(rf"{re.escape(self.heading)}\s?\d+", answer))


class _Paragraphs(_Counted):
    kind: Literal["paragraphs"]
    divider: _Text = "\n\n"
    number: Annotated[int, Field(ge=1)] | None = None
    first_word: _Text | None = None

    @model_validator(mode="after")
    def _numbered(self) -> Self:
        if (self.number is None) != (self.first_word is None):
            raise ValueError("number and first_word go together: the first word of that paragraph")
        return self

    def count(self, answer: str) -> int:
        return sum(bool(part.strip()) for part in answer.split(self.divider))

    def fault(self, answer: str) -> str | None:
        parts = answer.split(self.divider)
        if self.divider.strip() and any(not part.strip() for part in parts[1:-1]):
            return "empty_paragraph"
        if (fault := super().fault(answer)) or self.number is None or self.first_word is None:
            return fault
        words = parts[self.number - 1].split()
        first = _AFTER_FIRST_WORD.split(words[0].lstrip("'\""))[0] if words else ""
        return None if first.lower() == self.first_word.lower() else "first_word"

    def fills(self) -> dict[str, object]:
        return {**super().fills(), "divider": self.divider.strip()}


class _Keywords(_Rule):
    kind: Literal["keywords", "forbidden_words"]
    words: Annotated[tuple[_Text, ...], Field(min_length=1)]

    def fault(self, answer: str) -> str | None:
        if self.kind == "keywords":
            return None if all(word.casefold() in answer.casefold() for word in self.words) else "missing"
        used = any(re.search(rf"\b{re.escape(word)}\b", answer, re.IGNORECASE) for word in self.words)
        return "used" if used else None

    def fills(self) -> dict[str, object]:
        return {"words": ", ".join(self.words)}


class _Form(_Rule):
    """An instruction about the whole answer that has no settings."""

    kind: Literal["upper_case", "lower_case", "no_commas", "quotation", "title", "json", "two_answers"]

    def fault(self, answer: str) -> str | None:
        return None if _FORMS[self.kind](answer) else "wrong"


class _Postscript(_Rule):
    kind: Literal["postscript"]
    marker: _Text = "P.S."

    def fault(self, answer: str) -> str | None:
        letters = r"\.\s?".join(re.escape(letter) for letter in self.marker.rstrip(".").split("."))
        closing = re.escape("." if self.marker.endswith(".") else "")
        return None if re.search(letters + closing, answer, re.IGNORECASE) else "missing"


class _LanguageRule(_Rule):
    kind: Literal["language"]
    language: _Text

    @model_validator(mode="after")
    def _known(self) -> Self:
        checked_language(self.language, judge=VerifiableInstructions.entry.name)
        load_identifier(VerifiableInstructions.entry.name)
        return self

    def fault(self, answer: str) -> str | None:
        return None if is_in(prose(answer), self.language, judge=VerifiableInstructions.entry.name) else "wrong"

    def fills(self) -> dict[str, object]:
        code = checked_language(self.language, judge=VerifiableInstructions.entry.name)
        return {"language": english_name(code), "code": code}


class _End(_Rule):
    kind: Literal["starts_with", "ends_with"]
    text: _Text

    def fault(self, answer: str) -> str | None:
        whole, text = answer.strip().lower(), self.text.strip().lower()
        is_kept = whole.startswith(text) if self.kind == "starts_with" else whole.strip('"').endswith(text)
        return None if is_kept else "wrong"


class _OneOf(_Rule):
    kind: Literal["one_of"]
    options: Annotated[tuple[_Text, ...], Field(min_length=1)]

    def fault(self, answer: str) -> str | None:
        return None if any(option in answer for option in self.options) else "wrong"

    def fills(self) -> dict[str, object]:
        return {"options": " / ".join(self.options)}


_Instruction = Annotated[
    _Units
    | _Keyword
    | _Letter
    | _Sections
    | _Paragraphs
    | _Keywords
    | _Form
    | _Postscript
    | _LanguageRule
    | _End
    | _OneOf,
    Field(discriminator="kind"),
]
"""One instruction, told apart by its `kind`."""

_INSTRUCTIONS: TypeAdapter[tuple[Any, ...]] = TypeAdapter(tuple[_Instruction, ...])


class VerifiableInstructions(ComputedMetric, entry="verifiable_instructions", pack="verifiable_instructions"):
    """Check instructions that need no opinion: how long, with which words, in which form.

    Score = instructions kept / instructions. Each is an item, and what is not kept is fed back in plain words.
    The instructions are those of IFEval (arXiv 2311.07911); rows of its dataset are read as they are.

    Raises:
        ConfigurationError: If an instruction is unknown or lacks a setting.
    """

    pass_mark = 1.0

    def __init__(
        self,
        *,
        instructions: Sequence[Mapping[str, Any]] | None = None,
        feedback: str | None = None,
        **settings: Unpack[MetricSettings],
    ) -> None:
        super().__init__(**settings)
        self.own_feedback = feedback
        self._instructions = None if instructions is None else _read(instructions)

    def compute(self, sample: Sample) -> Verdict:
        """Check each instruction, and say what to change."""
        answer = answer_in(sample)
        rules = self._instructions if self._instructions is not None else _instructions_of(sample)
        items = tuple(self._item(rule, answer, sample) for rule in rules)
        followed = sum(bool(item.passed) for item in items)
        feedback = "\n".join(dict.fromkeys(item.feedback for item in items if item.feedback))
        rationale = f"{followed} of {len(items)} instructions are kept."
        return self.verdict(followed / len(items), items=items, rationale=rationale, feedback=feedback)

    def _item(self, rule: _Rule, answer: str, sample: Sample) -> Verdict:
        kind = str(getattr(rule, "kind"))  # noqa: B009 - every member of the union has one
        fault = rule.fault(answer)
        if fault is None:
            return Verdict.checked(passed=True, subject=kind)
        fills = rule.fills()
        fills["divided"] = self.say("divided", sample, **fills) if fills.get("divider") else ""
        return Verdict.checked(passed=False, subject=kind, feedback=self.say(f"{kind}_{fault}", sample, **fills))


def _read(instructions: object) -> tuple[_Rule, ...]:
    """Return the instructions, checked.

    Raises:
        ConfigurationError: If there is none, or one cannot be read; the message says which and why.
    """
    try:
        rules = _INSTRUCTIONS.validate_python(instructions)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place, cause = ".".join(map(str, fault["loc"])), fault.get("ctx", {}).get("error")
        if isinstance(cause, ConfigurationError):
            raise cause from error
        raise unfit(
            f"instructions, at {place or 'the top'}: {one_line(cause or fault['msg'])}", fault["input"]
        ) from error
    if not rules:
        raise ConfigurationError('give at least one instruction, such as {"kind": "words", "at_most": 80}')
    return rules


def _instructions_of(sample: Sample) -> tuple[_Rule, ...]:
    """Return the instructions that a row brings.

    Raises:
        CannotJudge: `no_guidelines`, if it brings none.
        BadSample: If they cannot be read.
    """
    instructions = sample.metadata.get("instructions")
    names, settings = sample.metadata.get("instruction_id_list"), sample.metadata.get("kwargs")
    if instructions is None and isinstance(names, list):
        instructions = list(_instructions_after_ifeval(names, settings, sample.question))
    if not instructions:
        raise CannotJudge("no_guidelines", "the row has no instructions; or set instructions=...")
    try:
        return _read(instructions)
    except ConfigurationError as error:
        raise BadSample(str(error)) from error


def _instructions_after_ifeval(names: list[Any], settings: object, prompt: str) -> Iterator[dict[str, Any]]:
    """Yield the instructions of a row of IFEval's dataset.

    Raises:
        BadSample: If an instruction is none of IFEval's, or lacks a setting.
    """
    every = settings if isinstance(settings, list) else [{}] * len(names)
    ifeval_tables = own_tables(__file__, "ifeval.toml")
    for name, one in zip(names, every, strict=False):
        form = ifeval_tables.get(str(name))
        if form is None:
            raise BadSample(f"instruction_id_list: {shortened(name)} is none of {', '.join(ifeval_tables)}")
        try:
            settings = {key: value for key, value in dict(one).items() if value is not None}
            yield _translated(form, {"prompt_to_repeat": prompt, **settings})
        except (KeyError, TypeError, ValueError) as error:
            raise BadSample(f"kwargs of {name!r}: {one_line(error)} cannot be read") from error


def _translated(form: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return an instruction in our words: a text `<name>` stands for a setting of that name.

    Raises:
        KeyError: If a setting is missing.
    """
    read = {
        key: settings[text[1:-1]] if isinstance(text, str) and text.startswith("<") else text
        for key, text in form.items()
    }
    relation, number = read.pop("relation", "at least"), read.pop("number_of", None)
    if relation == "exactly":
        return {**read, "at_least": number, "at_most": number}
    if number is not None:
        read |= {"at_least": number} if relation == "at least" else {"at_most": number - 1}
    return read


def _is_json(answer: str) -> bool:
    text = answer.strip()
    fenced = _FENCE.match(text)
    try:
        json.loads(fenced[1] if fenced else text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_quotation(answer: str) -> bool:
    text = answer.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


def _has_title(answer: str) -> bool:
    return any(title.strip("<> \t") for title in _TITLE.findall(answer))


def _has_two_answers(answer: str) -> bool:
    parts = [part.strip() for part in answer.split("******")]
    written = [part for part in parts if part]
    return all(parts[1:-1]) and len(written) == 2 and written[0] != written[1]  # noqa: PLR2004 - two answers


def _count_highlights(answer: str) -> int:
    return sum(bool(highlight.strip("*").strip()) for form in _HIGHLIGHTS for highlight in form.findall(answer))


_COUNTS: Mapping[str, Callable[[str], int]] = {
    "words": lambda answer: len(_WORD.findall(answer)),
    "sentences": lambda answer: len(sentences(answer)),
    "bullets": lambda answer: len(_BULLET.findall(answer)),
    "highlights": _count_highlights,
    "placeholders": lambda answer: _PLACEHOLDER.findall(answer).count("]"),
    "capital_words": lambda answer: sum(word.isupper() for word in re.findall(r"\w+(?:-\w+)*", answer)),
}
_FORMS: Mapping[str, Callable[[str], bool]] = {
    "upper_case": str.isupper,
    "lower_case": str.islower,
    "no_commas": lambda answer: "," not in answer,
    "quotation": _is_quotation,
    "title": _has_title,
    "json": _is_json,
    "two_answers": _has_two_answers,
}
