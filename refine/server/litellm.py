"""LiteLLM's generic guardrail: `POST /beta/litellm_basic_guardrail_api`.

LiteLLM sends the texts of a response without the conversation, so only judges that need none can serve here; to
judge answers to questions, put the guard behind LiteLLM as a model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from graphs import Outcome
from graphs.drafts import Draft
from graphs.drivers import arun
from graphs.errors import Unanswered
from judges.entry import Explanation
from judges.errors import ConfigurationError
from judges.sample import canonical_field
from refine.server.dialects import chat
from refine.server.dialects.protocol import Json, JudgedRequest
from refine.server.dialects.reading import objects, string
from refine.server.errors import ApiError
from refine.server.generator import UpstreamGenerator
from refine.server.guards import Guard
from refine.server.responder import Reply

PATH = "/beta/litellm_basic_guardrail_api"
_MOST_TEXTS = 100
"""Texts of one request, which are judged at once; a response of LiteLLM has one for each choice."""
_UNKNOWN_QUESTION = (
    "The question is not known. Keep what the answer says, in its language, and mend only its faults."
)


def guard_named(body: Json) -> str | None:
    """Return the guard that LiteLLM's configuration names, in `additional_provider_specific_params`."""
    settings = body.get("additional_provider_specific_params")
    return (string(settings.get("guard")) or None) if isinstance(settings, dict) else None


async def check(guard: Guard, body: Json, headers: Mapping[str, str]) -> Reply:
    """Judge the texts of a response; a request, which holds no answer yet, is let through.

    Args:
        guard: The guard.
        body: What LiteLLM sends.
        headers: Headers for the upstream, with the operator's key.

    Raises:
        ApiError: If the body cannot be read, or the judge needs a conversation.
    """
    texts = body.get("texts") or []
    if body.get("input_type") not in ("request", "response"):
        raise ApiError(400, "input_type is 'request' or 'response'", code="invalid", param="input_type")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ApiError(400, "texts is a list of texts", code="invalid", param="texts")
    if len(texts) > _MOST_TEXTS:
        raise ApiError(
            400, f"texts has {len(texts)} texts; send {_MOST_TEXTS} at most", code="invalid", param="texts"
        )
    if body["input_type"] == "request" or not any(text.strip() for text in texts):
        return Reply(200, {"action": "NONE"})
    messages = objects(body.get("structured_messages"))
    if not messages:
        _check_needs(guard)
    checked = [_Checked(guard, text, messages, string(body.get("model")), headers) for text in texts]
    return Reply(200, _action(guard, texts, await asyncio.gather(*(one.outcome() for one in checked))))


def _check_needs(guard: Guard) -> None:
    judges = needing_question(guard.judge.explain())
    if judges:
        raise ApiError(
            422,
            f"the judge {judges[0]!r} needs the conversation, which LiteLLM's response hook does not send; choose "
            f"a judge that needs none, or put the guard behind LiteLLM as a model",
            code="conversation_needed",
        )


def needing_question(explanation: Explanation) -> list[str]:
    """Return the names of the judges, among it and those inside it, that need the question."""
    if explanation.parts:
        return [name for part in explanation.parts for name in needing_question(part)]
    needs = any(canonical_field(need) == "user_input" for need in explanation.needs)
    return [explanation.judge] if needs else []


def _action(guard: Guard, texts: Sequence[str], outcomes: Sequence[Outcome]) -> Json:
    released = ["" if one.answer is None else str(one.answer.text) for one in outcomes]
    for outcome in outcomes:
        if outcome.answer is None or not (outcome.passed or _let_through(outcome, guard)):
            return {"action": "BLOCKED", "blocked_reason": _reason(outcome, guard)}
    if list(released) != list(texts):
        return {"action": "GUARDRAIL_INTERVENED", "texts": released}
    return {"action": "NONE"}


def _let_through(outcome: Outcome, guard: Guard) -> bool:
    """Whether an answer without a verdict goes out, since the guard fails open."""
    policy = guard.loop.policy
    unjudged = outcome.stop_reason == "judge_failed" and policy.on_judge_error == "accept"
    return unjudged or outcome.stop_reason == "skipped" or policy.shadow


def _reason(outcome: Outcome, guard: Guard) -> str:
    """Say why, without judged text."""
    best = outcome.best
    if best is None:
        return f"refine: no verdict ({outcome.stop_reason})"
    success_rating = guard.loop.policy.success_rating
    return f"refine: the answer was rated {best.rating} of 4, and is accepted from {success_rating}"


@dataclass(frozen=True, slots=True)
class _Checked:
    """One text to judge, and to have mended where there is an upstream."""

    guard: Guard
    text: str
    messages: Sequence[Json] = field(repr=False)
    model: str
    headers: Mapping[str, str] = field(repr=False)

    async def outcome(self) -> Outcome:
        messages = list(self.messages) or [{"role": "user", "content": _UNKNOWN_QUESTION}]
        conversation = chat.conversation({"messages": messages})
        loop = self.guard.loop.with_generator(_GivenFirst(self.text, self._mending(messages, conversation)))
        try:
            return await arun(loop, {"messages": conversation}, {})
        except Unanswered as error:
            return error.outcome

    def _mending(self, messages: list[Json], conversation: Sequence[AnyMessage]) -> UpstreamGenerator | None:
        if self.guard.upstream is None:
            return None
        payload: Json = {"model": self.model, "messages": messages} if self.model else {"messages": messages}
        request = JudgedRequest(payload=payload, model=self.model, streamed=False, refine={})
        return UpstreamGenerator(
            self.guard.upstream,
            chat,
            request,
            length=len(conversation),
            headers=self.headers,
            models=self.guard.attempt_models,
        )


class _GivenFirst:
    """Gives a text as the first draft; the upstream writes the others."""

    may_interrupt = False

    def __init__(self, text: str, then: UpstreamGenerator | None) -> None:
        self._text: str | None = text
        self._then = then

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> NoReturn:
        """Refuse: the server never blocks."""
        del prompt, config, temperature
        raise ConfigurationError("the guard's generator has no blocking form; use adraft")

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return the text, or have it written again."""
        text, self._text = self._text, None
        if text is not None:
            return Draft(answer=AIMessage(text))
        if self._then is None:
            raise ApiError(404, "there is no upstream to mend the answer", code="no_upstream")
        return await self._then.adraft(prompt, config, temperature)
