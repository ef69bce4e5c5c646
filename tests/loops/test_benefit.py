"""Whether a loop helps, by people's labels of first and final answers."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judges.offline import align, replay
from judges.offline.statistics import judged_together, loop_benefit, mcnemar, rise_gap, sign_flip
from tests.loops.recorded import rows_of, write_loops
from tests.runs.commands import refine


def simulated(
    random: np.random.Generator, loops: int, *, acc: float, ecr: float, eir: float, repeats: int = 1
) -> tuple[list[bool], list[bool], list[int]]:
    """Return first and final answers of loops with known ECR and EIR; a question is as hard at every repeat."""
    questions = loops // repeats
    hardness = random.beta(3 * acc, 3 * (1 - acc), questions) if repeats > 1 else np.full(questions, acc)
    first = random.random(loops) < hardness.repeat(repeats)
    drawn = random.random(loops)
    last = np.where(first, drawn >= eir, drawn < ecr)
    return first.tolist(), last.tolist(), np.arange(questions).repeat(repeats).tolist()


@pytest.mark.parametrize(
    ("effect", "acc", "ecr", "eir", "repeats"),
    [
        ("helps", 0.55, 0.45, 0.06, 1),
        ("harms", 0.75, 0.2, 0.25, 1),
        ("cannot be told", 0.6, 0.15, 0.1, 1),
        ("cannot be told", 0.6, 0.15, 0.1, 4),
    ],
)
def test_simulated_loops_are_called_right_where_labels_suffice(
    effect: str, acc: float, ecr: float, eir: float, repeats: int
) -> None:
    """Of 300 records 95 % are called what they are, neutral ones too, also where questions repeat."""
    random = np.random.default_rng(7)
    counts: Counter[str] = Counter()
    for _ in range(300):
        first, last, questions = simulated(random, 320, acc=acc, ecr=ecr, eir=eir, repeats=repeats)
        counts[loop_benefit(first, last, clusters=questions).effect] += 1
    assert counts[effect] >= 285, counts


def test_intervals_cover_the_shares_they_are_about() -> None:
    """ECR, EIR and the net change lie in their 95 % intervals in at least 94 of 100 simulations."""
    random = np.random.default_rng(3)
    missed: Counter[str] = Counter()
    for _ in range(600):
        first, last, _ = simulated(random, 120, acc=0.7, ecr=0.3, eir=0.05)
        found = loop_benefit(first, last)
        truth = {"ecr": (found.ecr, 0.3), "eir": (found.eir, 0.05), "net": (found.net, 0.3 * 0.3 - 0.7 * 0.05)}
        for name, (figure, value) in truth.items():
            missed[name] += not (figure.low or 0.0) <= value <= (figure.high or 0.0)
    assert max(missed.values()) <= 36, missed


def test_the_test_is_mcnemars_and_over_questions_where_they_repeat() -> None:
    """The p-value equals two other implementations, and repeats of a question are no further evidence."""
    first, last = [False] * 9 + [True] * 11, [True] * 9 + [False] * 2 + [True] * 9
    found = loop_benefit(first, last)
    assert found.p == pytest.approx(mcnemar(9, 2), abs=1e-12)
    assert (found.mended, found.broken, found.least_ratio) == (9, 2, 11 / 9)
    assert found.ratio == pytest.approx(5.5)
    assert (found.effect, found.labels_needed) == ("cannot be told", 37)
    questions = [0] * 3 + [1] * 2 + [2] * 4 + [3] * 2 + list(range(4, 13))
    by_question = loop_benefit(first, last, clusters=questions)
    assert by_question.p == pytest.approx(sign_flip([3, 2, 4, -2]), abs=1e-12)
    assert (by_question.questions, by_question.effect) == (13, "cannot be told")
    assert (by_question.ecr.high or 0) - (by_question.ecr.low or 0) > (found.ecr.high or 0) - (found.ecr.low or 0)


def test_edges_have_a_reason() -> None:
    """No loops, only good ones, and nothing mended or broken: no figure is made up."""
    empty = loop_benefit([], [])
    assert (empty.n, empty.good_before, empty.net.reason) == (0, None, "too_few")
    assert empty.effect == "cannot be told"
    good = loop_benefit([True] * 5, [True] * 5)
    assert (good.ecr.reason, good.eir.value, good.ratio, good.p, good.labels_needed) == (
        "one_class",
        0,
        None,
        1,
        None,
    )
    assert loop_benefit([False] * 8 + [True], [True] * 9).ratio == float("inf")
    assert rise_gap([], []) is None
    with pytest.raises(ValueError, match="one length"):
        loop_benefit([True], [])


def test_parts_are_judged_together() -> None:
    """What alone would be a finding is none among ten, and says how many labels would make it one."""
    one = loop_benefit([False] * 8 + [True] * 40, [True] * 8 + [False] + [True] * 39)
    other = loop_benefit([True] * 40, [True] * 40)
    assert one.effect == "helps"
    first = judged_together([one, *[other] * 9])[0]
    assert first.effect == "cannot be told"
    assert (first.labels_needed or 0) > one.n


LOOPS = ["4|g"] * 20 + ["24|bg"] * 12 + ["34|gg"] * 4 + ["224|gbb"] * 2 + ["2222|bbbb"] * 3 + ["23"] * 4


def test_replay_and_align_lead_with_what_people_say(tmp_path: Path) -> None:
    """Both count the same loops, by attempt too, and say how the judge's rise compares with that of people."""
    file = write_loops(tmp_path / "attempts.jsonl", LOOPS)
    found = replay(file).benefit
    assert found is not None
    counts = found.benefit
    assert (counts.mended, counts.first_bad, counts.broken, counts.first_good) == (12, 15, 2, 26)
    assert (found.loops, found.unlabelled, found.benefit.effect) == (45, 4, "helps")
    assert [(step.name, step.benefit.mended, step.benefit.broken) for step in found.steps] == [
        ("attempt 2", 12, 2),
        ("attempt 3", 0, 0),
        ("attempt 4", 0, 0),
    ]
    assert "max_attempts=2 is what these labels support" in str(found)
    assert found.gap is not None
    assert found.gap.judge > found.gap.people
    aligned = align(file)
    assert aligned.benefit is not None
    assert aligned.benefit.benefit == counts
    assert aligned.report().splitlines()[0] == found.headline
    assert json.loads(json.dumps(aligned.to_dict()))["benefit"]["benefit"]["mended"] == 12


