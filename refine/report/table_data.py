"""All rows as data inside the page: a short index for the table, and the texts in portions read when needed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from judges import Message, Sample, Verdict
from judges.offline import Row
from refine.report.view import Entry, Report

PORTION = 500
"""Rows whose texts are read at once."""

LONGEST_TEXT = 20_000
"""Most characters of one text in the page; longer ones end with how long they are."""

_LONGEST_QUESTION = 160


def index_json(report: Report) -> str:
    """Return what the table and its filters need, column by column, as JSON for inside a page."""
    entries = report.entries
    names = list(dict.fromkeys(judge.name for run in report.runs for judge in run.judges))
    columns = list(report.run.slices)
    return page_json(
        {
            "judges": names,
            "runs": [run.name for run in report.runs],
            "portion": PORTION,
            "rows": [entry.index for entry in entries],
            "questions": [_question(entry.row) for entry in entries],
            "labels": [entry.label for entry in entries] if any(entry.label for entry in entries) else [],
            "cells": [[_cells(entries, name, side) for side in range(len(report.runs))] for name in names],
            "groups": {column: [_group(entry.row, column) for entry in entries] for column in columns},
        }
    )


def portions_json(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the texts and verdicts of rows, as JSON for inside a page, some hundred rows at a time."""
    for start in range(0, len(entries), PORTION):
        yield page_json([_details(entry) for entry in entries[start : start + PORTION]])


def page_json(value: object) -> str:
    """Return JSON that can stand inside a script element of a page: it holds no `<`, and no line separator."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029\x7f":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "backslashreplace").decode()


def _question(row: Row) -> str:
    text = row.error if row.sample is None else row.sample.question
    return " ".join(text[: 2 * _LONGEST_QUESTION].split())[:_LONGEST_QUESTION]


def _cells(entries: Sequence[Entry], name: str, side: int) -> dict[str, list[object]]:
    verdicts = [_verdict(entry.sides[side], name) for entry in entries]
    return {
        "score": [None if v is None or v.score is None else round(v.score, 4) for v in verdicts],
        "rating": [None if v is None else v.rating for v in verdicts],
        "passed": [None if v is None or v.passed is None else int(v.passed) for v in verdicts],
        "unscored": [None if v is None else v.unscored for v in verdicts],
    }


def _verdict(row: Row | None, name: str) -> Verdict | None:
    return None if row is None else row.verdicts.get(name)


def _group(row: Row, column: str) -> str:
    value = None if row.sample is None else row.sample.metadata.get(column)
    return "" if value is None else str(value)


def _details(entry: Entry) -> dict[str, object]:
    sample = entry.row.sample
    shared: dict[str, object] = {} if sample is None else _shared(sample)
    return {**shared, "sides": [None if row is None else _side(row) for row in entry.sides]}


def _shared(sample: Sample) -> dict[str, object]:
    earlier = sample.conversation[:-1] if len(sample.conversation) > 1 else ()
    metadata = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in sample.metadata.items()
    }
    fields = {
        "question": _cut(sample.question),
        "earlier": [_said(message) for message in earlier],
        "steps": [_said(message) for message in sample.steps],
        "reference": _cut(sample.reference or ""),
        "contexts": [_cut(context) for context in sample.retrieved_contexts or ()],
        "metadata": [[name, _cut(value)] for name, value in metadata.items()],
    }
    return {name: value for name, value in fields.items() if value}


def _said(message: Message) -> list[str]:
    calls = [f"{call.name}({json.dumps(call.args, ensure_ascii=False)})" for call in message.tool_calls]
    return [message.role, _cut("\n".join(filter(None, [message.content, *calls])))]


def _side(row: Row) -> dict[str, object]:
    answer = row.sample.answer if row.sample is not None else None
    return {
        "answer": None if answer is None else _cut(answer),
        "error": row.error,
        "verdicts": {name: _judged(verdict) for name, verdict in row.verdicts.items()},
    }


def _judged(verdict: Verdict) -> dict[str, object]:
    fields: dict[str, object] = {
        "score": verdict.score,
        "rating": verdict.rating,
        "passed": verdict.passed,
        "value": verdict.value if isinstance(verdict.value, str) else None,
        "unscored": verdict.unscored,
        "subject": _cut(verdict.subject),
        "rationale": _cut(verdict.rationale),
        "feedback": _cut(verdict.feedback),
        "detail": _cut(verdict.detail),
        "raw": _cut(verdict.raw),
        "items": [{**_judged(item), "judge": item.judge} for item in verdict.items],
    }
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [])}


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}… ({len(text):,} characters)"
