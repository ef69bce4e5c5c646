"""Running a trial: the first answer of each question once, and every arm from there on; all is journaled."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from graphs import Attempt, Loop, Refinement, Unanswered, outcome_of
from graphs.augment import added_messages
from graphs.drivers import Flow, RunContext, adrive
from judges import ConfigurationError, OpenAICompatible, Sample, chat_model
from judges.messages import Message, langchain_content
from judges.models.providers.openai_fields import names_direct_client
from judges.models.retry import kind_of
from judges.offline import Progress
from judges.offline.run.journal import Journal
from judges.runtime import faults
from judges.runtime.budget import unkept_budget
from judges.verdict import Usage
from refine.trials.results import FIRST, Arm, TrialRow
from refine.trials.store import FAILURES, StoredRow, TrialPlan, answer_key

_MOST_SEEDS = 2**31
_MOST_FAILED = 20
"""Questions that may fail before any was answered."""


@dataclass(frozen=True, kw_only=True)
class ArmLimits:
    """What an arm may consume, over all questions; the first arm that reaches it ends the trial.

    Args:
        calls: Most model calls, those of the judge included; None is no limit.
        cost: Most US dollars; None is no limit.
    """

    calls: int | None = None
    cost: float | None = None

    def reached_by(self, arm: str, usage: Usage) -> str | None:
        """Return in a line which limit an arm has reached; None while there is room."""
        if unkept := unkept_budget(usage, calls=self.calls, cost=self.cost):
            return f"the arm {arm!r}: {unkept}"
        if self.calls is not None and usage.calls >= self.calls:
            return f"the arm {arm!r} has made {usage.calls} model calls, of at most {self.calls}"
        if self.cost is not None and (usage.cost or 0.0) >= self.cost:
            return f"the arm {arm!r} has cost ${usage.cost:.4f}, of at most ${self.cost:g}"
        return None


class TrialRun:
    """Fills the journal of a trial, and reads what came of it.

    Args:
        plan: What is to be done.
        folder: Folder of the trial, whose lock is held.
        loops: The loop of each arm.
        retry_failed: Whether what failed is tried again.
        on_progress: Called after each arm of a row.
        limits: What an arm may consume; no question begins once one arm has reached it.

    Attributes:
        failed: By question and draw, why the first answer could not be generated.
        stopped: Which limit was reached before all rows were done; empty where none was.
    """

    def __init__(
        self,
        plan: TrialPlan,
        folder: Path,
        loops: Mapping[str, Loop],
        *,
        retry_failed: bool,
        on_progress: Callable[[Progress], object] | None,
        limits: ArmLimits | None = None,
    ) -> None:
        self._limits = ArmLimits() if limits is None else limits
        self._consumed = {arm.name: Usage() for arm in plan.arms[1:]}
        self._reached = self.stopped = ""
        self._plan, self._folder, self._loops = plan, folder, loops
        self._retry_failed = retry_failed
        self._context = RunContext({"callbacks": []})
        self._progress = _ProgressCount(plan.rows * (len(plan.arms) - 1), on_progress)
        trial_generator = resolve_generator(plan.generator)
        others = {arm.name: arm.generator for arm in plan.arms if arm.generator is not None}
        self._models = {
            FIRST: trial_generator,
            **{name: resolve_generator(other) for name, other in others.items()},
        }
        self.failed: dict[tuple[int, int], str] = {}

    async def run(self, max_concurrency: int) -> None:
        """Do what is missing, at most so many generations and judgements at once."""
        self._slots = asyncio.Semaphore(max_concurrency)
        rows = iter(range(self._plan.rows))

        async def work(journal: Journal) -> None:
            for row in rows:
                await self._row(row, journal)

        with closing(Journal(self._folder)) as journal, faults.of_run(log_texts=False):
            arms = [journal.cells[arm.name] for arm in self._plan.arms[1:]]
            self._progress.done = sum(
                cells.place(row) is not None for cells in arms for row in range(self._plan.rows)
            )
            if self._limits != ArmLimits():
                self._count_consumed(journal)
            await _all(work(journal) for _ in range(max_concurrency))

    def _count_consumed(self, journal: Journal) -> None:
        """Count what the arms consumed before, in rows that they have ended."""
        for row in range(self._plan.rows):
            stored = StoredRow(self._plan, journal, row)
            for arm in self._consumed:
                self._consume(arm, stored.consumed(arm))

    def _consume(self, arm: str, usage: Usage) -> None:
        self._consumed[arm] += usage
        self._reached = self._reached or self._limits.reached_by(arm, self._consumed[arm]) or ""

    def rows(self) -> list[TrialRow]:
        """Return what came of every row in every arm, in order; nothing of a row whose first answer failed."""
        with closing(Journal(self._folder)) as journal:  # it indexes what it holds now
            rows = range(self._plan.rows)
            return [result for row in rows for result in StoredRow(self._plan, journal, row).results()]

    def answers(self) -> list[tuple[int, Sample]]:
        """Return all answers with the indexes of their questions; equal ones as often as they came."""
        with closing(Journal(self._folder)) as journal:  # it indexes what it holds now
            rows = ((row, StoredRow(self._plan, journal, row)) for row in range(self._plan.rows))
            return [(self._plan.place(row)[0], sample) for row, stored in rows for sample in stored.samples()]

    async def _row(self, row: int, journal: Journal) -> None:
        stored = StoredRow(self._plan, journal, row, without_failed=self._retry_failed)
        missing = [arm for arm in self._plan.arms[1:] if self._is_missing(journal, row, arm.name)]
        if missing and self._reached:
            self.stopped = self._reached
            return
        if missing:
            locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
            begun = await self._first(stored)
            if begun is None:
                return
            await _all(self._arm(arm, stored, locks) for arm in missing)
        if self._plan.truth is not None:
            await self._judge_truth(stored)

    def _is_missing(self, journal: Journal, row: int, arm: str) -> bool:
        cells = journal.cells[arm]
        return cells.place(row) is None or (self._retry_failed and cells.has_failed(row))

    async def _first(self, stored: StoredRow) -> Attempt | None:
        """Return the answer that all arms share; None where it could not be generated, which is not kept."""
        place = self._plan.place(stored.row)
        try:
            refinement = self._begin(stored.row, FIRST)
            refinement = await self._attempt(refinement, FIRST, stored, answer_key(FIRST, (), ()))
        except Exception as error:
            if outcome_of(error) is None:
                raise
            self._fail(place, f"{kind_of(error.__cause__ or error)} from the generator")
            return None
        if not refinement.attempts:
            self._fail(place, refinement.detail or str(refinement.stop_reason))
            return None
        return refinement.attempts[0]

    def _fail(self, place: tuple[int, int], reason: str) -> None:
        """Remember why a first answer could not be generated.

        Raises:
            ConfigurationError: If none could so far: the rest would fail, too.
        """
        self.failed[place] = reason
        if len(self.failed) >= _MOST_FAILED and not (self._progress.calls or self._progress.done):
            raise ConfigurationError(
                f"none of the first {len(self.failed)} questions could be answered ({reason}); check the "
                f"generator, its address and its key"
            )

    async def _arm(self, arm: Arm, stored: StoredRow, locks: Mapping[str, asyncio.Lock]) -> None:
        """Go through all attempts of an arm; an answer that another arm asks for in the same words is shared."""
        started = time.perf_counter()
        refinement, keys = self._begin(stored.row, arm.name), list[str]()
        while not refinement.done:
            generator = arm.name if arm.generator is not None and refinement.attempts else FIRST
            keys.append(answer_key(generator, refinement.attempts, refinement.added))
            async with locks[keys[-1]]:
                refinement = await self._attempt(refinement, generator, stored, keys[-1])
        messages = _messages(self._plan.question(stored.row))
        try:
            finished = self._loops[arm.name].step("finish", refinement, messages, self._context)
            outcome = (await adrive(finished, self._context)).outcome
        except Unanswered as error:
            outcome = error.outcome
        assert outcome is not None  # noqa: S101 - a step that finishes without one raises
        stored.end(arm.name, outcome, keys, time.perf_counter() - started)
        self._consume(arm.name, outcome.usage)
        self._progress.end(has_failed=outcome.stop_reason in FAILURES)

    def _begin(self, row: int, arm: str) -> Refinement:
        question = {"messages": _messages(self._plan.question(row)), "evidence": self._plan.evidence(row)}
        return self._loops[arm].begin(question)

    async def _attempt(self, refinement: Refinement, source: str, stored: StoredRow, key: str) -> Refinement:
        """Return the record with one more answer and its verdict: the stored one, or else a new one.

        Args:
            refinement: The record of an arm.
            source: The arm whose generator is asked; the first is that of the trial.
            stored: What the journal has of the row.
            key: What the answer depends on.
        """
        stored_attempt = stored.answer(key)
        if stored_attempt is not None:
            return _restored(refinement, stored_attempt)
        generator = self._seeded(stored.row, refinement.number, self._models[source])
        loop = self._loops[refinement.refiner].with_generator(generator)
        messages = _messages(self._plan.question(stored.row))
        async with self._slot():
            after = await adrive(_attempted(loop, refinement, messages, self._context), self._context)
        if len(after.attempts) > len(refinement.attempts):
            stored.add_answer(key, after.attempts[-1])
            self._progress.calls += 1
        return after

    def _seeded(self, row: int, number: int, generator: object) -> object:
        """Return a generator with the seed of an attempt, the same in all arms; as it is where it takes none."""
        takes_seed = isinstance(generator, OpenAICompatible) or "seed" in _settings_of(generator)
        if self._plan.seed is None or not takes_seed:
            return generator
        question, draw = self._plan.place(row)
        place = f"{self._plan.seed}/{question}/{draw}/{number}".encode()
        seed = int.from_bytes(blake2b(place, digest_size=8).digest()) % _MOST_SEEDS
        return generator.bind(seed=seed)  # type: ignore[attr-defined]  # of chat models and clients

    async def _judge_truth(self, stored: StoredRow) -> None:
        """Judge every different answer of a row once by the truth."""
        truth = self._plan.truth
        for sample in stored.samples():
            if truth is not None and not stored.has_truth(sample):
                async with self._slot():
                    verdict = await truth.acall(sample)
                stored.add_truth(sample, good=verdict.passed, unscored=verdict.unscored)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Hold one of the generations and judgements at once."""
        async with self._slots:
            self._progress.in_flight += 1
            try:
                yield
            finally:
                self._progress.in_flight -= 1


