"""A generator and a judge on one model server, each behind a real client, and what a run comes to."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, get_args

import httpx2
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI

from graphs import DraftError, Unanswered
from graphs.refinement import StopReason
from judges import Helpfulness, OpenAICompatible
from refine import SelfRefine
from tests.faults.catalogue import CRITIC, WRITER, Fault, good
from tests.model_server import Asked, ModelServer, Reply, Wire

How = Literal["sync", "async", "stream"]
HOWS: tuple[How, ...] = get_args(How)
Role = Literal["generator", "judge"]
Client = Literal["langchain", "direct"]
CLIENTS: tuple[Client, ...] = get_args(Client)
"""How a judge reaches its model: through LangChain's OpenAI client, or by our own."""
STOP_REASONS = get_args(StopReason)


@dataclass(frozen=True)
class End:
    """How a run ended.

    Args:
        stop_reason: The one terminal status: why the loop stopped, or the name of a typed error.
        passed: Whether the answer was accepted.
        ratings: The rating of each attempt, or why there is none.
        answer: What was released.
        seconds: How long it took.
    """

    stop_reason: str
    passed: bool
    ratings: tuple[int | str | None, ...]
    answer: AIMessage | None
    seconds: float


class Stage:
    """A model server that plays generator and judge, and clients for it.

    Args:
        server: The server.
        nobody: An address that refuses connections.
        client: HTTP client of blocking calls.
        aclient: HTTP client of the others.
    """

    def __init__(
        self, server: ModelServer, nobody: str, client: httpx2.Client, aclient: httpx2.AsyncClient
    ) -> None:
        self.server = server
        self._nobody = nobody
        self._clients: dict[str, Any] = {"http_client": client, "http_async_client": aclient}
        self._direct: list[OpenAICompatible] = []

    def chat(self, name: str, *, refused: bool = False, **settings: Any) -> ChatOpenAI:
        """Make a client for one of the two models: one that does not repeat anything itself."""
        address = self._nobody if refused else self.server.url
        usual = {"base_url": address, "api_key": "none", "timeout": 30.0, "max_retries": 0, **self._clients}
        return ChatOpenAI(model=name, **{**usual, **settings})

    def judge(self, client: Client = "langchain", *, refused: bool = False) -> Helpfulness:
        """Make a judge that asks the other model, through one of two clients."""
        if client == "langchain":
            return Helpfulness(self.chat(CRITIC, refused=refused))
        return Helpfulness(self.direct(CRITIC, refused=refused))

    def direct(self, name: str, *, refused: bool = False, stream: bool = False) -> OpenAICompatible:
        """Make a client of our own for one of the two models."""
        address = self._nobody if refused else self.server.url
        self._direct.append(OpenAICompatible(address, model=name, api_key="none", timeout_s=30.0, stream=stream))
        return self._direct[-1]

    async def close(self) -> None:
        """Close the connections of our own clients."""
        for one in self._direct:
            await one.aclose()

    def refiner(
        self,
        fault: Fault | None = None,
        role: Role | None = None,
        *,
        client: Client = "langchain",
        times: int | None = None,
        writer: Client = "langchain",
        streaming: bool = False,
        max_retries: int = 0,
        **settings: Any,
    ) -> SelfRefine:
        """Make a refiner of which one side meets a fault.

        Args:
            fault: The fault.
            role: The side.
            client: The judge's client.
            times: How often; None means always.
            writer: The generator's client.
            streaming: Whether the generator's client asks for a stream. A judge's never does.
            max_retries: How often the generator's client repeats by itself.
            settings: Settings of the policy.
        """
        spoiled = {"generator": WRITER, "judge": CRITIC}[role] if role else None
        left = itertools.repeat(0) if times is None else iter(range(times))

        def reply(asked: Asked) -> Reply | Wire:
            met = fault is not None and asked["model"] == spoiled and next(left, None) is not None
            return fault.spoil(asked, good(asked)) if fault is not None and met else good(asked)

        self.server.reply = reply
        refused = role if fault is not None and fault.refused else None
        away = refused == "generator"
        generator = (
            self.direct(WRITER, refused=away, stream=streaming)
            if writer == "direct"
            else self.chat(WRITER, refused=away, streaming=streaming, max_retries=max_retries)
        )
        return SelfRefine(generator, self.judge(client, refused=refused == "judge"), **settings)

    @property
    def asked(self) -> Counter[str]:
        """How many requests the server got for each model."""
        return Counter(one["model"] for one in self.server.requests)


async def run(refiner: SelfRefine, how: How, question: str = "What is the capital of France?") -> End:
    """Ask a question in one of three ways, and tell the one end it comes to."""
    started = time.perf_counter()
    ended, answer = await _ended(refiner, how, question)
    ratings = tuple(one["unscored"] or one["rating"] for one in ended["attempts"])
    return End(ended["stop_reason"], ended["passed"], ratings, answer, time.perf_counter() - started)


async def _ended(refiner: SelfRefine, how: How, question: str) -> tuple[dict[str, Any], AIMessage | None]:
    try:
        if how == "stream":
            (answer,) = await asyncio.to_thread(lambda: list(refiner.stream(question)))
            return answer.response_metadata["refine"], answer
        asked = refiner.arefine(question) if how == "async" else asyncio.to_thread(refiner.refine, question)
        outcome = await asked
    except Unanswered as unanswered:
        return unanswered.outcome.summary(), None
    except DraftError as error:
        return {"stop_reason": type(error).__name__, "passed": False, "attempts": []}, None
    return outcome.summary(), outcome.answer
