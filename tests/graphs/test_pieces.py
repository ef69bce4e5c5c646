"""Pieces of an answer: blocks whole, sentences in paragraphs, the same whatever the chunks."""

from __future__ import annotations

import random
import unicodedata
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
from graphs.pieces import PieceSplitter, _split
from judges import as_judge
from refine import SelfRefine
from refine.middleware import SelfRefineMiddleware

_SENTENCES = {
    "en": (
        "Dr. Smith paid $3.50 for 2.5 kg, i.e. a lot.",
        "Why not?",
        'He said "Go. Now." and left.',
        "Yes.",
        "See U.S. law (Sec. 3. Here).",
    ),
    "zh": ("他来了。", "真的吗？", "“好的。我知道。”她说。", "版本 3.5 已发布！"),
    "ru": ("Т. е. это так.", "«Где ты?» — спросила она.", "А. С. Пушкин жил здесь.", "Да!"),
    "ar": ("كيف حالك؟", "أنا بخير، شكرا لك.", "وصل الدكتور أحمد."),
    "emoji": ("Well done 👩🏽‍🚀! 🇩🇪🇫🇷 won.", "Cafe\u0301 is open. 👍🏿", "❤️ it."),
}
_BLOCKS = (
    "```python\nif a. B:\n    x = 1\n\nprint('Done. Bye')\n```",
    "~~~\n``` Not. The end\n~~~",
    "| a | b |\n|---|---|\n| 1. | Yes. No. |\n| 2 | 三。四 |",
    "$$\na = b. C\n$$",
    "\\[ x. Y \\]",
    "\\begin{align}\na &= 1. B\n\\end{align}",
    "# A heading. Of two",
    "1. First. Item here\n2. Second item\n   goes on. Here\n- another",
    "Inline `code. Here` and ```more. Code``` too.",
    "> A quotation. Of two.",
    "x" * 90,
)


def _answer(seed: int) -> str:
    """Make a random answer of paragraphs and blocks, with any line ends between them."""
    pick = random.Random(seed)
    parts = []
    for _ in range(pick.randint(1, 4)):
        language = pick.choice(tuple(_SENTENCES))
        joint = "" if language == "zh" else pick.choice((" ", "  ", "\n"))
        paragraph = joint.join(pick.choices(_SENTENCES[language], k=pick.randint(1, 6)))
        parts.append(pick.choice((paragraph, paragraph, pick.choice(_BLOCKS))))
    text = pick.choice(("\n\n", "\n", "\r\n\r\n")).join(parts)
    return pick.choice(("", "", "\n", "  ")) + text + pick.choice(("", "", "\n", " \n"))


def _chunked(text: str, seed: int, *, least: int, most: int) -> list[str]:
    """Split a text that comes in random chunks, empty ones among them."""
    pick, splitter, pieces, place = random.Random(seed), PieceSplitter(least=least, most=most), [], 0
    longest = pick.choice((1, 3, 10, 60))
    while place < len(text):
        size = pick.randint(0, longest)
        pieces += splitter.feed(text[place : place + size])
        place += size
    return [*pieces, *splitter.close()]


def _joins(start: str) -> bool:
    """Tell whether a piece begins in the midst of a character."""
    return start == "\u200d" or (start != "" and unicodedata.category(start).startswith("M"))


def test_thousand_answers_in_random_chunks() -> None:
    """Pieces joined are the answer, the same whatever the chunks, none without text, no character is cut."""
    offenders = []
    for seed in range(1_000):
        text = _answer(seed)
        least, most = random.Random(seed).choice(((80, 2_000), (80, 200), (1, 2_000), (1, 20)))
        pieces = _split(text, least=least, most=most)
        whole = [piece.strip() for piece in pieces]
        starts = [piece.lstrip()[:1] for piece in pieces[1:]]
        cuts_character = any(map(_joins, starts))
        is_same = _chunked(text, seed, least=least, most=most) == pieces
        if "".join(pieces) != text or not all(whole) or cuts_character or not is_same:
            offenders.append(seed)
    assert offenders == []


def test_long_pieces_are_cut() -> None:
    """No piece is longer than the most, and none but the last shorter than the least."""
    for seed in range(100):
        pieces = _split(_answer(seed), least=40, most=120)
        assert all(len(piece.strip()) <= 120 for piece in pieces)
        sizes = [len(piece.strip()) for piece in pieces]
        assert all(size >= 40 for size, after in zip(sizes, pieces[1:], strict=False) if len(after) < 120 - size)


@pytest.mark.parametrize("block", _BLOCKS)
def test_blocks_stay_whole(block: str) -> None:
    """A block is one piece, list items one each, whatever stands in it."""
    text = f"One sentence.\n\n{block}\n\nAnother one."
    pieces = _split(text, least=1, most=2_000)
    inner = [piece.strip("\n") for piece in pieces[1:-1]]
    items = block.split("\n2. ") if block.startswith("1.") else None
    assert pieces[0] == "One sentence."
    assert pieces[-1] == "\n\nAnother one."
    if items is not None:
        assert inner == ["1. First. Item here", "2. Second item\n   goes on. Here", "- another"]
    elif block.startswith(("Inline", ">")):
        assert "".join(inner) == block
    else:
        assert inner == [block]


@pytest.mark.parametrize("sentence", [one for name in ("en", "zh", "ru", "ar") for one in _SENTENCES[name]])
def test_sentences_stay_whole(sentence: str) -> None:
    """Numbers, abbreviations, initials and quotations end no sentence."""
    spaced = "" if "\u4e00" <= sentence[0] <= "\u9fff" or sentence[0] == "“" else " "
    assert _split(f"{sentence}{spaced}{sentence}", least=1, most=2_000) == [sentence, f"{spaced}{sentence}"]


def test_pieces_end_where_the_next_begins() -> None:
    """A number may go on, so nothing is complete before the next word is."""
    splitter = PieceSplitter(least=1, most=2_000)
    assert splitter.feed("It costs 3.") == []
    assert splitter.feed("50 now. ") == []
    assert splitter.feed("Next") == []
    assert splitter.feed(" one") == ["It costs 3.50 now."]
    assert splitter.close() == [" Next one"]


def test_short_sentences_go_together() -> None:
    """Sentences are gathered up to the least."""
    assert _split("Yes. No. Maybe so. I do not know at all.", least=12, most=100) == [
        "Yes. No. Maybe so.",
        " I do not know at all.",
    ]


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
