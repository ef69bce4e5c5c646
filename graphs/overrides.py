"""What a single request may bring: `Overrides` and evidence, within the operator's `Bounds`.

**How it comes.** A graph takes overrides as LangGraph's runtime context, `SelfRefine` as `context`; evidence comes
with the question, or in the overrides, which go before.

**How far it goes.** Whoever sends requests may make the loop stricter and cheaper; to go beyond the policy, or to
bring criteria, needs bounds that say how far, by whichever door it comes: `context`, `evidence`, a graph's input.
Anything that is unknown or goes too far is an error, and nothing is generated.

**What it reaches.** The loops that LangGraph hands the context to, and nothing that such a loop calls: the context
says how this answer is judged, and generators, judges and the tools of an agent answer other questions. A call
inside may bring a context of its own.

**Whose evidence counts.** What comes with the question goes before what the generator returns under the same name:
an answer is not judged by contexts that its generator put in the place of the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Self

from pydantic import Field, JsonValue

from graphs.outcome import InputError
from graphs.policy import FrozenSettings, OnLateRefusal, Policy, ReleaseForm
from judges.errors import ConfigurationError, shortened
from judges.sample import Guidelines, Rubrics, canonical_field
from judges.verdict import Rating

_CRITERIA = frozenset({"guidelines", "rubrics"})
"""Settings that are for the judge to judge by; fields of a sample."""

_NO_EVIDENCE = _CRITERIA | {"user_input", "response"}
"""Fields of a sample that a request has beside its evidence."""

_ALIKE = 0.8
"""How alike a misspelt name is to that of a setting, from 0 to 1."""

_LIMITS = ("max_attempts", "max_calls", "max_tokens", "max_cost", "max_retries", "deadline_s", "patience")


class _RequestSettings(FrozenSettings):
    """The settings of a policy that a request may change."""

    success_rating: Rating | None = None
    max_attempts: int | None = Field(default=None, ge=1, strict=True)
    max_calls: int | None = Field(default=None, ge=1, strict=True)
    max_tokens: int | None = Field(default=None, ge=1, strict=True)
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False, strict=True)
    max_retries: int | None = Field(default=None, ge=0, strict=True)
    deadline_s: float | None = Field(default=None, gt=0, allow_inf_nan=False, strict=True)
    patience: int | None = Field(default=None, ge=1, strict=True)
    release: ReleaseForm | None = None


class Overrides(_RequestSettings):
    """Settings of one request, for its whole turn; None leaves what the policy says.

    Args:
        success_rating: Rating from 1 to 4 at which an answer is accepted.
        max_attempts: Maximum number of answers, including the first one.
        max_calls: Maximum number of model calls, generator and judges together.
        max_tokens: Number of tokens after which no more calls are made.
        max_cost: The same in US dollars; the policy must have `prices`.
        max_retries: Maximum number of repeats of requests whose transport failed, in judging one draft.
        deadline_s: Seconds from the question after which the loop stops waiting for anything.
        patience: Stop after this many consecutive attempts that were no better than the best before them.
        release: `"answer"` holds the answer back until all of it is judged, `"pieces"` releases pieces of it.
        on_late_refusal: `"flag"`, or what the policy says: of the guard, a client that streams and can take an
            answer back asks for `"replace"`.
        guidelines: Rules that the answer must follow, a text or a list of texts, added to those of the evidence;
            `criteria` is another name. The judge must be one that reads a sample's `guidelines`, such as
            `Rubric(..., own_guidelines=True)`, an agent, or a function with a parameter of that name.
        rubrics: Descriptions of the levels of the rating, in place of those of the evidence. The judge must be one
            that reads a sample's `rubrics`.
        evidence: Evidence for the judge, fields of a `Sample` such as `retrieved_contexts` and `reference`, in
            place of those that came with the question. No reference reaches the generator.

    Raises:
        InputError: If a setting is unknown or out of range; the message names it and the remedy.
    """

    on_late_refusal: OnLateRefusal | None = None
    guidelines: Guidelines = None
    rubrics: Rubrics = None
    evidence: dict[str, Any] | None = None

    def __init__(self, **settings: Any) -> None:
        """Validate the settings; see the class."""
        if "criteria" in settings:
            if settings.get("guidelines") is not None:
                raise InputError("criteria is another name of guidelines; give one of them")
            settings["guidelines"] = settings.pop("criteria")
        try:
            super().__init__(**settings)
        except ConfigurationError as error:
            raise InputError(str(error)) from None
        misplaced = [name for name in self.evidence or () if canonical_field(name) in _NO_EVIDENCE]
        if misplaced:
            raise InputError(
                f"the evidence of a request holds no {', '.join(misplaced)}: question and answer are there, "
                f"and guidelines or rubrics are given beside it"
            )

    @classmethod
    def read(cls, context: object) -> Self:
        """Return the overrides that a context holds, which is one already or a mapping of its settings.

        Raises:
            InputError: If it cannot be read, or holds anything else.
        """
        if isinstance(context, cls):
            return context
        if not isinstance(context, Mapping) or not all(isinstance(name, str) for name in context):
            raise InputError(
                f"a context is Overrides(...) or a mapping of its settings, for instance {{'max_attempts': 2}}, "
                f"not {shortened(context)}"
            )
        return cls(**context)

    @property
    def settings(self) -> dict[str, JsonValue]:
        """The settings that are set, without evidence, as plain data that `Overrides(**settings)` reads."""
        return self.model_dump(mode="json", exclude_none=True, exclude={"evidence"})

    @property
    def criteria(self) -> dict[str, JsonValue]:
        """What is for the judge, as fields of a sample."""
        return self.model_dump(mode="json", exclude_none=True, include=set(_CRITERIA))

    def applied_to(self, policy: Policy) -> Policy:
        """Return a policy with these settings, to which no certificate of the policy applies any more.

        Raises:
            InputError: If it sets a rating where answers are accepted by score.
        """
        changed = self.model_dump(exclude_none=True, exclude={*_CRITERIA, "evidence"})
        if policy.success_score is not None and "success_rating" in changed:
            raise InputError("a request sets no success_rating here, where answers are accepted by their score")
        if policy.certificate is not None and (changed or self.criteria):
            changed["certificate"] = None
        if policy.is_closed:
            changed.pop("max_calls", None)
        return policy.model_copy(update=changed) if changed else policy

    def added_to(self, evidence: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return evidence with these criteria: guidelines are added, rubrics replaced."""
        added = {**evidence, **self.criteria}
        before, after = evidence.get("guidelines"), added.get("guidelines")
        if self.guidelines is not None and before:
            added["guidelines"] = _join(before, after)
        return added