def test_a_loop_that_pleases_its_judge_alone_harms(tmp_path: Path) -> None:
    """The judge accepts all at last, people see good answers broken: the gap and the harm are said."""
    loops = ["24|gb"] * 12 + ["4|g"] * 10 + ["24|bb"] * 5
    found = replay(write_loops(tmp_path / "attempts.jsonl", loops)).benefit
    assert found is not None
    assert found.headline.startswith("The loop HARMS: people call 81.5% of first answers good, 37.0% of final")
    entries = dict(found.entries())
    assert "iterating does not pay" in entries["rule"]
    assert "luck or a loop that pleases its judge" in entries["judge"]
    assert "set max_attempts=1" in entries["attempts"]


def test_judges_and_groups_have_rows_of_their_own(tmp_path: Path) -> None:
    """A record of two judges and a column is told apart by both; a column that no loop has is refused."""
    file = tmp_path / "attempts.jsonl"
    lines = []
    for number, loop in enumerate(["24|bg"] * 9 + ["24|gb"] * 8):
        kind = "b" if loop.endswith("gb") else "a"
        more: dict[str, Any] = {"judge": f"judge {kind}", "judge_digest": kind * 32, "topic": kind}
        lines += [json.dumps(row) for row in rows_of(number, loop, **more)]
    file.write_text("\n".join(lines))
    result = refine("replay", file, "--slice", "topic")
    assert result.exit_code == 0, result.output
    for row in ("judge a", "judge b", "topic=a"):
        assert row in result.stdout
    assert "harms" in next(line for line in result.stdout.splitlines() if line.startswith(" judge b"))
    assert "no recorded loop has 'nothing'" in refine("replay", file, "--slice", "nothing").stderr


def test_without_labels_it_is_the_judges_own_opinion(tmp_path: Path) -> None:
    """Labels that tuned the judge are none, either."""
    bare = write_loops(tmp_path / "bare.jsonl", ["4", "24", "22"])
    tuned = write_loops(tmp_path / "tuned.jsonl", ["24|bg"] * 9, split="tune")
    for file in (bare, tuned):
        found = replay(file).benefit
        assert found is not None
        assert not found.is_known
        assert "the judge's own opinion" in found.headline
        assert list(found.entries()) == []
