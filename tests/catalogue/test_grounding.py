"""What answers stand on: citations, quotations, documents for a small checker or classifier, contexts, tools."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from judges import ConfigurationError, Verdict, load
from judges.catalogue.general.grounding import _citations_in
from judges.catalogue.ragas.faithfulness import _quoted_in
from judges.models.providers.minilm_and_hhem import HHEM
from judges.models.wrappers.wrapped import speaking
from judges.testing import ScriptedModel
from refine import SelfRefine
from tests.kit import Shown, asked, items, replying
from tests.laws import for_every

CONTEXTS = ["The tower stands in Paris.", "It was built in 1889.", "It is made of iron."]
IDS = ["guide", "history.pdf", "s 3"]


@for_every(
    "answer, citations",
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
    assert [(one.claim, one.mark) for one in _citations_in(answer, CONTEXTS, IDS)] == citations


QUOTED = [
    "Machine learning models improve\naccuracy by 15%. It doesn't always help.",
    "机器学习模型 提高了准确率。它并不总是有用。",
    "Модель стала точнее на треть.",
]


def judged(response: str, contexts: list[str] | None = QUOTED, **settings: Any) -> Verdict:
    """Judge an answer."""
    return load("quoted_spans", **settings)(user_input="", response=response, retrieved_contexts=contexts)


@for_every("text", ["No. " * 60_000, "A." + " " * 100_000 + "b", "A.\n" + "\n" * 100_000 + "b"])
def test_citations_of_a_very_long_answer_are_looked_for_in_seconds(text: str) -> None:
    """A model that repeats itself ("No. No. No.") or prints nothing but blanks holds up no event loop."""
    started = time.process_time()
    assert load("citations", ScriptedModel([]))(response=text, retrieved_contexts=QUOTED).score == 0
    assert time.process_time() - started < 5


@for_every("text", ["'a " * 100_000, "“" * 150_000, '" ' * 150_000, "‘a" * 100_000, " 「 " * 100_000])
def test_a_very_long_answer_of_marks_is_read(text: str) -> None:
    """Whatever stands open, no text is gone through again and again, which would take minutes."""
    started = time.process_time()
    assert judged(text).unscored == "no_claims"
    assert time.process_time() - started < 5


@for_every(
    "text, found",
    [
        ("“outer ‘inner quote’ end”", ["outer ‘inner quote’ end"]),
        ("'90s music and 'the real thing'", ["the real thing"]),
        ('"a"b"c"', ["a", "c"]),
        ('"a\nb"', []),
        ("« vite »", ["vite"]),
        ("''", []),
        ("「一」『二』《三》", ["一", "二", "三"]),
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
    """Also mixed ones, of nested ones the outermost; none across lines, no inches, no apostrophes."""
    assert list(_quoted_in(text)) == found


@for_every("marks", ['"', "“", "«", "»", "'", "“«‹„", '"“', '„"', "' "])
def test_a_very_long_row_of_marks_is_gone_through_once(marks: str) -> None:
    """What is opened and never closed is not looked for again and again, which would take minutes."""
    started = time.process_time()
    assert len(_quoted_in(marks * (300_000 // len(marks)))) <= 1
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


@for_every("unsupported, passed", [(["one moon"], False), ([], True)])
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


CITY: dict[str, Any] = {
    "user_input": "Tell me about Vienna.",
    "response": "Vienna lies on the Danube. It has two million inhabitants. It is in Italy.",
    "retrieved_contexts": [
        "Vienna, on the Danube, is the capital of Austria.",
        "About 2,000,000 people live there.",
    ],
}
CLAIMS = ["Vienna lies on the Danube.", "Vienna has two million inhabitants.", "Vienna is in Italy."]
Pairs = Sequence[tuple[str, str]]


def claiming(claims: list[str]) -> ScriptedModel:
    """Make a model that finds these claims."""
    return replying(lambda data: {"claims": claims})


def giving(
    *probabilities: float, seen: list[list[tuple[str, str]]] | None = None
) -> Callable[[Pairs], list[float]]:
    """Make a classifier that gives each statement its probability, in their order; it notes the batches."""
    order: list[str] = []

    def classify(pairs: Pairs) -> list[float]:
        if seen is not None:
            seen.append(list(pairs))
        order.extend(one for _, one in pairs if one not in order)
        return [probabilities[order.index(one)] for _, one in pairs]

    return classify


def test_the_classifier_is_given_the_joined_contexts_with_each_claim() -> None:
    """Premise first, in batches."""
    seen: list[list[tuple[str, str]]] = []
    judge = load(
        "ragas.faithfulness_with_hhem", model=claiming(CLAIMS), classifier=giving(1, 1, 1, seen=seen), batch_size=2
    )
    judge(CITY)
    premise = "\n".join(CITY["retrieved_contexts"])
    assert seen == [[(premise, CLAIMS[0]), (premise, CLAIMS[1])], [(premise, CLAIMS[2])]]


async def test_sentences_need_no_model() -> None:
    """The answer's sentences are classified as they are."""
    judge = load("ragas.faithfulness_with_hhem", classifier=giving(0.9, 0.8, 0.1), split="sentences")
    for verdict in (judge(CITY), await judge.acall(CITY)):
        assert (verdict.score, verdict.usage.calls) == (2 / 3, 0)
        assert [one.subject for one in verdict.items] == [
            "Vienna lies on the Danube.",
            "It has two million inhabitants.",
            "It is in Italy.",
        ]
    assert judge.models == ()
    assert (judge.explain().calls, judge.explain().models) == ("0", ())


