"""A bug in a judge of one's own is found: in the log, or as the error itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from judges import Judge, Panel, Sample, Verdict, as_judge
from judges.offline import aevaluate, evaluate
from judges.requests import Deliberation
from judges.testing import ScriptedModel, raising
from refine import SelfRefine

ANSWER = "the judged text"


class Broken(Judge):
    """A judge with a bug, which quotes the answer in its error."""

    name = "broken"

    def deliberate(self, sample: Sample) -> Deliberation:
        """Fail before anything is asked."""
        yield from ()
        raise KeyError(sample.answer)


def broken_function(answer: str) -> bool:
    """Fail in a function that is used as a judge."""
    known: dict[str, bool] = {}
    return known[answer]


@pytest.fixture(params=["judge", "function"])
def judge(request: pytest.FixtureRequest) -> Judge:
    """Give a judge with a bug: a class, or a function."""
    return Broken() if request.param == "judge" else as_judge(broken_function)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Listen to everything that judges log."""
    with caplog.at_level(logging.DEBUG, "judges"):
        yield caplog


def lines(log: pytest.LogCaptureFixture, level: int) -> list[str]:
    """List what was logged on a level."""
    return [record.getMessage() for record in log.records if (record.name, record.levelno) == ("judges", level)]


def test_kind_and_place_are_a_warning(judge: Judge, log: pytest.LogCaptureFixture) -> None:
    """The WARNING names error, judge and line, and the DEBUG line has the traceback, both without texts."""
    verdict = judge(answer=ANSWER)
    (warning,), (traceback,) = lines(log, logging.WARNING), lines(log, logging.DEBUG)
    assert (verdict.unscored, verdict.detail) == ("judge_failed", warning.partition(" (")[0])
    assert warning.startswith("KeyError in ")
    assert "test_faults.py:" in warning
    assert 'File "' in traceback
    assert ANSWER not in warning + traceback + verdict.detail


def test_causes_are_in_the_traceback(log: pytest.LogCaptureFixture) -> None:
    """An error that another one led to is logged with both, and without what either says."""

    def chained(answer: str) -> bool:
        try:
            return broken_function(answer)
        except KeyError as error:
            raise ValueError(f"cannot judge {answer}") from error

    as_judge(chained)(answer=ANSWER)
    (traceback,) = lines(log, logging.DEBUG)
    assert traceback.index("KeyError") < traceback.index("which led to") < traceback.rindex("ValueError")
    assert ANSWER not in traceback


def test_the_loop_logs_texts_only_on_request(judge: Judge, log: pytest.LogCaptureFixture) -> None:
    """In the loop the answer goes out, the fault is logged, and texts are quoted under `log_texts` alone."""
    for log_texts in (False, True):
        log.clear()
        refiner = SelfRefine(ScriptedModel([ANSWER]), judge, log_texts=log_texts)
        assert refiner.invoke("What?").text == ANSWER
        (warning,), (traceback,) = lines(log, logging.WARNING), lines(log, logging.DEBUG)
        assert (ANSWER in warning, ANSWER in traceback) == (log_texts, log_texts)


@pytest.mark.parametrize("log_texts", [False, True])
async def test_an_evaluation_warns_once(judge: Judge, log: pytest.LogCaptureFixture, *, log_texts: bool) -> None:
    """However many rows a fault meets there is one WARNING, and a traceback for each row."""
    rows = [{"answer": f"{ANSWER} {number}"} for number in range(20)]
    for evaluation in (
        evaluate(rows, judge, log_texts=log_texts),
        await aevaluate(rows, judge, log_texts=log_texts),
    ):
        assert evaluation.summary[judge.name].unscored == {"judge_failed": 20}
    warnings, tracebacks = lines(log, logging.WARNING), lines(log, logging.DEBUG)
    assert (len(warnings), len(tracebacks)) == (2, 40)
    assert any(ANSWER in line for line in warnings + tracebacks) is log_texts


def test_raising_lets_the_error_through(judge: Judge) -> None:
    """Within `raising()` the error itself comes out: of a judge, a panel, the loop and an evaluation."""
    calls: list[Any] = [
        lambda: judge(answer=ANSWER),
        lambda: Panel([judge, as_judge(lambda answer: True, name="fine")])(answer=ANSWER),
        lambda: SelfRefine(ScriptedModel([ANSWER]), judge).invoke("What?"),
        lambda: evaluate([{"answer": ANSWER}], judge),
    ]
    for call in calls:
        with raising(), pytest.raises(KeyError):
            call()


def test_a_failure_that_is_no_bug_is_not_logged(log: pytest.LogCaptureFixture) -> None:
    """A judge that says it cannot judge, or a verdict that is plainly bad, is no fault."""
    as_judge(lambda answer: 1)(answer="bad")
    Panel([as_judge(lambda answer: Verdict.without_score("no_claims"), name="silent")])(answer="x")
    assert log.records == []
