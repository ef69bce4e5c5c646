"""`Panel`: several judges at once; and `as_judge`, which turns a list into a panel."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import SkipValidation

from judges.compose import FileJudges, Resolve, resolve_names
from judges.compose.coerce import Returns, judge_of
from judges.entry import Entry, Explanation
from judges.errors import ConfigurationError, shortened, unfit
from judges.judge import Judge
from judges.model import JudgeModel
from judges.requests import Consult, Deliberation, consult
from judges.runtime.validation import judge_name, naming_settings
from judges.sample import Sample
from judges.verdict import HIGHEST, LOWEST, NOTHING_TO_JUDGE, ByJudge, Unscored, Verdict

_LIMITS: tuple[Unscored, ...] = ("deadline", "budget")


def _called_to_vote(verdicts: Sequence[Verdict]) -> int:
    """Return how many verdicts count towards a quorum: all but those of judges with nothing to judge."""
    return sum(verdict.unscored not in NOTHING_TO_JUDGE for verdict in verdicts)


def lacking(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts that could have been worse: judges failed, or refuse without a member of theirs."""
    return [
        one
        for one in verdicts
        if one.unscored not in NOTHING_TO_JUDGE
        and (one.unscored is not None or (one.passed is False and not one.rated_natively and one.missing))
    ]


def as_refusal(verdict: Verdict) -> Verdict:
    """Return a refusal as no rating that a loop with a lower `success_rating` could accept."""
    return verdict.model_copy(update={"value": float(verdict.rating or LOWEST), "passed": False})


def without_missing(verdicts: Sequence[Verdict], missing: Sequence[Verdict]) -> Verdict:
    """Return the unscored verdict of an answer that judges without a verdict could have refused."""
    reason: Unscored = next(
        (limit for limit in _LIMITS if limit in [one.unscored for one in missing]), "too_few_votes"
    )
    names = ", ".join(f"{name} ({why})" for one in missing for name, why in one.missing.items())
    detail = f"{names} gave no verdict and could have refused; quorum=... lets the others decide"
    return Verdict.without_score(reason, detail, items=tuple(verdicts))


def _without_quorum(verdicts: Sequence[Verdict], valid: int, quorum: int) -> Verdict:
    """Return an unscored verdict.

    A budget or deadline behind it stays the reason, so that the loop sees it; so does that there was nothing to
    judge for anybody, so that a panel around this one sees it.
    """
    reasons = [verdict.unscored for verdict in verdicts]
    reason: Unscored = next((limit for limit in _LIMITS if limit in reasons), "too_few_votes")
    if not _called_to_vote(verdicts):
        detail = "; ".join(["there was nothing to judge for any", *_skipped_notes(verdicts)])
        return Verdict.without_score(reasons[0] or reason, detail, items=tuple(verdicts))
    count = f"{valid} of {len(verdicts)} rated, {quorum} needed"
    return Verdict.without_score(reason, "; ".join([count, *_skipped_notes(verdicts)]), items=tuple(verdicts))


def _skipped_notes(verdicts: Sequence[Verdict]) -> list[str]:
    """Return one note with the verdicts without a rating and their reasons; no note if all rated."""
    skipped = [f"{verdict.judge} ({verdict.unscored})" for verdict in verdicts if verdict.rating is None]
    return [f"skipped {len(skipped)}: {', '.join(skipped)}"] if skipped else []


def checked_success(success_rating: int, *, setting: str = "success_rating") -> int:
    """Return a rating from which a judge passes after checking that it is an integer from 1 to 4."""
    if type(success_rating) is not int or not LOWEST <= success_rating <= HIGHEST:
        raise unfit(f"{setting} is a whole number from {LOWEST} to {HIGHEST}", success_rating)
    return success_rating


def _checked_quorum(quorum: int | None, most: int) -> int:
    """Return how many of `most` verdicts must have a rating; None requires more than half."""
    if quorum is None:
        return most // 2 + 1
    if type(quorum) is not int or not 1 <= quorum <= most:
        raise unfit(f"quorum is a whole number from 1 to {most}", quorum)
    return quorum


