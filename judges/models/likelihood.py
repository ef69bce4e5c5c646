"""How likely each rating was: read from the log-probabilities of the token that holds it, or not at all.

The token is found by the position of the rating in the reply's JSON, in bytes, never by looking for a digit. What
a model's tokens cannot tell has a reason in its place.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from judges.model import Distribution, ModelRequest, ModelResponse

ALTERNATIVES = 20
"""How many alternatives of each token are requested: the most that OpenAI and vLLM give."""

NOT_GIVEN = "the endpoint gave no logprobs"
REFUSED = "the endpoint refused logprobs"
_REASONED = "the model reasons before it answers, so that its rating is decided before it is written"

_NEGLIGIBLE = 1e-3
"""Share of the probability that may be of tokens that tell no rating for sure."""
_SPACE = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Levels:
    """The one field of a reply that chooses, beside texts alone.

    Args:
        field: Its name.
        choices: What it chooses from, numbers ascending; labels as the schema lists them.
        texts: Names of the other fields, all of them text.
    """

    field: str
    choices: tuple[int, ...] | tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def written(self) -> tuple[str, ...]:
        """The choices as JSON has them, labels without their quotes."""
        return tuple(one if isinstance(one, str) else json.dumps(one) for one in self.choices)

    @property
    def digits(self) -> tuple[str, ...]:
        """The digit that stands for each choice in a reply of one digit; none where there is no such digit.

        It is the level itself, 0 and 1 for no and yes, and the number of a label.
        """
        numbered = range(1, len(self.choices) + 1)
        choices: tuple[int | str, ...] = self.choices
        pairs = zip(numbered, choices, strict=True)
        digits = [str(number if isinstance(one, str) else int(one)) for number, one in pairs]
        return tuple(digits) if all(len(digit) == 1 for digit in digits) else ()


@cache
def levels_in(schema: type[BaseModel]) -> Levels | None:
    """Return the levels of a reply; None unless it is one closed choice, and texts."""
    texts: list[str] = []
    fields: list[tuple[str, tuple[Any, ...]]] = []
    for name, field in schema.model_fields.items():
        kind = field.annotation
        values = (False, True) if kind is bool else get_args(kind) if get_origin(kind) is Literal else ()
        if kind is str:
            texts.append(name)
        elif len(values) > 1 and all(isinstance(value, int) for value in values):
            fields.append((name, tuple(sorted(values))))
        elif len(values) > 1 and all(isinstance(value, str) for value in values):
            fields.append((name, values))
    if len(fields) != 1 or len(fields) + len(texts) != len(schema.model_fields):
        return None
    ((field_name, choices),) = fields
    return Levels(field_name, choices, tuple(texts))


@dataclass(frozen=True, slots=True)
class _Token:
    """A token of a reply.

    Args:
        raw: Its bytes.
        logprob: The logarithm of its probability.
        alternatives: The likeliest tokens in its place, as (bytes, logarithm).
    """

    raw: bytes
    logprob: float
    alternatives: tuple[tuple[bytes, float], ...]


def tokens_in(choice: Mapping[str, Any], payload: Mapping[str, Any] | None = None) -> tuple[_Token, ...]:
    """Return the tokens of a reply with their probabilities, in the form of OpenAI, vLLM or llama.cpp.

    Args:
        choice: The choice of a completion, or what else has a field `logprobs`.
        payload: The completion; llama.cpp's own endpoint has `completion_probabilities` there.

    Returns:
        None where there are no probabilities, or they have no form that is known.
    """
    logprobs = choice.get("logprobs") or (payload or {}).get("completion_probabilities")
    if isinstance(logprobs, Mapping) and not logprobs.get("content"):
        return tuple(_columns(logprobs))
    listed = logprobs.get("content") if isinstance(logprobs, Mapping) else logprobs
    if not isinstance(listed, list):
        return ()
    return tuple(_Token(*_entry(one), tuple(_alternatives(one))) for one in listed if isinstance(one, Mapping))


def _alternatives(entry: Mapping[str, Any]) -> Iterator[tuple[bytes, float]]:
    """Yield the alternatives of a token; llama.cpp has them as logarithms, or as probabilities after sampling."""
    listed = next((entry[name] for name in ("top_logprobs", "top_probs", "probs") if entry.get(name)), ())
    if isinstance(listed, Mapping):
        yield from ((str(text).encode("utf-8", "replace"), _number(value)) for text, value in listed.items())
        return
    yield from (_entry(one) for one in listed if isinstance(one, Mapping))


def _entry(entry: Mapping[str, Any]) -> tuple[bytes, float]:
    """Return the bytes of a token, and the logarithm of its probability."""
    listed = entry.get("bytes")
    text = next((entry[name] for name in ("token", "content", "tok_str") if isinstance(entry.get(name), str)), "")
    is_bytes = isinstance(listed, list) and all(type(one) is int and 0 <= one < 256 for one in listed)  # noqa: PLR2004
    raw = bytes(listed) if is_bytes and listed else text.encode("utf-8", "replace")
    if entry.get("logprob") is None and "prob" in entry:
        probability = _number(entry["prob"])
        return raw, math.log(probability) if probability > 0 else -math.inf
    return raw, _number(entry.get("logprob"))


def _columns(logprobs: Mapping[str, Any]) -> Iterator[_Token]:
    """Yield the tokens of the older form, which has a list for each property of them."""
    texts, values, tops = (logprobs.get(name) for name in ("tokens", "token_logprobs", "top_logprobs"))
    if not isinstance(texts, list) or not isinstance(values, list) or not isinstance(tops, list):
        return
    for text, value, top in zip(texts, values, tops, strict=False):
        yield _Token(str(text).encode("utf-8", "replace"), _number(value), tuple(_alternatives({"probs": top})))


def _number(value: object) -> float:
    """Return a logarithm; what is none is that of an impossible token."""
    is_number = type(value) in (int, float) and not math.isnan(value)  # type: ignore[arg-type]  # a number
    return float(value) if is_number else -math.inf  # type: ignore[arg-type]  # as above


def with_ratings(
    response: ModelResponse, request: ModelRequest, tokens: Sequence[_Token], *, reason: str = NOT_GIVEN
) -> ModelResponse:
    """Return a response with how likely each rating was.

    Args:
        response: The response.
        request: The request, which asked for it.
        tokens: The tokens of the reply; none where they are unknown.
        reason: Why they are unknown.
    """
    if response.has_reasoned:
        ratings = Distribution(reason=_REASONED)
    elif not tokens:
        ratings = Distribution(reason=reason)
    elif request.digits:
        ratings = _digit_likelihood(tokens, request.digits)
    else:
        arguments = response.calls[0][1] if response.calls else response.text
        ratings = _rating_likelihood(arguments if isinstance(arguments, str) else "", tokens, request.schema)
    return replace(response, ratings=ratings)


def _rating_likelihood(text: str, tokens: Sequence[_Token], schema: type[BaseModel]) -> Distribution:
    """Return how likely each choice was in a reply that is an object.

    Args:
        text: The object as the model wrote it.
        tokens: Its tokens, and those around it.
        schema: The schema of the reply.
    """
    levels = levels_in(schema)
    if levels is None:
        return Distribution(reason=f"a {schema.__name__} has no single rating")
    span = _span_of(text, levels.field)
    if span is None:
        return Distribution(reason="the reply is no JSON object that has the rating")
    placed = _placed(text, span, tokens)
    if placed is None:
        return Distribution(reason="the tokens are not those of the reply")
    token, before = placed
    if token is None:
        return Distribution(reason="the rating is split over several tokens")
    return _likelihood(token, before, levels.written)


def _digit_likelihood(tokens: Sequence[_Token], digits: Sequence[str]) -> Distribution:
    """Return how likely each choice was in a reply of one digit, which its first token holds."""
    token = next((one for one in tokens if one.raw.strip()), None)
    if token is None:
        return Distribution(reason="the reply has no token")
    return _likelihood(token, b"", digits)


def _likelihood(token: _Token, before: bytes, choices: Sequence[str]) -> Distribution:
    """Return the probabilities of the choices in the place of a token, which has something before the choice."""
    listed = list(token.alternatives)
    if all(raw != token.raw for raw, _ in listed):
        listed.append((token.raw, token.logprob))
    start = r"\s*".join(["", *(re.escape(chr(byte)) for byte in before if byte not in _SPACE), ""])
    whole = re.compile(rf"{start}({'|'.join(map(re.escape, _longest_first(choices)))})(?![\w.])", re.ASCII)
    sums, unclear = dict.fromkeys(choices, 0.0), 0.0
    for raw, logprob in listed:
        probability = math.exp(min(logprob, 0.0))
        text = raw.decode("latin-1")
        match = whole.match(text)
        if match is not None:
            sums[match[1]] += probability
        if _goes_on(text, match, start, choices):
            unclear += probability
    total = math.fsum(sums.values())
    if total <= 0:
        return Distribution(reason="no rating is among the likeliest tokens")
    if unclear > _NEGLIGIBLE * total:
        return Distribution(reason="a rating may be split over several tokens")
    return Distribution(tuple(sums[choice] / total for choice in choices), share=min(1.0, total))


def _longest_first(choices: Sequence[str]) -> list[str]:
    return sorted(choices, key=len, reverse=True)


def _goes_on(text: str, match: re.Match[str] | None, start: str, choices: Sequence[str]) -> bool:
    """Return whether a token may be the beginning of a longer choice, which the next token completes."""
    written = match[1] if match is not None and match.end() == len(text) else ""
    if match is None and (begun := re.match(rf"{start}(\S+)\Z", text, re.ASCII)):
        written = begun[1]
    return bool(written) and any(one != written and one.startswith(written) for one in choices)


def _span_of(text: str, field: str) -> tuple[int, int] | None:
    """Return where the value of a field of an object begins and ends, in bytes, a label without its quotes."""
    decoder = json.JSONDecoder()
    position = _behind_space(text, 0)
    try:
        while text[position] in "{,":
            name, position = decoder.raw_decode(text, _behind_space(text, position + 1))
            start = _behind_space(text, _behind_space(text, position) + 1)
            value, end = decoder.raw_decode(text, start)
            if name == field:
                quote = 1 if isinstance(value, str) else 0
                first = len(text[: start + quote].encode("utf-8", "replace"))
                return first, first + len(text[start + quote : end - quote].encode("utf-8", "replace"))
            position = _behind_space(text, end)
    except (ValueError, IndexError, RecursionError):
        return None
    return None


def _behind_space(text: str, position: int) -> int:
    while text[position] in " \t\r\n":
        position += 1
    return position


def _placed(text: str, span: tuple[int, int], tokens: Sequence[_Token]) -> tuple[_Token | None, bytes] | None:
    """Return the token that holds a span of the text, and what it has before it.

    The reply stands among the tokens as a whole; or, where a token's bytes are lost, as those of a letter that
    several tokens make up are, all up to the span does, or all from it on. Each must stand there once.

    Returns:
        None where the tokens are not those of the text; no token where more than one holds the span.
    """
    written, joined = text.encode("utf-8", "replace"), b"".join(token.raw for token in tokens)
    start, end = span
    anchors = ((written, 0), (written[: end + 1], 0), (written[_key_before(written, start) :], -1))
    for anchor, offset in anchors:
        if joined.count(anchor) == 1:
            place = joined.index(anchor) + (start if offset == 0 else start - (len(written) - len(anchor)))
            return _token_at(place, place + end - start, tokens)
    return None


def _key_before(written: bytes, start: int) -> int:
    """Return where the name of the field begins whose value starts there."""
    return written.rindex(b'"', 0, written.rindex(b'"', 0, written.rindex(b":", 0, start)))


def _token_at(start: int, end: int, tokens: Sequence[_Token]) -> tuple[_Token | None, bytes]:
    position = 0
    for token in tokens:
        last = position + len(token.raw)
        if position <= start < last:
            return (token, token.raw[: start - position]) if end <= last else (None, b"")
        position = last
    return None, b""
