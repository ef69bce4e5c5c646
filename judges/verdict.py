"""The result of judging: `Verdict`, the one result type online and offline, and `Usage`, what it cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from judges.first_guesses import HintsAtClassGuesses, HintsAtKeys, guesses, nearest

if TYPE_CHECKING:  # type checkers know models by pydantic's own metaclass
    _Model = BaseModel
else:

    class _HintedModels(HintsAtClassGuesses, type(BaseModel)):
        """The class of pydantic models whose missing attributes say what to use instead."""

    class _Model(BaseModel, metaclass=_HintedModels):
        """A pydantic model whose class says what to use instead of what it does not have."""


class HintedModel(HintsAtKeys, _Model):
    """A pydantic model whose missing attributes, and those of its class, say what to use instead."""


class Frozen(HintedModel):
    """A pydantic model that cannot be changed, and whose copies cost a third of pydantic's own."""

    model_config = ConfigDict(frozen=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, as pydantic does; changes are not checked."""
        if deep or self.__pydantic_private__ is not None or self.__pydantic_extra__ is not None:
            return super().model_copy(update=update, deep=deep)
        changes = update or {}
        return assembled(type(self), {**vars(self), **changes}, {*self.__pydantic_fields_set__, *changes})

    @classmethod
    def of_checked(cls, **fields: Any) -> Self:
        """Return a record of values that are known to fit; all fields are given."""
        return assembled(cls, fields, set(fields))


_assign = object.__setattr__
R = TypeVar("R", bound=BaseModel)


def assembled(kind: type[R], fields: dict[str, Any], names: set[str], extra: dict[str, Any] | None = None) -> R:
    """Return a record of pydantic of values that are known to fit, at a fraction of what checking them costs.

    Args:
        kind: Its class.
        fields: All fields.
        names: The fields that are not left at their defaults.
        extra: What it holds beside its fields; None where the class takes nothing else.
    """
    record = object.__new__(kind)
    _assign(record, "__dict__", fields)
    _assign(record, "__pydantic_fields_set__", names)
    _assign(record, "__pydantic_extra__", extra)
    _assign(record, "__pydantic_private__", None)
    return record


LOWEST = 1
"""The lowest rating: useless."""
HIGHEST = 4
"""The highest rating: excellent."""

Unscored = Literal[
    "no_claims",
    "no_contexts",
    "no_reference",
    "no_response",
    "no_topics",
    "no_question",
    "no_guidelines",
    "no_rubrics",
    "invalid_sample",
    "undefined",
    "judge_failed",
    "invalid_output",
    "copied_example",
    "too_few_votes",
    "budget",
    "deadline",
]
"""Why there is no score. Unscored does not mean wrong: it is never a 0, and is counted separately.

- `no_claims`, `no_contexts`, `no_reference`, `no_response`, `no_topics`, `no_question`, `no_guidelines`,
  `no_rubrics`: the sample lacks what the judge is about.
- `invalid_sample`: it has it in a form that cannot be read.
- `undefined`: the formula has no value here, for instance a precision over nothing.
- `judge_failed`: a call failed for good.
- `invalid_output`: the model's reply does not fit, even after it was asked again.
- `copied_example`: the model gave the rationale of a worked example of its prompt in place of one of its own.
- `too_few_votes`: too few members of a panel gave a verdict.
- `budget`, `deadline`: no call, or no time, was left.
"""

NOTHING_TO_JUDGE: frozenset[str | None] = frozenset(
    reason for reason in get_args(Unscored) if reason.startswith("no_") or reason == "undefined"
)
"""The reasons that are no failure: the sample holds nothing that the judge could judge."""

Value = bool | int | float | str


def strict_integer(candidate: object) -> object:
    """Return `candidate` if it is an integer; reject lookalikes such as `True`, `4.0` and `"4"`."""
    if type(candidate) is not int:
        actual = repr(candidate) if isinstance(candidate, int | float) else f"a {type(candidate).__name__}"
        raise ValueError(f"a whole number is wanted, not {actual}")
    return candidate


Rating = Annotated[Literal[1, 2, 3, 4], BeforeValidator(strict_integer)]
"""A rating: the integer 1, 2, 3 or 4; lookalikes such as `True`, `4.0` and `"4"` are rejected."""


class Usage(Frozen, extra="forbid"):
    """What model calls consumed. Usages add up with `+`.

    Args:
        calls: Model calls, without retries of a failed transport; embedding requests cost, but do not count as
            calls.
        input_tokens: Prompt tokens as the provider reported them.
        output_tokens: Reply tokens as the provider reported them.
        cached_input_tokens: Prompt tokens that the provider read from a cache of its own, counted in
            `input_tokens` too; most providers charge less for them.
        cost: US dollars, or None where a price or the tokens are unknown.
        cached: Replies taken from a cache, which cost nothing and are not counted in `calls`.
        calls_known: Whether `calls` is all; False where a function may have called a model unseen.
        tokens_known: Whether the tokens are all; False where a provider reported none, or none that can be.
    """

    _guesses_at: ClassVar[str] = "a usage"

    calls: int = Field(default=0, ge=0)
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cached_input_tokens: int = Field(default=0, ge=0)
    cost: float | None = Field(default=0.0, ge=0)
    cached: int = Field(default=0, ge=0)
    calls_known: bool = True
    tokens_known: bool = True

    @classmethod
    def of_call(cls, input_tokens: object, output_tokens: object, cached_input_tokens: object = None) -> Self:
        """Return the usage of one call as a provider reported it; numbers that cannot be are not taken."""
        sent, received = _token_count(input_tokens), _token_count(output_tokens)
        tokens_known = sent is not None and received is not None
        read = 0 if cached_input_tokens is None or not tokens_known else _token_count(cached_input_tokens) or 0
        return cls.of_checked(
            calls=1,
            input_tokens=sent or 0,
            output_tokens=received or 0,
            cached_input_tokens=min(read, sent or 0),
            cost=None,
            cached=0,
            calls_known=True,
            tokens_known=tokens_known,
        )

    @property
    def tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __bool__(self) -> bool:
        """Return whether anything was consumed."""
        if self.calls or self.cost is None or not (self.calls_known and self.tokens_known):
            return True
        return bool(self.tokens or self.cost or self.cached)

    def __add__(self, other: Usage) -> Usage:
        """Sum two usages; an unknown cost makes the sum unknown, unless nothing was consumed."""
        if not other:
            return self
        return Usage.total((self, other)) if self else other

    @classmethod
    def total(cls, usages: Iterable[Usage]) -> Usage:
        """Sum any number of usages at once, which costs no more than one `+`."""
        parts = [usage for usage in usages if usage]
        if len(parts) < 2:  # noqa: PLR2004 - there is nothing to add
            return parts[0] if parts else cls()
        calls = sent = received = read = cached = 0
        cost: float | None = 0.0
        calls_known = tokens_known = True
        for part in parts:
            calls += part.calls
            sent += part.input_tokens
            received += part.output_tokens
            read += part.cached_input_tokens
            cached += part.cached
            cost = None if cost is None or part.cost is None else cost + part.cost
            calls_known = calls_known and part.calls_known
            tokens_known = tokens_known and part.tokens_known
        return cls.of_checked(
            calls=calls,
            input_tokens=sent,
            output_tokens=received,
            cached_input_tokens=read,
            cost=cost,
            cached=cached,
            calls_known=calls_known,
            tokens_known=tokens_known,
        )


_MOST_TOKENS = 10**9
"""More tokens than any one call can have: a provider that reports more is mistaken."""


def _token_count(reported: object) -> int | None:
    """Return a provider's number of tokens; None where it is missing, or no number that a call can have."""
    if type(reported) not in (int, float) or not 0 <= reported <= _MOST_TOKENS:  # type: ignore[operator]  # a number
        return None
    return int(reported)  # type: ignore[call-overload,no-any-return]  # as above


_Share = Annotated[float, Field(ge=0, le=1)]


class MaskedSpan(Frozen, extra="forbid"):
    """A place of an answer that a judge would have masked; never its text.

    Args:
        kind: What stands there: `"email"`, `"api_key"`, `"pattern"`, ...
        start: Index of its first character in the answer.
        end: Index behind its last character.
    """

    kind: str
    start: int = Field(ge=0)
    end: int = Field(ge=0)

    @property
    def mask(self) -> str:
        """What stands in its place."""
        return f"[{self.kind.upper()}]"


def _mask_spans(text: str, spans: Iterable[MaskedSpan]) -> str:
    """Return a text with a mask in place of each span; spans that overlap have one mask, that of the first."""
    parts, place = [], 0
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if span.start >= place:
            parts += [text[place : span.start], span.mask]
        place = max(place, span.end)
    return "".join([*parts, text[place:]])


_MADE_BY = "Verdict.rated(3, feedback=...), Verdict.scored(0.8) and Verdict.checked(True) make one"


def _fault_of(error: ValidationError) -> str:
    """Return the first fault of a verdict as one line; a text in it may be judged, and is not quoted."""
    fault = error.errors(include_url=False)[0]
    message = fault["msg"].removeprefix("Value error, ")
    if not fault["loc"]:
        return f"{message}; {_MADE_BY}"
    name, value = ".".join(map(str, fault["loc"])), fault["input"]
    if fault["type"] == "extra_forbidden":
        hint = guesses("a verdict").get(name) or nearest(name, Verdict.model_fields)
        return f"a verdict has no {name!r}; {hint or _MADE_BY}"
    if ", not " in message:
        return f"{name} of a verdict: {message}; {_MADE_BY}"
    shown = repr(value) if isinstance(value, int | float) else f"a {type(value).__name__}"
    return f"{name} of a verdict: {message[0].lower()}{message[1:]}, not {shown}; {_MADE_BY}"


class Verdict(Frozen, extra="forbid"):
    """The result of judging one sample.

    Build one with `Verdict.rated`, `Verdict.scored`, `Verdict.checked` or `Verdict.without_score`; they keep
    the fields consistent. If only one of `rating`, `score` and `passed` is set, the others are derived from it: a
    rating passes from 3 and a score from 0.5. Beside a rating or a score, `passed` is the judge's own pass mark,
    and the one mark that is left is derived; only the highest rating always passes.

    Args:
        judge: Name of the judge.
        value: The result on the judge's own scale (a rating, a fraction, a yes or no, a label).
        score: 0 to 1, higher is better; None where unscored.
        rating: 1 to 4; None where unscored. It is `1 + round(3 * score)`, unless the judge rated natively: then
            `score` is `(rating - 1) / 3`.
        passed: Whether the judge's own pass mark was reached; None where unscored.
        rationale: Why.
        feedback: What to change, addressed to the writer of the next answer.
        subject: What was judged, where that is a part of the answer: a claim, a chunk, a guideline.
        items: Verdicts on the parts: per claim, chunk, guideline or member of a panel.
        unscored: Reason code, or None where there is a score.
        detail: One line about how the verdict came about: the error behind an unscored one, a tie, the
            deciding level.
        usage: What judging cost, parts included.
        latency_s: Seconds from question to verdict.
        model: Model id the provider reported; None where no model was asked.
        raw: The reply that could not be parsed, where `unscored` is `"invalid_output"`.
        probabilities: How likely each rating from 1 to 4 was, or each of the judge's own levels or labels, the
            worst first; they add up to 1, and `score` is their expectation. None where nobody asked, or nobody
            knows.
        p_pass: How likely it was that the answer passes; None where `probabilities` is None.
        no_probabilities: Why there are none where they were asked for.
        replacement: The answer with what was refused in it masked, where masking may mend it; None elsewhere.
        masked: The places that are masked in it, by what stands there.
    """

    _guesses_at: ClassVar[str] = "a verdict"

    judge: str = ""
    value: Value | None = None
    score: float | None = Field(default=None, ge=0, le=1)
    rating: Rating | None = None
    passed: bool | None = None
    rationale: str = ""
    feedback: str = ""
    subject: str = ""
    items: tuple[Verdict, ...] = ()
    unscored: Unscored | None = None
    detail: str = ""
    usage: Usage = Usage()
    latency_s: float = Field(default=0.0, ge=0)
    model: str | None = None
    raw: str = ""
    probabilities: tuple[_Share, ...] | None = None
    p_pass: _Share | None = None
    no_probabilities: str = ""
    replacement: str | None = None
    masked: tuple[MaskedSpan, ...] = ()

    if not TYPE_CHECKING:  # type checkers read the fields

        def __init__(self, /, *values: object, **fields: Any) -> None:
            """Validate the fields.

            Raises:
                ValueError: If one does not fit, in one line.
                TypeError: If a value is given without a name.
            """
            if values:
                raise TypeError(f"Verdict() takes no value without a name; {_MADE_BY}")
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise ValueError(_fault_of(error)) from None

        __init__.__pydantic_base_init__ = True  # else records that are read went through it, too

    @model_validator(mode="before")
    @classmethod
    def _fill_in_marks(cls, fields: Any) -> Any:
        """Derive the other marks from a rating or a score, with or without `passed`, or from `passed` alone."""
        if not isinstance(fields, dict) or fields.get("unscored") is not None:
            return fields
        if fields.get("rating") is not None and fields.get("score") is not None:
            return fields
        marks = {name: fields[name] for name in ("rating", "score", "passed") if fields.get(name) is not None}
        passed = marks.pop("passed", None) if len(marks) == 2 else None  # noqa: PLR2004 - one mark beside it
        if len(marks) != 1:
            return fields
        ((name, mark),) = marks.items()
        if name == "rating" and mark == HIGHEST and passed is False:
            raise ValueError(f"rating={HIGHEST} passes everywhere; passed=False contradicts it")
        return {**_implied_marks(name, mark), **fields}

    @model_validator(mode="after")
    def _check_marks(self) -> Self:
        marks = (self.score, self.rating, self.passed)
        if self.unscored is None and None in marks:
            raise ValueError("a verdict has score, rating and passed, or the reason why it is unscored")
        if self.unscored is not None and marks != (None, None, None):
            raise ValueError(f"an unscored verdict ({self.unscored!r}) has no score, rating or passed")
        return self

    @classmethod
    def rated(cls, rating: int, *, success_rating: int = 3, **fields: Any) -> Self:
        """Return a verdict with a native rating from 1 to 4; it passes at `success_rating`."""
        valid = rating in {1, 2, 3, 4}
        if type(rating) is int and not valid:
            raise ValueError(f"a rating is 1, 2, 3 or 4, not {rating}; Verdict.scored takes a score from 0 to 1")
        return cls(
            value=rating,
            score=_score_of(rating) if valid else None,
            rating=rating,  # type: ignore[arg-type]  # pydantic rejects anything but 1, 2, 3 and 4
            passed=valid and rating >= success_rating,
            **fields,
        )

    @classmethod
    def scored(cls, score: float, *, threshold: float = 0.5, value: Value | None = None, **fields: Any) -> Self:
        """Return a verdict with a score from 0 to 1; it passes at `threshold`. `value` is the native result."""
        mark: object = score
        if isinstance(mark, str) or not (math.isfinite(score) and 0 <= score <= 1):
            shown = "a str" if isinstance(mark, str) else repr(score)
            raise ValueError(f"a score lies from 0 to 1, not {shown}; Verdict.rated takes a rating from 1 to 4")
        return cls(
            value=score if value is None else value,
            score=score,
            rating=rating_of(score),
            passed=score >= threshold,
            **fields,
        )

    @classmethod
    def checked(cls, passed: bool, *, value: Value | None = None, **fields: Any) -> Self:  # noqa: FBT001 - the result of the check
        """Return the verdict of a yes-or-no check: rating 4 or 1. `value` is the native result."""
        mark: object = passed
        if isinstance(mark, str):
            raise TypeError("a check is True or False, not a str")  # whose truth says nothing
        native = passed if value is None else value
        score = float(passed)
        return cls(value=native, score=score, rating=rating_of(score), passed=passed, **fields)

    @classmethod
    def without_score(cls, reason: Unscored, detail: str = "", **fields: Any) -> Self:
        """Return an unscored verdict with the reason."""
        return cls(unscored=reason, detail=detail, **fields)

    def with_masks(self, answer: str, spans: Iterable[MaskedSpan]) -> Verdict:
        """Return this verdict with an answer in which these places are masked; as it is where there are none."""
        masked = tuple(spans)
        if not masked:
            return self
        return self.model_copy(update={"replacement": _mask_spans(answer, masked), "masked": masked})

    def __bool__(self) -> bool:
        """Return whether the judge's own pass mark was reached; an unscored verdict reached none."""
        return bool(self.passed)

    def weighed(self, probabilities: Sequence[float], choices: Sequence[Verdict]) -> Self:
        """Return this verdict with the expectation over what the judge could have said.

        Args:
            probabilities: How likely each choice was; they add up to 1.
            choices: What the verdict would have been by each choice, all of them scored.
        """
        pairs = sorted(zip(probabilities, choices, strict=True), key=lambda pair: pair[1].score or 0.0)
        changes = {
            "probabilities": tuple(share for share, _ in pairs),
            "p_pass": min(1.0, math.fsum(share for share, verdict in pairs if verdict.passed)),
            "score": min(1.0, math.fsum(share * (verdict.score or 0.0) for share, verdict in pairs)),
        }
        return self.model_copy(update=changes)

    @property
    def missing(self) -> dict[str, str]:
        """Why judge or members gave no verdict, by name; to have had nothing to judge is no failure."""
        members = {part.judge: str(part.unscored) for part in self.failed_parts() if part.judge}
        failed = self.unscored is not None and self.unscored not in NOTHING_TO_JUDGE
        return members or ({self.judge: str(self.unscored)} if failed and self.judge else {})

    @property
    def contradicted(self) -> tuple[str, ...]:
        """The claims of the answer, as its parts name them, that the evidence contradicts."""
        here = (part.subject for part in self.items if part.value == "contradicted")
        return (*here, *(claim for part in self.items if part.items for claim in part.contradicted))

    def named(self, name: str) -> Verdict:
        """Return it under another name, with those of its parts that are the same judge's, as runs of it are."""
        parts = tuple(part.named(name) if part.judge == self.judge else part for part in self.items)
        return self.model_copy(update={"judge": name, "items": parts})

    def failed_parts(self) -> Iterator[Verdict]:
        """Yield the verdicts inside whose judges failed, the innermost of those that failed for lack of others."""
        for part in self.items:
            if part.unscored in NOTHING_TO_JUDGE:
                continue
            inside = list(part.failed_parts()) if part.items else []
            yield from inside or ([part] if part.unscored is not None else [])

    def reaches(self, success_rating: int) -> bool:
        """Check whether this verdict passes a gate that requires `success_rating`.

        A native rating is compared as it is. A score must also have reached the pass mark of its own judge, so
        that a threshold fitted offline holds online. An unscored verdict passes no gate.
        """
        if self.rating is None or self.rating < success_rating:
            return False
        return self.rated_natively or bool(self.passed)

    @property
    def rated_natively(self) -> bool:
        """True if the judge chose the rating itself, not a score, a check or another scale."""
        is_rating = type(self.value) is int and self.value == self.rating
        is_expected = self.probabilities is not None and len(self.probabilities) == HIGHEST
        return is_rating and (is_expected or self.score == _score_of(self.rating or LOWEST))


def _score_of(rating: int) -> float:
    return (rating - LOWEST) / (HIGHEST - LOWEST)


def _implied_marks(name: str, mark: Any) -> dict[str, Any]:
    """Return the fields that one mark implies; none where it is out of range, which is reported later."""
    if name == "rating" and type(mark) is int and LOWEST <= mark <= HIGHEST:
        return {"value": mark, "score": (mark - LOWEST) / (HIGHEST - LOWEST), "passed": mark >= 3}  # noqa: PLR2004
    if name == "passed" and isinstance(mark, bool):
        return {"value": mark, "score": float(mark), "rating": rating_of(float(mark))}
    if name == "score" and isinstance(mark, int | float) and not isinstance(mark, bool) and 0 <= mark <= 1:
        return {"value": float(mark), "rating": rating_of(mark), "passed": mark >= 0.5}  # noqa: PLR2004
    return {}


def rating_of(score: float) -> Literal[1, 2, 3, 4]:
    """Map a score from 0 to 1 onto the ratings 1 to 4: `1 + round(3 * score)`."""
    ratings: tuple[Literal[1], Literal[2], Literal[3], Literal[4]] = (1, 2, 3, 4)
    return ratings[round(3 * score)]


_V = TypeVar("_V")


class ByJudge(dict[str, _V]):
    """A dict by the names that judges report, in which `[]`, `get` and `in` know their other names, too.

    Iterating, comparing and writing it as JSON are those of a dict: each value is there once.

    Args:
        values: The values by name.
        qualified: Returns the qualified name for any name of a judge, and any other text as it is.
    """

    def __init__(self, values: Mapping[str, _V], *, qualified: Callable[[str], str]) -> None:
        super().__init__(values)
        self._qualified = qualified

    def key(self, name: str) -> str:
        """Return the name in the dict that means the same judge; `name` itself if there is none, or several."""
        if super().__contains__(name) or not isinstance(name, str):
            return name
        qualified = self._qualified(name)
        keys = [key for key in self if self._qualified(key) == qualified]
        return keys[0] if len(keys) == 1 else name

    def __missing__(self, name: str) -> _V:
        key = self.key(name)
        if key == name:
            raise KeyError(name)
        return self[key]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(self.key(name) if isinstance(name, str) else name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a judge by any of its names, or the default."""
        return super().get(self.key(name), default)
