"""Citations: present, resolving and supporting, each of them an item."""

from __future__ import annotations

import pytest

from judges.catalogue.general.grounding import citations_in

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
