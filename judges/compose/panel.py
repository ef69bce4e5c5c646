"""`Panel`: several judges at once; and `as_judge`, which turns a list into a panel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from judges.compose.coerce import judge_of
from judges.compose.composite import CompositeJudge
from judges.compose.votes import called_to_vote, checked_quorum, checked_success, skipped_notes, too_few_votes
from judges.entry import Explanation
from judges.errors import ConfigurationError, shortened
from judges.judge import Judge
from judges.requests import Deliberation, consult
from judges.runtime.by_judge import ByJudge, names_of
from judges.runtime.validation import judge_name
from judges.sample import Sample
from judges.verdict import LOWEST, Verdict

Rule = Literal["min", "mean", "weighted", "majority", "veto"]
RULES: tuple[Rule, ...] = get_args(Rule)
RuleName = Rule | Literal["all", "average", "median"]

_OTHER_NAMES: Mapping[str, Rule] = {
    **dict.fromkeys(("all", "every", "and", "strict", "strictest", "lowest", "worst", "minimum"), "min"),
    **dict.fromkeys(("average", "avg"), "mean"),
    **dict.fromkeys(("median", "vote", "voting"), "majority"),
    "weights": "weighted",
}
"""Names that one might guess."""

_MODEL_REMEDY = 'give model=..., for instance model="openai:gpt-5-mini"'
_ONE_SUFFICES = ("any", "max", "or", "some", "highest", "best")
_FAILING = 2
"""The highest rating of a member that missed its own pass mark."""


def as_judge(candidate: object, *, name: str | None = None) -> Judge:
    """Return a judge made from a function, an openevals-style evaluator, a LangChain runnable, a name, or several.

    A text is a judge's name, with settings as in `"length:at_most=80"` or `"tone:tone=kind,model=openai:gpt-5"`;
    or `"module:object"` for one of your own; or the path of a file of judges, see `judges.load_file`:
    `"judges.toml"` is a panel of all in it, `"judges.toml:short"` is one.

    A function takes either one sample, or arguments named after fields of a sample (`question`, `answer` and
    the other dialects included), sync or async. It returns a `Verdict`; or True or False; or an integer from 1
    to 4, a rating; or a float from 0 to 1, a score; or a mapping, dataclass or pydantic object with one of
    `rating`, `score` or `passed` and, optionally, `rationale` and `feedback`; or a pair of any of these and the
    feedback. Scalars of numpy are read like Python's. If an answer does not pass and a mapping has no feedback,
    its rationale is the feedback. Marks that contradict each other, as a rating of 4 that has not passed, are
    refused.

    1 and 0 mean True and False where the function is annotated `-> bool`, or, where no annotation decides, where
    its docstring begins as that of a check ("Check ...", "Whether ...", "Return True if ...") or its name does
    (`is_`, `has_`, `contains_`, `check_`) and neither speaks of ratings or scores. Such a function returns no
    ratings.

    A runnable receives the sample's fields as a dict. An agent, or another compiled graph over messages, receives
    them in one message of the user, and its `structured_response` is read as a function's result; it may have
    tools and may interrupt for a human, and it remembers nothing. A list of judges becomes a `Panel` that is as
    strict as its strictest member.

    Args:
        candidate: What to turn into a judge; a judge is returned as it is.
        name: The judge's name; None takes the function's name.

    Raises:
        ConfigurationError: If it is none of these, or a parameter names no field of a sample.
    """
    if isinstance(candidate, Judge):
        return candidate
    if isinstance(candidate, list | tuple):
        return Panel(candidate, name=name or "panel")
    if isinstance(candidate, str | Path):
        return one_judge(candidate, name=name)
    return judge_of(candidate, name=name)


def one_judge(candidate: object, *, name: str | None = None, model: object = None) -> Judge:
    """Return a judge as `as_judge` does; those in it that are given by name ask the model if they can ask one.

    Raises:
        ConfigurationError: As `as_judge`, or a judge that is given by name needs a model and there is none.
    """
    judge: Judge = _naming().one_judge(candidate, name=name, model=model)
    return judge


class Panel(CompositeJudge):
    """Ask several judges about one answer, at once, and combine their verdicts.

    The rules, over the ratings of the members that rated:

    - `"min"`, or `"all"`: the strictest member decides, so that all must pass.
    - `"mean"`, or `"average"`: the mean rating, rounded; a half is rounded down.
    - `"weighted"`: the weighted mean, rounded likewise.
    - `"majority"`, or `"median"`: the lower median, which reaches a rating exactly when more than half of the
      members do.
    - `"veto"`: the mean, unless a member named in `veto` misses its pass mark; then that member decides.

    A tie goes to the stricter side, and `detail` reports it. An unscored member is skipped and counted in
    `detail`; one that had nothing to judge (`"no_contexts"`, `"no_claims"`, ...) does not count towards the
    quorum either. Under `"min"` and `"veto"` a member that fails, or fails with a veto, decides even without a
    quorum, as no other vote could change the outcome. A member that misses its own pass mark counts as at most 2,
    and below `success_rating`, whatever its score.

    Args:
        judges: The members, or a mapping of names to members; functions and judges' names are accepted. In a
            list, a second member named `x` becomes `x-2`.
        rule: How to combine them.
        weights: For `"weighted"`: a weight per member, in order or by name.
        veto: For `"veto"`: names of the members that may veto; none means all.
        quorum: How many of the members with something to judge must rate; None requires more than half. Where
            fewer have something to judge, all of these must. Otherwise the panel is unscored, `"too_few_votes"`.
        success_rating: Rating from which the panel passes.
        name: The panel's name.
        model: The model of members that are given by name and can ask one.

    Raises:
        ConfigurationError: If there are no members, or a setting does not fit them.
    """

    def __init__(
        self,
        judges: Sequence[object] | Mapping[str, object],
        *,
        rule: RuleName = "min",
        weights: Sequence[float] | Mapping[str, float] | None = None,
        veto: Sequence[str] = (),
        quorum: int | None = None,
        success_rating: int = 3,
        name: str = "panel",
        model: object = None,
    ) -> None:
        self.name = name
        self._rule = _checked_rule(rule)
        members = judges_by_name(judges, model)
        self.judges: Mapping[str, Judge] = members
        self._weights = _checked_weights(weights, members, self._rule)
        self._veto = _checked_veto(tuple(members.key(member) for member in veto), tuple(members), self._rule)
        self._quorum = None if quorum is None else checked_quorum(quorum, len(self.judges))
        self._success = checked_success(success_rating)

    def explain(self) -> Explanation:
        """Describe what each of its judges needs, asks and costs."""
        parts = [judge.explain() for judge in self.judges.values()]
        return Explanation.of_parts(self.name, parts, asks="What do several judges say together?", scale="1 to 4")

    def deliberate(self, sample: Sample) -> Deliberation:
        """Consult all members at once and combine their verdicts."""
        answers = yield from consult(tuple(self.judges.values()), sample)
        verdicts = tuple(
            verdict.model_copy(update={"judge": name}) for name, verdict in zip(self.judges, answers, strict=True)
        )
        valid = [verdict for verdict in verdicts if verdict.rating is not None]
        failing = [verdict for verdict in valid if not verdict.reaches(self._success)]
        called = called_to_vote(verdicts)
        quorum = called // 2 + 1 if self._quorum is None else min(self._quorum, called)
        if not valid or (len(valid) < quorum and not self._decides(failing)):
            return too_few_votes(verdicts, len(valid), quorum)
        ballots = {verdict.judge: self._ballot(verdict) for verdict in valid}
        rating, note = self._combine(ballots, valid)
        passing = [verdict for verdict in valid if verdict.reaches(self._success)]
        return Verdict.rated(
            rating,
            success_rating=self._success,
            rationale=_rationale(valid),
            feedback=_merged_feedback(failing or passing, passing if failing else ()),
            items=verdicts,
            detail="; ".join([*([note] if note else []), *skipped_notes(verdicts)]),
        )

    def _decides(self, failing: Sequence[Verdict]) -> bool:
        """Check whether failing members decide alone: under `"min"` any does, under `"veto"` one with a veto."""
        return any(self._rule == "min" or verdict.judge in self._veto for verdict in failing)

    def _ballot(self, verdict: Verdict) -> int:
        """Return the rating to count: a member that missed its own pass mark fails here too."""
        rating = verdict.rating or LOWEST
        return rating if verdict.reaches(rating) else max(LOWEST, min(rating, _FAILING, self._success - 1))

    def _combine(self, ballots: Mapping[str, int], valid: Sequence[Verdict]) -> tuple[int, str]:
        vetoes = [
            verdict.judge
            for verdict in valid
            if verdict.judge in self._veto and not verdict.reaches(self._success)
        ]
        if vetoes:
            return min(ballots[name] for name in vetoes), f"vetoed by {', '.join(vetoes)}"
        if self._rule == "min":
            return min(ballots.values()), ""
        if self._rule == "majority":
            return _lower_median(list(ballots.values()))
        return _mean([(ballot, self._weights[name]) for name, ballot in ballots.items()])


def judges_by_name(members: Sequence[object] | Mapping[str, object], model: object = None) -> ByJudge[Judge]:
    """Return the members as judges under unique names: the second `x` of a list becomes `x-2`.

    Args:
        members: The members.
        model: The model of those that are given by name and can ask one.

    Raises:
        ConfigurationError: If there is none, or one cannot be a judge.
    """
    if model is not None or _has_names(members):
        members = _naming().named(members, model=model, remedy=_MODEL_REMEDY)
    if isinstance(members, Mapping):
        judges = {judge_name(name): as_judge(member, name=name) for name, member in members.items()}
    elif _can_be_listed(members):
        judges = {}
        for judge in map(as_judge, members):
            judge_name(judge.name)
            names = (judge.name, *(f"{judge.name}-{number}" for number in range(2, len(judges) + 3)))
            judges[next(name for name in names if name not in judges)] = judge
    else:
        raise ConfigurationError(
            f"give a list of judges, or a mapping of names to judges, not {shortened(members)}"
        )
    if not judges:
        raise ConfigurationError("at least one judge is needed; none was given")
    return ByJudge(judges, qualified=names_of(getattr(judge, "entry", None) for judge in judges.values()))


def _can_be_listed(members: object) -> bool:
    return isinstance(members, Iterable) and not hasattr(members, "invoke")  # some runnables are iterable, too


def _has_names(members: object) -> bool:
    """Check whether any of the members is given by name."""
    if isinstance(members, Mapping):
        members = list(members.values())
    listed = members if isinstance(members, list | tuple) else [members]
    return any(isinstance(member, str | Path) for member in listed)


def _naming() -> Any:
    """Return the module that knows the judges by name; it stands above, where they are."""
    return import_module("judges.catalogue.naming")


def _lower_median(ballots: list[int]) -> tuple[int, str]:
    ordered = sorted(ballots)
    middle = (len(ordered) - 1) // 2
    tied = len(ordered) % 2 == 0 and ordered[middle] != ordered[middle + 1]
    return ordered[middle], "tied: the stricter side counts" if tied else ""


def _mean(ballots: Sequence[tuple[int, float]]) -> tuple[int, str]:
    total = sum(weight for _, weight in ballots)
    if total == 0:
        return min(ballot for ballot, _ in ballots), "no weight among the members that rated: the strictest counts"
    mean = round(sum(ballot * weight for ballot, weight in ballots) / total, 9)
    rounded = math.ceil(mean - 0.5)
    return rounded, f"mean {mean:.2f}" + (", tied: the stricter side counts" if mean - rounded == 0.5 else "")  # noqa: PLR2004


def _rationale(verdicts: Sequence[Verdict]) -> str:
    return "\n".join(f"{verdict.judge}: {verdict.rationale}" for verdict in verdicts if verdict.rationale)


def _merged_feedback(failing: Sequence[Verdict], passing: Sequence[Verdict]) -> str:
    """Return the feedback of the failing members, then the names of the passing ones as what to keep."""
    change = ["- " + verdict.feedback.removeprefix("- ") for verdict in failing if verdict.feedback]
    keep = ", ".join(verdict.judge for verdict in passing)
    return "\n".join([*change, f"Already good, keep it so: {keep}."] if failing and keep else change)


def _checked_rule(name: object) -> Rule:
    """Return the rule of this name, or of another name for it.

    Raises:
        ConfigurationError: If there is none.
    """
    rule = _OTHER_NAMES.get(name, name) if isinstance(name, str) else name
    known = next((known for known in RULES if known == rule), None)
    if known is None:
        hint = "; none passes by one member alone: majority needs more than half" * (name in _ONE_SUFFICES)
        raise ConfigurationError(f"rule is one of {', '.join(RULES)}, not {shortened(name)}{hint}")
    return known


def _checked_weights(
    setting: Sequence[float] | Mapping[str, float] | None, members: ByJudge[Judge], rule: Rule
) -> dict[str, float]:
    names = tuple(members)
    if rule != "weighted":
        if setting is not None:
            raise ConfigurationError(f"weights are for rule='weighted', not {shortened(rule)}")
        return dict.fromkeys(names, 1.0)
    by_name = setting.items() if isinstance(setting, Mapping) else zip(names, setting or (), strict=False)
    weights = {members.key(name): weight for name, weight in by_name}
    complete = set(weights) == set(names) and (setting is not None and len(setting) == len(names))
    if not complete or min(weights.values()) < 0 or not 0 < sum(weights.values()) < math.inf:
        raise ConfigurationError(
            f"weights gives each of {', '.join(names)} a weight from 0, not {shortened(setting)}"
        )
    return weights


def _checked_veto(veto: Sequence[str], names: Sequence[str], rule: Rule) -> tuple[str, ...]:
    unknown = [name for name in veto if name not in names]
    if unknown or (veto and rule != "veto"):
        raise ConfigurationError(
            f"veto names members for rule='veto'; the members are {', '.join(names)}, given was "
            f"{shortened(list(veto))} for rule={rule!r}"
        )
    return tuple(veto or names) if rule == "veto" else ()
