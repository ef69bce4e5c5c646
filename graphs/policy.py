"""Settings of the loop: when to accept, when to stop, and what to return."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Literal, Unpack

from langchain_core.messages import AIMessage, AnyMessage
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)
from typing_extensions import TypedDict  # pydantic cannot read the standard one on Python 3.11

from judges.certificate import IssuedCertificate, accepting
from judges.errors import ConfigurationError, shortened
from judges.first_guesses import guesses, meanings
from judges.promise import OnAlarm, Standing, certified_grid
from judges.runtime.prices import Price, Prices
from judges.runtime.validation import naming_settings
from judges.sample import canonical_field
from judges.verdict import HintedModel, Rating, Verdict

_LEVELS = 3
_ALIKE = 0.75
"""How alike a misspelt setting is to one that there is, from 0 to 1."""


def _instead_of(name: str, value: object, field_names: Collection[str]) -> str:
    """Return what to write instead of a setting that is none; empty where nothing is known.

    Args:
        name: The name that was guessed.
        value: Its value, from which the value to write follows where it can.
        field_names: The settings there are.
    """
    setting = setting_meant(name)
    if not setting:
        return guesses("not of a policy").get(name, "")
    if setting not in field_names:
        return ""
    is_retries = name in guesses("retries of a policy")
    others = "; max_retries is for requests that fail" if is_retries and "max_retries" in field_names else ""
    return f"use {setting}{_value(name, value)}, {meanings()[setting]}{others}"


def setting_meant(name: str) -> str:
    """Return the setting that others have this name for; empty where none is known."""
    return {**guesses("settings of a policy"), **guesses("retries of a policy")}.get(name, "")


def _value(name: str, value: object) -> str:
    if name in guesses("retries of a policy"):
        return f"={value + 1}" if type(value) is int else ""
    if setting_meant(name) != "success_rating" or isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if isinstance(value, int) and 1 <= value <= _LEVELS + 1:
        return f"={value}"
    return f"={1 + round(_LEVELS * value)}" if 0 <= value <= 1 else ""


ALIKE = "the same for every candidate"
"""The form of an override that holds for all; pydantic adds its name to the place of a fault."""
_EACH = "one for each candidate"
"""The form with a value for each candidate."""

_INNER_PARTS = ("function-", "literal[", "[", ALIKE, _EACH)
"""How the parts of a fault's place begin that only pydantic knows of."""

_REMEDIES = {
    "augment": ", or a function from the refinement so far to messages",
    "prices": ", {'model name': Price(input=..., output=...)}",
}


class FrozenSettings(HintedModel):
    """Frozen settings whose errors are reported in one line."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise ConfigurationError(_one_line(error, type(self))) from None


def _one_line(error: ValidationError, settings: type[BaseModel]) -> str:
    kind = settings.__name__.lower()
    fault = error.errors(include_url=False)[0]
    name = str(fault["loc"][0]) if fault["loc"] else ""
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
        hint = _hint(name, fault["input"], settings)
        return f"there is no {kind} setting {shortened(name)} (given {shortened(fault['input'])}); {hint}"
    message = fault["msg"].removeprefix("Value error, ")
    if not name:
        return message
    location = ".".join(part for part in map(str, fault["loc"]) if not part.startswith(_INNER_PARTS))
    remedy = _REMEDIES.get(location, "")
    if location == "success_rating" and isinstance(fault["input"], float) and 0 <= fault["input"] <= 1:
        remedy = f"; a score from 0 to 1 is success_score={fault['input']}"
    return (
        f"{kind} setting {location}: {message[0].lower()}{message[1:]}{remedy} (given {shortened(fault['input'])})"
    )


def _hint(name: str, value: object, settings: type[BaseModel]) -> str:
    """Return where a name belongs that is no setting, or what to write instead."""
    if name == "evidence" or canonical_field(name) is not None:
        return "evidence comes with each question: invoke(question, evidence={'reference': '...'})"
    if instead := _instead_of(name, value, settings.model_fields):
        return instead
    near = get_close_matches(name, settings.model_fields, n=1, cutoff=_ALIKE)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(settings.model_fields))}"


Augmenter = Callable[[Any], list[AnyMessage]]
"""Returns, for the `graphs.Refinement` so far, the messages that follow the conversation on the next attempt."""

AugmenterName = Literal["auto", "restated", "last_draft", "verify_first", "fresh", "all_drafts"]

_DEFAULT_FORM: AugmenterName = "restated"
"""The form of a retry where none is set."""

_EARLIER_FORMS: Mapping[str, AugmenterName] = {"feedback_only": "restated"}
"""Forms by the names that they had before."""


def _named_today(form: object) -> object:
    return _EARLIER_FORMS.get(form, form) if isinstance(form, str) else form


_OnExhausted = Literal["best", "last", "raise", "fallback", "interrupt"]
_OnJudgeError = Literal["accept", "reject", "raise"]
ReleaseForm = Literal["answer", "pieces"]
"""What is judged before it is released: the whole answer, or each piece of it while the next ones are written."""

_ContinuationForm = Literal["instructed", "prefill"]
"""How an answer goes on after a refused piece: a message asks for the rest, or the assistant's own is begun."""

