"""Tone: whether the answer has a tone that was named."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Unpack

from pydantic import JsonValue

from judges.catalogue.model_judge import ModelSettings
from judges.catalogue.parts.needed import answer_in, question_of
from judges.catalogue.parts.one_question import OneQuestion, checked_text
from judges.entry import Entry
from judges.sample import Sample


class Tone(OneQuestion):
    """Judge whether the answer keeps a tone from its first word to its last.

    Args:
        model: A LangChain chat model, a `"provider:model"` string, or a `JudgeModel`.
        tone: The tone in words, such as `"formal"` or `"friendly, without slang"`.
        settings: See `judges.catalogue.model_judge.ModelSettings`.

    Raises:
        ConfigurationError: If a setting is out of its range.
    """

    entry: ClassVar[Entry] = Entry(
        name="tone",
        aliases=("tone_of_voice", "politeness", "Tone", "professional_tone", "AGENT_TONE_PROMPT"),
        asks="Does the answer keep the tone that was set?",
        needs=("response",),
        calls="1",
        scale="kept, partly, broken",
        tags=("style", "register", "formal", "friendly", "brand voice"),
        examples=('tone="friendly, without slang"',),
    )
    pack = "tone"
    labels = MappingProxyType({"kept": 1.0, "partly": 0.5, "broken": 0.0})
    pass_mark = 1.0

    def __init__(self, model: object = None, *, tone: str, **settings: Unpack[ModelSettings]) -> None:
        self._tone = checked_text(tone, setting="tone")
        super().__init__(model, **settings)

    def data(self, sample: Sample) -> Mapping[str, JsonValue]:
        """Return the tone, the question if there is one, and the answer."""
        return {"tone": self._tone, **question_of(sample), "answer": answer_in(sample)}
