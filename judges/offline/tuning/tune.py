"""`tune`: change what a judge is asked until it says what people say, and report that on held-out labels alone.

The labels are parted by question. On the tuning part every way to change the judge is tried cross-fitted: what is
tried on a case never rests on that case. Ways that do worse are dropped half-way (successive halving, Jamieson and
Talwalkar 2016). Only the best is compared with the judge as it was, on cases that no prompt has seen, by the exact
sign test over questions; where that does not find it better, the answer is "no gain".
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from judges.errors import AskFailed, ConfigurationError
from judges.fingerprint import fingerprint
from judges.judge import Judge
from judges.models.resolve import as_model
from judges.offline.dataset.reading import LABEL_NAMES
from judges.offline.run.evaluate import evaluate
from judges.offline.statistics import cohen_kappa, loop_benefit
from judges.offline.trust.calibration import LabelledRows, read_labelled
from judges.offline.trust.report_text import people_of
from judges.offline.trust.rows import JudgedAnswer, RowSource, is_tuned, label_digests, lower_median, majority
from judges.offline.trust.spending import LabelUses
from judges.offline.tuning.changes import (
    JournaledCalls,
    JudgeChange,
    LabelledCase,
    TunableJudge,
    judge_spec,
    rated_phrase,
    words_in,
)
from judges.prompting.prompts import Example
from judges.prompting.translation import toml_table
from judges.verdict import HIGHEST, Verdict

_FEWEST = 20
"""Labelled answers below which nothing is tuned."""

_LEAST_BUDGET = 50
_SHARE = 6
"""One part in so many of the budget is spent on judging the held-out cases once; as much on the tuning cases."""

_PHRASE = 20
_BATCH = 12
_EXAMPLES = 6
_FINAL_ASKS = 2
_HELD_OUT, _TUNE, _CERTIFY = "report", "tune", "certify"

_WAYS: tuple[str, ...] = ("guidelines", "guidelines and examples", "examples", "wording", "wording and examples")
"""Ways to change a judge, those that help most first; as many are tried as the budget has calls for."""

_ASKS = {"guidelines": 1, "guidelines and examples": 0, "examples": 0, "wording": 1, "wording and examples": 0}
"""Questions to the model for each way and fold, beyond those of the ways before it."""


@dataclass(frozen=True, kw_only=True)
class TriedWay:
    """What a way to change the judge made of the tuning cases, cross-fitted.

    Args:
        way: The way.
        right: Cases on which it says what people say.
        cases: Cases that it judged: all, or half where it was dropped.
    """

    way: str
    right: int
    cases: int

    def rank(self) -> tuple[int, bool]:
        """Return what makes it better than another: cases, then that it changes one thing."""
        return self.right, " and " not in self.way

    def __str__(self) -> str:
        return f"{self.way}: {self.right} of {self.cases}"


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """The judge before and after, on held-out cases.

    Args:
        cases: How many there are.
        questions: Of how many questions.
        before: Cases on which the judge as it was says what people say.
        after: The same of the tuned judge; None where nothing was tuned.
        kappa_before: Cohen's kappa of the judge as it was with people, of good and bad.
        kappa_after: The same of the tuned judge.
        gain: Share of cases by which it agrees more, with its 95 % interval.
        p: Of the exact two-sided sign test over questions.
        contested: Cases on which people differ among themselves.
        contested_before: Those on which the judge as it was agrees with most of them.
        contested_after: The same of the tuned judge.
    """

    cases: int
    questions: int
    before: int
    after: int | None = None
    kappa_before: float | None = None
    kappa_after: float | None = None
    gain: tuple[float, float, float] | None = None
    p: float | None = None
    contested: int = 0
    contested_before: int = 0
    contested_after: int | None = None


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """What came of tuning a judge; `str()` says it in a few lines.

    Args:
        judge: The judge.
        improved: Whether the tuned judge is better on held-out cases by more than chance.
        chosen: How it was changed; empty where nothing was better on the tuning cases.
        tried: The ways that were tried, on the tuning cases.
        held_out: The comparison that decides.
        tuning_cases: Cases it was tuned on.
        left_out: Labelled answers that were not used, by reason.
        people: Agreement of people among themselves, as kappa; None where no answer has two labels.
        contested: Answers on which people differ.
        calls: Model calls that count.
        budget: Most calls.
        fingerprints: Of the judge before and after.
        labels_digest: Digest of the labels that it was tuned on.
        seed: Seed of the parts.
        file: The file of the tuned judge; None without a gain.
        notes: What a reader must know besides.
    """

    judge: str
    improved: bool
    chosen: str
    tried: tuple[TriedWay, ...]
    held_out: HeldOut
    tuning_cases: int
    left_out: Mapping[str, int]
    people: float | None
    contested: int
    calls: int
    budget: int
    fingerprints: tuple[str, str]
    labels_digest: str
    seed: int
    file: str | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        held = self.held_out
        yield f"{self.judge}: {'improved' if self.improved else 'no gain'}"
        if held.after is None or held.gain is None:
            people = f"agrees with people on {held.before} of {held.cases} answers"
            yield f"held out: {people}{_kappa(held.kappa_before)}"
        else:
            yield (
                f"held out, {held.cases} answers to {held.questions} questions: agrees with people on "
                f"{held.before} before{_kappa(held.kappa_before)}, {held.after} after{_kappa(held.kappa_after)}"
            )
            gain, low, high = (100 * part for part in held.gain)
            yield f"gain: {gain:+.0f} points ({low:+.0f} to {high:+.0f}), p {held.p:.3f}"
        yield f"tuned on {self.tuning_cases} other answers, cross-fitted: {'; '.join(map(str, self.tried))}"
        if self.chosen:
            yield f"changed: {self.chosen}"
        if self.contested:
            ceiling = "" if self.people is None else f"; among themselves they agree with kappa {self.people:.2f}"
            after = "" if held.contested_after is None else f", {held.contested_after} after"
            yield (
                f"people differ on {self.contested} answers{ceiling}; of the {held.contested} held out the judge "
                f"sides with most on {held.contested_before}{after}"
            )
        for reason, count in self.left_out.items():
            yield f"left out: {count} answers, {reason}"
        yield f"calls: {self.calls} of {self.budget}"
        yield from self.notes

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return data


def _kappa(kappa: float | None) -> str:
    return "" if kappa is None else f" (kappa {kappa:.2f})"


def tune(
    labelled: RowSource,
    judge: str,
    model: object = None,
    *,
    labels: RowSource | None = None,
    budget: int = 200,
    out: str | os.PathLike[str] = "tuned",
    good: float = 3,
    seed: int = 0,
    model_name: str | None = None,
    ledger: str | os.PathLike[str] | None = None,
    max_concurrency: int = 8,
    on_step: Callable[[str], object] | None = None,
) -> Tuning:
    """Tune a judge by what people say of answers, and say whether it became better on labels that it has not seen.

    The folder gets `report.json`, `labels.jsonl`, in which each label has the split that it was used for, and,
    where there is a gain, `judges.toml` with the tuned judge and `prompts/` with its prompts. A call that was paid
    for is kept there, too: the same call of this function goes on where a crash stopped it.

    Args:
        labelled: Answers with labels: a file, the folder of a run, recorded attempts or rows. Labels of the split
            `tune` are tuned on, those of `report` held out, those of `certify` left alone; the others are parted,
            and so are those of `tune` where there are no others.
        judge: The judge by name, with settings, or a table of a file: `"tone:tone=kind"`, `"judges.toml:desk"`.
        model: The model that it asks; None takes the one that its settings name.
        labels: Labels, where they are not in the rows.
        budget: Most model calls.
        out: The folder.
        good: Least rating of people that is good.
        seed: Seed of the parts.
        model_name: What `judges.toml` says of the model; None takes its name where it was given by name.
        ledger: File in which the use of labels is written down; by default beside the file that holds the labels.
        max_concurrency: Calls at once.
        on_step: Called with a line for each step.

    Raises:
        ConfigurationError: If labels, judge or budget cannot be used; in one line.
    """
    if type(budget) is not int or budget < _LEAST_BUDGET:
        raise ConfigurationError(f"budget is a whole number of model calls from {_LEAST_BUDGET}, not {budget!r}")
    name, spec, own_model = judge_spec(judge)
    judge_model = as_model(own_model if model is None else model)
    read = read_labelled(labelled, labels)
    parts = _Parts.of(read, good=good, most=budget // _SHARE, seed=seed)
    digest = _digest([sorted(parts.digests), good])
    purpose = _digest(
        [name, spec.text, judge_model.name, digest, [row.key for row in parts.held_rows], budget, seed]
    )
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    calls = JournaledCalls(folder / "journal.jsonl", budget, purpose=purpose)
    uses = LabelUses.of(None if ledger is None else Path(ledger), read.files)
    if uses is not None:
        uses.enter_tuned(parts.digests, purpose)
    search = _Search(TunableJudge(judge, calls.around(judge_model)), parts, calls, max_concurrency, on_step or str)
    tuning = search.run()
    named = model_name or (model if isinstance(model, str) else own_model if model is None else None)
    return _write(folder, replace(tuning, budget=budget, seed=seed, labels_digest=digest), search, parts, named)


@dataclass(frozen=True, kw_only=True)
class _Parts:
    """The labelled answers, parted by question.

    Args:
        tuning: Cases to tune on.
        held: Cases to compare on.
        tuning_rows: The rows of the first.
        held_rows: The rows of the second.
        others: Labelled rows of neither.
        left_out: How many answers are of neither, by reason.
        people: Kappa of people among themselves.
        digests: Digests of the labels of the tuning cases.
    """

    tuning: tuple[LabelledCase, ...]
    held: tuple[LabelledCase, ...]
    tuning_rows: tuple[JudgedAnswer, ...]
    held_rows: tuple[JudgedAnswer, ...]
    others: tuple[JudgedAnswer, ...]
    left_out: Mapping[str, int]
    people: float | None
    digests: frozenset[str]

    @classmethod
    def of(cls, read: LabelledRows, *, good: float, most: int, seed: int) -> _Parts:
        """Part rows with labels.

        Args:
            read: The rows.
            good: Least rating that is good.
            most: Most cases of a part.
            seed: Seed of the draw.

        Raises:
            ConfigurationError: If there are too few of them, or none of good or bad.
        """
        unique = list(
            {row.key: row for row in read.rows if row.opinions and row.sample and row.sample.answer}.values()
        )
        kept = [row for row in unique if not any(one.split == _CERTIFY for one in row.opinions)]
        decided = [row for row in kept if majority(row.opinions, good) is not None]
        if len(decided) < _FEWEST:
            raise ConfigurationError(
                f"tuning needs labels of {_FEWEST} answers at least, of which half are held out; there are "
                f"{len(decided)}; label more, `refine label FILE --split tune`"
            )
        if len({majority(row.opinions, good) for row in decided}) == 1:
            raise ConfigurationError("people call all of these answers the same, so there is nothing to learn")
        ordered = sorted(decided, key=lambda row: _digest([seed, row.question_id, row.key]))
        tuning, held = _parted(ordered, good, seed)
        tuning, rest = tuning[:most], [*tuning[most:], *held[most:]]
        held = held[:most]
        if not tuning or not held:
            raise ConfigurationError("all labels are of one split; leave some without, or label others")
        answers = {row.sample.answer for row in held if row.sample and row.sample.answer}
        counts = {
            "their labels are kept for a certificate (split certify)": len(unique) - len(kept),
            "as many people say good as bad": len(kept) - len(decided),
            "more than the budget has calls for": len(rest),
        }
        people = people_of(decided, [None] * len(decided), good=good, ratings=False)
        return cls(
            tuning=tuple(_folded([_case(row, good, answers) for row in tuning])),
            held=tuple(_case(row, good, frozenset()) for row in held),
            tuning_rows=tuple(tuning),
            held_rows=tuple(held),
            others=tuple(rest),
            left_out={reason: count for reason, count in counts.items() if count},
            people=None if people is None else people.ceiling,
            digests=frozenset(label_digests([_without_split(row) for row in tuning], None)),
        )

    @property
    def contested(self) -> int:
        """Cases on which people differ."""
        return sum(case.contested for case in (*self.tuning, *self.held))


def _parted(rows: Sequence[JudgedAnswer], good: float, seed: int) -> tuple[list[JudgedAnswer], list[JudgedAnswer]]:
    """Return the rows to tune on and those held out: by their labels' split, else every second question."""
    by_question: dict[str, list[JudgedAnswer]] = {}
    for row in rows:
        by_question.setdefault(row.question_id, []).append(row)
    own: dict[str, list[list[JudgedAnswer]]] = {_TUNE: [], _HELD_OUT: [], "": []}
    for group in by_question.values():
        splits = {one.split for row in group for one in row.opinions}
        own[_TUNE if any(map(is_tuned, splits)) else _HELD_OUT if _HELD_OUT in splits else ""].append(group)
    if not own[_HELD_OUT] and not own[""]:  # people labelled for tuning alone: half of that is held out
        own[_TUNE], own[""] = [], own[_TUNE]
    tuning, held = ([row for group in own[split] for row in group] for split in (_TUNE, _HELD_OUT))
    free = own[""]
    free.sort(key=lambda group: (majority(group[0].opinions, good) is True, _digest([seed, group[0].question_id])))
    for place, group in enumerate(free):
        (tuning if place % 2 else held).extend(group)
    places = {row.key: _digest([seed, row.key]) for row in rows}
    return sorted(tuning, key=lambda row: places[row.key]), sorted(held, key=lambda row: places[row.key])