OnLateRefusal = Literal["flag", "append", "replace"]
"""What follows where an answer that is out in pieces is refused as a whole."""

OnRefusal = Literal["retry", "mend", "mend_or_block", "block"]
"""What follows a refusal."""


class OverrideSettings(TypedDict, total=False):
    """Settings of `graphs.Override`, which says what they mean."""

    temperature: float | None
    model: Any


class Override(FrozenSettings):
    """Settings that change from an attempt number on.

    Args:
        temperature: Sampling temperature for a chat model.
        model: Another generator, for instance a stronger chat model or its `"provider:model"` name.

    Raises:
        ConfigurationError: If a setting is unknown or out of range; the message names it and the remedy.
    """

    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    model: Any = None

    def __init__(self, **settings: Unpack[OverrideSettings]) -> None:
        """Validate the settings; see the class."""
        super().__init__(**settings)


def _form_of_override(value: object) -> str:
    return _EACH if isinstance(value, list | tuple) else ALIKE


_AttemptOverride = Annotated[
    Annotated[Override, Tag(ALIKE)] | Annotated[tuple[Override, ...], Tag(_EACH)],
    Discriminator(_form_of_override),
]
"""An override for every candidate of an attempt, or one for each of them in order."""


class _Rates(TypedDict):
    input: float
    output: float


class PriceSettings(_Rates, total=False):
    """Settings of `judges.Price`, which says what they mean."""

    cached_input: float | None


_AnyOverride = Override | OverrideSettings | Mapping[str, Any]
"""An override in any form; the last one is for a variable that was not declared."""


class PolicySettings(TypedDict, total=False):
    """Settings of `graphs.Policy`, which says what they mean; all may be left out."""

    success_rating: Rating
    success_score: float | None
    max_attempts: int
    on_exhausted: _OnExhausted
    max_revisions: int
    fallback: str | None
    on_judge_error: _OnJudgeError
    on_refusal: OnRefusal | Mapping[str, OnRefusal]
    max_calls: int | None
    max_tokens: int | None
    max_cost: float | None
    max_retries: int | None
    deadline_s: float | None
    max_conversation_chars: int
    prices: Mapping[str, Price | PriceSettings | Mapping[str, float]] | Literal["known"]
    patience: int | None
    augment: AugmenterName | Augmenter
    overrides: Mapping[int, _AnyOverride | Sequence[_AnyOverride]]
    candidates: int
    first_accepted: bool
    skip: Callable[[AIMessage], bool] | None
    judge_refusals: bool
    check_tool_calls: bool
    sample_rate: float
    shadow: bool
    show_drafts: bool
    log_texts: bool
    keep_reasoning: bool
    release: ReleaseForm
    piece_chars: int
    piece_chars_most: int
    pieces_in_flight: int
    continuation: _ContinuationForm
    on_late_refusal: OnLateRefusal
    certificate: IssuedCertificate | str | os.PathLike[str] | None
    on_alarm: OnAlarm


