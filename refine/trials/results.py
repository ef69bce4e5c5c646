"""The arms of a trial and what came of it: each arm of each question, the table over them, and its curves."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from pydantic import ValidationError

from graphs.policy import Augmenter, AugmenterName, Policy
from judges import ConfigurationError
from judges.certificate import aligned_lines
from judges.errors import plural, shortened
from judges.offline.run.journal import replacing, write_json
from judges.offline.run.outputs import RESULTS, SUMMARY, TIMING
from judges.offline.trust.benefit_report import good_by_people
from judges.offline.trust.rows import Opinion, labels_beside, merge_opinions, read_judged, read_labels
from judges.verdict import Frozen

if TYPE_CHECKING:
    from judges.offline.statistics.comparing import ArmEffect

FIRST = "first"
"""The arm of the first answer alone, which every trial has."""

_LOOP = "loop"
"""The arm of the loop as its policy sets it."""

_STRONGER = "stronger"
BASELINE = "fresh"
"""The arm that others are compared with, where a trial has it."""

DEFAULT_ARMS = (FIRST, _LOOP, "restated", "verify_first", BASELINE)
_LONGEST_NAME = 60
_FORMS: tuple[str, ...] = get_args(AugmenterName)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A way of going on from the first answer.

    Args:
        name: What it is called in tables and files.
        augment: What the generator sees on a retry, as in `Policy`; None leaves it to the policy of the trial.
        generator: Another generator for the retries, for instance a stronger model; None takes that of the trial.
    """

    name: str
    augment: AugmenterName | Augmenter | None = None
    generator: object = None

    def policy(self, policy: Policy) -> Policy:
        """Return the policy of the trial with this form of a retry."""
        return policy if self.augment is None else policy.model_copy(update={"augment": self.augment})


def read_arms(arms: str | Sequence[str | Arm]) -> tuple[Arm, ...]:
    """Return arms by their names: `first`, `loop`, a named form of a retry, or `stronger=MODEL`.

    The first answer alone is an arm of every trial, and stands first.

    Args:
        arms: Names, or arms of your own; a text holds names with commas between them.

    Raises:
        ConfigurationError: If a name means no arm, or two arms share one.
    """
    named = [one for one in map(str.strip, arms.split(",")) if one] if isinstance(arms, str) else list(arms)
    read = [one if isinstance(one, Arm) else _named(one) for one in named]
    names = [arm.name for arm in read]
    shared = next((name for name in names if names.count(name) > 1), None)
    if shared is not None:
        raise ConfigurationError(f"two arms are called {shared!r}; leave one out, or give it another name")
    for arm in read:
        _check_arm(arm)
    others = [arm for arm in read if arm.name != FIRST]
    if not others:
        raise ConfigurationError(
            f"a trial compares {FIRST!r} with other arms; add one, for instance {_LOOP!r} or {BASELINE!r}"
        )
    return (Arm(name=FIRST), *others)


def _named(name: object) -> Arm:
    if not isinstance(name, str):
        raise ConfigurationError(f"an arm is a name or an Arm(name=..., augment=...), not {shortened(name)}")
    kind, equals, model = name.partition("=")
    if kind == _STRONGER:
        if not model.strip():
            raise ConfigurationError("the arm 'stronger' names a model: stronger=openai:gpt-5")
        return Arm(name=_STRONGER, generator=model.strip())
    if name in (FIRST, _LOOP):
        return Arm(name=name)
    if name in _FORMS:
        return Arm(name=name, augment=name)  # type: ignore[arg-type]  # one of the names
    arm_names = [FIRST, _LOOP, *_FORMS, f"{_STRONGER}=MODEL"]
    near = get_close_matches(name, arm_names, n=1)
    remedy = f"did you mean {near[0]!r}?" if near and not equals else f"there are {', '.join(arm_names)}"
    raise ConfigurationError(f"{shortened(name)} is no arm of a trial; {remedy}")


def _check_arm(arm: Arm) -> None:
    name: Any = arm.name  # of users without types
    is_plain = isinstance(name, str) and name == name.strip() and name.isprintable() and not set("=,") & set(name)
    if not is_plain or not 0 < len(name) <= _LONGEST_NAME:
        raise ConfigurationError(
            f"the name of an arm is a text of at most {_LONGEST_NAME} letters without '=' and commas, not "
            f"{shortened(name)}"
        )
    if name == FIRST and arm != Arm(name=FIRST):
        raise ConfigurationError(
            f"the arm {FIRST!r} is the first answer alone, which nothing is tried on; give yours another name"
        )


