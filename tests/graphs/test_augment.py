"""What the generator sees on a retry: marked as ours, quoted, bounded, and without the reference answer."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from structlog.testing import capture_logs

from graphs import (
    Augmenter,
    Policy,
    Refinement,
    all_drafts,
    fresh,
    last_draft,
    last_drafts,
    restated,
    verify_first,
)
from graphs.augment import FEEDBACK_LIMIT, MARK, QUESTION_LIMIT, added_messages
from graphs.redaction import LONGEST_TEXT, PLACEHOLDER, _redact, withhold
from judges import ConfigurationError, Helpfulness, Panel, Verdict, as_judge
from judges.testing import ScriptedModel
from refine import SelfRefine
from tests.laws import for_every

UNHURRIED = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no fault."""

NONCE = re.compile(r"<<<([0-9a-f]{32})")


def refused(*feedback: str, question: str = "what?", reference: str | None = None) -> Refinement:
    """Make a refinement whose drafts were all refused, with this feedback."""
    evidence: dict[str, Any] = {} if reference is None else {"reference": reference}
    made = Refinement(policy=Policy(max_attempts=9, success_rating=4), question=question, evidence=evidence)
    for number, one in enumerate(feedback, 1):
        made = made.add_draft(AIMessage(f"draft {number}", id=f"id {number}"))
        made = made.add_verdict(Verdict.rated(min(number, 3), feedback=one), now=0)
    return made


def texts(augmenter: Augmenter, made: Refinement) -> list[tuple[str, str]]:
    """List what an augmenter adds, as type and text."""
    return [(one.type, str(one.text)) for one in augmenter(made)]


def listed(note: str) -> list[str]:
    """Read the faults back out of a note: the lines of its list, or without one those after the question."""
    lines = [line.removeprefix("- ") for line in note.splitlines() if line.startswith("- ")]
    return lines or note.rpartition("\n\n")[2].splitlines()


FORMS: dict[str, Augmenter] = {
    "restated": restated,
    "last_draft": last_draft,
    "verify_first": verify_first,
    "all_drafts": all_drafts,
    "last_drafts": last_drafts(2),
}
QUESTIONS = {"en": "What is the capital?", "zh": "首都是哪里？", "ru": "Какой город столица?"}
LETTERS = {"en": "[a-z]", "zh": "[\u4e00-\u9fff]", "ru": "[а-я]"}


def test_last_draft_shows_the_last_draft_and_its_feedback() -> None:
    """The last draft, then the feedback on it and the question; nothing of the drafts before."""
    draft, note = texts(last_draft, refused("first fault", "second fault"))
    assert draft == ("ai", "draft 2")
    assert note[0] == "human"
    assert listed(note[1]) == ["second fault"]


def test_restated_shows_no_draft() -> None:
    """The question again, and then what every draft lacked, the last one's faults first; no fault twice."""
    (note,) = texts(restated, refused("first fault", "second fault\nthird fault", "second fault"))
    assert note == ("human", "what?\n\nsecond fault\nthird fault\nfirst fault")


def test_fresh_shows_nothing() -> None:
    """The question is asked again as it was."""
    assert texts(fresh, refused("first fault")) == []


def test_all_drafts_shows_each_with_its_faults() -> None:
    """Every draft is followed by its faults; the question stands once, at the end."""
    notes_and_drafts = texts(all_drafts, refused("first fault", "second fault", "third fault"))
    assert [kind for kind, _ in notes_and_drafts] == ["ai", "human"] * 3
    assert [text for kind, text in notes_and_drafts if kind == "ai"] == ["draft 1", "draft 2", "draft 3"]
    notes = [text for kind, text in notes_and_drafts if kind == "human"]
    assert [listed(note) for note in notes] == [["first fault"], ["second fault"], ["third fault"]]
    assert ["what?" in note for note in notes] == [False, False, True]


@pytest.mark.parametrize(("k", "shown"), [(1, ["draft 3"]), (2, ["draft 2", "draft 3"])])
def test_last_drafts_shows_the_last_k(k: int, shown: list[str]) -> None:
    """`last_drafts(k)` shows k drafts."""
    notes_and_drafts = texts(last_drafts(k), refused("a", "b", "c"))
    assert [text for kind, text in notes_and_drafts if kind == "ai"] == shown


@pytest.mark.parametrize("k", [0, -1, True, 1.5, "2", None])
def test_last_drafts_takes_a_whole_number_from_1(k: Any) -> None:
    """Anything else is refused with the value."""
    with pytest.raises(ConfigurationError, match=re.escape(repr(k))):
        last_drafts(k)


