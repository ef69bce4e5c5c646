"""Evidence that only the judge may see, and its redaction from what a generator or a client gets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import reduce

from pydantic import JsonValue

from graphs.redaction import redact

_FACTS = ("expected_facts", "reference_topics", "rubrics", "reference_tool_calls")
_SHORTEST_WORD = 4


def withhold(text: str, evidence: Mapping[str, JsonValue]) -> str:
    """Replace in a text whatever of the evidence tells what is expected, so that it cannot be copied.

    That is the reference, its contexts, tool calls and topics, the expected facts and the rubrics. Guidelines and
    retrieved contexts remain: the generator is to follow the ones and has the others.
    """
    return reduce(redact, secrets_of(evidence), text) if evidence and text else text


def secrets_of(evidence: Mapping[str, JsonValue]) -> list[str]:
    """Return the texts of the evidence that only the judge may see, longest first.

    Apart from the reference itself, single letters and words of three letters are left out: their absence would
    tell nothing and cost the feedback its sense.
    """
    reference = evidence.get("reference")
    contexts = "\n".join(_texts(evidence.get("reference_contexts")))
    facts = [text for name in _FACTS for text in _facts(name, evidence.get(name))]
    secrets = [*_texts(reference), *filter(_is_telling, {contexts, *facts})]
    return sorted(secrets, key=len, reverse=True)


def _facts(name: str, value: JsonValue) -> Iterator[str]:
    if name == "rubrics" and isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif name == "reference_tool_calls" and isinstance(value, list):
        calls = [call for call in value if isinstance(call, Mapping)]
        yield from _texts([[call.get("name"), call.get("args")] for call in calls])
    else:
        yield from _texts(value)


def _texts(value: JsonValue) -> Iterator[str]:
    """Yield the texts and numbers of a value, at any depth; names of arguments are no texts."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def _is_telling(text: str) -> bool:
    letters = "".join(re.findall(r"\w", text))
    return len(letters) >= (_SHORTEST_WORD if letters.isascii() and letters.isalpha() else 2)
