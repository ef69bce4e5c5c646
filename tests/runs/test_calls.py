"""Stopped after any call, a run of judges that share calls repeats none, and ends byte for byte the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from judges import Sample, Verdict, as_judge, load
from judges.judge import Judge
from judges.model import EmbeddingResponse, ModelRequest, ModelResponse
from judges.offline import Evaluation, RunSettings, RunStopped, evaluate, load_run
from judges.requests import Deliberation, Embed, ask
from judges.testing import no_waiting
from judges.verdict import Usage

FILES = ("results.jsonl", "cells.jsonl", "summary.json")
ROWS = [
    {
        "question": f"q{i}",
        "answer": "It is blue. It is big.",
        "contexts": ["blue", "big"],
        "reference": "It is blue.",
    }
    for i in range(2)
]
CLAIMS = {"claims": ["It is blue.", "It is big."]}
SUPPORTED = {"items": [{"number": number, "reason": "r", "verdict": "supported"} for number in (1, 2)]}
RATED = {"rationale": "r", "rating": 3, "feedback": "f"}


class CountingModel:
    """A model that finds two claims in everything, supports both, and counts its calls."""

    name = "counting"
    identity = "counting"
    retries = 0
    scripted = True

    def __init__(self) -> None:
        self.calls = 0

    def send(self, request: ModelRequest) -> ModelResponse:
        """Reply as the schema wants it."""
        self.calls += 1
        fields = request.schema.model_fields
        reply: object = CLAIMS if "claims" in fields else SUPPORTED if "items" in fields else RATED
        return ModelResponse(text=json.dumps(reply), usage=Usage.of_call(10, 3), finish_reason="stop")

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Reply after the others had their turn."""
        await asyncio.sleep(0.001)
        return self.send(request)

    def is_model(self, other: object) -> bool:
        """Check whether another is this one."""
        return other is self


def judged(
    model: CountingModel, folder: Path, *, max_calls: int | None = None, resume: bool = False
) -> Evaluation:
    """Judge by three judges, two of which share the claims of the answer."""
    judges = [load(name, model=model) for name in ("faithfulness", "ragas.factual_correctness", "helpfulness")]
    settings = RunSettings(folder=folder, max_calls=max_calls, resume=resume)
    return evaluate(ROWS, judges, run=settings, max_concurrency=5)


def test_no_stop_repeats_a_call_or_changes_a_byte(tmp_path: Path) -> None:
    """Wherever it stops: no call more than allowed, none twice, the same usage and the same bytes in the end."""
    whole = CountingModel()
    evaluation = judged(whole, tmp_path / "whole")
    usage = evaluation["ragas.factual_correctness"].usage
    assert (whole.calls, usage.calls, usage.cached) == (12, 6, 2)
    for stop in range(1, whole.calls):
        model, folder = CountingModel(), tmp_path / f"stopped-{stop}"
        with pytest.raises(RunStopped):
            judged(model, folder, max_calls=stop)
        assert model.calls == stop
        judged(model, folder, resume=True)
        assert model.calls == whole.calls
        for name in FILES:
            assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert load_run(tmp_path / "whole").scores == evaluation.scores


class CrowdedModel(CountingModel):
    """A model that remembers how many calls were made at once."""

    def __init__(self) -> None:
        super().__init__()
        self.in_flight = self.most = 0

    async def asend(self, request: ModelRequest) -> ModelResponse:
        """Reply, and count whoever waits meanwhile."""
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        response = await super().asend(request)
        self.in_flight -= 1
        return response


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_calls_are_in_flight_than_allowed(tmp_path: Path, most: int) -> None:
    """The bound of `evaluate` is that of its run, and it is used."""
    model = CrowdedModel()
    evaluate(ROWS * 4, load("helpfulness", model=model), run=tmp_path / "run", max_concurrency=most)
    assert (model.most, model.calls) == (most, 8)


class Counted:
    """Embeddings that count their texts."""

    name = "counted"
    texts: ClassVar[list[str]] = []  # of the class, as what an object holds is part of its judge's fingerprint

    def embed(self, texts: Sequence[str]) -> EmbeddingResponse:
        """Return a vector for each text."""
        self.texts.extend(texts)
        return EmbeddingResponse([[len(text) / 3, 0.1] for text in texts], Usage.of_call(7, 0), "e")

    async def aembed(self, texts: Sequence[str]) -> EmbeddingResponse:
        """Return vectors after the others had their turn."""
        await asyncio.sleep(0.001)
        return self.embed(texts)


