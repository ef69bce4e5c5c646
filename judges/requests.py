"""The requests of a deliberation. Requests are values; the drivers execute them.

`Judge.deliberate` is a generator. It yields one request and receives its answer, or yields a tuple of
independent requests, which run concurrently, and receives a tuple of answers. A failed single `Ask` is raised
inside the generator as `AskFailed`; in a tuple the error is the answer in its place, so that one failure does
not cost the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from pydantic import BaseModel, JsonValue

from judges.errors import AskFailed
from judges.messages import Media
from judges.model import EmbeddingModel, JudgeModel
from judges.sample import Sample
from judges.verdict import Usage, Verdict

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """A worked example as it is rendered for a model: the data and the expected reply."""

    body: str
    reply: str


Worked = WorkedExample
"""The name of `WorkedExample` before 0.3."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One question to a model.

    Args:
        model: The model to ask.
        task: The instructions; they become the system message.
        data: The data to judge, by field name; it reaches the model as fenced JSON, never as instructions.
        reminder: The task in one sentence, repeated after the data.
        schema: Pydantic class of the reply.
        examples: Worked examples, placed before the data.
        check: Returns the fault of a reply that fits the schema but not the question (a numbered item left out),
            or None; the model is asked again with the fault, as with any other. Its attribute `sizes`, where it
            has one, says how many items the reply's lists have, by field, which a schema can then enforce.
        shared: Whether judges that ask exactly the same about one sample share one reply.
        media: Images and audio that are shown after the data, numbered from 1; the data tell where they belong.
        is_begun: Whether the last field of the data is the pieces of an answer that is still written, the last of
            which is judged.
    """

    model: JudgeModel
    task: str
    data: Mapping[str, JsonValue]
    reminder: str
    schema: type[BaseModel]
    examples: tuple[WorkedExample, ...] = ()
    check: Callable[[Any], str | None] | None = None
    shared: bool = False
    media: tuple[Media, ...] = ()
    is_begun: bool = False
    rated: ClassVar[Literal["", "likelihood", "digit"]] = ""


@dataclass(frozen=True, slots=True)
class BegunAnswer:
    """An answer that is judged piece by piece while it is written.

    Args:
        nonce: The random number in the marks around it, the same for all its pieces.
        before: Its pieces before the one that is judged.
        piece: The one that is judged, as the judge is given it.
    """

    nonce: str
    before: tuple[str, ...]
    piece: str


@dataclass(frozen=True, kw_only=True)
class RatedAsk(Ask):
    """A question whose reply has one rating; the answer is a pair of the reply and a `judges.model.Distribution`.

    Args:
        rated: What is asked of the rating: `"likelihood"`, how likely each one was; `"digit"`, the rating alone,
            as one digit, and how likely each one was.
    """

    rated: Literal["likelihood", "digit"]  # type: ignore[misc]  # a field here, since each question has its own


@dataclass(frozen=True)
class Embed:
    """Turn texts into vectors; the answer is a list of vectors, in the order of the texts.

    Args:
        model: The embedding model.
        texts: The texts, in one batch.
    """

    model: EmbeddingModel
    texts: tuple[str, ...]


class Deliberates(Protocol):
    """Anything that can be consulted: every `judges.judge.Judge`.

    Attributes:
        name: Its name in verdicts, panels and traces.
    """

    name: str

    def deliberate(self, sample: Sample) -> Deliberation:
        """Yield the requests needed to judge the sample, and return the verdict."""
        ...


@dataclass(frozen=True)
class Consult:
    """Let another judge judge a sample; the answer is its `Verdict`, scored or not.

    Args:
        judge: The judge to consult.
        sample: The sample to judge.
        repetition: Which run this is, where the same judge is asked the same several times.
    """

    judge: Deliberates
    sample: Sample
    repetition: int | None = None


@dataclass(frozen=True)
class Apply:
    """Call a user's function, sync or async, with a sample; the answer is what it returns.

    Args:
        function: The function; run in a thread where the caller must not block.
        sample: Its argument.
        afunction: Its async counterpart, preferred where the caller must not block.
    """

    function: Callable[[Sample], object | Awaitable[object]]
    sample: Sample
    afunction: Callable[[Sample], Awaitable[object]] | None = None


Request = Ask | Embed | Consult | Apply
Deliberation = Generator[Request | tuple[Request, ...], Any, Verdict]
"""What `Judge.deliberate` returns: yields requests, receives answers, returns the verdict."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What came of a request: a value or a failure, and what it cost.

    Args:
        value: The answer.
        failure: Why there is none.
        usage: What the request consumed.
        model: Model id as the provider reported it.
    """

    value: Any = None
    failure: AskFailed | None = None
    usage: Usage = Usage()
    model: str | None = None


def ask(
    schema: type[T],
    *,
    model: JudgeModel,
    task: str,
    data: Mapping[str, JsonValue],
    reminder: str,
    examples: tuple[WorkedExample, ...] = (),
) -> Generator[Request | tuple[Request, ...], Any, T]:
    """Ask one question from inside a deliberation, with `yield from`, and return the reply."""
    question = Ask(model=model, task=task, data=data, reminder=reminder, schema=schema, examples=examples)
    reply: T = yield question
    return reply


def _put(schema: type[T], question: Ask) -> Generator[Request | tuple[Request, ...], Any, T]:
    """Ask a prepared question, with `yield from`, typed by its schema; `reply = yield question` does the same."""
    del schema
    reply: T = yield question
    return reply


def consult(judges: tuple[Deliberates, ...], sample: Sample) -> Generator[Any, Any, tuple[Verdict, ...]]:
    """Consult several judges at once from inside a deliberation, with `yield from`."""
    verdicts: tuple[Verdict, ...] = yield tuple(Consult(judge, sample) for judge in judges)
    return verdicts
