"""Every field that a record writes and returns, beside what it was: `record.json` says each value.

After a change that is meant, `python -m tests.refine.test_record_rows` writes the file anew: read the difference.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from graphs import Outcome, Policy
from graphs.answers import Attempt
from judges import Usage, Verdict
from judges.testing import ScriptedJudge
from refine.record import DatabaseRecord, Origin, OutcomeFilter
from refine.record.rows import Record
from tests.figures import differences, plain, read, write

FILE = Path(__file__).with_name("record.json")
JUDGED = Usage(calls=2, input_tokens=30, output_tokens=7, cost=0.25)
WRITTEN = Usage(calls=1, input_tokens=11, output_tokens=5, cost=0.5)
POLICY = Policy(success_rating=3, max_attempts=4, patience=2)
ORIGIN = Origin(
    refiner="desk",
    judge="tone",
    judge_digest="j" * 32,
    policy_digest="p" * 32,
    success_rating=3,
    max_attempts=4,
    patience=2,
    model="configured",
    request_id="r-1",
    continuation_probability=0.25,
)
CALL = {"name": "look_up", "args": {"about": "secret"}, "id": "c1", "type": "tool_call"}


def attempt(number: int, verdict: Verdict | None, **fields: Any) -> Attempt:
    """Return an attempt with everything in it."""
    answer = AIMessage(
        f"draft {number}, secret", response_metadata={"model_name": f"m{number}", "stop_reason": "end"}
    )
    return Attempt(number=number, answer=answer, verdict=verdict, usage=WRITTEN, latency_s=1.5, **fields)


def verdict(rating: int, **fields: Any) -> Verdict:
    """Return a verdict with everything in it."""
    items = (Verdict.rated(2, judge="part", rationale="secret part"), Verdict.without_score("budget", "none left"))
    rated = Verdict.rated(rating, judge="tone", rationale="secret reason", feedback="secret advice")
    return rated.model_copy(update={"items": items, "usage": JUDGED, "model": "jm", "latency_s": 0.5, **fields})


def outcome(number: int, attempts: tuple[Attempt, ...], stop_reason: str, **fields: Any) -> Outcome:
    """Return an outcome of some attempts; the last one is released where it passed."""
    released = fields.pop("released", None)
    return Outcome.model_validate(
        {
            "id": f"o{number}",
            "answer": AIMessage("an answer, secret"),
            "passed": stop_reason == "accepted",
            "stop_reason": stop_reason,
            "attempts": attempts,
            "released": released,
            "usage": Usage(calls=3, input_tokens=41, output_tokens=12, cost=0.75),
            "latency_s": 2.5 + number,
            "conversation": (HumanMessage("what of the secret?"),),
            **fields,
        }
    )


def outcomes() -> list[Outcome]:
    """Return outcomes of every kind."""
    steps = (AIMessage("", tool_calls=[CALL]), ToolMessage("secret result", tool_call_id="c1"))
    evidence = {"retrieved_contexts": ["secret context"], "metadata": {"question_id": "q7"}}
    full = attempt(2, verdict(4), steps=steps, evidence={"reference": "secret"})
    failed = Verdict.without_score("invalid_output", "secret detail", judge="tone")
    shadow = attempt(3, verdict(1, rated_natively=False))
    asked = verdict(2, judge="asking")
    long = verdict(3, p_pass=0.75, probabilities={"3": 0.75, "4": 0.25}, rationale="secret\x00")
    odd = attempt(1, long, evidence={"deep": [float("inf"), "\ud83d", {"\x00": 1}]})
    talk = (SystemMessage("be brief"), HumanMessage("hi"), AIMessage("hello"), HumanMessage("what of the secret?"))
    return [
        outcome(1, (attempt(1, verdict(1)), full), "accepted", released=2, evidence=evidence, certificate="cert"),
        outcome(2, (attempt(1, failed),), "judge_failed", detail="why", released=1),
        outcome(3, (attempt(1, None),), "interrupted"),
        outcome(4, (), "skipped", conversation=talk),
        outcome(5, (attempt(1, verdict(2)), attempt(2, verdict(3)), shadow), "accepted", released=2, answer=None),
        outcome(6, (attempt(1, verdict(2)),), "max_attempts", released=1),
        outcome(7, (), "question_refused", question_verdict=asked),
        outcome(8, (odd,), "accepted", released=1, detail="n" * 300, certificate="c" * 300),
    ]


def hidden(text: str) -> str:
    """Redact a text."""
    return text.replace("secret", "[hidden]")


SEALS = ("chain", "position", "previous", "hash", "seal")


def without_times(value: Any) -> Any:
    """Return data without the times at which it was written, and without the seals of that time."""
    if isinstance(value, Mapping):
        names = [name for name in value if name not in ("at", "series", *SEALS)]
        return {name: without_times(value[name]) for name in names}
    return [without_times(one) for one in value] if isinstance(value, list) else value


def recorded(folder: Path) -> dict[str, Any]:
    """Return all that a record of each kind returns of the outcomes."""
    results: dict[str, Any] = {}
    for name, texts in (("with texts", True), ("without", False)):
        with DatabaseRecord(f"sqlite:///{folder}/{name}.db", texts=texts, redact=[hidden]) as record:
            for one in outcomes():
                record.add(one, ORIGIN)
                assert record.flush(10)
            record.label("o1", 2, by="ann", rating=3, note="fine", split="tune")
            record.label("o1", 1, by="bob", up=False)
            for number, label in enumerate(({"rating": 3}, {"up": True}, {"rating": 1}, {"rating": 4}), 5):
                record.label(
                    "o6" if number < 7 else "o5", number - 4 if number == 7 else 1, by=str(number), **label
                )  # type: ignore[arg-type]
            for which in ("no", "yes", "disagree"):
                found = record.outcomes(OutcomeFilter(labelled=which))
                results[f"{name}: labelled {which}"] = [one["id"] for one in found]
            results[f"{name}: outcomes"] = record.outcomes()
            results[f"{name}: each"] = [record.outcome(f"o{number}") for number in range(1, 10)]
            results[f"{name}: attempts"] = list(record.attempts())
            results[f"{name}: choices"] = record.choices()
            results[f"{name}: figures"] = record.figures(buckets=1)
            results[f"{name}: figures of one"] = record.figures(OutcomeFilter(stop_reason="skipped"), buckets=1)
            if texts:
                results[f"{name}: rows"] = list(record.rows())
    file = Record(folder / "rows.jsonl")
    for one in outcomes():
        file.add(one, ORIGIN)
    results["file"] = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    of = Origin.of("desk", ScriptedJudge([4]), POLICY, model="m")
    results["origin"] = [
        of.refiner,
        of.judge,
        of.model,
        of.success_rating,
        of.max_attempts,
        of.patience,
        of.shadow,
    ]
    return {name: plain(without_times(result)) for name, result in results.items()}


def test_every_field_of_a_record_is_as_on_file(tmp_path: Path) -> None:
    """Outcomes, attempts, labels, figures and rows, with texts and without: every difference is listed."""
    before, now = read(FILE), recorded(tmp_path)
    assert sorted(before) == sorted(now)
    assert [one for name in now for one in differences(before[name], now[name], name)] == []
    assert "secret" not in json.dumps([now[name] for name in now if name != "file"])


def test_an_origin_says_what_a_certificate_of_the_record_is_about() -> None:
    """The judge and the policy, also where a request overrides a part of the policy."""
    origin = Origin.of("desk", ScriptedJudge([4]), POLICY, model="m")
    other = origin.under(Policy(success_rating=3, max_attempts=2, patience=2))
    assert origin.subject is not None
    assert other.subject is not None
    assert origin.subject.judge_digest == other.subject.judge_digest == origin.judge_digest
    assert [one.subject.policy["max_attempts"] for one in (origin, other) if one.subject] == [4, 2]
    assert (other.max_attempts, other.refiner) == (2, "desk")
    assert other.policy_digest != origin.policy_digest


def test_a_series_holds_every_outcome(tmp_path: Path) -> None:
    """Its parts sum up to the figure of the whole, and say after how many attempts outcomes passed."""
    with DatabaseRecord(f"sqlite:///{tmp_path}/record.db") as record:
        for one in outcomes():
            record.add(one, ORIGIN)
        assert record.flush(10)
        parts = record.figures(buckets=3)["series"]["buckets"]
    assert sum(part["outcomes"] for part in parts) == 8
    assert sum(part["passed_at"].get("2", 0) for part in parts) == 2


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        write(FILE, recorded(Path(place)))