class TrialAttempt(Frozen):
    """One answer of an arm.

    Args:
        number: Number of the attempt, from 1.
        text: The answer.
        kind: What kind of an answer it is.
        rating: What the loop's judge gave it; None where it gave nothing.
        score: The same from 0 to 1.
        unscored: Why the judge gave nothing.
        feedback: What the judge said to change.
        good: Whether it is good by the truth; None where that is unknown.
        calls: Model calls, those of the judge included.
        input_tokens: Tokens of their prompts.
        output_tokens: Tokens of their replies.
        cost: US dollars; None where a price is unknown.
        seconds: How long generating and judging took; not in the results, which are the same in every run.
    """

    number: int
    text: str
    kind: str = "text"
    rating: int | None = None
    score: float | None = None
    unscored: str | None = None
    feedback: str = ""
    good: bool | None = None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    seconds: float = 0.0


class TrialRow(Frozen):
    """One question in one arm.

    Args:
        question: Index of the question.
        draw: Which of its repetitions, from 0.
        arm: Name of the arm.
        attempts: Its answers; the first is the same in all arms.
        released: Number of the attempt whose answer was released; None for another text, or none.
        answer: The text that was released where it is no attempt's; None where nothing was.
        passed: Whether the loop's judge accepted the released answer.
        stop_reason: Why the arm stopped.
        detail: One line about it.
        answer_good: Whether `answer` is good by the truth; None where that is unknown.
        question_text: What was asked last; in the rows of the first arm alone.
        released_after: By number of attempts, the one that would be released if no more were allowed.
    """

    question: int
    draw: int
    arm: str
    attempts: tuple[TrialAttempt, ...] = ()
    released: int | None = None
    answer: str | None = None
    passed: bool = False
    stop_reason: str = ""
    detail: str = ""
    answer_good: bool | None = None
    question_text: str = ""
    released_after: tuple[int | None, ...] = ()

    @property
    def good(self) -> bool | None:
        """True if what was released is good by the truth, nothing never being good; None where that is unknown."""
        return self.answer_good if self.answer is not None else self._is_good(self.released)

    @property
    def by_attempt(self) -> tuple[bool | None, ...]:
        """By number of attempts, whether the answer is good that would be released if no more were allowed."""
        return (*map(self._is_good, self.released_after[:-1]), self.good)

    def _is_good(self, number: int | None) -> bool | None:
        return self.attempts[number - 1].good if number is not None else False if self.has_truth else None

    @property
    def has_truth(self) -> bool:
        """True if of any of its answers it is known whether it is good."""
        return self.answer_good is not None or any(attempt.good is not None for attempt in self.attempts)

    @property
    def good_at_first(self) -> bool | None:
        """True if the first answer is good; None where that is unknown."""
        return self.attempts[0].good if self.attempts else None

    @property
    def released_text(self) -> str:
        """The text that was released; empty where nothing was."""
        attempt = self.released_attempt
        return (self.answer or "") if attempt is None else attempt.text

    @property
    def released_attempt(self) -> TrialAttempt | None:
        """The attempt whose answer was released; None for another text, or none."""
        return None if self.released is None else self.attempts[self.released - 1]


_Fate = Literal["broken", "behind", "not mended"]
"""A good first answer that became a bad one; a bad answer where the baseline's is good; a bad one as at first."""

_FATES: tuple[_Fate, ...] = get_args(_Fate)


@dataclass(frozen=True, kw_only=True)
class _WorstQuestion:
    """A question that ended badly.

    Args:
        fate: In which way.
        arms: The arms in which it did.
        question: Index of the question.
        draw: Which of its repetitions.
        text: What was asked.
        first: The first answer.
        feedback: What the loop's judge said of that.
        released: What the first of these arms released in the end; empty for nothing.
    """

    fate: _Fate
    arms: tuple[str, ...]
    question: int
    draw: int
    text: str
    first: str
    feedback: str
    released: str