def test_a_classifier_that_fails_leaves_the_verdict_unscored() -> None:
    """The error is named with the function, without the text."""

    def broken(pairs: Pairs) -> list[float]:
        raise RuntimeError(pairs[0][0])

    verdict = load("ragas.faithfulness_with_hhem", model=claiming(CLAIMS), classifier=broken)(CITY)
    assert (verdict.unscored, verdict.detail) == ("judge_failed", "RuntimeError in broken")


async def test_the_classifier_does_not_block_the_event_loop() -> None:
    """It runs in a thread."""
    threads: list[int] = []

    def classify(pairs: Pairs) -> list[float]:
        threads.append(threading.get_ident())
        return [1.0] * len(pairs)

    judge = load("ragas.faithfulness_with_hhem", classifier=classify, split="sentences")
    await judge.acall(CITY)
    assert threads
    assert threading.get_ident() not in threads


def test_a_long_answer_is_classified_in_batches() -> None:
    """All of it."""
    seen: list[list[tuple[str, str]]] = []

    def classify(pairs: Pairs) -> list[float]:
        seen.append(list(pairs))
        return [1.0] * len(pairs)

    judge = load("ragas.faithfulness_with_hhem", classifier=classify, split="sentences", batch_size=500)
    text = " ".join(f"Sentence {number} is {'long ' * 10}enough." for number in range(10_000))
    verdict = judge({**CITY, "response": text, "retrieved_contexts": ["x"] * 200})
    assert (verdict.score, len(verdict.items), len(seen)) == (1.0, 10_000, 20)


PAIRS = [("the cat sat on the mat", "the cat sat"), ("the dog ran", "a cat"), ("the cat", "the " * 2000)]
CODE = """
import torch
from transformers import BertConfig, BertForSequenceClassification

class ToldConfig(BertConfig):
    model_type = "told"

class Told(BertForSequenceClassification):
    config_class = ToldConfig

    def predict(self, pairs):
        return torch.tensor([len(hypothesis) / 100 for _, hypothesis in pairs])
"""


@pytest.fixture(name="transformers", scope="module")
def _transformers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Give transformers, with code that comes with a model kept in a folder of its own, and no way to a hub."""
    patched = pytest.MonkeyPatch()
    patched.setenv("HF_HUB_OFFLINE", "1")
    patched.setenv("HF_HOME", str(tmp_path_factory.mktemp("hub")))
    pytest.importorskip("torch")
    yield pytest.importorskip("transformers")
    patched.undo()


def saved(transformers: Any, folder: Path, labels: list[str]) -> Path:
    """Write a classifier of random weights that knows a few words."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "a", "cat", "dog", "sat", "ran", "on", "mat"]
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=512,
        id2label=dict(enumerate(labels)),
        label2id={name: number for number, name in enumerate(labels)},
    )
    transformers.set_seed(3)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {word: number for number, word in enumerate(words)}
    cutter = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))  # noqa: S106 - a word
    cutter.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=cutter, pad_token="[PAD]").save_pretrained(folder)  # noqa: S106
    return folder


@pytest.mark.parametrize(
    ("labels", "label"),
    [
        (["not_entailment", "entailment"], None),
        (["contradiction", "neutral", "ENTAILMENT"], None),
        (["LABEL_0", "LABEL_1"], None),
        (["yes", "no"], "yes"),
        (["yes", "no"], 0),
        (["score"], None),
    ],
)
def test_a_classifier_of_a_folder_gives_probabilities(
    transformers: Any, tmp_path: Path, labels: list[str], label: str | int | None
) -> None:
    """One for each pair, the same alone as in a batch, however long the pair is."""
    classifier = HHEM(saved(transformers, tmp_path, labels), label=label)
    found = classifier(PAIRS)
    assert len(found) == len(PAIRS)
    assert all(0 < one < 1 for one in found)
    assert [classifier([pair])[0] for pair in PAIRS] == pytest.approx(found, abs=1e-5)
    assert classifier([]) == []


