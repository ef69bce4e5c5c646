"""Against a real inference server: llama.cpp with a tiny model of random weights, in a child process."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from judges import Helpfulness, OpenAICompatible, Quick, Rubric, Verdict
from judges.catalogue.registry import catalogue
from judges.models.providers.langchain import LangChainModel
from judges.models.structured import Method
from judges.testing import ScriptedModel
from refine import Outcome, SelfRefine
from tests.catalogue.cases import asks_a_model, made, sample_for
from tests.kit import Way, ask, both_ways
from tests.tiny_llama import CONTEXT, serving_llama

pytest.importorskip("xllamacpp", reason="llama.cpp has no wheel for this platform")
pytest.importorskip("gguf", reason="needed to write the model")

JUDGED = 200
"""Drafts that are judged in one run; takes a few seconds."""


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run one server for all tests."""
    with serving_llama(tmp_path_factory.mktemp("llama")) as url:
        yield url


@pytest.fixture
async def clients() -> AsyncIterator[dict[str, Any]]:
    """Open HTTP clients for LangChain's."""
    async with httpx2.AsyncClient(verify=False) as aclient:
        with httpx2.Client(verify=False) as client:
            yield {"http_client": client, "http_async_client": aclient}


@pytest.fixture
def chat(address: str, clients: dict[str, Any]) -> ChatOpenAI:
    """Make a chat model that writes a few letters by chance."""
    return ChatOpenAI(
        model="tiny",
        base_url=address,
        api_key=SecretStr("none"),
        max_retries=0,
        timeout=30,
        temperature=1.0,
        max_completion_tokens=24,
        stream_usage=True,
        **clients,
    )


@pytest.fixture
async def direct(address: str) -> AsyncIterator[OpenAICompatible]:
    """Make our own client of it, for replies by chance in the form of a schema."""
    async with OpenAICompatible(address, model="tiny", api_key="none", temperature=1.0, max_tokens=200) as one:
        yield one


def by(method: Method, chat: ChatOpenAI) -> Helpfulness:
    """Make a judge that asks through LangChain, in one of the ways."""
    return Helpfulness(LangChainModel(chat.model_copy(update={"max_tokens": 200}), method=method))


def terse(model: OpenAICompatible, success_rating: int = 3) -> Rubric:
    """Make a judge with a short prompt: a model without a memory for it needs no more."""
    levels = {1: "bad", 2: "poor", 3: "fair", 4: "good"}
    settings: Any = {"criteria": "chance", "instructions": "Rate by chance.", "success_rating": success_rating}
    return Rubric(model, levels=levels, examples=[], **settings)


def test_free_text_has_its_usage(chat: ChatOpenAI) -> None:
    """A generator gets text, counted by the server in tokens of one letter each."""
    answer = chat.invoke("Hello")

    assert answer.usage_metadata is not None
    assert 0 < answer.usage_metadata["output_tokens"] <= 24
    assert answer.usage_metadata["input_tokens"] > len("Hello")


def test_a_stream_says_what_a_whole_reply_would(chat: ChatOpenAI) -> None:
    """Pieces arrive one by one, the usage last; together they are a text of so many letters."""
    pieces = list(chat.bind(max_tokens=8, temperature=0).stream("Hello"))

    reasons = [
        one.response_metadata["finish_reason"] for one in pieces if "finish_reason" in one.response_metadata
    ]
    counts = [one.usage_metadata["output_tokens"] for one in pieces if one.usage_metadata]
    assert len([one for one in pieces if one.text]) > 2
    assert ("".join(one.text for one in pieces), reasons, counts) == ('"' * 8, ["length"], [8])