@dataclass(frozen=True, kw_only=True)
class ArmSummary:
    """The figures of an arm.

    Args:
        name: Its name.
        effect: What it mended and broke, and how it differs from the baseline; None without a truth.
        generations: Answers it generated, the first included.
        echoes: How many of them only repeat what the loop said.
        repeats: How many are an earlier answer once more.
        accepted: Answers that the loop's judge accepted.
        failed: Questions that ended because generator or judge failed.
        calls: Model calls, those of the judge included.
        tokens: Their tokens.
        cost: US dollars; None where a price is unknown.
        seconds: Mean seconds a question.
        curve: Share of good answers if no more than 1, 2, ... attempts were allowed; empty without a truth.
    """

    name: str
    effect: ArmEffect | None
    generations: int
    echoes: int
    repeats: int
    accepted: int
    failed: int
    calls: int
    tokens: int
    cost: float | None
    seconds: float
    curve: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A finished trial.

    Args:
        rows: Every question in every arm, in the order of the questions.
        arms: The names of the arms.
        baseline: The arm that the others are compared with.
        max_attempts: How many answers an arm may generate.
        failed: By row, question and draw, why its first answer could not be generated.
        stopped: Which limit ended it before all questions were through all arms; empty where none did.
        folder: Where it is kept; None where it is not.
    """

    rows: tuple[TrialRow, ...]
    arms: tuple[str, ...]
    baseline: str
    max_attempts: int
    failed: Mapping[tuple[int, int], str] = field(default_factory=dict)
    stopped: str = ""
    folder: Path | None = None

    def with_rows(self, rows: Iterable[TrialRow]) -> Self:
        """Return the same trial with other rows."""
        return replace(self, rows=tuple(rows))

    @cached_property
    def by_arm(self) -> dict[str, list[TrialRow]]:
        """The rows of each arm."""
        rows: dict[str, list[TrialRow]] = {name: [] for name in self.arms}
        for row in self.rows:
            rows[row.arm].append(row)
        return rows

    @property
    def has_truth(self) -> bool:
        """True if of any answer it is known whether it is good."""
        return any(row.has_truth for row in self.rows)

    @cached_property
    def unknown(self) -> int:
        """How many different answers nobody, or no truth, has called good or bad."""
        attempts = ((row.question, attempt) for row in self.rows for attempt in row.attempts)
        return len({(question, attempt.text) for question, attempt in attempts if attempt.good is None})

    @cached_property
    def effects(self) -> dict[str, ArmEffect]:
        """By arm, what it mended and broke, and how it differs from the baseline; empty without a truth."""
        if not self.has_truth:
            return {}
        from judges.offline.statistics.comparing import arm_effects  # noqa: PLC0415 - needs numpy and scipy

        rows = self.by_arm
        first = rows[FIRST]
        compared = [name for name in self.arms if name != FIRST or self.baseline == FIRST]
        effects = arm_effects(
            [row.good for row in first],
            {name: [row.good for row in rows[name]] for name in compared},
            baseline=self.baseline,
            clusters=[row.question for row in first],
        )
        if FIRST not in effects:
            alone = [row.good for row in first]
            effects = {**arm_effects(alone, {FIRST: alone}, baseline=FIRST), **effects}
        return effects

    @cached_property
    def summary(self) -> dict[str, ArmSummary]:
        """The figures of each arm."""
        return {name: self._summary(name, rows) for name, rows in self.by_arm.items()}

    def _summary(self, name: str, rows: Sequence[TrialRow]) -> ArmSummary:
        attempts = [attempt for row in rows for attempt in row.attempts]
        costs = [attempt.cost for attempt in attempts]
        return ArmSummary(
            name=name,
            effect=self.effects.get(name),
            generations=len(attempts),
            echoes=sum(attempt.kind == "echo" for attempt in attempts),
            repeats=sum(attempt.kind == "repeat" for attempt in attempts),
            accepted=sum(row.passed for row in rows),
            failed=sum(row.stop_reason in ("generator_failed", "judge_failed") for row in rows),
            calls=sum(attempt.calls for attempt in attempts),
            tokens=sum(attempt.input_tokens + attempt.output_tokens for attempt in attempts),
            cost=None if None in costs else sum(cost or 0.0 for cost in costs),
            seconds=sum(attempt.seconds for attempt in attempts) / max(1, len(rows)),
            curve=_curve(rows, self.max_attempts),
        )

    @cached_property
    def worst(self) -> list[_WorstQuestion]:
        """The questions that ended badly by the truth: the broken ones first, then those behind the baseline."""
        by_place: dict[tuple[int, int], dict[str, TrialRow]] = {}
        for row in self.rows:
            by_place.setdefault((row.question, row.draw), {})[row.arm] = row
        worst = [one for arms in by_place.values() for one in self._worst_of(arms)]
        return sorted(worst, key=lambda one: (_FATES.index(one.fate), -len(one.arms)))

    def _worst_of(self, arms: Mapping[str, TrialRow]) -> Iterator[_WorstQuestion]:
        """Yield what ended badly of one question, by what became of it."""
        first, fates = arms[FIRST], {name: self._fate(row, arms[self.baseline]) for name, row in arms.items()}
        for fate in _FATES:
            names = tuple(name for name, one in fates.items() if one == fate and name != FIRST)
            if names:
                yield _WorstQuestion(
                    fate=fate,
                    arms=names,
                    question=first.question,
                    draw=first.draw,
                    text=first.question_text,
                    first=first.released_text,
                    feedback=first.attempts[0].feedback,
                    released=arms[names[0]].released_text,
                )

    @staticmethod
    def _fate(row: TrialRow, baseline: TrialRow) -> _Fate | None:
        if row.good is not False or row.good_at_first is None:
            return None
        return "broken" if row.good_at_first else "behind" if baseline.good else "not mended"

    @property
    def headline(self) -> str:
        """One line about what was tried."""
        first = self.by_arm[FIRST]
        questions = len({row.question for row in first})
        draws = f" x {len(first) / questions:g} draws" if questions and len(first) != questions else ""
        return f"{questions} questions{draws}, at most {self.max_attempts} answers each, the first one shared"

    @property
    def table_columns(self) -> list[str]:
        """The headings of the table of arms."""
        return [*(_EFFECTS if self.has_truth else ("arm", "accepted")), *_COSTS]

    @property
    def table_rows(self) -> list[list[str]]:
        """The cells of the table, an arm each."""
        return [
            _cells(arm, is_baseline=name == self.baseline, has_truth=self.has_truth)
            for name, arm in self.summary.items()
        ]

    @property
    def remarks(self) -> list[str]:
        """Lines below the table: what another attempt brings, and what is missing."""
        lines = []
        for arm in self.summary.values():
            if arm.name != FIRST and arm.curve:
                shares = " -> ".join(f"{100 * share:.1f} %" for share in arm.curve)
                lines.append(f"{arm.name}: good within 1, 2, ... attempts: {shares}")
        if not self.has_truth:
            lines.append("No truth: accepted is only the opinion of the loop's own judge.")
        elif self.unknown:
            lines.append(
                f"Not known to be good or bad: {plural(self.unknown, 'answer')}; what needs one is left out."
            )
        if self.stopped:
            lines.append(f"Stopped: {self.stopped}")
        if self.failed:
            reasons = "; ".join(sorted(set(self.failed.values()))[:3])
            lines.append(f"{plural(len(self.failed), 'first answer')} could not be generated: {reasons}")
        return lines

    def document(self) -> dict[str, object]:
        """Return the figures as JSON values, without times."""
        return {
            "arms": {name: _figures(one) for name, one in self.summary.items()},
            "baseline": self.baseline,
            "max_attempts": self.max_attempts,
            "questions": len({row.question for row in self.rows}),
            "rows": len(self.by_arm[FIRST]),
            "failed": [[*place, reason] for place, reason in self.failed.items()],
            **({"stopped": self.stopped} if self.stopped else {}),
        }

    def write(self, folder: Path) -> None:
        """Write results and summary without times, and the times to a file of their own."""
        with replacing(folder / RESULTS) as file:
            for row in self.rows:
                text = row.model_dump_json(exclude={"attempts": {"__all__": {"seconds"}}})
                file.write(text.encode("utf-8", "backslashreplace") + b"\n")
        write_json(folder / SUMMARY, self.document())
        times = {name: [[a.seconds for a in row.attempts] for row in rows] for name, rows in self.by_arm.items()}
        write_json(folder / TIMING, times, indent=None)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a finished trial from its folder.

        Raises:
            ConfigurationError: If it has not finished, or was changed.
        """
        if not (folder / SUMMARY).is_file():
            raise ConfigurationError(f"{folder} has not finished; go on with `refine resume {folder}`")
        try:
            facts = json.loads((folder / SUMMARY).read_bytes())
            times = json.loads((folder / TIMING).read_bytes())
            with (folder / RESULTS).open("rb") as file:
                rows = [TrialRow.model_validate_json(line) for line in file]
            seconds = {name: iter(by_row) for name, by_row in times.items()}
            timed = tuple(_timed(row, next(seconds[row.arm])) for row in rows)
            return cls(
                rows=timed,
                arms=tuple(facts["arms"]),
                baseline=facts["baseline"],
                max_attempts=facts["max_attempts"],
                failed={(question, draw): reason for question, draw, reason in facts["failed"]},
                stopped=facts.get("stopped", ""),
                folder=folder,
            )
        except (OSError, ValueError, KeyError, StopIteration, ValidationError) as error:
            raise ConfigurationError(
                f"{folder} cannot be read ({type(error).__name__}); it was changed after the trial"
            ) from error

    def __str__(self) -> str:
        rows = [self.table_columns, *self.table_rows]
        return "\n".join([self.headline, *aligned_lines(rows), *self.remarks])


