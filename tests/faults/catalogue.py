"""The faults of a model server, each with the end that a run under it must come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from graphs.refinement import StopReason
from judges import Unscored
from tests.model_server import Asked, Reply, Wire, answered, tools_of

WRITER, CRITIC = "writer", "critic"
"""Names of the two models that a server plays: generator and judge."""


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong between a client and a model.

    Args:
        name: What it is called.
        spoil: Makes of a request and its good reply what is sent instead.
        generating: Why the loop stops if every reply of the generator is so.
        streaming: The same for a generator that streams, where LangChain's reading of a stream makes a difference.
        judging: The reason code of the verdict if every reply of the judge is so.
        judged: How many requests the judge makes then for one answer.
        endless: Whether nothing but a deadline ends it.
        refused: Whether there is nobody to connect to.
    """

    name: str
    spoil: Callable[[Asked, Reply], Reply | Wire]
    generating: StopReason = "generator_failed"
    streaming: StopReason | None = None
    judging: Unscored = "judge_failed"
    judged: int = 1
    endless: bool = False
    refused: bool = False

    def __str__(self) -> str:
        """Name it in a test's id."""
        return self.name


def good(asked: Asked, *, rating: int = 4) -> Reply:
    """Reply as the model that is asked: an answer, or a verdict in the form that is wanted."""
    if asked["model"] == WRITER:
        return Reply("Paris is the capital of France.")
    if "Assessment" in tools_of(asked):
        fields = {"rationale": "It is.", "rating": rating, "feedback": "" if rating > 2 else "Say more."}
        return Reply(calls=(("Assessment", fields),))
    return Reply(f'{{"rationale": "It is.", "rating": {rating}, "feedback": ""}}')


INVALID: Unscored = "invalid_output"
CUT = "cut by its length"
"""Name of the fault whose last answer is judged, and has not passed whatever its rating."""


def _status(status: int, *, judged: int = 3, **headers: str) -> Fault:
    def spoil(asked: Asked, reply: Reply) -> Reply:
        return Reply("no", status=status, headers={name.replace("_", "-"): one for name, one in headers.items()})

    return Fault(f"{status}{' with retry-after' if headers else ''}", spoil, judged=judged)


def _body(asked: Asked, reply: Reply) -> bytes:
    return reply.wire({**asked, "stream": False}).sent.partition(b"\r\n\r\n")[2]


def _cut(asked: Asked, reply: Reply, *, stream: bool) -> Wire:
    sent = reply.wire({**asked, "stream": stream}).sent
    return Wire((sent[: len(sent) * 3 // 4],), then="close")


def _drip(asked: Asked, reply: Reply) -> Wire:
    sent = reply.wire(asked).sent
    return Wire(tuple(sent[at : at + 1] for at in range(len(sent))), pause_s=0.01)


def _ended_by(reason: str) -> Callable[[Asked, Reply], Reply]:
    return lambda asked, reply: replace(reply, finish_reason=reason)


def _twice(asked: Asked, reply: Reply) -> Reply:
    return replace(reply, calls=(reply.calls or (("search", {"query": "France"}),)) * 2)


def _broken_call(asked: Asked, reply: Reply) -> Reply:
    return Reply(calls=(("Assessment", '{"rationale": "It is.", "rating": 4, "feed'),))


FAULTS = (
    _status(429),
    _status(429, retry_after="3"),
    _status(500),
    _status(503),
    _status(408),
    _status(400, judged=1),
    _status(401, judged=1),
    Fault("connection refused", lambda asked, reply: Wire(), judged=3, refused=True),
    Fault("reset", lambda asked, reply: Wire(then="reset"), judged=3),
    Fault("hang", lambda asked, reply: Wire(then="hang"), "deadline", judging="deadline", endless=True),
    Fault("slow drip", _drip, "deadline", judging="deadline", endless=True),
    Fault("cut body", lambda asked, reply: _cut(asked, reply, stream=False), judged=3),
    Fault("cut stream of events", lambda asked, reply: _cut(asked, reply, stream=True), judged=3),
    Fault("bad JSON", lambda asked, reply: answered(_body(asked, reply)[:-3])),
    Fault("empty body", lambda asked, reply: answered(b"")),
    Fault("null content", lambda asked, reply: Reply(None), "max_attempts", judging=INVALID, judged=2),
    Fault("refusal", lambda asked, reply: Reply(refusal="I cannot help."), "skipped", judging=INVALID),
    Fault(CUT, _ended_by("length"), "max_attempts", judging=INVALID, judged=2),
    Fault("content filter", _ended_by("content_filter"), "skipped", judging=INVALID),
    Fault("no choices", lambda asked, reply: answered({"id": "r1", "object": "chat.completion", "choices": []})),
    Fault("two tool calls", _twice, "skipped", judging=INVALID, judged=2),
    Fault("bad tool arguments", _broken_call, "max_attempts", "skipped", judging=INVALID, judged=2),
    Fault("wrong content type", lambda asked, reply: answered(b"<h1>Sign in</h1>", kind="text/html")),
    Fault("10 MB body", lambda asked, reply: Reply("x" * 9_900_000), "accepted", judging=INVALID, judged=2),
    Fault("bad UTF-8", lambda asked, reply: answered(_body(asked, reply).replace(b"is", b"i\xff"))),
)
"""A 429 that says when to come back and one that does not are two faults.

What a generator sends is judged however it ended; a call of a tool is released unjudged, as every such turn is.
"""