class CompositeJudge(Judge):
    """A judge made of several, `judges` by name: their models are its models, and it reads what they read."""

    judges: Mapping[str, Judge]
    _asks: ClassVar[str]

    def explain(self) -> Explanation:
        """Describe what each of its judges needs, asks and costs."""
        parts = [judge.explain() for judge in self.judges.values()]
        return Explanation.of_parts(self.name, parts, asks=self._asks, scale="1 to 4")

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """Every model that its judges ask."""
        return tuple(model for judge in self.judges.values() for model in judge.models)

    @property
    def metadata_keys(self) -> tuple[str, ...]:
        """Keys of a sample's metadata that any of its judges reads."""
        return tuple(dict.fromkeys(key for judge in self.judges.values() for key in judge.metadata_keys))

    @property
    def judges_parts(self) -> bool:
        """True if all of its judges hold for a part of an answer as for the whole."""
        return all(judge.judges_parts for judge in self.judges.values())

    def first_to_decide(
        self, sample: Sample, decides: Callable[[Verdict], bool], *, called: str
    ) -> Generator[Consult, Any, Verdict]:
        """Consult judge after judge, and return the verdict of the first that decides, else of the last.

        Args:
            sample: The sample.
            decides: Whether the judge of this verdict decides.
            called: What a judge is called in `detail`, which names the one that decided.
        """
        verdicts: tuple[Verdict, ...] = ()
        for name, judge in self.judges.items():
            verdict: Verdict = yield Consult(judge, sample)
            verdicts = (*verdicts, verdict.named(name))
            if decides(verdict):
                break
        last = verdicts[-1]
        decision = f"{called} {len(verdicts)} of {len(self.judges)} decided: {last.judge}"
        detail = f"{decision}; {last.detail}" if last.detail else decision
        return last.model_copy(update={"judge": self.name, "items": verdicts, "detail": detail})


_Rule = Literal["min", "mean", "weighted", "majority", "veto"]
RULES: tuple[_Rule, ...] = get_args(_Rule)
_RuleName = _Rule | Literal["all", "average", "median"]

_OTHER_NAMES: Mapping[str, _Rule] = {
    **dict.fromkeys(("all", "every", "and", "strict", "strictest", "lowest", "worst", "minimum"), "min"),
    **dict.fromkeys(("average", "avg"), "mean"),
    **dict.fromkeys(("median", "vote", "voting"), "majority"),
    "weights": "weighted",
}
"""Names that one might guess."""

_MODEL_REMEDY = 'give model=..., for instance model="openai:gpt-5-mini"'
_ONE_SUFFICES = ("any", "max", "or", "some", "highest", "best")
_USUAL_SUCCESS = 3
_FAILING = 2
"""The highest rating of a member that missed its own pass mark."""


@naming_settings("as_judge(function), or @as_judge above the function")
def as_judge(
    candidate: object, *, name: str | None = None, returns: Returns | None = None, resolve: Resolve = resolve_names
) -> Judge:
    """Return a judge made from a function, an evaluator or validator, a LangChain runnable, a name, or several.

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

    1 and 0 mean True and False where the function is annotated `-> bool`, or `returns` is `"check"`; it then
    returns no ratings. Where it is annotated `-> int`, or `returns` is `"rating"`, 1 is the lowest rating. Where
    neither is said, 1 and 0 are refused: the verdict is unscored, `"invalid_output"`, and says what to write.

    A runnable receives the sample's fields as a dict. An agent, or another compiled graph over messages, receives
    them in one message of the user, and its `structured_response` is read as a function's result; it may have
    tools and may interrupt for a human, and it remembers nothing. A validator of guardrails-ai, or whatever has
    `validate(value, metadata)`, is given the answer and the sample's metadata: its `error_message` is the
    feedback, its `fix_value` the `replacement`. A list of judges becomes a `Panel` that is as strict as its
    strictest member.

    Args:
        candidate: What to turn into a judge; a judge is returned as it is.
        name: The judge's name; None takes the function's name.
        returns: What whole numbers of a function mean, `"check"` or `"rating"`; None takes its annotation.
        resolve: What loads judges by name; it returns them in the place of their names.

    Raises:
        ConfigurationError: If it is none of these, or a parameter names no field of a sample.
    """
    if isinstance(candidate, Judge):
        return candidate
    judge = resolve(candidate) if isinstance(candidate, str | Path | list | tuple | Mapping) else candidate
    if isinstance(judge, FileJudges) and len(judge) == 1:
        return next(iter(judge.values()))
    if isinstance(judge, list | tuple | FileJudges):
        return Panel(judge, name=name or "panel")
    return judge_of(judge, name=name, returns=returns)


