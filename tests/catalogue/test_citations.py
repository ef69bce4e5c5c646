"""Citations: present, resolving and supporting, each of them an item."""

from __future__ import annotations

import pytest

from judges import load
from judges.catalogue.general.grounding import citations_in
from judges.testing import ScriptedModel, raising
from tests.kit import asked, items

CONTEXTS = ["The tower stands in Paris.", "It was built in 1889.", "It is made of iron."]
IDS = ["guide", "history.pdf", "s 3"]


@pytest.mark.parametrize(
    ("answer", "citations"),
    [
        ("It stands in Paris [1].", [("It stands in Paris.", "1")]),
        ("It stands in Paris. [1] It is of iron. [3]", [("It stands in Paris.", "1"), ("It is of iron.", "3")]),
        ("Paris, 1889 [1, 2].", [("Paris, 1889.", "1"), ("Paris, 1889.", "2")]),
        ("All of it [1-3].", [("All of it.", "1"), ("All of it.", "2"), ("All of it.", "3")]),
        ("Iron[^3].", [("Iron.", "3")]),
        ("它位于巴黎。【1】它由铁制成[3]。", [("它位于巴黎。", "1"), ("它由铁制成。", "3")]),
        ("Built in 1889 [history.pdf].", [("Built in 1889.", "history.pdf")]),
        ("Built [sic] there [a](https://x.org) [9].", [("Built [sic] there [a](https://x.org).", "9")]),
        ("Paris [1].\n\nSources:\n[1] Guide, p. 3\n[2] History", [("Paris.", "1")]),
        ("Paris [^1].\n[^1]: Guide, p. 3", [("Paris.", "1")]),
        ("Paris [1][1].", [("Paris.", "1")]),
        ("Paris (see [1]) since 1889 [Source 2].", [("Paris since 1889.", "1"), ("Paris since 1889.", "2")]),
        ("Iron【3†source】. Paris【4:0†guide.pdf】.", [("Iron.", "3"), ("Paris.", "1")]),
        ("Iron.³ It has 5 km² of it; E=mc², x³.", [("Iron.", "3")]),
        ("Old and high¹,²", [("Old and high", "1"), ("Old and high", "2")]),
        ("Iron<sup>3</sup>, in Paris (source 1).", [("Iron, in Paris.", "3"), ("Iron, in Paris.", "1")]),
        ("Call `x[1]` here.\n```python\nx[2]\n```", []),
        ("No source at all.", []),
    ],
)
def test_citations_are_found_in_every_notation(answer: str, citations: list[tuple[str, str]]) -> None:
    """Each with the sentence that it stands for; links, remarks in brackets and lists of sources are none."""
    assert [(one.claim, one.mark) for one in citations_in(answer, CONTEXTS, IDS)] == citations


def test_each_citation_is_looked_up_and_then_asked_about() -> None:
    """The model sees claim and source of those that resolve; what fails is told apart in the feedback."""
    model = ScriptedModel([items(*(True, False))])
    with raising():
        verdict = load("citations", model=model)(
            question="?", answer="It stands in Paris [1]. It is of gold [3]. It is high [7].", contexts=CONTEXTS
        )
    assert asked(model)[0]["citations"] == [
        {"number": 1, "claim": "It stands in Paris.", "source": 1},
        {"number": 2, "claim": "It is of gold.", "source": 2},
    ]
    assert asked(model)[0]["sources"] == [
        {"number": 1, "text": CONTEXTS[0]},
        {"number": 2, "text": CONTEXTS[2]},
    ]
    assert verdict.score == pytest.approx(1 / 3)
    assert [item.passed for item in verdict.items] == [True, False, False]
    assert verdict.items[2].subject == "[7] It is high."
    assert "do not exist" in verdict.feedback
    assert "- [3] It is of gold. - reason 2" in verdict.feedback


def test_without_citations_or_sources_nothing_is_asked() -> None:
    """No citation is a 0, and so is one that leads nowhere; without contexts there is no score."""
    judge = load("citations", model=ScriptedModel([]))
    none = judge(question="?", answer="It stands in Paris.", contexts=CONTEXTS)
    assert (none.score, none.usage.calls) == (0, 0)
    assert "cites no source" in none.feedback
    assert judge(question="?", answer="It is high [9].", contexts=CONTEXTS).score == 0
    assert judge(question="?", answer="It is high [1].").unscored == "no_contexts"


def test_a_source_is_shown_once_however_often_it_is_cited() -> None:
    """By its number and by its id; so that many citations of a long text cost that text once."""
    model = ScriptedModel([items(*[True] * 3)])
    answer = "It stands in Paris [1]. It has a guide [guide]. It is old [2]."
    row = {"question": "?", "answer": answer, "contexts": CONTEXTS, "retrieved_context_ids": IDS}
    assert load("citations", model=model)(row).score == 1
    shown = asked(model)[0]
    assert [citation["source"] for citation in shown["citations"]] == [1, 1, 2]
    assert [source["text"] for source in shown["sources"]] == CONTEXTS[:2]
