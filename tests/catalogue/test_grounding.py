"""What answers stand on: citations, quotations, documents for a small checker, and results of tools."""

from __future__ import annotations

import time
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from judges import Verdict, load
from judges.catalogue.general.grounding import citations_in
from judges.catalogue.parts.text import quotations
from judges.models.wrappers.wrapped import speaking
from judges.testing import ScriptedModel
from refine import SelfRefine
from tests.kit import Shown, asked, items, replying
from tests.laws import for_every

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


QUOTED = [
    "Machine learning models improve\naccuracy by 15%. It doesn't always help.",
    "机器学习模型 提高了准确率。它并不总是有用。",
    "Модель стала точнее на треть.",
]


def judged(response: str, contexts: list[str] | None = QUOTED, **settings: Any) -> Verdict:
    """Judge an answer."""
    return load("quoted_spans", **settings)(user_input="", response=response, retrieved_contexts=contexts)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("“outer ‘inner quote’ end”", ("outer ‘inner quote’ end",)),
        ("'90s music and 'the real thing'", ("the real thing",)),
        ('"a"b"c"', ("a", "c")),
        ('"a\nb"', ()),
        ("« vite »", ("vite",)),
        ("''", ()),
        ("「一」『二』《三》", ("一", "二", "三")),
    ],
)
def test_quotations_are_found_once(text: str, found: tuple[str, ...]) -> None:
    """Outermost ones, none across lines, and no apostrophes."""
    assert quotations(text) == found


@for_every("text", ["'a " * 100_000, "“" * 150_000, '" ' * 150_000, "‘a" * 100_000, " 「 " * 100_000])
def test_a_very_long_answer_of_marks_is_read(text: str) -> None:
    """Whatever stands open, no text is gone through again and again, which would take minutes."""
    started = time.process_time()
    assert judged(text).unscored == "no_claims"
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("»the quick fox« says he and then »jumps over it«", ["the quick fox", "jumps over it"]),
        ("»(the) quick fox« says he and then »… jumps over it«", ["(the) quick fox", "… jumps over it"]),
        ("«le renard», dit-il, « saute par-dessus »", ["le renard", "saute par-dessus"]),
        ("”den snabba räven” och ”hoppar över”", ["den snabba räven", "hoppar över"]),
        ("‚der flinke Fuchs‘ und „springt“", ["der flinke Fuchs", "springt"]),
        ("‚wie geht’s dem Fuchs‘ und ‚er springt‘", ["wie geht’s dem Fuchs", "er springt"]),
        ("״השועל המהיר״ של ד״ר כהן", ["השועל המהיר"]),
        ('“the quick fox" and “jumps over it"', ["the quick fox", "jumps over it"]),
        ('"the quick fox” and "jumps over it”', ["the quick fox", "jumps over it"]),
        ('“he said "the quick fox" to me”', ['he said "the quick fox" to me']),
        ('"he said “the quick fox” to me"', ["he said “the quick fox” to me"]),
        ("“the quick\nfox”, “but not\n\nthis”", ["the quick\nfox"]),
        ('"the quick\nfox"', []),
        ('He is 6\'2" tall, she is 5\'10": "a quick fox"', ["a quick fox"]),
        ('a 15" screen and a 17" one', []),
        ("the foxes' den isn't 'the quick fox'", ["the quick fox"]),
    ],
)
def test_quotations_are_found_in_the_marks_of_many_languages(text: str, found: list[str]) -> None:
    """Also mixed and nested ones; no inches, no apostrophes."""
    assert list(quotations(text)) == found


@for_every("marks", ['"', "“", "«", "»", "'", "“«‹„", '"“', '„"', "' "])
def test_a_very_long_row_of_marks_is_gone_through_once(marks: str) -> None:
    """What is opened and never closed is not looked for again and again, which would take minutes."""
    started = time.process_time()
    assert len(quotations(marks * (300_000 // len(marks)))) <= 1
    assert time.process_time() - started < 5


EARTH: dict[str, Any] = {
    "response": "Earth is the fourth planet from the Sun.",
    "retrieved_contexts": ["Earth is the third planet from the Sun, and the only one known to harbour life.", " "],
}
THREE = {**EARTH, "response": "Earth is the fourth planet. It harbours life. It has one moon."}


def minicheck(*unsupported: str) -> ScriptedModel:
    """Make a Bespoke-MiniCheck that says no to claims with these words."""
    return ScriptedModel(
        lambda messages: "No" if any(f"{one}." in messages[-1].text for one in unsupported) else "Yes"
    )


async def test_minicheck_checks_a_sentence_at_a_time() -> None:
    """One call for each, so that a model trained on single claims can be used; sync and async."""
    model = minicheck("fourth planet")
    judge = load("spring.fact_checking", model=speaking(model, "minicheck"), prompt="minicheck")
    for verdict in (judge(THREE), await judge.acall(THREE)):
        assert (verdict.score, verdict.passed, verdict.usage.calls) == (2 / 3, False, 3)
        assert [one.value for one in verdict.items] == ["absent", "supported", "supported"]
        assert verdict.feedback.splitlines()[1:] == ["- Earth is the fourth planet."]
    assert judge.explain().calls == "s"
    assert 0 < judge.explain().prompt_tokens[0] < 200


@pytest.mark.parametrize(("unsupported", "passed"), [(["one moon"], False), ([], True)])
def test_minicheck_in_compat_checks_the_answer_as_a_whole(
    unsupported: list[str],
    passed: bool,  # noqa: FBT001 - a case
) -> None:
    """One call, and the score stays 0."""
    model = speaking(minicheck(*unsupported), "minicheck")
    judge = load("spring.fact_checking", model=model, prompt="minicheck", variant="compat")
    verdict = judge(THREE)
    assert (verdict.passed, verdict.score, verdict.usage.calls) == (passed, 0.0, 1)
    assert judge.explain().calls == "1"


def test_a_sentence_that_is_not_checked_leaves_the_answer_unscored() -> None:
    """It might be the one that is not supported."""
    model = ScriptedModel(
        lambda messages: "Perhaps" if any("one moon." in one.text for one in messages) else "Yes"
    )
    judge = load("spring.fact_checking", model=speaking(model, "minicheck"), prompt="minicheck")
    assert (judge(THREE).score, judge(THREE).unscored) == (None, "invalid_output")


RESULT = {"tool": "weather", "called_with": {"city": "Porto"}, "returned": "9 degrees"}


def finding(*verdicts: str) -> ScriptedModel:
    """Make a model that finds a claim for each verdict."""
    claims = [f"claim {n}" for n, _ in enumerate(verdicts, 1)]

    def reply(data: Shown) -> dict[str, Any]:
        return {"claims": claims} if "text" in data else items(*verdicts)

    return replying(reply)


def test_in_the_loop_the_results_of_an_agent_count() -> None:
    """Whatever its tools returned on the way to the answer, with no contexts at all."""

    def agent(state: Any) -> dict[str, Any]:
        del state
        call = AIMessage(content="", tool_calls=[{"name": "weather", "args": {"city": "Porto"}, "id": "1"}])
        result = ToolMessage(content="9 degrees", tool_call_id="1", name="weather")
        return {"messages": [call, result, AIMessage(content="It is 9 degrees in Porto.")]}

    model = finding("supported")
    outcome = SelfRefine(agent, load("hallucination", model=model), max_attempts=1).refine("How warm is Porto?")
    assert outcome.stop_reason == "accepted"
    assert asked(model)[-1]["contexts"] == [RESULT]