def _case(row: JudgedAnswer, good: float, held_answers: Collection[str]) -> LabelledCase:
    assert row.sample is not None  # noqa: S101 - rows without were left out
    return LabelledCase(
        key=row.key,
        question=row.question_id,
        sample=row.sample,
        good=majority(row.opinions, good) is True,
        rating=lower_median(row.opinions) or 0.0,
        contested=len({one.is_good(good) for one in row.opinions}) > 1,
        note=_note_of(row),
        shown=not _holds(row.sample.answer or "", held_answers),
    )


def _holds(answer: str, others: Collection[str]) -> bool:
    """Return whether an answer is one of others, or holds one that is long enough to be no phrase."""
    return answer in others or any(len(other) > _PHRASE and other in answer for other in others)


def _note_of(row: JudgedAnswer) -> str:
    """Return the first note that a person wrote beside a label."""
    labels = next((row.metadata[name] for name in LABEL_NAMES if row.metadata.get(name) is not None), ())
    listed = labels if isinstance(labels, list | tuple) else [labels]
    notes = (str(one.get("note") or "") for one in listed if isinstance(one, Mapping))
    return next(filter(None, notes), "")


def _folded(cases: Sequence[LabelledCase]) -> Iterator[LabelledCase]:
    """Yield cases with their folds: three of a small set, else two; a question is in one."""
    folds = 3 if len(cases) < 30 else 2  # noqa: PLR2004 - below, two thirds are little enough to learn from
    order: dict[str, int] = {}
    for case in cases:
        yield replace(case, fold=order.setdefault(case.question, len(order)) % folds)