def test_what_is_added_is_marked_as_ours_and_has_the_question() -> None:
    """In every form and language, last where a draft stands before; and a draft has no id of the generator's."""
    for name, form in FORMS.items():
        for language, question in QUESTIONS.items():
            for feedback in (("a", "b"), ("", "")):
                added = form(refused(*feedback, question=question))
                note, is_first = str(added[-1].text), name == "restated"
                place = note.startswith(f"{question}\n\n") if is_first else note.endswith(f"\n\n{question}")
                assert place, (name, language)
                for one in added:
                    assert one.additional_kwargs[MARK] == ("draft" if one.type == "ai" else "feedback")
                    assert one.id is None


def test_a_question_without_text_is_pointed_at() -> None:
    """An image alone cannot be repeated: the note has a request to answer what stands above."""
    for name, form in FORMS.items():
        note = str(form(refused("a", question=""))[-1].text)
        assert "Answer the question above once more." in note.split("\n\n"), name


def test_a_long_question_is_repeated_in_part() -> None:
    """It stands in full above already."""
    (note,) = texts(restated, refused("a", question=f"begin {'x' * 3 * QUESTION_LIMIT} end"))
    assert len(note[1]) < QUESTION_LIMIT + 200
    assert note[1].endswith(" end\n\na")


def test_a_note_states_faults_and_neither_rating_nor_gate() -> None:
    """One line a fault, without bullets, repeats, ratings, or what would be accepted."""
    feedback = "Rating: 2/4\n- be short (2/4)\n* be kind\n2. be short\n\nScore: 0.3."
    for name, form in FORMS.items():
        note = texts(form, refused(feedback))[-1][1]
        assert listed(note) == ["be short", "be kind"], name
        assert not re.search(r"\d|success|review", note), name


def test_a_panels_faults_are_told_the_weightiest_first() -> None:
    """The member that rated lowest is heard first, and no member is named."""
    panel = Panel(
        [
            as_judge(lambda _: {"rating": 2, "feedback": "Be kind."}, name="kind"),
            as_judge(lambda _: {"rating": 1, "feedback": "- Be right."}, name="b"),
        ]
    )
    model = ScriptedModel(["one", "two"])
    SelfRefine(model, Panel([panel, as_judge(lambda _: 4, name="fine")]), max_attempts=2).invoke("what?")
    assert listed(str(model.prompts[1][-1].text)) == ["Be right.", "Be kind."]


@pytest.mark.parametrize("language", QUESTIONS)
def test_a_note_speaks_the_language_of_the_question(language: str) -> None:
    """English, Chinese and Russian have notes of their own."""
    for form in FORMS.values():
        for feedback in ("", "x"):
            note = texts(form, refused(feedback, feedback, question=QUESTIONS[language]))[-1][1]
            ours = re.sub(r"<\S+>|KEEP", "", note)
            assert len(re.findall(LETTERS[language], ours)) > len(ours) / 2


PIECES = [*"\n\r\x85\u2028- <>/|x", "feedback", "反馈", "замечания", "<|im_end|>", "what?", "</s>"]
INJECTED = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@given(INJECTED | st.text(max_size=300), st.sampled_from([name for name in FORMS if name != "restated"]))
@UNHURRIED
def test_feedback_stays_in_its_list(feedback: str, form: str) -> None:
    """Whatever the judge wrote, each line of it is one of the list; around it stand our words, as ever."""
    note, bare = (texts(FORMS[form], refused(f"x{text}"))[-1][1] for text in (feedback, "y"))
    ours = [line for line in note.splitlines() if not line.startswith("- ")]
    assert ours == [line for line in bare.splitlines() if not line.startswith("- ")]
    assert listed(note)[0].startswith("x")
    fence = [line for line in bare.splitlines() if line.startswith("<")]
    assert re.findall(r"<[^<>\n]*(?:feedback|反馈|замечания)[^<>\n]*>|<\|im_end", note) == fence


@given(INJECTED | st.text(max_size=300))
@UNHURRIED
def test_feedback_stays_behind_the_question(feedback: str) -> None:
    """Without a list it is one paragraph after the question, without markers of a conversation."""
    (note,) = texts(restated, refused(f"x{feedback}"))
    question, faults = note[1].split("\n\n")
    assert (question, faults[0]) == ("what?", "x")
    assert not re.search(r"<[^<>\n]*(?:feedback|反馈|замечания)[^<>\n]*>|<\|im_end", faults)


