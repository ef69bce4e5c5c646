"""The gate of a run: whether its figures are good enough, for continuous integration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from judges.catalogue.registry import qualified_name
from judges.errors import ConfigurationError, plural, shortened
from judges.offline.results import Evaluation, Summary
from judges.offline.run.journal import is_failure
from judges.offline.statistics.intervals import p_text
from judges.verdict import ByJudge

if TYPE_CHECKING:
    from judges.offline.run_comparison import RunComparison

MOST_UNSCORED = 0.1
"""Share of cells whose judging may fail before a figure says nothing."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Verdict = Literal["passed", "failed", "unscored"]


@dataclass(frozen=True, kw_only=True)
class _GateCheck:
    """One condition of a gate, and what became of it.

    Args:
        judge: The judge.
        condition: What must hold, in words.
        result: Whether it holds; `"unscored"` where too much judging failed to say so.
        detail: The figures behind it, in one line.
    """

    judge: str
    condition: str
    result: Verdict
    detail: str

    def __str__(self) -> str:
        return f"{self.result}: {self.condition}; {self.detail}"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What a run must reach.

    Args:
        fail_under: Least mean score by judge, 0 to 1.
        max_unscored: Largest share of a judge's cells whose judging may fail, 0 to 1.
        allow_other_judge: Whether the baseline may be of other judges, or of another dataset.

    Raises:
        ConfigurationError: If a figure is out of its range.
    """

    fail_under: Mapping[str, float] = field(default_factory=dict)
    max_unscored: float = MOST_UNSCORED
    allow_other_judge: bool = False

    def __post_init__(self) -> None:
        for name, figure in {**self.fail_under, "max_unscored": self.max_unscored}.items():
            if type(figure) not in (int, float) or not 0 <= figure <= 1:
                raise ConfigurationError(f"{name} is a share or a mean score from 0 to 1, not {shortened(figure)}")

    def check_names(self, judges: Sequence[str]) -> None:
        """Check, before anything is spent, that the judges of the gate are those of a run.

        Raises:
            ConfigurationError: If one is not.
        """
        judge_names = ByJudge(dict.fromkeys(judges), qualified=qualified_name)
        for name in self.fail_under:
            if name not in judge_names:
                raise ConfigurationError(
                    f"no judge of this run is called {name!r}; its judges are {', '.join(judges)}"
                )

    @staticmethod
    def refuse_baseline(judges: Mapping[str, str], rows: Sequence[str], baseline: object) -> None:
        """Refuse a baseline of other judges or another dataset, before anything is spent.

        Args:
            judges: In words what is another judge, by name.
            rows: In words what differs between the datasets besides the answers.
            baseline: The folder of the baseline.

        Raises:
            ConfigurationError: If there is anything.
        """
        if judges:
            listed = "; ".join(f"{name} {change}" for name, change in judges.items())
            raise ConfigurationError(f"not the same judge as in {baseline}: {listed}; {_remedy(baseline)}")
        if rows:
            remedy = "judge the same rows, or allow it by --allow-other-judge"
            raise ConfigurationError(f"not the same dataset as in {baseline}: {'; '.join(rows)}; {remedy}")

    def result(self, evaluation: Evaluation, comparison: RunComparison | None = None) -> _GateResult:
        """Check an evaluation, and where there is one its comparison with a baseline.

        Raises:
            ConfigurationError: If a judge of the gate is none of the evaluation.
        """
        self.check_names(list(evaluation.summary))
        checks = [
            _least(name, figure, evaluation[name], self.max_unscored) for name, figure in self.fail_under.items()
        ]
        if comparison is not None and comparison.differences and not self.allow_other_judge:
            checks.append(_not_comparable(comparison))
        elif comparison is not None:
            checks += _not_worse(comparison)
        return _GateResult(checks)


@dataclass(frozen=True)
class _GateResult:
    """What became of a gate.

    Args:
        checks: What became of each of its conditions.
    """

    checks: Sequence[_GateCheck]

    @property
    def verdict(self) -> Verdict:
        """What became of the gate as a whole."""
        results = {check.result for check in self.checks}
        return "unscored" if "unscored" in results else "failed" if "failed" in results else "passed"

    def junit(self, *, name: str, seconds: float) -> bytes:
        """Return JUnit XML, which CI servers show: one test case for each check, with its share of the seconds."""
        results = [check.result for check in self.checks]
        counts = {"tests": len(results), "failures": results.count("failed"), "errors": results.count("unscored")}
        numbers = {key: str(count) for key, count in counts.items()}
        numbers["time"] = f"{seconds:.3f}"
        root = Element("testsuites", numbers)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        suite = SubElement(root, "testsuite", {"name": _xml(name), "timestamp": now, **numbers})
        for check in self.checks:
            _add_case(suite, check, seconds / len(results))
        indent(root)
        text: str = tostring(root, encoding="unicode")
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _add_case(suite: Element, check: _GateCheck, seconds: float) -> None:
    case = SubElement(suite, "testcase", {"classname": _xml(check.judge), "name": _xml(check.condition)})
    case.set("time", f"{seconds:.3f}")
    if check.result != "passed":
        kind = "failure" if check.result == "failed" else "error"
        fault = SubElement(case, kind, {"message": _xml(check.detail), "type": check.result})
        fault.text = _xml(str(check))
    SubElement(case, "system-out").text = _xml(check.detail)


def _least(name: str, least: float, summary: Summary, max_unscored: float) -> _GateCheck:
    failed = sum(count for reason, count in summary.unscored.items() if is_failure(reason))
    share = failed / summary.n if summary.n else 0.0
    condition = f"{name} has a mean score of at least {least:g}"
    if summary.mean is None or share > max_unscored:
        allowed = f"at most {max_unscored:.0%} may be" if summary.mean is not None else "no row has a score"
        reasons = ", ".join(f"{count} {reason}" for reason, count in summary.unscored.items())
        detail = f"{failed} of {plural(summary.n, 'row')} could not be judged ({share:.0%}), {allowed}: {reasons}"
        return _GateCheck(judge=name, condition=condition, result="unscored", detail=detail)
    repeats = "" if summary.questions is None else f" to {plural(summary.questions, 'question')}"
    interval = "" if summary.mean_interval is None else " (95 %: {:.3f} to {:.3f})".format(*summary.mean_interval)
    detail = f"it is {summary.mean:.3f}{interval} over {plural(summary.scored, 'row')}{repeats}"
    is_reached = summary.mean >= least or f"{summary.mean:.12f}" == f"{least:.12f}"  # as sums are rounded
    return _GateCheck(judge=name, condition=condition, result="passed" if is_reached else "failed", detail=detail)


def _remedy(baseline: object) -> str:
    return f"judge it anew (refine rescore {baseline} --judge ...), or allow it by --allow-other-judge"


def _not_comparable(comparison: RunComparison) -> _GateCheck:
    return _GateCheck(
        judge=", ".join(comparison.other_judges) or "dataset",
        condition=f"judges and rows are those of {comparison.a}",
        result="unscored",
        detail=f"{'; '.join(comparison.differences)}; {_remedy(comparison.a)}",
    )


def _not_worse(comparison: RunComparison) -> list[_GateCheck]:
    checks = []
    for name, change in comparison.changes.items():
        figure, condition = change.difference.value, f"{name} is not worse than in {comparison.a}"
        if figure is None or change.adjusted_p is None:
            detail = "no row is scored in both runs"
            checks.append(_GateCheck(judge=name, condition=condition, result="unscored", detail=detail))
            continue
        is_worse = change.is_real and figure < 0
        rows = f"; the largest falls are rows {', '.join(map(str, change.regressions[:10]))}" if is_worse else ""
        detail = f"the mean score changed by {figure:+.3f}, {p_text(change.adjusted_p)}{rows}"
        checks.append(
            _GateCheck(judge=name, condition=condition, result="failed" if is_worse else "passed", detail=detail)
        )
    return checks


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
