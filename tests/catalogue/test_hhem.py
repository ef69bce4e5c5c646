"""Faithfulness by a classifier is the share of statements that it finds supported by the contexts."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError, load
from judges.models.providers.local_models import HHEM
from judges.testing import ScriptedModel
from tests.kit import replying

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
