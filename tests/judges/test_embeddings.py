"""Texts become vectors in their order, through LangChain or directly; what is no such reply is refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings

from judges import ConfigurationError, ModelRequestError
from judges.model import EmbeddingModel
from judges.models.providers.embeddings import LangChainEmbeddings, OpenAICompatibleEmbeddings
from judges.models.providers.http_errors import EndpointReplyError, EndpointStatusError
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
    """Its requests would be embedded one by one."""
    with pytest.raises(ConfigurationError, match="list"):
        OpenAICompatibleEmbeddings("http://localhost/v1", model="e").embed("text")
