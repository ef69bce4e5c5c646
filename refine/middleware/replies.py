"""What an agent gets of a model call: the released answer, or a call of its tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain.agents.structured_output import StructuredOutputError
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.tools import BaseTool

from graphs import Outcome, langgraph_private
from graphs.errors import InputError
from graphs.reasoning import without_reasoning
from graphs.tool_answer import RETURN_DIRECT
from refine.middleware.model_call import answer_in
from refine.middleware.turn import Response, Turn

TOOL_CALL = "tool_call: the agent calls a tool, and is judged when it answers"
NOT_THE_MODEL = "middleware: another middleware gave the answer, not the model"


def handed_on(turn: Turn, response: Response | None, request: ModelRequest[Any]) -> ModelResponse[Any]:
    """Return a tool call for the agent, with a note that it was not judged.

    What the model thought of a rejected draft stays in the turn, where the model sees it again.
    """
    refinement = turn.refinement
    assert isinstance(response, ModelResponse) and refinement is not None  # noqa: S101, PT018 - a model was asked
    original = answer_in(response)
    hides = bool(refinement.attempts) and not refinement.policy.keep_reasoning
    message = without_reasoning(original) if hides else original
    turn.ends = _returns_directly(original, request)
    note = {
        "outcome_id": refinement.id,
        "passed": False,
        "stop_reason": "skipped",
        "detail": RETURN_DIRECT if turn.ends else TOOL_CALL,
    }
    metadata = {**message.response_metadata, langgraph_private.SUMMARY: note}
    message = message.model_copy(update={"id": original.id or str(uuid4()), "response_metadata": metadata})
    turn.hand_on(message, original if hides else None)
    return ModelResponse([message if reply is original else reply for reply in response.result])


def released(turn: Turn, outcome: Outcome) -> ModelResponse[Any]:
    """Return the answer as the model gave it, under the id and with the summary of the outcome's."""
    final = outcome.answer
    assert final is not None  # noqa: S101 - without an answer the loop raises
    response = turn.responses.get(outcome.released or 0)
    if isinstance(response, StructuredOutputError):
        raise response
    if response is None:
        return ModelResponse([final])
    original = answer_in(response)
    metadata = _with_inner_summary(final.response_metadata, original)
    if original.tool_calls:
        final = original.model_copy(update={"id": final.id, "response_metadata": metadata})
    elif metadata is not final.response_metadata:
        final = final.model_copy(update={"response_metadata": metadata})
    result = [final if reply is original else reply for reply in response.result]
    return ModelResponse(result, structured_response=response.structured_response)


def _with_inner_summary(metadata: dict[str, Any], answer: AIMessage) -> dict[str, Any]:
    """Return the metadata of a released answer, with the summary of a middleware inside that had released it."""
    inner = answer.response_metadata.get(langgraph_private.SUMMARY)
    if not inner:
        return metadata
    return {**metadata, langgraph_private.SUMMARY: {**metadata[langgraph_private.SUMMARY], "inner": inner}}


def outcome_ids_in(state: Mapping[str, Any]) -> list[str]:
    """Return the ids of the outcomes that the released answer in an agent's state bears, the outermost first."""
    answer = _last_reply(state["messages"])
    summary = {} if answer is None else answer.response_metadata.get(langgraph_private.SUMMARY)
    ids = []
    while summary:
        ids += [summary["outcome_id"]] if "attempts" in summary else []
        summary = summary.get("inner")
    return ids


def unjudged_outcome(state: Mapping[str, Any]) -> Outcome:
    """Return the outcome of an agent's result that the model did not give.

    Raises:
        InputError: If the turn has not ended.
    """
    *conversation, last = state["messages"] or (None,)
    waits = isinstance(last, AIMessage) and bool(last.tool_calls)
    if waits or last is None or last.type == "human" or state.get("__interrupt__"):
        raise InputError("the agent's turn has not ended, so there is no outcome yet; go on with it first")
    answer = last if isinstance(last, AIMessage) else None
    detail = NOT_THE_MODEL if answer is not None else RETURN_DIRECT
    if isinstance(last, ToolMessage) and last.status == "error":
        detail += ", and the tool failed"
    return Outcome(
        answer=answer, passed=False, stop_reason="skipped", detail=detail, conversation=tuple(conversation)
    )


def _last_reply(messages: Sequence[AnyMessage]) -> AIMessage | None:
    """Return the last message, or the one before the results of its tool calls, if the assistant's."""
    last = next((message for message in reversed(messages) if message.type != "tool"), None)
    return last if isinstance(last, AIMessage) else None


def _returns_directly(message: AIMessage, request: ModelRequest[Any]) -> bool:
    """Check whether the agent ends with the results of the tools that a message calls."""
    direct = {tool.name for tool in request.tools if isinstance(tool, BaseTool) and tool.return_direct}
    return bool(direct) and all(call["name"] in direct for call in message.tool_calls)
