"""Ways by which a refused piece could reach a reader: none of them does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from graphs import Unanswered
from judges import as_judge
from refine import SelfRefine
from refine.middleware import SelfRefineMiddleware

_CALL = {"name": "look", "args": '{"q": "BAD"}', "id": "1", "index": 0}
_TOKENS = {"logprobs": {"content": [{"token": "BAD"}]}}
_BAD = "One is good. Two is BAD."


def _chunk(text: Any = "", **fields: Any) -> AIMessageChunk:
    return AIMessageChunk(content=text, **fields)


def _texts(*texts: str) -> list[AIMessageChunk]:
    return [_chunk(text) for text in texts]


def _parts(*parts: dict[str, Any]) -> list[AIMessageChunk]:
    return [_chunk([{**part, "index": place}]) for place, part in enumerate(parts)]


_GOOD = {"type": "text", "text": "One is good. "}
_REFUSED = {"type": "text", "text": "Two is BAD."}
_ANSWERS: dict[str, list[AIMessageChunk]] = {
    "split into tokens": _texts("One is good. Tw", "o is B", "AD. Th", "ree."),
    "empty pieces": _texts("", " ", "\n\n", "One is good.", "", "\u200b", " BAD", ""),
    "accents": _texts("One is good. BA", "D\u0301 is it. ", "e\u0301 x BAD."),
    "line ends": _texts("One is good.\r", "\n\r", "\nTwo BAD.\r\n"),
    "code": _texts("One is good.\n```py\nx = 'BAD'\n```\nThree."),
    "an open fence": _texts("One is good.\n```py\nx = 'BAD'"),
    "a table": _texts("One is good.\n\n| a | b |\n|---|---|\n| 1 | BAD |\n\nThree."),
    "JSON": _texts('{"a": "BAD. So."}'),
    "single tokens": [*_texts(_BAD), _chunk(response_metadata=_TOKENS)],
    "a cut answer": [
        *_texts("One is good. Two is BA"),
        _chunk("D", response_metadata={"finish_reason": "length"}),
    ],
    "a filtered answer": [*_texts(_BAD), _chunk(" x", response_metadata={"finish_reason": "content_filter"})],
    "a refusal": [*_texts(_BAD), _chunk(additional_kwargs={"refusal": "BAD", "parsed": "BAD"})],
    "speech": [*_texts(_BAD), _chunk(additional_kwargs={"audio": {"transcript": "BAD"}})],
    "a call": [*_texts("One is good. Two is BAD. And"), _chunk(tool_call_chunks=[_CALL])],
    "text after a call": [*_texts("One is good. "), _chunk(tool_call_chunks=[_CALL]), *_texts("It is BAD. Yes.")],
    "a broken call": [*_texts(_BAD), _chunk(tool_call_chunks=[{**_CALL, "args": '{"q": "BAD'}])],
    "reasoning beside": [_chunk(additional_kwargs={"reasoning_content": "BAD"}), *_texts(_BAD)],
    "reasoning as a part": _parts({"type": "reasoning", "reasoning": "BAD"}, _GOOD, _REFUSED),
    "citations": _parts(_GOOD, {"type": "citation", "cited_text": "BAD"}, {**_REFUSED, "annotations": ["BAD"]}),
    "an open thought": _texts("<think>BAD BAD. ", "One is BAD. "),
    "a thought in the text": _texts("One is good. <think>This is BAD.</think> Two is it."),
    "a beginning like a thought": _texts("<thi", "nk BAD. One is good."),
}


class _Writes(BaseChatModel):
    """Writes chunks as they are, the same each time, and tells handlers of each."""

    chunks: list[Any]
    scripted: bool = True

    @property
    def _llm_type(self) -> str:
        return "chunks"

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **settings: Any,
    ) -> Iterator[ChatGenerationChunk]:
        del messages, stop, settings
        for chunk in self.chunks:
            generation = ChatGenerationChunk(message=chunk)
            if run_manager is not None:
                run_manager.on_llm_new_token(str(chunk.text), chunk=generation)
            yield generation

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **settings: Any,
    ) -> ChatResult:
        del messages, stop, run_manager, settings
        return ChatResult(generations=[ChatGeneration(message=AIMessage(_BAD))])


class _Tokens(BaseCallbackHandler):
    """Hears the tokens that are shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def on_llm_new_token(self, token: str, **fields: Any) -> None:  # type: ignore[override]  # takes all
        self.shown.append(f"{token!r} {fields.get('chunk')!r}")


def _accepts(answer: str) -> bool:
    return bool(answer)


def _refuses(answer: str) -> tuple[bool, str]:
    return "BAD" not in answer, "SECRET-FEEDBACK"


def _settings(on_exhausted: Any) -> dict[str, Any]:
    fallback = "Ask a person." if on_exhausted == "fallback" else None
    pieces = {"piece_judge": as_judge(_refuses), "release": "pieces", "piece_chars": 1}
    return {**pieces, "max_attempts": 2, "on_exhausted": on_exhausted, "fallback": fallback}


def _refiner(name: str, on_exhausted: Any) -> SelfRefine:
    return SelfRefine(_Writes(chunks=_ANSWERS[name]), as_judge(_accepts), **_settings(on_exhausted))


def _agent(name: str, on_exhausted: Any) -> tuple[Any, InMemorySaver]:
    middleware = SelfRefineMiddleware(as_judge(_accepts), **_settings(on_exhausted))
    saver = InMemorySaver()
    model = _Writes(chunks=_ANSWERS[name])
    return create_agent(model, [look], middleware=[middleware], checkpointer=saver), saver


@tool
def look(q: str = "") -> str:
    """Look something up."""
    return f"about {len(q)}"


async def _seen(stream: AsyncIterator[Any]) -> list[str]:
    """Return all that a reader of a stream sees, an error included."""
    parts: list[str] = []
    try:
        parts += [repr(one.model_dump() if isinstance(one, AIMessageChunk) else one) async for one in stream]
    except Unanswered as error:
        parts.append(repr(error))
    return parts


@pytest.mark.parametrize("on_exhausted", ["best", "fallback", "raise"])
async def test_nothing_refused_is_seen(on_exhausted: Any) -> None:
    """Not as a chunk, in its metadata, by a handler of tokens, or in any stream of a graph around it."""
    leaks = []
    for name in _ANSWERS:
        handler = _Tokens()
        refiner = _refiner(name, on_exhausted)
        builder = StateGraph(MessagesState)
        builder.add_node("answer", refiner)
        builder.add_edge(START, "answer")
        graph: Any = builder.compile()
        modes: Any = ["messages", "updates", "custom", "values", "debug", "tasks"]
        config: Any = {"callbacks": [handler]}
        question = {"messages": [("user", "Why?")]}
        agent, saver = _agent(name, on_exhausted)
        thread: Any = {**config, "configurable": {"thread_id": "1"}}
        places = {
            "chunks": await _seen(refiner.astream("Why?", config)),
            "events": await _seen(refiner.astream_events("Why?", version="v2")),
            "graph": await _seen(graph.astream(question, config, stream_mode=modes, subgraphs=True)),
            "agent": await _seen(agent.astream(question, thread, stream_mode=modes, subgraphs=True)),
            "agent's events": await _seen(
                _agent(name, on_exhausted)[0].astream_events(question, thread, version="v2")
            ),
            "agent's history": [repr(list(saver.list(None)))],
            "tokens": handler.shown,
        }
        assert places["chunks"], name
        text = {place: "\n".join(parts) for place, parts in places.items()}
        leaks += [(name, place) for place, seen in text.items() if "BAD" in seen or "SECRET" in seen]
    assert not leaks
