"""`SelfRefine`: a runnable that takes the place of a chat model or an agent."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.store.base import BaseStore
from langgraph.types import Command, Durability

from graphs import Bounds, Outcome, Overrides, Policy, graph, langchain_private, langgraph_private, outcome_of
from graphs.augment import added_messages
from graphs.certified_loop import subject_of
from graphs.drivers import Flow, RunContext, adrive, drive, handing_on
from graphs.finish import rejection
from graphs.generators import GeneratorLike
from graphs.loop import Loop, arun, run
from graphs.policy import PolicySettings, fail_closed, policy_of
from graphs.questions import InputMode
from graphs.refinement import Refinement
from graphs.turns import ConcurrentTurns, OnNewQuestion
from judges import ConfigurationError, load
from judges.certificate import Subject
from judges.compose import JudgeLike
from judges.errors import shortened
from judges.first_guesses import HintsAtCalls, guesses
from judges.models.providers.openai_settings import parsed_name
from judges.runtime.faults import logging_safely
from judges.runtime.validation import SharedByCopies, check_picklable, naming_settings, one_of
from refine.promise_watch import watch_promise
from refine.question import AnswersQuestions, OutcomeListener
from refine.record import Recorder, open_record
from refine.record.rows import Origin
from refine.telemetry import trace_question

_GoesOn = Callable[[], bool]
"""Decides, each time that an answer was accepted, whether to go on."""

_ENDS = frozenset({"accepted", "max_attempts", "no_progress"})
"""Stop reasons by which the policy ends a loop; by the others it breaks off."""

_SILENT: RunnableConfig = {"callbacks": []}
"""Nobody listens to shadows: they belong to no request any more."""


def _explored(loop: Loop, outcome: Outcome, config: RunnableConfig, goes_on: _GoesOn) -> Flow[Outcome | None]:
    """Return an outcome with the shadows that `goes_on`, asked after each acceptance, lets be made.

    None means that a shadow failed or broke off, which is logged: the answer is there, and must go out.
    """
    try:
        refinement = yield from _go_on(loop, outcome, RunContext(config), goes_on)
    except Exception as error:  # noqa: BLE001 - as said
        reason = type(error).__name__
    else:
        if refinement.stop_reason in (None, *_ENDS):
            return outcome.model_copy(update={"attempts": refinement.attempts})
        reason = "an attempt failed"
    with logging_safely():
        _log.warning("a loop could not be explored, and is recorded as it was released: %s", reason)
    return None


def _go_on(loop: Loop, outcome: Outcome, run_context: RunContext, goes_on: _GoesOn) -> Flow[Refinement]:
    """Return the record with the shadows; one that broke off stopped it for a reason that is none of `_ENDS`."""
    context, conversation = RunContext(_SILENT), outcome.conversation
    begun = loop.override(loop.begin({"messages": conversation}), run_context.overrides)
    refinement = replace(
        begun, attempts=outcome.attempts, evidence=outcome.evidence, id=outcome.id, is_judged=True
    )
    accepted = outcome.stop_reason == "accepted"
    while accepted and not refinement.is_last and goes_on():
        refinement = replace(refinement, stop_reason=None, detail="", ended_at=None)
        refinement = refinement.add_messages(added_messages(refinement))
        refinement = yield from loop.attempts(refinement, conversation, context)
        accepted = refinement.stop_reason == "accepted"
    return refinement


_log = logging.getLogger("refine")

_Write = Callable[[Outcome, RunnableConfig, float | None], None]
_AWrite = Callable[[Outcome, RunnableConfig, float | None], Awaitable[None]]


class _Explorer:
    """Lets accepted loops go on with a probability, and records what comes of it.

    Args:
        probability: Of going on after each acceptance.
        loop: The loop.
    """

    def __init__(self, probability: float, loop: Loop) -> None:
        self._probability, self._loop = probability, loop

    @classmethod
    def of(cls, probability: object, loop: Loop, *, checkpointer: object, record: object) -> Self | None:
        """Return an explorer; None where nothing is to be explored.

        Raises:
            ConfigurationError: If the probability is out of range, nothing is recorded, or the loop cannot go on.
        """
        if probability is None:
            return None
        if isinstance(probability, bool) or not isinstance(probability, int | float) or not 0 < probability <= 1:
            raise ConfigurationError(
                f"explore is a probability above 0 and at most 1, not {shortened(probability)}"
            )
        if record is None:
            raise ConfigurationError("explore is for a record: give record='attempts.jsonl', too")
        if checkpointer:
            raise ConfigurationError("explore records without a checkpointer; leave one of the two out")
        policy = loop.policy
        if policy.shadow or policy.candidates > 1 or policy.on_exhausted == "interrupt":
            raise ConfigurationError(
                "explore goes with a loop of one candidate, without shadow=True or on_exhausted='interrupt'; "
                "leave explore out, or these"
            )
        return cls(float(probability), loop)

    def record(self, outcome: Outcome, config: RunnableConfig, write: _Write) -> None:
        """Explore and record an outcome; if exploring fails it is recorded as it is, which is logged."""
        explored = drive(_explored(self._loop, outcome, config, self._goes_on), RunContext(_SILENT))
        write(explored or outcome, config, None if explored is None else self._probability)

    async def arecord(self, outcome: Outcome, config: RunnableConfig, write: _AWrite) -> None:
        """Explore and record without blocking; otherwise as `record`."""
        explored = await adrive(_explored(self._loop, outcome, config, self._goes_on), RunContext(_SILENT))
        await write(explored or outcome, config, None if explored is None else self._probability)

    def _goes_on(self) -> bool:
        return random.random() < self._probability  # noqa: S311 - no secret


_PARTS = ("generator", "judge")
_Init = TypeVar("_Init", bound=Callable[..., None])


def _naming_parts(init: _Init) -> _Init:
    """Decorate an `__init__` so that it names the generator and the judge where these have other names.

    Raises:
        TypeError: If a part is missing and something is given by a name that one may guess for it.
    """

    @wraps(init)
    def named(self: object, *parts: object, **settings: object) -> None:
        called = guesses("generator and judge")
        for part in _PARTS[len(parts) :]:
            guess = next((name for name in settings if called.get(name) == part), None)
            if guess is not None and part not in settings:
                also = ", which takes a list of judges, too" if part == "judge" else ""
                name = type(self).__name__
                raise TypeError(f"{name}() has no argument {guess!r}; it is {part}=... here{also}")
        init(self, *parts, **settings)

    return named  # type: ignore[return-value]  # as it wraps


_LONGEST_NAME = 80
_OUTPUT = ["messages", langgraph_private.SUMMARY, langgraph_private.RECORD]


class SelfRefine(HintsAtCalls, SharedByCopies, AnswersQuestions):
    """Refine a generator's answers until a judge accepts them.

    A LangChain runnable from a question to the accepted answer: as a chat model it takes text, messages or a
    prompt value and returns the message; as an agent, or as a node of a graph, it takes a mapping with `messages`
    and returns `{"messages": [answer]}`, with a summary under `refine` where the mapping or the graph's state has
    that key. The answer's `response_metadata["refine"]` sums up the attempts; `refine` and `arefine` return the
    whole `Outcome`. Nothing of a rejected draft is returned or streamed. Progress is sent as custom events named
    `refine.*`.

    The `recursion_limit` of a config bounds the steps of an agent inside, never the loop, which bounds itself. The
    defaults that LangChain, LangGraph and `create_agent` fill in (25, 10,007, 9,999) count as none: an agent then
    has its own limit.

    Args:
        generator: A chat model or its `"provider:model"` name, a `judges.OpenAICompatible` or its name
            (`"openai-compatible:MODEL@BASE_URL"`), a runnable, a compiled agent graph, or a function of the list
            of messages, sync or async.
        judge: A judge, a function, a judge's name, or a list of these (see `judges.as_judge`). A judge that is
            given by name and asks a model, as `"helpfulness"`, asks the generator, if that is a chat model.
        policy: When to accept and when to stop, instead of `settings`: a `Policy`, or a mapping of its settings.
        checkpointer: A LangGraph checkpointer, for conversations with memory and for reviews by a human; the
            config must then hold `{"configurable": {"thread_id": ...}}`. `"inherit"` says that the graph around
            has one: `on_exhausted="interrupt"` needs this or a checkpointer. Inside a graph or an agent LangGraph
            uses the checkpointer of the graph around, if any, and not this one; a WARNING in the log says so once.
        store: A LangGraph store, for the nodes of an agent used as generator.
        record: Where every outcome is recorded: the path of a file of JSON lines, to which each attempt is
            appended as a sample; `"sqlite:///record.db"` or `"postgresql://user@host/database"`, for figures
            without texts; or a `refine.record.DatabaseRecord`, which has more settings. What cannot be written is
            a WARNING of the logger `refine` and counted in `refine.losses()`; it never costs the answer.
        durability: How soon LangGraph writes a checkpoint: `"sync"` repeats at most one call after a crash,
            `"exit"` writes only the final state, and is fastest: after a crash, or where a judge stops to ask a
            human, the attempts of the turn are made again. None is `"sync"`, or what the run of a graph around
            says.
        name: Name of the run in a trace, in events and in the log.
        concurrent_turns: What becomes of a turn while another one runs on its thread of the checkpointer:
            `"queue"` lets it wait, at most for the policy's `deadline_s`; `"refuse"` raises `ConcurrentTurn` at
            once. What holds between processes is said at `graphs.self_refine`.
        on_new_question: What becomes of a new question while the turn before waits for a human: `"refuse"` or
            `"supersede"`, see `graphs.self_refine`.
        bounds: How far a request may go with its `context`; None allows what is stricter or cheaper than the
            policy.
        explore: Probability of going on after an answer was accepted, above 0 and at most 1, to record what a
            stricter policy would have come to. The answer stays the accepted one, but comes only after that: for
            recording, not for people who wait. Not inside a graph, nor with a checkpointer.
        on_outcome: Called with the `Outcome` of every question, sync or async, also of one without an answer.
            What it raises is a WARNING of the logger `refine`.
        piece_judge: Under `release="pieces"`, what judges pieces, outright; the judge then judges the whole when
            its last piece is out. None takes what of the judge holds for a part of an answer.
        input_judge: A judge of the question alone, such as `"prompt_injection"`: any that needs no more than the
            question, or a text, which is then the question; or a list of them. A question that it refuses is not
            answered: there is the fallback text, or `QuestionRefused`; a checkpointer's conversation goes on
            without it. Where it gives no verdict, `on_judge_error` decides. Its calls are in the budget.
        input_mode: `"beside"` asks it beside the first draft, whose call is cancelled if it refuses, so that it
            costs no time; `"before"` asks it first, so that nothing is generated for a refused question.
        settings: Settings of `Policy`, for instance `success_rating=4, max_attempts=3`, or
            `certificate="certificate.json"`, which sets the success rating and is refused for another loop.

    Raises:
        ConfigurationError: If a setting is unknown or out of range, or `generator` or `judge` is unusable.
    """

    _guesses_at = "a refiner"

    @_naming_parts
    @naming_settings("SelfRefine(generator, judge), for instance SelfRefine('openai:gpt-5-mini', 'helpfulness')")
    def __init__(
        self,
        generator: GeneratorLike,
        judge: JudgeLike,
        *,
        policy: Policy | Mapping[str, Any] | None = None,
        checkpointer: graph.LoopCheckpointer = None,
        store: BaseStore | None = None,
        record: str | Path | Recorder | None = None,
        durability: Durability | None = None,
        name: str = "SelfRefine",
        concurrent_turns: ConcurrentTurns = "queue",
        on_new_question: OnNewQuestion = "refuse",
        bounds: Bounds | None = None,
        explore: float | None = None,
        on_outcome: Callable[[Outcome], object] | None = None,
        piece_judge: object = None,
        input_judge: object = None,
        input_mode: InputMode = "beside",
        **settings: Unpack[PolicySettings],
    ) -> None:
        self.name = name
        self._generator_name = _name_of(generator)
        self.policy = policy_of(policy, settings)
        judge = graph.judge_for(generator, judge)
        self._loop = graph.build_loop(
            generator,
            judge,
            self.policy,
            name=name,
            bounds=bounds,
            piece_judge=piece_judge,
            questions=graph.input_judging(input_judge, input_mode, generator=generator),
        )
        parts = {"generator": generator, "judge": judge, "policy": self.policy, "store": store}
        self._parts: dict[str, Any] = parts
        self._settings: dict[str, Any] = {
            "checkpointer": checkpointer,
            "record": record,
            "durability": durability,
            "name": name,
            "concurrent_turns": concurrent_turns,
            "on_new_question": on_new_question,
            "bounds": bounds,
            "explore": explore,
            "on_outcome": on_outcome,
            "piece_judge": piece_judge,
            "input_judge": input_judge,
            "input_mode": input_mode,
        }
        self._durability: dict[str, Any] = {} if durability is None else {"durability": durability}
        self.graph = self._compile(durability)
        self._record = None if record is None else open_record(record)
        self._origin = (
            Origin() if record is None else Origin.of(name, self._loop.judged_by, self.policy, generator=generator)
        )
        self._watch = None if self.policy.certificate is None else watch_promise(self._record, self._loop)
        self._listener = OutcomeListener(on_outcome)
        self._explorer = _Explorer.of(explore, self._loop, checkpointer=checkpointer, record=record)
        self._warned_of_memory = False

    def _compile(self, durability: Durability | None) -> graph.LoopGraph:
        """Return the graph of the loop, which is one node where nothing is saved before the turn ends."""
        if durability is not None:
            one_of(Durability, durability, setting="durability")
        return graph.compile_loop(
            self._loop,
            checkpointer=self._settings["checkpointer"],
            store=self._parts["store"],
            name=f"{self.name} loop",
            concurrent_turns=self._settings["concurrent_turns"],
            on_new_question=self._settings["on_new_question"],
            single_node=durability == "exit" and not self._loop.may_interrupt,
        )

    @classmethod
    def grounded(
        cls, generator: GeneratorLike, judge_model: object = None, *, threshold: float = 1.0, **settings: Any
    ) -> Self:
        """Return one that lets out only answers whose every sentence contexts or tools' results support.

        It fails closed: of any other answer, of one that the judge gives no verdict on, and of one without
        evidence, the `fallback` text is left, or an error where none is given. Evidence comes with the question,
        `evidence={"retrieved_contexts": [...]}`, or from the generator, with its contexts or its tools.

        Args:
            generator: As for the class.
            judge_model: The judge's model, as `judges.load` takes it; None asks the generator, if that is one.
            threshold: The share of sentences that must be supported; a contradicted one is never forgiven.
            settings: Other settings of the class.

        Raises:
            ConfigurationError: If a setting lets another answer out, or cannot be used.
        """
        model = generator if judge_model is None else judge_model
        judge = load("groundedness", model=model, threshold=threshold)
        return cls(generator, judge, **fail_closed(settings, called="grounded"))

    @property
    def generator(self) -> Any:
        """The generator, as it was given."""
        generator: GeneratorLike = self._parts["generator"]
        return generator

    @property
    def judge(self) -> Any:
        """The judge; one that was given by its name is loaded."""
        return self._parts["judge"]

    @property
    def subject(self) -> Subject:
        """What a certificate of this loop is about; recorded attempts say so, too."""
        return subject_of(self._loop.judged_by, self.policy, self.generator)

    def around(self, **parts: object) -> Self:
        """Return the same with another `generator` or `judge`."""
        return type(self)(**{**self._parts, **parts}, **self._settings)

    @property
    def checkpointer(self) -> graph.Checkpointer:
        """The checkpointer that keeps its conversations, or None."""
        return self.graph.checkpointer

    def __repr__(self) -> str:
        settings = f"{self.policy.acceptance}, max_attempts={self.policy.max_attempts}"
        return f"SelfRefine({self._generator_name}, {self._loop.judge_name!r}, {settings})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._settings["checkpointer"] not in (None, False, "inherit"):
            raise ConfigurationError("a SelfRefine with a checkpointer is not pickled; make it in each process")
        for name, part in self._parts.items():
            check_picklable(part, f"the {name} of this SelfRefine", "make it in each process")
        return partial(type(self), **self._parts, **self._settings), ()

    def _outcome(self, graph_input: Any, config: RunnableConfig) -> Outcome:
        with trace_question(self._loop.name, texts=self.policy.log_texts) as on_outcome:
            outcome = self._run(graph_input, config)
            on_outcome(outcome)
        return outcome

    async def _aoutcome(self, graph_input: Any, config: RunnableConfig) -> Outcome:
        with trace_question(self._loop.name, texts=self.policy.log_texts) as on_outcome:
            outcome = await self._arun(graph_input, config)
            on_outcome(outcome)
        return outcome

    def _run(self, graph_input: Any, config: RunnableConfig) -> Outcome:
        try:
            if self._needs_graph(graph_input, config):
                graph_config = handing_on(langgraph_private.muted_config_with_progress(config))
                with langchain_private.use_config(graph_config):
                    state = self.graph.invoke(
                        graph_input, graph_config, output_keys=_OUTPUT, **self._saving(config)
                    )
                outcome = self._final_outcome(state, graph_config)
            else:
                outcome = run(self._loop, graph_input, config)
                if self._explorer is not None:
                    self._explorer.record(outcome, config, self._write)
                    self._listener.tell(outcome)
                    return outcome
        except BaseException as error:
            unanswered = outcome_of(error)
            if unanswered is not None:
                self._write(unanswered, config)
                self._listener.tell(unanswered)
            raise
        self._write(outcome, config)
        self._listener.tell(outcome)
        return outcome

    async def _arun(self, graph_input: Any, config: RunnableConfig) -> Outcome:
        try:
            if self._needs_graph(graph_input, config):
                graph_config = handing_on(langgraph_private.muted_config_with_progress(config))
                with langchain_private.use_config(graph_config):
                    state = await self.graph.ainvoke(
                        graph_input, graph_config, output_keys=_OUTPUT, **self._saving(config)
                    )
                outcome = self._final_outcome(state, graph_config)
            else:
                outcome = await arun(self._loop, graph_input, config)
                if self._explorer is not None:
                    await self._explorer.arecord(outcome, config, self._awrite)
                    await self._listener.atell(outcome)
                    return outcome
        except BaseException as error:
            unanswered = outcome_of(error)
            if unanswered is not None and isinstance(error, Exception):
                await self._awrite(unanswered, config)
            elif unanswered is not None:  # what is cancelled cannot wait
                self._write(unanswered, config)
            if unanswered is not None:
                await self._listener.atell(unanswered)
            raise
        await self._awrite(outcome, config)
        await self._listener.atell(outcome)
        return outcome

    def _with_overrides(self, config: RunnableConfig | None, context: object) -> RunnableConfig | None:
        """Return the config of a run that carries what its request changes.

        Raises:
            InputError: If the context cannot be read or goes beyond the bounds.
        """
        overrides = Overrides.read(context)
        self._loop.check_overrides(overrides)
        return langgraph_private.carry(config, langgraph_private.OVERRIDES, overrides)

    def _needs_graph(self, graph_input: Any, config: RunnableConfig) -> bool:
        """Check whether there is anything to checkpoint or resume; if not, the steps run without the graph."""
        return isinstance(graph_input, Command) or self._is_saved(config)

    def _is_saved(self, config: RunnableConfig) -> bool:
        """Check whether a checkpointer saves the run: that of a graph around, if there is one, or else its own."""
        if self.graph.checkpointer is False:
            return False
        if not config.get("configurable") or not langgraph_private.inherits_checkpointer(config):
            return bool(self.graph.checkpointer)
        if self.graph.checkpointer and self.graph.checkpointer is not True:
            self._warn_of_memory()
        return langgraph_private.has_checkpointer(config)

    def _saving(self, config: RunnableConfig) -> dict[str, Any]:
        """Return how soon the graph is to save; LangGraph takes no such setting where nothing saves."""
        return self._durability if self._is_saved(config) else {}

    def _warn_of_memory(self) -> None:
        if self._warned_of_memory:
            return
        self._warned_of_memory = True
        _log.warning(
            "%s runs inside a graph, where its own checkpointer is not used: LangGraph saves there with the "
            "checkpointer of the graph around it, if that has one; give the checkpointer to that graph",
            self.name,
        )

    def _is_resumable(self, config: RunnableConfig | None) -> bool:
        """Check whether a checkpointer keeps the conversation, so that None resumes an interrupted turn."""
        return bool(self.graph.checkpointer) and self._is_saved(ensure_config(config))

    def _final_outcome(self, state: Mapping[str, Any], config: RunnableConfig) -> Outcome:
        """Return the outcome that the graph's final state holds."""
        data = state[langgraph_private.RECORD]
        written = graph.recall_step(data, config)
        refinement = self._loop.read(data) if written is None else written.refinement
        if refinement.decision == "rejected":
            raise rejection(Outcome.of(refinement, state["messages"], None, now=time.time()))
        if written is not None and written.outcome is not None:
            return written.outcome
        if state.get(langgraph_private.SUMMARY) is None:
            return Outcome.waiting(refinement, state["messages"], now=time.time())
        *conversation, answer = state["messages"]
        return Outcome.of(refinement, conversation, answer, now=time.time())

    def _write(self, outcome: Outcome, config: RunnableConfig, explored: float | None = None) -> None:
        if self._record is None:
            return
        if self._watch is not None:
            self._watch.start()
        overrides, policy = RunContext(config).overrides, self._loop.policy
        changed = policy if overrides is None else overrides.applied_to(policy)
        origin = self._origin if changed is self.policy else self._origin.under(changed)
        thread = (config.get("configurable") or {}).get("thread_id")
        if explored is not None or thread is not None:
            thread_id = None if thread is None else str(thread)
            origin = replace(origin, continuation_probability=explored, thread=thread_id)
        self._record.add(outcome, origin)

    async def _awrite(self, outcome: Outcome, config: RunnableConfig, explored: float | None = None) -> None:
        if self._record is None or not getattr(self._record, "blocks", True):
            self._write(outcome, config, explored)
            return
        try:
            await asyncio.to_thread(self._write, outcome, config, explored)
        except RuntimeError:  # the pool of threads is shut down: `add` itself raises nothing
            self._write(outcome, config, explored)


def _name_of(generator: object) -> str:
    """Return what a generator calls itself: a model's name, a function's, or else its class."""
    names = [getattr(generator, attribute, None) for attribute in ("model_name", "model", "name", "__name__")]
    parts = parsed_name(generator)
    candidates = [generator if parts is None else parts[0], *names, type(generator).__name__]
    return next(repr(name) for name in candidates if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME)
