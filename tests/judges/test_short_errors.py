"""An error is one short line, however large or strange the value is that it names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from graphs import InputError, Policy, self_refine
from judges import (
    Cascade,
    ConfigurationError,
    Helpfulness,
    JudgesError,
    Length,
    Pairwise,
    Panel,
    Pattern,
    Repeat,
    Sample,
    as_judge,
    chat_model,
    load,
)
from judges.offline import compare, evaluate, rank, read_rows
from judges.rag import RAGEvaluator
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

LENGTH = Length(at_most=9)
MODEL = ScriptedModel(["x"], cycle=True)
EVALUATION = evaluate([{"question": "?", "answer": "a" * 5_000}] * 300, LENGTH)


class _Endless:
    """A value whose repr is long, and of many lines."""

    def __repr__(self) -> str:
        return "many\n" * 10_000


class _Mute:
    """A value that has no repr."""

    def __repr__(self) -> str:
        raise RuntimeError("there is none")


VALUES = {
    "text": "x" * 100_000,
    "lines": "x\n" * 50_000,
    "list": ["x" * 1_000] * 1_000,
    "mapping": {f"column {number}": "x" * 100 for number in range(1_000)},
    "number": 10**5_000,
    "evaluation": EVALUATION,
    "rows": EVALUATION.rows,
    "sample": EVALUATION.rows[0].sample,
    "endless": _Endless(),
    "mute": _Mute(),
}
DOORS: dict[str, Callable[[object], object]] = {
    "as_judge": as_judge,
    "panel": lambda value: Panel([value]),
    "panel rule": lambda value: Panel([LENGTH], rule=value),  # type: ignore[arg-type]
    "cascade": lambda value: Cascade([value]),
    "repeat": lambda value: Repeat(LENGTH, [value]),  # type: ignore[arg-type]
    "evaluate": lambda value: evaluate([], value),
    "names": lambda value: evaluate([], Length(at_most=9, name=value)) if not isinstance(value, str) else load(""),  # type: ignore[arg-type]
    "compare": lambda value: compare([], value),  # type: ignore[call-overload]
    "columns": lambda value: compare([], Pairwise(MODEL), a=value, b=value),  # type: ignore[call-overload]
    "rank": lambda value: rank([value]),  # type: ignore[list-item]
    "load": load,  # type: ignore[dict-item]
    "setting": lambda value: load("length", at_most=value if value != 10**5_000 else "many"),
    "metric": lambda value: load("ragas.rouge_score", rouge_type=value),
    "language": lambda value: load("ragas.faithfulness", model=MODEL, language=value),
    "pattern": lambda value: Pattern(required=[value, "("]),  # type: ignore[list-item]
    "model": Helpfulness,
    "chat model": lambda value: chat_model(value, base_url="localhost"),  # type: ignore[arg-type]
    "field": lambda value: Sample.read(user_input="?", reference_topics=value, response=5),
    "columns of a row": lambda value: Sample.read({str(id(value)): value}),
    "rag": lambda value: RAGEvaluator(MODEL).evaluate(value, {"response": ["x"]}),  # type: ignore[arg-type]
    "policy": lambda value: Policy(max_attempts=value if value != 10**5_000 else "many"),  # type: ignore[arg-type]
    "policy's name": lambda value: Policy(max_atempts=value),  # type: ignore[call-arg]
    "generator": lambda value: self_refine(value, ScriptedJudge([4])),  # type: ignore[arg-type]
    "question": lambda value: SelfRefine(MODEL, LENGTH).refine([object(), value]),  # type: ignore[list-item]
}


@pytest.mark.parametrize("door", DOORS)
def test_an_error_is_one_short_line(door: str) -> None:
    """What was given is shown by its beginning, and nothing but our own error comes through."""
    lines = {}
    for name, value in VALUES.items():
        with pytest.raises((JudgesError, InputError)) as caught:
            DOORS[door](value)
        lines[name] = str(caught.value)
    assert {name: line for name, line in lines.items() if "\n" in line or len(line) > 450} == {}


def test_an_evaluation_in_place_of_rows_says_what_to_give() -> None:
    """Judged again as rows, it would be all unscored."""
    with pytest.raises(
        ConfigurationError, match=r"not an Evaluation; give \[row.sample for row in evaluation.rows\]"
    ):
        evaluate(EVALUATION, LENGTH)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="not an Evaluation; give paired"):
        compare(EVALUATION, Pairwise(MODEL))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="rows are read from the path of a file, not from Evaluation"):
        read_rows(EVALUATION)  # type: ignore[call-overload]


def test_a_short_value_is_shown_whole() -> None:
    """What fits is not touched."""
    with pytest.raises(ConfigurationError, match=r"a list of them, not 5$"):
        Pattern(required=5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"cannot make a judge of 5; give"):
        as_judge(5)
