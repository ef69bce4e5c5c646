"""How many tokens a prompt has, estimated from its letters: a tokenizer is not at hand before a model is asked."""

from __future__ import annotations

import json
from functools import lru_cache

from pydantic import BaseModel

from judges.model import ModelRequest

_LETTERS_PER_TOKEN = (4.8, 3.2)
"""Letters of Latin script a token, where few and where many tokens come of a text."""

_OTHER_PER_TOKEN = (1.8, 0.8)
"""Letters of other scripts a token, likewise."""

_ATTACHED_TOKENS = (85, 1_600)
"""Tokens of a small and of a large image."""

_FRAME_TOKENS = 5
"""Most tokens that a message takes beside its text."""


def tokens_of(request: ModelRequest) -> tuple[float, float]:
    """Return the fewest and the most tokens that a prompt may have."""
    return _tokens(request, 0), _tokens(request, 1)


def _tokens(request: ModelRequest, side: int) -> float:
    """Return the fewest or the most tokens of a prompt: some providers count the reply's schema, others do not."""
    texts = [text for _, text in request.messages]
    letters = sum(map(len, texts))
    latin = sum(len(text.encode("ascii", "ignore")) for text in texts)
    attached = sum(not isinstance(part, str) for part in request.attached) * _ATTACHED_TOKENS[side]
    beside = 0
    if side:
        latin, letters = latin + (size := _schema_letters(request)), letters + size
        beside = _FRAME_TOKENS * len(texts)
    return latin / _LETTERS_PER_TOKEN[side] + (letters - latin) / _OTHER_PER_TOKEN[side] + beside + attached


def _schema_letters(request: ModelRequest) -> int:
    return 0 if request.text else _letters_of(request.schema)


@lru_cache(maxsize=256)
def _letters_of(schema: type[BaseModel]) -> int:
    return len(json.dumps(schema.model_json_schema()))
