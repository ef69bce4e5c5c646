"""Deterministic checks: judges without a model, cheap enough to run before those that ask one."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from judges.catalogue.parts.text import count_characters, count_words
from judges.entry import Entry, Explanation, own_entry
from judges.errors import CannotJudge, ConfigurationError, one_line, shortened, unfit
from judges.judge import Judge
from judges.requests import Deliberation
from judges.sample import Sample
from judges.settings import SHARED
from judges.verdict import MaskedSpan, Verdict

_NUMBER = re.compile(
    r"(?<![\dA-Za-z\u00c0-\u04ff_.])[-+\u2212]?"  # not inside a word; scripts without blanks may touch a number
    r"(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)"
    r"(?:[eE][-+\u2212]?\d+)?"
)


_Unit = Literal["characters", "words"]
_Which = Literal["all", "first", "last"]


class _Check(Judge):
    """A judge whose algorithm is one plain method, `check`."""

    @abstractmethod
    def check(self, answer: str) -> list[str]:
        """Return the answer's faults as instructions to fix them; an empty list means it passes."""

    entry: ClassVar[Entry]
    _feedback: str | None = None

    def explain(self) -> Explanation:
        """Describe what it checks."""
        asks = self.entry.asks if hasattr(self, "entry") else ""
        return Explanation(judge=self.name, asks=asks, needs=("response",), scale="yes or no")

    def deliberate(self, sample: Sample) -> Deliberation:
        """Check the answer, without making a request."""
        yield from ()
        if sample.answer is None:
            return Verdict.without_score("no_response", "there is no answer to judge")
        faults = self.check(sample.answer)
        listed = " ".join(faults)
        feedback = self._feedback if faults and self._feedback is not None else listed
        verdict = Verdict.checked(not faults, rationale=listed or "Every rule is kept.", feedback=feedback)
        return verdict.with_masks(sample.answer, self.masks(sample.answer)) if faults else verdict

    def masks(self, answer: str) -> list[MaskedSpan]:
        """Return the places of a faulty answer that would have to be masked; none where masking mends nothing."""
        del answer
        return []


class Length(_Check):
    """Check the length of an answer.

    Raises:
        ConfigurationError: If there is no bound, or the bounds are the wrong way round.
    """

    entry: ClassVar[Entry] = own_entry("length")

    def __init__(
        self,
        *,
        at_least: int = 0,
        at_most: int | None = None,
        unit: _Unit = "characters",
        feedback: str | None = None,
        name: Annotated[str, SHARED["name"]] = "length",
    ) -> None:
        if at_most is not None and at_most < at_least:
            raise ConfigurationError(f"length runs from at_least to at_most, not from {at_least!r} to {at_most!r}")
        if at_least == 0 and at_most is None:
            raise ConfigurationError("any length would pass; give at_least=..., from 1, at_most=... or both")
        self.name, self._feedback = name, feedback
        self._at_least, self._at_most, self._unit = at_least, at_most, unit

    def check(self, answer: str) -> list[str]:
        """Compare the length with both bounds."""
        length = len(answer)
        if self._unit == "words":  # without blanks, as in Chinese, each letter is one, as word processors count
            length = count_words(answer) + count_characters(answer)
        if length < self._at_least:
            return [f"Write at least {self._at_least} {self._unit}; there are {length}."]
        if self._at_most is not None and length > self._at_most:
            return [f"Write at most {self._at_most} {self._unit}; there are {length}."]
        return []