class Panel(CompositeJudge):
    """Ask several judges about one answer, at once, and combine their verdicts.

    The rules, over the ratings of the members that rated:

    - `"min"`, or `"all"`: the strictest member decides, so that all must pass.
    - `"mean"`, or `"average"`: the mean rating, rounded; a half is rounded down.
    - `"weighted"`: the weighted mean, rounded likewise.
    - `"majority"`, or `"median"`: the lower median, which reaches a rating exactly when more than half of the
      members do.
    - `"veto"`: the mean, unless a member named in `veto` misses its pass mark; then that member decides.

    A tie goes to the stricter side, and `detail` reports it. `detail` names each member without a verdict. No
    answer passes because a member failed to judge: where it could have lowered the rating, as any member can under
    `"min"`, the panel is unscored, so that the loop's `on_judge_error` decides; a `quorum` lets the others decide.
    A member that had nothing to judge (`"no_contexts"`, ...) is left out. Under `"min"` and `"veto"` a member that
    fails the answer, or does so with a veto, decides even without a quorum, as no other vote could
    change the outcome. A member that misses its own pass mark counts as at most 2, and below `success_rating`,
    whatever its score. A refusal that rests on such a member, or lacks one, is no rating that a loop with a lower
    `success_rating` could accept: its `value` is a float.

    Raises:
        ConfigurationError: If there are no members, or a setting does not fit them.
    """

    def __init__(
        self,
        judges: Sequence[object] | Mapping[str, object],
        *,
        rule: Annotated[_RuleName, SkipValidation] = "min",
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
        vetoing = [veto] if isinstance(veto, str) else veto
        self._veto = _checked_veto(tuple(members.key(member) for member in vetoing), tuple(members), self._rule)
        self._quorum = None if quorum is None else _checked_quorum(quorum, len(self.judges))
        self._success = checked_success(success_rating)

    _asks = "What do several judges say together?"

    @property
    def is_strict(self) -> bool:
        """True if every member must pass, so that each may be asked by itself."""
        return self._rule == "min" and self._quorum is None and self._success == _USUAL_SUCCESS

    def deliberate(self, sample: Sample) -> Deliberation:
        """Consult all members at once and combine their verdicts."""
        answers = yield from consult(tuple(self.judges.values()), sample)
        verdicts = tuple(verdict.named(name) for name, verdict in zip(self.judges, answers, strict=True))
        valid = [verdict for verdict in verdicts if verdict.rating is not None]
        failing = [verdict for verdict in valid if not verdict.reaches(self._success)]
        called = _called_to_vote(verdicts)
        quorum = called // 2 + 1 if self._quorum is None else min(self._quorum, called)
        if not valid or (len(valid) < quorum and not self._decides(failing)):
            return _without_quorum(verdicts, len(valid), quorum)
        ballots = {verdict.judge: self._ballot(verdict) for verdict in valid}
        rating, note = self._combine(ballots, {verdict.judge for verdict in failing})
        failed = lacking(verdicts) if self._quorum is None else []
        missing = failed if rating >= self._success else []
        lowest = dict.fromkeys((verdict.judge for verdict in missing), LOWEST)
        if missing and self._combine({**ballots, **lowest}, lowest.keys())[0] < rating:
            return without_missing(verdicts, missing)
        passing = [verdict for verdict in valid if verdict.reaches(self._success)]
        verdict = Verdict.rated(
            rating,
            success_rating=self._success,
            rationale="\n".join(f"{verdict.judge}: {verdict.rationale}" for verdict in valid if verdict.rationale),
            feedback=_merged_feedback(failing or passing),
            items=verdicts,
            detail="; ".join([*([note] if note else []), *_skipped_notes(verdicts)]),
        )
        verdict = verdict if verdict.passed else _with_replacement(verdict, failing, sample.answer or "")
        counts_as_rating = verdict.passed or not (failed or any(not one.rated_natively for one in failing))
        return verdict if counts_as_rating else as_refusal(verdict)

    def _decides(self, failing: Sequence[Verdict]) -> bool:
        """Check whether failing members decide alone: under `"min"` any does, under `"veto"` one with a veto."""
        return any(self._rule == "min" or verdict.judge in self._veto for verdict in failing)

    def _ballot(self, verdict: Verdict) -> int:
        """Return the rating to count: a member that missed its own pass mark fails here too."""
        rating = verdict.rating or LOWEST
        return rating if verdict.reaches(rating) else max(LOWEST, min(rating, _FAILING, self._success - 1))

    def _combine(self, ballots: Mapping[str, int], failing: Collection[str]) -> tuple[int, str]:
        vetoes = [name for name in ballots if name in self._veto and name in failing]
        if vetoes:
            return min(ballots[name] for name in vetoes), f"vetoed by {', '.join(vetoes)}"
        if self._rule == "min":
            return min(ballots.values()), ""
        if self._rule == "majority":
            return _lower_median(list(ballots.values()))
        return _mean([(ballot, self._weights[name]) for name, ballot in ballots.items()])


def _with_replacement(verdict: Verdict, failing: Sequence[Verdict], answer: str) -> Verdict:
    """Return a refusal with the answer in which all that its members would have masked is; where each has that."""
    if not failing or any(one.replacement is None for one in failing):
        return verdict
    if len(failing) == 1:
        return verdict.model_copy(update={"replacement": failing[0].replacement, "masked": failing[0].masked})
    has_places = all(one.masked for one in failing)
    return verdict.with_masks(answer, (span for one in failing for span in one.masked)) if has_places else verdict


def judges_by_name(members: Sequence[object] | Mapping[str, object], model: object = None) -> ByJudge[Judge]:
    """Return the members as judges under unique names: the second `x` of a list becomes `x-2`.

    Args:
        members: The members.
        model: The model of those that are given by name and can ask one.

    Raises:
        ConfigurationError: If there is none, or one cannot be a judge.
    """
    resolved = resolve_names(members, model=model, remedy=_MODEL_REMEDY)
    if isinstance(resolved, Mapping):
        judges = {judge_name(name): as_judge(member, name=name) for name, member in resolved.items()}
    elif isinstance(resolved, Iterable) and not hasattr(resolved, "invoke"):  # some runnables are iterable, too
        judges = {}
        for judge in map(as_judge, resolved):
            judge_name(judge.name)
            names = (judge.name, *(f"{judge.name}-{number}" for number in range(2, len(judges) + 3)))
            judges[next(name for name in names if name not in judges)] = judge
    else:
        raise unfit("give a list of judges, or a mapping of names to judges", members)
    if not judges:
        raise ConfigurationError("at least one judge is needed; none was given")
    entries = (entry for judge in judges.values() if isinstance(entry := getattr(judge, "entry", None), Entry))
    aliases = {alias: entry.name for entry in entries for alias in entry.aliases}
    return ByJudge(judges, qualified=partial(_qualified, aliases))


def _qualified(names: Mapping[str, str], name: str) -> str:
    return names.get(name, name)


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


def _merged_feedback(verdicts: Sequence[Verdict]) -> str:
    """Return what members want changed, one in a line, the lowest score first; whoever writes next reads it so."""
    ordered = sorted(verdicts, key=lambda verdict: verdict.score or 0.0)
    return "\n".join("- " + verdict.feedback.removeprefix("- ") for verdict in ordered if verdict.feedback)


def _checked_rule(name: object) -> _Rule:
    """Return the rule of this name, or of another name for it.

    Raises:
        ConfigurationError: If there is none.
    """
    rule = _OTHER_NAMES.get(name, name) if isinstance(name, str) else name
    rule_name = next((rule_name for rule_name in RULES if rule_name == rule), None)
    if rule_name is None:
        hint = "; none passes by one member alone: majority needs more than half" * (name in _ONE_SUFFICES)
        raise ConfigurationError(f"rule is one of {', '.join(RULES)}, not {shortened(name)}{hint}")
    return rule_name


def _checked_weights(
    setting: Sequence[float] | Mapping[str, float] | None, members: ByJudge[Judge], rule: _Rule
) -> dict[str, float]:
    names = tuple(members)
    if rule != "weighted":
        if setting is not None:
            raise unfit("weights are for rule='weighted'", rule)
        return dict.fromkeys(names, 1.0)
    by_name = setting.items() if isinstance(setting, Mapping) else zip(names, setting or (), strict=False)
    weights = {members.key(name): weight for name, weight in by_name}
    complete = set(weights) == set(names) and (setting is not None and len(setting) == len(names))
    if not complete or min(weights.values()) < 0 or not 0 < sum(weights.values()) < math.inf:
        raise unfit(f"weights gives each of {', '.join(names)} a weight from 0", setting)
    return weights


def _checked_veto(veto: Sequence[str], names: Sequence[str], rule: _Rule) -> tuple[str, ...]:
    unknown = [name for name in veto if name not in names]
    if unknown or (veto and rule != "veto"):
        raise ConfigurationError(
            f"veto names members for rule='veto'; the members are {', '.join(names)}, given was "
            f"{shortened(list(veto))} for rule={rule!r}"
        )
    return tuple(veto or names) if rule == "veto" else ()


def _most_frequent(verdicts: Sequence[Verdict]) -> tuple[Verdict, int, int]:
    """Return the most frequent verdict, of several the strictest; how often it came, and how many are tied."""
    counts = Counter((verdict.passed, verdict.rating) for verdict in verdicts)
    most = max(counts.values())
    tied = [verdict for verdict in verdicts if counts[verdict.passed, verdict.rating] == most]
    return min(tied, key=lambda verdict: (verdict.passed, verdict.rating)), most, len(tied)


class OneInside(Judge):
    """A judge around one other, `judge`: its models are its models, and it reads what that reads."""

    judge: Judge

    @property
    def models(self) -> tuple[JudgeModel, ...]:
        """The models of the judge inside."""
        return self.judge.models

    @property
    def judges_parts(self) -> bool:
        """True if the judge inside holds for a part of an answer as for the whole."""
        return self.judge.judges_parts

    @property
    def metadata_keys(self) -> tuple[str, ...]:
        """Keys of a sample's metadata that the judge inside reads."""
        return self.judge.metadata_keys


class Repeat(OneInside):
    """Ask one judge several times and take the most frequent verdict (self-consistency, arXiv 2203.11171).

    A tie goes to the stricter side, and `detail` reports it. `detail` also reports the agreement: the share of the
    rated runs with this verdict. Where runs that failed could have refused what the others pass, the verdict is
    unscored, unless a `quorum` is given. Use a judge with a temperature above 0; at 0 the runs are identical.

    Raises:
        ConfigurationError: If `n` or `quorum` is out of its range.
    """

    def __init__(
        self,
        judge: object,
        n: int = 3,
        *,
        quorum: int | None = None,
        name: str | None = None,
        model: object = None,
    ) -> None:
        self.judge = as_judge(judge, resolve=partial(resolve_names, model=model))
        self.name = name or self.judge.name
        self._n = n
        self._quorum = _checked_quorum(quorum, n)
        self._lets_others_decide = quorum is not None

    def explain(self) -> Explanation:
        """Describe what the judge needs, asks and costs."""
        part = self.judge.explain()
        asks = f"What does {part.judge} say most often, asked {self._n} times?"
        calls = "0" if part.calls == "0" else f"{self._n} x ({part.calls})"
        return Explanation.of_parts(self.name, [part], asks=asks, calls=calls, repeats=self._n, scale=part.scale)

    def deliberate(self, sample: Sample) -> Deliberation:
        """Consult the judge n times at once and return the most frequent verdict."""
        runs: tuple[Verdict, ...] = yield tuple(Consult(self.judge, sample, number) for number in range(self._n))
        verdicts = tuple(verdict.named(self.name) for verdict in runs)
        valid = [verdict for verdict in verdicts if verdict.rating is not None]
        if len(valid) < self._quorum:
            return _without_quorum(verdicts, len(valid), self._quorum)
        strictest, most, tied = _most_frequent(valid)
        missing = [] if self._lets_others_decide else lacking(verdicts)
        lowest = [Verdict.rated(LOWEST) for _ in missing]
        could_be_lower = _most_frequent([*valid, *lowest])[0].rating != strictest.rating
        if strictest.passed and could_be_lower:
            return without_missing(verdicts, missing)
        notes = [f"agreement {most / len(valid):.2f}", *_skipped_notes(verdicts)]
        if most < tied:
            notes.insert(1, "tied: the stricter side counts")
        changes = {"judge": self.name, "items": verdicts, "detail": "; ".join(notes)}
        verdict = strictest.model_copy(update=changes)
        return as_refusal(verdict) if could_be_lower else verdict