def _without_split(row: JudgedAnswer) -> JudgedAnswer:
    return replace(row, opinions=tuple(replace(one, split=None) for one in row.opinions))


def _digest(parts: object) -> str:
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]


class _Search:
    """The search for a change of a judge, within its calls."""

    def __init__(
        self,
        judge: TunableJudge,
        parts: _Parts,
        calls: JournaledCalls,
        max_concurrency: int,
        on_step: Callable[[str], object],
    ) -> None:
        self.judge, self.parts, self.calls = judge, parts, calls
        self._concurrency, self._say = max_concurrency, on_step
        self.language = judge.language_of(case.sample for case in (*parts.tuning, *parts.held))
        self.change = JudgeChange()
        self._cases: tuple[LabelledCase, ...] = parts.tuning
        self._notes: list[str] = []

    def run(self) -> Tuning:
        """Return what came of it."""
        held = len(self.parts.held)
        with self.calls.keeping(2 * held):
            verdicts = self._verdicts(self.judge.judge, self._cases)
            self._cases = tuple(
                replace(case, verdict=verdict) for case, verdict in zip(self._cases, verdicts, strict=True)
            )
            self._say(f"the judge as it is: {_right(self._cases, verdicts)} of {len(verdicts)}")
            self._notes += self._notes_on(verdicts)
            with self.calls.keeping(_FINAL_ASKS):
                tried, chosen, mark = self._choose()
            change = self._built(chosen, self._cases) if chosen else JudgeChange()
        self.change = replace(change, mark=mark) if change is not None else JudgeChange()
        self._say(f"chosen: {_told(chosen, mark) or 'nothing'}")
        before = self._verdicts(self.judge.judge, self.parts.held)
        tuned = self.judge.changed(self.change, self.language) if self.change != JudgeChange() else None
        after = None if tuned is None else self._verdicts(tuned, self.parts.held)
        compared = _compare(self.parts.held, before, after)
        improved = bool(compared.p is not None and compared.p <= 0.05 and compared.after > compared.before)  # type: ignore[operator]  # noqa: PLR2004
        own = fingerprint(self.judge.judge)
        return Tuning(
            judge=self.judge.name,
            improved=improved,
            chosen=_told(chosen, mark),
            tried=tuple(tried),
            held_out=compared,
            tuning_cases=len(self._cases),
            left_out=self.parts.left_out,
            people=self.parts.people,
            contested=self.parts.contested,
            calls=self.calls.counted,
            budget=0,
            fingerprints=(own, fingerprint(tuned) if improved and tuned is not None else own),
            labels_digest="",
            seed=0,
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def _notes_on(self, verdicts: Sequence[Verdict | None]) -> Iterator[str]:
        """Yield what a reader must know of the judge and the cases."""
        unscored = [verdict.unscored for verdict in verdicts if verdict is not None and verdict.unscored]
        if unscored:
            reasons = ", ".join(sorted({str(reason) for reason in unscored}))
            yield f"the judge has no verdict on {len(unscored)} of {len(verdicts)} tuning cases: {reasons}"
        others = {self.judge.judge.language_for(case.sample) for case in self._cases} - {self.language}
        if others:
            yield f"what is changed are the prompts in {self.language}; the tuned judge has no others"

    def _choose(self) -> tuple[list[TriedWay], str, float | None]:
        """Return the ways tried on the tuning cases, the best, and the mark at which it passes.

        Both are empty where nothing is better than the judge as it is.
        """
        own = {case.key: case.verdict for case in self._cases}
        results = {"as it is": own, **self._raced()}
        tried = [_tried(way, self._cases, verdicts) for way, verdicts in results.items()]
        complete = [one for one in tried if one.cases == len(self._cases)]
        best = max(complete, key=TriedWay.rank)
        mark, right = self._mark_for(results[best.way])
        if mark is not None:
            tried.append(TriedWay(way=_told(best.way, mark), right=right, cases=len(self._cases)))
        return tried, "" if best.way == "as it is" else best.way, mark

    def _raced(self) -> dict[str, dict[str, Verdict | None]]:
        """Return the verdicts of the ways by case; those that do worse on the first half judge no more."""
        if all(case.agrees(case.verdict) for case in self._cases):
            self._notes.append("the judge says what people say on every tuning case: nothing can be learned")
            return {}
        alive = self._affordable()
        results: dict[str, dict[str, Verdict | None]] = {way: {} for way in alive}
        for half in (self._cases[::2], self._cases[1::2]):
            for way in alive:
                results[way].update(self._cross_fitted(way, half))
                self._say(str(_tried(way, self._cases, results[way])))
            ranked = sorted(alive, key=lambda way: _tried(way, self._cases, results[way]).rank(), reverse=True)
            alive = ranked[: max(1, len(ranked) // 2)]
        return {way: verdicts for way, verdicts in results.items() if verdicts}

    def _affordable(self) -> list[str]:
        """Return the ways for which the budget has calls."""
        folds = len({case.fold for case in self._cases})
        left = self.calls.limit - self.calls.counted
        chosen: list[str] = []
        for way in _WAYS:
            if not self.judge.takes_examples and "examples" in way:
                continue
            several = [*chosen, way]
            halves = len(several) * math.ceil(len(self._cases) / 2) + max(1, len(several) // 2) * (
                len(self._cases) // 2
            )
            if sum(_ASKS[one] for one in several) * folds + halves > left:
                self._notes.append(f"the budget has no calls for: {', '.join(_WAYS[_WAYS.index(way) :])}")
                break
            chosen.append(way)
        return chosen

    def _cross_fitted(self, way: str, cases: Sequence[LabelledCase]) -> dict[str, Verdict | None]:
        """Return the verdicts on cases, each of a judge that was changed by the cases of other folds."""
        verdicts: dict[str, Verdict | None] = {}
        for fold in sorted({case.fold for case in cases}):
            judged = [case for case in cases if case.fold == fold]
            change = self._built(way, [case for case in self._cases if case.fold != fold])
            if change is None or change == JudgeChange():
                verdicts.update({case.key: case.verdict if change else None for case in judged})
                continue
            judge = self.judge.changed(change, self.language)
            verdicts.update(zip((case.key for case in judged), self._verdicts(judge, judged), strict=True))
        return verdicts

    def _built(self, way: str, cases: Sequence[LabelledCase]) -> JudgeChange | None:
        """Return the change that a way makes of cases; None where the model gives nothing that can be used."""
        shown = [case for case in cases if case.shown]
        change = JudgeChange()
        try:
            if "guidelines" in way:
                change = replace(change, guidelines=self.judge.ask_guidelines(_batch(shown), self.language))
            if "wording" in way:
                change = replace(change, task=self.judge.ask_wording(_batch(shown), self.language))
        except AskFailed as failure:
            self._notes.append(f"{way}: the model gave nothing that can be used ({failure.reason})")
            return None
        if "examples" in way:
            change = replace(change, examples=self._examples(shown))
        return change

    def _examples(self, cases: Sequence[LabelledCase]) -> tuple[Example, ...]:
        """Return examples: as many good as bad, unlike each other, two that the judge gets wrong for one other."""
        chosen: list[Example] = []
        sides = [_contrasted(_diverse([case for case in cases if case.good is good])) for good in (False, True)]
        for pair in zip(*sides, strict=False):
            for case in pair:
                example = self.judge.example_of(case, rated_phrase(self.language))
                chosen += [] if example is None else [example]
        return tuple(chosen[:_EXAMPLES])

    def _mark_for(self, verdicts: Mapping[str, Verdict | None]) -> tuple[float | None, int]:
        """Return another mark, where cross-fitted it is right on two cases more at least, and on how many."""
        setting = self.judge.mark_setting
        if setting is None:
            return None, 0
        values = {key: _value(verdict, setting) for key, verdict in verdicts.items()}
        marks = _marks(values.values())

        own = sum(case.agrees(verdicts[case.key]) for case in self._cases)
        crossed = 0
        for fold in {case.fold for case in self._cases}:
            others = [case for case in self._cases if case.fold != fold]
            best = max(marks, key=partial(_right_from, cases=others, values=values))
            crossed += _right_from(best, [case for case in self._cases if case.fold == fold], values)
        if crossed < own + 2:
            return None, 0
        return max(marks, key=partial(_right_from, cases=self._cases, values=values)), crossed

    def _verdicts(self, judge: Judge, cases: Sequence[LabelledCase]) -> list[Verdict | None]:
        rows = evaluate([case.sample for case in cases], {"judge": judge}, max_concurrency=self._concurrency).rows
        return [row.verdicts["judge"] for row in rows]


def _right(cases: Sequence[LabelledCase], verdicts: Sequence[Verdict | None]) -> int:
    return sum(case.agrees(verdict) for case, verdict in zip(cases, verdicts, strict=True))


def _right_from(mark: float, cases: Iterable[LabelledCase], values: Mapping[str, float | None]) -> int:
    """Return on how many cases the judge would be right if it passed from a mark."""
    known = ((case, values[case.key]) for case in cases)
    return sum(value is not None and (value >= mark) is case.good for case, value in known)


def _tried(way: str, cases: Sequence[LabelledCase], verdicts: Mapping[str, Verdict | None]) -> TriedWay:
    judged = [case for case in cases if case.key in verdicts]
    return TriedWay(way=way, right=sum(case.agrees(verdicts[case.key]) for case in judged), cases=len(judged))


def _told(way: str, mark: float | None) -> str:
    way = "" if way == "as it is" else way
    return way if mark is None else f"{way}{', ' if way else ''}passes from {mark:g}"


def _value(verdict: Verdict | None, setting: str) -> float | None:
    """Return what a mark is compared with."""
    if verdict is None or verdict.score is None:
        return None
    return float(verdict.value) if setting == "success_rating" and verdict.value is not None else verdict.score


def _marks(values: Iterable[float | None]) -> list[float]:
    """Return the marks that tell some of the values apart."""
    distinct = sorted({value for value in values if value is not None})
    return distinct[1:] or distinct or [1.0]


def _batch(cases: Sequence[LabelledCase]) -> list[LabelledCase]:
    """Return the cases to learn from: what the judge gets wrong, then others for contrast, of good and bad."""
    wrong = _diverse([case for case in cases if not case.agrees(case.verdict)])[: _BATCH - 4]
    others = [case for case in cases if case.agrees(case.verdict)]
    sides = ([case for case in others if case.good], [case for case in others if not case.good])
    return [*wrong, *(case for side in sides for case in _diverse(side)[: (_BATCH - len(wrong)) // 2])]


def _contrasted(cases: Sequence[LabelledCase]) -> list[LabelledCase]:
    """Return cases so that one that the judge gets right follows two that it gets wrong.

    Errors alone would teach the opposite of what misled the judge, instead of what people go by.
    """
    wrong = [case for case in cases if not case.agrees(case.verdict)]
    right = [case for case in cases if case.agrees(case.verdict)]
    return [*wrong[:2], *right[:1], *wrong[2:], *right[1:]]


def _diverse(cases: Sequence[LabelledCase]) -> list[LabelledCase]:
    """Return cases in an order in which each is unlike those before it, those that the judge gets wrong first."""
    ordered: list[LabelledCase] = []
    words = {case.key: words_in(case.sample) for case in cases}
    for group in ([case for case in cases if not case.agrees(case.verdict)],
                  [case for case in cases if case.agrees(case.verdict)]):  # fmt: skip
        left = list(group)
        while left:
            farthest = min(left, key=lambda case: max((_alike(words[case.key], words[one.key]) for one in ordered),
                                                      default=0.0))  # fmt: skip
            ordered.append(farthest)
            left.remove(farthest)
    return ordered


def _alike(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / (len(first | second) or 1)


def _compare(
    cases: Sequence[LabelledCase], before: Sequence[Verdict | None], after: Sequence[Verdict | None] | None
) -> HeldOut:
    """Return the judge before and after on held-out cases."""
    was = [case.agrees(verdict) for case, verdict in zip(cases, before, strict=True)]
    contested = [case.contested for case in cases]
    result = HeldOut(
        cases=len(cases),
        questions=len({case.question for case in cases}),
        before=sum(was),
        kappa_before=_kappa_of(cases, before),
        contested=sum(contested),
        contested_before=sum(right for right, is_one in zip(was, contested, strict=True) if is_one),
    )
    if after is None:
        return result
    now = [case.agrees(verdict) for case, verdict in zip(cases, after, strict=True)]
    paired = loop_benefit(was, now, clusters=[case.question for case in cases])
    net = paired.net
    return replace(
        result,
        after=sum(now),
        kappa_after=_kappa_of(cases, after),
        gain=(net.value or 0.0, *(-1.0 if net.low is None else net.low, 1.0 if net.high is None else net.high)),
        p=paired.p,
        contested_after=sum(right for right, is_one in zip(now, contested, strict=True) if is_one),
    )


def _kappa_of(cases: Sequence[LabelledCase], verdicts: Sequence[Verdict | None]) -> float | None:
    """Return kappa of good and bad; what is not scored counts as the opposite of what people say."""
    people = [float(case.good) for case in cases]
    judged = [float(case.good is case.agrees(verdict)) for case, verdict in zip(cases, verdicts, strict=True)]
    return cohen_kappa(people, judged, levels=(0.0, 1.0))


def _write(folder: Path, tuning: Tuning, search: _Search, parts: _Parts, model: str | None) -> Tuning:
    """Write report, labels and, where there is a gain, the judge."""
    if tuning.improved:
        search.judge.write_prompts(folder / "prompts", search.change, search.language)
        settings = search.judge.settings_with(search.change, search.language, "prompts")
        use = {} if search.judge.spec.name == tuning.judge else {"use": search.judge.spec.name}
        table = toml_table(f"judges.{json.dumps(tuning.judge, ensure_ascii=False)}", {**use, **settings})
        asks = "" if model is None else f"model = {json.dumps(model, ensure_ascii=False)}\n\n"
        text = f"{_provenance(tuning)}\n{asks}{table}\n"
        (folder / "judges.toml").write_text(text, encoding="utf-8", newline="\n")
        tuning = replace(tuning, file="judges.toml")
    report = json.dumps(tuning.to_dict(), ensure_ascii=False, indent=2, sort_keys=True)
    (folder / "report.json").write_text(f"{report}\n", encoding="utf-8", newline="\n")
    splits = ((_TUNE, parts.tuning_rows), (_HELD_OUT, parts.held_rows), (_CERTIFY, parts.others))
    lines = [json.dumps(line, ensure_ascii=False) for split, rows in splits for line in _label_lines(split, rows)]
    (folder / "labels.jsonl").write_text("\n".join([*lines, ""]), encoding="utf-8", newline="\n")
    return tuning


def _provenance(tuning: Tuning) -> str:
    """Return where a tuned judge comes from, as comments."""
    held = tuning.held_out
    lines = (
        f"Tuned from the judge with fingerprint {tuning.fingerprints[0]}; its own is {tuning.fingerprints[1]}.",
        f"Changed: {tuning.chosen}. Tuned on {tuning.tuning_cases} answers, labels {tuning.labels_digest}.",
        f"Held out, {held.cases} answers: agrees with people on {held.before} before, {held.after} after.",
        "A certificate needs other labels than those that it was tuned on; labels.jsonl says which these are.",
    )
    return "\n".join(f"# {line}" for line in lines)


def _label_lines(split: str, rows: Sequence[JudgedAnswer]) -> Iterator[dict[str, Any]]:
    for row in rows:
        assert row.sample is not None  # noqa: S101 - rows without were left out
        labels = [
            {"by": one.by, **({"rating": one.rating} if one.is_rating else {"up": one.rating == HIGHEST})}
            for one in row.opinions
        ]
        texts = row.sample.model_dump(mode="json", include={"user_input", "response"})
        outcome = {} if row.outcome_id is None else {"outcome_id": row.outcome_id, "attempt": row.attempt}
        yield {**outcome, **texts, "split": split, "labels": labels}
