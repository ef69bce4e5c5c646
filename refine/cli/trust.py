"""The commands `refine align`, `certify` and `try-judge`: how far a judge's verdicts can be believed."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from shutil import which
from typing import TYPE_CHECKING, Any, get_args

from judges import ConfigurationError
from judges.certificate import Estimand, IssuedCertificate
from judges.errors import BadSample, plural, shortened
from judges.offline import TrialPair, align, certify, try_judge
from judges.offline.dataset.reading import read_mappings
from judges.offline.statistics.certificates import AnyMethod
from judges.offline.trust.agreement import Sampling
from judges.offline.trust.drawing import (
    NextLabel,
    labels_to_certify,
    labels_to_estimate,
    people_needed,
    write_queue,
)
from judges.offline.trust.judge_trial import settings_of_cases
from judges.offline.trust.loops import read_labelled
from judges.offline.trust.rows import JudgedAnswer, RowSource, read_judged
from refine.cli.judge_specs import load_judge
from refine.cli.loops import is_database, loop_source, open_database
from refine.cli.options import AlignOptions, CertifyOptions, TryJudgeOptions
from refine.cli.runs import show_progress
from refine.cli.tables import Column, print_json, print_result, print_table, print_text, text_console

if TYPE_CHECKING:
    from refine.record import DatabaseRecord


def run_align(options: AlignOptions) -> int:
    """Print the report, write what was asked for, and return the exit code.

    Raises:
        ConfigurationError: If rows, labels or an option cannot be used.
    """
    if options.certificate is not None:
        _check_replaceable(options.certificate, "--certificate")
    sampling: Sampling = _parse_choice("--drawn", options.drawn, get_args(Sampling))
    with loop_source(options.rows) as (source_rows, record):
        rows = source_rows if isinstance(source_rows, str) else list(source_rows)
        if options.next_labels is not None and (
            sampling == "active" or not any(row.opinions for row in read_labelled(rows, options.labels).rows)
        ):
            return _choose(rows, options, sampling, options.next_labels)
        aligned = align(
            rows,
            options.labels,
            **{name: getattr(options, name) for name in _SETTINGS_OF_ALIGN},
            sampling=sampling,
            thresholds=_parse_numbers(options.thresholds),
            ledger=options.ledger or record,
        )
    print_result(aligned.report(full=options.full), aligned.to_dict(), as_json=options.as_json)
    return 0


def _choose(rows: RowSource, options: AlignOptions, sampling: Sampling, file: Path) -> int:
    """Choose the first rows to label, before there is anything to report."""
    chosen = labels_to_estimate(
        rows,
        options.labels,
        judge=options.judge,
        sampling="active" if sampling == "active" else "by_rating",
        good=options.good,
        budget=options.budget,
        seed=options.seed,
    )
    write_queue(chosen, file)
    drawn = "active" if sampling == "active" else "by-rating"
    print_text(
        f"{plural(len(chosen), 'row')} in {file}. Have people label them, `refine label {file}`, then name "
        f"the file as --labels, with --drawn {drawn}."
    )
    return 0


def _parse_choice(option: str, text: str, choices: Sequence[str]) -> Any:
    """Return the one of some choices that a text names, with a hyphen for what is `_` in Python.

    Raises:
        ConfigurationError: If it names none.
    """
    name = text.replace("-", "_")
    if name in choices:
        return name
    *others, last = (choice.replace("_", "-") for choice in choices)
    raise ConfigurationError(f"{option} is {', '.join(others)} or {last}, not {shortened(text)}")


def _parse_numbers(text: str | None, *, name: str = "--thresholds") -> tuple[float, ...] | None:
    """Return numbers from a list with commas; None for none.

    Raises:
        ConfigurationError: If one is no number.
    """
    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ConfigurationError(
            f"{name} are numbers with commas, for instance {'1,0.5,0,0' if name == '--harm' else '4,3,2'}, not "
            f"{shortened(text)}"
        ) from None


def _check_replaceable(file: Path, option: str) -> None:
    """Check that nothing would be lost by writing a certificate: one that certifies something is never replaced.

    Raises:
        ConfigurationError: If something is there.
    """
    if not file.exists():
        return
    try:
        certifies = IssuedCertificate.read(file).certified
    except ConfigurationError:
        certifies = True
    if certifies:
        raise ConfigurationError(f"{str(file)!r} is there already; choose another {option}, or delete it first")


_SETTINGS_OF_ALIGN = (
    *("judge", "good", "split", "alpha", "delta", "max_attempts", "certificate", "next_labels", "budget", "seed"),
)
_SETTINGS_OF_CERTIFY = (
    *("alpha", "delta", "max_attempts", "patience", "break_at_most", "largest_weight", "laxest", "scores"),
    *("judge", "control", "loops", "good", "split", "once"),
)
"""Options that the functions of these names take as they are."""


def run_certify(options: CertifyOptions) -> int:
    """Certify, or only choose what to label; return the exit code: 0, or 1 if nothing is certified.

    Raises:
        ConfigurationError: If attempts, labels or an option cannot be used.
    """
    if options.next_labels is not None:
        return _choose_threshold(options, options.next_labels)
    _check_replaceable(options.out, "--out")
    # What is misspelled is told before people label, and not after.
    method = _parse_choice("--method", options.method, get_args(AnyMethod))
    estimand = _parse_choice("--estimand", options.estimand, get_args(Estimand))
    unlabelled: Any = options.unlabelled
    if unlabelled is not None:
        unlabelled = _parse_choice("--unlabelled", unlabelled, ("bad", "left_out"))
    is_sampled = is_database(options.attempts) and options.labels is None and options.unlabelled is None
    can_label = is_sampled and not options.as_json and sys.stdin.isatty() and sys.stdout.isatty()
    while not can_label or _label_sample(options):
        with loop_source(options.attempts, known_texts=True) as (rows, record):
            certificate = certify(
                rows,
                options.labels,
                **{name: getattr(options, name) for name in _SETTINGS_OF_CERTIFY},
                thresholds=_parse_thresholds(options),
                method=method,
                harm=_parse_numbers(options.harm, name="--harm"),
                risk="per_question" if options.per_question else "released",
                estimand=estimand,
                escalation=None if options.escalation is None else options.escalation.split(","),
                independent_attempts=options.assume_independent_attempts,
                unlabelled="left_out" if is_sampled else unlabelled,
                ledger=options.ledger or record,
            )
        certificate.write(options.out)
        _print_certificate(certificate, options)
        more = _with_more_labels(options, certificate, can_label=can_label)
        if more is None:
            return 0 if certificate.certified else 1
        options = more
    return 1


def _with_more_labels(
    options: CertifyOptions, certificate: IssuedCertificate, *, can_label: bool
) -> CertifyOptions | None:
    """Return the options of a certificate on more labels, if somebody gives them now; else say how."""
    needed = certificate.labels_needed
    if certificate.certified or not needed or not certificate.released or not is_database(options.attempts):
        return None
    share = max(1.1, needed / certificate.released)
    budget = math.ceil(max(options.budget, certificate.labels) * share)
    more = replace(options, budget=budget)
    with open_database(options.attempts) as record:
        available = len(_sample(more, read_judged(list(record.attempts(texts=True)))))
    missing = needed - certificate.released
    if can_label and available >= missing:
        from refine.cli.label import ask_for_another  # noqa: PLC0415 - loads the screen

        by = ask_for_another(f"{plural(available, 'more label')} would probably do.")
        if by is not None:
            return replace(more, by=by)
    if available < missing:
        print_text(
            f"The record holds {plural(available, 'more answer')} that would pass: let it record more first."
        )
    print_text(f"For more labels: `refine certify {quote(options.attempts)} --by NAME --budget {budget}`")
    return None


def _print_certificate(certificate: IssuedCertificate, options: CertifyOptions) -> None:
    if options.as_json:
        print_json(certificate.to_dict())
        return
    head, columns, rows, tail = certificate.report_parts
    print_text(head)
    first, *others = columns
    print_table(text_console(), [Column(first, first), *(Column(name, is_number=True) for name in others)], rows)
    print_text(f"{tail}\n\nwritten to {options.out}, id {certificate.id}")
    if certificate.certified:
        here, source, file = (quote(str(part)) for part in (Path.cwd(), options.attempts, options.out))
        print_text(
            f"Put it in force with SelfRefine(..., certificate={str(options.out)!r}), or `refine serve "
            f"--certificate {file}`. Then watch it, for instance by this line of a crontab:"
        )
        # No line is broken here: what is copied into a crontab has to stay one line. Cron looks into /usr/bin and
        # /bin alone, and would not find the command of an environment.
        found = which("refine", path=str(Path(sys.executable).parent)) or which("refine") or "refine"
        sys.stdout.write(f"*/15 * * * * cd {here} && {quote(found)} monitor {source} --certificate {file}\n")


def _label_sample(options: CertifyOptions) -> bool:
    """Have people label what the certificate needs of a record, and return whether nothing waits for another."""
    from refine.cli.label import ask_for_another  # noqa: PLC0415 - loads the screen

    by: str | None = options.by
    with open_database(options.attempts) as record:
        rows_left, waiting = _label_as(record, by, options)
        while waiting and not rows_left:
            by = ask_for_another(f"Called bad, or tied: {plural(waiting, 'answer')}. Another person decides.")
            if by is None:
                break
            rows_left, waiting = _label_as(record, by, options)
    command = f"`refine certify {quote(options.attempts)} --by NAME`"
    hints = []
    if rows_left:
        hints.append(f"refine: without a label yet: {plural(rows_left, 'answer')}; go on with {command}")
    if waiting:
        hints.append(
            f"refine: called bad, or tied, and to be seen by another person (people err): "
            f"{plural(waiting, 'answer')}; another NAME in {command}"
        )
    if hints:
        hints.append("refine: or certify on the labels that there are, with --unlabelled left-out")
        print_text("\n".join(hints), stderr=True)
    return not hints


def _label_as(record: DatabaseRecord, by: str | None, options: CertifyOptions) -> tuple[int, int]:
    """Have a person label, and return how many answers have no label yet, and how many wait for another person."""
    from refine.cli.label import label_in_record  # noqa: PLC0415 - loads the screen

    rows = read_judged(list(record.attempts(texts=True)))
    if not rows:
        raise ConfigurationError("there is nothing to label: the record holds no answer yet")
    chosen = _sample(options, rows)
    looks = {row.index: people_needed(row, good=options.good) for row in rows if row.opinions}
    again = [row for row in rows if looks.get(row.index, 0) > len(row.opinions)]
    if not chosen and not looks:
        unscored = sum(not mark.scored for row in rows for mark in row.marks.values())
        raise ConfigurationError(
            f"there is nothing to label: no recorded answer would pass; {unscored} of {len(rows)} attempts "
            f"have no verdict: the log of the loop says why"
        )
    if chosen and not any(row.sample and row.sample.answer for row in chosen):
        raise ConfigurationError(
            "the record holds no texts that people could label; record with texts=True, or give --labels"
        )
    wanted = {row.index: 1 for row in chosen} | {row.index: looks[row.index] for row in again}
    label_in_record(record, [row for row in rows if row.index in wanted], wanted, by, options.attempts)
    later = read_judged(list(record.attempts(texts=True)))
    waiting = sum(people_needed(row, good=options.good) > len(row.opinions) > 0 for row in later)
    return len(_sample(options, later)), waiting


def _sample(options: CertifyOptions, rows: Sequence[JudgedAnswer]) -> list[JudgedAnswer]:
    """Return the answers that are to be labelled: as many as the budget allows, less those that have labels."""
    labelled = sum(bool(row.opinions) for row in rows)
    return [label.row for label in _draw(options, rows, None, max(0, options.budget - labelled))]


def _draw(options: CertifyOptions, rows: RowSource, labels: Path | None, budget: int) -> list[NextLabel]:
    return labels_to_certify(
        rows,
        labels,
        thresholds=_parse_numbers(options.thresholds),
        max_attempts=options.max_attempts,
        patience=options.patience,
        judge=options.judge,
        good=options.good,
        budget=budget,
        first_answers=options.break_at_most is not None,
        estimand=_parse_choice("--estimand", options.estimand, get_args(Estimand)),
    )


def _choose_threshold(options: CertifyOptions, file: Path) -> int:
    with loop_source(options.attempts, known_texts=True) as (rows, _):
        chosen = _draw(options, rows, options.labels, options.budget)
    write_queue(chosen, file)
    print_text(
        f"{len(chosen)} answers in {file}: of a random sample of runs, what some threshold would "
        f"release. Have people fill in labels, then name the file as --labels, with --unlabelled left-out."
    )
    return 0


def _parse_thresholds(options: CertifyOptions) -> Sequence[float] | Sequence[Sequence[float]] | None:
    if options.escalation is None:
        if options.chain is not None:
            raise ConfigurationError(
                "--chain is for --escalation JUDGE,JUDGE; thresholds of one judge are --thresholds"
            )
        return _parse_numbers(options.thresholds)
    if options.thresholds is not None:
        raise ConfigurationError("the policies of --escalation are given as --chain, for instance 5,4;4,4;4,3")
    if options.chain is None:
        return None
    return [_parse_numbers(policy, name="--chain") or () for policy in options.chain.split(";")]


def run_try_judge(options: TryJudgeOptions) -> int:
    """Print what a judge makes of worked cases, and return the exit code: 0, or 1 where it is not to be used.

    Raises:
        ConfigurationError: If the judge or the pairs cannot be used, or no cases are shipped for it.
    """
    from judges.catalogue.registry import default_registry  # noqa: PLC0415 - loads the judges

    name = default_registry().qualified(options.judge.partition(":")[0])
    cases = None if options.pairs is None else [_pair_in(row, place) for place, row in _pair_rows(options.pairs)]
    judge = load_judge(_as_the_cases_want(options.judge, name) if cases is None else options.judge, options.asks)
    with show_progress() as on_progress:
        trial = try_judge(
            judge, cases, name=name, max_concurrency=options.max_concurrency, on_progress=on_progress
        )
    print_result(trial, trial.to_dict(), as_json=options.as_json)
    return 0 if trial.is_usable else 1


def _as_the_cases_want(judge: str, name: str) -> str:
    """Return a judge that is named without settings with those that its shipped cases are about, if any."""
    settings = settings_of_cases(name)
    return json.dumps({"use": judge, **settings}) if settings and ":" not in judge else judge


def _pair_rows(file: Path) -> list[tuple[str, Mapping[str, Any]]]:
    try:
        return [(f"{file}, row {number}", row) for number, row in enumerate(read_mappings(file), 1)]
    except BadSample as error:
        raise ConfigurationError(str(error)) from error


def _pair_in(row: Mapping[str, Any], place: str) -> TrialPair:
    question, good, bad = (row.get(name) for name in ("question", "good", "bad"))
    contexts, reference = row.get("contexts") or (), row.get("reference")
    if (
        not (isinstance(question, str) and isinstance(good, str) and isinstance(bad, str))
        or not (question and good and bad and isinstance(reference, str | None))
        or isinstance(contexts, str)
    ):
        raise ConfigurationError(
            f"{place}: a pair has the texts question, good and bad, and may have contexts, a list, and reference"
        )
    return TrialPair(
        question=question, good=good, bad=bad, contexts=tuple(map(str, contexts)), reference=reference
    )