class Pattern(_Check):
    """Check that required words and patterns occur in an answer and forbidden ones do not.

    Raises:
        ConfigurationError: If there is no pattern, or one is not a regular expression.
    """

    entry: ClassVar[Entry] = own_entry("pattern")

    def __init__(
        self,
        *,
        contains: str | Sequence[str] = (),
        excludes: str | Sequence[str] = (),
        required: str | Sequence[str] = (),
        forbidden: str | Sequence[str] = (),
        ignore_case: bool = False,
        feedback: str | None = None,
        name: Annotated[str, SHARED["name"]] = "pattern",
    ) -> None:
        self.name, self._feedback = name, feedback
        flags = re.IGNORECASE if ignore_case else 0
        required_texts, excluded_texts = _plain_texts(contains, "contains"), _plain_texts(excludes, "excludes")
        self._required = (*_literal(required_texts, flags), *_compile(required, flags))
        self._forbidden = (*_literal(excluded_texts, flags), *_compile(forbidden, flags))
        if not (self._required or self._forbidden):
            raise ConfigurationError(
                "give at least one text or pattern, in contains=..., excludes=..., required=... or forbidden=..."
            )

    @property
    def judges_parts(self) -> bool:
        """True if nothing must occur: what is forbidden is so in every part."""
        return not self._required

    def check(self, answer: str) -> list[str]:
        """Search for each pattern."""
        surplus = [f"Do not use {_in_words(rule)}." for rule in self._forbidden if rule.search(answer)]
        return self._missing(answer) + surplus

    def masks(self, answer: str) -> list[MaskedSpan]:
        """Return every place where a forbidden pattern matches; none where something required is missing, too."""
        if self._missing(answer):
            return []
        matches = (match for rule in self._forbidden for match in rule.finditer(answer))
        return [MaskedSpan(kind="removed", start=match.start(), end=match.end()) for match in matches if match[0]]

    def _missing(self, answer: str) -> list[str]:
        return [f"Use {_in_words(rule)}." for rule in self._required if not rule.search(answer)]


