"""The excerpt of long texts that a judge shows its model, so that what a judgement costs is bounded.

What was left out is said where it stood. A judge that asks no model sees its sample whole, as reading costs
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from judges.runtime.context import setting
from judges.sample import Sample

_SHORTEST = 200
"""A text of several is not cut below this: rather, the last ones are left out."""

_longest: ContextVar[int | None] = ContextVar("judges.longest_shown", default=None)


def shown_within(limit: int) -> setting[int | None]:
    """Bound what judges show their models in a `with` block.

    Args:
        limit: Most characters of the answer, of the retrieved contexts together, of the reference, and of the
            reference contexts together.
    """
    return setting(_longest, limit)


def excerpt_of(sample: Sample) -> Sample:
    """Return a sample as a model is shown it: with long texts cut as set by `shown_within`."""
    limit = _longest.get()
    if limit is None or not is_long(sample, limit):
        return sample
    changes: dict[str, Any] = {}
    for name in ("response", "reference"):
        text = getattr(sample, name)
        if text is not None:
            changes[name] = cut_text(text, limit)
    for name in ("retrieved_contexts", "reference_contexts"):
        texts = getattr(sample, name)
        if texts is not None:
            changes[name] = texts_within(texts, limit)
    return sample.model_copy(update=changes)


def is_long(sample: Sample, limit: int) -> bool:
    """Check whether any text of a sample, besides the conversation, is longer than a model is shown."""
    contexts, ideal = sample.retrieved_contexts, sample.reference_contexts
    return (
        len(sample.response or "") > limit
        or len(sample.reference or "") > limit
        or (contexts is not None and sum(map(len, contexts)) > limit)
        or (ideal is not None and sum(map(len, ideal)) > limit)
    )


def texts_within(texts: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return texts, the longest cut in their middle, that have `limit` characters altogether.

    Where that does not suffice the last ones, which rank lowest, are left out, and a note in their place says so.
    """
    lengths = [len(text) for text in texts]
    if sum(lengths) <= limit:
        return tuple(texts)
    longest = max(_SHORTEST, level(lengths, limit))
    cut = [cut_text(text, longest) for text in texts]
    fitting = 0
    for text in cut:
        limit -= len(text)
        if limit < 0:
            break
        fitting += 1
    left_out = len(cut) - fitting
    note = (f"[{left_out} texts are left out here, because all together are long]",) if left_out else ()
    return (*cut[:fitting], *note)


def level(lengths: Sequence[int], limit: int) -> int:
    """Return the length to which the longest must be cut so that all fit into `limit`."""
    left = limit
    for number, length in enumerate(sorted(lengths)):
        if length * (len(lengths) - number) > left:
            return left // (len(lengths) - number)
        left -= length
    return limit


def cut_text(text: str, longest: int) -> str:
    """Return a text of at most `longest` characters: begin and end, and between them how much is left out."""
    if len(text) <= longest:
        return text
    note = f" [... {len(text) - longest:,} characters are left out here ...] "
    half = max(0, longest - len(note)) // 2
    return f"{text[:half]}{note}{text[len(text) - half :]}"
