"""The direct client as a generator: LangChain's messages, or one raw request, in; the endpoint's own reply out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig

from graphs.drafts import Draft
from graphs.prompt import Prompt
from judges.models.providers.openai import OpenAICompatible
from judges.models.providers.openai_answers import answer_of
from judges.models.providers.openai_messages import MessageDict, to_dicts, to_messages
from judges.models.providers.openai_replies import model_in, usage_in

_OF_A_STREAM = ("stream", "stream_options")
"""Fields of a request that say how its reply is sent, which is the client's matter."""


class DirectGenerator:
    """Asks a direct client, whose request fields are bound to it.

    Args:
        client: The client.
    """

    may_interrupt = False

    def __init__(self, client: OpenAICompatible) -> None:
        self.client = client

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return a draft, blocking until it is complete."""
        del config  # the call finds it in the context, as every call of LangChain's does
        return self._draft(self.client.chat(_request(_dicts(prompt), temperature)))

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return a draft without blocking the event loop."""
        del config
        return self._draft(await self.client.achat(_request(_dicts(prompt), temperature)))

    def _draft(self, completion: dict[str, Any]) -> Draft:
        return draft_of_completion(completion, self.client.name)


class RequestGenerator:
    """Answers one raw chat-completions request, for a door that must lose nothing of it.

    The first attempt sends the request as it came, whatever fields it has; a retry sends it with the messages
    that a retry adds, in the form of chat completions. Whether the reply is sent as a stream is the client's
    matter: the request's `stream` and `stream_options` are left out.

    Args:
        client: The client; its own fields go after those of the request.
        request: The request, with `messages`.
        headers: Headers to send with it, for instance the caller's own key.

    Raises:
        ConfigurationError: If `messages` are none of chat completions; on the first use of `conversation`.
    """

    may_interrupt = False

    def __init__(
        self,
        client: OpenAICompatible,
        request: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._client = client
        self._request = {name: value for name, value in request.items() if name not in _OF_A_STREAM}
        self._headers = headers

    @cached_property
    def conversation(self) -> list[BaseMessage]:
        """The request's messages as LangChain's: the question for the loop."""
        return to_messages(self._request.get("messages") or ())

    def draft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return a draft, blocking until it is complete."""
        del config
        return self._draft(self._client.chat(self._attempt(prompt, temperature), headers=self._headers))

    async def adraft(self, prompt: list[BaseMessage], config: RunnableConfig, temperature: float | None) -> Draft:
        """Return a draft without blocking the event loop."""
        del config
        return self._draft(await self._client.achat(self._attempt(prompt, temperature), headers=self._headers))

    def _attempt(self, prompt: list[BaseMessage], temperature: float | None) -> dict[str, Any]:
        added = prompt[len(self.conversation) :]
        messages = self._request.get("messages") or []
        messages = [*messages, *to_dicts(added)] if added else messages
        return {**self._request, **_request(messages, temperature)}

    def _draft(self, completion: dict[str, Any]) -> Draft:
        return draft_of_completion(completion, str(self._request.get("model") or self._client.name))


def _dicts(prompt: list[BaseMessage]) -> list[MessageDict]:
    """Return a prompt's messages; the conversation is converted once for all attempts."""
    if not isinstance(prompt, Prompt):
        return to_dicts(prompt)
    conversation = prompt.conversation
    converted = prompt.memo.get("chat completions", conversation, lambda: to_dicts(conversation))
    return [*converted, *to_dicts(prompt.added)] if prompt.added else converted


def _request(messages: list[MessageDict], temperature: float | None) -> dict[str, Any]:
    return {"messages": messages} if temperature is None else {"messages": messages, "temperature": temperature}


def draft_of_completion(completion: dict[str, Any], model: str) -> Draft:
    """Return a chat completion as a draft, which holds the completion as the endpoint sent it.

    Args:
        completion: The completion.
        model: Name of the model, where the completion gives none.
    """
    usage = usage_in(completion)
    return Draft(
        answer=answer_of(completion, model), raw=completion, calls=((model_in(completion) or model, usage),)
    )
