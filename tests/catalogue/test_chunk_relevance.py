"""Chunk relevance is the share of the chunks that are relevant to the request."""

from __future__ import annotations

from typing import Any

import pytest

from judges import load
from judges.testing import ScriptedModel
from tests.kit import asked, replying

NAME = "databricks.chunk_relevance"
CHUNKS = ["Paris is the capital.", "Baguettes in Nice.", "Everest."]


def finding(**verdicts: Any) -> ScriptedModel:
    """Make a model that says this of the chunks, by their first word; an exception is raised."""

    def reply(data: dict[str, Any]) -> Any:
        said = verdicts[data["chunk"].split()[0].strip(".")]
        return said if isinstance(said, Exception) else {"rationale": "so", "verdict": said}

    return replying(reply)


def judged(model: ScriptedModel, chunks: list[str], **settings: Any) -> Any:
    """Judge these chunks."""
    return load(NAME, model=model, **settings)(question="What is the capital of France?", contexts=chunks)


@pytest.mark.parametrize(
    ("chunks", "verdicts", "score"),
    [
        (CHUNKS, {"Paris": True, "Baguettes": False, "Everest": False}, 1 / 3),
        (CHUNKS[:2], {"Paris": True, "Baguettes": False}, 1 / 2),
        (CHUNKS[:1], {"Paris": True}, 1.0),
    ],
)
def test_the_value_is_the_precision(chunks: list[str], verdicts: dict[str, bool], score: float) -> None:
    """Relevant / chunks, one call for each, in both variants."""
    verdict = judged(finding(**verdicts), chunks)
    assert (verdict.value, verdict.score, verdict.usage.calls) == (score, score, len(chunks))
    in_words = {name: "Yes" if one else " no " for name, one in verdicts.items()}
    assert judged(finding(**in_words), chunks, variant="compat").score == score


@pytest.mark.parametrize(
    ("said", "score"),
    [("yes", 1), ("Yes.", 1), ("**TRUE**", 1), ("1", 1), ("no", 0), ("N", 0), ("fail", 0), ("maybe", 0), ("", 0)],
)
def test_compat_reads_words_as_mlflow_does(said: str, score: float) -> None:
    """Any other word is unknown; it counts as not relevant, also where all are."""
    verdict = judged(finding(Paris=said, Baguettes=said), CHUNKS[:2], variant="compat")
    assert verdict.score == score


def test_judgements_that_all_failed_are_no_score() -> None:
    """A failure of the judge is not the retriever's."""
    verdict = judged(finding(Paris=ValueError("down")), CHUNKS[:1], variant="compat")
    assert verdict.unscored == "judge_failed"


@pytest.mark.parametrize(
    ("variant", "said", "score"),
    [("corrected", ValueError("down"), 1.0), ("compat", ValueError("down"), 0.5), ("compat", "maybe", 0.5)],
)
def test_a_chunk_without_a_verdict(variant: str, said: object, score: float) -> None:
    """Corrected leaves it out and reports it; compat counts it as not relevant."""
    yes = True if variant == "corrected" else "yes"
    verdict = judged(finding(Paris=yes, Baguettes=said), CHUNKS[:2], variant=variant)
    assert verdict.score == score
    assert verdict.items[1].unscored in ("judge_failed", "undefined")
    assert verdict.detail == "1 of 2 chunks without a verdict"


def test_no_verdict_at_all_is_unscored() -> None:
    """Where every call fails there is nothing to divide."""
    verdict = judged(finding(Paris=ValueError(), Baguettes=ValueError()), CHUNKS[:2])
    assert (verdict.unscored, len(verdict.items)) == ("judge_failed", 2)


def test_zero_chunks_are_unscored() -> None:
    """There is no precision over nothing."""
    assert judged(finding(), []).unscored == "no_contexts"


def test_the_answer_is_not_shown() -> None:
    """A chunk is judged by the request alone."""
    model = finding(Paris=True)
    load(NAME, model=model)(question="Q?", answer="secret", contexts=CHUNKS[:1])
    assert asked(model) == [{"request": "Q?", "chunk": CHUNKS[0]}]


def test_the_feedback_names_the_chunks() -> None:
    """For the retriever, in the language of the question."""
    verdict = load("RetrievalRelevance", model=finding(Paris=False))(question="首都是哪里？", contexts=CHUNKS[:1])
    assert verdict.feedback.splitlines()[1:] == ["以下文本与请求无关：", "- Paris is the capital."]