@both_ways
async def test_our_own_client_gets_a_verdict(direct: OpenAICompatible, way: Way) -> None:
    """A schema is enforced by the server: whatever the weights, the verdict is a valid one, with its usage."""
    judge = Helpfulness(direct)
    verdict = await ask(judge, way, response="An answer.")

    assert_typed(verdict)
    assert (direct.method, verdict.usage.calls >= 1, verdict.usage.output_tokens > 20) == (
        "json_schema",
        True,
        True,
    )
    assert verdict.model is not None
    assert verdict.model.endswith("tiny.gguf")


async def test_a_verdict_of_one_token_has_probabilities(direct: OpenAICompatible) -> None:
    """The server keeps the reply to one digit, and lists the likeliest tokens as they were before it did."""
    quick = Quick(terse(direct))
    verdicts = [await quick.first.acall(question="q", answer=f"Answer {number}.") for number in range(12)]

    assert {one.usage.output_tokens for one in verdicts} == {1}
    assert {one.rating for one in verdicts} <= {1, 2, 3, 4, None}
    likely = [one for one in verdicts if one.probabilities is not None]
    assert likely
    for verdict in likely:
        assert verdict.probabilities is not None
        assert sum(verdict.probabilities) == pytest.approx(1)
        place = max(range(4), key=verdict.probabilities.__getitem__)
        assert verdict.rating == place + 1


async def test_the_prompt_about_a_piece_is_cached_but_for_the_piece(direct: OpenAICompatible) -> None:
    """From the second piece on the server reads a quarter of the prompt at most; the rest it has read before."""
    quick = Quick(terse(direct, success_rating=1), margin=0)
    outcomes: list[Outcome] = []
    sentences = [f"This is the sentence {letter} of it." for letter in "abcdefgh"]
    refiner = SelfRefine(
        ScriptedModel([" ".join(sentences)], cycle=True),
        quick,
        piece_judge=quick,
        release="pieces",
        piece_chars=1,
        success_rating=1,
        on_outcome=outcomes.append,
    )
    assert (await refiner.ainvoke("Count.")).text == " ".join(sentences)

    # by chance, as for an unreadable digit, the judge itself is asked, too: those say nothing here
    verdicts = [piece.verdict for piece in outcomes[0].attempts[0].pieces if piece.verdict]
    assert len(verdicts) == len(sentences)
    usages = [one.usage for one in verdicts[1:] if one.usage.calls == 1]
    assert usages
    assert min(one.cached_input_tokens / one.input_tokens for one in usages) >= 0.75


async def test_an_assessment_has_probabilities_at_the_place_of_its_rating(direct: OpenAICompatible) -> None:
    """Whatever the rationale says, the token is found by its place in the JSON."""
    levels = {1: "bad", 2: "poor", 3: "fair", 4: "good"}
    judge = Rubric(
        direct, criteria="x", levels=levels, instructions="Rate by chance.", examples=[], probabilities=True
    )
    verdicts = [await judge.acall(question="q", answer=f"Answer {number}.") for number in range(12)]

    told = {one.no_probabilities for one in verdicts if one.unscored is None}
    assert "" in told
    assert told <= {"", "no rating is among the likeliest tokens"}


def test_langchain_gets_a_verdict_by_schema(chat: ChatOpenAI) -> None:
    """The same through LangChain's client, where it is told to ask by schema."""
    verdicts = [by("json_schema", chat)(response="An answer.") for _ in range(2)]

    for verdict in verdicts:
        assert_typed(verdict)
    assert any(verdict.rating for verdict in verdicts)


@pytest.mark.parametrize("method", ["tools", "text"])
def test_nonsense_is_invalid_output(chat: ChatOpenAI, method: Method) -> None:
    """This server ignores a forced tool call, and the model follows no instruction: no verdict is made of that."""
    verdict = by(method, chat)(response="An answer.")

    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)


async def test_a_verdict_cut_short_is_never_taken(address: str) -> None:
    """A reply that ends at its length limit is asked for once more, then given up."""
    async with OpenAICompatible(address, model="tiny", api_key="none", max_tokens=12) as short:
        verdict = await Helpfulness(short).acall(response="An answer.")

    assert (verdict.unscored, verdict.usage.calls) == ("invalid_output", 2)
    assert "length" in verdict.detail
    assert verdict.usage.output_tokens == 24