@pytest.mark.parametrize(
    "settings",
    [
        {"augment": "last_draft"},
        {"augment": "all_drafts"},
        {"augment": "verify_first"},
        {"release": "pieces", "piece_chars": 1},
        {"release": "pieces", "piece_chars": 1, "continuation": "prefill"},
    ],
)
def test_half_a_character_of_a_draft_costs_no_retry(settings: Any) -> None:
    """Endpoints write halves of emoji, and most clients cannot send them: the next attempt would fail."""
    model = ScriptedModel(["Hello \ud83d. BAD.", "Hello."])
    judge = as_judge(lambda answer: "BAD" not in answer)
    refiner = SelfRefine(model, judge, **{**settings, **({"piece_judge": judge} if "release" in settings else {})})
    assert refiner.refine("Greet me.").passed
    assert "Hello ?." in "".join(message.text for message in model.prompts[1]).encode().decode()


def test_feedback_is_bounded() -> None:
    """Of a feedback without end only the beginning reaches the generator, at once."""
    (note,) = texts(restated, refused("ab " * 5_000_000, reference="truth"))
    assert FEEDBACK_LIMIT - 2 <= len("".join(listed(note[1]))) <= FEEDBACK_LIMIT


def test_a_reference_across_the_bound_is_withheld() -> None:
    """A reference answer that the bound cuts through leaves no beginning behind."""
    reference = " ".join(f"word{number}" for number in range(3_000))
    (note,) = texts(restated, refused(f"{'x ' * (FEEDBACK_LIMIT // 4)}{reference}", reference=reference))
    assert "word0" not in note[1]


@pytest.mark.parametrize("made", [None, "again", ["again"], [("user", "again")], {"messages": []}, 7])
def test_an_own_augmenter_gives_messages(made: Any) -> None:
    """A function that gives anything but messages is refused, without what it gave."""
    policy = Policy(augment=lambda _: made)
    judged = Refinement(policy=policy).add_draft(AIMessage("draft")).add_verdict(Verdict.rated(1), now=0)
    with pytest.raises(
        ConfigurationError, match=r"augment function returned .*; return a list of messages"
    ) as raised:
        judged.add_messages(added_messages(judged))
    assert "again'" not in str(raised.value).split(";")[0]


def test_an_own_augmenter_may_give_a_tuple_or_nothing() -> None:
    """An empty list asks the same question again."""
    each: list[Any] = [(), [], (HumanMessage("shorter"),)]
    for made in each:
        policy = Policy(augment=partial(lambda made, _: made, made))
        judged = Refinement(policy=policy).add_draft(AIMessage("draft")).add_verdict(Verdict.rated(1), now=0)
        assert judged.add_messages(added_messages(judged)).added == tuple(made)