class _ProgressCount:
    """Counts what is done, and tells of it.

    Args:
        total: How many arms of rows there are.
        tell: Called after each of them.
    """

    def __init__(self, total: int, tell: Callable[[Progress], object] | None) -> None:
        self.done = self.calls = self.in_flight = self._new = self._failed = 0
        self._total, self._tell, self._started = total, tell, time.monotonic()

    def end(self, *, has_failed: bool) -> None:
        """Count an arm of a row that has ended."""
        self.done, self._new, self._failed = self.done + 1, self._new + 1, self._failed + has_failed
        if self._tell is None:
            return
        seconds, rows_done = time.monotonic() - self._started, min(self.done, self._total)
        progress = Progress(
            done=rows_done,
            total=self._total,
            unscored=self._failed,
            in_flight=self.in_flight,
            calls=self.calls,
            cost=None,
            seconds=seconds,
            seconds_left=seconds / self._new * (self._total - rows_done),
        )
        self._tell(progress)


def _attempted(
    loop: Loop, refinement: Refinement, messages: Sequence[Any], context: RunContext
) -> Flow[Refinement]:
    """Generate one answer, and judge it."""
    refinement = (yield from loop.step("generate", refinement, messages, context)).refinement
    if refinement.done:
        return refinement
    return (yield from loop.step("judge", refinement, messages, context)).refinement


