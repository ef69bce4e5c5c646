"""`tune`: change what a judge is asked until it says what people say, and report that on held-out labels alone.

The labels are parted by question. On the tuning part every way to change the judge is tried cross-fitted: what is
tried on a case never rests on that case. Ways that do worse are dropped half-way (successive halving, Jamieson and
Talwalkar 2016). Only the best is compared with the judge as it was, on cases that no prompt has seen, by the exact
sign test over questions; where that does not find it better, the answer is "no gain".
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from judges.catalogue.names import JudgeSpec
from judges.errors import AskFailed, ConfigurationError
from judges.fingerprint import fingerprint
from judges.judge import Judge
from judges.models.providers.minilm_and_hhem import alike, finest_likeness, traits_of
from judges.models.resolve import as_model
from judges.offline.run.evaluate import evaluate
from judges.offline.statistics import cohen_kappa, loop_benefit
from judges.offline.trust.loops import read_labelled
from judges.offline.trust.rows import JudgedAnswer, RowSource
from judges.offline.trust.spending import LabelUses, LedgerSource
from judges.offline.tuning import changes
from judges.offline.tuning.cases import (
    CERTIFY,
    HELD_OUT,
    TUNE,
    LabelledCase,
    LabelParts,
    digest_of,
)
from judges.prompting.prompts import Example
from judges.prompting.translation import toml_table
from judges.verdict import HIGHEST, Verdict

_LEAST_BUDGET = 50
_SHARE = 6
"""One part in so many of the budget is spent on judging the held-out cases once; as much on the tuning cases."""

_EXAMPLES = 6
_CASES = 24
"""Examples to choose the nearest from, for each question."""

_FINAL_ASKS = 2

_ASKS = {
    "guidelines": 1,
    "guidelines and examples": 0,
    "examples": 0,
    "wording": 1,
    "wording and examples": 0,
    "nearest examples": 0,
    "guidelines of two batches": 1,
}
"""Ways to change a judge, those that help most first, with the questions to the model for each fold, beyond those
of the ways before it; as many ways are tried as the budget has calls for."""


@dataclass(frozen=True, kw_only=True)
class _TriedWay:
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
class _HeldOut:
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
    tried: tuple[_TriedWay, ...]
    held_out: _HeldOut
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
    ledger: LedgerSource | None = None,
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
        ledger: See `certify`.
        max_concurrency: Calls at once.
        on_step: Called with a line for each step.

    Raises:
        ConfigurationError: If labels, judge or budget cannot be used; in one line.
    """
    if type(budget) is not int or budget < _LEAST_BUDGET:
        raise ConfigurationError(f"budget is a whole number of model calls from {_LEAST_BUDGET}, not {budget!r}")
    name, spec, own_model = changes.judge_spec(judge)
    judge_model = as_model(own_model if model is None else model)
    read = read_labelled(labelled, labels)
    first, each = _calls_of(spec)
    parts = LabelParts.of(read, good=good, most=budget // (_SHARE * each + 2 * first), seed=seed)
    digest = digest_of([sorted(parts.digests), good])
    purpose = digest_of(
        [
            *(name, spec.text, judge_model.name, digest, [row.key for row in parts.held_rows], budget, seed),
            finest_likeness(),  # other examples would be asked about, and the journal be of no use
        ]
    )
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    calls = changes.JournaledCalls(folder / "journal.jsonl", budget, purpose=purpose)
    uses = LabelUses.of(ledger, read.files)
    if uses is not None:
        uses.enter_tuned(parts.digests, purpose)
    search = _Search(
        changes.TunableJudge(judge, calls.around(judge_model)), parts, calls, max_concurrency, on_step or str
    )
    tuning = search.run()
    named = model_name or (model if isinstance(model, str) else own_model if model is None else None)
    return _write(folder, replace(tuning, budget=budget, seed=seed, labels_digest=digest), search, parts, named)


class _Search:
    """The search for a change of a judge, within its calls."""

    def __init__(
        self,
        judge: changes.TunableJudge,
        parts: LabelParts,
        calls: changes.JournaledCalls,
        max_concurrency: int,
        on_step: Callable[[str], object],
    ) -> None:
        self.judge, self.parts, self.calls = judge, parts, calls
        self._first, self._each = _calls_of(judge.spec)
        self._concurrency, self._say = max_concurrency, on_step
        self.language = judge.language_of(case.sample for case in (*parts.tuning, *parts.held))
        self.change = changes.JudgeChange()
        self._cases: tuple[LabelledCase, ...] = parts.tuning
        self._notes: list[str] = []

    def run(self) -> Tuning:
        """Return what came of it."""
        with self.calls.keeping((2 * self._each + self._first) * len(self.parts.held)):
            verdicts = self._verdicts(self.judge.judge, self._cases)
            self._cases = tuple(
                replace(case, verdict=verdict) for case, verdict in zip(self._cases, verdicts, strict=True)
            )
            right = sum(case.agrees(case.verdict) for case in self._cases)
            self._say(f"the judge as it is: {right} of {len(verdicts)}")
            self._notes += self._notes_on(verdicts)
            with self.calls.keeping(_FINAL_ASKS):
                tried, chosen, mark = self._choose()
            change = self._built(chosen, self._cases) if chosen else changes.JudgeChange()
        self.change = replace(change, mark=mark) if change is not None else changes.JudgeChange()
        named = "" if self.change == changes.JudgeChange() else _describe(chosen, mark)
        self._say(f"chosen: {named or 'nothing'}")
        before = self._verdicts(self.judge.judge, self.parts.held)
        tuned = self.judge.changed(self.change, self.language) if self.change != changes.JudgeChange() else None
        after = None if tuned is None else self._verdicts(tuned, self.parts.held)
        self._notes += _unscored(before, "the judge", "held-out")
        self._notes += _unscored(after or (), "the tuned judge", "held-out")
        compared = _compare(self.parts.held, before, after)
        improved = bool(compared.p is not None and compared.p <= 0.05 and compared.after > compared.before)  # type: ignore[operator]  # noqa: PLR2004
        judge_digest = fingerprint(self.judge.judge)
        return Tuning(
            judge=self.judge.name,
            improved=improved,
            chosen=named,
            tried=tuple(tried),
            held_out=compared,
            tuning_cases=len(self._cases),
            left_out=self.parts.left_out,
            people=self.parts.people,
            contested=self.parts.contested,
            calls=self.calls.counted,
            budget=0,
            fingerprints=(judge_digest, fingerprint(tuned) if improved and tuned is not None else judge_digest),
            labels_digest="",
            seed=0,
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def _notes_on(self, verdicts: Sequence[Verdict | None]) -> Iterator[str]:
        """Yield what a reader must know of the judge and the cases."""
        yield from _unscored(verdicts, "the judge", "tuning")
        others = {self.judge.judge.language_for(case.sample) for case in self._cases} - {self.language}
        if others:
            yield f"what is changed are the prompts in {self.language}; the tuned judge has no others"

    def _choose(self) -> tuple[list[_TriedWay], str, float | None]:
        """Return the ways tried on the tuning cases, the best, and the mark at which it passes.

        Both are empty where nothing is better than the judge as it is.
        """
        verdicts_before = {case.key: case.verdict for case in self._cases}
        results = {"as it is": verdicts_before, **self._raced()}
        tried = [_tried(way, self._cases, verdicts) for way, verdicts in results.items()]
        complete = [one for one in tried if one.cases == len(self._cases)]
        best = max(complete, key=_TriedWay.rank)
        mark, right = self._mark_for(results[best.way])
        if mark is not None:
            tried.append(_TriedWay(way=_describe(best.way, mark), right=right, cases=len(self._cases)))
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
        calls_left = self.calls.limit - self.calls.counted
        chosen: list[str] = []
        ways = list(_ASKS)
        for way in ways:
            if not self.judge.takes_examples and "examples" in way:
                continue
            several = [*chosen, way]
            halves = len(several) * math.ceil(len(self._cases) / 2) + max(1, len(several) // 2) * (
                len(self._cases) // 2
            )
            if sum(_ASKS[one] for one in several) * folds + halves * self._each > calls_left:
                self._notes.append(f"the budget has no calls for: {', '.join(ways[ways.index(way) :])}")
                break
            chosen.append(way)
        return chosen

    def _cross_fitted(self, way: str, cases: Sequence[LabelledCase]) -> dict[str, Verdict | None]:
        """Return the verdicts on cases, each of a judge that was changed by the cases of other folds."""
        verdicts: dict[str, Verdict | None] = {}
        for fold in sorted({case.fold for case in cases}):
            judged = [case for case in cases if case.fold == fold]
            change = self._built(way, [case for case in self._cases if case.fold != fold])
            if change is None or change == changes.JudgeChange():
                verdicts.update({case.key: case.verdict if change else None for case in judged})
                continue
            judge = self.judge.changed(change, self.language)
            verdicts.update(zip((case.key for case in judged), self._verdicts(judge, judged), strict=True))
        return verdicts

    def _built(self, way: str, cases: Sequence[LabelledCase]) -> changes.JudgeChange | None:
        """Return the change that a way makes of cases; None where the model gives nothing that can be used."""
        shown = [case for case in cases if case.shown]
        change = changes.JudgeChange()
        try:
            if "guidelines" in way:
                batches = _batches_to_learn_from(shown, 2 if "two batches" in way else 1)
                guideline_lists = [self.judge.ask_guidelines(batch, self.language) for batch in batches]
                change = replace(
                    change, guidelines=tuple(dict.fromkeys(one for part in guideline_lists for one in part))
                )
            if "wording" in way:
                (batch,) = _batches_to_learn_from(shown, 1)
                change = replace(change, task=self.judge.ask_wording(batch, self.language))
        except AskFailed as failure:
            self._notes.append(f"{way}: the model gave nothing that can be used ({failure.reason})")
            return None
        if "examples" in way:
            nearest = _EXAMPLES if "nearest" in way else None
            examples = self._examples(shown, _CASES if nearest else _EXAMPLES)
            change = replace(change, examples=examples, nearest=nearest)
        return change

    def _examples(self, cases: Sequence[LabelledCase], most: int) -> tuple[Example, ...]:
        """Return examples: as many good as bad, unlike each other, two that the judge gets wrong for one other."""
        chosen: list[Example] = []
        sides = [_contrasted([case for case in cases if case.good is good]) for good in (False, True)]
        for pair in zip(*sides, strict=False):
            for case in pair:
                example = self.judge.example_of(case, self.language)
                chosen += [] if example is None else [example]
        return tuple(chosen[:most])

    def _mark_for(self, verdicts: Mapping[str, Verdict | None]) -> tuple[float | None, int]:
        """Return another mark, where cross-fitted it is right on two cases more at least, and on how many."""
        setting = self.judge.mark_setting
        if setting is None:
            return None, 0
        values = {key: _value(verdict, setting) for key, verdict in verdicts.items()}
        marks = _marks(values.values())

        agreeing_count = sum(case.agrees(verdicts[case.key]) for case in self._cases)
        crossed = 0
        for fold in {case.fold for case in self._cases}:
            others = [case for case in self._cases if case.fold != fold]
            best = max(marks, key=partial(_right_from, cases=others, values=values))
            crossed += _right_from(best, [case for case in self._cases if case.fold == fold], values)
        if crossed < agreeing_count + 2:
            return None, 0
        return max(marks, key=partial(_right_from, cases=self._cases, values=values)), crossed

    def _verdicts(self, judge: Judge, cases: Sequence[LabelledCase]) -> list[Verdict | None]:
        rows = evaluate([case.sample for case in cases], {"judge": judge}, max_concurrency=self._concurrency).rows
        return [row.verdicts["judge"] for row in rows]


def _unscored(verdicts: Sequence[Verdict | None], judge: str, kind: str) -> Iterator[str]:
    reasons = [str(verdict.unscored) for verdict in verdicts if verdict is not None and verdict.unscored]
    if reasons:
        why = ", ".join(sorted(set(reasons)))
        yield f"{judge} has no verdict on {len(reasons)} of {len(verdicts)} {kind} cases: {why}"


def _right_from(mark: float, cases: Iterable[LabelledCase], values: Mapping[str, float | None]) -> int:
    """Return on how many cases the judge would be right if it passed from a mark."""
    cases_with_values = ((case, values[case.key]) for case in cases)
    return sum(value is not None and (value >= mark) is case.good for case, value in cases_with_values)


def _tried(way: str, cases: Sequence[LabelledCase], verdicts: Mapping[str, Verdict | None]) -> _TriedWay:
    judged = [case for case in cases if case.key in verdicts]
    return _TriedWay(way=way, right=sum(case.agrees(verdicts[case.key]) for case in judged), cases=len(judged))


def _describe(way: str, mark: float | None) -> str:
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


def _compare(
    cases: Sequence[LabelledCase], before: Sequence[Verdict | None], after: Sequence[Verdict | None] | None
) -> _HeldOut:
    """Return the judge before and after on held-out cases."""
    was = [case.agrees(verdict) for case, verdict in zip(cases, before, strict=True)]
    contested = [case.contested for case in cases]
    result = _HeldOut(
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


def _write(folder: Path, tuning: Tuning, search: _Search, parts: LabelParts, model: str | None) -> Tuning:
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
    splits = ((TUNE, parts.tuning_rows), (HELD_OUT, parts.held_rows), (CERTIFY, parts.others))
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


_BATCH = 12


def _batches_to_learn_from(cases: Sequence[LabelledCase], most: int) -> Iterator[list[LabelledCase]]:
    """Yield batches of cases to learn from, none with a case of another, as long as the judge gets any wrong."""
    for _ in range(most):
        batch = _to_learn_from(cases)
        yield batch
        cases = [case for case in cases if case not in batch]
        if all(case.agrees(case.verdict) for case in cases):
            return


def _to_learn_from(cases: Sequence[LabelledCase]) -> list[LabelledCase]:
    """Return the cases to learn from: what the judge gets wrong, then others for contrast, of good and bad."""
    wrong = _diverse([case for case in cases if not case.agrees(case.verdict)])[: _BATCH - 4]
    others = [case for case in cases if case.agrees(case.verdict)]
    sides = ([case for case in others if case.good], [case for case in others if not case.good])
    return [*wrong, *(case for side in sides for case in _diverse(side)[: (_BATCH - len(wrong)) // 2])]


def _contrasted(cases: Sequence[LabelledCase]) -> list[LabelledCase]:
    """Return cases unlike each other, so that one that the judge gets right follows two that it gets wrong.

    Errors alone would teach the opposite of what misled the judge, instead of what people go by.
    """
    ordered = _diverse(cases)
    wrong = [case for case in ordered if not case.agrees(case.verdict)]
    right = [case for case in ordered if case.agrees(case.verdict)]
    return [*wrong[:2], *right[:1], *wrong[2:], *right[1:]]


def _diverse(cases: Sequence[LabelledCase]) -> list[LabelledCase]:
    """Return some cases, each as unlike those before it as can be, first some that the judge gets wrong."""
    texts = [f"{case.sample.question} {case.sample.answer or ''}" for case in cases]
    traits = dict(zip((case.key for case in cases), traits_of(texts, finest_likeness()), strict=True))
    ordered: list[LabelledCase] = []

    def likeness(case: LabelledCase) -> float:
        return max((alike(traits[case.key], traits[other.key]) for other in ordered), default=0.0)

    for is_right in (False, True):
        candidates = [case for case in cases if case.agrees(case.verdict) is is_right]
        for _ in range(min(_BATCH, len(candidates))):
            unlike = min(candidates, key=likeness)
            ordered.append(unlike)
            candidates.remove(unlike)
    return ordered


def _calls_of(spec: JudgeSpec) -> tuple[int, int]:
    """Return how many calls of a model a judge makes once for each case, and at most for each verdict."""
    looks = int(spec.settings.get("looks", 6)) if spec.settings.get("tools") else 0
    return int(bool(spec.settings.get("commit"))), 1 + looks