LEAKS = {
    "whole": ("The capital is Paris.", "Say: The capital is Paris.", "Say: [...]."),
    "without its full stop": ("The capital is Paris.", 'Say "The capital is Paris" first', 'Say "[...]" first'),
    "a word": ("Paris", "Name Paris, not Rome.", "Name [...], not Rome."),
    "another case": ("Paris", "Name PARIS, paris.", "Name [...], [...]."),
    "a word with an ending": ("Paris", "The Parisian's town.", "The [...]'s town."),
    "a sentence of several": ("It is Paris. It lies on the Seine.", "Add: it lies on the Seine", "Add: [...]"),
    "a short sentence": ("Paris. It lies on the Seine.", "It is Paris!", "It is [...]!"),
    "a list": ("- Paris\n- Rome", "Paris is missing, rome too", "[...] is missing, [...] too"),
    "other spacing": ("It is Paris", "Say it  is\n\tParis now", "Say [...] now"),
    "marked up": ("It is Paris", "Say **it** _is_ `Paris`", "Say **[...]`"),
    "typographic quotes": ('He said "no".', "Write: He said “no”", "Write: [...]”"),
    "invisible characters": ("Paris", "It is P\u200bar\u00adis.", "It is [...]."),
    "full width": ("Paris 42", "Ｐａｒｉｓ ４２", "[...]"),
    "composed or not": ("Café Zoë", "cafe\u0301 zoe\u0308", "[...]"),
    "sharp s": ("Straße", "STRASSE", "[...]"),
    "a number": ("42", "It is 42, not 142 or 420.", "It is [...], not 142 or 420."),
    "a fraction": ("3.14", "Say 3.14; not 3.15", "Say [...]; not 3.15"),
    "an amount": ("$42", "It costs $42, not $420", "It costs $[...], not $420"),
    "a letter": ("B", "A better answer is B, not b", "A better answer is [...], not b"),
    "a sign": ("→", "Use → here", "Use [...] here"),
    "signs": ("!?", "Use !? here!", "Use [...] here!"),
    "yes": ("Yes", "Answer yes; yesterday is wrong.", "Answer [...]; yesterday is wrong."),
    "chinese": ("巴黎是法国的首都。", "应该回答“巴黎是法国的首都”。", "应该回答“[...]”。"),
    "a chinese word": ("巴黎", "答案是巴黎，不是里昂", "答案是[...]，不是里昂"),
    "a chinese sentence": ("是的。首都是巴黎。", "请写首都 是巴黎", "请写[...]"),
    "japanese": ("パリです。", "答えは「パリです」", "答えは「[...]」"),
    "korean": ("파리", "파리는 수도입니다", "[...]는 수도입니다"),
    "russian": ("Столица — Париж.", "Напиши: столица - Париж", "Напиши: [...]"),
    "a russian word": ("Париж", "Речь о Париже, не о Риме", "Речь о [...], не о Риме"),
    "a short russian word": ("да", "Надо сказать да, когда спросят", "Надо сказать [...], когда спросят"),
    "code": ("git reset --soft HEAD~1", "Use `git reset --soft HEAD~1`.", "Use `[...]`."),
    "twice": ("Paris", "Paris Paris", "[...] [...]"),
    "only that": ("Paris", "Paris", "[...]"),
    "words joined": ("New York City", "Write NewYork City or new-yorkcity.", "Write [...] or [...]."),
    "a word divided": ("Madagascar", "Mada-\n  gascar, Mada gascar", "[...], [...]"),
    "accents that are letters": ("Łódź, Tromsø", "lodz and Tromso: Lodz Tromso", "lodz and Tromso: [...]"),
    "digits in groups": ("1,000.50 USD", "It is 1000.50 USD or 1 000.50 USD.", "It is [...] or [...]."),
    "a number in groups": ("1234567", "Say 1,234,567; 1.234.567; 1 234 567.", "Say [...]; [...]; [...]."),
    "a possessive": ("Einstein's theory", "The theory is Einsteins theory.", "The theory is [...]."),
    "a possessive at the end": ("Bob's", "It was Bob, it was Bob's.", "It was [...], it was [...]."),
    "a possessive in between": ("The dog\u2019s bone", "Name the dog bone", "Name [...]"),
}


@pytest.mark.parametrize("case", LEAKS)
def test_a_reference_is_withheld(case: str) -> None:
    """The reference answer, or a sentence of it, is taken out, and nothing around it."""
    reference, feedback, left = LEAKS[case]
    assert _redact(feedback, reference) == left


@pytest.mark.parametrize("reference", ["Yes.", "no", "True", "FALSE", "да", "Нет", "是", "否。", "对", "错"])
def test_the_answer_to_a_closed_question_is_withheld(reference: str) -> None:
    """A yes or no is an ordinary word, and the whole answer where it is the reference."""
    word = reference.strip(".。")
    assert withhold(f"Answer: {word}!", {"reference": reference}) == f"Answer: {PLACEHOLDER}!"
    assert withhold(f"Answer: {word}!", {"rubrics": {"1": reference}}) == f"Answer: {word}!"


