"""What a deliberation may ask for. Requests are values; the drivers carry them out.

`Judge.deliberate` is a generator. It yields one request and receives its answer, or yields a tuple of
independent requests, which run concurrently, and receives a tuple of answers. A failed single `Ask` is raised
inside the generator as `AskFailed`; in a tuple it stands in its place as a value, so that one failure does not
cost the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, JsonValue

from judges.errors import AskFailed
from judges.model import EmbeddingModel, JudgeModel
from judges.sample import Sample
from judges.verdict import Verdict

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Worked:
    """A worked case as a model is shown it (see `judges.models.render.worked`): the data and the wanted reply."""

    body: str
    reply: str


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One question to a model.

    Args:
        model: Who is asked.
        task: The instructions; they become the system message.
        data: What is judged, by field name; it reaches the model as fenced JSON, never as instructions.
        reminder: The task in one sentence, repeated after the data.
        schema: Pydantic class of the reply.
        examples: Worked cases, shown before this one.
        check: Names the fault of a reply that fits the schema but not the question (a numbered item left out),
            or gives None; a fault is asked about again, like any other.
        shared: Whether judges that ask the very same about one sample share one reply.
    """

    model: JudgeModel
    task: str
    data: Mapping[str, JsonValue]
    reminder: str
    schema: type[BaseModel]
    examples: tuple[Worked, ...] = ()
    check: Callable[[Any], str | None] | None = None
    shared: bool = False


@dataclass(frozen=True)
class Embed:
    """Turn texts into vectors; the answer is a list of vectors, in the order of the texts.

    Args:
        model: Who embeds.
        texts: What is embedded, in one batch.
    """

    model: EmbeddingModel
    texts: tuple[str, ...]


class Deliberates(Protocol):
    """What can be consulted: every `judges.judge.Judge`.

    Attributes:
        name: What it is called in verdicts, panels and traces.
    """

    name: str

    def deliberate(self, sample: Sample) -> Deliberation:
        """Yield what is needed to judge the sample, and return the verdict."""
        ...


@dataclass(frozen=True)
class Consult:
    """Let another judge speak on a sample; the answer is its `Verdict`, scored or not.

    Args:
        judge: Who speaks.
        sample: On what.
        repetition: Which run this is, where the same judge is asked the same several times.
    """

    judge: Deliberates
    sample: Sample
    repetition: int | None = None


@dataclass(frozen=True)
class Apply:
    """Call a user's function, sync or async, with a sample; the answer is what it returns.

    Args:
        function: What is called; run in a thread where the caller must not block.
        sample: What it is called with.
        afunction: Its async twin, preferred where the caller must not block.
    """

    function: Callable[[Sample], object | Awaitable[object]]
    sample: Sample
    afunction: Callable[[Sample], Awaitable[object]] | None = None


Request = Ask | Embed | Consult | Apply
Deliberation = Generator[Request | tuple[Request, ...], Any, Verdict]
"""What `Judge.deliberate` returns: yields requests, receives answers, returns the verdict."""


def ask(
    schema: type[T],
    *,
    model: JudgeModel,
    task: str,
    data: Mapping[str, JsonValue],
    reminder: str,
    examples: tuple[Worked, ...] = (),
) -> Generator[Request | tuple[Request, ...], Any, T]:
    """Ask one question from inside a deliberation, with `yield from`, and return the reply."""
    question = Ask(model=model, task=task, data=data, reminder=reminder, schema=schema, examples=examples)
    return (yield from put(schema, question))


def put(schema: type[T], question: Ask) -> Generator[Request | tuple[Request, ...], Any, T]:
    """Put a question from inside a deliberation, with `yield from`, and return the reply."""
    reply = yield question
    if not isinstance(reply, schema):
        raise AskFailed("invalid_output", f"expected a {schema.__name__}, got a {type(reply).__name__}")
    return reply


def consult(judges: tuple[Deliberates, ...], sample: Sample) -> Generator[Any, Any, tuple[Verdict, ...]]:
    """Consult several judges at once from inside a deliberation, with `yield from`."""
    verdicts: tuple[Verdict, ...] = yield tuple(Consult(judge, sample) for judge in judges)
    return verdicts


def repeat(judge: Deliberates, sample: Sample, n: int) -> Generator[Any, Any, tuple[Verdict, ...]]:
    """Consult one judge n times at once from inside a deliberation, with `yield from`."""
    verdicts: tuple[Verdict, ...] = yield tuple(Consult(judge, sample, number) for number in range(n))
    return verdicts
