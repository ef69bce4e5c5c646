"""A pytest plugin: the fixture `judged` evaluates answers in a test, and fails it if they are not good enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from judges.offline import Evaluation


@pytest.fixture
def judged() -> Callable[..., Evaluation]:
    """Return a function that evaluates rows as `judges.offline.evaluate` does, and fails the test at a gate.

    It takes `fail_under`, the least mean score by judge, and `max_unscored`, the largest share of a judge's cells
    whose judging may fail, beside the arguments of `evaluate`, and returns the evaluation::

        def test_answers(judged):
            judged(rows, Helpfulness("openai:gpt-5-mini"), fail_under={"helpfulness": 0.8})
    """
    return _judge


def _judge(
    rows: Iterable[object],
    judges: object,
    *,
    fail_under: Mapping[str, float],
    max_unscored: float | None = None,
    **settings: Any,
) -> Evaluation:
    __tracebackhide__ = True
    from judges.offline import evaluate  # noqa: PLC0415 - a test session without the fixture loads nothing
    from judges.offline.run.evaluate import judges_by_name  # noqa: PLC0415 - likewise
    from judges.offline.run.gate import MOST_UNSCORED, Gate  # noqa: PLC0415 - likewise

    gate = Gate(fail_under=fail_under, max_unscored=MOST_UNSCORED if max_unscored is None else max_unscored)
    members = judges_by_name(judges, settings.get("model"))
    gate.check_names(list(members))
    evaluation = evaluate(rows, members, **settings)  # type: ignore[arg-type]  # checked there
    result = gate.result(evaluation)
    if result.verdict != "passed":
        pytest.fail("\n".join(str(check) for check in result.checks if check.result != "passed"), pytrace=False)
    return evaluation
