"""Retrieved and reference contexts are compared as strings."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from judges import ConfigurationError, Verdict, load

PRECISION = "ragas.non_llm_context_precision_with_reference"
RECALL = "ragas.non_llm_context_recall"
EIFFEL = ["The Eiffel Tower is located in Paris."]
EIFFEL_REFERENCES = [
    "Paris is the capital of France.",
    "The Eiffel Tower is one of the most famous landmarks in Paris.",
]
CHINESE = ["埃菲尔铁塔位于巴黎。"]
CHINESE_REFERENCES = ["巴黎是法国的首都。", "埃菲尔铁塔是巴黎最著名的地标之一。"]


def judged(name: str, retrieved: list[str] | None, references: list[str] | None, **settings: Any) -> Verdict:
    """Judge a retriever."""
    fields = {"retrieved_contexts": retrieved, "reference_contexts": references}
    return load(name, **settings)(user_input="Where is it?", **fields)


@pytest.mark.parametrize(
    ("retrieved", "references", "compat", "corrected"),
    [
        (EIFFEL, EIFFEL_REFERENCES, 0.9999999999, 1.0),
        (CHINESE, CHINESE_REFERENCES, 0.0, 0.0),
        (["ab"], ["ax"], 0.9999999999, 1.0),
        (["zz", "ab"], ["ab"], 0.49999999995, 0.5),
        (["ab", "zz"], ["ab"], 0.9999999999, 1.0),
        (["ab", "ab"], ["ab"], 0.99999999995, 1.0),
        (["zz", "yy"], ["ab"], 0.0, 0.0),
    ],
)
async def test_precision_is_the_average_over_the_relevant_ranks(
    retrieved: list[str], references: list[str], compat: float, corrected: float
) -> None:
    """Relevant from the threshold on; compat adds ragas' epsilon."""
    for variant, score in (("compat", compat), ("corrected", corrected)):
        judge = load(PRECISION, variant=variant)
        sample = {"retrieved_contexts": retrieved, "reference_contexts": references}
        for verdict in (judge(sample), await judge.acall(sample)):
            assert verdict.score == pytest.approx(score, abs=1e-14)
            assert verdict.usage.calls == 0


@pytest.mark.parametrize(
    ("retrieved", "references", "compat", "corrected"),
    [
        (EIFFEL_REFERENCES[:1], EIFFEL_REFERENCES, 0.5, 0.5),
        (CHINESE_REFERENCES[1:], CHINESE_REFERENCES, 0.5, 0.5),
        (["ab"], ["ax"], 0.0, 1.0),
        (["a", "b"], ["a", "b"], 1.0, 1.0),
        (["a"], ["b"], 0.0, 0.0),
    ],
)
def test_recall_is_the_share_of_references_retrieved(
    retrieved: list[str], references: list[str], compat: float, corrected: float
) -> None:
    """Compat asks for more than the threshold, corrected for the threshold, as precision does."""
    assert judged(RECALL, retrieved, references, variant="compat").score == compat
    assert judged(RECALL, retrieved, references).score == corrected


@pytest.mark.parametrize(
    ("name", "variant", "retrieved", "references", "outcome"),
    [
        (PRECISION, "compat", [], ["a"], 0.0),
        (PRECISION, "corrected", [], ["a"], "no_contexts"),
        (PRECISION, "corrected", ["a"], [], "no_reference"),
        (PRECISION, "compat", ["a"], [], "no_reference"),
        (PRECISION, "compat", None, ["a"], "no_contexts"),
        (RECALL, "corrected", [], ["a"], 0.0),
        (RECALL, "compat", [], ["a"], "no_contexts"),
        (RECALL, "corrected", ["a"], [], "no_reference"),
        (RECALL, "compat", ["a"], None, "no_reference"),
        (RECALL, "corrected", None, ["a"], "no_contexts"),
        (RECALL, "corrected", ["a"], ["", " "], "no_reference"),
        (RECALL, "corrected", ["", " "], ["abc"], 0.0),
    ],
)
def test_empty_lists(
    name: str, variant: str, retrieved: list[str] | None, references: list[str] | None, outcome: object
) -> None:
    """Crashes and NaN of the reference are unscored; a retriever that found nothing recalls nothing."""
    verdict = judged(name, retrieved, references, variant=variant)
    assert (verdict.unscored or verdict.score) == outcome


def test_compat_takes_the_threshold_of_ragas() -> None:
    """There is no pass mark in ragas, and `threshold` is the similarity."""
    assert judged(RECALL, ["abcdefgh"], ["abcdefxy"], variant="compat", threshold=0.9).score == 0
    assert judged(RECALL, ["abcdefgh"], ["abcdefxy"], variant="compat", threshold=0.7).score == 1


def test_the_threshold_of_similarity_is_a_setting_of_its_own() -> None:
    """`threshold` stays the pass mark."""
    verdict = judged(PRECISION, CHINESE, CHINESE_REFERENCES, similarity_threshold=0.3, threshold=1)
    assert (verdict.score, verdict.passed) == (1, True)
    assert judged(PRECISION, EIFFEL, EIFFEL_REFERENCES, similarity_threshold=0.6).score == 0
    assert judged(PRECISION, ["martha"], ["marhta"], similarity_threshold=0.9, distance_measure="jaro").score == 1
    assert judged(RECALL, ["x"], ["y"], similarity_threshold=0).score == 1


def test_the_retriever_is_told_what_is_wrong() -> None:
    """Each context has its verdict; feedback names those that are surplus, or missing."""
    verdict = judged(PRECISION, ["zz", "ab"], ["ab"])
    assert [(one.subject, one.passed) for one in verdict.items] == [("zz", False), ("ab", True)]
    assert verdict.rationale == "1. best similarity below 0.5\n2. best similarity 1.0000"
    assert verdict.feedback.startswith("This judges the retriever")
    assert verdict.feedback.endswith("- 1. zz")
    assert judged(RECALL, ["ab"], ["ab", "a long one"]).feedback.endswith("was retrieved:\n- a long one")
    assert judged(RECALL, ["ab"], ["ab"]).feedback == ""


def test_many_contexts_are_compared() -> None:
    """200 with 200 are compared with one another, and what stands there word for word is found at once."""
    texts = [f"Context number {number} is about the tower and its {number} steps." for number in range(200)]
    assert judged(RECALL, texts[::-1], texts).score == 1
    assert judged(PRECISION, ["x" * 60] * 200, texts).score == 0


@pytest.mark.parametrize("value", [-0.1, 1.1, "0.5", True])
def test_wrong_thresholds_are_refused(value: Any) -> None:
    """A similarity lies from 0 to 1."""
    with pytest.raises(ConfigurationError, match="similarity_threshold is a similarity from 0 to 1"):
        load(RECALL, similarity_threshold=value)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rapidfuzz neither can be made."""
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    for name in (PRECISION, RECALL):
        with pytest.raises(ConfigurationError, match=r"selfrefine\[strings\]"):
            load(name)
