"""How judges, refiners and evaluations show themselves: one short line, without secrets or texts."""

from __future__ import annotations

from typing import Any

import pytest

from judges import (
    Cascade,
    Helpfulness,
    Judge,
    Length,
    OpenAICompatible,
    Panel,
    Repeat,
    Rubric,
    as_judge,
    cached,
    load,
)
from judges.offline import evaluate
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine

SECRET_KEY = "sk-very-secret"  # noqa: S105 - made up, to be looked for
ENDPOINT = OpenAICompatible("http://localhost:9/v1?token=t", model="qwen", api_key=SECRET_KEY)


def polite(answer: str) -> bool:
    """Look for a word."""
    return "please" in answer


@pytest.mark.parametrize(
    ("judge", "line"),
    [
        (Helpfulness(ScriptedModel(["x"], name="gpt")), "Helpfulness('helpfulness', model='gpt')"),
        (Helpfulness(ENDPOINT), "Helpfulness('helpfulness', model='qwen')"),
        (load("ragas.faithfulness", model="openai:m"), "Faithfulness('ragas.faithfulness', model='openai:m')"),
        (Length(at_most=9), "Length('length')"),
        (as_judge(polite), "FunctionJudge('polite')"),
        (ScriptedJudge([4]), "ScriptedJudge('scripted')"),
        (Panel([Length(at_most=9), polite], name="both"), "Panel('both')"),
        (Cascade([Length(at_most=9), Helpfulness(ENDPOINT)]), "Cascade('cascade', model='qwen')"),
        (Repeat(Helpfulness(ENDPOINT), 3), "Repeat('helpfulness', model='qwen')"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_judge_names_itself_and_its_models(judge: Judge, line: str) -> None:
    """The class, the name and the models that are asked are shown, and nothing else."""
    assert repr(judge) == line


def test_a_refiner_names_its_generator_its_judge_and_its_main_settings() -> None:
    """Whatever the generator is, the refiner is one short line."""

    def answer(messages: object) -> str:
        return "secret"

    generators: dict[str, Any] = {
        "'scripted'": ScriptedModel(["secret"]),
        "'openai:m'": "openai:m",
        "'answer'": answer,
    }
    for name, generator in generators.items():
        refiner = SelfRefine(generator, Length(at_most=9), success_rating=4)
        assert repr(refiner) == f"SelfRefine({name}, 'length', success_rating=4, max_attempts=3)"


def test_an_evaluation_shows_its_figures() -> None:
    """Number of rows and mean score of each judge, in `repr` and `str`; no row is shown."""
    evaluation = evaluate([{"answer": "a secret"}, {"answer": "b"}], [Length(at_most=3), polite])
    assert repr(evaluation) == str(evaluation) == "Evaluation(2 rows, length 0.500, polite 0.000)"
    silent = evaluate([{"question": "?"}], Length(at_most=3))
    assert repr(silent) == "Evaluation(1 row, length unscored: there is no answer to judge)"


def test_no_secret_is_shown(tmp_path: object) -> None:
    """Keys and queries appear in no line, also not through wrappers."""
    model = cached(ENDPOINT, f"{tmp_path}/c.db")
    rubric = Rubric(model, criteria="The secret criteria.", levels={1: "a", 2: "b", 3: "c", 4: "d"})
    for shown in map(repr, (rubric, SelfRefine("openai:m", rubric), model)):
        assert not [word for word in (SECRET_KEY, "token", "criteria.") if word in shown]
