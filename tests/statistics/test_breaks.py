"""The second promise of a certificate: how many good first answers a loop may break."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from judges import ConfigurationError
from judges.offline import IssuedCertificate, certify
from judges.offline.statistics import certify as certify_counts
from judges.offline.statistics import certify_runs
from judges.offline.trust.drawing import labels_to_certify
from tests.loops.recorded import write_loops
from tests.runs.commands import refine

DELTA = 0.05


@pytest.mark.parametrize("method", ["sequence", "fallback", "anytime"])
def test_both_promises_hold_together(method: str) -> None:
    """At the edge of the one, of the other and of both, a policy that breaks one is rarely certified."""
    random, resamples = np.random.default_rng(5), 500
    for alpha, bads, level, breaks in (
        (0.1, (0.02, 0.101, 0.2), 0.02, (0.0, 0.0, 0.0)),
        (0.1, (0.01, 0.02, 0.03), 0.02, (0.002, 0.0201, 0.03)),
        (0.1, (0.05, 0.101, 0.101), 0.02, (0.005, 0.0201, 0.0201)),
    ):
        wrong = 0
        for _ in range(resamples):
            found = certify_counts(
                [(400, int(random.binomial(400, rate))) for rate in bads],
                alpha,
                DELTA,
                method=method,  # type: ignore[arg-type]  # one of the literals
                breaks=[(500, int(random.binomial(500, rate))) for rate in breaks],
                break_at_most=level,
            )
            for row, bad, broken in zip(found.rows, bads, breaks, strict=True):
                if row.status == "certified" and (bad > alpha or broken > level):
                    wrong += 1
                    break
        assert wrong / resamples <= DELTA + 3 * (DELTA * (1 - DELTA) / resamples) ** 0.5


def test_what_counts_as_broken() -> None:
    """A good first answer whose released one is bad or unlabelled; where the first has no label, only bad ones."""
    runs: list[tuple[list[float | None], list[bool | None]]] = [
        ([4], [False]),  # good, released at once
        ([2, 4], [False, False]),
        ([2, 4], [False, True]),  # broken
        ([2, 4], [False, None]),  # unlabelled: broken
        ([2, 2], [False, True]),  # nothing is released
        ([2, 4], [True, True]),  # was bad before
        ([2, 4], [None, True]),  # may have been good
        ([2, 4], [None, False]),
    ]
    row = certify_runs(runs, thresholds=[4], max_attempts=2, break_at_most=0.5).rows[0]
    assert (row.first_good, row.broken) == (6, 3)
    laxer = certify_runs(runs, thresholds=[2], max_attempts=2, break_at_most=0.5).rows[0]
    assert (laxer.first_good, laxer.broken) == (5, 0)


GOOD = ["4|g"] * 250 + ["24|gg"] * 60 + ["24|bg"] * 20


def test_a_certificate_says_both_promises(tmp_path: Path) -> None:
    """It is written, read again, and names counts and bound; with good answers broken it says what is missing."""
    certificate = certify(
        write_loops(tmp_path / "good.jsonl", GOOD), break_at_most=0.01, max_attempts=4, once=True
    )
    assert "at most 1.0% of first answers that were good come out bad, both with confidence 95.0%" in str(
        certificate
    )
    assert "4: 0 of 310 good first answers come out bad, at most 1.0%" in str(certificate)
    certificate.write(tmp_path / "certificate.json")
    assert IssuedCertificate.read(tmp_path / "certificate.json") == certificate
    broken = write_loops(tmp_path / "broken.jsonl", [*GOOD, *["24|gb"] * 6])
    assert certify(broken, max_attempts=4, ledger=tmp_path / "third.ledger").certified
    refused = certify(broken, break_at_most=0.01, max_attempts=4, ledger=tmp_path / "another.ledger", once=True)
    assert not refused.certified
    assert "6 came out bad; 299 with none broken are the least that certify 1.0%" in refused.needed


def test_what_must_be_withheld_is_said(tmp_path: Path) -> None:
    """With 40 % bad final answers and 10 % tolerated, a third of them: (mu - alpha) / (1 - alpha)."""
    file = write_loops(tmp_path / "bad.jsonl", ["4|g"] * 60 + ["4|b"] * 40)
    refused = certify(file)
    assert refused.withheld_at_least == pytest.approx(1 / 3)
    assert "Of the final answers 40.0% are bad: whatever the judge, at least 33.3% must be withheld." in str(
        refused
    )
    assert certify(file, alpha=0.6).withheld_at_least is None


def test_first_answers_are_labelled_for_it_and_misuse_is_one_line(tmp_path: Path) -> None:
    """`--next` chooses them, too; a share out of range and a weighted test are refused."""
    file = write_loops(tmp_path / "loops.jsonl", ["234"] * 5)
    assert {label.row.attempt for label in labels_to_certify(file, thresholds=[4, 3])} == {2, 3}
    assert {label.row.attempt for label in labels_to_certify(file, thresholds=[4, 3], first_answers=True)} == {
        1,
        2,
        3,
    }
    good = write_loops(tmp_path / "good.jsonl", GOOD)
    out = tmp_path / "certificate.json"
    result = refine("certify", good, "--break-at-most", "0.01", "--once", "--out", out)
    assert result.exit_code == 0, result.output
    for wrong in (("1.5",), ("0.01", "--method", "weighted")):
        assert "break_at_most" in refine("certify", good, "--break-at-most", *wrong).stderr
    with pytest.raises(ConfigurationError, match="between 0 and 1"):
        certify(good, break_at_most=0)