class JsonValid(_Check):
    """Check that an answer is one JSON value, and that it fits a schema.

    Raises:
        ConfigurationError: If the schema is invalid, or the extra is not installed.
    """

    entry: ClassVar[Entry] = own_entry("json")

    def __init__(
        self,
        schema: Mapping[str, Any] | None = None,
        *,
        feedback: str | None = None,
        name: Annotated[str, SHARED["name"]] = "json",
    ) -> None:
        self.name, self._feedback = name, feedback
        self._validator = None if schema is None else _validator_of(schema)
        properties = {} if schema is None else schema.get("properties")
        self._keys = tuple(properties) if isinstance(properties, Mapping) else ()

    def check(self, answer: str) -> list[str]:
        """Parse the answer and validate it."""
        try:
            value = json.loads(answer, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return [self._demand(answer)]
        if self._validator is None:
            return []
        from referencing.exceptions import Unresolvable  # noqa: PLC0415 - comes with the extra

        try:
            faults = sorted(self._validator.iter_errors(value), key=lambda fault: list(map(str, fault.path)))
        except Unresolvable as error:
            missing = f"the JSON schema refers to {shortened(error.ref)}, which it does not hold"
            raise CannotJudge("judge_failed", missing) from error
        return list(dict.fromkeys(map(_json_instruction, faults)))[:_MOST_FAULTS]

    def _demand(self, answer: str) -> str:
        """Return what to reply instead of what is no JSON: the schema's keys, and no fence where there is one."""
        keys = ", ".join(map(repr, self._keys))
        fence = "; leave out the ``` fence" if "```" in answer else ""
        return f"Reply with one valid JSON value{keys and f' with the keys {keys}'} and nothing around it{fence}."


def _json_instruction(fault: Any) -> str:
    """Return what to do about a place of a value that does not fit its schema; missing keys are named together."""
    place = "" if fault.json_path == "$" else f" at {fault.json_path}"
    if fault.validator == "required":
        missing = [repr(key) for key in fault.validator_value if key not in fault.instance]
        return f"Add the key{'s' * (len(missing) > 1)} {', '.join(missing)}{place}."
    value = repr(fault.instance)  # most messages begin with it: a long one would hide what is wrong with it
    message = fault.message.replace(value, one_line(value, longest=_LONGEST_VALUE), 1)
    return f"At {fault.json_path}: {message}."


class NumericRange(_Check):
    """Check that the numbers in an answer lie in a range.

    Numbers are read with a decimal point and, if any, commas between thousands.

    Raises:
        ConfigurationError: If there is no bound, or the bounds are the wrong way round.
    """

    entry: ClassVar[Entry] = own_entry("numeric_range")

    def __init__(
        self,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        which: _Which = "all",
        feedback: str | None = None,
        name: Annotated[str, SHARED["name"]] = "numeric_range",
    ) -> None:
        if at_least is None and at_most is None:
            raise ConfigurationError("give at_least=..., at_most=... or both")
        if at_least is not None and at_most is not None and at_most < at_least:
            raise ConfigurationError(f"at_most={at_most!r} lies below at_least={at_least!r}")
        self.name, self._feedback = name, feedback
        self._at_least, self._at_most, self._which = at_least, at_most, which

    def check(self, answer: str) -> list[str]:
        """Find the numbers and compare each; an answer without a number fails."""
        numbers = _NUMBER.findall(answer)
        if not numbers:
            return [f"Give a number {self._range}."]
        checked = {"all": numbers, "first": numbers[:1], "last": numbers[-1:]}[self._which]
        wrong = list(
            dict.fromkeys(one_line(text, longest=_LONGEST_VALUE) for text in checked if not self._allows(text))
        )
        return [f"Check {text}: a number {self._range} is expected." for text in wrong[:_MOST_FAULTS]]

    def _allows(self, text: str) -> bool:
        number = float(text.replace(",", "").replace("\u2212", "-"))
        above = self._at_least is None or number >= self._at_least
        return above and (self._at_most is None or number <= self._at_most)

    @property
    def _range(self) -> str:
        if self._at_most is None:
            return f"of at least {self._at_least}"
        if self._at_least is None:
            return f"of at most {self._at_most}"
        return f"from {self._at_least} to {self._at_most}"


_MOST_FAULTS = 5
_LONGEST_VALUE = 80
_ESCAPED = re.compile(r"\\([^\w\s]|\s)")
_BAR = re.compile(r"(?<!\\)\|")
_SPECIAL = re.compile(r"[\\.^$*+?{}\[\]()]")


def _in_words(rule: re.Pattern[str]) -> str:
    """Return what a pattern matches, in plain words where it is made of words: "the word 'salt'"."""
    options = [_text_of(part) for part in _BAR.split(rule.pattern.removeprefix("(?i)"))]
    texts = [text for text in options if text is not None]
    if len(texts) < len(options):
        return f"what matches {rule.pattern!r}"
    kind = "word" if all(map(str.isalpha, texts)) else "text"
    return f"the {kind} {' or '.join(map(repr, texts))}"


def _text_of(pattern: str) -> str | None:
    """Return the only text that a pattern matches, whatever stands at its ends; None where there are several."""
    bare = re.sub(r"^(?:\\b|\^)|(?:\\b|\$)$", "", pattern)
    special = _SPECIAL.search(_ESCAPED.sub("", bare))
    return None if special or not bare else _ESCAPED.sub(r"\1", bare)


def _literal(texts: Iterable[str], flags: int) -> Iterator[re.Pattern[str]]:
    return (re.compile(re.escape(text), flags) for text in texts)


def _plain_texts(texts: Any, setting: str) -> tuple[str, ...]:
    listed = (texts,) if isinstance(texts, str) else tuple(texts) if isinstance(texts, Iterable) else (None,)
    if not all(isinstance(text, str) and text for text in listed):
        raise unfit(f"{setting} is a list of texts, none empty", texts)
    return listed


def _compile(patterns: Any, flags: int) -> tuple[re.Pattern[str], ...]:
    if not isinstance(patterns, str | re.Pattern | Iterable):
        raise unfit("a pattern is a regular expression, or a list of them", patterns)
    texts = (patterns,) if isinstance(patterns, str | re.Pattern) else tuple(patterns)
    if any(not isinstance(getattr(text, "pattern", text), str) or text == "" for text in texts):
        raise ConfigurationError(
            f"not a regular expression among {shortened(texts)}: write texts such as 'as an AI', none empty"
        )
    try:
        return tuple(re.compile(text, flags) for text in texts)
    except (re.error, ValueError) as error:
        raise ConfigurationError(f"not a regular expression among {shortened(texts)}: {error}") from error


def _validator_of(schema: Mapping[str, Any]) -> Any:
    try:
        from jsonschema import SchemaError  # noqa: PLC0415 - an extra, imported on demand
        from jsonschema.validators import validator_for  # noqa: PLC0415
        from jsonschema_specifications import REGISTRY  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError("a JSON schema check needs the extra: selfrefine[jsonschema]") from error
    if not isinstance(schema, Mapping):
        raise unfit("a JSON schema is a mapping", schema)
    kind = validator_for(schema)
    try:
        kind.check_schema(dict(schema))
    except SchemaError as error:
        raise ConfigurationError(f"not a JSON schema: {one_line(error.message)}") from error
    return kind(dict(schema), registry=REGISTRY)  # the default one would fetch what a schema refers to


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