class Embedding(Judge):
    """Embeds an answer, and then asks a model."""

    def __init__(self, name: str, embeddings: Counted, model: CountingModel) -> None:
        self.name, self._embeddings, self._model = name, embeddings, model

    def deliberate(self, sample: Sample) -> Deliberation:
        """Score the first number of the vector, if the model replies."""
        ((first, _),) = yield Embed(self._embeddings, (sample.answer or "",))
        yield from ask(Rated, model=self._model, task=self.name, data={}, reminder="Rate.")
        return Verdict.checked(passed=first > 0, rationale=repr(first))


class Rated(BaseModel):
    """A reply."""

    rationale: str
    rating: int
    feedback: str


@pytest.mark.parametrize("names", [("one",), ("one", "other")])
def test_texts_are_not_embedded_again(tmp_path: Path, names: tuple[str, ...]) -> None:
    """What was embedded before a stop is in the journal: exact, paid once, also for judges that share it."""

    def run(folder: str, **settings: Any) -> Evaluation:
        embeddings = Counted()
        judges = [Embedding(name, embeddings, CountingModel()) for name in names]
        return evaluate(ROWS, judges, run=RunSettings(folder=tmp_path / folder, **settings), max_concurrency=2)

    Counted.texts.clear()
    run("whole")
    assert len(Counted.texts) == len(ROWS)
    with pytest.raises(RunStopped):
        run("run", max_calls=1)
    run("run", resume=True)
    assert len(Counted.texts) == 2 * len(ROWS)
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_judge_that_a_function_asks_is_journaled_too(tmp_path: Path) -> None:
    """What blocks is counted, limited, shared and replayed as what does not: the same bytes, and no call twice."""

    def run(folder: str, model: CountingModel, **settings: Any) -> Evaluation:
        inner = load("helpfulness", model=model)

        def own(question: str, response: str) -> int:
            return inner(user_input=question, response=response).rating or 0

        judges = {"own": as_judge(own), "helpfulness": inner}
        return evaluate(ROWS, judges, run=RunSettings(folder=tmp_path / folder, **settings), max_concurrency=1)

    whole = CountingModel()
    evaluation = run("whole", whole)
    assert whole.calls == sum(evaluation[name].usage.calls for name in ("own", "helpfulness")) == 4
    for calls in (1, 2, 3):
        with pytest.raises(RunStopped, match=f"stopped after {calls} calls, as --max-calls {calls} says"):
            run(f"stopped-{calls}", CountingModel(), max_calls=calls)
        again = CountingModel()
        run(f"stopped-{calls}", again, resume=True)
        assert again.calls == 4 - calls
        for name in FILES:
            assert (tmp_path / f"stopped-{calls}" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


class BusyError(Exception):
    """What an overloaded endpoint answers."""

    status_code = 429


class OverloadedModel(CountingModel):
    """A model whose endpoint is overloaded at every other call."""

    def send(self, request: ModelRequest) -> ModelResponse:
        """Reply, or refuse."""
        response = super().send(request)
        if self.calls % 2:
            raise BusyError
        return response


def test_an_overload_costs_a_judge_that_a_function_asks_nothing(tmp_path: Path) -> None:
    """A call that blocks is repeated like any other, with the same request, and only the answered one counts."""
    inner = load("helpfulness", model=OverloadedModel())

    def own(response: str) -> int:
        return inner(user_input="q", response=response).rating or 0

    with no_waiting():
        evaluation = evaluate(ROWS, {"own": as_judge(own)}, run=RunSettings(folder=tmp_path / "run", max_calls=2))
    assert (evaluation["own"].scored, evaluation["own"].usage.calls) == (2, 2)


async def test_a_run_inside_a_running_loop(tmp_path: Path) -> None:
    """In a notebook, where a loop runs already, a run that blocks is judged in a thread of its own."""
    model = CountingModel()
    evaluation = evaluate(ROWS, load("helpfulness", model=model), run=tmp_path / "run")
    assert (evaluation["helpfulness"].scored, model.calls) == (2, 2)