_NAMES = frozenset({*Overrides.model_fields, "criteria"})


def overrides_in(context: object) -> Overrides | None:
    """Return the overrides in the runtime context of a graph, which may hold other things; None if there are none.

    They are what the context has under `refine`, as a key or an attribute that is no method; or the context
    itself, if it is an `Overrides`, or a mapping of nothing but settings, as without a `context_schema`.

    Raises:
        InputError: If they cannot be read; if the context is a text, a number or a list, which holds no settings;
            or a mapping that has settings beside other things, so that nobody knows whose they are.
    """
    if context is None:
        return None
    if isinstance(context, Overrides | str | bytes | int | float | list | tuple | set | frozenset):
        return Overrides.read(context)
    if isinstance(context, Mapping):
        return _in_mapping(context)
    refine_settings = getattr(context, "refine", None)
    return None if refine_settings is None or callable(refine_settings) else Overrides.read(refine_settings)


def _in_mapping(context: Mapping[Any, Any]) -> Overrides | None:
    if "refine" in context:
        refine_settings = context["refine"]
        return None if refine_settings is None else Overrides.read(refine_settings)
    settings = sorted(name for name in context if name in _NAMES)
    if settings and len(settings) < len(context):
        raise InputError(
            f"the context has {', '.join(settings)} beside other things: give settings under 'refine', for "
            f"instance {{'refine': {{'max_attempts': 2}}}}, or 'refine': None if these are not for the refinement"
        )
    return Overrides.read(context) if context and all(map(_is_like_a_setting, context)) else None


def _is_like_a_setting(name: object) -> bool:
    return isinstance(name, str) and bool(get_close_matches(name, _NAMES, n=1, cutoff=_ALIKE))


