"""`try_judge`: worked cases with a clear verdict, before a judge guards anything."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from judges.compose.panel import as_judge
from judges.errors import ConfigurationError, one_line, shortened
from judges.judge import Judge
from judges.offline.results import Row
from judges.offline.run.evaluate import evaluate
from judges.offline.run.settings import OnProgress, Progress
from judges.sample import Sample
from judges.verdict import Verdict

Advice = Literal["use it", "use it with care", "do not use it"]

_MOST_WRONG = 1 / 12
"""Share of cases judged wrongly up to which a judge may be used: one of a dozen."""

_FEWEST_RIGHT = 3 / 4
"""Share of cases judged rightly below which it is not used: whoever guesses has a half."""

_LONGEST = 60


@dataclass(frozen=True, kw_only=True)
class WorkedCase:
    """An answer of which it is clear whether a judge must pass it.

    Args:
        sample: The answer with what the judge reads beside it.
        passes: Whether it must pass.
        why: What makes it a case, in a few words.
    """

    sample: Sample
    passes: bool
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class TrialPair:
    """A question with an answer that is clearly good and one that is clearly bad: two worked cases.

    Args:
        question: What was asked.
        good: The good answer.
        bad: The bad one.
        contexts: Retrieved contexts, where the judge reads them.
        reference: The right answer, where the judge reads it.
    """

    question: str
    good: str
    bad: str
    contexts: tuple[str, ...] = ()
    reference: str | None = None

    def cases(self) -> tuple[WorkedCase, WorkedCase]:
        """Return the good answer, which passes, and the bad one, which does not."""
        good, bad = (
            Sample(
                user_input=self.question,
                response=answer,
                retrieved_contexts=self.contexts or None,
                reference=self.reference,
            )
            for answer in (self.good, self.bad)
        )
        return WorkedCase(sample=good, passes=True), WorkedCase(sample=bad, passes=False)


@dataclass(frozen=True, kw_only=True)
class _TriedCase:
    """What a judge made of a case.

    Args:
        question: What was asked.
        answer: The answer.
        passes: Whether it must pass.
        rating: The rating it got; None where it is unscored.
        is_right: Whether it passed if it must, and did not if it must not.
        why: What makes it a case.
        unscored: Why it has no rating; empty where it has one.
    """

    question: str
    answer: str
    passes: bool
    rating: int | None
    is_right: bool
    why: str = ""
    unscored: str = ""

    def __str__(self) -> str:
        """Say in a line what went wrong."""
        verdict = f"not scored ({self.unscored})" if self.unscored else f"rated {self.rating}"
        must = "should pass" if self.passes else "should not pass"
        why = f" ({self.why})" if self.why else ""
        question, answer = (one_line(text, longest=_LONGEST) for text in (self.question, self.answer))
        return f"{verdict}, {must}{why}: {question} -> {answer}"


@dataclass(frozen=True, kw_only=True)
class JudgeTrial:
    """What a judge made of worked cases; `str()` says it in a few lines.

    Args:
        judge: The judge.
        cases: The cases, in order.
        advice: What follows: at most one wrong of a dozen, at least three quarters right, or less.
    """

    judge: str
    cases: tuple[_TriedCase, ...]
    advice: Advice

    @property
    def right(self) -> int:
        """Cases that pass if they must, and do not if they must not."""
        return sum(case.is_right for case in self.cases)

    @property
    def unscored(self) -> int:
        """Cases without a rating."""
        return sum(bool(case.unscored) for case in self.cases)

    @property
    def is_usable(self) -> bool:
        """True if it may guard."""
        return self.advice != "do not use it"

    @property
    def only_rating(self) -> int | None:
        """The rating that it gives to everything; None where it gives several, or none."""
        ratings = {case.rating for case in self.cases}
        return ratings.pop() if len(ratings) == 1 else None

    @property
    def headline(self) -> str:
        """The finding as one line."""
        if self.only_rating is not None:
            return f"{self.judge}: rates everything {self.only_rating}: {self.advice}"
        missing = f", {self.unscored} not scored" if self.unscored else ""
        return f"{self.judge}: {self.right} of {len(self.cases)} worked cases right{missing}: {self.advice}"

    def __str__(self) -> str:
        wrong = [case for case in self.cases if not case.is_right and self.only_rating is None]
        return "\n".join([self.headline, *(f"  {case}" for case in wrong)])

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {**data, "right": self.right, "unscored": self.unscored}


@cache
def _worked_cases(name: str) -> tuple[WorkedCase, ...]:
    """Return the cases that are shipped for a judge, by its qualified name; none where there are none."""
    tables = [table for table in _shipped() if name in table["judges"]]
    cases = [_case({**table.get("sample", {}), **fields}) for table in tables for fields in table.get("cases", ())]
    pairs = [_pair(table, pair) for table in tables for pair in table.get("pairs", ())]
    return (*cases, *(case for pair in pairs for case in pair))


def settings_of_cases(name: str) -> Mapping[str, Any]:
    """Return the settings that a judge must have for its cases, such as the definition that they are about."""
    tables = (table.get("settings", {}) for table in _shipped())
    return next((table[name] for table in tables if name in table), {})


def _judges_with_cases() -> list[str]:
    """Return the judges for which cases are shipped."""
    return sorted({name for table in _shipped() for name in table["judges"]})


def _case(fields: Mapping[str, Any]) -> WorkedCase:
    row = {name: value for name, value in fields.items() if name not in ("passes", "why", "turns")}
    if "turns" in fields:
        row["messages"] = [message for turn in enumerate(fields["turns"]) for message in _messages(*turn)]
    return WorkedCase(sample=Sample.read(row), passes=fields["passes"], why=fields["why"])


def _messages(place: int, turn: str) -> list[dict[str, Any]]:
    """Read `User: text`, `Assistant: text`, or a call of a tool and its result, `name(key=value, ...) -> text`."""
    speaker, _, text = turn.partition(": ")
    if speaker in ("User", "Assistant"):
        return [{"role": speaker.lower(), "content": text}]
    call, _, result = turn.partition(" -> ")
    name, _, arguments = call.removesuffix(")").partition("(")
    args = dict(argument.split("=", 1) for argument in arguments.split(", ") if argument)
    tool_call = {"name": name, "args": args, "id": f"c{place}"}
    return [
        {"role": "assistant", "content": "", "tool_calls": [tool_call]},
        {"role": "tool", "name": name, "content": result, "tool_call_id": tool_call["id"]},
    ]


def _pair(table: Mapping[str, Any], fields: Mapping[str, Any]) -> Sequence[WorkedCase]:
    """Return both cases of a pair; for a judge that compares (`rivals`) each has the other as its rival."""
    good, bad = TrialPair(**{**fields, "contexts": tuple(fields.get("contexts", ()))}).cases()
    if not table.get("rivals"):
        return good, bad
    return [
        WorkedCase(sample=Sample.read(case.sample, metadata={"rival": other.sample.response}), passes=case.passes)
        for case, other in ((good, bad), (bad, good))
    ]


@cache
def _shipped() -> tuple[Mapping[str, Any], ...]:
    files_there = sorted(files(__package__).joinpath("trials").iterdir(), key=lambda file: file.name)
    texts = (file.read_text(encoding="utf-8") for file in files_there if file.name.endswith(".toml"))
    return tuple(tomllib.loads(text) for text in texts)


def try_judge(
    judge: object,
    cases: Sequence[WorkedCase | TrialPair] | None = None,
    *,
    name: str | None = None,
    max_concurrency: int = 8,
    on_progress: OnProgress | None = None,
) -> JudgeTrial:
    """Judge worked cases, and say whether the judge passes those that it must, and no others.

    Args:
        judge: The judge, with the model that it will ask.
        cases: The cases, or pairs of a good and a bad answer; None takes those shipped for the judge.
        name: The judge's qualified name in the catalogue; None takes its own.
        max_concurrency: Answers that are judged at once.
        on_progress: Called with the progress after each case, in order.

    Raises:
        ConfigurationError: If no cases are shipped for this judge, or it cannot be used.
    """
    tried = as_judge(judge)
    listed = _worked_cases(name or _catalogue_name(tried)) if cases is None else _expanded(cases)
    if not listed:
        raise ConfigurationError(
            f"no cases are shipped for the judge {shortened(name or tried.name)}; there are some for every judge "
            "of the catalogue that asks a model; give cases=[TrialPair(question=..., good=..., bad=...)]"
        )
    results: list[_TriedCase] = []
    calls, started = 0, time.monotonic()

    def take(row: Row) -> None:
        nonlocal calls
        (verdict,) = row.verdicts.values()
        calls += verdict.usage.calls
        results.append(_tried(listed[len(results)], verdict))
        if on_progress is not None:
            on_progress(_progress(results, len(listed), calls, time.monotonic() - started))

    evaluate([case.sample for case in listed], tried, max_concurrency=max_concurrency, on_result=take)
    return JudgeTrial(judge=tried.name, cases=tuple(results), advice=_advise(results))


def _progress(results: Sequence[_TriedCase], total: int, calls: int, seconds: float) -> Progress:
    done, unscored = len(results), sum(bool(case.unscored) for case in results)
    left = seconds / done * (total - done)
    return Progress(
        done=done, total=total, unscored=unscored, calls=calls, cost=None, seconds=seconds, seconds_left=left
    )


def _expanded(cases: Sequence[WorkedCase | TrialPair]) -> list[WorkedCase]:
    parts = [(case,) if isinstance(case, WorkedCase) else case.cases() for case in cases]
    return [case for part in parts for case in part]


def _catalogue_name(judge: Judge) -> str:
    """Return the qualified name of a judge of the catalogue; of another one its own name."""
    entry = getattr(type(judge), "entry", None)
    return str(getattr(entry, "name", None) or judge.name)


def _tried(case: WorkedCase, verdict: Verdict) -> _TriedCase:
    return _TriedCase(
        question=case.sample.question,
        answer=case.sample.answer or "",
        passes=case.passes,
        rating=verdict.rating,
        is_right=verdict.passed is case.passes,
        why=case.why,
        unscored=str(verdict.unscored or ""),
    )


def _advise(cases: Sequence[_TriedCase]) -> Advice:
    right = sum(case.is_right for case in cases) / len(cases)
    if right >= 1 - _MOST_WRONG:
        return "use it"
    return "use it with care" if right >= _FEWEST_RIGHT else "do not use it"
