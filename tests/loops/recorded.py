"""Recorded loops for tests, written as `record=` writes them, and certificates of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from judges.certificate import CertifiedRow, IssuedCertificate, Subject

_PUBLISHED = (
    "4|g 34|gg 2334|bggg 1224|bbbb 3223|gbbg 4|g 24|bg 1111|bbbb 334|bbg 2.4|bgg 4|b 23|bg* 34|gg 2224|bbbg 4|g"
)
V_B = _PUBLISHED.split()
"""Ratings and labels, good or bad, of each loop; `.` is unscored, `*` crashed. Success rating 4, 4 attempts."""


def write_loops(path: Path, loops: Iterable[str], **policy: Any) -> Path:
    """Write loops such as `34|gg` to a file; settings of the policy are 4, 4 and no patience unless given."""
    with path.open("w", encoding="utf-8") as file:
        for number, loop in enumerate(loops):
            file.writelines(f"{json.dumps(row)}\n" for row in rows_of(number, loop, **policy))
    return path


def rows_of(
    number: int,
    loop: str,
    *,
    success_rating: int = 4,
    max_attempts: int = 4,
    patience: int | None = None,
    exploration: float | None = None,
    **more: Any,
) -> list[dict[str, Any]]:
    """Return the rows of one loop."""
    ratings, _, labels = loop.rstrip("*").partition("|")
    marks = [None if rating == "." else int(rating) for rating in ratings]
    passes = [mark is not None and mark >= success_rating for mark in marks]
    last = passes.index(True) if True in passes else len(marks) - 1
    stop = "max_attempts" if len(marks) >= max_attempts else "no_progress" if patience else "judge_failed"
    reason = "accepted" if passes[last] else "judge_failed" if loop.endswith("*") else stop
    rows = []
    for place, mark in enumerate(marks):
        metadata: dict[str, Any] = {
            "outcome_id": f"outcome {number}",
            "question_id": f"question {number}",
            "at": f"2026-11-22T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000+00:00",
            "attempt": place + 1,
            "success_rating": success_rating,
            "max_attempts": max_attempts,
            "patience": patience,
            "continuation_probability": exploration,
            "policy_digest": "p" * 32,
            "judge_digest": "j" * 32,
            "released": place == last,
            "shadow": True if place > last else None,
            "rating": mark,
            "stop_reason": reason if place == last else None,
            "labels": [{"by": "ann", "up": labels[place] == "g"}] if labels else None,
            **more,
        }
        rows.append(
            {
                "user_input": f"question {number}?",
                "response": f"answer {place + 1} to {number}",
                "metadata": {name: value for name, value in metadata.items() if value is not None},
            }
        )
    return rows


def issued(**fields: Any) -> IssuedCertificate:
    """Issue a certificate of a rating of 4 that tolerates 10 %, but for what fields say."""
    known: dict[str, Any] = {
        "subject": Subject(),
        "threshold": 4,
        "alpha": 0.1,
        "delta": 0.05,
        "delta_in_all": 0.05,
        "good": 3,
        "method": "sequence",
        "rows": (),
        "issued_at": "2026-11-21T00:00:00+00:00",
        "written_by": "test",
        "runs": 0,
        "released": 0,
        "bad": 0,
        "labels": 0,
        "labels_digest": "",
    }
    return IssuedCertificate.issue(**{**known, **fields})


def certified(policy: float, released: int = 60, bad: int = 0, **fields: Any) -> CertifiedRow:
    """Return what a certificate says of a policy that is certified."""
    known: dict[str, Any] = {"rate": bad / released, "status": "certified", **fields}
    return CertifiedRow(policy=policy, released=released, bad=bad, **known)