def _timed(row: TrialRow, seconds: Sequence[float]) -> TrialRow:
    pairs = zip(row.attempts, seconds, strict=True)
    return row.model_copy(update={"attempts": tuple(a.model_copy(update={"seconds": s}) for a, s in pairs)})


def _curve(rows: Sequence[TrialRow], max_attempts: int) -> tuple[float, ...]:
    curves = [shares for row in rows if None not in (shares := row.by_attempt)]
    return tuple(sum(bool(one[k]) for one in curves) / len(curves) for k in range(max_attempts)) if curves else ()


_COUNTED = ("generations", "echoes", "repeats", "accepted", "failed", "calls", "tokens", "cost")


def _figures(arm: ArmSummary) -> dict[str, object]:
    effect = arm.effect
    truth: dict[str, object] = {}
    if effect is not None:
        arm_estimate, beside = effect.own, effect.beside
        truth = {
            "n": arm_estimate.n,
            "good_at_first": arm_estimate.first_good,
            "good": arm_estimate.first_good - arm_estimate.broken + arm_estimate.mended,
            "mended": arm_estimate.mended,
            "broken": arm_estimate.broken,
            "net": None if beside is None else [beside.net.value, beside.net.low, beside.net.high],
            "p": effect.p,
            "adjusted_p": None if beside is None else beside.p,
            "effect": None if beside is None else beside.effect,
            "curve": list(arm.curve),
        }
    return {**truth, **{name: getattr(arm, name) for name in _COUNTED}}