@pytest.mark.parametrize("client", ["direct", "langchain"])
async def test_an_overflowing_context_is_refused_once(
    direct: OpenAICompatible, chat: ChatOpenAI, client: str
) -> None:
    """The server's 400 is not repeated, nothing is asked in a weaker way, and the next question is answered."""
    judge = Helpfulness(direct) if client == "direct" else by("json_schema", chat)

    verdict = await judge.acall(response="long " * CONTEXT)

    assert (verdict.unscored, verdict.usage.calls) == ("judge_failed", 1)
    assert re.search(r"does not fit the context of tiny \(\d+ tokens, where 8192 fit\): .*400", verdict.detail)
    assert_typed(await judge.acall(response="An answer."))


async def test_64_at_once(direct: OpenAICompatible) -> None:
    """64 questions at once, on a server with 4 slots, are all answered."""
    judge = terse(direct)

    verdicts = await asyncio.gather(*(judge.acall(response=f"Answer {number}.") for number in range(64)))

    for verdict in verdicts:
        assert_typed(verdict)
    assert sum(one.rating is not None for one in verdicts) > 32


@pytest.mark.filterwarnings("ignore::graphs.SelfJudgingWarning")
async def test_a_loop_on_random_weights_ends_as_it_should(direct: OpenAICompatible, chat: ChatOpenAI) -> None:
    """Each run ends as its last verdict says, unless the answer was cut off; each verdict is valid or unscored."""
    refiner = SelfRefine(chat, terse(direct), max_attempts=2)
    at_once = asyncio.Semaphore(8)

    async def ask(number: int) -> Outcome:
        async with at_once:
            return await refiner.arefine(f"Question {number}")

    outcomes: list[Outcome] = []
    while sum(len(one.attempts) for one in outcomes) < JUDGED:
        outcomes += await asyncio.gather(*(ask(number) for number in range(50)))

    for outcome in outcomes:
        verdicts = [one.verdict for one in outcome.attempts if one.verdict is not None]
        for verdict in verdicts:
            if verdict.judge == "refine":
                assert verdict.rationale in UNASKED
            else:
                assert_typed(verdict)
        last = outcome.attempts[-1]
        reaches = last.verdict is not None and last.verdict.reaches(3) and last.kind != "cut"
        assert outcome.passed == (outcome.stop_reason == "accepted") == reaches
    assert {"accepted", "max_attempts"} <= {one.stop_reason for one in outcomes}


UNASKED = {"The answer was cut off.", "There is no text."}
"""What the loop says of an answer itself: by chance it ends at its limit, or holds only blanks."""


def assert_typed(verdict: Verdict) -> None:
    """See that a verdict is one of two things: rated in the scale, or unscored for what a random model does."""
    if verdict.rating is None:
        assert verdict.unscored == "invalid_output"
    else:
        assert verdict.rating in {1, 2, 3, 4}
        assert verdict.rated_natively
        assert verdict.unscored is None


async def test_a_real_server_takes_the_schema_of_every_judge(address: str) -> None:
    """Whatever it then replies by chance, no question of the catalogue is refused, and every verdict is typed."""
    names = [entry.name for entry in catalogue() if asks_a_model(entry.name)]
    async with OpenAICompatible(address, model="tiny", api_key="none", temperature=1.0, max_tokens=150) as model:
        judged = [made(name, model).acall(sample_for(name)) for name in names]
        verdicts = dict(zip(names, await asyncio.gather(*judged), strict=True))

    for name, verdict in verdicts.items():
        values = [verdict, *verdict.items]
        assert "judge_failed" not in [one.unscored for one in values], (name, [one.detail for one in values])
        assert verdict.usage.calls >= 1
