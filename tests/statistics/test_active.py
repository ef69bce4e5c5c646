"""Active sampling: labels where the judge is least sure, and a rate that stays right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from judges import ConfigurationError
from judges.offline import align
from judges.offline.statistics import active_mean, active_probabilities, cluster_se
from judges.offline.trust.drawing import labels_to_estimate
from judges.offline.trust.label import LabelFile, Labelling, items_of
from judges.offline.trust.rows import labels_file, read_judged
from tests.runs.commands import refine

Row = dict[str, Any]


def test_probabilities_spend_the_budget_and_leave_nobody_out() -> None:
    """They sum to the budget, none is above 1 or below a quarter of an even share, and follow the uncertainty."""
    uncertainty = [0.0] * 80 + [0.5] * 15 + [50.0] * 5
    probabilities = active_probabilities(uncertainty, 20)
    assert sum(probabilities) == pytest.approx(20)
    assert probabilities[-1] == 1.0
    assert 0.25 * 0.2 <= probabilities[0] < probabilities[80] < 1
    assert active_probabilities([1, 3], 1) == pytest.approx([0.25 * 0.5 + 0.75 * 0.25, 0.25 * 0.5 + 0.75 * 0.75])
    assert active_probabilities([0, 0, 0, 0], 1) == [0.25] * 4
    assert active_probabilities([0, 1], 5) == [1.0, 1.0]
    drawn = active_probabilities([100, 1, 1, 1, 1, 1, 1, 1], 4)
    assert drawn[0] == max(drawn) == 1.0
    assert sum(drawn) == pytest.approx(4)
    for uncertain, budget, uniform in (([-1.0], 1, 0.25), ([1.0], 0, 0.5), ([1, 2], 1, 0), ([1, 2], 1, 1.1)):
        with pytest.raises(ValueError, match=f"uncertainty is 0 or more.*not {budget!r} and {uniform!r}"):
            active_probabilities(uncertain, budget, uniform=uniform)


def test_the_mean_is_that_of_the_labels_where_all_are_drawn() -> None:
    """With every probability 1 it is the mean label with its usual interval; corrections weigh 1 / probability."""
    labels = [float(n % 3 == 0) for n in range(40)]
    whole = active_mean([0.5] * 40, labels, [1.0] * 40)
    assert whole.value == pytest.approx(np.mean(labels))
    assert whole.low is not None
    assert whole.value is not None
    assert whole.value - whole.low == pytest.approx(1.959963984540054 * float(cluster_se(labels) or 0))
    half = active_mean([1.0] * 40, [0.0 if n < 20 else None for n in range(40)], [0.5] * 40)
    assert half.value == pytest.approx(0.0)
    assert (half.uncorrected, half.note) == (1.0, "indicative")
    few = active_mean([1.0] * 40, [1.0] * 9 + [None] * 31, [0.5] * 40)
    assert (few.value, few.reason) == (None, "too_few")
    for probabilities, told in (([None], "None"), ([0], "0")):
        with pytest.raises(ValueError, match=f"the probability with which it was drawn, not {told}"):
            active_mean([1.0], [1.0], probabilities)


def test_it_is_unbiased_and_its_interval_holds() -> None:
    """Over 300 draws from a judge that errs where it is unsure: the mean is right, and 95 % cover the truth."""
    random = np.random.default_rng(4)
    scores = random.beta(0.6, 0.3, 1500)
    people = (random.random(1500) < scores).astype(float)
    verdicts = (scores >= 0.5).astype(float)
    probabilities = active_probabilities(np.sqrt(np.minimum(scores, 1 - scores)).tolist(), 150)
    estimates, covered, widths = [], 0, []
    for _ in range(300):
        drawn = random.random(1500) < probabilities
        labels = [float(label) if shown else None for label, shown in zip(people, drawn, strict=True)]
        figure = active_mean(verdicts.tolist(), labels, probabilities)
        assert figure.value is not None
        assert figure.low is not None
        assert figure.high is not None
        estimates.append(figure.value)
        covered += figure.low <= people.mean() <= figure.high
        widths.append(figure.high - figure.low)
    assert np.mean(estimates) == pytest.approx(people.mean(), abs=3 * np.std(estimates) / 300**0.5)
    assert covered / 300 >= 0.92
    assert np.mean(widths) < 2 * 1.96 * (people.var() / 150) ** 0.5  # labels alone, as many of them


def answers(n: int) -> list[Row]:
    """Return judged answers, a third of them rated 3."""
    return [{"question": f"q {i}", "answer": f"a {i}", "rating": 3 if i % 3 == 0 else 4} for i in range(n)]


def test_from_a_draw_to_a_rate(tmp_path: Path) -> None:
    """`--drawn active --next` keeps probabilities with the rows; their labels give the rate, wherever they lie."""
    file, queue = tmp_path / "rows.jsonl", tmp_path / "next.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in answers(300)))
    drawn = refine("align", file, "--drawn", "active", "--next", queue, "--budget", 90)
    assert drawn.exit_code == 0
    rows = [json.loads(line) for line in queue.read_text().splitlines()]
    assert f"{len(rows)} rows in {queue}" in drawn.stdout
    assert {row["drawn"] for row in rows} == {len(rows)}
    assert len({row["probability"] for row in rows}) == 2
    ann = Labelling(items_of(read_judged(queue)), LabelFile(labels_file(queue)), by="ann")
    while ann.current is not None:
        ann.label(up=int(str(ann.current.sample.user_input)[2:]) % 6 != 0)
    given = [json.loads(line) for line in labels_file(queue).read_text().splitlines()]
    alignment = align(file, queue, sampling="active", resamples=20)
    rate = alignment.pass_rate
    assert rate is not None
    assert rate.corrected.method == "active sampling"
    assert rate.corrected.low is not None
    assert rate.corrected.high is not None
    assert rate.corrected.low < 250 / 300 < rate.corrected.high
    assert rate.uncorrected.value == 1.0
    assert "labels: next.labels.jsonl, which lies beside next.jsonl" in alignment.notes
    some = align(answers(300), given[: len(given) // 2], sampling="active", resamples=20)
    assert any(f"of {len(rows)} drawn rows are labelled" in note for note in some.notes)


def test_an_active_sample_is_one_draw() -> None:
    """Labels without probabilities are none, and a second draw on top of one is refused."""
    labelled = [{**row, "labels": [{"by": "ann", "up": True}]} for row in answers(40)]
    with pytest.raises(ConfigurationError, match="no labelled row has a probability"):
        align(labelled, sampling="active")
    with pytest.raises(ConfigurationError, match="drawn once"):
        labels_to_estimate([{**row, "probability": 0.5} for row in labelled], sampling="active")
    with pytest.raises(ConfigurationError, match="probability is above 0 to 1"):
        align([{**row, "probability": 2} for row in labelled], sampling="active")
    assert len(labels_to_estimate(answers(40), sampling="by_rating")) == 20