class Policy(FrozenSettings):
    """When to accept an answer, when to stop trying, and what to return then.

    Args:
        success_rating: Rating from 1 to 4 at which an answer is accepted.
        success_score: Score from 0 to 1 at which an answer is accepted, whatever its rating; None accepts by
            rating. A score is finer than a rating where the judge has probabilities; see `judges.Verdict`. Where
            `success_rating` is set, too, both must be reached.
        max_attempts: Maximum number of answers, including the first one; 1 judges once and never retries.
        on_exhausted: What to return when the loop ends without acceptance: the `"best"` attempt (highest score,
            the latest on a tie), the `"last"` one, `"raise"` `NotAccepted`, the `"fallback"` text, or
            `"interrupt"` the graph for a human to decide, which needs a checkpointer.
        max_revisions: Under `on_exhausted="interrupt"`, how many times in a turn a reviewer may send an answer
            back with feedback, each time for one more attempt, beyond `max_attempts`; budgets hold all the same.
        fallback: The text for `on_exhausted="fallback"`.
        on_judge_error: What to do when the judge gives no verdict: `"accept"` the draft and flag it (`passed` is
            then False and `stop_reason` gives the reason), `"reject"` it and return the best judged attempt so
            far, as set by `on_exhausted`, or `"raise"` `JudgeFailed`. If a budget or the deadline cuts a judge
            short, the best judged attempt so far counts; this setting applies only where there is none. An answer
            that no judge has rated is released only under `"accept"` or in shadow.
        on_refusal: What follows when a judge refuses an answer: `"retry"` asks for another one; `"mend"` masks
            what the judge names (`Verdict.replacement`: personal data, secrets, forbidden patterns) and has the
            masked answer judged again, without another call of the generator; where there is nothing to mask, or
            that is refused, it retries. `"mend_or_block"` blocks then, and `"block"` always: there is the fallback
            text, or `NotAccepted`. Or a mapping by judge, for members of a panel, where others retry:
            `{"pii_leakage": "mend", "harm": "block"}`. Drafts that were to be mended or blocked are never
            released, not as the best either.
        max_calls: Maximum number of model calls, generator and judges together; it holds inside an attempt of an
            agent too. A call is a question to a model: repeats of a request whose transport failed, which
            `max_retries` bounds, and requests that an endpoint refuses to serve in the form asked for, are not
            counted. Calls are seen where they pass through LangChain or a judge's model. A function that
            generates text in any other way makes an unknown number of calls, which ends the loop.
        max_tokens: Number of tokens, generator and judges together, after which no more calls are made. A call
            whose tokens the provider does not report ends the loop, since the budget cannot be enforced.
        max_cost: The same in US dollars. Needs `prices`; an unknown price or number of tokens ends the loop.
        max_retries: Maximum number of repeats of requests whose transport failed, in judging one draft by all
            judges together, and in generating one by a direct client; None leaves it to each model's own
            `retries`. What a client repeats by itself (`max_retries` of LangChain's models) is not seen. How often
            an answer is written anew is `max_attempts`.
        deadline_s: Seconds from the question after which the loop stops waiting for anything, and no model or
            tool is called any more. Only time in which the loop runs counts, not that of a human who reviews.
        max_conversation_chars: Most characters of the conversation that a judge is shown, and as many again of
            the tool calls and results of an attempt. A judge that asks a model shows it as many of the draft, of
            the retrieved contexts, of the reference and of the reference contexts; a check without a model reads
            these whole. Of a longer conversation the middle is left out, of long texts their middle; a note in
            its place says so, and a WARNING in the log where it is in the draft or its evidence.
        prices: Price of each model by name, or `"known"`, those of public providers' models (`known_prices()`).
        patience: Stop after this many consecutive attempts that were no better than the best before them.
        augment: What the generator sees on a retry, the question again among it: `"restated"` (what was wrong so
            far, no draft), `"last_draft"` (the last draft, and what is wrong with it), `"verify_first"` (the
            same, but it may keep its answer with a reason), `"all_drafts"` (every draft with what was wrong),
            `last_drafts(k)`; `"auto"` is `"last_draft"`, and `"restated"` after a draft that copied the feedback
            or an earlier draft. `"fresh"` shows the question alone. Or your own function from the `Refinement` so
            far to a list of messages.
        overrides: Settings that change from an attempt number on, for instance `{2: {"temperature": 0.8}}`; with
            several candidates an attempt also a list of settings, one for each of them, for instance
            `{1: [{"temperature": 0.2}, {"temperature": 1.0}]}`.
        candidates: Number of drafts an attempt, 1 to 16, generated and judged side by side. The best goes on: it
            is released if it is accepted, or the next attempt sees it with its feedback; the others are rejected
            drafts. Budgets and the deadline hold over all of them; where `max_calls` has no room for all, there
            are fewer. Neither generator nor judge can ask a human then in the midst of an attempt.
        first_accepted: End an attempt with the first candidate that is accepted, without waiting for the others;
            they make no further call.
        skip: Function of an answer; where true, the answer is returned unjudged. Turns that call a tool are
            always skipped, and so are answers that the provider filtered or that have no text, only audio or an
            image.
        judge_refusals: Judge a refusal like any other answer. By default the model is not asked again when it
            refuses: the refusal is returned unjudged.
        check_tool_calls: Reject a tool call of an agent, or through the guard, whose arguments do not fit the
            tool's JSON schema, with feedback that says why. The extra `jsonschema` checks all of a schema; without
            it types, required arguments and listed values are checked. The last attempt's call is handed on.
        sample_rate: Share of questions that are judged, 0 to 1; the other answers are returned unjudged.
        shadow: Judge and log, but return the first draft regardless of the verdict.
        show_drafts: Send drafts, their tool calls and the verdicts' texts as progress events; a discard event
            follows each draft that is not the answer.
        log_texts: Write drafts, rationale and feedback to the log.
        keep_reasoning: Release the reasoning of a thinking model also where an attempt was refused before; it may
            speak of the refused draft and the feedback, so it is otherwise left to the record.
        release: What is judged before anybody sees it: the whole `"answer"`, or `"pieces"` of it, sentences and
            blocks, each released as it is accepted while the next ones are written. A refused piece ends the
            attempt, and the next one goes on after what was released.
        piece_chars: Characters that a piece has at least, unless the answer ends: shorter sentences go together.
        piece_chars_most: Characters after which a long block is cut.
        pieces_in_flight: Most pieces that are judged at once.
        continuation: How an answer goes on after a refused piece: `"instructed"`, by a message that quotes what
            was released, with the feedback; `"prefill"`, with that as the beginning of the assistant's message,
            for endpoints that go on with it (vLLM, llama.cpp).
        on_late_refusal: What to do when pieces were released and the judge of the whole refuses: `"flag"` the
            answer, which has then not passed, `"append"` an amendment, judged like the answer, or `"replace"` it:
            another answer is written, judged whole, and takes its place if it is accepted.
        certificate: The path of a certificate that `refine certify` wrote for this loop: it sets `success_rating`
            or `success_score`, and a loop that it is not about, by judge, generator or policy, is refused. Its id
            is in every outcome; its promise is about the answers that pass.
        on_alarm: What follows when labels of released answers, in a record in a database, say that the promise of
            the certificate does not hold: accept from the next `"stricter"` certified rating, and withdraw the
            certificate where there is none; `"closed"`: no answer from then on, but the fallback text, or
            `NotAccepted`; or only withdraw the certificate and `"log"` it.

    Raises:
        ConfigurationError: If a setting is unknown or out of range; the message names it and the remedy.
    """

    success_rating: Rating = 3
    success_score: float | None = Field(default=None, ge=0, le=1)
    max_attempts: int = Field(default=3, ge=1, strict=True)
    on_exhausted: _OnExhausted = "best"
    max_revisions: int = Field(default=3, ge=0, strict=True)
    fallback: str | None = None
    on_judge_error: _OnJudgeError = "accept"
    on_refusal: OnRefusal | Mapping[str, OnRefusal] = "retry"
    max_calls: int | None = Field(default=None, ge=1, strict=True)
    max_tokens: int | None = Field(default=None, ge=1, strict=True)
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_retries: int | None = Field(default=None, ge=0, strict=True)
    deadline_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_conversation_chars: int = Field(default=100_000, ge=1_000, strict=True)
    prices: Prices = Field(default={})
    patience: int | None = Field(default=None, ge=1, strict=True)
    augment: Annotated[AugmenterName | Augmenter, BeforeValidator(_named_today)] = _DEFAULT_FORM
    overrides: Mapping[int, _AttemptOverride] = {}
    candidates: int = Field(default=1, ge=1, le=16, strict=True)
    first_accepted: bool = False
    skip: Callable[[AIMessage], bool] | None = None
    judge_refusals: bool = False
    check_tool_calls: bool = True
    sample_rate: float = Field(default=1.0, ge=0, le=1)
    shadow: bool = False
    show_drafts: bool = False
    log_texts: bool = False
    keep_reasoning: bool = False
    release: ReleaseForm = "answer"
    piece_chars: int = Field(default=80, ge=1, strict=True)
    piece_chars_most: int = Field(default=2_000, ge=1, strict=True)
    pieces_in_flight: int = Field(default=8, ge=1, le=64, strict=True)
    continuation: _ContinuationForm = "instructed"
    on_late_refusal: OnLateRefusal = "flag"
    certificate: IssuedCertificate | None = None
    on_alarm: OnAlarm = "log"

    _guesses_at: ClassVar[str] = "a policy"

    @naming_settings("Policy(max_attempts=3, success_rating=4)")
    def __init__(self, **settings: Unpack[PolicySettings]) -> None:
        """Validate the settings; see the class. Mappings are converted to prices and overrides."""
        values: Mapping[str, Any] = settings
        super().__init__(**(_apply_certificate(values) if values.get("certificate") is not None else values))

    @model_validator(mode="after")
    def _check_consistency(self) -> Policy:
        if self.on_exhausted == "fallback" and not (self.fallback or "").strip():
            raise ValueError(
                f"on_exhausted='fallback' needs fallback='the text to return' (given {shortened(self.fallback)})"
            )
        if self.on_exhausted != "fallback" and self.fallback is not None:
            raise ValueError(
                f"fallback={shortened(self.fallback)} is returned under on_exhausted='fallback' only, not under "
                f"{self.on_exhausted!r}; set that too, or leave the fallback out"
            )
        if self.max_cost is not None and not self.prices:
            raise ValueError(
                f"max_cost={self.max_cost:g} needs prices={{'model name': Price(input=..., output=...)}}"
            )
        if self.on_alarm != "log":
            if self.certificate is None:
                raise ValueError(f"on_alarm={self.on_alarm!r} is about a certificate; set certificate=..., too")
            certified_grid(self.certificate)
        if any(number < 1 for number in self.overrides):
            raise ValueError(
                f"overrides is keyed by attempt numbers from 1, not {shortened(sorted(self.overrides))}"
            )
        return self

    @model_validator(mode="after")
    def _check_candidates(self) -> Policy:
        for number, override in self.overrides.items():
            if isinstance(override, tuple) and len(override) != self.candidates:
                raise ValueError(
                    f"overrides[{number}] lists settings for {len(override)} candidates, and candidates="
                    f"{self.candidates}; list as many as there are candidates, or give one for all"
                )
        if self.first_accepted and self.candidates == 1:
            raise ValueError(
                "first_accepted=True is about several candidates; set candidates=2 or more, or leave it out"
            )
        if self.candidates > 1 and self.on_refusal != "retry":
            raise ValueError(
                f"on_refusal is about one draft an attempt, not about candidates={self.candidates}; leave one out"
            )
        if self.shadow and self.candidates > 1:
            raise ValueError(
                f"shadow=True returns the first draft, so that candidates={self.candidates} would be paid for "
                f"nothing; leave one of the two out"
            )
        return self

    def accepts(self, verdict: Verdict) -> bool:
        """Return whether a verdict reaches the success rating, the success score, or both where both are set."""
        if self.success_score is None:
            return verdict.reaches(self.success_rating)
        is_enough = verdict.score is not None and verdict.score >= self.success_score
        return is_enough and (not self._demands_both or verdict.reaches(self.success_rating))

    @property
    def _demands_both(self) -> bool:
        """True if a rating was set beside a success score."""
        return "success_rating" in self.model_fields_set

    @property
    def acceptance(self) -> str:
        """The setting at which an answer is accepted, as it is written."""
        if self.success_score is None:
            return f"success_rating={self.success_rating}"
        both = f"success_rating={self.success_rating}, " if self._demands_both else ""
        return f"{both}success_score={self.success_score:g}"

    @property
    def held_back(self) -> str:
        """Why answers are released whole although they are to be released in pieces; empty where they are not."""
        if self.release == "answer":
            return ""
        reasons = {
            "candidates": self.candidates > 1,
            "shadow": self.shadow,
            "review": self.on_exhausted == "interrupt",
            "skip": self.skip is not None,
            "on_refusal": self.on_refusal != "retry",
            "show_drafts": self.show_drafts,
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def under(self, standing: Standing) -> Policy:
        """Return the policy that follows from where the promise of its certificate stands."""
        if self.certificate is None or not standing.moves:
            return self
        changed: dict[str, Any] = {"certificate": None} if standing.is_withdrawn else {}
        if self.on_alarm == "stricter":
            name, _ = self.certificate.acceptance
            threshold = standing.threshold or certified_grid(self.certificate)[-1]
            changed |= accepting(name, threshold)
        elif self.on_alarm == "closed" and not self.shadow:
            changed["max_calls"] = 0
        return self.model_copy(update=changed)

    @property
    def is_closed(self) -> bool:
        """True if no answer is generated any more, since the certificate was withdrawn."""
        return self.max_calls == 0

    def override(self, attempt: int, candidate: int = 1) -> Override:
        """Return the override for an attempt's candidate: the entry with the highest number not above it."""
        applicable = [number for number in self.overrides if number <= attempt]
        override = self.overrides[max(applicable)] if applicable else _NO_OVERRIDE
        return override[candidate - 1] if isinstance(override, tuple) else override

    def models_of(self, candidate: int) -> dict[int, Any]:
        """Return the other generators of a candidate, by the number of the attempt from which on they are used."""
        overrides = {number: self.override(number, candidate) for number in self.overrides}
        return {number: override.model for number, override in overrides.items() if override.model is not None}


def _apply_certificate(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the success rating, or the success score, of their certificate.

    Raises:
        ConfigurationError: If the certificate cannot be used, or another one stands beside it.
    """
    certificate = IssuedCertificate.read(settings["certificate"])
    certified = certificate.settings
    for other in ("success_rating", "success_score"):
        explicit = settings.get(other)
        if explicit is not None and explicit != certified.get(other):
            written = ", ".join(f"{name}={value:g}" for name, value in certified.items())
            raise ConfigurationError(
                f"{other}={shortened(explicit)} stands beside a certificate for {written}; leave one of "
                f"the two out"
            )
    return {**settings, "certificate": certificate, **certified}


_NO_OVERRIDE = Override()


_OPEN = {
    "on_judge_error": ("accept",),
    "on_exhausted": ("best", "last"),
    "shadow": (True,),
    "skip": (),
    "sample_rate": (),
}
"""Settings by which an answer may go out that no judge accepted, each with the values that let it."""


def fail_closed(settings: Mapping[str, Any], *, called: str) -> dict[str, Any]:
    """Return settings under which only accepted answers go out: of others, a fallback text or an error is left.

    Args:
        settings: The settings of a policy, and others, that a user set.
        called: What the preset is called.

    Raises:
        ConfigurationError: If one of them would let another answer out.
    """
    for name, values in _OPEN.items():
        if name in settings and (not values or settings[name] in values):
            raise ConfigurationError(
                f"{called} releases accepted answers alone, which {name}={shortened(settings[name])} does not; "
                f"leave it out, or give the judge 'groundedness' by itself"
            )
    exhausted = "raise" if settings.get("fallback") is None else "fallback"
    return {"on_judge_error": "reject", "on_exhausted": exhausted, **settings}


_OF_CERTIFICATE = {"certificate", "on_alarm"}
"""Settings that may stand beside a policy."""


def policy_of(policy: object, settings: Mapping[str, Any] | None = None) -> Policy:
    """Return the policy that a user set: as a `Policy`, as a mapping of its settings, or by single settings.

    Raises:
        ConfigurationError: If it is given in two ways, is neither, or has a setting that cannot be used.
    """
    if isinstance(policy, Policy) and settings and settings.keys() <= _OF_CERTIFICATE:
        policy = {name: getattr(policy, name) for name in policy.model_fields_set}
    if isinstance(policy, Mapping) and settings and settings.keys() <= _OF_CERTIFICATE:
        return policy_of({**policy, **settings})
    if policy is not None and settings:
        raise ConfigurationError(f"give policy=... or settings, not both (given also {sorted(settings)})")
    if policy is None:
        return Policy(**(settings or {}))
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, Mapping) and all(isinstance(name, str) for name in policy):
        return Policy(**policy)
    raise ConfigurationError(
        f"policy is a Policy, or a mapping of its settings such as {{'max_attempts': 3}}, not {shortened(policy)}"
    )