def _restored(refinement: Refinement, attempt: Attempt) -> Refinement:
    """Return a record with an answer that was made before, and what the next one is to see."""
    now, unjudged = time.time(), attempt.model_copy(update={"verdict": None})
    drafted = replace(refinement, attempts=(*refinement.attempts, unjudged), updated_at=now)
    if attempt.verdict is None:
        return drafted.stop("skipped", "handed on unjudged", now=now)
    judged = drafted.add_verdict(attempt.verdict, now=now)
    return judged if judged.done else judged.add_messages(added_messages(judged))


async def _all(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Await all calls; where one fails, the others have ended when its error is raised."""
    tasks = [asyncio.create_task(call) for call in calls]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def resolve_generator(generator: object) -> object:
    """Return what a name of a model means; anything else as it is."""
    if not isinstance(generator, str):
        return generator
    return OpenAICompatible.named(generator) if names_direct_client(generator) else chat_model(generator)


def name_of(generator: object) -> str:
    """Return what a generator calls itself: a model's name, a function's, or else its class."""
    names = (getattr(generator, name, None) for name in ("model_name", "model", "name", "__name__"))
    named = generator if isinstance(generator, str) else next((one for one in names if isinstance(one, str)), None)
    return named or type(generator).__name__


def _settings_of(generator: object) -> Iterable[str]:
    """Return the names of the settings of the chat model in a generator; none for anything else."""
    while not isinstance(generator, BaseChatModel) and getattr(generator, "bound", None) is not None:
        generator = generator.bound  # type: ignore[attr-defined]  # checked in the line above
    return type(generator).model_fields if isinstance(generator, BaseChatModel) else ()


_READERS: Mapping[str, Callable[[Message], AnyMessage]] = {
    "system": lambda one: SystemMessage(one.content),
    "user": lambda one: HumanMessage(langchain_content((one.content, *one.media) if one.media else one.content)),
    "assistant": lambda one: AIMessage(
        one.content, tool_calls=[{"name": c.name, "args": dict(c.args), "id": c.id} for c in one.tool_calls]
    ),
    "tool": lambda one: ToolMessage(one.content, tool_call_id=one.tool_call_id or ""),
}


def _messages(sample: Sample) -> list[AnyMessage]:
    """Return the conversation of a sample as messages."""
    conversation = sample.user_input or ""
    if isinstance(conversation, str):
        return [HumanMessage(conversation)]
    return [_READERS[message.role](message) for message in conversation]
