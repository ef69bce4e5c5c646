"""A generator and a judge on one model server, each behind a real client, and what a run comes to."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import httpx2
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI

from graphs import DraftError, Unanswered
from graphs.refinement import StopReason
from judges import Helpfulness
from refine import SelfRefine
from tests.faults.catalogue import CRITIC, WRITER, Fault, good
from tests.model_server import Asked, ModelServer, Reply, Wire

How = Literal["sync", "async", "stream"]
HOWS: tuple[How, ...] = get_args(How)
Role = Literal["generator", "judge"]
ROLES: tuple[Role, ...] = get_args(Role)

STOP_REASONS = get_args(StopReason)


@dataclass(frozen=True)
class End:
    """How a run ended.

    Args:
        stop_reason: The one terminal status: why the loop stopped, or the name of a typed error.
        passed: Whether the answer was accepted.
        ratings: The rating of each attempt; None where there is none.
        answer: What was released.
        seconds: How long it took.
    """

    stop_reason: str
    passed: bool
    ratings: tuple[int | None, ...]
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

    @staticmethod
    def good(asked: Asked) -> Reply:
        """Reply without a fault."""
        return good(asked)

    def script(self, reply: Callable[[Asked], Reply | Wire]) -> None:
        """Let the server reply so from now on."""
        self.server.reply = reply

    def chat(self, name: str, *, refused: bool = False, **settings: Any) -> ChatOpenAI:
        """Make a client for one of the two models: one that does not repeat anything itself."""
        address = self._nobody if refused else self.server.url
        settings = {"timeout": 30.0, "max_retries": 0, **self._clients, **settings}
        return ChatOpenAI(model=name, base_url=address, api_key="none", **settings)

    def refiner(self, fault: Fault | None = None, role: Role | None = None, **settings: Any) -> SelfRefine:
        """Make a refiner of which one side meets a fault, always.

        The generator streams from its server wherever a client would; a judge never does.
        """
        spoiled = {"generator": WRITER, "judge": CRITIC}[role] if role else None
        streaming = settings.pop("streaming", False)

        def reply(asked: Asked) -> Reply | Wire:
            return fault.spoil(asked, good(asked)) if fault and asked["model"] == spoiled else good(asked)

        self.script(reply)
        refused = {role: True} if fault and fault.refused else {}
        generator = self.chat(WRITER, refused=refused.get("generator", False), streaming=streaming)
        judge = Helpfulness(self.chat(CRITIC, refused=refused.get("judge", False)))
        return SelfRefine(generator, judge, **settings)

    @property
    def asked(self) -> Counter[str]:
        """How many requests the server got for each model."""
        return Counter(one["model"] for one in self.server.requests)


async def run(refiner: SelfRefine, how: How, question: str = "What is the capital of France?") -> End:
    """Ask a question in one of three ways, and tell the one end it comes to."""
    started = time.perf_counter()
    told, answer = await _ended(refiner, how, question)
    ratings = tuple(one["rating"] for one in told["attempts"])
    return End(told["stop_reason"], told["passed"], ratings, answer, time.perf_counter() - started)


async def _ended(refiner: SelfRefine, how: How, question: str) -> tuple[dict[str, Any], AIMessage | None]:
    try:
        if how == "stream":
            (answer,) = await asyncio.to_thread(lambda: list(refiner.stream(question)))
            return answer.response_metadata["refine"], answer
        outcome = await (refiner.arefine(question) if how == "async" else asyncio.to_thread(refiner.refine, question))
    except Unanswered as unanswered:
        return unanswered.outcome.summary(), None
    except DraftError as error:
        return {"stop_reason": type(error).__name__, "passed": False, "attempts": []}, None
    return outcome.summary(), outcome.answer
