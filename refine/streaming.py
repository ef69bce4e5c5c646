"""Pieces of an answer on their way out: from the loop that releases them to whoever reads the stream."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from queue import SimpleQueue

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.runnables import RunnableConfig

from graphs import langgraph_private
from graphs.piece_loop import last_chunk

_Piece = tuple[str, str]
"""A piece, and the id of the message that it is part of."""


class _Outlet:
    """Takes the pieces of an answer until it is closed.

    Args:
        put: Takes a piece.
    """

    def __init__(self, put: Callable[[_Piece], None]) -> None:
        self._put = put
        self._leave: list[Callable[[], None]] = []
        self._is_closed = False
        self._lock = threading.Lock()

    def send(self, text: str, message_id: str) -> None:
        """Take a piece."""
        self._put((text, message_id))

    async def asend(self, text: str, message_id: str) -> None:
        """Take a piece without blocking."""
        self._put((text, message_id))

    def when_closed(self, leave: Callable[[], None]) -> None:
        """Have a function called when nobody wants more; at once where that is so already."""
        with self._lock:
            self._leave = [leave]
            is_closed = self._is_closed
        if is_closed:
            leave()

    def close(self) -> None:
        """Say that nobody wants more."""
        with self._lock:
            self._is_closed = True
        for leave in self._leave:
            leave()


def stream_pieces(
    answer: Callable[[RunnableConfig], AIMessage], config: RunnableConfig
) -> Iterator[AIMessageChunk]:
    """Yield the pieces of an answer as chunks of one message, of which the last has all that is no text.

    Args:
        answer: Answers a question, blocking; it is called in a thread, and left where the reader leaves.
        config: Config of the run.
    """
    pieces: SimpleQueue[_Piece | None] = SimpleQueue()
    outlet = _Outlet(pieces.put)
    ended: list[AIMessage | BaseException] = []

    def work() -> None:
        try:
            ended.append(answer(langgraph_private.carry(config, langgraph_private.OUTLET, outlet)))
        except BaseException as error:  # noqa: BLE001 - raised where the stream is read
            ended.append(error)
        pieces.put(None)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True, name="refine-stream").start()
    sent = []
    try:
        while (piece := pieces.get()) is not None:
            sent.append(piece[0])
            yield AIMessageChunk(content=piece[0], id=piece[1])
    finally:
        outlet.close()
    if isinstance(ended[0], BaseException):
        raise ended[0]
    yield last_chunk(ended[0], "".join(sent))


async def astream_pieces(
    answer: Callable[[RunnableConfig], Awaitable[AIMessage]], config: RunnableConfig
) -> AsyncIterator[AIMessageChunk]:
    """Yield the pieces of an answer without blocking; what is going on ends with the stream."""
    pieces: asyncio.Queue[_Piece | None] = asyncio.Queue()
    answering = asyncio.ensure_future(
        answer(langgraph_private.carry(config, langgraph_private.OUTLET, _Outlet(pieces.put_nowait)))
    )
    answering.add_done_callback(lambda _: pieces.put_nowait(None))
    sent = []
    try:
        while (piece := await pieces.get()) is not None:
            sent.append(piece[0])
            yield AIMessageChunk(content=piece[0], id=piece[1])
    finally:
        if not answering.done():
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
    yield last_chunk(answering.result(), "".join(sent))