_EFFECTS = ("arm", "good", "mended", "broken", "net points (95 %)", "p", "p Holm")
_COSTS = ("answers", "echoes", "repeats", "failed", "tokens", "cost", "s each")


def _cells(arm: ArmSummary, *, is_baseline: bool, has_truth: bool) -> list[str]:
    costs = [
        str(arm.generations),
        str(arm.echoes),
        str(arm.repeats),
        str(arm.failed),
        str(arm.tokens),
        "unknown" if arm.cost is None else f"${arm.cost:.4f}",
        f"{arm.seconds:.1f}",
    ]
    if arm.effect is None or not arm.effect.own.n:
        return [arm.name, *([str(arm.accepted)] if not has_truth else ["-"] * (len(_EFFECTS) - 1)), *costs]
    own = arm.effect.own
    share = f"{own.first_good - own.broken + own.mended}/{own.n} {100 * (own.good_after or 0):.1f} %"
    beside = ["baseline" if is_baseline else "", "", ""]
    if arm.effect.beside is not None and arm.effect.p is not None:
        net = arm.effect.beside.net
        ends = "" if net.low is None else f" ({_points(net.low)} to {_points(net.high)})"
        beside = [f"{_points(net.value)}{ends}", f"{arm.effect.p:.3g}", f"{arm.effect.beside.p:.3g}"]
    return [arm.name, share, str(own.mended), str(own.broken), *beside, *costs]


def _points(share: float | None) -> str:
    return "" if share is None else f"{100 * share:+.1f}"


ANSWERS = "answers.jsonl"
"""Every different answer of a trial once, to be labelled: `refine label TRIAL/answers.jsonl`."""

_Marks = Mapping[tuple[str, str], bool | None]
"""By question and answer, whether people call it good."""


def read_trial(folder: Path, labels: Path | None = None) -> Trial:
    """Read a finished trial, with what people say of its answers where no judge was the truth.

    Args:
        folder: Its folder.
        labels: The file of labels; None takes what `refine label` left in the folder.

    Raises:
        ConfigurationError: If it has not finished, or a file cannot be read.
    """
    result, answers = Trial.read(folder), folder / ANSWERS
    file = labels or labels_beside(answers)
    if result.has_truth or file is None or not answers.is_file():
        return result
    opinions: defaultdict[str, list[Opinion]] = defaultdict(list)
    for row in read_labels(file):
        opinions[row.key] += row.opinions
    marks = {
        (row.question_id, (row.sample and row.sample.answer) or ""): good_by_people(
            merge_opinions(opinions[row.key])
        )
        for row in read_judged(answers)
    }
    return result.with_rows(_labelled(row, marks) for row in result.rows)


def _labelled(row: TrialRow, marks: _Marks) -> TrialRow:
    question = str(row.question)

    def marked(attempt: TrialAttempt) -> TrialAttempt:
        return attempt.model_copy(update={"good": marks.get((question, attempt.text))})

    answer_good = None if row.answer is None else marks.get((question, row.answer))
    attempts = tuple(map(marked, row.attempts))
    return row.model_copy(update={"attempts": attempts, "answer_good": answer_good})