def test_the_label_decides_which_probability(transformers: Any, tmp_path: Path) -> None:
    """Two labels share 1."""
    folder = saved(transformers, tmp_path, ["yes", "no"])
    both = [HHEM(folder, label=one)(PAIRS[:1])[0] for one in ("yes", "no")]
    assert sum(both) == pytest.approx(1)
    assert both[0] != both[1]


@pytest.mark.parametrize("label", [None, "maybe", 7])
def test_a_label_that_cannot_be_told_is_asked_for(
    transformers: Any, tmp_path: Path, label: str | int | None
) -> None:
    """The error lists the labels."""
    folder = saved(transformers, tmp_path, ["yes", "no"])
    with pytest.raises(ConfigurationError, match="'yes'"):
        HHEM(folder, label=label)


def test_code_that_comes_with_a_model_runs_only_where_it_is_trusted(transformers: Any, tmp_path: Path) -> None:
    """Then the model's own `predict` is asked, as HHEM's is."""
    folder = saved(transformers, tmp_path, ["a", "b"])
    (folder / "told.py").write_text(CODE, encoding="utf-8")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    homes = {"AutoConfig": "told.ToldConfig", "AutoModelForSequenceClassification": "told.Told"}
    told = json.dumps({**config, "model_type": "told", "auto_map": homes})
    (folder / "config.json").write_text(told, encoding="utf-8")
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        HHEM(folder)
    assert HHEM(folder, trust_remote_code=True)(PAIRS[:2]) == pytest.approx([0.11, 0.05])


def test_a_folder_without_a_model_is_refused(transformers: Any, tmp_path: Path) -> None:
    """At construction; no hub is asked."""
    with pytest.raises(ConfigurationError, match="cannot be loaded"):
        HHEM(tmp_path)


async def test_a_judge_takes_it(transformers: Any, tmp_path: Path) -> None:
    """Sync and async, without any model that speaks."""
    classifier = HHEM(saved(transformers, tmp_path, ["not_entailment", "entailment"]))
    judge = load("ragas.faithfulness_with_hhem", classifier=classifier, split="sentences")
    sample = {"response": "The cat sat. The dog ran.", "retrieved_contexts": ["the cat sat on the mat"]}
    for verdict in (judge(sample), await judge.acall(sample)):
        assert verdict.unscored is None
        assert [one.subject for one in verdict.items] == ["The cat sat.", "The dog ran."]


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """At construction."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigurationError, match=r"selfrefine\[hhem\]"):
        HHEM("somewhere")


PRECISION = "ragas.non_llm_context_precision_with_reference"
RECALL = "ragas.non_llm_context_recall"


async def test_a_model_that_replies_at_once_is_asked_in_the_order_of_the_contexts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that a script is told as it was written, sync and async; equal contexts are asked about one by one."""
    monkeypatch.setattr("judges.judge._AT_ONCE_S", 0.0)  # as on a machine too busy for a thread to begin in time
    verdicts = [number % 3 > 0 for number in range(24)]
    contexts = [f"context {number % 5}" for number in range(24)]
    row = {"question": "Where?", "reference": "Paris.", "contexts": contexts}
    script = [{"reason": "r", "verdict": one} for one in verdicts]
    judges = [load("ragas.context_precision", model=ScriptedModel(script)) for _ in range(2)]
    for verdict in (judges[0](row), await judges[1].acall(row)):
        assert [one.passed for one in verdict.items] == verdicts
        assert verdict.usage.calls == 24


@for_every("name", ["ragas.context_recall", "ragas.factual_correctness"])
def test_a_short_reference_is_verified_with_its_question(name: str) -> None:
    """A reference such as "In 1889." says nothing alone, so the model that verifies it is shown both."""
    model = ScriptedModel([{"claims": ["It opened in 1889."]}] * 2 + [{"items": []}] * 4)
    if name == "ragas.context_recall":
        model = ScriptedModel([{"items": []}] * 2)
    load(name, model=model)(
        question="When did it open?", answer="It opened in 1889.", reference="In 1889.", contexts=["In 1889."]
    )
    asked = [prompt[-1].text for prompt in model.prompts if '"claims"' in prompt[-1].text]
    assert asked
    assert all("When did it open?" in text for text in asked)


def test_many_contexts_are_compared() -> None:
    """200 with 200 are compared with one another, and what stands there word for word is found at once."""
    texts = [f"Context number {number} is about the tower and its {number} steps." for number in range(200)]
    for name, retrieved, score in ((RECALL, texts[::-1], 1), (PRECISION, ["x" * 60] * 200, 0)):
        assert load(name)(retrieved_contexts=retrieved, reference_contexts=texts).score == score
