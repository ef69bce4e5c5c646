"""`trial` and `atrial`: the same questions through several arms, in the folder of a run that survives a crash."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from graphs import Attempt, Bounds, Loop, Policy, PolicySettings, Refinement, Unanswered, build_loop, outcome_of
from graphs.augment import added_messages
from graphs.drivers import Flow, RunContext, adrive
from graphs.graph import judge_for
from graphs.policy import policy_of
from judges import BadSample, ConfigurationError, Judge, OpenAICompatible, Sample, as_judge, chat_model
from judges.catalogue.names import one_judge
from judges.errors import shortened
from judges.fingerprint import fingerprint
from judges.messages import Message, langchain_content
from judges.models.providers.openai_settings import names_direct_client
from judges.models.retry import kind_of
from judges.offline import Progress, read_rows
from judges.offline.dataset.reading import RowInput, read_sample
from judges.offline.run.evaluate import finish
from judges.offline.run.journal import Journal, full_disk_told, locked, make_folder, replacing
from judges.offline.run.outputs import SUMMARY
from judges.offline.run.source import row_json
from judges.runtime import faults
from judges.runtime.budget import unkept_budget
from judges.runtime.validation import naming_settings, whole_number
from judges.settings import MADE_WITH
from judges.verdict import Usage
from refine.trials.manifest import MANIFEST, TrialManifest
from refine.trials.results import ANSWERS, BASELINE, DEFAULT_ARMS, FIRST, Arm, Trial, TrialRow, read_arms
from refine.trials.store import FAILURES, StoredRow, TrialPlan, answer_key

_MOST_SEEDS = 2**31
_MOST_FAILED = 20
"""Questions that may fail before any was answered."""


@dataclass(frozen=True, kw_only=True)
class _ArmLimits:
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


class _TrialRun:
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
        limits: _ArmLimits | None = None,
    ) -> None:
        self._limits = _ArmLimits() if limits is None else limits
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
            if self._limits != _ArmLimits():
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


def _write_answers(folder: Path, answers: Iterable[tuple[int, Sample]]) -> None:
    """Write every different answer once, with the index of its question."""
    lines = dict.fromkeys(
        row_json(sample.model_copy(update={"metadata": {**sample.metadata, "question_id": str(question)}}))
        for question, sample in answers
    )
    with replacing(folder / ANSWERS) as file:
        file.writelines(line + b"\n" for line in lines)


def resolve_generator(generator: object) -> object:
    """Return what a name of a model means; anything else as it is."""
    if not isinstance(generator, str):
        return generator
    return OpenAICompatible.named(generator) if names_direct_client(generator) else chat_model(generator)


def _name_of(generator: object) -> str:
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


_ANY = Bounds(max_criteria_chars=sys.maxsize)
"""What a question brings is from whoever makes the trial, not from a stranger: guidelines of a row are welcome."""

_COSTS = frozenset({"prices"})
"""Settings of a policy that change no answer."""

_Questions = str | Path | Iterable[RowInput | str]
"""A file of rows, or the rows; a text among them is a question."""


class _TrialSettings(PolicySettings, total=False):
    """The keywords of `trial` and `atrial`; see there."""

    truth: object
    arms: str | Sequence[str | Arm]
    out: str | Path | None
    draws: int
    temperature: float | None
    seed: int | None
    baseline: str | None
    limit: int | None
    max_arm_calls: int | None
    max_arm_cost: float | None
    max_concurrency: int
    retry_failed: bool
    on_progress: Callable[[Progress], object] | None
    policy: Policy | Mapping[str, Any] | None
    command: dict[str, Any] | None


@naming_settings("trial(questions, generator, judge, truth=...)")
def trial(questions: _Questions, generator: object, judge: object, **settings: Unpack[_TrialSettings]) -> Trial:
    """Send the same questions through several arms, and say what each of them mends and breaks.

    The first answer to a question is generated once, and all arms go on from it, each with as many generations as
    the others (`max_attempts`). Within an arm the loop's `judge` decides whether to go on; whether an answer is
    good is for `truth` alone to say. Called again with the same folder it does what is missing.

    Args:
        questions: A file of rows, or rows: samples, mappings, or texts.
        generator: A chat model, its name, or whatever else `SelfRefine` takes.
        judge: The judge of the loop.
        truth: Another judge, whose pass mark says whether an answer is good; None leaves it to labels.
        arms: `first` (the first answer alone), `loop` (the policy as it is), a named form of a retry,
            `stronger=MODEL`, or an `Arm` of your own.
        out: Folder of the trial; None keeps nothing.
        draws: How often each question is asked, each time with another seed.
        temperature: Of the generator; None is its own.
        seed: Seed of the draws, sent to generators that take one; None sends none.
        baseline: The arm to compare with; None is `fresh` where it is an arm, else `first`.
        limit: How many questions are asked; None is all.
        max_arm_calls: Model calls of an arm, over all questions and those of the judge included, after which no
            further question begins; called again with more it goes on.
        max_arm_cost: The same in US dollars.
        max_concurrency: How many answers are generated or judged at once.
        retry_failed: Whether arms in which generator or judge failed are tried again.
        on_progress: Called with the progress after each arm of a question.
        policy: The policy of the loop.
        command: The options of the command line, by which `refine resume` can go on.
        settings: Settings of `Policy`, instead of a policy: `max_attempts=3`, ...

    Raises:
        ConfigurationError: If an argument cannot be used, or the folder holds another trial.
        BadSample: If a question cannot be read.
    """
    return finish(atrial(questions, generator, judge, **settings))


@naming_settings("await atrial(questions, generator, judge, truth=...)")
async def atrial(
    questions: _Questions,
    generator: object,
    judge: object,
    *,
    truth: object = None,
    arms: str | Sequence[str | Arm] = DEFAULT_ARMS,
    out: str | Path | None = None,
    draws: int = 1,
    temperature: float | None = None,
    seed: int | None = 0,
    baseline: str | None = None,
    limit: int | None = None,
    max_arm_calls: int | None = None,
    max_arm_cost: float | None = None,
    max_concurrency: int = 8,
    retry_failed: bool = False,
    on_progress: Callable[[Progress], object] | None = None,
    policy: Policy | Mapping[str, Any] | None = None,
    command: dict[str, Any] | None = None,
    **settings: Unpack[PolicySettings],
) -> Trial:
    """Run a trial without blocking the event loop; otherwise as `trial`."""
    counts = {"draws": draws, "max_concurrency": max_concurrency, "max_arm_calls": max_arm_calls}
    for name, count in counts.items():
        if count is not None:
            whole_number(count, setting=name)
    chosen = _checked_policy(policy_of(policy, settings), temperature)
    loop_judge = judge_for(generator, judge)
    true_judge = None if truth is None else _checked_truth(truth, loop_judge)
    plan = TrialPlan(
        questions=_read_questions(questions, limit),
        generator=generator,
        judge=loop_judge,
        truth=true_judge,
        truth_key="" if true_judge is None else fingerprint(true_judge),
        arms=read_arms(arms),
        policy=chosen,
        draws=draws,
        seed=seed,
    )
    named = _baseline(plan.arms, baseline)
    manifest = _manifest(plan, named, temperature, command)
    with _folder(out) as folder, _opened(folder, manifest):
        run = _TrialRun(
            plan,
            folder,
            _loops(plan),
            retry_failed=retry_failed,
            on_progress=on_progress,
            limits=_ArmLimits(calls=max_arm_calls, cost=max_arm_cost),
        )
        await run.run(max_concurrency)
        result = _result(run, plan, named, None if out is None else folder)
        if true_judge is None:
            _write_answers(folder, run.answers())
        result.write(folder)
        return result


def _result(run: _TrialRun, plan: TrialPlan, baseline: str, folder: Path | None) -> Trial:
    return Trial(
        rows=tuple(run.rows()),
        arms=tuple(arm.name for arm in plan.arms),
        baseline=baseline,
        max_attempts=plan.policy.max_attempts,
        failed=dict(sorted(run.failed.items())),
        stopped=run.stopped,
        folder=folder,
    )


def _checked_policy(policy: Policy, temperature: float | None) -> Policy:
    """Return the policy of the loop, with the temperature of all attempts.

    Raises:
        ConfigurationError: If arms under it would not be comparable, or nothing could be compared.
    """
    if policy.max_attempts < 2:  # noqa: PLR2004 - the first and one more
        raise ConfigurationError("a trial is about retries: max_attempts is a whole number from 2")
    if policy.candidates > 1 or policy.shadow or policy.sample_rate < 1 or policy.on_exhausted == "interrupt":
        raise ConfigurationError(
            "a trial goes with a loop of one candidate that judges every answer; leave out candidates, shadow, "
            "sample_rate and on_exhausted='interrupt'"
        )
    if temperature is None:
        return policy
    if policy.overrides:
        raise ConfigurationError(
            "temperature=... stands beside overrides, which set it by attempt; leave one of the two out"
        )
    return Policy(
        **{name: getattr(policy, name) for name in policy.model_fields_set},
        overrides={1: {"temperature": temperature}},
    )


def _read_questions(questions: _Questions, limit: int | None) -> list[Sample]:
    """Return the questions as samples.

    Raises:
        ConfigurationError: If there is none.
        BadSample: If one cannot be read, or asks nothing.
    """
    rows: Iterable[Any] = read_rows(questions) if isinstance(questions, str | Path) else questions
    samples = []
    for index, row in enumerate(islice(rows, limit)):
        sample = read_sample({"question": row} if isinstance(row, str) else row)
        if isinstance(sample, BadSample):
            raise sample
        if not sample.user_input:
            raise BadSample(f"the row at index {index} has no question; give one, or say which column holds it")
        samples.append(sample)
    if not samples:
        raise ConfigurationError("there are no questions; give at least one")
    return samples


def _checked_truth(truth: object, judge: Judge) -> Judge:
    """Return the truth as a judge.

    Raises:
        ConfigurationError: If it is the loop's own judge, which would mark its own work.
    """
    read = one_judge(truth) if isinstance(truth, str) else as_judge(truth)
    members = tuple(getattr(read, "judges", {}).values())
    if _without_name(judge) in {_without_name(read), *(map(_without_name, members) if len(members) == 1 else ())}:
        raise ConfigurationError(
            f"the truth is the loop's own judge {judge.name!r}, which would mark its own work; give another "
            f"judge, or none, and label the answers afterwards"
        )
    return read


def _without_name(judge: Judge) -> str:
    """Return a fingerprint of a judge that is the same whatever it is called."""
    made = getattr(judge, MADE_WITH, None)
    if not isinstance(made, Mapping):
        return fingerprint(judge)
    return fingerprint(type(judge), {name: value for name, value in made.items() if name != "name"})


def _baseline(arms: Sequence[Arm], baseline: str | None) -> str:
    names = [arm.name for arm in arms]
    if baseline is None:
        return BASELINE if BASELINE in names else FIRST
    if baseline not in names:
        raise ConfigurationError(f"baseline={shortened(baseline)} is none of the arms {', '.join(names)}")
    return baseline


def _loops(plan: TrialPlan) -> dict[str, Loop]:
    """Return the loop of each arm; one alone is built with the checks of a loop, so that they warn once."""
    loops = {
        arm.name: Loop(plan.generator, plan.judge, arm.policy(plan.policy), name=arm.name) for arm in plan.arms
    }
    return {**loops, FIRST: build_loop(plan.generator, plan.judge, plan.policy, name=FIRST)}


def _manifest(
    plan: TrialPlan, baseline: str, temperature: float | None, command: dict[str, Any] | None
) -> TrialManifest:
    digest = blake2b(digest_size=16)
    for sample in plan.questions:
        digest.update(row_json(sample) + b"\n")
    for part in (plan.judge, plan.truth):
        for model in () if part is None else part.models:
            getattr(model, "_model", None)  # a model by name is set up now: its fingerprint has its settings
    return TrialManifest(
        questions=digest.hexdigest(),
        count=len(plan.questions),
        generator=_name_of(plan.generator),
        judge=fingerprint(plan.judge),
        truth=plan.truth_key or None,
        arms={arm.name: _described(arm) for arm in plan.arms},
        baseline=baseline,
        draws=plan.draws,
        temperature=temperature,
        seed=plan.seed,
        policy=fingerprint({name: getattr(plan.policy, name) for name in plan.policy.model_fields_set - _COSTS}),
        command=command,
    )


def _described(arm: Arm) -> str:
    if arm.generator is not None:
        return f"asks {_name_of(arm.generator)}"
    if arm.augment is None:
        return ""
    return arm.augment if isinstance(arm.augment, str) else fingerprint(arm.augment)


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    if out is None:
        with TemporaryDirectory(prefix="refine-trial-") as temporary:
            yield Path(temporary)
        return
    if not str(out).strip():
        raise ConfigurationError("the folder of a trial is empty text; name one, such as trials/one")
    yield Path(out)


@contextmanager
def _opened(folder: Path, manifest: TrialManifest) -> Iterator[None]:
    """Begin a trial in its folder, or go on with it: hold its lock, and check that it is the same.

    Raises:
        ConfigurationError: If the folder holds something else, is in use, or something changed.
    """
    if (folder / "run.json").exists():
        raise ConfigurationError(f"{folder} holds a run of `refine evaluate`; choose another folder")
    make_folder(folder)
    with full_disk_told(folder), locked(folder):
        if (folder / MANIFEST).exists():
            changes = manifest.changes(TrialManifest.read(folder))
            if changes:
                raise ConfigurationError(
                    f"changed since {folder} began: {'; '.join(changes)}; undo it, or choose another folder"
                )
            (folder / SUMMARY).unlink(missing_ok=True)
        manifest.write(folder)
        yield