class Bounds(_RequestSettings):
    """How far a request may go with its `Overrides`; where nothing is set, no further than the policy.

    Args:
        success_rating: The lowest rating that a request may accept; a higher one is always allowed.
        max_attempts: The highest `max_attempts` of a request, and so for each limit that follows; a lower one is
            always allowed, and so is any where neither the bounds nor the policy have one.
        max_calls: As above.
        max_tokens: As above.
        max_cost: As above, in US dollars.
        max_retries: As above.
        deadline_s: As above, in seconds.
        patience: As above.
        release: `"pieces"` lets a request have its answer in pieces where the policy holds it back; to hold it
            back is always allowed.
        max_criteria_chars: Most characters of the `guidelines` and `rubrics` of a request together, also of those
            among its evidence; 0 refuses them, since they may weaken what is judged by.
        max_evidence_chars: Most characters of the other `evidence` of a request; 0 refuses it, None takes any.

    Raises:
        ConfigurationError: If a setting is unknown or out of range.
    """

    max_criteria_chars: int = Field(default=0, ge=0, strict=True)
    max_evidence_chars: int | None = Field(default=None, ge=0, strict=True)

    def check(self, overrides: Overrides, policy: Policy) -> None:
        """Check that a request's settings are within these bounds.

        Raises:
            InputError: If one goes too far; the message names it and what is allowed.
        """
        self._check_rating(overrides.success_rating, policy)
        for name in _LIMITS:
            value, bound = getattr(overrides, name), getattr(self, name)
            highest = getattr(policy, name) if bound is None else bound
            if value is not None and highest is not None and value > highest:
                raise InputError(f"a request may set {name} to {highest} at most, not to {value}")
        if overrides.release == "pieces" and "pieces" not in (policy.release, self.release):
            raise InputError(
                "a request may not set release to 'pieces' here; the bounds say so where it may, release='pieces'"
            )
        if overrides.on_late_refusal not in (None, "flag", policy.on_late_refusal):
            raise InputError(
                f"a request may set on_late_refusal to 'flag' or {policy.on_late_refusal!r} here, "
                f"not to {overrides.on_late_refusal!r}; the policy says so where it may"
            )
        if overrides.max_cost is not None and not policy.prices:
            raise InputError(f"a request cannot set max_cost={overrides.max_cost} here: no prices are known")
        self.check_evidence(overrides.criteria)
        self.check_evidence(overrides.model_dump(mode="json", include={"evidence"}, fallback=str)["evidence"])

    def check_evidence(self, evidence: JsonValue) -> None:
        """Check that the evidence of a request, fields of a sample, is within these bounds; criteria count apart.

        Raises:
            InputError: If it is too long.
        """
        fields = evidence if isinstance(evidence, dict) else {}
        criteria = {name: fields[name] for name in sorted(fields) if canonical_field(name) in _CRITERIA}
        others = {name: value for name, value in fields.items() if name not in criteria}
        _check_length(criteria, self.max_criteria_chars, " and ".join(criteria), "max_criteria_chars")
        _check_length(others, self.max_evidence_chars, "evidence", "max_evidence_chars")

    def _check_rating(self, rating: int | None, policy: Policy) -> None:
        lowest = policy.success_rating if self.success_rating is None else self.success_rating
        if rating is not None and rating < lowest:
            raise InputError(f"a request may set success_rating to {lowest} at least, not to {rating}")


def _check_length(fields: dict[str, JsonValue], limit: int | None, name: str, setting: str) -> None:
    length = _length(fields) - sum(map(len, fields))
    if limit is not None and length > limit:
        rule = f"at most {limit} characters of" if limit else "no"
        raise InputError(
            f"a request may bring {rule} {name} (given {length} characters); {setting} of the bounds says how many"
        )


def _length(value: JsonValue) -> int:
    """Return the characters of all texts in a value, names included."""
    match value:
        case str():
            return len(value)
        case dict():
            return sum(len(name) + _length(item) for name, item in value.items())
        case list():
            return sum(map(_length, value))
        case _:
            return 0


def _join(before: JsonValue, after: JsonValue) -> JsonValue:
    """Return guidelines of a question and of its request as one list, or as lists under their names."""
    if isinstance(before, list) and isinstance(after, list):
        return [*before, *after]
    return {**_by_name(before, "question"), **_by_name(after, "request")}


def _by_name(rules: JsonValue, name: str) -> dict[str, JsonValue]:
    return rules if isinstance(rules, dict) else {name: rules}
