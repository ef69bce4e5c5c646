"""A model server that says how likely each rating was, in the forms of OpenAI, vLLM and llama.cpp."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tests.model_server import Asked, Script, Wire, answered

Form = Literal["openai", "vllm", "llama.cpp", "columns", "native", "probs"]
"""`columns` is vLLM's older form, `native` and `probs` are those of llama.cpp's own endpoint, new and old."""

Token = tuple[str | bytes, Mapping[str, float]]
"""What a token says, and its alternatives with their probabilities; empty where nobody asks."""


def as_bytes(text: str | bytes) -> bytes:
    """Give a token's bytes."""
    return text if isinstance(text, bytes) else text.encode()


def lenient(text: str | bytes) -> str:
    """Give a token as a text, as endpoints write one that is half a letter."""
    return as_bytes(text).decode(errors="replace")


def logprobs_of(tokens: Sequence[Token], form: Form) -> dict[str, Any]:
    """Write tokens as the fields of a choice, or of the whole completion, that hold their probabilities."""
    if form == "columns":
        columns = {
            "tokens": [lenient(text) for text, _ in tokens],
            "token_logprobs": [_log(text, tops) for text, tops in tokens],
            "top_logprobs": [{one: math.log(share) for one, share in tops.items()} for _, tops in tokens],
        }
        return {"logprobs": columns}
    if form == "probs":
        listed = [
            {"content": lenient(text), "probs": [{"tok_str": one, "prob": share} for one, share in tops.items()]}
            for text, tops in tokens
        ]
        return {"completion_probabilities": listed}
    entries = [
        {**_entry(text, _log(text, tops), form), "top_logprobs": [_entry(*pair, form) for pair in _logs(tops)]}
        for text, tops in tokens
    ]
    return {"completion_probabilities": entries} if form == "native" else {"logprobs": {"content": entries}}


def _logs(tops: Mapping[str, float]) -> list[tuple[str, float]]:
    return [(one, math.log(share)) for one, share in tops.items()]


def _log(text: str | bytes, tops: Mapping[str, float]) -> float:
    return math.log(tops.get(lenient(text), 1.0))


def _entry(text: str | bytes, logprob: float, form: Form) -> dict[str, Any]:
    """Write one token; vLLM has the bytes of the text, also where half a letter was lost in it."""
    raw = lenient(text).encode() if form == "vllm" else as_bytes(text)
    number = {"id": len(raw)} if form in ("llama.cpp", "native") else {}
    return {**number, "token": lenient(text), "bytes": list(raw), "logprob": logprob}


def completion(tokens: Sequence[Token], form: Form = "openai", **more: Any) -> Wire:
    """Answer with a text, which is that of its tokens, and with their probabilities."""
    text = b"".join(as_bytes(one) for one, _ in tokens).decode()
    fields = logprobs_of(tokens, form)
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    choice |= {name: value for name, value in fields.items() if name == "logprobs"}
    body = {"id": "r", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    usage = {"prompt_tokens": 100, "completion_tokens": len(tokens), "total_tokens": 100 + len(tokens)}
    return answered({**body, "usage": usage, **{k: v for k, v in fields.items() if k != "logprobs"}, **more})


def assessed(
    rating: int, shares: Mapping[str, float], *, before: str = '": ', rationale: str = "Fine.", behind: str = ""
) -> list[Token]:
    """Give the tokens of an assessment, in which the rating's token also holds what is before and behind it.

    Args:
        rating: The rating.
        shares: How likely each rating was.
        before: What the rating's token has before the digit; it ends the JSON before it.
        rationale: The rationale.
        behind: What the token has behind the digit.
    """
    assert '"rationale": "", "rating": '.endswith(before)
    head = f'{{"rationale": {json.dumps(rationale, ensure_ascii=False)}, "rating": '.removesuffix(before)
    tail = ', "feedback": "Say 3 of 4 more."}'.removeprefix(behind)
    tops = {f"{before}{digit}{behind}": share for digit, share in shares.items()}
    return [*((one, {}) for one in head), (f"{before}{rating}{behind}", tops), (tail, {})]


def rating(shares: Mapping[str, float], *, full: int = 2, form: Form = "openai") -> Script:
    """Make a script: one digit where that is asked for, with how likely each was; else an assessment."""

    def reply(asked: Asked) -> Wire:
        if "as one digit" in asked["messages"][0]["content"]:
            likeliest = max(shares, key=lambda digit: shares[digit])
            return completion([(likeliest, shares if asked.get("logprobs") else {})], form)
        return completion(assessed(full, {}), form)

    return reply
