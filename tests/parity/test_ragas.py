"""`variant="compat"` gives the numbers of ragas itself, on random verdicts. Skipped where ragas is not installed.

Run it with `uv run --isolated --no-default-groups --group parity pytest tests/parity`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import pytest

from judges import load
from tests.kit import Shown, items, replying
from tests.parity.references import Replies, reference_score

pytestmark = [
    pytest.mark.skipif(find_spec("ragas") is None, reason="ragas is in the optional group parity"),
    pytest.mark.filterwarnings("ignore"),
]

ASSIGNMENTS = 300
QUESTION, ANSWER, REFERENCE = "What is asked?", "The answer text.", "The reference text."


@dataclass(frozen=True)
class Trial:
    """One random assignment of verdicts, told to both sides.

    Args:
        row: The sample.
        ours: What our judge's model replies to the data it is shown.
        theirs: What ragas' model replies to a schema and a prompt.
    """

    row: Mapping[str, Any]
    ours: Callable[[Shown], Mapping[str, Any]] = field(default=lambda data: {})
    theirs: Replies = field(default=lambda schema, prompt: {})


def marks(draw: random.Random, least: int = 1, most: int = 6) -> list[int]:
    """Draw some verdicts; now and then one is neither 0 nor 1."""
    return [draw.choice([0, 0, 1, 1, 1, 2]) for _ in range(draw.randint(least, most))]


def single(**fields: Any) -> dict[str, Any]:
    """Make a sample of one turn."""
    return {"user_input": QUESTION, "response": ANSWER, "reference": REFERENCE, **fields}


def named(prefix: str, verdicts: list[Any]) -> list[str]:
    """Name the claims that verdicts are about."""
    return [f"{prefix} {number}" for number, _ in enumerate(verdicts)]


def stated(verdicts: list[int]) -> list[dict[str, Any]]:
    """Write verdicts as ragas wants them."""
    return [{"statement": "s", "reason": "r", "verdict": one} for one in verdicts]


def faithfulness(draw: random.Random) -> Trial:
    """Draw verdicts on the claims of an answer."""
    found = marks(draw)
    claims = named("claim", found)
    return Trial(
        single(retrieved_contexts=["context"]),
        lambda data: {"claims": claims} if "text" in data else items(*found),
        lambda schema, prompt: {"statements": claims if schema == "StatementGeneratorOutput" else stated(found)},
    )


def context_precision(draw: random.Random) -> Trial:
    """Draw verdicts on contexts."""
    found = marks(draw)
    left = iter(found)
    return Trial(
        single(retrieved_contexts=named("context", found)),
        lambda data: {"reason": "r", "verdict": found[int(data["context"].split()[-1])]},
        lambda schema, prompt: {"reason": "r", "verdict": next(left)},
    )


def answer_correctness(draw: random.Random) -> Trial:
    """Draw the classes of claims."""
    given, wanted = ([draw.random() < 0.5 for _ in range(draw.randint(1, 5))] for _ in range(2))

    def ours(data: Shown) -> Mapping[str, Any]:
        if "text" in data:
            return {"claims": named("a", given) if data["text"] == ANSWER else named("r", wanted)}
        return {
            "answer_claims": items(*given)["items"],
            "reference_claims": items(*wanted)["items"],
            "feedback": "",
        }

    def theirs(schema: str, prompt: str) -> Mapping[str, Any]:
        if schema == "StatementGeneratorOutput":
            return {"statements": ["s"]}
        one = {"statement": "s", "reason": "r"}
        right = sum(given)
        return {
            "TP": [one] * right,
            "FP": [one] * (len(given) - right),
            "FN": [one] * (len(wanted) - sum(wanted)),
        }

    return Trial(single(), ours, theirs)


def factual_correctness(draw: random.Random) -> Trial:
    """Draw verdicts on the claims of the answer and of the reference."""
    given, wanted = (marks(draw, most=12) for _ in range(2))
    claims = {ANSWER: named("given", given), REFERENCE: named("wanted", wanted)}

    def ours(data: Shown) -> Mapping[str, Any]:
        if "text" in data:
            return {"claims": claims[data["text"]]}
        return items(*(given if data["contexts"] == [REFERENCE] else wanted))

    def theirs(schema: str, prompt: str) -> Mapping[str, Any]:
        asked = prompt.rpartition("input:")[2]
        if schema == "ClaimDecompositionOutput":
            return {"claims": claims[ANSWER if ANSWER in asked else REFERENCE]}
        return {"statements": stated(given if "given 0" in asked else wanted)}

    return Trial(single(), ours, theirs)


def topic_adherence(draw: random.Random) -> Trial:
    """Draw which topics were refused, and which are allowed; the list of these may be of any length."""
    refused = [draw.random() < 0.4 for _ in range(draw.randint(1, 6))]
    allowed = [draw.random() < 0.6 for _ in refused]
    topics = named("topic", refused)
    left = iter(refused)

    def ours(data: Shown) -> Mapping[str, Any]:
        if "topics" not in data:
            return {"topics": topics}
        if "allowed_topics" in data:
            return items(*allowed)
        return items(*(refused[int(one["topic"].split()[-1])] for one in data["topics"]))

    def theirs(schema: str, prompt: str) -> Mapping[str, Any]:
        if schema == "TopicExtractionOutput":
            return {"topics": topics}
        if schema == "TopicRefusedOutput":
            return {"refused_to_answer": next(left)}
        return {"classifications": allowed}

    chat = [{"type": "human", "content": QUESTION}, {"type": "ai", "content": ANSWER}]
    return Trial({"user_input": chat, "reference_topics": ["physics"]}, ours, theirs)


def context_recall(draw: random.Random) -> Trial:
    """Draw which sentences of the reference can be attributed."""
    found = [{"statement": f"s{n}", "reason": "r", "attributed": one} for n, one in enumerate(marks(draw))]
    reply = {"classifications": found}
    return Trial(single(retrieved_contexts=["context"]), lambda data: reply, lambda schema, prompt: reply)


def context_entity_recall(draw: random.Random) -> Trial:
    """Draw entities; some occur twice, or in another letter case."""
    names = ["Paris", "paris", "Rome", "Oslo", "Bern", "Kyiv"]
    wanted, found = ([draw.choice(names) for _ in range(draw.randint(0, 6))] for _ in range(2))
    return Trial(
        single(retrieved_contexts=["context"]),
        lambda data: {"entities": wanted if data["text"] == REFERENCE else found},
        lambda schema, prompt: {"entities": wanted if REFERENCE in prompt.rpartition("input:")[2] else found},
    )


def noise_sensitivity(draw: random.Random) -> Trial:
    """Draw what each context supports of the claims of both texts, and which claims are right."""
    contexts, references, answers = (draw.randint(1, 4) for _ in range(3))
    wanted = [marks(draw, references, references) for _ in range(contexts)]
    given = [marks(draw, answers, answers) for _ in range(contexts)]
    right = marks(draw, answers, answers)

    def verdicts(premise: str, *, of_answer: bool) -> list[int]:
        if premise == REFERENCE:
            return right
        return (given if of_answer else wanted)[int(premise.rsplit(maxsplit=1)[-1])]

    def ours(data: Shown) -> Mapping[str, Any]:
        if "text" in data:
            return {"claims": named("given", right) if data["text"] == ANSWER else named("wanted", wanted[0])}
        of_answer = data["claims"][0]["claim"].startswith("given")
        return items(*verdicts(data["contexts"][0], of_answer=of_answer))

    def theirs(schema: str, prompt: str) -> Mapping[str, Any]:
        asked = prompt.rpartition("input:")[2]
        if schema == "StatementGeneratorOutput":
            return {"statements": named("given", right) if ANSWER in asked else named("wanted", wanted[0])}
        premise = (
            REFERENCE if REFERENCE in asked else next(one for one in named("context", wanted) if one in asked)
        )
        return {"statements": stated(verdicts(premise, of_answer="given 0" in asked))}

    return Trial(single(retrieved_contexts=named("context", wanted)), ours, theirs)


def summarization_score(draw: random.Random) -> Trial:
    """Draw answers to questions about a source, and the length of both texts."""
    answers = [draw.choice(["1", "0", "1", "yes"]) for _ in range(draw.randint(1, 8))]
    source, summary = ("x" * draw.randint(1, 300) for _ in range(2))
    replies = {
        "ExtractedKeyphrases": {"keyphrases": ["k"]},
        "QuestionsGenerated": {"questions": named("question", answers)},
        "AnswersGenerated": {"answers": answers},
    }

    def ours(data: Shown) -> Mapping[str, Any]:
        if "summary" in data:
            return replies["AnswersGenerated"]
        return replies["QuestionsGenerated" if "keyphrases" in data else "ExtractedKeyphrases"]

    row = {"response": summary, "reference_contexts": [source]}
    return Trial(row, ours, lambda schema, prompt: replies[schema])


JUDGES: Mapping[str, tuple[str, Callable[[random.Random], Trial], Mapping[str, Any]]] = {
    "faithfulness": ("Faithfulness", faithfulness, {}),
    "context_precision": ("LLMContextPrecisionWithReference", context_precision, {}),
    "context_utilization": ("LLMContextPrecisionWithoutReference", context_precision, {}),
    "answer_correctness": ("AnswerCorrectness", answer_correctness, {"weights": [1.0, 0.0]}),
    "answer_correctness-f2": ("AnswerCorrectness", answer_correctness, {"weights": [1.0, 0.0], "beta": 2.0}),
    "factual_correctness-f1": ("FactualCorrectness", factual_correctness, {"mode": "f1"}),
    "factual_correctness-f2": ("FactualCorrectness", factual_correctness, {"mode": "f1", "beta": 2.0}),
    "factual_correctness-f0.5": ("FactualCorrectness", factual_correctness, {"mode": "f1", "beta": 0.5}),
    "factual_correctness-precision": ("FactualCorrectness", factual_correctness, {"mode": "precision"}),
    "factual_correctness-recall": ("FactualCorrectness", factual_correctness, {"mode": "recall"}),
    "context_recall": ("LLMContextRecall", context_recall, {}),
    "context_entity_recall": ("ContextEntityRecall", context_entity_recall, {}),
    "noise_sensitivity-relevant": ("NoiseSensitivity", noise_sensitivity, {"mode": "relevant"}),
    "noise_sensitivity-irrelevant": ("NoiseSensitivity", noise_sensitivity, {"mode": "irrelevant"}),
    "summarization_score": ("SummarizationScore", summarization_score, {}),
    "topic_adherence-f1": ("TopicAdherenceScore", topic_adherence, {"mode": "f1"}),
    "topic_adherence-precision": ("TopicAdherenceScore", topic_adherence, {"mode": "precision"}),
    "topic_adherence-recall": ("TopicAdherenceScore", topic_adherence, {"mode": "recall"}),
}
"""By our name: the class of ragas, how a trial is drawn, and the settings of both."""


def trials(name: str) -> Iterator[tuple[Trial, Trial]]:
    """Draw all trials of a judge, each twice, because a trial is used up."""
    for seed in range(ASSIGNMENTS):
        made = JUDGES[name][1]
        yield made(random.Random(f"{name}{seed}")), made(random.Random(f"{name}{seed}"))


@pytest.mark.parametrize("name", JUDGES)
def test_compat_agrees_with_ragas(name: str) -> None:
    """The same verdicts give the same number, to 1e-12."""
    reference, _, settings = JUDGES[name]
    for ours, theirs in trials(name):
        model = replying(ours.ours)
        judge = load(f"ragas.{name.partition('-')[0]}", model=model, variant="compat", **settings)
        wanted = asyncio.run(reference_score(reference, theirs.row, theirs.theirs, **settings))
        assert judge(ours.row).value == pytest.approx(wanted, abs=1e-12), ours.row
