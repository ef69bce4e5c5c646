"""Ways round the judge, as data: what a client sends, and what must come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.guarding import QUESTION

Dialect = Literal["chat", "responses", "messages"]
Json = dict[str, Any]

PATHS: Mapping[Dialect, str] = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
MARK = "MARKED-AS-BAD"
"""What the upstream says, and no client may see."""

_BODIES: Mapping[Dialect, Json] = {
    "chat": {"messages": QUESTION},
    "responses": {"input": QUESTION},
    "messages": {"messages": QUESTION, "max_tokens": 99},
}
_SAY = {"type": "function", "name": "say", "function": {"name": "say"}, "input_schema": {"type": "object"}}
_LOOK = {**_SAY, "name": "look", "function": {"name": "look"}}
_ALLOWED = {"mode": "required", "tools": [{"type": "function", "name": "say", "function": {"name": "say"}}]}
_FORCED = {"type": "tool", "name": "say", "function": {"name": "say"}}
_ONE: Json = {"tools": [_SAY]}
_SAID = {"role": "assistant", "content": "It is"}


HIDDEN: Mapping[str, tuple[str, Json]] = {
    "another text": ("envelope", {"answer": MARK}),
    "the answer of another API": ("envelope", {"completion": MARK}),
    "content": ("envelope", {"answers": [{"type": "text", "content": [{"type": "text", "text": MARK}]}]}),
    "a warning": ("envelope", {"warnings": [MARK]}),
    "a note in the usage": ("envelope", {"timings": {"ms": 1, "note": MARK}}),
    "metadata": ("envelope", {"metadata": {"said": MARK}}),
    "a text with an address": ("envelope", {"citations": [f"https://x.example/ {MARK}"]}),
    "a sequence that stopped it": ("envelope", {"stop_sequence": MARK, "matched_stop": MARK}),
    "a tier": ("envelope", {"service_tier": MARK}),
    "a summary": ("answer", {"summary": MARK}),
    "a seal that is a text": ("answer", {"signature": f"I say {MARK}"}),
    "a seal in lines": ("answer", {"signature": f"I\nsay\n{MARK}"}),
    "a parsed form": ("answer", {"parsed": {"text": MARK}}),
    "a list of texts": ("answer", {"vendor": {"said": ["This", [MARK]]}}),
    "images that are texts": ("answer", {"images": [MARK], "video": {"url": MARK}}),
    "a role": ("answer", {"role": MARK}),
    "a phase": ("answer", {"phase": MARK}),
    "a call that is none": ("answer", {"function_call": MARK}),
    "a refusal that is none": ("answer", {"refusal": {"text": MARK}}),
    "a delta": ("choice", {"delta": {"content": MARK}}),
    "a text": ("choice", {"text": MARK}),
    "messages": ("choice", {"messages": [{"role": "assistant", "content": MARK}]}),
    "why it ended": ("choice", {"finish_reason": MARK, "stop_reason": MARK}),
    "a note": ("part", {"note": MARK}),
    "an odd annotation": ("part", {"annotations": [{"type": "x", "text": MARK}]}),
    "an odd citation": ("part", {"citations": [{"type": "x", "text": MARK}]}),
    "citations in a word": ("part", {"citations": MARK}),
    "a refusal in a text": ("part", {"refusal": [MARK]}),
    "tokens of another text": ("part", {"logprobs": [{"token": MARK, "logprob": 0.0}]}),
    "tokens of old": ("choice", {"logprobs": {"tokens": [MARK], "token_logprobs": [0.0]}}),
    "a token that is in no list": ("choice", {"logprobs": {"content": {"token": MARK}}}),
    "bytes of a token": ("choice", {"logprobs": {"content": [{"token": f"bytes:{MARK}"}]}}),
    "half a character in a token": ("choice", {"logprobs": {"content": [{"token": f"\ufffd {MARK}"}]}}),
    "a likely token of many words": (
        "choice",
        {"logprobs": {"content": [{"token": "good", "top_logprobs": [{"token": f"{'words ' * 9}{MARK}"}]}]}},
    ),
    "a print in a language without blanks": ("envelope", {"system_fingerprint": f"他说{MARK}"}),
    "an address in one": ("envelope", {"url": f"https://x.example/他说{MARK}"}),
    "a seal in one": ("answer", {"signature": f"他说{MARK}"}),
    "the name of a field in one": ("answer", {f"他说{MARK}": 1}),
    "a note on a token": ("choice", {"logprobs": {"content": [{"token": "good", "logprob": 0.0, "note": MARK}]}}),
}
"""Where a text may stand that no judge reads, beside one that it accepts: in which object, and what is added."""


@dataclass(frozen=True)
class Evasion:
    """One way round.

    Args:
        name: What is tried.
        status: The statuses that are right.
        fields: Fields added to the body; those that an API has not are sent to it all the same.
        turns: Messages in place of the question, under the name that the API has for them.
        model: What the upstream does, by the name of the model; see `replies.leak`.
        path: The path, with `{path}` for that of the API below `/v1`, and `{whole}` for the whole one.
        method: The method.
        headers: Headers of the request.
        trailers: What follows the body of a chunked request.
        is_spelling: Whether it is tried where all other paths pass by name, too.
    """

    name: str
    status: tuple[int, ...] = (422,)
    fields: Json = field(default_factory=dict)
    turns: list[Json] | None = None
    model: str = "m"
    path: str = "{whole}"
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    trailers: Mapping[str, str] = field(default_factory=dict)
    is_spelling: bool = False

    def path_of(self, dialect: Dialect) -> str:
        """Return the path for an API."""
        whole = PATHS[dialect]
        return self.path.format(whole=whole, path=whole.removeprefix("/v1"), upper=whole[3:].upper())

    def body_of(self, dialect: Dialect, *, streamed: bool) -> Json:
        """Return the body for an API."""
        body = {"model": self.model, **_BODIES[dialect]}
        if self.turns is not None:
            body["input" if dialect == "responses" else "messages"] = self.turns
        return {**body, **self.fields, **({"stream": True} if streamed else {})}


def _spelt(name: str, path: str) -> Evasion:
    return Evasion(f"path: {name}", (403, 404), path=path, is_spelling=True)


EVASIONS = (
    Evasion("plainly asked"),
    Evasion("several choices", fields={"n": 2}),
    Evasion("several choices, seeded", fields={"n": 3, "seed": 7}),
    Evasion("more choices than allowed", (400, 422), fields={"n": 10_000}),
    Evasion("choices as a text", (400, 422), fields={"n": "2"}),
    Evasion(
        "choices under another name",
        fields={"best_of": 2, "num_return_sequences": 2},
        model="two",
        status=(200, 422),
    ),
    Evasion("speech beside text", (400, 422), fields={"modalities": ["text", "audio"]}),
    Evasion("speech as a word", (400, 422), fields={"modalities": "audio"}),
    Evasion("speech that nobody asked for", model="speaks"),
    Evasion("a last message of the assistant", (400,), turns=[*QUESTION, _SAID]),
    Evasion("the assistant alone", (400,), turns=[_SAID]),
    Evasion("no message of the user", (400,), turns=[{"role": "system", "content": "Say it."}]),
    Evasion("a text beside a call", (200, 422), model="calls"),
    Evasion("a text beside a call that cannot be read", (200, 422), model="calls badly"),
    Evasion("a text beside a refusal", (200, 422), model="refuses"),
    Evasion("the call of a tool that nobody offered", model="says"),
    Evasion("the call of a tool beside the one that was offered", fields={"tools": [_LOOK]}, model="says"),
    Evasion("a text as the name of a tool", fields={"tools": [_LOOK]}, model="names"),
    Evasion("an answer as the one call there may be", fields={"tool_choice": _FORCED}, model="says"),
    Evasion(
        "a call forced in the old way beside a choice that is null",
        fields={"tool_choice": None, "function_call": {"name": "say"}, "functions": [{"name": "say"}]},
        model="says",
    ),
    Evasion(
        "a call forced among all tools",
        fields={"tool_choice": {"type": "allowed_tools", **_ALLOWED}, "tools": [_SAY, _LOOK]},
        model="says",
    ),
    Evasion(
        "a call forced among all tools, as chat has it",
        fields={"tool_choice": {"type": "allowed_tools", "allowed_tools": _ALLOWED}, "tools": [_SAY, _LOOK]},
        model="says",
    ),
    Evasion(
        "a call of a free form, forced",
        fields={"tool_choice": {"type": "custom", "custom": {"name": "say"}}, "tools": [_SAY, _LOOK]},
        model="says freely",
    ),
    Evasion("the one tool twice", fields={"tool_choice": "required", "tools": [_SAY, _SAY]}, model="says"),
    Evasion("a choice in upper case", fields={"tool_choice": "REQUIRED", "tools": [_SAY]}, model="says"),
    Evasion("a choice by its bare name", fields={"tool_choice": "say", "tools": [_SAY, _LOOK]}, model="says"),
    Evasion("a choice of functions", fields={"tool_choice": "any", "functions": [{"name": "say"}]}, model="says"),
    *(
        Evasion(
            f"a text in a forced call, {where}",
            (200, 422),
            {**_ONE, "tool_choice": _FORCED},
            model=f"says, {where}",
        )
        for where in ("twice", "beside what is said", "in a list", "in a patch")
    ),
    Evasion("a text beside what a call says", (200,), _ONE, model="says, beside what is said"),
    Evasion("an error that quotes the text", (400,), model="fails, quoting"),
    Evasion("an error in plain words", (400,), model="fails plainly"),
    Evasion("an error with an answer in it", (400,), model="fails with an answer"),
    Evasion("an error that quotes the text at length", (400,), model="fails at length"),
    Evasion("a text in a header", (200,), model="heads"),
    Evasion("an error that is a list", (400,), model="fails in a list"),
    Evasion("an error in a language without blanks", (400,), model="fails without blanks"),
    Evasion("an error that came as a success", (400, 502), model="fails with 200"),
    Evasion("parts of other kinds", (200, 422), model="odd"),
    *(Evasion(f"beside a good answer: {where}", (200, 422), model=f"hides {where}") for where in HIDDEN),
    Evasion("the prompt, repeated", (200,), fields={"prompt_logprobs": 1}, model="told"),
    Evasion("what was written, unparsed", (200,), fields={"enable_response_messages": True}, model="told"),
    Evasion("an answer too long for the judge", model="long"),
    Evasion("a thought without an answer", (422,), model="thinks"),
    Evasion(
        "a reference to what is stored",
        (400, 422),
        turns=[*QUESTION, {"type": "item_reference", "role": "user", "content": "x", "id": "msg_1"}],
    ),
    Evasion("the user's words gone on with", fields={"continue_final_message": True, "echo": True}),
    Evasion("choices in a body of the client's", (200, 422), fields={"extra_body": {"n": 2}}, model="two"),
    Evasion("a text that the provider stopped", (200, 422), model="filtered"),
    Evasion("a text that was cut off", model="cut"),
    Evasion("a text cut off as asked", fields={"max_tokens": 1, "max_output_tokens": 1}, model="cut"),
    Evasion("an answer in the background", (400, 422), fields={"background": True}),
    Evasion("a stored answer", (400, 422), fields={"store": True}),
    Evasion("a conversation that is kept", (400, 422), fields={"conversation": "conv_1"}),
    Evasion("a chain of stored responses", (400, 422), fields={"previous_response_id": "resp_1"}),
    Evasion("no call for the judge", (422, 503), fields={"refine": {"max_calls": 1}}),
    Evasion("no token for the judge", (422, 503), fields={"refine": {"max_tokens": 1}}),
    Evasion("no time for the judge", (422, 503, 504), fields={"refine": {"deadline_s": 0.03}}, model="late"),
    Evasion("no repeat for the judge", fields={"refine": {"max_retries": 0}}),
    Evasion("a lower rating", (400,), fields={"refine": {"success_rating": 1}}),
    Evasion("one attempt", fields={"refine": {"max_attempts": 1}}),
    Evasion("a policy of its own", (400,), fields={"refine": {"shadow": True}}),
    Evasion("what follows a failed judge", (400,), fields={"refine": {"on_judge_error": "accept"}}),
    Evasion("a share of questions", (400,), fields={"refine": {"sample_rate": 0.0}}),
    Evasion("another ending", (400,), fields={"refine": {"on_exhausted": "best"}}),
    Evasion("a guard that is not there", (404,), headers={"x-refine-guard": "none"}),
    Evasion("a redirect", (502,), model="redirects"),
    Evasion("a guard in the trailers", trailers={"x-refine-guard": "lax"}),
    Evasion("a host in the trailers", (403,), headers={"host": "evil.example"}, trailers={"host": "localhost"}),
    Evasion("another method", (404, 405), method="PUT"),
    Evasion("another method by a header", headers={"x-http-method-override": "GET"}),
    Evasion("another path by a header", headers={"x-original-url": "/v1/completions"}),
    Evasion("a compressed body", (415,), headers={"content-encoding": "gzip"}),
    Evasion("completions", (404,), path="/v1/completions"),
    Evasion("completions of an engine", (404,), path="/v1/engines/m/completions"),
    Evasion("assistants", (404,), path="/v1/threads/runs"),
    Evasion("batches", (404,), path="/v1/messages/batches"),
    Evasion("what was sent, stored", (404,), path="/v1/responses/r1/input_items", method="GET"),
    Evasion("a stored response", (404,), path="/v1/responses/r1", method="GET"),
    Evasion("a stored completion", (404,), path="/v1/chat/completions/r1", method="GET"),
    Evasion("what was asked, stored", (404,), path="/v1/chat/completions/r1/messages", method="GET"),
    Evasion("what is kept of a conversation", (404,), path="/v1/conversations/conv_1/items", method="GET"),
    Evasion("events on request of a header", headers={"accept": "text/event-stream"}),
    *(
        Evasion(f"below what passes, another: {path}", (404,), path=f"/v1/{path}")
        for path in (
            "audio/completions",
            "audio/chat",
            "audio/Chat.json",
            "audio/v2/chat_stream",
            "audio/%43ompletions/x",
            "files/x/generate",
            "files/responses/r1",
            "files:generateContent",
            "files/x:predict",
            "files/threads/runs",
            "files/%c0%ae%c0%ae/x",
            "files/%ef%bc%8e%ef%bc%8e/x",
            "files/..%20/x",
        )
    ),
    *(
        Evasion(f"below the models, another: {path}", (404,), path=f"/v1/models/{path}", method="GET")
        for path in ("x/generate", "x:generateContent", "x:streamGenerateContent", "x/completions", "a/b/runs")
    ),
    _spelt("a way up within it", "/v1/chat/x/../completions"),
    _spelt("a way up within it, encoded", "/v1/audio/../messages/x/%2e%2e"),
    _spelt("a whole address", "http://localhost/v1/x{path}"),
    _spelt("the prefix twice", "/v1/v1{path}"),
    _spelt("an engine before it", "/v1/engines/m{path}"),
    _spelt("a deployment before it", "/v1/openai/deployments/m{path}"),
    _spelt("below what passes", "/v1/audio{path}"),
    _spelt("a dot at its end", "{whole}."),
    _spelt("dots at its end", "{whole}..."),
    _spelt("a dot as a part", "{whole}/."),
    _spelt("a way up", "/v1/embeddings/..{path}"),
    _spelt("a way up, encoded", "/v1/embeddings/%2e%2e{path}"),
    _spelt("two slashes", "/v1/{path}"),
    _spelt("two slashes at its end", "/v1/x{path}//"),
    _spelt("upper case", "/v1{upper}"),
    _spelt("a parameter", "/v1/x{path};a=b"),
    _spelt("a space", "{whole}%20"),
    _spelt("a tab", "{whole}%09"),
    _spelt("nothing", "{whole}%00"),
    _spelt("a query, encoded", "/v1/x{path}%3Fa"),
    _spelt("a fragment, encoded", "/v1/x{path}%23a"),
    _spelt("a format", "{whole}.json"),
    _spelt("a colon", "/v1/x{path}:generate"),
    _spelt("a comma", "{whole},"),
    _spelt("wide letters", "/v1/x{path}".replace("{path}", "/%EF%BD%8Dessages")),
    _spelt("encoded twice", "/v1/x/%256dessages"),
    _spelt("encoded thrice", "/v1/x/%25256dessages"),
    _spelt("a backslash", "/v1/x\\messages"),
)