KEPT = {
    "no reference": (None, "Say Paris."),
    "an empty reference": (" ", "Say Paris."),
    "a part of a word": ("art", "The article starts late."),
    "an article": ("A", "Give a reason and an example."),
    "a number in a number": ("14", "It was 3.141 or 2014."),
    "an item's number": ("1. Paris", "Mend 1 thing."),
    "an abbreviation": ("Fruit, e.g. apples.", "Give an example, e.g. a name."),
    "a question word": ("The capital of France is Paris.", "You did not name the capital of France."),
    "a russian part of a word": ("да", "Надо иногда"),
    "digits of a list": ("123", "Mend the points 1, 2, 3."),
    "the ends of sentences": ("an art", "Not so a. N art"),
    "a long word that only begins alike": ("state", "Restate the statesmanlike part."),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_is_no_reference_is_kept(case: str) -> None:
    """What merely looks like a part of the reference stays as it is."""
    reference, feedback = KEPT[case]
    assert _redact(feedback, reference) == feedback


@given(st.text(min_size=1, max_size=40), st.text(max_size=20), st.text(max_size=20))
@settings(UNHURRIED, max_examples=300)
def test_any_reference_is_withheld(reference: str, before: str, after: str) -> None:
    """Whatever the reference is, written out between blanks it does not get through."""
    reference = reference.strip()
    assume(reference and reference not in f"{before} {PLACEHOLDER} {after}")
    assert reference not in _redact(f"{before} {reference} {after}", reference)


@given(st.text(max_size=200), st.sampled_from(["zzzzz qqqqq", "ｚｚｚｚｚｑ", "жжжжжщщщ"]))
@UNHURRIED
def test_a_feedback_without_the_reference_is_untouched(feedback: str, reference: str) -> None:
    """Where nothing of the reference stands in it, a text comes back as it was, character by character."""
    assume("zzz" not in feedback.lower())
    assert _redact(feedback, reference) == feedback


def test_a_long_reference_is_withheld_at_once() -> None:
    """A reference of a megabyte costs no noticeable time."""
    reference = " ".join(f"The town number {number} is large." for number in range(30_000))
    assert _redact("Say: the town number 29999 is large", reference) == "Say: [...]"


@pytest.mark.parametrize(
    "text", ["the town number ", "The town number 7 is large. ", "巴黎是", "a ", "e\u0301", "aé"]
)
def test_redaction_takes_time_by_the_length_alone(text: str) -> None:
    """A long text that nearly repeats a long reference costs no noticeable time, and is bounded."""
    reference = " ".join(f"The town number {number} is large." for number in range(3_000))
    started = time.process_time()
    rest = _redact(text * (200_000 // len(text)), f"{reference} {'a ' * 3_000}b. 巴黎是{'巴' * 300}")
    assert time.process_time() - started < 2
    assert len(rest) <= LONGEST_TEXT + len(f" {PLACEHOLDER}")


REFERENCES = [
    "Paris",
    "PARIS is the capital.",
    "The tower is 330 m tall. It was built in 1889, by Eiffel!\nIt stands in Paris.",
    'He said: "no", then (quietly) left; why?',
    "巴黎是法国的首都。它位于塞纳河畔。",
    "北京",
    "Столица Франции — Париж. Он стоит на Сене.",
    "Москва",
    "42",
    "-273.15",
    "1,000.50 USD",
    "yes",
    "x = {y}; print('%s' % x)",
    "<b>bold</b> & co",
    "Grüße aus Köln",
    "line one\r\nline two",
    "   padded   ",
    "Ωmega ≥ 3",
    "パリ",
    "git reset --soft HEAD~1",
]

WAYS: list[Callable[[str], str]] = [str, str.upper, str.lower, lambda text: text.replace(" ", "  "), json.dumps]


def telling(reference: str, nonce: str, way: Callable[[str], str]) -> Callable[[list[BaseMessage]], object]:
    """Make a judge's model that tells all it must not, in every field, and accepts the third draft."""
    asked = iter(range(1, 99))

    def reply(messages: list[BaseMessage]) -> object:
        fence = NONCE.findall(str(messages[-1].text))[0]
        nonces.append(fence)
        leak = (
            f"The reference is {way(reference)} and the mark {fence} {fence.upper()}, so write: {way(reference)}."
        )
        return {"rationale": leak, "rating": 4 if next(asked) == 3 else 1, "feedback": leak}

    nonces: list[str] = [nonce]
    reply.nonces = nonces  # type: ignore[attr-defined]  # handed out with the function
    return reply


@pytest.mark.parametrize("reference", REFERENCES)
@for_every("way", range(len(WAYS)))
def test_reference_and_nonce_reach_nobody(reference: str, way: int, caplog: pytest.LogCaptureFixture) -> None:
    """A judge that repeats the reference and the fence's number tells neither to generator, client or log."""
    caplog.set_level(logging.DEBUG)
    reply = telling(reference, "0" * 32, WAYS[way])
    for augment in ("last_draft", "all_drafts"):
        reply = telling(reference, "0" * 32, WAYS[way])
        model = ScriptedModel([f"draft {number} of mine" for number in ("i", "ii", "iii")], name="generator")
        inner = SelfRefine(model, Helpfulness(ScriptedModel(reply)), max_attempts=3, augment=augment)
        with capture_logs() as logs:
            outcome = inner.refine("question?", evidence={"reference": reference})
        assert outcome.answer is not None
        assert (outcome.passed, len(model.prompts)) == (True, 3)
        prompts = "\n".join(str(one.text) for prompt in model.prompts for one in prompt)
        values = [
            prompts,
            str(outcome.answer.content),
            str(outcome.answer.response_metadata),
            str(logs),
            caplog.text,
        ]
        nonces = reply.nonces  # type: ignore[attr-defined]  # see above
        assert len(nonces) == 4
        for text in values:
            folded = " ".join(text.casefold().split())
            for canary in (reference, *nonces):
                shown = " ".join(canary.casefold().split())
                assert not re.search(rf"(?<!\w){re.escape(shown)}(?!\w)", folded), (canary, text)
