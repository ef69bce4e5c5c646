"""Calls of the direct client as runs that LangChain's callback handlers see: start, end with usage, error.

Where nobody listens a call costs nothing more, and LangChain is not imported: `is_observed` says so in a
microsecond. Where somebody does, the call is made by a chat model of LangChain's for which it stands, so that
handlers, tags, metadata and configuration are LangChain's own.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from judges.messages import openai_content
from judges.model import LlmRun, ModelRequest, ModelResponse

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

T = TypeVar("T")

_LANGCHAIN = "langchain_core.runnables.config"


def is_observed() -> bool:
    """Check whether any handler listens to calls made here; none can where LangChain is not loaded."""
    return _LANGCHAIN in sys.modules and _listens()()


@cache
def _listens() -> Callable[[], bool]:
    from judges.models.providers.langchain_runs import anybody_listens  # noqa: PLC0415 - imports LangChain

    return anybody_listens


def observed(run: LlmRun[T], call: Callable[[], T]) -> T:
    """Make a call as a run of LangChain's."""
    from judges.models.providers.langchain_runs import ObservedModel  # noqa: PLC0415 - imports LangChain

    return ObservedModel.of(run, call=call).run()


async def aobserved(run: LlmRun[T], call: Callable[[], Awaitable[T]]) -> T:
    """Make a call as a run of LangChain's without blocking."""
    from judges.models.providers.langchain_runs import ObservedModel  # noqa: PLC0415 - imports LangChain

    return await ObservedModel.of(run, acall=call).arun()


def run_of_judging(model: str, request: ModelRequest) -> LlmRun[ModelResponse]:
    """Return what handlers are told of a judge's request, which no stream shows to a client."""

    def messages() -> Sequence[BaseMessage]:
        from judges.models.providers.openai_messages import to_messages  # noqa: PLC0415 - imports LangChain

        return to_messages(
            [{"role": role, "content": openai_content(content)} for role, content in request.contents()]
        )

    def answer(response: ModelResponse) -> AIMessage:
        from judges.models.providers.openai_messages import answer_of_response  # noqa: PLC0415 - as above

        return answer_of_response(response, model)

    return LlmRun(model=model, messages=messages, answer=answer, tags=("nostream",))


def run_of_chat(model: str, fields: Mapping[str, Any]) -> LlmRun[dict[str, Any]]:
    """Return what handlers are told of a request for an answer."""

    def messages() -> Sequence[BaseMessage]:
        from judges.models.providers.openai_messages import to_messages  # noqa: PLC0415 - imports LangChain

        return to_messages(fields["messages"])

    def answer(completion: dict[str, Any]) -> AIMessage:
        from judges.models.providers.openai_messages import answer_of  # noqa: PLC0415 - as above

        return answer_of(completion, model)

    others = {name: value for name, value in fields.items() if name != "messages"}
    return LlmRun(model=str(fields.get("model", model)), messages=messages, answer=answer, fields=others)
